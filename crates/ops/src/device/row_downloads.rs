//! Rows on their way from their slots to the host, so that who reads a row later does not wait for the copy.

use std::ops::Deref;
use std::ptr::NonNull;
use std::slice;
use std::sync::{Arc, Mutex};

use super::driver::{Device, Event, Stream};
use super::{DeviceError, PinnedBuffer, RowPlace};
use crate::align::Slot;
use crate::sync::lock;

/// Slabs start at multiples of this many bytes: no two share a line of a cache.
const ALIGNMENT: usize = 128;

/// Copies of the rows of one ring, in pinned slabs that the reader takes.
#[derive(Debug)]
pub struct RowDownloads {
    slabs: Arc<Slabs>,
    slots: Vec<Mutex<SlotDownload>>,
}

/// The copy of the newest row of a slot.
#[derive(Debug)]
struct SlotDownload {
    /// `None` if no copy was begun, or if it was taken.
    slab: Option<PinnedSlab>,
    done: Event,
}

/// Pinned memory in slabs of one size.
#[derive(Debug)]
struct Slabs {
    memory: PinnedBuffer,
    /// Bytes of a row.
    len: usize,
    /// Bytes from one slab to the next.
    pitch: usize,
    /// Numbers of the slabs that nobody has.
    free: Mutex<Vec<usize>>,
}

/// A row in pinned memory. Its slab is free again when this is dropped.
#[derive(Debug)]
pub struct PinnedSlab {
    of: Arc<Slabs>,
    number: usize,
}

impl RowDownloads {
    /// For rows of `len` bytes in `slots` slots. Readers may keep `spare` rows.
    ///
    /// # Errors
    /// There is no pinned memory for them.
    pub fn new(
        device: &Arc<Device>,
        len: usize,
        slots: usize,
        spare: usize,
    ) -> Result<Self, DeviceError> {
        let pitch = len.next_multiple_of(ALIGNMENT);
        let count = slots + spare;
        let memory = PinnedBuffer::new(device, pitch * count)?;
        let free = Mutex::new((0..count).rev().collect());
        let slot = |_| {
            let done = Event::new(device, false)?;
            Ok(Mutex::new(SlotDownload { slab: None, done }))
        };
        Ok(RowDownloads {
            slabs: Arc::new(Slabs { memory, len, pitch, free }),
            slots: (0..slots).map(slot).collect::<Result<_, DeviceError>>()?,
        })
    }

    /// Puts a copy of the row of `slot`, which is at byte `at` of `rows`, on `stream`. All copies of a ring are on one
    /// stream. If readers keep all slabs, no copy is begun.
    ///
    /// # Panics
    /// When there is no such slot, or the row is not inside `rows`.
    pub fn start(&self, slot: Slot, row: RowPlace<'_>, stream: &Stream) -> Result<(), DeviceError> {
        let RowPlace { rows, at } = row;
        let SlotDownload { slab, done } = &mut *lock(&self.slots[slot.index()]);
        // That of the row before, which nobody took. A copy to it may still be under way, before this one.
        let Some(to) = slab.take().or_else(|| self.slabs.free_slab()) else { return Ok(()) };
        // SAFETY: nobody but this slot has the slab, and it is given to a reader only when the copy is done. A slab that
        // is dropped before is used again by a copy behind this one on the stream.
        let started = unsafe { rows.download_to(at, to.pointer(), self.slabs.len, stream) };
        match started.and_then(|()| done.record(stream)) {
            Ok(()) => {
                *slab = Some(to);
                Ok(())
            }
            Err(error) => {
                // A copy may be under way, and no event says when it is done.
                std::mem::forget(to);
                Err(error)
            }
        }
    }

    /// Takes the copy of the row of `slot`. `None` if there is none. Waits for it, which is almost always long done.
    ///
    /// # Panics
    /// When there is no such slot.
    pub fn take(&self, slot: Slot) -> Result<Option<PinnedSlab>, DeviceError> {
        let SlotDownload { slab, done } = &mut *lock(&self.slots[slot.index()]);
        if slab.is_some() {
            done.synchronize("copy a row to the host")?;
        }
        Ok(slab.take())
    }
}

impl Slabs {
    fn free_slab(self: &Arc<Self>) -> Option<PinnedSlab> {
        let number = lock(&self.free).pop()?;
        Some(PinnedSlab { of: Arc::clone(self), number })
    }
}

impl PinnedSlab {
    fn pointer(&self) -> NonNull<u8> {
        self.of.memory.at(self.number * self.of.pitch)
    }
}

impl Drop for PinnedSlab {
    fn drop(&mut self) {
        lock(&self.of.free).push(self.number);
    }
}

impl Deref for PinnedSlab {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the slab is inside of the memory, which is initialised. Nothing writes it while a reader has it.
        unsafe { slice::from_raw_parts(self.pointer().as_ptr(), self.of.len) }
    }
}
