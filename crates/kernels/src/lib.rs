//! The CUDA kernels of `kernels/`, compiled by the build script into one fat binary.
//!
//! They are a crate of their own because nvcc needs minutes: the node and the Python package ask for other features
//! of `robocache`, and share this.
#![cfg(feature = "cuda")]

/// The kernels, for every chip that `kernels/nvcc.rs` names, and as PTX for later ones.
pub static FATBIN: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/kernels.fatbin"));

/// Version of the toolkit that compiled them, and so the least one that the driver must know:
/// 1000 * major + 10 * minor.
pub const TOOLKIT: &str = env!("ROBOCACHE_CUDA_VERSION");
