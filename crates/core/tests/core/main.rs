//! Tests of robocache_core from outside, in one program.

mod backends;
mod bad_configs;
mod common;
mod contract;
mod deskew;
mod determinism;
mod digests;
mod encoders;
mod filter_golden;
mod image_golden;
mod jpeg;
mod pipeline;
mod public_cases;
mod ring_align;
mod truth;
mod undistort_golden;
mod voxelize;
