//! `robocache.replay`: recorded episodes, tick by tick, from a thread of their own.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use pyo3::prelude::*;
use robocache_core::backend::{self, Choice};
use robocache_core::layout::Layout;
use robocache_core::pipeline::{Pipeline, TensorMessage};
use robocache_data::bag::Bag;
use robocache_data::file::OutputError;
use robocache_data::output::Output;
use robocache_data::replay::{
    self, BagDefinitions, Division, Episode, Moment, Parts, Playing, Progress, Remap, ReplayError,
    Summary, TimeSource, Wiring,
};
use robocache_ops::device::HostBuffer;
use robocache_ops::pool::Pool;
use robocache_ops::time::Stamp;
use robocache_runtime::Tick;

use crate::freeing::without_lock;
use crate::pipeline::{Process, choice, failed, wrong};
use crate::tensor::{Copied, SPARE, TensorBytes};

/// Tensors that wait for Python. A few, so that both sides work at the same time.
const AHEAD: usize = 4;
/// Time between two looks for an interrupt.
const PATIENCE: Duration = Duration::from_millis(50);

/// An episode in a bag.
#[pyclass(frozen, module = "robocache._native")]
pub struct ReplayEpisode(Episode);

impl ReplayEpisode {
    /// The episode.
    pub fn episode(&self) -> &Episode {
        &self.0
    }
}

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

/// The episodes of bags, or of folders of bags. Results in `out` are no bags.
#[pyfunction]
#[pyo3(signature = (bags, out, start, end, listed, by))]
pub fn find_episodes(
    py: Python<'_>,
    bags: Vec<PathBuf>,
    out: PathBuf,
    start: Option<&str>,
    end: Option<&str>,
    listed: Option<PathBuf>,
    by: Option<&str>,
) -> PyResult<Vec<ReplayEpisode>> {
    let moment = |text: Option<&str>, name: &str| -> PyResult<Option<Moment>> {
        text.map(str::parse).transpose().map_err(|error| wrong(format!("{name}: {error}")))
    };
    let division = match (listed, by) {
        (Some(list), None) => Division::Listed(replay::read_episodes(&list).map_err(wrong)?),
        (None, Some(topic)) => Division::Edges(topic.parse().map_err(wrong)?),
        (None, None) => Division::Whole,
        (Some(_), Some(_)) => return Err(wrong("expected episodes or episodes_by, found both")),
    };
    let parts = Parts { start: moment(start, "start")?, end: moment(end, "end")?, division };
    py.detach(|| {
        let bags = replay::find_bags(&bags, &out).map_err(wrong)?;
        let episodes = replay::episodes(&bags, &parts).map_err(failed)?;
        Ok(episodes.into_iter().map(ReplayEpisode).collect())
    })
}

/// How an episode is replayed.
struct Settings {
    text: String,
    file: PathBuf,
    rate_hz: Option<f64>,
    remaps: Vec<Remap>,
    time: TimeSource,
    backend: Choice,
    device: usize,
    playing: Playing,
}

/// What comes out of the thread.
enum Event {
    Tensor(Copied),
    Done(Box<Summary>),
    Failed(String),
}

/// Sends tensors to Python, and is told whether anybody wants more.
struct Channel {
    sender: SyncSender<Event>,
    pool: Arc<Pool<HostBuffer>>,
    stop: Arc<AtomicBool>,
}

impl Output for Channel {
    fn tick(&mut self, _tick: Tick, message: &TensorMessage) -> Result<(), OutputError> {
        let tensor = Event::Tensor(Copied::of(message.message(), &self.pool));
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
    let bag = Bag::open(&episode.bag)?;
    let definitions = BagDefinitions::new(&bag)?;
    let Settings { text, file, rate_hz, remaps, time, backend, device, playing } = settings;
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
    events: Mutex<Option<Receiver<Event>>>,
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
    fn receive(&self) -> Result<Event, RecvTimeoutError> {
        let events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        let events = events.as_ref().ok_or(RecvTimeoutError::Disconnected)?;
        events.recv_timeout(PATIENCE)
    }
}

#[pymethods]
impl ReplayRun {
    /// Starts the replay.
    #[new]
    #[pyo3(signature = (episode, text, file, rate_hz, remaps, time, backend, device, digest, threads))]
    #[allow(clippy::too_many_arguments)] // Python has them by their names
    fn new(
        episode: &ReplayEpisode,
        text: String,
        file: PathBuf,
        rate_hz: Option<f64>,
        remaps: Vec<String>,
        time: &str,
        backend: &str,
        device: usize,
        digest: bool,
        threads: usize,
    ) -> PyResult<Self> {
        let remaps: Result<_, _> = remaps.iter().map(|remap| remap.parse()).collect();
        let settings = Settings {
            text,
            file,
            rate_hz,
            remaps: remaps.map_err(|error| wrong(format!("remap: {error}")))?,
            time: source_of_time(time)?,
            backend: choice(backend)?,
            device,
            playing: Playing { digest, threads },
        };
        let (sender, events) = sync_channel(AHEAD);
        let (stop, pool) = (Arc::new(AtomicBool::new(false)), Arc::new(Pool::new(SPARE)));
        let output =
            Channel { sender: sender.clone(), pool: Arc::clone(&pool), stop: Arc::clone(&stop) };
        let episode = episode.0.clone();
        let body = move || {
            let played = catch_unwind(AssertUnwindSafe(|| play(&episode, &settings, output)));
            let end = match played {
                Ok(Ok(summary)) => Event::Done(Box::new(summary)),
                Ok(Err(error)) => Event::Failed(error.to_string()),
                Err(_) => Event::Failed("a failure of the program (a panic)".into()),
            };
            // Nobody may wait for it any more.
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
                Ok(Event::Tensor(copied)) => {
                    return Ok(Some(TensorBytes::of_copy(copied, &self.pool)));
                }
                Ok(Event::Done(summary)) => {
                    *self.summary.lock().unwrap_or_else(PoisonError::into_inner) = Some(summary);
                    py.detach(|| self.end());
                    return Ok(None);
                }
                Ok(Event::Failed(error)) => {
                    py.detach(|| self.end());
                    return Err(failed(error));
                }
                Err(RecvTimeoutError::Timeout) => py.check_signals()?,
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
            }
        }
    }

    /// The numbers of the episode as JSON; `None` before its end.
    fn summary(&self) -> PyResult<Option<String>> {
        let summary = self.summary.lock().unwrap_or_else(PoisonError::into_inner);
        summary.as_ref().map(serde_json::to_string).transpose().map_err(failed)
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

/// Which clock the ticks are on, by its name.
pub fn source_of_time(name: &str) -> PyResult<TimeSource> {
    name.parse().map_err(|error| wrong(format!("time: {error}")))
}
