//! Episodes whose windows a GPU makes. `robocache.EpisodeCache` uses this.

use std::sync::Arc;

use pyo3::prelude::*;
use robocache_data::episodes::device::{DevicePlanned, DeviceRequest, EpisodesOnDevice, RowMemory};
use robocache_data::episodes::{Choice, WindowBatch};
use robocache_ops::windows::cuda::DeviceItems;

use crate::episodes::{Episodes, WindowPlan, raised, threads};
use crate::freeing::Unlocked;
use crate::operations::{Place, device, stream_of};

/// Rows of many episodes, for a GPU.
#[pyclass(frozen, module = "robocache._native")]
pub struct DeviceEpisodes(Unlocked<Arc<EpisodesOnDevice>>);

/// Windows on a GPU, prepared.
#[pyclass(frozen, module = "robocache._native")]
pub struct DeviceWindowPlan(Unlocked<Arc<DevicePlanned>>);

/// Takes the rows of episodes to where a GPU reaches them.
pub fn on_device(
    py: Python<'_>,
    episodes: &robocache_data::episodes::Episodes,
    number: i32,
    memory: &[String],
    device_bytes: Option<usize>,
    pinned_bytes: Option<usize>,
) -> PyResult<DeviceEpisodes> {
    let of_streams = memory.iter().map(|name| RowMemory::of_name(name));
    let of_streams = of_streams.collect::<Result<Vec<_>, _>>().map_err(raised)?;
    let room = robocache_data::episodes::device::Room { of_streams, device_bytes, pinned_bytes };
    let made = py.detach(|| EpisodesOnDevice::new(episodes, &device(number)?, &room));
    Ok(DeviceEpisodes(Unlocked::new(Arc::new(made.map_err(raised)?))))
}

#[pymethods]
impl DeviceEpisodes {
    /// The episodes, with the rows where they are now.
    fn episodes(&self) -> Episodes {
        Episodes(Unlocked::new(Arc::clone(self.0.episodes())))
    }

    /// Per stream where its rows are: `device`, `pinned` or `mapped`.
    fn memory(&self) -> Vec<&'static str> {
        self.0.memory().map(RowMemory::name).collect()
    }

    /// Prepares windows; `choices` is JSON, or None for what the node makes.
    #[pyo3(signature = (choices=None))]
    fn plan(&self, py: Python<'_>, choices: Option<&str>) -> PyResult<DeviceWindowPlan> {
        let choices = choices.map(Choice::list).transpose().map_err(raised)?;
        let plan = || self.0.plan(self.0.episodes().plan(choices.as_deref())?);
        let made = py.detach(plan).map_err(raised)?;
        Ok(DeviceWindowPlan(Unlocked::new(Arc::new(made))))
    }
}

/// Numbers of the bytes of an int64 array.
fn numbers(bytes: &[u8]) -> Vec<i64> {
    bytes.as_chunks::<8>().0.iter().map(|bytes| i64::from_le_bytes(*bytes)).collect()
}

#[pymethods]
impl DeviceWindowPlan {
    /// The same windows on the host.
    fn host(&self, episodes: &DeviceEpisodes) -> WindowPlan {
        WindowPlan::new(Arc::clone(episodes.0.episodes()), self.0.planned().clone())
    }

    /// Puts the windows of a batch on a stream of the GPU. `out` is the address of memory there and its length in bytes. The
    /// others are the bytes of int64 arrays.
    #[pyo3(signature = (place, out, episodes, instants_ns, epochs=None, latency_ns=None, threads=None))]
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
        let (episodes, instants) = (numbers(episodes), numbers(instants_ns));
        let epochs = epochs.map(numbers);
        let latency = latency_ns.map(numbers).unwrap_or_default();
        let request = DeviceRequest::Host(WindowBatch {
            episodes: &episodes,
            instants_ns: &instants,
            epochs: epochs.as_deref(),
            latency_ns: &latency,
        });
        self.put(py, place, out, request, threads)
    }

    /// The same for items on the GPU: how many, and the addresses of their episodes, instants and epochs (0 for the
    /// latest).
    #[pyo3(signature = (place, out, windows, items, latency_ns=None))]
    fn launch_items(
        &self,
        py: Python<'_>,
        place: Place,
        out: (u64, usize),
        windows: usize,
        items: (u64, u64, u64),
        latency_ns: Option<&[u8]>,
    ) -> PyResult<()> {
        let latency = latency_ns.map(numbers).unwrap_or_default();
        let (episodes, instants, epochs) = items;
        let items = DeviceItems::Device { windows, episodes, instants, epochs };
        let request = DeviceRequest::Device { items, latency_ns: &latency };
        self.put(py, place, out, request, None)
    }
}

impl DeviceWindowPlan {
    fn put(
        &self,
        py: Python<'_>,
        place: Place,
        out: (u64, usize),
        request: DeviceRequest<'_>,
        count: Option<usize>,
    ) -> PyResult<()> {
        let threads = threads(count);
        let put = || {
            let stream = stream_of(self.0.device(), place);
            // SAFETY: Python's side has made the output, of the size of the layout, and has checked the shapes of
            // arrays on the device. The caller's stream orders this with the use and the release of the arrays,
            // as for any kernel of the array library. No launch there overlaps with the one before it.
            unsafe { self.0.launch(request, out, &stream, threads) }
        };
        py.detach(put).map_err(raised)
    }
}
