//! Memory for the chunks of a file, used again when nobody has their messages any more. Each new megabyte from
//! the system costs more than reading into it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use bytes::Bytes;

use robocache_ops::sync::lock;

/// Most bytes that are kept for later, of all buffers.
const MOST_FREE_BYTES: usize = 32 << 20;
/// A buffer is at most this many times as large as what is in it.
const MOST_TIMES: usize = 2;

/// Buffers that are free.
#[derive(Clone, Default)]
pub(super) struct Memory(Arc<Mutex<Free>>);

#[derive(Default)]
struct Free {
    /// The last one is the newest: the processor's cache has it.
    buffers: VecDeque<Vec<u8>>,
    bytes: usize,
}

/// A buffer in use. Its bytes go back when the last slice of them is dropped.
pub(super) struct Buffer {
    /// Has at least `len` bytes. What is behind them is of an earlier use.
    bytes: Vec<u8>,
    len: usize,
    from: Memory,
}

impl Memory {
    /// A buffer of this many bytes. What they are is not said.
    pub fn buffer(&self, len: usize) -> Buffer {
        let bytes = lock(&self.0).take(len).unwrap_or_else(|| {
            // Chunks differ a little in length: the next one shall fit as well. The system gives these zeros only
            // where something is written, so a length that lies costs nothing.
            vec![0; len.saturating_add(len / 4)]
        });
        Buffer { bytes, len, from: self.clone() }
    }

    /// A copy of some bytes.
    pub fn copy(&self, bytes: &[u8]) -> Bytes {
        let mut buffer = self.buffer(bytes.len());
        buffer.bytes_mut().copy_from_slice(bytes);
        buffer.share()
    }
}

impl Free {
    /// Takes the newest buffer that fits.
    fn take(&mut self, len: usize) -> Option<Vec<u8>> {
        let fits = |bytes: &Vec<u8>| (len..=len.saturating_mul(MOST_TIMES)).contains(&bytes.len());
        let bytes = self.buffers.iter().rposition(fits).and_then(|at| self.buffers.remove(at))?;
        self.bytes -= bytes.len();
        Some(bytes)
    }

    /// Keeps a buffer, and frees the oldest ones if there are too many bytes.
    fn keep(&mut self, bytes: Vec<u8>) {
        self.bytes += bytes.len();
        self.buffers.push_back(bytes);
        while self.bytes > MOST_FREE_BYTES {
            self.bytes -= self.buffers.pop_front().map_or(0, |oldest| oldest.len());
        }
    }
}

impl Buffer {
    /// The bytes, to be filled.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.len]
    }

    /// The bytes, to be shared.
    pub fn share(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        lock(&self.from.0).keep(std::mem::take(&mut self.bytes));
    }
}

#[cfg(test)]
mod tests;
