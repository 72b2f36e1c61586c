//! The tensors, and the chunks that answer them, in shared memory, for policies without ROS.

use super::error::NodeError;
use robocache_core::pipeline::Pipeline;
use robocache_core::spec::CommandsSpec;
use robocache_link::Handed;
use robocache_runtime::ChunkSource;
use robocache_shared::{ChunkReader, InfoPublisher, SharedError, StatusPublisher, TensorPublisher};

/// Publishers into shared memory: one for each of two threads.
pub(crate) struct SharedPublishers {
    /// For the publishing thread.
    pub tensors: TensorPublisher,
    /// For the thread that reports.
    pub info: SharedInfo,
}

impl SharedPublishers {
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
        Ok(SharedPublishers { tensors, info: SharedInfo { publisher: info, has_failed: false } })
    }
}

/// Meaning of the tensors, in shared memory.
pub(crate) struct SharedInfo {
    publisher: InfoPublisher,
    has_failed: bool,
}

impl SharedInfo {
    /// Tells the meaning of the tensors of another run, which follow. It is the same.
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

/// The way back in shared memory, while no thread makes commands; empty if there is none.
#[derive(Clone, Default)]
pub(crate) struct SharedActions {
    chunks: Handed<ChunkReader>,
    statuses: Handed<StatusPublisher>,
}

/// The chunks of policies without ROS. The command thread owns it.
pub(crate) struct SharedChunks {
    lent: Lent<ChunkReader>,
    has_failed: bool,
}

/// The statuses for policies without ROS. The command thread owns it.
pub(crate) struct SharedStatuses {
    lent: Lent<StatusPublisher>,
    run: u64,
    has_failed: bool,
}

/// A part that goes back to its home when it is dropped.
struct Lent<T> {
    /// `None` only while it is dropped.
    part: Option<T>,
    home: Handed<T>,
}

impl SharedActions {
    /// Takes chunks for the node of this name, and tells statuses to their writers.
    ///
    /// # Errors
    /// [`SharedError`]
    pub(crate) fn new(service: &str, commands: &CommandsSpec) -> Result<Self, NodeError> {
        let actions = SharedActions::default();
        drop(actions.chunks.leave(ChunkReader::new(service)?));
        drop(actions.statuses.leave(StatusPublisher::new(service, commands)?));
        tracing::info!("chunks of actions are also taken from shared memory, as '{service}'");
        Ok(actions)
    }

    /// The chunks for a stretch of work. Those that came before it are gone: they answer no tensor of its run.
    pub(crate) fn chunks(&self) -> Option<SharedChunks> {
        let lent = Lent::of(&self.chunks)?;
        let mut chunks = SharedChunks { lent, has_failed: false };
        chunks.take(&mut |_, _| {});
        Some(chunks)
    }

    /// The statuses for a stretch of work, which has this run.
    pub(crate) fn statuses(&self, run: u64) -> Option<SharedStatuses> {
        Lent::of(&self.statuses).map(|lent| SharedStatuses { lent, run, has_failed: false })
    }
}

impl ChunkSource for SharedChunks {
    fn take(&mut self, give: &mut dyn FnMut(&[u8], u64)) -> u64 {
        let Some(reader) = &mut self.lent.part else { return 0 };
        reader.take(give).unwrap_or_else(|error| {
            note(&mut self.has_failed, &error);
            0
        })
    }
}

impl SharedStatuses {
    /// Sends a status.
    pub(crate) fn send(&mut self, status: &[u8]) {
        let sent = self.lent.part.as_mut().map(|publisher| publisher.send(self.run, status));
        if let Some(Err(error)) = sent {
            note(&mut self.has_failed, &error);
        }
    }
}

impl<T> Lent<T> {
    /// Takes what is at home.
    fn of(home: &Handed<T>) -> Option<Self> {
        home.remove().map(|part| Lent { part: Some(part), home: home.clone() })
    }
}

impl<T> Drop for Lent<T> {
    fn drop(&mut self) {
        drop(self.part.take().and_then(|part| self.home.give_back(part)));
    }
}

/// Logs the first failure.
fn note(has_failed: &mut bool, error: &SharedError) {
    if !std::mem::replace(has_failed, true) {
        tracing::error!("{error}");
    }
}
