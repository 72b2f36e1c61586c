//! From the bytes of a message to device memory.

use std::sync::Arc;

use super::driver::{Device, Event, Stream};
use super::{DeviceBuffer, DeviceError, PinnedBuffer};

/// Memory for messages on their way to the device. The caller copies a message to pinned memory,
/// from where the device takes it while the caller goes on.
#[derive(Debug)]
pub struct Staging {
    pinned: PinnedBuffer,
    buffer: DeviceBuffer,
    taken: Event,
    len: usize,
}

/// Messages up to this size need no more memory than is reserved at the start \[bytes\]: an image
/// of 1920x1080 in rgb8 takes 6.2 MB, with its tables.
const STAGING_BYTES: usize = 8 << 20;

impl Staging {
    /// Memory for messages of common size.
    pub fn new(device: &Arc<Device>) -> Result<Self, DeviceError> {
        Ok(Staging {
            pinned: PinnedBuffer::new(device, STAGING_BYTES)?,
            buffer: DeviceBuffer::new(device, STAGING_BYTES)?,
            taken: Event::new(device, false)?,
            len: 0,
        })
    }

    /// The address of the message on the device.
    pub fn address(&self) -> u64 {
        self.buffer.address()
    }

    /// Bytes of the message.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no message, or an empty one.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Takes the message: `parts`, one after the other. Waits for the upload of the last message,
    /// which almost always is long done. For a message larger than all before it reserves more
    /// memory, and waits for all that is on `stream`.
    pub fn fill(&mut self, parts: &[&[u8]], stream: &Stream) -> Result<(), DeviceError> {
        let len = parts.iter().map(|part| part.len()).sum::<usize>();
        if len > self.pinned.len() {
            stream.synchronize("finish earlier messages")?;
            let capacity = len.next_power_of_two();
            tracing::info!("reserving {capacity} bytes for messages of {len} bytes");
            self.pinned = PinnedBuffer::new(stream.device(), capacity)?;
            self.buffer = DeviceBuffer::new(stream.device(), capacity)?;
        }
        self.taken.synchronize("finish the last upload")?;
        self.copy(parts, len);
        Ok(())
    }

    /// As [`Staging::fill`], for a caller that has waited for the last upload: makes no call of the
    /// driver. Returns false if the memory is too small for the message.
    pub fn refill(&mut self, parts: &[&[u8]]) -> bool {
        let len = parts.iter().map(|part| part.len()).sum::<usize>();
        let fits = len <= self.pinned.len();
        if fits {
            self.copy(parts, len);
        }
        fits
    }

    fn copy(&mut self, parts: &[&[u8]], len: usize) {
        let mut rest = &mut *self.pinned;
        for part in parts {
            let (place, later) = rest.split_at_mut(part.len());
            place.copy_from_slice(part);
            rest = later;
        }
        self.len = len;
    }

    /// Puts the upload of the message on `stream`. What follows on that stream may read the
    /// message.
    pub fn send(&mut self, stream: &Stream) -> Result<(), DeviceError> {
        // SAFETY: `fill` alone writes the pinned memory, after `taken` has happened.
        unsafe { self.buffer.upload(&self.pinned, self.len, stream)? };
        self.taken.record(stream)
    }
}
