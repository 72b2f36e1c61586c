//! Memory for the chunks of a file, used again when their messages are dropped. Each new megabyte from the system costs
//! more than reading into it.

use std::sync::Arc;

use bytes::Bytes;

use robocache_ops::pool::Pool;

/// Most bytes that are kept for later, of all buffers.
const MOST_FREE_BYTES: usize = 32 << 20;
/// A buffer is at most this many times as large as what is in it.
const MOST_TIMES: usize = 2;

/// Buffers that are free.
#[derive(Clone)]
pub(super) struct FreeBuffers(Arc<Pool<Vec<u8>>>);

impl Default for FreeBuffers {
    fn default() -> Self {
        FreeBuffers(Arc::new(Pool::new(MOST_FREE_BYTES)))
    }
}

/// A buffer in use. Its bytes go back when the last slice of them is dropped.
pub(super) struct Buffer {
    /// Has at least `len` bytes. What is behind them is of an earlier use.
    bytes: Vec<u8>,
    len: usize,
    from: FreeBuffers,
}

impl FreeBuffers {
    /// A buffer of this many bytes. What they are is not said.
    pub(super) fn buffer(&self, len: usize) -> Buffer {
        let fits = |bytes: &Vec<u8>| (len..=len.saturating_mul(MOST_TIMES)).contains(&bytes.len());
        let bytes = self.0.take(fits).unwrap_or_else(|| {
            // Chunks differ a little in length: the next one shall fit as well. The system gives these zeros only
            // where something is written, so a length that lies costs nothing.
            vec![0; len.saturating_add(len / 4)]
        });
        Buffer { bytes, len, from: self.clone() }
    }

    /// A copy of some bytes.
    pub(super) fn copy(&self, bytes: &[u8]) -> Bytes {
        let mut buffer = self.buffer(bytes.len());
        buffer.bytes_mut().copy_from_slice(bytes);
        buffer.share()
    }
}

impl Buffer {
    /// The bytes, to be filled.
    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.len]
    }

    /// The bytes, to be shared.
    pub(super) fn share(self) -> Bytes {
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
        let bytes = std::mem::take(&mut self.bytes);
        let len = bytes.len();
        self.from.0.put(bytes, len);
    }
}

#[cfg(test)]
mod tests;
