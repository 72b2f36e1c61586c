//! In the making.

pub mod voxelize;
