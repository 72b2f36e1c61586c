//! Where tensors go.

mod mcap;
mod partial;

use std::path::{Path, PathBuf};

pub use mcap::{Info, McapOutput, fused_tensor_definition, fused_tensor_info_definition};
pub use partial::Partial;

use crate::pipeline::TensorMessage;
use crate::runtime::Tick;

/// Takes the tensors of an episode, in the order of their ticks.
pub trait Output {
    /// Takes one.
    ///
    /// # Errors
    /// It cannot be written, for example because the disk is full.
    fn tick(&mut self, tick: Tick, message: &TensorMessage) -> Result<(), OutputError>;
}

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
    pub fn of(path: &Path) -> impl FnOnce(std::io::Error) -> OutputError {
        let path = path.to_owned();
        move |source| OutputError { path, source }
    }
}
