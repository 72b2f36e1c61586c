//! The signals that end the node.

use std::time::{Duration, Instant};

use robocache_runtime::TimeSource;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Time after a signal in which the same one is no second request: a terminal and a supervisor may both send it.
const REPEAT: Duration = Duration::from_secs(1);

/// Receives SIGINT and SIGTERM.
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
    /// The last one, and when it came.
    last: Option<(&'static str, Instant)>,
    time: TimeSource,
}

impl Signals {
    /// Takes the signals from now on, inside a tokio runtime.
    ///
    /// # Errors
    /// The system refuses.
    pub fn new(time: TimeSource) -> std::io::Result<Self> {
        let interrupt = signal(SignalKind::interrupt())?;
        Ok(Signals { interrupt, terminate: signal(SignalKind::terminate())?, last: None, time })
    }

    /// Waits for a signal, and returns its name. The caller may cancel the wait.
    pub(super) async fn next(&mut self) -> &'static str {
        loop {
            let name = tokio::select! {
                _ = self.interrupt.recv() => "SIGINT",
                _ = self.terminate.recv() => "SIGTERM",
            };
            let now = self.time.monotonic();
            if self.last.is_none_or(|(last, at)| last != name || now - at >= REPEAT) {
                self.last = Some((name, now));
                return name;
            }
        }
    }
}
