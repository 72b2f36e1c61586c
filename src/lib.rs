//! robocache: every sensor stream of a robot at the same instants, in one tensor per control tick.
//!
//! **Every stream is a ring of (stamp, row); fusing is resampling every ring at the target times
//! into one packed tensor.**
//!
//! ```text
//! message bytes --decode--> row --ring--+
//! message bytes --decode--> row --ring--+--> fuse(tick) --> packed tensor --> publish / write
//! message bytes --decode--> row --ring--+
//! ```
//!
//! The map of the program:
//!
//! - [`time`]: [`Stamp`](time::Stamp), integer nanoseconds, and the grid of ticks.
//! - [`dtype`]: element types and the one rounding; [`stats`]: what is counted, and why.
//! - [`config`]: the YAML file, validated into specs.
//! - [`cdr`]: the wire encoding of ROS messages; [`decode`]: messages to borrowed views.
//! - [`ring`]: which rows a stream holds; [`align`]: which of them give the value at an instant.
//! - [`layout`]: where each segment stands in the packed tensor.
//! - [`check`]: the tensor of a configuration, described for people and programs.
//! - [`backend`]: where rows live and tensors are computed; [`backend::cpu`] is the oracle.
//! - [`pipeline`]: `push(stream, bytes, receive_stamp)` and `tick(stamp)`; no ROS, no clock.
//! - [`message`]: a tick as the bytes of a `robocache_ros/msg/FusedTensor`.
//! - [`priority`]: real-time priority of the thread that ticks.
//! - [`mod@bench`]: times of kernels and ticks, each output checked against the oracle.
//! - [`sim`]: a synthetic robot, every signal an analytic function of time.
//! - [`random`]: reproducible randomness, for the robot, the benchmarks and the tests.
//! - `node` (feature `ros`): subscriptions, publisher, clock, parameters, diagnostics.

pub mod align;
pub mod backend;
pub mod bench;
pub mod cdr;
pub mod check;
pub mod config;
pub mod decode;
pub mod dtype;
pub mod layout;
pub mod message;
pub mod pipeline;
pub mod priority;
pub mod random;
pub mod ring;
pub mod sim;
pub mod stats;
mod sync;
pub mod time;

#[cfg(feature = "ros")]
pub mod node;
