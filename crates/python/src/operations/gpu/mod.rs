//! The operations on GPUs.

#[cfg(feature = "cuda")]
mod batches;
#[cfg(feature = "cuda")]
mod devices;
#[cfg(feature = "cuda")]
mod encoders;
#[cfg(not(feature = "cuda"))]
mod without;

#[cfg(feature = "cuda")]
pub(crate) use self::{
    batches::{Ready, fuse, gradient, launch, ready},
    devices::{device, memory, stream_of, synchronize},
    encoders::{encode_images, scatter, voxelize},
};
#[cfg(not(feature = "cuda"))]
pub(super) use without::{
    Ready, encode_images, fuse, gradient, launch, memory, ready, synchronize, voxelize,
};
