//! Memory that messages are taken into, and that a GPU reads where it is.
//!
//! A message is taken into a [`MessageBuffer`], which then becomes a [`TakenMessage`]. An encoder finds the message by its
//! bytes ([`MessagePool::hold`]) and holds it while the GPU reads. When nobody needs the message, its buffer is free for
//! the next one.
//!
//! Threads that take messages must not wait for a driver that hangs. So they make no call of it here. The
//! thread that encodes calls [`MessagePool::supply`], which makes and frees buffers.

use std::fmt;
use std::ops::{Deref, DerefMut, Range};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use super::{DeviceError, HostBuffer};
use crate::sync::lock;

/// Tells a GPU of a buffer.
type Register = Box<dyn Fn(&mut HostBuffer) -> Result<(), DeviceError> + Send + Sync>;

/// Registered buffers for the messages of one encoder. There are at most as many as were allowed, each of the size
/// of the largest message so far.
pub struct MessagePool {
    register: Register,
    state: Mutex<PoolState>,
}

#[derive(Debug, Default)]
struct PoolState {
    /// Buffers at most, 0 when the encoder is gone; and the largest message that gets one \[bytes\].
    most: usize,
    most_bytes: usize,
    /// The largest message so far that may get one \[bytes\].
    size: usize,
    /// True if a message found no free buffer.
    is_short: bool,
    /// True if an encoder has ever held a message. Until then there is one buffer: the encoder may need none.
    is_useful: bool,
    /// True if a buffer could not be made. Then no other one is.
    has_failed: bool,
    /// Buffers that exist.
    count: usize,
    /// The last one is the newest: the processor's cache has it.
    free: Vec<HostBuffer>,
    /// Too small by now.
    outgrown: Vec<HostBuffer>,
    /// Addresses of messages, with the messages.
    taken: Vec<(Range<usize>, Weak<TakenMessage>)>,
}

impl MessagePool {
    /// An empty pool, which may have no buffer so far. `register` tells the GPU of a new one.
    pub fn new(
        register: impl Fn(&mut HostBuffer) -> Result<(), DeviceError> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(MessagePool { register: Box::new(register), state: Mutex::default() })
    }

    /// Lets the pool have `most` buffers, for messages of at most `most_bytes`.
    pub fn allow(&self, most: usize, most_bytes: usize) {
        let mut state = self.lock();
        (state.most, state.most_bytes) = (most, most_bytes);
    }

    /// A free buffer, with room for the largest message so far.
    pub fn take(self: &Arc<Self>) -> Option<MessageBuffer> {
        let buffer = self.lock().free.pop()?;
        Some(MessageBuffer { buffer: Some(buffer), pool: Arc::clone(self) })
    }

    /// Notes that a message of `len` bytes was taken into other memory, because no buffer was free or large enough.
    pub fn missed(&self, len: usize) {
        let mut state = self.lock();
        if len > state.most_bytes {
            return;
        }
        state.is_short = true;
        if len > state.size {
            state.size = len;
            let free = std::mem::take(&mut state.free);
            state.outgrown.extend(free);
        }
    }

    /// Frees the buffers that are too small. Makes one if a message found none. If that fails, it logs the error once, and
    /// messages are taken into other memory.
    pub fn supply(&self) {
        let mut state = self.lock();
        let most = if state.is_useful { state.most } else { state.most.min(1) };
        let outgrown = std::mem::take(&mut state.outgrown);
        state.count -= outgrown.len();
        let makes = state.is_short && !state.has_failed && state.count < most;
        state.is_short = false;
        state.count += usize::from(makes);
        let size = state.size;
        // Not under the lock: both call the driver.
        drop(state);
        drop(outgrown);
        if !makes {
            return;
        }
        match self.make(size) {
            Ok(buffer) => self.put(buffer),
            Err(error) => {
                let mut state = self.lock();
                (state.count, state.has_failed) = (state.count - 1, true);
                drop(state);
                tracing::warn!(
                    "images are copied once more on their way to the GPU, which does not read them where they are: {error}"
                );
            }
        }
    }

    /// Frees the buffers that no message is in, and makes no more, when the encoder goes. The last owner of a message that
    /// is still under way frees its buffer.
    pub fn end(&self) {
        let mut state = self.lock();
        state.most = 0;
        let free = std::mem::take(&mut state.free);
        let outgrown = std::mem::take(&mut state.outgrown);
        state.count -= free.len() + outgrown.len();
        drop(state);
        drop((free, outgrown));
    }

    fn make(&self, size: usize) -> Result<HostBuffer, DeviceError> {
        let mut buffer = HostBuffer::try_new(size).ok_or_else(|| DeviceError::Failed {
            operation: "reserve memory for a message",
            detail: format!("{size} bytes"),
        })?;
        (self.register)(&mut buffer)?;
        Ok(buffer)
    }

    /// Holds the message that has `bytes`. `None` if these bytes are elsewhere.
    pub fn hold(&self, bytes: &[u8]) -> Option<HeldBytes> {
        let start = bytes.as_ptr() as usize;
        let mut state = self.lock();
        let has = |of: &Range<usize>| of.start <= start && start + bytes.len() <= of.end;
        let (place, message) = state.taken.iter().find(|(place, _)| has(place))?;
        // The caller has borrowed the bytes, so the message is there.
        let message = message.upgrade()?;
        let at = start - place.start;
        state.is_useful = true;
        Some(HeldBytes { message, range: at..at + bytes.len() })
    }

    fn put(&self, buffer: HostBuffer) {
        let mut state = self.lock();
        if state.most == 0 {
            state.count -= 1;
            // Not under the lock: this may call the driver.
            drop(state);
            return drop(buffer);
        }
        let fits = buffer.len() >= state.size;
        if fits { &mut state.free } else { &mut state.outgrown }.push(buffer);
    }

    fn lock(&self) -> MutexGuard<'_, PoolState> {
        // Every change is whole before anything can panic.
        lock(&self.state)
    }
}

impl fmt::Debug for MessagePool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MessagePool").field("state", &self.state).finish_non_exhaustive()
    }
}

/// A buffer that nobody else uses. A drop returns it.
#[derive(Debug)]
pub struct MessageBuffer {
    /// `None` only during the drop.
    buffer: Option<HostBuffer>,
    pool: Arc<MessagePool>,
}

impl MessageBuffer {
    /// The message in the first `len` bytes, from now on read only.
    ///
    /// # Panics
    /// If the buffer is shorter.
    pub fn into_message(self, len: usize) -> Arc<TakenMessage> {
        let place = self[..len].as_ptr_range();
        let place = place.start as usize..place.end as usize;
        let message = Arc::new(TakenMessage { buffer: self, len });
        let entry = (place, Arc::downgrade(&message));
        message.buffer.pool.lock().taken.push(entry);
        message
    }
}

impl Deref for MessageBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.buffer.as_deref().unwrap_or_default()
    }
}

impl DerefMut for MessageBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.buffer.as_deref_mut().unwrap_or_default()
    }
}

impl Drop for MessageBuffer {
    fn drop(&mut self) {
        self.buffer.take().into_iter().for_each(|buffer| self.pool.put(buffer));
    }
}

/// A message in a buffer. When the last owner drops it, its buffer is free again.
#[derive(Debug)]
pub struct TakenMessage {
    buffer: MessageBuffer,
    len: usize,
}

impl Deref for TakenMessage {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.buffer[..self.len]
    }
}

impl Drop for TakenMessage {
    fn drop(&mut self) {
        let start = self.buffer.as_ptr() as usize;
        // Before the buffer returns: the next message may be there at once.
        self.buffer.pool.lock().taken.retain(|(place, _)| place.start != start);
    }
}

/// Bytes of a message that stay, and that nobody writes, until this is dropped.
#[derive(Debug)]
pub struct HeldBytes {
    message: Arc<TakenMessage>,
    range: Range<usize>,
}

impl Deref for HeldBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.message[self.range.clone()]
    }
}

#[cfg(test)]
mod tests;
