//! Which backend a program runs on.

use std::str::FromStr;
use std::sync::Arc;

use super::cpu::CpuBackend;
use super::{Backend, BackendError};
use crate::config::Config;
use crate::layout::Layout;

/// What was asked for: `backend: auto | cpu | cuda`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// CUDA where it can be used, the CPU elsewhere. Decided once, at the start.
    #[default]
    Auto,
    /// The CPU.
    Cpu,
    /// The GPU, or an error that says why not.
    Cuda,
}

impl Choice {
    /// The words for it.
    pub const NAMES: &str = "auto, cpu or cuda";
}

/// From the word in a parameter or on the command line.
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

/// Makes the backend that was asked for, with the memory of all rings. `device` is the ordinal of
/// the GPU.
///
/// # Errors
/// [`BackendError::Unavailable`] or [`BackendError::Failed`] where CUDA was asked for and cannot
/// be used. Under [`Choice::Auto`] that is logged, as a warning if it is about a driver that the
/// machine has, and the CPU taken.
pub fn create(
    choice: Choice,
    device: usize,
    config: &Config,
    layout: &Layout,
) -> Result<Arc<dyn Backend>, BackendError> {
    match choice {
        Choice::Cpu => {}
        Choice::Cuda => return cuda(device, config, layout),
        Choice::Auto => match cuda(device, config, layout) {
            Ok(backend) => return Ok(backend),
            Err(reason) if is_expected(&reason) => tracing::info!("computing on the CPU: {reason}"),
            Err(reason) => tracing::warn!("computing on the CPU: {reason}"),
        },
    }
    Ok(Arc::new(CpuBackend::new(config, layout)?))
}

/// Whether nobody could expect a GPU to be used: none was built for, or the machine has no driver.
fn is_expected(reason: &BackendError) -> bool {
    let without_driver = "no NVIDIA driver on this machine";
    match reason {
        BackendError::Unavailable { detail, .. } => {
            !cfg!(feature = "cuda") || detail.starts_with(without_driver)
        }
        _ => false,
    }
}

#[cfg(feature = "cuda")]
fn cuda(device: usize, config: &Config, layout: &Layout) -> Result<Arc<dyn Backend>, BackendError> {
    Ok(Arc::new(super::cuda::CudaBackend::new(device, config, layout)?))
}

#[cfg(not(feature = "cuda"))]
fn cuda(_: usize, _: &Config, _: &Layout) -> Result<Arc<dyn Backend>, BackendError> {
    let detail = "this program was built without the feature `cuda`: where there is an NVIDIA GPU \
                  and its driver is new enough (README, On a GPU), run scripts/cuda.sh of its source, \
                  then build again"
        .into();
    Err(BackendError::Unavailable { backend: "cuda", detail })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &str = "
rate_hz: 100
streams:
  wrench: {type: geometry_msgs/WrenchStamped, topic: /wrench, max_age_ms: 50}
";

    #[test]
    fn without_a_gpu_auto_takes_the_cpu_and_cuda_says_why() {
        let config = crate::config::parse(CONFIG, "test.yaml").unwrap();
        let layout = Layout::new(&config);
        let cuda = create(Choice::Cuda, 0, &config, &layout);
        let auto = create(Choice::Auto, 0, &config, &layout).unwrap();
        match cuda {
            Ok(backend) => assert_eq!((backend.name(), auto.name()), ("cuda", "cuda")),
            Err(error) => {
                assert!(error.to_string().starts_with("backend cuda: "), "{error}");
                assert_eq!(auto.name(), "cpu");
            }
        }
        assert_eq!(create(Choice::Cpu, 0, &config, &layout).unwrap().name(), "cpu");
    }

    #[test]
    fn only_a_driver_that_exists_and_is_refused_is_worth_a_warning() {
        let unavailable =
            |detail: &str| BackendError::Unavailable { backend: "cuda", detail: detail.into() };
        let refused = unavailable("the driver is too old: expected one for CUDA 13.x or later");
        assert_eq!(is_expected(&refused), cfg!(not(feature = "cuda")));
        // What is said of this machine, where it has no driver.
        let config = crate::config::parse(CONFIG, "test.yaml").unwrap();
        let Err(error) = create(Choice::Cuda, 0, &config, &Layout::new(&config)) else { return };
        let absent = error.to_string().contains("libcuda.so.1");
        assert_eq!(is_expected(&error), absent || cfg!(not(feature = "cuda")), "{error}");
    }

    #[test]
    fn names() {
        let choices = ["auto", "cpu", "cuda"].map(|name| name.parse::<Choice>().unwrap());
        assert_eq!(choices, [Choice::Auto, Choice::Cpu, Choice::Cuda]);
        let error = "gpu".parse::<Choice>().unwrap_err();
        assert_eq!(error, "expected auto, cpu or cuda, found 'gpu'");
    }
}
