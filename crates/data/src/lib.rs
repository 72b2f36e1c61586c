//! Recorded data: bags, recordings of the node, stores of episodes, and replay. It knows no ROS.
//!
//! - [`file`]: files that are complete or not there.
//! - [`bag`]: the messages of a recording, in the order in which they were received.
//! - [`commands`]: commands again, from chunks and what else command ticks find.
//! - [`store`]: a Zarr store of episodes, its writer and its reader.
//! - [`output`]: where the tensors and rows of a replay go.
//! - [`recording`]: what the node records of itself.
//! - [`replay`]: bags through the pipeline and the runtime of the node.
//! - [`episodes`]: rows of many episodes, and windows of them for training.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

pub mod bag;
pub mod commands;
mod compressing;
pub mod episodes;
pub mod file;
pub mod output;
pub mod recording;
pub mod replay;
pub mod store;
