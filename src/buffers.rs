//! Buffers for large messages, used again and again.
//!
//! A fresh buffer of megabytes costs the system a page fault per 4 kB, as long as the copy of an
//! image itself takes. So a buffer comes back when its message has been encoded or dropped.

use std::sync::{Arc, Mutex, MutexGuard, TryLockError};

use robocache_rcl::SerializedMessage;
use robocache_runtime::QUEUED_MESSAGES;

/// The free buffers of the inputs that one thread takes messages of. All of them share the
/// buffers: the fewer megabytes go around, the more of them are still in the processor's cache.
#[derive(Clone, Debug)]
pub struct Buffers {
    /// Larger buffers do not come back \[bytes\]: one huge message must not keep its memory.
    most: usize,
    /// More buffers do not come back: a recorder lends many while its disk is slow.
    most_free: usize,
    /// The last one to come back is the first to be used, because it is in the cache.
    free: Arc<Mutex<Vec<Vec<u8>>>>,
}

/// The bytes of a message in a buffer, which comes back when this is dropped.
#[derive(Debug)]
pub struct Lent {
    bytes: Vec<u8>,
    home: Buffers,
}

impl Buffers {
    /// Free buffers of each input: those of the messages that wait for an encode worker, and those on their way.
    const PER_INPUT: usize = QUEUED_MESSAGES + 4;

    /// No buffers so far, for this many inputs. Those of up to `most` bytes are used again.
    pub fn new(most: usize, inputs: usize) -> Self {
        Buffers { most, most_free: Self::PER_INPUT * inputs, free: Arc::default() }
    }

    /// Takes a buffer for the next message. If none is free, it is new and grows with the message.
    pub fn take(&self) -> SerializedMessage {
        self.free().and_then(|mut free| free.pop()).unwrap_or_default().into()
    }

    /// Takes back a buffer whose message nobody needs.
    pub fn give_back(&self, message: SerializedMessage) {
        self.keep(message.into_bytes());
    }

    fn keep(&self, bytes: Vec<u8>) {
        if bytes.capacity() > self.most {
            return;
        }
        match self.free() {
            Some(mut free) if free.len() < self.most_free => free.push(bytes),
            _ => {}
        }
    }

    /// The free buffers; `None` if another thread is at them. A thread of real-time priority must not wait for that
    /// of the recorder, which has ordinary priority.
    fn free(&self) -> Option<MutexGuard<'_, Vec<Vec<u8>>>> {
        match self.free.try_lock() {
            Ok(free) => Some(free),
            // Every change is one push or pop, so a panic of another thread leaves no half change.
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Lends the buffer of a message. As many buffers are made as are lent at once: the queues
    /// of the inputs and of the recorder are bounded.
    pub fn lend(&self, message: SerializedMessage) -> Lent {
        Lent { bytes: message.into_bytes(), home: self.clone() }
    }
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.home.keep(std::mem::take(&mut self.bytes));
    }
}

#[cfg(test)]
mod tests;
