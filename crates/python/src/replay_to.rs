//! `robocache.replay_to`: the command `robocache replay` as a function.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pyo3::prelude::*;
use robocache_data::output::Bf16;
use robocache_data::replay::batch::{self, BatchProgress, EpisodeOutcome, Results};
use robocache_data::replay::{Episode, Format, Options, ReplayError};
use robocache_ops::time::Stamp;

use crate::errors::{failed, wrong};
use crate::pipeline::choice;
use crate::replay::{ReplayEpisode, source_of_time};

/// Time between two looks for an interrupt, and between two calls of the progress.
const PATIENCE: Duration = Duration::from_millis(50);

/// How far the episodes are: by name, the part of it that is done.
#[derive(Default)]
struct Shares(Mutex<SharesState>);

#[derive(Default)]
struct SharesState {
    spans: BTreeMap<String, (Stamp, Stamp)>,
    /// What changed since the progress was told.
    news: BTreeMap<String, f64>,
}

impl Shares {
    fn lock(&self) -> MutexGuard<'_, SharesState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, py: Python<'_>, progress: Option<&Py<PyAny>>) -> PyResult<()> {
        py.check_signals()?;
        let news = std::mem::take(&mut self.lock().news);
        let Some(progress) = progress else { return Ok(()) };
        for (name, share) in news {
            progress.call1(py, (name, share))?;
        }
        Ok(())
    }
}

impl BatchProgress for Shares {
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

/// Replays episodes into files. Returns what became of each, as JSON, and why there is no store.
#[pyfunction]
#[pyo3(signature = (episodes, config, out, format, bf16, rate_hz, remaps, time, backend, devices, digest, jobs, replace, progress))]
#[allow(clippy::too_many_arguments)] // Python has them by their names
pub fn replay_to(
    py: Python<'_>,
    episodes: Vec<PyRef<'_, ReplayEpisode>>,
    config: PathBuf,
    out: PathBuf,
    format: &str,
    bf16: &str,
    rate_hz: Option<f64>,
    remaps: Vec<String>,
    time: &str,
    backend: &str,
    devices: Vec<usize>,
    digest: bool,
    jobs: usize,
    replace: bool,
    progress: Option<Py<PyAny>>,
) -> PyResult<(String, Option<String>)> {
    let remaps: Result<_, _> = remaps.iter().map(|remap| remap.parse()).collect();
    let options = Options {
        config,
        rate_hz,
        remaps: remaps.map_err(|error| wrong(format!("remap: {error}")))?,
        time: source_of_time(time)?,
        backend: choice(backend)?,
        devices,
        digest,
        out,
        jobs,
        format: match format {
            "mcap" => Format::Mcap,
            "zarr" => Format::Zarr,
            "rows" => Format::Rows,
            _ => {
                return Err(wrong(format!(
                    "format: expected mcap, zarr or rows, found '{format}'"
                )));
            }
        },
        bf16: match bf16 {
            "uint16" => Bf16::Uint16,
            "f32" => Bf16::F32,
            _ => return Err(wrong(format!("bf16: expected uint16 or f32, found '{bf16}'"))),
        },
        parts_only: false,
        replace,
        take: Vec::new(),
    };
    let episodes: Vec<Episode> = episodes.iter().map(|episode| episode.episode().clone()).collect();
    let Results { outcomes, store } = watched(py, &episodes, &options, progress.as_ref())?;
    let outcomes = serde_json::to_string(&outcomes).map_err(failed)?;
    Ok((outcomes, store.err().map(|error| error.to_string())))
}

/// Runs all on a thread, and tells the progress meanwhile. An interrupt, or an error of the progress, stops the run.
fn watched(
    py: Python<'_>,
    episodes: &[Episode],
    options: &Options,
    progress: Option<&Py<PyAny>>,
) -> PyResult<Results> {
    let (shares, stop) = (Shares::default(), AtomicBool::new(false));
    let (results, told) = py.detach(|| {
        std::thread::scope(|scope| {
            let run = scope.spawn(|| batch::run_all(episodes, options, &shares, &stop));
            let mut told = Ok(());
            while told.is_ok() && !run.is_finished() {
                std::thread::sleep(PATIENCE);
                told = Python::attach(|py| shares.tell(py, progress));
            }
            stop.store(told.is_err(), Ordering::Relaxed);
            let results: Result<Result<Results, ReplayError>, _> = run.join();
            (results, told)
        })
    });
    told?;
    shares.tell(py, progress)?;
    results.map_err(|_| failed("a failure of the program (a panic)"))?.map_err(failed)
}
