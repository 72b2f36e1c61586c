//! `robocache.replay`: recorded episodes, tick by tick, from a thread of their own.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use pythonize::pythonize;
use robocache_core::backend;
use robocache_core::layout::Layout;
use robocache_core::message::TensorMessage;
use robocache_core::pipeline::Pipeline;
use robocache_data::file::OutputError;
use robocache_data::output::Output;
use robocache_data::recording::{Ending, Mark, has_end};
use robocache_data::replay::{
    self, BagDefinitions, Episode, EpisodesRequest, Playing, Progress, ReplayError, Summary, Wiring,
};
use robocache_ops::device::HostBuffer;
use robocache_ops::pool::Pool;
use robocache_ops::time::Stamp;
use robocache_runtime::Tick;

use crate::errors::failed;
use crate::freeing::without_lock;
use crate::interrupt::{PATIENCE, interruptible};
use crate::process::Process;
use crate::request::{episodes_request, raised};
use crate::tensor::{Copied, SPARE, TensorBytes};

/// Tensors that wait for Python. A few, so that both sides work at the same time.
const AHEAD: usize = 4;

/// An episode in a bag.
#[pyclass(frozen, module = "robocache._native")]
pub struct ReplayEpisode(Episode);

#[pymethods]
impl ReplayEpisode {
    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }

    #[getter]
    fn bag(&self) -> &Path {
        &self.0.bag
    }

    #[getter]
    fn task(&self) -> Option<&str> {
        self.0.task.as_deref()
    }
}

/// How episodes are replayed.
#[pyclass(frozen, module = "robocache._native")]
pub(crate) struct ReplaySettings(Arc<EpisodesRequest>);

/// Finds the episodes of bags for a replay into memory. Returns them, and how they are replayed.
#[pyfunction]
#[pyo3(signature = (bags, **options))]
pub(crate) fn find_episodes(
    py: Python<'_>,
    bags: Vec<PathBuf>,
    options: Option<&Bound<'_, PyDict>>,
) -> PyResult<(Vec<ReplayEpisode>, ReplaySettings)> {
    let request = Arc::new(episodes_request(bags, options)?);
    let asked = Arc::clone(&request);
    let episodes = interruptible(py, move || asked.find(Path::new("")))?.map_err(raised)?;
    Ok((episodes.into_iter().map(ReplayEpisode).collect(), ReplaySettings(request)))
}

/// Says how a bag of a node's episode ended: "complete", "running", "killed" or "unknown"; whether the recording has its end; and
/// whether a mark says that it is not wanted. A complete bag of another recorder, or one that cannot be read, has its end.
#[pyfunction]
pub(crate) fn look_at_episode(bag: PathBuf) -> PyResult<(&'static str, bool, bool)> {
    let marks = Mark::read(&bag).map_err(|error| failed(format!("{}: {error}", bag.display())))?;
    let ending = Ending::of(&bag);
    // Why it cannot be read is told when it is converted.
    let has_end = || has_end(&bag).ok().flatten().unwrap_or(true);
    Ok((ending.word(), ending == Ending::Complete && has_end(), Mark::discard(&marks)))
}

/// How an episode is replayed.
struct Settings {
    text: String,
    file: PathBuf,
    asked: Arc<EpisodesRequest>,
    device: usize,
    playing: Playing,
}

/// Message from the thread.
enum ReplayEvent {
    Tensor(Copied),
    Done(Box<Summary>),
    Failed(String),
}

/// Sends tensors to Python, and learns whether the reader wants more.
struct Channel {
    sender: SyncSender<ReplayEvent>,
    pool: Arc<Pool<HostBuffer>>,
    stop: Arc<AtomicBool>,
}

impl Output for Channel {
    fn tick(&mut self, _tick: Tick, message: &TensorMessage) -> Result<(), OutputError> {
        let tensor = ReplayEvent::Tensor(Copied::of(message, &self.pool));
        match self.sender.send(tensor) {
            Ok(()) if !self.stop.load(Ordering::Relaxed) => Ok(()),
            _ => {
                let source = std::io::Error::other("nobody takes the tensors any more");
                Err(OutputError { path: PathBuf::new(), source })
            }
        }
    }
}

struct UntilStopped(Arc<AtomicBool>);

impl Progress for UntilStopped {
    fn at(&self, _now: Stamp) -> bool {
        !self.0.load(Ordering::Relaxed)
    }
}

/// Replays an episode into a channel.
fn play(
    episode: &Episode,
    settings: &Settings,
    mut output: Channel,
) -> Result<Summary, ReplayError> {
    if let Some(wrong) = &episode.wrong {
        return Err(ReplayError::Wiring(wrong.clone()));
    }
    let bag = episode.open()?;
    let definitions = BagDefinitions::new(&bag)?;
    let Settings { text, file, asked, device, playing } = settings;
    let EpisodesRequest { rate_hz, remaps, time, backend, .. } = &**asked;
    let config = definitions.configuration(text, file, *rate_hz)?;
    let wiring = Wiring::new(&bag, &config, remaps, time)?;
    let backend = backend::create(*backend, *device, &config, &Layout::new(&config))?;
    let pipeline = Pipeline::new(config, backend)?;
    let progress = UntilStopped(Arc::clone(&output.stop));
    let summary = replay::run(&bag, episode, &wiring, pipeline, &mut output, *playing, &progress)?;
    summary.check_rows(&bag)?;
    Ok(summary)
}

/// The replay of one episode. It ends when this is dropped.
#[pyclass(frozen, module = "robocache._native")]
pub struct ReplayRun {
    events: Mutex<Option<Receiver<ReplayEvent>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    stop: Arc<AtomicBool>,
    pool: Arc<Pool<HostBuffer>>,
    summary: Mutex<Option<Box<Summary>>>,
    process: Process,
}

impl ReplayRun {
    fn end(&self) {
        self.stop.store(true, Ordering::Relaxed);
        // Without a receiver the thread waits no more.
        drop(self.events.lock().unwrap_or_else(PoisonError::into_inner).take());
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // A panic was caught inside the thread.
            let _ = thread.join();
        }
    }

    /// The next event within a moment.
    fn receive(&self) -> Result<ReplayEvent, RecvTimeoutError> {
        let events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        let events = events.as_ref().ok_or(RecvTimeoutError::Disconnected)?;
        events.recv_timeout(PATIENCE)
    }
}

#[pymethods]
impl ReplayRun {
    /// Starts the replay.
    #[new]
    fn new(
        episode: &ReplayEpisode,
        settings: &ReplaySettings,
        text: String,
        file: PathBuf,
        device: usize,
        digest: bool,
        threads: usize,
    ) -> PyResult<Self> {
        let asked = Arc::clone(&settings.0);
        let playing = Playing { digest, threads };
        let settings = Settings { text, file, asked, device, playing };
        let (sender, events) = sync_channel(AHEAD);
        let stop = Arc::new(AtomicBool::new(false));
        let pool = Arc::new(Pool::new(SPARE));
        let output =
            Channel { sender: sender.clone(), pool: Arc::clone(&pool), stop: Arc::clone(&stop) };
        let episode = episode.0.clone();
        let body = move || {
            let played = catch_unwind(AssertUnwindSafe(|| play(&episode, &settings, output)));
            let end = match played {
                Ok(Ok(summary)) => ReplayEvent::Done(Box::new(summary)),
                Ok(Err(error)) => ReplayEvent::Failed(error.to_string()),
                Err(_) => ReplayEvent::Failed("a failure of the program (a panic)".into()),
            };
            // The reader may be gone.
            let _ = sender.send(end);
        };
        let thread = std::thread::Builder::new().name("replay".into()).spawn(body)?;
        Ok(ReplayRun {
            events: Mutex::new(Some(events)),
            thread: Mutex::new(Some(thread)),
            stop,
            pool,
            summary: Mutex::default(),
            process: Process::this(),
        })
    }

    /// The next tensor; `None` after the last.
    fn next(&self, py: Python<'_>) -> PyResult<Option<TensorBytes>> {
        self.process.check("a replay")?;
        loop {
            match py.detach(|| self.receive()) {
                Ok(ReplayEvent::Tensor(copied)) => {
                    return Ok(Some(TensorBytes::of_copy(copied, &self.pool)));
                }
                Ok(ReplayEvent::Done(summary)) => {
                    *self.summary.lock().unwrap_or_else(PoisonError::into_inner) = Some(summary);
                    py.detach(|| self.end());
                    return Ok(None);
                }
                Ok(ReplayEvent::Failed(error)) => {
                    py.detach(|| self.end());
                    return Err(failed(error));
                }
                Err(RecvTimeoutError::Timeout) => py.check_signals()?,
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
            }
        }
    }

    /// The numbers of the episode, as a dict; `None` before its end.
    fn summary<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let summary = self.summary.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(pythonize(py, &summary.as_deref())?)
    }

    /// Ends the replay and its thread.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.process.check("a replay")?;
        py.detach(|| self.end());
        Ok(())
    }
}

impl Drop for ReplayRun {
    fn drop(&mut self) {
        // A forked process does not have the thread.
        if self.process.is_this() {
            // The thread never needs the interpreter, so this waits only for the message under way.
            without_lock(|| self.end());
        } else {
            std::mem::forget(self.thread.get_mut().ok().and_then(Option::take));
            std::mem::forget(self.events.get_mut().ok().and_then(Option::take));
        }
    }
}
