//! The compiled part of the Python package `robocache`: its module `robocache._native`.
//!
//! Everything here is a thin edge. It turns Python's arrays and arguments into those of the crate
//! [`robocache`], gives the interpreter's lock away while that computes, and turns errors into exceptions.
//! The package `robocache` in `python/` has what users call, with its documentation.

#[cfg(feature = "cuda")]
#[allow(unsafe_code)] // launches; every block says why it is sound
mod device_episodes;
#[allow(unsafe_code)] // memory that other libraries own; every block says why it is sound
mod dlpack;
mod episodes;
mod freeing;
#[allow(unsafe_code)] // streams of other libraries; the block says why it is sound
mod held_tensor;
mod live;
mod operations;
mod pipeline;
mod replay;
mod replay_to;
mod tensor;

use std::ffi::OsString;

use pyo3::prelude::*;

/// What `robocache` computes, without the parts that are Python.
#[pymodule]
mod _native {
    /// Segments and windows start at multiples of this many bytes.
    #[pymodule_export]
    const ALIGNMENT: usize = robocache_ops::packing::ALIGNMENT;

    #[pymodule_export]
    use super::{cuda_version, made_of, main, version};
    #[cfg(feature = "cuda")]
    #[pymodule_export]
    use crate::device_episodes::{DeviceEpisodes, DeviceWindowPlan};
    #[pymodule_export]
    use crate::dlpack::DeviceArray;
    #[pymodule_export]
    use crate::episodes::{Episodes, WindowPlan};
    #[pymodule_export]
    use crate::live::LivePipeline;
    #[pymodule_export]
    use crate::operations::{
        Direct, ImageRule, Rule, View, VoxelRule, empty, encode_images, fuse, gradient,
        synchronize, voxelize_clouds,
    };
    #[pymodule_export]
    use crate::pipeline::Pipeline;
    #[pymodule_export]
    use crate::replay::{ReplayEpisode, ReplayRun, find_episodes};
    #[pymodule_export]
    use crate::replay_to::replay_to;
    #[pymodule_export]
    use crate::tensor::TensorBytes;
}

/// Runs the command line of `robocache`; the first argument is the program's name. Returns the exit code.
#[pyfunction]
fn main(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| robocache_tools::cli::run(arguments))
}

/// What the results of a command line of `robocache replay` would be made of: per episode its name, and a text.
#[pyfunction]
fn made_of(py: Python<'_>, arguments: Vec<OsString>) -> PyResult<Vec<(String, String)>> {
    py.detach(|| robocache_tools::cli::made_of(arguments).map_err(|error| error.to_string()))
        .map_err(pipeline::wrong)
}

/// The version of the package.
#[pyfunction]
fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

/// The version of CUDA that the kernels were compiled with, or `None` if there are none.
#[pyfunction]
fn cuda_version() -> Option<&'static str> {
    robocache_ops::device::cuda_version()
}
