//! The tensors in shared memory, for policies without ROS.

use super::error::NodeError;
use robocache_core::pipeline::Pipeline;
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
    pub(crate) fn new(service: &str, pipeline: &Pipeline, info: &[u8]) -> Result<Self, NodeError> {
        let tensors = TensorPublisher::new(service, pipeline)?;
        let info = InfoPublisher::new(service, pipeline.run(), info)?;
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
    /// Says the same of the tensors of another run, which follow.
    pub(crate) fn serve(&mut self, run: u64) {
        let served = self.publisher.serve(run);
        self.note(served);
    }

    /// Serves new readers, and removes what killed processes left.
    pub(crate) fn follow(&mut self) {
        let followed = self.publisher.follow();
        self.note(followed);
    }

    /// Logs the first failure.
    fn note(&mut self, done: Result<(), SharedError>) {
        if let Err(error) = done
            && !std::mem::replace(&mut self.has_failed, true)
        {
            tracing::warn!("{error}");
        }
    }
}
