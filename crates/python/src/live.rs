//! The runtime of the node in Python's process: its clock, its ticker and its workers, on threads of their own.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use robocache_core::contract::Contract;
use robocache_core::message::TensorMessage;
use robocache_core::spec::InputId;
use robocache_ops::time::Stamp;
use robocache_runtime::health::{Monitor, Names, remedy};
use robocache_runtime::{
    Clock, OfferedQos, Placement, Publisher, PublisherSeen, Refused, Runtime, RuntimeError,
    ThreadOptions, Threads, TimeSource, Transit, decode_clock,
};

use crate::errors::failed;
use crate::freeing::{Unlocked, without_lock};
use crate::held_tensor::Messages;
use crate::pipeline::{PipelineBackend, inputs_json, parse, stats_json};
use crate::process::Process;
use crate::tensor::TensorBytes;

/// The longest wait: so the instant of its end is one that the clock has.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

/// Messages that are made before the first tick, beside those of the runtime: one waits, one is in Python's
/// hands, and one is next.
const MADE_BEFORE: usize = 3;

/// The newest tensor that Python has not taken.
#[derive(Default)]
struct Latest {
    state: Mutex<NewestTensor>,
    changed: Condvar,
    messages: Arc<Messages>,
}

#[derive(Default)]
struct NewestTensor {
    tensor: Option<TensorMessage>,
    /// Tensors that a newer one replaced before Python took them, in all.
    missed: u64,
    closed: bool,
}

impl Latest {
    fn lock(&self) -> MutexGuard<'_, NewestTensor> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a tensor; `None` if none came in time or the runtime has ended.
    fn take(&self, patience: Duration) -> Option<TensorMessage> {
        let until = Instant::now() + patience.min(LONGEST);
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
struct ToPython {
    latest: Arc<Latest>,
    runtime: Arc<Runtime>,
    target: PipelineBackend,
}

impl Publisher for ToPython {
    fn publish(&self, message: &mut TensorMessage) -> Result<(), Refused> {
        let Latest { changed, messages, .. } = &*self.latest;
        // Without a spare message, the runtime keeps its message, and ticks go on.
        let spare = self.target.message(&self.runtime.pipeline, messages);
        let spare = spare.map_err(|error| Refused(error.to_string()))?;
        let tensor = std::mem::replace(message, spare);
        // The runtime made it on the host, because the GPU had no memory. The next one is where it belongs.
        self.target.check(&tensor).map_err(|error| Refused(error.to_string()))?;
        let mut newest = self.latest.lock();
        let missed = newest.tensor.replace(tensor);
        newest.missed += u64::from(missed.is_some());
        drop(newest);
        changed.notify_all();
        missed.into_iter().for_each(|missed| messages.put(missed));
        Ok(())
    }
}

/// A pipeline that ticks by itself. `robocache.ros.PipelineNode` gives it the messages.
#[pyclass(frozen, module = "robocache._native")]
pub struct LivePipeline {
    runtime: Unlocked<Arc<Runtime>>,
    threads: Mutex<Option<Threads<RuntimeError>>>,
    latest: Arc<Latest>,
    /// `None` before the first call that watches.
    monitor: Mutex<Option<Monitor>>,
    process: Process,
}

/// A status of a report: part, level, message, values by key.
type StatusOfReport = (String, u8, String, Vec<(String, String)>);
/// A publisher that the graph shows: node, type, whether it offers reliable, and transient local.
type SeenPublisher = (Option<String>, String, bool, bool);

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
    #[pyo3(signature = (text, file, backend, device, output, simulated, digest, priority, cpus))]
    #[allow(clippy::too_many_arguments)] // Python has them by their names
    fn new(
        py: Python<'_>,
        text: &str,
        file: &str,
        backend: &str,
        device: usize,
        output: &str,
        simulated: bool,
        digest: bool,
        priority: u8,
        cpus: Vec<usize>,
    ) -> PyResult<Self> {
        let target = PipelineBackend::of(backend, device, output)?;
        py.detach(|| {
            let time = TimeSource::real();
            let pipeline = target.make(parse(text, file)?)?.with_run(time.draw_run());
            let grid = pipeline.config().grid;
            let clock =
                if simulated { Clock::simulated(grid, time) } else { Clock::system(grid, time) };
            let mut runtime = Runtime::new(pipeline, clock);
            runtime.digest = digest;
            let runtime = Arc::new(runtime);
            let latest = Arc::<Latest>::default();
            // So that ticks reserve no memory, unless Python keeps tensors.
            target.prepare(&runtime.pipeline, &latest.messages, MADE_BEFORE)?;
            let tick = Placement { priority, cpus };
            let options = ThreadOptions { tick, ..ThreadOptions::default() };
            let latest_too = Arc::clone(&latest);
            let runtime_too = Arc::clone(&runtime);
            let publisher = ToPython { latest: latest_too, runtime: runtime_too, target };
            let threads = Threads::start(&runtime, publisher, None, options).map_err(failed)?;
            let threads = Mutex::new(Some(threads));
            let runtime = Unlocked::new(runtime);
            let monitor = Mutex::default();
            Ok(LivePipeline { runtime, threads, latest, monitor, process: Process::this() })
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
            let arrival = self.runtime.arrival(input, Transit { published_ns, arrived_ns });
            self.runtime.receive(input, message, arrival).map_err(failed)
        })
    }

    /// Sets the simulator's clock from a message on `/clock`. Returns whether it was one. Raises if the node has the
    /// system's clock.
    fn set_clock(
        &self,
        py: Python<'_>,
        message: PyBackedBytes,
        published_ns: Option<i64>,
        arrived_ns: Option<i64>,
    ) -> PyResult<bool> {
        self.process.check("a PipelineNode")?;
        py.detach(|| {
            let clock = self.runtime.sim_clock();
            let clock = clock.ok_or_else(|| PyValueError::new_err("the clock is the system's"))?;
            let Ok(Some(stamp)) = decode_clock(&message) else { return Ok(false) };
            clock.set(stamp, Transit { published_ns, arrived_ns });
            Ok(true)
        })
    }

    /// The newest tensor that was not taken yet; `None` if none came in time. Raises if a thread has failed.
    fn wait(&self, py: Python<'_>, patience_s: f64) -> PyResult<Option<TensorBytes>> {
        self.process.check("a PipelineNode")?;
        if patience_s.is_nan() || patience_s < 0.0 {
            let text = format!("patience_s: expected no negative number, found {patience_s}");
            return Err(PyValueError::new_err(text));
        }
        // What is too long for a duration is longer than the longest wait.
        let patience = Duration::try_from_secs_f64(patience_s).unwrap_or(LONGEST);
        let taken = py.detach(|| self.latest.take(patience));
        if taken.is_none() {
            let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(error) = threads.as_mut().and_then(Threads::failed) {
                return Err(failed(error));
            }
        }
        Ok(taken.map(|message| TensorBytes::of_message(message, &self.latest.messages)))
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

    fn contract(&self) -> String {
        Contract::of(self.runtime.pipeline.config()).to_string()
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

    /// Notes which publishers of an input's topic the graph shows. Returns what the subscription must ask for:
    /// reliable, and transient local.
    fn see(&self, input: usize, seen: Vec<SeenPublisher>) -> PyResult<(bool, bool)> {
        self.process.check("a PipelineNode")?;
        let id = self.input(input)?;
        let seen = seen.into_iter().map(|(node, ros_type, reliable, transient_local)| {
            PublisherSeen { node, ros_type, offers: OfferedQos { reliable, transient_local } }
        });
        let seen = seen.collect::<Vec<_>>();
        let state = self.runtime.input(id);
        let request = state.wants.get().next(self.runtime.input_spec(id), &seen);
        *state.publishers.lock().unwrap_or_else(PoisonError::into_inner) = Some(seen);
        state.wants.set(request);
        state.asks.set(request);
        Ok((request.reliable, request.transient_local))
    }

    /// Begins the first window of the health report. `topics` are the full names of the inputs' topics,
    /// `middleware` is the name of ROS's, and `files` the folder of robocache's files for it.
    fn watch(&self, topics: Vec<String>, middleware: String, files: &str) -> PyResult<()> {
        self.process.check("a PipelineNode")?;
        let count = self.runtime.inputs().count();
        if topics.len() != count {
            let found = topics.len();
            return Err(PyValueError::new_err(format!("topics: expected {count}, found {found}")));
        }
        let remedy = remedy(&middleware, files);
        let names = Names { topics, middleware, remedy };
        let monitor = Monitor::new(Arc::clone(&self.runtime), names);
        *self.monitor.lock().unwrap_or_else(PoisonError::into_inner) = Some(monitor);
        Ok(())
    }

    /// Ends a window of the health report, as on the node's `/diagnostics`: its stamp [ns] and its statuses.
    fn report(&self, py: Python<'_>) -> PyResult<(i64, Vec<StatusOfReport>)> {
        self.process.check("a PipelineNode")?;
        let report = py.detach(|| {
            let mut monitor = self.monitor.lock().unwrap_or_else(PoisonError::into_inner);
            monitor.as_mut().map(Monitor::report)
        });
        let report = report.ok_or_else(|| failed("expected `watch` before a report"))?;
        let parts = report.parts.into_iter();
        let parts = parts.map(|part| (part.part, part.level as u8, part.message, part.values));
        Ok((report.stamp.map_or(0, Stamp::nanos), parts.collect()))
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
            let _ = without_lock(|| {
                let ended = self.end();
                *self.monitor.lock().unwrap_or_else(PoisonError::into_inner) = None;
                ended
            });
        } else if let Ok(threads) = self.threads.get_mut() {
            // A forked process does not have the threads, so they cannot be joined.
            std::mem::forget(threads.take());
        }
    }
}
