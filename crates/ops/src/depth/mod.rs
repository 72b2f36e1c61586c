//! Depth images: from the numbers of a depth camera to metres, `[1, height, width]`.
//!
//! A pixel of the row is one pixel of the image, the one whose centre is nearest. A mean over several pixels would mix
//! in pixels without a measurement. It would also put points between two surfaces.

pub mod cpu;
#[cfg(feature = "cuda")]
#[allow(unsafe_code)] // launches; every block says why it is sound
pub mod cuda;
pub mod memory;
mod spec;

pub use spec::{DepthElement, DepthSpec, DepthView};
