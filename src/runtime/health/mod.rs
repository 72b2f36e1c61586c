//! Judges the counters: windows, levels, words and log lines.
//!
//! [`Monitor`] reads the counters once per period and makes a [`Report`]. The ROS edge publishes
//! it.

mod arrivals;
mod assess;
mod latency;
mod monitor;
mod notices;
mod publishers;
mod report;
mod totals;

pub use arrivals::Arrivals;
pub use assess::Level;
pub use latency::{Latency, Quantiles, WindowReader};
pub use monitor::{Monitor, Names};
pub use publishers::PublisherSeen;
pub use report::{Report, Status};
