//! Errors that end the node.

use super::middleware::MiddlewareError;
use robocache_runtime::RuntimeError;

/// Why messages are no longer taken, or the graph cannot be watched.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The middleware refused, or failed again and again to give a message.
    #[error(transparent)]
    Middleware(#[from] MiddlewareError),
    /// The runtime failed to take one.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
}
