//! Counts what happens: arrivals and their gaps, latencies, drops, ticks that are held back, and the node's time.
//!
//! The runtime and its threads write here. [`health`](super::health) reads and judges it.

mod arrivals;
mod drop_details;
mod holding;
mod latency;
mod node_time;
mod pace;

pub use arrivals::Arrivals;
pub(crate) use drop_details::DropDetails;
pub(crate) use holding::{Holding, HoldingLine};
pub use latency::Latency;
pub use node_time::NodeTime;
pub(crate) use node_time::{Rate, RateMeter};
