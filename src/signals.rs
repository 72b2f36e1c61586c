//! The signals that end the node.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Receives SIGINT and SIGTERM.
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// Takes the signals from now on, inside a tokio runtime.
    ///
    /// # Errors
    /// The system refuses.
    pub fn new() -> std::io::Result<Self> {
        let interrupt = signal(SignalKind::interrupt())?;
        Ok(Signals { interrupt, terminate: signal(SignalKind::terminate())? })
    }

    /// Waits for a signal, and returns its name. The caller may cancel the wait.
    pub(super) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
        }
    }
}
