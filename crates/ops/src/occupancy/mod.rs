//! Maps of what is free and what is occupied: the part around a robot, `[1, height, width]`.
//!
//! A cell of the row is one cell of the map, the one that its centre is in. A mean over several would make a thin
//! wall half free.

pub mod cpu;
mod spec;
#[cfg(test)]
mod tests;

pub use spec::{Between, MAX_PERCENT, OccupancySpec};
