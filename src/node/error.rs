//! Errors that end the node.

use crate::backend::BackendError;
use crate::config::ConfigError;

/// Why the node did not start, or stopped.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// The middleware refused.
    #[error("{operation}: {source}")]
    Ros {
        /// What was asked of it.
        operation: String,
        /// Its answer.
        source: r2r::Error,
    },
    /// The ROS arguments cannot be read.
    #[error("ROS arguments: {0}")]
    RosArguments(String),
    /// A parameter that this node does not have, but nearly.
    #[error("parameter {name}: no such name, did you mean {near}?")]
    UnknownParameter {
        /// The name.
        name: String,
        /// The one that it was meant to be.
        near: &'static str,
    },
    /// A parameter of the wrong type or with an unusable value.
    #[error("parameter {name}: expected {expected}, found {found}")]
    Parameter {
        /// The name.
        name: &'static str,
        /// What it may be.
        expected: String,
        /// What it is.
        found: String,
    },
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The backend failed: a tensor that was not computed must not be published.
    #[error("{operation}: {source}")]
    Backend {
        /// What it was doing.
        operation: String,
        /// What went wrong.
        source: BackendError,
    },
    /// A thread of the node died.
    #[error("the {0} thread panicked")]
    Panicked(&'static str),
    /// The operating system refused a thread.
    #[error("start the {name} thread: {source}")]
    Thread {
        /// Its name.
        name: &'static str,
        /// Its answer.
        source: std::io::Error,
    },
}

/// Puts what was asked in front of the middleware's answer.
pub trait RosContext<T> {
    /// See [`RosContext`].
    fn during(self, operation: impl FnOnce() -> String) -> Result<T, NodeError>;
}

impl<T> RosContext<T> for r2r::Result<T> {
    fn during(self, operation: impl FnOnce() -> String) -> Result<T, NodeError> {
        self.map_err(|source| NodeError::Ros { operation: operation(), source })
    }
}
