//! Operations: arithmetic on arrays, without rings, streams or ROS.
//!
//! Each has its specification, its CPU code and its CUDA twin in a folder of its own. The CPU code
//! is the oracle: the twin gives the same bits.
//!
//! - [`time`]: [`Stamp`](time::Stamp), integer nanoseconds, epochs, and the grid of ticks.
//! - [`dtype`]: element types and the one rounding. [`packing`]: alignment and runs of a packed tensor.
//! - [`align`]: which rows of a stream give the value at an instant.
//! - [`resample`], [`operators`], [`image`], [`depth`], [`voxelize`], [`occupancy`]: operations on numbers, pixels,
//!   points and maps.
//! - [`map`]: what encoders of maps share. [`windows`]: values of many instants at once, for training.
//! - [`device`]: the GPU, its memory, and the structures that the kernels share.
//! - [`parallel`], [`sync`], [`pool`], [`heap`], [`random`]: threads, locks, memory for reuse, freed memory, reproducible
//!   randomness.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

pub mod align;
pub mod depth;
pub mod device;
pub mod dtype;
pub mod heap;
pub mod image;
pub mod map;
pub mod occupancy;
pub mod operators;
pub mod packing;
pub mod parallel;
pub mod pool;
pub mod random;
pub mod resample;
pub mod sync;
pub mod time;
pub mod voxelize;
pub mod windows;
