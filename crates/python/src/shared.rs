//! Tensors of a node in shared memory, and chunks of actions that go back.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use robocache_core::command::ReceivedStatus;
use robocache_core::message::{MessageError, Places, TensorInfo};
use robocache_ops::time::Stamp;
use robocache_shared::{ActionWriter, Answered, SharedError, TensorReader, TensorSample};
use serde_json::json;

use crate::dlpack::{Array, TensorElement};
use crate::errors::{failed, wrong};
use crate::freeing::without_lock;
use crate::message::{self, Head, PlacesFound};
use crate::process::Process;
use crate::tensor::array_interface;

/// The longest wait without a look at Python's signals.
const SLICE: Duration = Duration::from_millis(100);

/// Reads the tensors that a node shares under a name.
#[pyclass(frozen, module = "robocache._native")]
pub struct SharedReader {
    /// `None` after `close`.
    reader: OfProcess<Mutex<Option<TensorReader>>>,
    /// Places of the parts of the newest run's tensors.
    places: Mutex<Option<(u64, Arc<Places>)>>,
    process: Process,
}

/// A value that only the process that made it drops, and without the interpreter's lock. A forked process must not
/// give back memory that its parent reads.
struct OfProcess<T: Send> {
    value: Option<T>,
    process: Process,
}

impl<T: Send> OfProcess<T> {
    fn new(value: T) -> Self {
        OfProcess { value: Some(value), process: Process::this() }
    }

    fn get(&self) -> &T {
        match &self.value {
            Some(value) => value,
            None => unreachable!("it is there until it is dropped"),
        }
    }
}

impl<T: Send> Drop for OfProcess<T> {
    fn drop(&mut self) {
        let value = self.value.take();
        match self.process.is_this() {
            true => without_lock(|| drop(value)),
            false => std::mem::forget(value),
        }
    }
}

impl SharedReader {
    /// A sample with the places of its parts, which are found once in a run.
    fn tensor(&self, sample: Option<TensorSample>) -> PyResult<Option<SharedTensor>> {
        let Some(sample) = sample else { return Ok(None) };
        let mut known = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let places = match &*known {
            Some((run, places)) if *run == sample.run() => Arc::clone(places),
            _ => Arc::new(Places::read(sample.message()).map_err(failed)?),
        };
        *known = Some((sample.run(), Arc::clone(&places)));
        Ok(Some(SharedTensor { sample: OfProcess::new(sample), places }))
    }

    /// Uses the reader without the interpreter's lock.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        act: impl FnOnce(&mut TensorReader) -> Result<T, SharedError> + Send,
    ) -> PyResult<T> {
        self.process.check("a TensorReader")?;
        py.detach(|| {
            let mut reader = self.reader.get().lock().unwrap_or_else(PoisonError::into_inner);
            let reader = reader.as_mut().ok_or_else(|| failed("the TensorReader is closed"))?;
            act(reader).map_err(failed)
        })
    }
}

#[pymethods]
impl SharedReader {
    #[new]
    fn new(py: Python<'_>, service: &str) -> PyResult<Self> {
        let reader = py.detach(|| TensorReader::new(service)).map_err(exception)?;
        let reader = OfProcess::new(Mutex::new(Some(reader)));
        Ok(SharedReader { reader, places: Mutex::default(), process: Process::this() })
    }

    /// The newest tensor that was not taken yet; `None` if none came in time.
    fn wait(&self, py: Python<'_>, patience_s: Option<f64>) -> PyResult<Option<SharedTensor>> {
        let until = match patience_s {
            Some(patience) if patience.is_nan() || patience < 0.0 => {
                let text = format!("timeout_s: expected no negative number, found {patience}");
                return Err(PyValueError::new_err(text));
            }
            // What is too long for the clock is without end.
            Some(patience) => {
                let patience = Duration::try_from_secs_f64(patience).unwrap_or(Duration::MAX);
                Instant::now().checked_add(patience)
            }
            None => None,
        };
        loop {
            let left = until.map_or(SLICE, |until| until.saturating_duration_since(Instant::now()));
            let taken = self.with(py, |reader| reader.wait(left.min(SLICE)))?;
            if taken.is_some() || left.is_zero() {
                return self.tensor(taken);
            }
            // It may have ended early: a signal came.
            py.check_signals()?;
        }
    }

    /// The newest tensor that was not taken yet; `None` if there is none.
    fn latest(&self, py: Python<'_>) -> PyResult<Option<SharedTensor>> {
        let taken = self.with(py, TensorReader::latest)?;
        self.tensor(taken)
    }

    /// Meaning of the tensors, as JSON: the fields of `robocache_ros/msg/FusedTensorInfo`. `None` if nothing has come.
    fn info(&self, py: Python<'_>) -> PyResult<Option<String>> {
        info_read(self.with(py, |reader| Ok(reader.info()?.map(TensorInfo::read)))?)
    }

    /// True if a node has made the service.
    #[getter]
    fn is_open(&self, py: Python<'_>) -> PyResult<bool> {
        self.with(py, |reader| Ok(reader.is_open()))
    }

    /// The names under which nodes share tensors.
    fn services(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        self.with(py, |reader| reader.services())
    }

    /// Tensors that came and went while nobody looked.
    #[getter]
    fn missed(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |reader| Ok(reader.missed()))
    }

    /// Tensors that were copied, because the caller keeps as many as a reader may.
    #[getter]
    fn copied(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |reader| Ok(reader.copied()))
    }

    /// Ends the reader. Tensors that it gave stay valid.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.process.check("a TensorReader")?;
        py.detach(|| drop(self.reader.get().lock().unwrap_or_else(PoisonError::into_inner).take()));
        Ok(())
    }
}

/// Sends chunks of actions to a node.
#[pyclass(frozen, module = "robocache._native")]
pub struct SharedWriter {
    /// `None` after `close`.
    writer: OfProcess<Mutex<Option<ActionWriter>>>,
    process: Process,
}

/// Stamp \[ns\], run and stage; the newest chunk and its delay; the chunks that were refused, with their reasons; chunks, late
/// chunks and late rows; and clipped commands per joint.
type StatusFound = (
    (i64, u64, &'static str, &'static str),
    Option<(u64, i64)>,
    Vec<(u64, &'static str)>,
    (u64, u64, u64, u64),
    Vec<(String, u64)>,
);

impl SharedWriter {
    /// Uses the writer without the interpreter's lock.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        act: impl FnOnce(&mut ActionWriter) -> Result<T, SharedError> + Send,
    ) -> PyResult<T> {
        self.process.check("an ActionWriter")?;
        py.detach(|| {
            let mut writer = self.writer.get().lock().unwrap_or_else(PoisonError::into_inner);
            let writer = writer.as_mut().ok_or_else(|| failed("the ActionWriter is closed"))?;
            act(writer).map_err(exception)
        })
    }
}

#[pymethods]
impl SharedWriter {
    #[new]
    #[allow(clippy::needless_pass_by_value)] // Python gives them away
    fn new(py: Python<'_>, service: &str, group: &str, names: Vec<String>) -> PyResult<Self> {
        let writer = py.detach(|| ActionWriter::new(service, group, &names)).map_err(exception)?;
        let writer = OfProcess::new(Mutex::new(Some(writer)));
        Ok(SharedWriter { writer, process: Process::this() })
    }

    /// Sends a chunk that answers the tensor with this run, epoch, stamp \[ns\] and tick. Returns its number.
    fn send(
        &self,
        py: Python<'_>,
        answered: (u64, u64, i64, u64),
        values: &Bound<'_, PyAny>,
        reference: &Bound<'_, PyAny>,
    ) -> PyResult<u64> {
        let (run, epoch, stamp_ns, tick) = answered;
        let stamp = Stamp::from_nanos(stamp_ns);
        let answered = Answered { run, epoch, stamp, tick: tick as i64 };
        let values = floats(values, "values")?;
        let reference = floats(reference, "reference")?;
        self.with(py, |writer| writer.send(answered, &values, &reference))
    }

    /// The newest status of the group; `None` before the first.
    fn status(&self, py: Python<'_>) -> PyResult<Option<StatusFound>> {
        Ok(self.with(py, ActionWriter::status)?.map(status_found))
    }

    /// Meaning of the tensors of a run, as JSON; `None` if nothing of this run has come.
    fn info(&self, py: Python<'_>, run: u64) -> PyResult<Option<String>> {
        info_read(self.with(py, |writer| Ok(writer.info(run)?.map(TensorInfo::read)))?)
    }

    /// True if a node takes chunks under this name.
    #[getter]
    fn has_node(&self, py: Python<'_>) -> PyResult<bool> {
        self.with(py, |writer| Ok(writer.has_node()))
    }

    /// The groups of the node, as far as a status of each has come.
    fn groups(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        self.with(py, ActionWriter::groups)
    }

    /// The names under which nodes share tensors.
    fn services(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        self.with(py, |writer| writer.services())
    }

    /// Ends the writer.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.process.check("an ActionWriter")?;
        py.detach(|| drop(self.writer.get().lock().unwrap_or_else(PoisonError::into_inner).take()));
        Ok(())
    }
}

fn status_found(status: ReceivedStatus) -> StatusFound {
    let refused = status.refused.iter().map(|it| (it.sequence, it.refusal.word())).collect();
    (
        (status.stamp.nanos(), status.run, status.stage.word(), status.waits_for.word()),
        status.newest.map(|newest| (newest.sequence, newest.delay_ticks)),
        refused,
        (status.commands, status.chunks, status.chunks_late, status.rows_late),
        status.clipped,
    )
}

/// The elements of an array of f32.
fn floats(array: &Bound<'_, PyAny>, name: &str) -> PyResult<Vec<f32>> {
    let array = Array::read(array, name, -1)?;
    array.check_element(name, &[TensorElement::F32])?;
    let bytes = array.bytes(name)?.as_chunks().0;
    Ok(bytes.iter().map(|bytes| f32::from_ne_bytes(*bytes)).collect())
}

/// The exception of an error.
fn exception(error: SharedError) -> PyErr {
    match error {
        SharedError::Name { .. } | SharedError::Rows { .. } => wrong(error),
        error => failed(error),
    }
}

/// JSON of an info that was read.
fn info_read(info: Option<Result<TensorInfo, MessageError>>) -> PyResult<Option<String>> {
    info.map(|info| info.map(|info| info_json(&info)).map_err(failed)).transpose()
}

fn info_json(info: &TensorInfo) -> String {
    json!({
        "stamp_ns": info.stamp.nanos(),
        "base_frame": info.base_frame,
        "version": info.version,
        "backend": info.backend,
        "config_file": info.config_file,
        "config": info.config,
        "rate_hz": info.rate_hz,
        "period_ns": info.period_ns,
        "digest": info.digest,
        "segments": info.segments,
        "contract": info.contract,
    })
    .to_string()
}

/// The bytes of a `robocache_ros/msg/FusedTensor` in shared memory. NumPy makes views of them, which keep this alive.
#[pyclass(frozen, module = "robocache._native")]
pub struct SharedTensor {
    sample: OfProcess<TensorSample>,
    places: Arc<Places>,
}

#[pymethods]
impl SharedTensor {
    /// The run of the node: all tensors of a run have their parts at the same places.
    #[getter]
    fn run(&self) -> u64 {
        self.sample.get().run()
    }

    fn head(&self) -> Head {
        message::head(&self.places, self.sample.get().message())
    }

    fn places(&self) -> PlacesFound {
        message::found(&self.places)
    }

    /// None: the data is on the host.
    #[getter]
    #[allow(clippy::unused_self)] // views ask it of every native tensor
    fn device_len(&self) -> Option<usize> {
        None
    }

    /// Array interface for NumPy: the bytes, read-only.
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        array_interface(py, self.sample.get().message())
    }
}
