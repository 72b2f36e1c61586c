//! Buffers for large messages, used again and again.
//!
//! A fresh buffer of megabytes costs the system a page fault per 4 kB, as long as the copy of an
//! image itself takes. So a buffer comes back when its message has been encoded or dropped.
//!
//! If a GPU encodes the messages of an input, it reads them where they are. Such an input has buffers of its own, which
//! the encoder makes one by one while messages need them ([`MessagePool`]).

use std::ops::Deref;
use std::sync::Arc;

use robocache_ops::device::{MessageBuffer, MessagePool, TakenMessage};
use robocache_ops::pool::Pool;
use robocache_runtime::QUEUED_MESSAGES;

/// Memory for a message, which the middleware writes into.
#[derive(Debug)]
pub enum MessageMemory {
    /// Memory that grows if a message needs more. The message is all of it.
    Vec(Vec<u8>),
    /// A place of a fixed size, and how many bytes of it the message has. If a message needs more, the middleware drops
    /// the place, and writes into a `Vec`.
    Place(MessageBuffer, usize),
}

impl Deref for MessageMemory {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            MessageMemory::Vec(bytes) => bytes,
            MessageMemory::Place(place, len) => &place[..*len],
        }
    }
}

impl Default for MessageMemory {
    fn default() -> Self {
        MessageMemory::Vec(Vec::new())
    }
}

/// The free buffers of the inputs that one thread takes messages of. All of them share the
/// buffers: the fewer megabytes go around, the more of them are still in the processor's cache.
#[derive(Clone, Debug)]
pub(crate) struct Buffers {
    /// Larger buffers do not come back \[bytes\]: one huge message must not keep its memory.
    most: usize,
    free: Arc<Pool<Vec<u8>>>,
    /// The buffers that a GPU reads, if it encodes the messages of the input.
    read_by_gpu: Option<Arc<MessagePool>>,
}

/// The bytes of a message in a buffer, which comes back when this is dropped.
#[derive(Debug)]
pub(crate) struct Lent(Place);

#[derive(Debug)]
enum Place {
    Shared { bytes: Vec<u8>, home: Buffers },
    ReadByGpu(Arc<TakenMessage>),
}

impl Buffers {
    /// Buffers of each input: those of the messages that wait for an encode worker, and those on their way.
    const PER_INPUT: usize = QUEUED_MESSAGES + 4;

    /// No buffers so far, for this many inputs. Those of up to `most` bytes are used again.
    pub(crate) fn new(most: usize, inputs: usize) -> Self {
        // A recorder lends many while its disk is slow: not all of them come back.
        let free = Arc::new(Pool::new(Self::PER_INPUT * inputs));
        Buffers { most, free, read_by_gpu: None }
    }

    /// Returns these buffers for an input whose messages go to `pool` while it has a free buffer: at most
    /// [`Self::PER_INPUT`], for messages of up to `most` bytes.
    pub(crate) fn with(&self, pool: Option<Arc<MessagePool>>, most: usize) -> Self {
        pool.iter().for_each(|pool| pool.allow(Self::PER_INPUT, most));
        Buffers { read_by_gpu: pool, ..self.clone() }
    }

    /// Takes a buffer for the next message. If none is free, it is new and grows with the message.
    pub(crate) fn take(&self) -> MessageMemory {
        if let Some(place) = self.read_by_gpu.as_ref().and_then(MessagePool::take) {
            return MessageMemory::Place(place, 0);
        }
        MessageMemory::Vec(self.free.take(|_| true).unwrap_or_default())
    }

    /// Takes back a buffer whose message is no longer needed.
    pub(crate) fn give_back(&self, message: MessageMemory) {
        if let MessageMemory::Vec(bytes) = message {
            self.keep(bytes);
        }
    }

    fn keep(&self, bytes: Vec<u8>) {
        if bytes.capacity() <= self.most {
            self.free.put(bytes, 1);
        }
    }

    /// Lends the buffer of a message. As many buffers are made as are lent at once: the queues
    /// of the inputs and of the recorder are bounded.
    pub(crate) fn lend(&self, message: MessageMemory) -> Lent {
        Lent(match message {
            MessageMemory::Place(buffer, len) => Place::ReadByGpu(buffer.into_message(len)),
            MessageMemory::Vec(bytes) => {
                self.read_by_gpu.iter().for_each(|pool| pool.missed(bytes.len()));
                Place::Shared { bytes, home: self.clone() }
            }
        })
    }
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        match &self.0 {
            Place::Shared { bytes, .. } => bytes,
            Place::ReadByGpu(message) => message,
        }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Place::Shared { bytes, home } = &mut self.0 {
            home.keep(std::mem::take(bytes));
        }
    }
}

#[cfg(test)]
mod tests;
