//! Checks that a configuration makes what a checkpoint of LeRobot takes.
//!
//! - [`Checkpoint`]: what `config.json` and the files of the processor say.
//! - [`compare`]: that, and the streams of a configuration.
//!
//! A checkpoint says little: not the rate, not the names of the numbers of a state, not how images were resized. So
//! the findings have a list of what nobody knows. docs/contract.md has the whole way, a contract beside the checkpoint.

mod checkpoint;
mod compare;
mod statistics;

pub use checkpoint::{Checkpoint, CheckpointError};
pub use compare::{Findings, compare};

#[cfg(test)]
mod tests;
