//! The operations on arrays of any library.
//!
//! Python's side reads addresses and shapes of arrays, and keeps the arrays until the call ends. It has checked
//! that they are contiguous and of these shapes. What is on a GPU is put on the stream of the caller.

mod array;
mod direct;
#[allow(unsafe_code)] // arrays of Python's side; every block says why it is sound
mod encode;
#[allow(unsafe_code)] // launches; every block says why it is sound
mod gpu;
mod kept;
#[allow(unsafe_code)] // arrays of Python's side, likewise
mod resample;
mod rule;

pub(crate) use array::{Place, View, empty, synchronize};
pub(crate) use direct::Direct;
pub(crate) use encode::{ImageRule, VoxelRule, encode_images, voxelize_clouds};
#[cfg(feature = "cuda")]
pub(crate) use gpu::{device, scatter, stream_of};
pub(crate) use resample::{fuse, gradient};
pub(crate) use rule::Rule;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use robocache_ops::dtype::DType;

/// The element type of a number that Python's side uses: those of the kernels.
fn dtype(code: u32) -> PyResult<DType> {
    DType::ALL
        .into_iter()
        .find(|dtype| *dtype as u32 == code)
        .ok_or_else(|| PyValueError::new_err(format!("expected an element type, found {code}")))
}
