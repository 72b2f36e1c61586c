//! Buffers for large messages, used again and again.
//!
//! A fresh buffer of megabytes costs the system a page fault per 4 kB, as long as the copy of an
//! image itself takes. So a buffer comes back when its message has been encoded or dropped.

use std::sync::Arc;

use robocache_ops::pool::Pool;
use robocache_rcl::SerializedMessage;
use robocache_runtime::QUEUED_MESSAGES;

/// The free buffers of the inputs that one thread takes messages of. All of them share the
/// buffers: the fewer megabytes go around, the more of them are still in the processor's cache.
#[derive(Clone, Debug)]
pub struct Buffers {
    /// Larger buffers do not come back \[bytes\]: one huge message must not keep its memory.
    most: usize,
    free: Arc<Pool<Vec<u8>>>,
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
        // A recorder lends many while its disk is slow: not all of them come back.
        Buffers { most, free: Arc::new(Pool::new(Self::PER_INPUT * inputs)) }
    }

    /// Takes a buffer for the next message. If none is free, it is new and grows with the message.
    pub fn take(&self) -> SerializedMessage {
        self.free.take(|_| true).unwrap_or_default().into()
    }

    /// Takes back a buffer whose message is no longer needed.
    pub fn give_back(&self, message: SerializedMessage) {
        self.keep(message.into_bytes());
    }

    fn keep(&self, bytes: Vec<u8>) {
        if bytes.capacity() <= self.most {
            self.free.put(bytes, 1);
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
