//! The tensors in shared memory, for policies without ROS.

use super::error::NodeError;
use robocache_core::pipeline::Pipeline;
use robocache_runtime::TimeSource;
use robocache_shared::{InfoPublisher, SharedError, TensorPublisher};

/// What shares the tensors: one part for each of two threads.
pub(crate) struct Shared {
    /// For the publishing thread.
    pub tensors: TensorPublisher,
    /// For the thread that reports.
    pub info: SharedInfo,
}

impl Shared {
    /// Makes the services of this name, with the memory of all tensors. `info` is the serialized message that says what
    /// they mean.
    ///
    /// # Errors
    /// [`SharedError`]
    pub(crate) fn new(
        service: &str,
        pipeline: &Pipeline,
        info: &[u8],
        time: &TimeSource,
    ) -> Result<Self, NodeError> {
        // Two starts of nodes differ in it, and so do two configurations of one.
        let run = time.system().nanos() as u64;
        let tensors = TensorPublisher::new(service, run, pipeline)?;
        let info = InfoPublisher::new(service, run, info)?;
        let megabytes = tensors.memory_bytes() as f64 / 1e6;
        tracing::info!("the tensors are in {megabytes:.1} MB of shared memory, as '{service}'");
        Ok(Shared { tensors, info: SharedInfo { publisher: info, has_failed: false } })
    }
}

/// What the tensors mean, in shared memory.
pub(crate) struct SharedInfo {
    publisher: InfoPublisher,
    has_failed: bool,
}

impl SharedInfo {
    /// Serves new readers, and removes what killed processes left. Only the first failure is logged.
    pub(crate) fn follow(&mut self) {
        let failed: Result<(), SharedError> = self.publisher.follow();
        if let Err(error) = failed
            && !std::mem::replace(&mut self.has_failed, true)
        {
            tracing::warn!("{error}");
        }
    }
}
