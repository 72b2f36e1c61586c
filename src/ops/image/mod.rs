//! Images: resize, pad or crop, normalise, `[channels, height, width]`.

pub mod cpu;
#[cfg(feature = "cuda")]
#[allow(unsafe_code)] // launches; every block says why it is sound
pub mod cuda;
mod elements;
mod geometry;
pub mod memory;
mod resize;
mod spec;

pub use geometry::Placement;
pub use spec::{Color, Encoding, Fit, ImageSpec, ImageView, MAX_SIDE};
