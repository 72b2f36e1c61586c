//! Types of the GPU's operations in a build without CUDA.

use std::sync::Arc;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use robocache_ops::image::Encoding;
use robocache_ops::resample::{BatchSpec, Times};
use robocache_ops::voxelize::PointDrops;
use robocache_ops::voxelize::batch::Clouds;

use crate::dlpack::Memory;
use crate::operations::resample::Batch;
use crate::operations::{ImageRule, Place, VoxelRule};

fn none<T>() -> PyResult<T> {
    Err(PyRuntimeError::new_err(
        "expected a build with CUDA for arrays on a GPU, found one without",
    ))
}

/// There are no GPUs.
#[derive(Clone)]
pub(crate) enum Ready {}

impl Ready {
    /// Always false: a build without CUDA has no kernels.
    pub(crate) fn is_current(&self) -> bool {
        match *self {}
    }
}

/// There are no GPUs.
pub(crate) fn ready(_: Python<'_>, _: i32, _: &BatchSpec, _: Times, _: &[u64]) -> PyResult<Ready> {
    none()
}

/// There are no GPUs.
pub(crate) fn launch(
    _: Python<'_>,
    ready: &Ready,
    _: Place,
    _: &Batch<'_>,
    _: (usize, usize, usize),
) -> PyResult<()> {
    match *ready {}
}

/// There are no GPUs.
pub(crate) fn memory(_: i32, _: usize) -> PyResult<Arc<dyn Memory>> {
    none()
}

/// There are no GPUs.
pub(crate) fn synchronize(_: i32) -> PyResult<()> {
    none()
}

/// There are no GPUs.
pub(crate) fn fuse(
    _: Python<'_>,
    _: Place,
    _: &Batch<'_>,
    _: (usize, usize, usize),
    _: &[u64],
) -> PyResult<()> {
    none()
}

/// There are no GPUs.
pub(crate) fn voxelize(
    _: Python<'_>,
    _: Place,
    _: &VoxelRule,
    _: &Clouds<'_>,
    _: (usize, usize),
    _: usize,
) -> PyResult<Vec<PointDrops>> {
    none()
}

/// There are no GPUs.
pub(crate) fn encode_images(
    _: Python<'_>,
    _: Place,
    _: &ImageRule,
    _: (usize, usize),
    _: (Encoding, usize, usize),
    _: usize,
) -> PyResult<()> {
    none()
}

/// There are no GPUs.
pub(crate) fn gradient(_: Python<'_>, _: Place, _: &Batch<'_>, _: usize) -> PyResult<()> {
    none()
}
