//! Operations: arithmetic on arrays, without rings, streams or ROS.
//!
//! Each has its specification, its CPU code and its CUDA twin in a folder of its own. The CPU code
//! is the oracle: the twin gives the same bits.

pub mod depth;
pub mod image;
pub mod operators;
pub mod parallel;
pub mod resample;
pub mod voxelize;
pub mod windows;
