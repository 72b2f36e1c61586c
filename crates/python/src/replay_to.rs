//! `robocache.replay_to`: episodes into files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use pythonize::pythonize;
use robocache_data::replay::batch::{self, BatchProgress, EpisodeOutcome, Results};
use robocache_data::replay::{Episode, ReplayError, ReplayOptions};
use robocache_ops::time::Stamp;
use robocache_tools::bars::{Bars, log_above_bars};

use crate::errors::failed;
use crate::interrupt::{PATIENCE, panicked};
use crate::request::PyReplayRequest;

/// How far the episodes are: by name, the part of it that is done.
#[derive(Default)]
struct Shares(Mutex<SharesState>);

#[derive(Default)]
struct SharesState {
    spans: BTreeMap<String, (Stamp, Stamp)>,
    /// Changes since the progress was last reported.
    news: BTreeMap<String, f64>,
    /// The folder that another run writes into, until it was reported.
    waits_for: Option<PathBuf>,
}

/// Functions of Python that are told how far a run is.
struct Told {
    /// Gets the name of an episode, and the part of it that is done.
    progress: Option<Py<PyAny>>,
    /// Gets the folder that another run writes into.
    waits: Option<Py<PyAny>>,
}

impl Shares {
    fn lock(&self) -> MutexGuard<'_, SharesState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, py: Python<'_>, told: &Told) -> PyResult<()> {
        py.check_signals()?;
        let (news, waits_for) = {
            let mut state = self.lock();
            (std::mem::take(&mut state.news), state.waits_for.take())
        };
        if let (Some(waits), Some(folder)) = (&told.waits, waits_for) {
            waits.call1(py, (folder,))?;
        }
        let Some(progress) = &told.progress else { return Ok(()) };
        for (name, share) in news {
            progress.call1(py, (name, share))?;
        }
        Ok(())
    }
}

impl BatchProgress for Shares {
    fn waits(&self, out: &Path) {
        self.lock().waits_for = Some(out.to_owned());
    }

    fn begins(&self, episode: &Episode, first: Stamp, last: Stamp) {
        let mut state = self.lock();
        state.spans.insert(episode.name.clone(), (first, last));
        state.news.insert(episode.name.clone(), 0.0);
    }

    fn at(&self, episode: &Episode, now: Stamp) {
        let mut state = self.lock();
        let Some((first, last)) = state.spans.get(&episode.name).copied() else { return };
        let share = now.since(first).max(0) as f64 / last.since(first).max(1) as f64;
        state.news.insert(episode.name.clone(), share.min(1.0));
    }

    fn ends(&self, episode: &Episode, _outcome: &EpisodeOutcome) {
        self.lock().news.insert(episode.name.clone(), 1.0);
    }
}

/// Replays the episodes of a request into files. Returns the outcome of each, and why there is no store.
///
/// `progress` gets how far each episode is, and `waits` the folder, if another run writes into it. With `has_bar`, stderr
/// has the bar and the warnings of the command instead. `recordings` are episodes that stand for the bags of the request; [`crate::recordings`] says what they are.
#[pyfunction]
#[pyo3(signature = (request, progress=None, has_bar=false, recordings=None, waits=None))]
pub(crate) fn replay_to<'py>(
    py: Python<'py>,
    request: &PyReplayRequest,
    progress: Option<Py<PyAny>>,
    has_bar: bool,
    recordings: Option<Vec<Bound<'_, PyAny>>>,
    waits: Option<Py<PyAny>>,
) -> PyResult<(Bound<'py, PyAny>, Option<String>)> {
    if has_bar {
        log_above_bars();
    }
    let (episodes, options) = request.asked(py, recordings.as_deref())?;
    let shares = Shares::default();
    let bars = has_bar.then(|| Bars::new(episodes.len()));
    let watch: &dyn BatchProgress = match &bars {
        Some(bars) => bars,
        None => &shares,
    };
    let told = Told { progress, waits };
    let tell = |py: Python<'_>| shares.tell(py, &told);
    let results = watched(py, &episodes, &options, watch, tell);
    if let Some(bars) = &bars {
        bars.close();
    }
    let Results { outcomes, store } = results?;
    Ok((pythonize(py, &outcomes)?, store.err().map(|error| error.to_string())))
}

/// Runs all on a thread, and calls `tell` meanwhile. An error of `tell`, such as an interrupt, stops the run.
fn watched(
    py: Python<'_>,
    episodes: &[Episode],
    options: &ReplayOptions,
    watch: &dyn BatchProgress,
    tell: impl Fn(Python<'_>) -> PyResult<()> + Sync,
) -> PyResult<Results> {
    let stop = AtomicBool::new(false);
    let (results, told) = py.detach(|| {
        std::thread::scope(|scope| {
            let run = scope.spawn(|| batch::run_all(episodes, options, watch, &stop));
            let mut told = Ok(());
            while told.is_ok() && !run.is_finished() {
                std::thread::sleep(PATIENCE);
                told = Python::attach(&tell);
            }
            stop.store(told.is_err(), Ordering::Relaxed);
            let results: Result<Result<Results, ReplayError>, _> = run.join();
            (results, told)
        })
    });
    told?;
    tell(py)?;
    results.map_err(|_| panicked())?.map_err(failed)
}
