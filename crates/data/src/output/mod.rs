//! Outputs of tensors, rows and commands.

mod commands;
mod images;
mod mcap;
mod rows;
mod tensors;

pub use commands::{CHUNKS, COMMANDS};
pub use images::Images;
pub use mcap::{Info, McapOutput, fused_tensor_definition, fused_tensor_info_definition};
pub(super) use mcap::{io, offered, qos};
pub use rows::{RowOutput, StoredRows};
pub use tensors::TensorOutput;

use std::str::FromStr;

use crate::commands::{MadeCommand, TakenChunk};
use crate::file::OutputError;
use robocache_core::encoder::EncoderSpec;
use robocache_core::layout::Holds;
use robocache_core::message::TensorMessage;
use robocache_ops::time::Stamp;
use robocache_runtime::Tick;

/// Takes the tensors of an episode, in the order of their ticks, or the rows that they would be made of.
pub trait Output {
    /// True if the output takes tensors. If not, it gets its rows from the pipeline
    /// ([`Pipeline::keep_rows`](robocache_core::pipeline::Pipeline::keep_rows)), and no tick is fused.
    fn takes_ticks(&self) -> bool {
        true
    }

    /// Takes a tensor.
    ///
    /// # Errors
    /// It cannot be written, for example because the disk is full.
    fn tick(&mut self, tick: Tick, message: &TensorMessage) -> Result<(), OutputError>;

    /// True if it takes chunks of actions and commands. Otherwise none are made.
    fn takes_commands(&self) -> bool {
        false
    }

    /// Takes a chunk that a command tick has found, and the number of its topic among those of chunks. `at` is on the
    /// recorder's clock.
    ///
    /// # Errors
    /// It cannot be written.
    fn chunk(&mut self, _: &TakenChunk<'_>, _topic: usize, _at: Stamp) -> Result<(), OutputError> {
        Ok(())
    }

    /// Takes the command of a group at a command tick, which is at this instant of the recorder's clock.
    ///
    /// # Errors
    /// It cannot be written.
    fn command(&mut self, _: &MadeCommand<'_>, _at: Stamp) -> Result<(), OutputError> {
        Ok(())
    }

    /// Tells what went wrong since the last call.
    ///
    /// # Errors
    /// A row could not be written.
    fn check(&mut self) -> Result<(), OutputError> {
        Ok(())
    }
}

/// How elements of bf16 are stored where readers do not know the type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bf16 {
    /// Their bits, as `uint16`.
    #[default]
    Uint16,
    /// As the same number in `float32`.
    F32,
}

impl FromStr for Bf16 {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "uint16" => Ok(Bf16::Uint16),
            "f32" => Ok(Bf16::F32),
            _ => Err(format!("expected uint16 or f32, found '{text}'")),
        }
    }
}

/// The names of a row's dimensions.
fn row_dimensions(encoder: &EncoderSpec, holds: Holds) -> &'static [&'static str] {
    match holds {
        Holds::Coordinates => &["voxel", "axis"],
        Holds::Features | Holds::Rows => encoder.axes(),
    }
}
