//! Tensors and chunks of actions in shared memory, for policies on the same machine that have no ROS.
//!
//! The engine is iceoryx2. A [`TensorPublisher`] lends its memory to ticks, so that a tensor is written where
//! policies read it. A [`TensorReader`] gets the newest tensor without a copy. An [`ActionWriter`] sends chunks back, which
//! the node takes by a [`ChunkReader`].
//!
//! - `folder`: whose the engine's folder and memory must be.
//! - `service`: the names, types and limits that both sides agree on.
//! - `publisher`: chunks of memory, and which message was last written into each.
//! - `info`: what the tensors mean, for readers that come later.
//! - `port`: how a policy receives samples.
//! - `reader`: waits for a tensor, and owns its memory until the last view of it is gone.
//! - `actions`: chunks that go to the node, and statuses that come back.
//! - `room`: the memory that a service takes, and whether there is room for it.
//!
//! This crate knows these messages, and neither ROS nor Python.

mod actions;
mod error;
mod folder;
#[allow(unsafe_code)] // memory that another process maps; every block says why it is sound
mod info;
mod port;
#[allow(unsafe_code)] // as above
mod publisher;
#[allow(unsafe_code)] // as above
mod reader;
mod room;
#[allow(unsafe_code)] // as above
mod service;

pub use actions::{ActionWriter, Answered, ChunkReader, StatusPublisher};
pub use error::SharedError;
pub use info::InfoPublisher;
pub use publisher::TensorPublisher;
pub use reader::{TensorReader, TensorSample};

#[cfg(test)]
mod tests;
