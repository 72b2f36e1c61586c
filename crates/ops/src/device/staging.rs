//! From memory of the host to device memory.

use std::sync::Arc;

use super::driver::{Device, Event, Stream};
use super::{DeviceBuffer, DeviceError, HeldBytes, PinnedBuffer};

/// Memory for messages on their way to the device. The caller copies a message to pinned memory,
/// from where the device takes it while the caller goes on. What the device reads where it is, the caller only holds.
///
/// All of it is reserved at the start. It does not grow: a message that could exhaust the memory is dropped before it
/// comes here.
#[derive(Debug)]
pub struct Staging {
    pinned: PinnedBuffer,
    buffer: DeviceBuffer,
    taken: Event,
    len: usize,
    /// More bytes of the message, and where they go.
    held: Option<(usize, HeldBytes)>,
    /// True if the device may still read the pinned memory and the held bytes.
    sent: bool,
}

impl Staging {
    /// Memory for messages of up to `capacity` bytes, on the host and on the device.
    pub fn new(device: &Arc<Device>, capacity: usize) -> Result<Self, DeviceError> {
        Ok(Staging {
            pinned: PinnedBuffer::new(device, capacity)?,
            buffer: DeviceBuffer::new(device, capacity)?,
            taken: Event::new(device, false)?,
            len: 0,
            held: None,
            sent: false,
        })
    }

    /// The address of the message on the device.
    pub fn address(&self) -> u64 {
        self.buffer.address()
    }

    /// Most bytes of a message.
    pub fn capacity(&self) -> usize {
        self.pinned.len()
    }

    /// Bytes of the message, without those that are held.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if there is no message, or an empty one.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Waits for the upload of the last message, which almost always is long done.
    pub fn wait(&mut self) -> Result<(), DeviceError> {
        self.taken.synchronize("finish the last upload")?;
        self.settled();
        Ok(())
    }

    /// Notes that the caller has waited for all that is on the stream of the last upload.
    pub fn settled(&mut self) {
        self.sent = false;
        self.held = None;
    }

    /// Takes the message: `parts`, one after the other. Makes no call of the driver.
    ///
    /// # Errors
    /// [`DeviceError::Failed`] if the message is larger than the capacity, or if the caller has not waited for the last
    /// upload ([`Staging::wait`], [`Staging::settled`]).
    pub fn fill<'a>(
        &mut self,
        parts: impl Iterator<Item = &'a [u8]> + Clone,
    ) -> Result<(), DeviceError> {
        let mut rest = self.place(parts.clone().map(<[u8]>::len).sum())?;
        for part in parts {
            let (place, later) = rest.split_at_mut(part.len());
            place.copy_from_slice(part);
            rest = later;
        }
        Ok(())
    }

    /// The place for a message of `len` bytes, which the caller must write. It fails as
    /// [`Staging::fill`] does.
    pub fn place(&mut self, len: usize) -> Result<&mut [u8], DeviceError> {
        let failed = |detail| DeviceError::Failed { operation: "take a message", detail };
        if len > self.capacity() {
            let capacity = self.capacity();
            return Err(failed(format!("expected at most {capacity} bytes, found {len}")));
        }
        if self.sent {
            return Err(failed("expected a wait for the last upload, found none".to_owned()));
        }
        (self.len, self.held) = (len, None);
        Ok(&mut self.pinned[..len])
    }

    /// Adds `held` to the message that was just taken. On the device it starts at byte `at`.
    ///
    /// # Panics
    /// Without room for it there, or if the message is under way.
    pub fn add(&mut self, at: usize, held: HeldBytes) {
        let fits = at.checked_add(held.len()).is_some_and(|end| end <= self.capacity());
        assert!(
            fits && at >= self.len && !self.sent,
            "staging: expected room behind a new message"
        );
        self.held = Some((at, held));
    }

    /// Puts the upload of the message on `stream`. What follows on that stream may read the
    /// message.
    pub fn send(&mut self, stream: &Stream) -> Result<(), DeviceError> {
        self.sent = true;
        let sent = self.put_on(stream);
        if sent.is_err() {
            // No event says when the device has read them.
            std::mem::forget(self.held.take());
        }
        sent
    }

    fn put_on(&self, stream: &Stream) -> Result<(), DeviceError> {
        // SAFETY: `place` gives no caller the pinned memory until the upload was waited for, and the held bytes are
        // held until then.
        unsafe {
            self.buffer.upload(0, &self.pinned[..self.len], stream)?;
            if let Some((at, held)) = &self.held {
                self.buffer.upload(*at, held, stream)?;
            }
        }
        self.taken.record(stream)
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        let waits = self.sent && self.held.is_some();
        if waits && self.taken.synchronize("finish the last upload").is_err() {
            std::mem::forget(self.held.take());
        }
    }
}

/// A row that the host writes, on its way to the device.
#[derive(Debug)]
pub struct Upload {
    pinned: PinnedBuffer,
    taken: Event,
}

impl Upload {
    /// Memory for a row of `len` bytes, zero at first.
    pub fn new(device: &Arc<Device>, len: usize) -> Result<Self, DeviceError> {
        let pinned = PinnedBuffer::new(device, len)?;
        let taken = Event::new(device, false)?;
        Ok(Upload { pinned, taken })
    }

    /// The row, after the last copy of it has been taken, which almost always is long done.
    pub fn row(&mut self) -> Result<&mut [u8], DeviceError> {
        self.taken.synchronize("finish the last upload")?;
        Ok(&mut self.pinned)
    }

    /// Puts a copy of the row to the bytes of `target` from `at` on, on `stream`.
    pub fn send(
        &mut self,
        target: &DeviceBuffer,
        at: usize,
        stream: &Stream,
    ) -> Result<(), DeviceError> {
        // SAFETY: `row` gives no caller the memory until the copy is done.
        let sent = unsafe { target.upload(at, &self.pinned, stream) };
        // Also after a failure: a copy may be under way.
        self.taken.record(stream)?;
        sent
    }
}
