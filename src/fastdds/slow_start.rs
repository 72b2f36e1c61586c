//! Warns if the middleware does not begin.
//!
//! If a process is killed while it creates shared memory for Fast DDS, it may leave a file in
//! /dev/shm that is never finished. Then the next process waits for it without an end and without
//! a word. Some of these files belong to all ROS domains of the machine.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

/// A node begins within a second, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(10);

/// The caller drops this when the middleware has begun.
#[must_use]
pub(super) struct Begun {
    _ends: Option<Sender<()>>,
}

/// Warns once if the result is not dropped within [`PATIENCE`].
pub(super) fn watch() -> Begun {
    watch_for(PATIENCE, || {
        tracing::warn!(
            "the middleware has not begun for {} s; if this goes on, a process that was killed may have left unfinished \
             shared memory. Then end all ROS processes of this machine, and remove /dev/shm/*fastrtps_* (Fast DDS 3: \
             /dev/shm/*fastdds_*)",
            PATIENCE.as_secs()
        );
    })
}

fn watch_for(patience: Duration, warn: impl FnOnce() + Send + 'static) -> Begun {
    let (ends, ended) = channel();
    let watcher = thread::Builder::new().name("slow start".into()).spawn(move || {
        if ended.recv_timeout(patience) == Err(RecvTimeoutError::Timeout) {
            warn();
        }
    });
    // Without a thread there is no warning, and nothing else is lost.
    Begun { _ends: watcher.is_ok().then_some(ends) }
}

#[cfg(test)]
mod tests;
