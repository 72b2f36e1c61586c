//! What a replay is asked for, in the words of the command `robocache replay`.

use std::ffi::OsString;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use pyo3::prelude::*;
use robocache_data::replay::batch;
use robocache_data::replay::{Episode, Options};
use robocache_tools::cli::{AskedError, ReplayArgs, offered_options};

use crate::errors::{failed, wrong};
use crate::recordings;

/// Time between two looks for an interrupt.
pub(crate) const PATIENCE: Duration = Duration::from_millis(50);

/// The options of `robocache replay` as JSON, for a command line that passes them on.
#[pyfunction]
pub(crate) fn replay_options() -> PyResult<String> {
    serde_json::to_string(&offered_options()).map_err(failed)
}

/// Checks the words behind `robocache replay`. No file is read.
#[pyfunction]
pub(crate) fn check_replay(words: Vec<OsString>) -> PyResult<()> {
    ReplayArgs::parse(words).and_then(|args| args.check()).map_err(raised)
}

/// What the results of `robocache replay` with these words would be made of: per episode its name, and a text.
#[pyfunction]
pub(crate) fn made_of(py: Python<'_>, words: Vec<OsString>) -> PyResult<Vec<(String, String)>> {
    let work = move || {
        let (episodes, options) = ReplayArgs::parse(words)?.asked()?;
        Ok(batch::made_of_all(&episodes, &options)?)
    };
    interruptible(py, work)?.map_err(|error: AskedError| wrong(error))
}

/// The episodes that the words behind `robocache replay` ask for, and how they are replayed.
pub(crate) fn asked(py: Python<'_>, words: Vec<OsString>) -> PyResult<(Vec<Episode>, Options)> {
    interruptible(py, || ReplayArgs::parse(words)?.asked())?.map_err(raised)
}

/// The same of recordings, which stand for the bags.
pub(crate) fn asked_of(
    py: Python<'_>,
    words: Vec<OsString>,
    recordings: &[Bound<'_, PyAny>],
) -> PyResult<(Vec<Episode>, Options)> {
    let args = ReplayArgs::parse(words).map_err(raised)?;
    if args.common.divides() {
        let what = "expected neither --start, --end, --episodes nor --episodes-by: a dataset has its own episodes";
        return Err(wrong(what));
    }
    let episodes = recordings::episodes(recordings)?;
    let bags: Vec<_> = episodes.iter().map(|episode| episode.bag.clone()).collect();
    py.detach(|| args.asked_of(&bags, episodes)).map_err(raised)
}

/// The exception of an error.
pub(crate) fn raised(error: AskedError) -> PyErr {
    match error {
        AskedError::Wrong(why) => wrong(why),
        AskedError::Failed(error) => failed(error),
    }
}

/// Works on a thread. An interrupt does not wait for it: what it reads may be many bags.
pub(crate) fn interruptible<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> T + Send + 'static,
) -> PyResult<T> {
    let (sender, mut receiver) = sync_channel(1);
    let body = move || {
        // After an interrupt, no thread waits for it.
        let _ = sender.send(work());
    };
    std::thread::Builder::new().name("asked".into()).spawn(body)?;
    loop {
        let received;
        (receiver, received) = py.detach(move || {
            let received = receiver.recv_timeout(PATIENCE);
            (receiver, received)
        });
        match received {
            Ok(done) => return Ok(done),
            Err(RecvTimeoutError::Timeout) => py.check_signals()?,
            Err(RecvTimeoutError::Disconnected) => return Err(panicked()),
        }
    }
}

/// The exception of a thread that ended by a panic.
pub(crate) fn panicked() -> PyErr {
    failed("a failure of the program (a panic)")
}
