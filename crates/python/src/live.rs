//! The runtime of the node in Python's process: its clock, its ticker and its workers, on threads of their own.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use robocache::device::HostBuffer;
use robocache::runtime::{
    Clock, Placement, Publisher, Refused, Runtime, RuntimeError, ThreadOptions, Threads, Transit,
    decode_clock,
};
use robocache::spec::InputId;

use crate::freeing::without_lock;
use crate::pipeline::{Process, choice, failed, inputs_json, make, parse, stats_json};
use crate::tensor::{Copied, Pool, TensorBytes};

/// The newest tensor that Python has not taken.
#[derive(Default)]
struct Latest {
    state: Mutex<Newest>,
    changed: Condvar,
    pool: Arc<Pool<HostBuffer>>,
}

#[derive(Default)]
struct Newest {
    tensor: Option<Copied>,
    /// Tensors that a newer one replaced before Python took them, in all.
    missed: u64,
    closed: bool,
}

impl Latest {
    fn lock(&self) -> MutexGuard<'_, Newest> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a tensor; `None` if none came in time or the runtime has ended.
    fn take(&self, patience: Duration) -> Option<Copied> {
        let until = Instant::now() + patience;
        let mut newest = self.lock();
        loop {
            if newest.tensor.is_some() || newest.closed {
                return newest.tensor.take();
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            let waited = self.changed.wait_timeout(newest, left);
            newest = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }
}

/// Leaves tensors to Python's thread, which may be slow: the newest counts.
struct ToPython(Arc<Latest>);

impl Publisher for ToPython {
    fn publish(&self, message: &[u8]) -> Result<(), Refused> {
        let copied = Copied::of(message, &self.0.pool);
        let mut newest = self.0.lock();
        if let Some(missed) = newest.tensor.replace(copied) {
            newest.missed += 1;
            missed.give_back(&self.0.pool);
        }
        drop(newest);
        self.0.changed.notify_all();
        Ok(())
    }
}

/// A pipeline that ticks by itself. `robocache.ros.PipelineNode` gives it the messages.
#[pyclass(frozen, module = "robocache._native")]
pub struct LivePipeline {
    runtime: Arc<Runtime>,
    threads: Mutex<Option<Threads<RuntimeError>>>,
    latest: Arc<Latest>,
    process: Process,
}

impl LivePipeline {
    fn input(&self, number: usize) -> PyResult<InputId> {
        let mut inputs = self.runtime.inputs();
        let count = self.runtime.inputs().count();
        inputs.nth(number).ok_or_else(|| {
            PyValueError::new_err(format!("input: expected a number below {count}, found {number}"))
        })
    }

    fn end(&self) -> Result<(), RuntimeError> {
        let threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner).take();
        let ended = threads.map_or(Ok(()), Threads::stop);
        self.latest.close();
        ended
    }
}

#[pymethods]
impl LivePipeline {
    /// Starts the threads. `simulated`: whether `set_clock` sets the clock.
    #[new]
    #[pyo3(signature = (text, file, backend, device, simulated, digest, priority, cpus))]
    #[allow(clippy::too_many_arguments)] // Python has them by their names
    fn new(
        py: Python<'_>,
        text: &str,
        file: &str,
        backend: &str,
        device: usize,
        simulated: bool,
        digest: bool,
        priority: u8,
        cpus: Vec<usize>,
    ) -> PyResult<Self> {
        let choice = choice(backend)?;
        py.detach(|| {
            let pipeline = make(parse(text, file)?, choice, device)?;
            let grid = pipeline.config().grid;
            let clock = if simulated { Clock::simulated(grid) } else { Clock::system(grid) };
            let mut runtime = Runtime::new(pipeline, clock);
            runtime.digest = digest;
            let (runtime, latest) = (Arc::new(runtime), Arc::<Latest>::default());
            let tick = Placement { priority, cpus };
            let options = ThreadOptions { tick, ..ThreadOptions::default() };
            let publisher = ToPython(Arc::clone(&latest));
            let threads = Threads::start(&runtime, publisher, options).map_err(failed)?;
            let threads = Mutex::new(Some(threads));
            Ok(LivePipeline { runtime, threads, latest, process: Process::this() })
        })
    }

    /// Takes a message of an input by its number. A large one goes to a worker; the others are rows on return.
    fn push(
        &self,
        py: Python<'_>,
        input: usize,
        message: PyBackedBytes,
        published_ns: Option<i64>,
        arrived_ns: Option<i64>,
    ) -> PyResult<()> {
        self.process.check("a PipelineNode")?;
        let input = self.input(input)?;
        py.detach(|| {
            let arrival = self.runtime.clock.arrival(Transit { published_ns, arrived_ns });
            self.runtime.receive(input, message, arrival).map_err(failed)
        })
    }

    /// Sets a simulator's clock from a message on `/clock`. Returns whether it was one.
    fn set_clock(
        &self,
        py: Python<'_>,
        message: PyBackedBytes,
        published_ns: Option<i64>,
        arrived_ns: Option<i64>,
    ) -> PyResult<bool> {
        self.process.check("a PipelineNode")?;
        py.detach(|| match decode_clock(&message) {
            Ok(Some(stamp)) => {
                self.runtime.set_clock(stamp, Transit { published_ns, arrived_ns });
                Ok(true)
            }
            _ => Ok(false),
        })
    }

    /// The newest tensor that was not taken yet; `None` if none came in time. Raises if a thread has failed.
    fn wait(&self, py: Python<'_>, patience_s: f64) -> PyResult<Option<TensorBytes>> {
        self.process.check("a PipelineNode")?;
        let patience = Duration::try_from_secs_f64(patience_s)
            .map_err(|error| PyValueError::new_err(format!("patience_s: {error}")))?;
        let taken = py.detach(|| self.latest.take(patience));
        if taken.is_none() {
            let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(error) = threads.as_mut().and_then(Threads::failed) {
                return Err(failed(error));
            }
        }
        Ok(taken.map(|copied| TensorBytes::of_copy(copied, &self.latest.pool)))
    }

    /// Tensors that a newer one replaced before they were taken.
    #[getter]
    fn missed(&self) -> PyResult<u64> {
        self.process.check("a PipelineNode")?;
        Ok(self.latest.lock().missed)
    }

    fn inputs(&self) -> String {
        inputs_json(&self.runtime.pipeline)
    }

    fn layout(&self) -> PyResult<String> {
        let infos = self.runtime.pipeline.segment_infos(&[]);
        serde_json::to_string(&infos).map_err(failed)
    }

    #[getter]
    fn period_ns(&self) -> i64 {
        self.runtime.pipeline.config().grid.period_ns()
    }

    fn stats(&self, py: Python<'_>) -> PyResult<String> {
        self.process.check("a PipelineNode")?;
        Ok(py.detach(|| stats_json(&self.runtime)))
    }

    /// Ends the threads. Raises if one of them had failed.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.process.check("a PipelineNode")?;
        py.detach(|| self.end()).map_err(failed)
    }
}

impl Drop for LivePipeline {
    fn drop(&mut self) {
        if self.process.is_this() {
            // What failed was for `close` to tell.
            let _ = without_lock(|| self.end());
        } else if let Ok(threads) = self.threads.get_mut() {
            // A forked process does not have the threads, so nobody can join them.
            std::mem::forget(threads.take());
        }
    }
}
