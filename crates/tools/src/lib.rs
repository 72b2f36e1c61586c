//! The command line `robocache`, and what its commands do with recorded data.
//!
//! - [`cli`]: the commands and their options.
//! - [`bars`]: how far a replay is, on a terminal.
//! - [`inspect`]: what a bag has, and what is wrong with it.
//! - [`calibrate`]: the constant latency of a stream against another.
//! - [`foxglove`]: a layout of Foxglove for a configuration.
//! - [`policy`]: whether a configuration makes what a checkpoint of LeRobot takes.
//! - [`verify`]: a recording of the node, replayed and compared tick by tick.
//! - [`view`]: what tensors hold, as a report.
//! - [`report`]: tables, pictures and charts as one HTML file.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

pub mod bars;
pub mod calibrate;
pub mod cli;
pub mod foxglove;
pub mod inspect;
pub mod policy;
pub mod report;
pub mod verify;
pub mod view;
