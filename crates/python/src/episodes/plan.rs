//! Plans of windows. `robocache.training.windows.WindowPlan` is one.

use std::sync::Arc;

#[cfg(feature = "cuda")]
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
#[cfg(feature = "cuda")]
use robocache_data::episodes::device::DeviceRequest;
use robocache_data::episodes::{self, AskedActions, Choice, WindowBatch};
#[cfg(feature = "cuda")]
use robocache_ops::windows::cuda::DeviceItems;
use robocache_ops::windows::{self, PartKind};

#[cfg(feature = "cuda")]
use super::device;
use super::{Episodes, raised};
use crate::dlpack::Array;
use crate::freeing::Unlocked;
#[cfg(feature = "cuda")]
use crate::operations::Place;

/// A part of the buffer: number of the stream, what it holds, first byte.
type BufferPart = (usize, &'static str, usize);

/// Windows of episodes, prepared where they are made. `robocache.training.windows.WindowPlan` derives from it.
#[pyclass(frozen, subclass, module = "robocache._native")]
pub struct WindowPlan {
    episodes: Unlocked<Arc<episodes::Episodes>>,
    plan: windows::WindowPlan,
    #[cfg(feature = "cuda")]
    on_gpu: Option<device::PlanOnGpu>,
}

/// The numbers that ask for a batch. Python's side gives them as the bytes of int64: to read an array by its interface
/// takes several times as long as the rest of a call.
struct BatchNumbers {
    episodes: Vec<i64>,
    instants: Vec<i64>,
    epochs: Option<Vec<i64>>,
    latency: Vec<i64>,
}

impl BatchNumbers {
    /// Episodes, instants, epochs and latencies.
    fn new(
        episodes: &[u8],
        instants_ns: &[u8],
        epochs: Option<&[u8]>,
        latency_ns: Option<&[u8]>,
    ) -> Self {
        BatchNumbers {
            episodes: numbers(episodes),
            instants: numbers(instants_ns),
            epochs: epochs.map(numbers),
            latency: latency_ns.map(numbers).unwrap_or_default(),
        }
    }

    /// The batch that they ask for.
    fn batch(&self) -> WindowBatch<'_> {
        WindowBatch {
            episodes: &self.episodes,
            instants_ns: &self.instants,
            epochs: self.epochs.as_deref(),
            latency_ns: &self.latency,
        }
    }
}

/// Numbers of their bytes.
fn numbers(bytes: &[u8]) -> Vec<i64> {
    bytes.as_chunks().0.iter().map(|number| i64::from_ne_bytes(*number)).collect()
}

#[pymethods]
impl WindowPlan {
    /// Prepares windows of `Episodes`, or of `DeviceEpisodes` on their GPU. `choices` is JSON, or None for what the node
    /// makes.
    #[new]
    #[pyo3(signature = (episodes, choices=None))]
    fn new(py: Python<'_>, episodes: &Bound<'_, PyAny>, choices: Option<&str>) -> PyResult<Self> {
        let choices = choices.map(Choice::list).transpose().map_err(raised)?;
        #[cfg(feature = "cuda")]
        if let Ok(on_device) = episodes.cast::<device::DeviceEpisodes>() {
            let (episodes, plan, on_gpu) = on_device.get().plan(py, choices.as_deref())?;
            let episodes = Unlocked::new(episodes);
            return Ok(WindowPlan { episodes, plan, on_gpu: Some(on_gpu) });
        }
        let episodes = &episodes.cast::<Episodes>()?.get().0;
        let plan = py.detach(|| episodes.plan(choices.as_deref())).map_err(raised)?;
        Ok(WindowPlan {
            episodes: Unlocked::new(Arc::clone(episodes)),
            plan,
            #[cfg(feature = "cuda")]
            on_gpu: None,
        })
    }

    /// The streams: name, element type, offsets of the targets.
    #[pyo3(name = "_of_streams")]
    fn of_streams(&self) -> Vec<(String, &'static str, Vec<i64>)> {
        let streams = self.plan.streams().iter();
        streams.map(|of| (of.name.clone(), of.dtype.name(), of.offsets_ns.clone())).collect()
    }

    /// The JSON of the contract of these windows. `actions` is JSON: those that the policy answers.
    #[pyo3(name = "_contract_json")]
    fn contract_json(&self, actions: &str) -> PyResult<String> {
        let actions = AskedActions::list(actions).map_err(raised)?;
        let contract = self.episodes.contract(&self.plan, &actions).map_err(raised)?;
        Ok(contract.to_string())
    }

    /// Bytes of the buffer of `windows` windows, and its parts: stream, what it holds, first byte.
    #[pyo3(name = "_parts")]
    fn parts(&self, windows: usize) -> PyResult<(usize, Vec<BufferPart>)> {
        let layout = self.plan.layout(windows).map_err(|error| raised(error.into()))?;
        let name = |kind| match kind {
            PartKind::Values => "values",
            PartKind::Coordinates => "coordinates",
            PartKind::Ages => "age_ns",
            PartKind::Counts => "count",
            PartKind::Valid => "valid",
        };
        let parts =
            layout.parts.iter().map(|part| (part.stream, name(part.kind), part.byte_offset));
        Ok((layout.byte_len, parts.collect()))
    }

    /// Writes the windows of a batch into `out`, bytes in the layout of this many windows. The others are bytes of
    /// int64.
    #[pyo3(name = "_run", signature = (episodes, instants_ns, out, epochs=None, latency_ns=None, threads=None))]
    #[allow(clippy::too_many_arguments)] // the interpreter, four arrays, and how
    fn run(
        &self,
        py: Python<'_>,
        episodes: &[u8],
        instants_ns: &[u8],
        out: &Bound<'_, PyAny>,
        epochs: Option<&[u8]>,
        latency_ns: Option<&[u8]>,
        threads: Option<usize>,
    ) -> PyResult<()> {
        let asked = BatchNumbers::new(episodes, instants_ns, epochs, latency_ns);
        let mut out = Array::read(out, "out", -1)?;
        let bytes = out.bytes_mut("out")?;
        let threads = super::threads(threads);
        let run = || self.episodes.windows(&self.plan, asked.batch(), bytes, threads);
        py.detach(run).map_err(raised)
    }

    /// Puts the windows of a batch on a stream of the GPU. `out` is the address of memory there and its length in bytes. The
    /// others are bytes of int64.
    #[cfg(feature = "cuda")]
    #[pyo3(name = "_launch", signature = (place, out, episodes, instants_ns, epochs=None, latency_ns=None, threads=None))]
    #[allow(clippy::too_many_arguments)] // the interpreter, where, four arrays, and how
    fn launch(
        &self,
        py: Python<'_>,
        place: Place,
        out: (u64, usize),
        episodes: &[u8],
        instants_ns: &[u8],
        epochs: Option<&[u8]>,
        latency_ns: Option<&[u8]>,
        threads: Option<usize>,
    ) -> PyResult<()> {
        let asked = BatchNumbers::new(episodes, instants_ns, epochs, latency_ns);
        self.on_gpu()?.put(py, place, out, DeviceRequest::Host(asked.batch()), threads)
    }

    /// Launches a batch of items on the GPU: how many, and the addresses of their episodes, instants and epochs (0 for
    /// the latest).
    #[cfg(feature = "cuda")]
    #[pyo3(name = "_launch_items", signature = (place, out, windows, items, latency_ns=None))]
    fn launch_items(
        &self,
        py: Python<'_>,
        place: Place,
        out: (u64, usize),
        windows: usize,
        items: (u64, u64, u64),
        latency_ns: Option<&[u8]>,
    ) -> PyResult<()> {
        let latency_ns = &latency_ns.map(numbers).unwrap_or_default();
        let (episodes, instants, epochs) = items;
        let items = DeviceItems::Device { windows, episodes, instants, epochs };
        let request = DeviceRequest::Device { items, latency_ns };
        self.on_gpu()?.put(py, place, out, request, None)
    }
}

#[cfg(feature = "cuda")]
impl WindowPlan {
    fn on_gpu(&self) -> PyResult<&device::PlanOnGpu> {
        let lacks = || PyValueError::new_err("plan: expected one on a GPU, found one of the host");
        self.on_gpu.as_ref().ok_or_else(lacks)
    }
}
