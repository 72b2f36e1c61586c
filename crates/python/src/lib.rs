//! The compiled part of the Python package `robocache`: its module `robocache._native`.
//!
//! Everything here is a thin edge. It turns Python's arrays and arguments into those of the crates below,
//! gives the interpreter's lock away while they compute, and turns errors into exceptions. It knows no ROS.
//! The package `robocache` in `python/` has what users call, with its documentation.
//!
//! - [`dlpack`]: arrays of other libraries, in and out, without a copy.
//! - [`operations`]: the operations on these arrays, on the CPU and on a GPU.
//! - [`tensor`] and [`held_tensor`]: tensors in Python's hands, and their memory, which is used again.
//! - [`pipeline`]: a pipeline by the caller's clock. [`live`]: one in the node's runtime, on threads.
//! - [`request`]: what a replay is asked for. [`replay`]: recorded episodes, tick by tick. [`replay_to`]: the same into
//!   files. [`recordings`]: episodes that Python reads.
//! - [`contract`]: what a policy relies on that was trained on tensors.
//! - [`episodes`]: windows of rows for training. `episodes::device`: the same, made by a GPU.
//! - [`shared`]: tensors of a node in shared memory, and chunks of actions that go back.
//! - [`freeing`]: drops what takes long, without the interpreter's lock.

mod contract;
#[allow(unsafe_code)] // memory that other libraries own; every block says why it is sound
mod dlpack;
mod episodes;
mod errors;
mod freeing;
#[allow(unsafe_code)] // streams of other libraries; the block says why it is sound
mod held_tensor;
mod interrupt;
mod live;
mod message;
mod operations;
mod pipeline;
mod process;
mod recordings;
mod replay;
mod replay_to;
mod request;
mod shared;
mod tensor;

use std::ffi::OsString;

use pyo3::prelude::*;

/// Computations of `robocache`, without the parts that are Python.
#[pymodule]
mod _native {
    /// Segments and windows start at multiples of this many bytes.
    #[pymodule_export]
    const ALIGNMENT: usize = robocache_ops::packing::ALIGNMENT;

    #[pymodule_export]
    use super::{cuda_version, main, version};
    #[pymodule_export]
    use crate::contract::{
        ActionForm, contract_accept, contract_differences, contract_load, contract_of,
        contract_only, contract_read, contract_save,
    };
    #[pymodule_export]
    use crate::dlpack::{DeviceArray, current_stream};
    #[cfg(feature = "cuda")]
    #[pymodule_export]
    use crate::episodes::device::{DeviceEpisodes, DeviceOrder};
    #[pymodule_export]
    use crate::episodes::{Episodes, plan::WindowPlan};
    #[pymodule_export]
    use crate::live::LivePipeline;
    #[pymodule_export]
    use crate::message::read_message;
    #[cfg(feature = "cuda")]
    #[pymodule_export]
    use crate::operations::scatter;
    #[pymodule_export]
    use crate::operations::{
        Direct, ImageRule, Rule, View, VoxelRule, empty, encode_images, fuse, gradient,
        synchronize, voxelize_clouds,
    };
    #[pymodule_export]
    use crate::pipeline::Pipeline;
    #[pymodule_export]
    use crate::replay::{ReplayEpisode, ReplayRun, ReplaySettings, find_episodes, look_at_episode};
    #[pymodule_export]
    use crate::replay_to::replay_to;
    #[pymodule_export]
    use crate::request::PyReplayRequest;
    #[pymodule_export]
    use crate::shared::{SharedReader, SharedTensor, SharedWriter};
    #[pymodule_export]
    use crate::tensor::TensorBytes;
}

/// Runs the command line of `robocache`; the first argument is the program's name. Returns the exit code.
#[pyfunction]
fn main(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| robocache_tools::cli::run(arguments))
}

/// The version of the package.
#[pyfunction]
fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

/// The version of CUDA that the kernels were compiled with, or `None` without kernels.
#[pyfunction]
fn cuda_version() -> Option<&'static str> {
    robocache_ops::device::cuda_version()
}
