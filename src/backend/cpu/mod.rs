//! In the making.

pub mod image;
pub mod resize;
