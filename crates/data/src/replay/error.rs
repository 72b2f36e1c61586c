//! Errors that end the replay of an episode.

use crate::bag::{BagError, Problems};
use crate::file::OutputError;
use robocache_core::backend::BackendError;
use robocache_core::config::ConfigError;
use robocache_core::pipeline::SpecError;
use robocache_runtime::RuntimeError;

/// Why an episode could not be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The bag cannot be read.
    #[error(transparent)]
    Bag(#[from] BagError),
    /// The configuration is not valid, or not with the definitions in this bag.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The configuration does not fit the bag.
    #[error("{0}")]
    Wiring(String),
    /// There is no backend.
    #[error(transparent)]
    Backend(#[from] BackendError),
    /// The configuration leads to no pipeline.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The backend failed.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// The operating system could not read a file, so that what was read must not pass for all.
    #[error("{0}")]
    Unreadable(String),
    /// The result cannot be written.
    #[error(transparent)]
    Output(#[from] OutputError),
}

impl Problems {
    /// Checks that all was read but what is damaged.
    ///
    /// # Errors
    /// [`ReplayError::Unreadable`] if the operating system could not read a file. It may be whole, so what was read
    /// must not pass for all.
    pub fn readable(&self) -> Result<(), ReplayError> {
        if !self.unreadable {
            return Ok(());
        }
        let first = self.first.iter().find(|problem| problem.unreadable);
        Err(ReplayError::Unreadable(first.map_or_else(String::new, ToString::to_string)))
    }
}
