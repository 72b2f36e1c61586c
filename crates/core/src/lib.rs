//! Messages to tensors.
//!
//! **Every stream is a ring of (stamp, row); fusing is resampling every ring at the target times
//! into one packed tensor.**
//!
//! ```text
//! message bytes --input--> sample --encoder--> row --> ring --+
//! message bytes --input--> sample --encoder--> row --> ring --+--> tick --> packed tensor
//! message bytes --input--> sample --encoder--> row --> ring --+
//! ```
//!
//! It knows no thread, no clock, no bag and no ROS, and only [`config`] knows YAML. From the bottom up:
//!
//! - [`rejected`]: why a message is not taken. [`sample`]: what an input gives to an encoder.
//! - [`cdr`]: the wire encoding. [`schema`]: definitions of any type, and readers made by them.
//! - [`codec`]: compressed images to pixels. [`tf`]: coordinate frames at stamps.
//! - [`encoder`]: how samples become rows, one type per encoder.
//! - [`ring`]: which rows a stream holds. [`spec`]: what a configuration means.
//! - [`input`]: messages to samples, one file per message.
//! - [`layout`]: where each segment is in the packed tensor.
//! - [`contract`]: what a policy relies on that was trained on the tensors.
//! - [`message`]: how a tensor message is laid out, written, read and described.
//! - [`backend`]: where rows live, how samples become rows, and a tick's arithmetic.
//! - [`pipeline`]: `push(input, bytes, arrival)` and `tick(number, epoch)`.
//! - [`command`]: chunks of actions to commands, the way back.
//! - [`visual`]: what the policy sees, as messages for RViz and Foxglove.
//! - [`histogram`]: distributions of latencies and delays. [`table`]: columns of text.
//! - [`config`]: the YAML file, validated into a [`spec`], and the description of its tensor.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

pub mod backend;
pub mod cdr;
pub mod codec;
pub mod command;
pub mod config;
pub mod contract;
pub mod encoder;
pub mod histogram;
pub mod input;
pub mod layout;
pub mod message;
pub mod pipeline;
pub mod rejected;
pub mod ring;
pub mod sample;
pub mod schema;
pub mod spec;
pub mod table;
pub mod tf;
pub mod visual;
