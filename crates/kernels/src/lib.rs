//! The CUDA kernels of `kernels/`, compiled by the build script into one fat binary.
//!
//! - `kernels/` at the top of the repository: the sources, and `nvcc.rs`, which runs the compiler.
//! - `build.rs`: calls it if the feature `cuda` is on. Without it, this crate is empty and needs no nvcc.
//! - [`FATBIN`]: the result. `robocache_ops::device` loads and launches it.
//!
//! They are a crate of their own because nvcc needs minutes: one compilation serves every build of a profile, whatever
//! features the other crates have.
#![cfg(feature = "cuda")]

/// The kernels, for every chip that `kernels/nvcc.rs` names, and as PTX for later ones.
pub static FATBIN: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/kernels.fatbin"));

/// Version of the toolkit that compiled them, and so the least one that the driver must know:
/// 1000 * major + 10 * minor.
pub const TOOLKIT: &str = env!("ROBOCACHE_CUDA_VERSION");
