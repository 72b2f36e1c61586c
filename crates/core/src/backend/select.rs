//! Chooses the backend of a program.

use std::str::FromStr;
use std::sync::Arc;

use super::cpu::CpuBackend;
use super::{Backend, BackendError};
use crate::layout::Layout;
use crate::spec::Config;
#[cfg(feature = "cuda")]
use robocache_ops::device::Device;

/// Choice of the user: `backend: auto | cpu | cuda`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// Rows on the host. If a GPU can be used, each image and each cloud is encoded by a core or by
    /// the GPU, whichever has lately finished sooner. A GPU that fails is left, and the program
    /// goes on.
    #[default]
    Auto,
    /// Rows on the host, and no GPU.
    Cpu,
    /// Rows on the GPU, or an error that says why not, also later.
    Cuda,
}

impl Choice {
    /// The accepted words, for error messages.
    pub const NAMES: &str = "auto, cpu or cuda";
}

/// Reads the word in a parameter or on the command line.
impl FromStr for Choice {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Ok(match name {
            "auto" => Choice::Auto,
            "cpu" => Choice::Cpu,
            "cuda" => Choice::Cuda,
            _ => return Err(format!("expected {}, found '{name}'", Self::NAMES)),
        })
    }
}

/// Makes the chosen backend, with the memory of all rings, and logs which it is. `device` is the ordinal of the GPU.
///
/// # Errors
/// [`BackendError::Unavailable`] or [`BackendError::Failed`] if the user asked for CUDA and it
/// cannot be used. With [`Choice::Auto`] this function logs the reason and takes the CPU. The log
/// is a warning if the machine has a driver.
pub fn create(
    choice: Choice,
    device: usize,
    config: &Config,
    layout: &Layout,
) -> Result<Arc<dyn Backend>, BackendError> {
    match choice {
        Choice::Cpu => tracing::info!("computing on the CPU"),
        Choice::Cuda => return cuda(device, config, layout),
        Choice::Auto => match cpu_with_gpu(device, config, layout) {
            Ok(backend) => return Ok(backend),
            Err(reason) if is_expected(&reason) => tracing::info!("computing on the CPU: {reason}"),
            Err(reason) => tracing::warn!("computing on the CPU: {reason}"),
        },
    }
    Ok(Arc::new(CpuBackend::new(config, layout)?))
}

/// Makes the backend whose outputs are in memory of a GPU, and logs which it is. With [`Choice::Cpu`] cores encode
/// images and clouds, otherwise the GPU.
///
/// # Errors
/// [`BackendError::Unavailable`] or [`BackendError::Failed`] if the GPU cannot be used.
#[cfg(feature = "cuda")]
pub fn create_for_device(
    choice: Choice,
    ordinal: usize,
    config: &Config,
    layout: &Layout,
) -> Result<Arc<dyn Backend>, BackendError> {
    let (processor, encoder) = match choice {
        Choice::Cpu => (super::Processor::Cpu, "cores encode"),
        Choice::Auto | Choice::Cuda => (super::Processor::Gpu, "it encodes"),
    };
    let device = Device::open(ordinal)?;
    let backend = super::cuda::CudaBackend::for_device(&device, processor, config, layout)?;
    let name = device.name();
    let kind = kind(&device);
    tracing::info!(
        "tensors stay on {name} (device {ordinal}, {kind}); {encoder} images and clouds"
    );
    Ok(Arc::new(backend))
}

/// Fails, because this build is without CUDA.
///
/// # Errors
/// Always.
#[cfg(not(feature = "cuda"))]
pub fn create_for_device(
    _: Choice,
    _: usize,
    _: &Config,
    _: &Layout,
) -> Result<Arc<dyn Backend>, BackendError> {
    Err(without_cuda())
}

/// The numbers of all GPUs that the choice may use; only 0 for the CPU, and for `auto` without a GPU.
///
/// # Errors
/// [`BackendError::Unavailable`] if the user asked for CUDA and there is no GPU.
pub fn devices(choice: Choice) -> Result<Vec<usize>, BackendError> {
    let count = match choice {
        Choice::Cpu => 1,
        Choice::Auto => gpus().unwrap_or(1),
        Choice::Cuda => gpus()?,
    };
    Ok((0..count.max(1)).collect())
}

#[cfg(feature = "cuda")]
fn gpus() -> Result<usize, BackendError> {
    Ok(Device::count()?)
}

#[cfg(not(feature = "cuda"))]
fn gpus() -> Result<usize, BackendError> {
    Err(without_cuda())
}

/// True if the user cannot expect a GPU: the program was built without CUDA, or the machine has no
/// driver.
fn is_expected(reason: &BackendError) -> bool {
    let without_driver = "no NVIDIA driver on this machine";
    match reason {
        BackendError::Unavailable { detail, .. } => {
            !cfg!(feature = "cuda") || detail.starts_with(without_driver)
        }
        _ => false,
    }
}

/// Rows on the GPU.
#[cfg(feature = "cuda")]
fn cuda(
    ordinal: usize,
    config: &Config,
    layout: &Layout,
) -> Result<Arc<dyn Backend>, BackendError> {
    let device = Device::open(ordinal)?;
    let backend = super::cuda::CudaBackend::new(&device, config, layout)?;
    let name = device.name();
    let kind = kind(&device);
    tracing::info!("computing on {name} (device {ordinal}, {kind})");
    Ok(Arc::new(backend))
}

/// Rows on the host, with the GPU as an encoder.
#[cfg(feature = "cuda")]
fn cpu_with_gpu(
    ordinal: usize,
    config: &Config,
    layout: &Layout,
) -> Result<Arc<dyn Backend>, BackendError> {
    let device = Device::open(ordinal)?;
    let backend = CpuBackend::with_gpu(&device, config, layout)?;
    let name = device.name();
    let kind = kind(&device);
    tracing::info!(
        "computing on the CPU, images and clouds also on {name} (device {ordinal}, {kind}) while it \
         is faster"
    );
    Ok(Arc::new(backend))
}

/// Kind of the GPU, in words: with memory of its own or not, and shared by other processes side by side or in turns.
#[cfg(feature = "cuda")]
fn kind(device: &Device) -> String {
    let integrated = if device.host_access().integrated { "integrated, " } else { "" };
    let mps = if device.uses_mps() { "with MPS" } else { "without MPS" };
    format!("{integrated}{mps}")
}

#[cfg(not(feature = "cuda"))]
use cuda as cpu_with_gpu;

#[cfg(not(feature = "cuda"))]
fn cuda(_: usize, _: &Config, _: &Layout) -> Result<Arc<dyn Backend>, BackendError> {
    Err(without_cuda())
}

#[cfg(not(feature = "cuda"))]
fn without_cuda() -> BackendError {
    let detail =
        "this program was built without the feature `cuda`; if there is an NVIDIA GPU whose \
                  driver is new enough, see docs/gpu.md: run scripts/cuda.sh, then build again"
            .into();
    BackendError::Unavailable { backend: "cuda", detail }
}

#[cfg(test)]
mod tests;
