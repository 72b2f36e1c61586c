//! A simulated graph: the real loops of `runtime`, `link` and `data` in a world on virtual time, whose faults a seed draws.
//!
//! - [`run`] runs a seed: a discrete-event scheduler steps the loops of a node, and moves a robot, a policy and a simulator
//!   that publish on a simulated network. After each event it checks invariants.
//! - [`Fault`] lists what may go wrong. A seed has a random subset of it, and a mask takes some away.
//! - [`shrink`] finds the faults and the time that a seed needs to fail.
//!
//! The same seed gives the same run on every machine.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

mod agenda;
mod backend;
mod checks;
mod clock;
mod disk;
mod faults;
mod life;
mod net;
mod node;
mod occur;
mod passes;
mod plan;
mod policy;
mod robot;
mod run;
mod shrink;
mod trace;
mod world;

pub use faults::Fault;
pub use run::{Outcome, run};
pub use shrink::{Shrunk, shrink};

/// Time of faults in a run \[s\].
pub const SECONDS: u64 = 30;
