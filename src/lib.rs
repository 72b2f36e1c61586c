//! robocache: every sensor stream of a robot at the same instants, in one tensor per control tick.
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
//! The map of the program, from the outside in:
//!
//! - `ros` (feature `ros`): subscriptions, publishers, parameters and diagnostics of ROS 2;
//!   `ros::rcl` is a safe wrapper over its C library.
//! - [`runtime`]: gives the pipeline time and threads: clock, schedule, queues, workers, health.
//! - [`pipeline`]: `push(input, bytes, arrival)` and `tick(number, epoch)`; no ROS, no clock.
//! - [`input`]: messages to samples, one file per message; [`cdr`]: the wire encoding; [`schema`]:
//!   definitions of any type, and plans that read numbers by them.
//! - [`codec`]: compressed images to pixels.
//! - [`backend`]: where rows live, how samples become rows, and a tick's arithmetic.
//! - [`ops`]: resample, image, depth and voxelize: arithmetic on arrays; its CPU code is the oracle.
//! - [`ring`]: which rows a stream holds; [`align`]: which of them give the value at an instant.
//! - [`tf`]: coordinate frames: transforms at stamps, and look-ups along their chain.
//! - [`layout`]: where each segment is in the packed tensor.
//! - [`time`]: [`Stamp`](time::Stamp), integer nanoseconds, epochs, and the grid of ticks.
//! - [`dtype`]: element types and the one rounding.
//! - [`histogram`]: distributions of latencies and delays, for diagnostics.
//! - [`spec`]: what a configuration means; [`config`]: the YAML file, validated into that.
//! - [`check`]: the tensor of a configuration, described for people and programs.
//! - [`cli`]: the command line.
//! - [`visual`]: what the policy sees, as messages for RViz and Foxglove.
//! - `replay` (feature `replay`): recorded bags through the same pipeline and runtime.
//! - `episodes` (feature `replay`): rows of many episodes, and windows of them for training.
//! - `report` (feature `replay`): tables, pictures and charts as one HTML file.
//! - `view` (feature `replay`): what tensors hold, as a report.
//! - `sim` (feature `sim`): a synthetic robot, every signal an analytic function of time.
//! - `random` (features `sim`, `replay`): reproducible randomness, for the robot, resampling, benchmarks and tests.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

pub mod align;
pub mod backend;
pub mod cdr;
pub mod check;
pub mod cli;
pub mod codec;
pub mod config;
#[allow(unsafe_code)] // a driver in another language; every block says why it is sound
pub mod device;
pub mod dtype;
pub mod histogram;
pub mod input;
pub mod layout;
pub mod ops;
pub mod pipeline;
pub mod ring;
pub mod runtime;
pub mod schema;
pub mod spec;
mod sync;
mod table;
pub mod tf;
pub mod time;
pub mod visual;

#[cfg(feature = "replay")]
pub mod episodes;
#[cfg(any(feature = "sim", feature = "replay"))]
pub mod random;
#[cfg(feature = "replay")]
pub mod replay;
#[cfg(feature = "replay")]
pub mod report;
#[cfg(feature = "ros")]
pub mod ros;
#[cfg(feature = "sim")]
pub mod sim;
#[cfg(feature = "replay")]
pub mod view;
#[cfg(feature = "replay")]
mod zarr;
