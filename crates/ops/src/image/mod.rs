//! Images: crop, resize, pad, normalise; `[channels, height, width]` or `[height, width, channels]`.

mod arithmetic;
pub mod batch;
pub mod camera;
pub mod cpu;
#[cfg(feature = "cuda")]
#[allow(unsafe_code)] // launches; every block says why it is sound
pub mod cuda;
mod elements;
mod geometry;
pub mod jpeg;
#[cfg(feature = "cuda")]
#[allow(unsafe_code)] // launches; every block says why it is sound
mod jpeg_cuda;
pub mod memory;
mod pixels;
mod placement;
mod remap;
mod resize;
mod spec;
#[cfg(feature = "cuda")]
#[allow(unsafe_code)] // a launch; its block says why it is sound
mod undistort_cuda;
mod weights;

pub use placement::Placement;
pub use remap::{MAX_SENSOR, Remap};
pub use spec::{
    Color, Crop, Encoding, Filter, Fit, ImageLayout, ImageSpec, ImageView, MAX_RESIZES, MAX_SIDE,
    Resize,
};
