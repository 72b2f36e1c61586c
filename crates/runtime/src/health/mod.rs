//! Judges what [`measure`](super::measure) counts: windows, levels, words and log lines.
//!
//! [`Monitor`] reads the counters once per period and makes a [`Report`]. The ROS edge publishes
//! it.

mod assess;
mod causes;
mod commands;
pub(crate) mod holding;
mod lag;
mod loops;
mod monitor;
mod notices;
mod publishers;
mod remedy;
mod report;
mod streams;
mod totals;

pub use assess::Level;
pub use monitor::{Monitor, Names};
pub use remedy::remedy;
pub use report::{Report, Status};

#[cfg(test)]
mod tests;
