//! Judges the counters: windows, levels, words and log lines.
//!
//! [`Monitor`] reads the counters once per period and makes a [`Report`]. The ROS edge publishes
//! it.

mod arrivals;
mod assess;
mod causes;
mod drop_details;
pub(crate) mod holding;
mod lag;
mod latency;
mod monitor;
mod node_time;
mod notices;
mod pace;
mod publishers;
mod remedy;
mod report;
mod streams;
mod totals;

pub use arrivals::Arrivals;
pub use assess::Level;
pub(crate) use drop_details::DropDetails;
pub(crate) use holding::Holding;
#[cfg(test)]
pub(crate) use holding::why_not_valid;
pub use latency::Latency;
pub use monitor::{Monitor, Names};
pub use node_time::NodeTime;
pub use remedy::remedy;
pub use report::{Report, Status};

#[cfg(test)]
mod tests;
