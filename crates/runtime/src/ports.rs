//! Interfaces that the runtime needs from its user: a publisher and, for tests, an observer.

use std::time::Instant;

use super::queue::Message;
use robocache_core::message::TensorMessage;
use robocache_ops::time::Stamp;

/// Publishes the tensors. The publishing thread owns it.
pub trait Publisher: Send {
    /// True if somebody takes the tensors now. If nobody does, and nothing records, the next tensor is neither sealed
    /// nor
    /// published.
    fn is_read(&self) -> bool {
        true
    }

    /// Publishes a tensor. The publisher may keep it, and leave another one of the same pipeline in its place.
    ///
    /// # Errors
    /// [`Refused`]: the publishing thread counts it and logs the first one, and ticks go on.
    fn publish(&self, message: &mut TensorMessage) -> Result<(), Refused>;

    /// The publishing thread ends, and gives the publisher up.
    fn end(self)
    where
        Self: Sized,
    {
    }
}

/// Why a tensor was not published.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Refused(pub String);

/// A tick that a loop is about to serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DueTick {
    /// Its number.
    pub tick: i64,
    /// Ticks between the last one served and this one.
    pub missed: u64,
    /// The reading of the clock that made the tick due.
    pub looked: Stamp,
    /// True if the thread waited for it. If not, it was already due when the tick before was done.
    pub waited: bool,
}

/// Observes the work of the threads, for benchmarks and tests. The threads themselves call it, so
/// its methods must be quick.
pub trait Observer: Send + Sync {
    /// The loop on the thread of this name is about to serve a tick.
    fn due(&self, _thread: &'static str, _tick: DueTick) {}

    /// A tick has been fused. Next, the tick thread leaves `message`, the bytes of its tensor, to the
    /// publishing thread.
    fn fused(&self, _tick: i64, _message: &[u8]) {}

    /// An encode worker took a large message from the queue at `since` and pushed it. `row` is the
    /// stamp of its row; `None` if the message was dropped.
    fn pushed(&self, _message: &Message, _row: Option<Stamp>, _since: Instant) {}

    /// A large message was dropped from the full queue for a newer one.
    fn overwritten(&self, _message: &Message) {}
}

/// Ignores everything.
impl Observer for () {}
