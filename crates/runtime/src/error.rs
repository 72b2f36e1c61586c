//! Errors that end the runtime.

use robocache_core::backend::BackendError;

/// Why the runtime did not start, or stopped.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    /// The backend failed: a tensor that was not computed must not be published.
    #[error("{operation}: {source}")]
    Backend {
        /// The operation of the backend that failed.
        operation: String,
        /// The backend's error.
        source: BackendError,
    },
    /// A thread panicked.
    #[error("the {0} thread panicked")]
    Panicked(&'static str),
    /// The operating system did not start a thread.
    #[error("start the {name} thread: {source}")]
    Thread {
        /// The thread's name.
        name: &'static str,
        /// The system's error.
        source: std::io::Error,
    },
}
