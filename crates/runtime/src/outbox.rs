//! Hands finished tensors from the tick thread to the publishing thread.

use std::time::Instant;

use super::steps::Found;
use crate::sync::{PiMutex, Thread, current};
use robocache_core::message::TensorMessage;
use robocache_ops::time::Epoch;

/// Messages that go around: one is fused, one waits, one is published.
const MESSAGES: usize = 3;

/// The tensor of a tick, on its way to the publisher.
#[derive(Debug)]
pub(crate) struct Finished {
    /// The tensor.
    pub message: TensorMessage,
    /// The number of its tick.
    pub tick: i64,
    /// Epoch of the tick.
    pub epoch: Epoch,
    /// Instant at which the tick became due.
    pub since: Instant,
}

/// A slot for the newest tensor. If a tensor is still in the slot when the next one is finished, it
/// is overwritten: a policy wants the newest. So the tick thread never waits for the middleware,
/// and nothing is allocated.
#[derive(Debug)]
pub(crate) struct Outbox {
    /// Every change is one move, so a panic of another thread leaves no half change.
    state: PiMutex<OutboxState>,
}

#[derive(Debug)]
struct OutboxState {
    waiting: Option<Finished>,
    /// The thread that waits for a tensor. It parks, and a wake-up takes no lock.
    reader: Option<Thread>,
    /// Unused messages. The one that was used last is taken first, because it has most of the values of the next tick,
    /// and is in the cache.
    free: Vec<TensorMessage>,
    closed: bool,
}

impl Outbox {
    /// Makes an empty slot. `message` makes memory for a tensor.
    pub(crate) fn new(message: impl FnMut() -> TensorMessage) -> Self {
        let free = std::iter::repeat_with(message).take(MESSAGES).collect();
        let state = OutboxState { waiting: None, reader: None, free, closed: false };
        Outbox { state: PiMutex::new(state) }
    }

    /// Takes a message to fuse the next tick into; `None` if all are in use, which needs a second
    /// tick thread.
    pub(crate) fn free(&self) -> Option<TensorMessage> {
        self.state.lock().free.pop()
    }

    /// Takes back a message that is no longer used.
    pub(crate) fn give_back(&self, message: TensorMessage) {
        self.state.lock().free.push(message);
    }

    /// Puts a tensor into the slot. Returns the one that it overwrote, whose message the caller gives back.
    #[must_use = "the message of an overwritten tensor must come back"]
    pub(crate) fn put(&self, finished: Finished) -> Option<Finished> {
        let mut state = self.state.lock();
        let overwritten = state.waiting.replace(finished);
        let reader = state.reader.take();
        drop(state);
        reader.inspect(Thread::unpark);
        overwritten
    }

    /// True if no tensor waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.state.lock().waiting.is_none()
    }

    /// Takes the tensor that waits. If there is none, the next one wakes the calling thread, which may park. One thread at
    /// a time may take.
    pub(crate) fn take(&self) -> Found<Finished> {
        let mut state = self.state.lock();
        if state.closed {
            return Found::Closed;
        }
        if let Some(finished) = state.waiting.take() {
            return Found::Work(finished);
        }
        state.reader = Some(current());
        Found::Nothing
    }

    /// Closes the outbox: [`Outbox::take`] finds that, now and later.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        let reader = state.reader.take();
        drop(state);
        reader.inspect(Thread::unpark);
    }
}

#[cfg(test)]
mod tests;
