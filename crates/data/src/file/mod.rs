//! Files and folders that are complete or not there.

mod partial;

use std::path::{Path, PathBuf};

pub use partial::{Partial, PartialFolder, remove};

/// Why a result could not be written.
#[derive(Debug, thiserror::Error)]
#[error("{}: {source}", path.display())]
pub struct OutputError {
    /// The file.
    pub path: PathBuf,
    /// Why.
    pub source: std::io::Error,
}

impl OutputError {
    /// The error of an operation on this file.
    pub fn of(path: &Path) -> impl FnOnce(std::io::Error) -> OutputError + use<> {
        let path = path.to_owned();
        move |source| OutputError { path, source }
    }
}
