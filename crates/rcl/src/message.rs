//! The bytes of a message in a buffer of this program, and what the middleware says about it.

use std::alloc::{Layout, alloc, alloc_zeroed, dealloc, realloc};
use std::ffi::c_void;
use std::ops::Deref;

use r2r_rcl::{
    RMW_GID_STORAGE_SIZE, rcl_serialized_message_t, rcutils_allocator_t, rmw_message_info_t,
};

use super::Result;

/// The serialized bytes of a message. The buffer is a `Vec`: it grows if a message needs more, and
/// serves for the next message again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SerializedMessage {
    bytes: Vec<u8>,
}

impl SerializedMessage {
    /// Returns the bytes without a copy.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Lets rcl write a message into the buffer; rcl may enlarge it. After an error the message is
    /// empty.
    pub(super) fn fill(
        &mut self,
        write: impl FnOnce(*mut rcl_serialized_message_t) -> Result<bool>,
    ) -> Result<bool> {
        let mut storage = Storage::from_vec(std::mem::take(&mut self.bytes));
        let mut message = rcl_serialized_message_t {
            buffer: storage.start,
            buffer_length: 0,
            buffer_capacity: storage.capacity,
            allocator: rcutils_allocator_t {
                allocate: Some(allocate),
                deallocate: Some(deallocate),
                reallocate: Some(reallocate),
                zero_allocate: Some(zero_allocate),
                state: (&raw mut storage).cast(),
            },
        };
        let outcome = write(&mut message);
        let length = match outcome {
            Ok(true) => message.buffer_length,
            _ => 0,
        };
        // SAFETY: rcl has initialised `length` bytes, and no more than it asked for.
        self.bytes = unsafe { storage.into_vec(length) };
        outcome
    }
}

impl From<Vec<u8>> for SerializedMessage {
    /// Uses the memory for the next message, which overwrites the bytes.
    fn from(bytes: Vec<u8>) -> Self {
        SerializedMessage { bytes }
    }
}

impl Deref for SerializedMessage {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

/// The memory of a `Vec<u8>` while rcl uses it; otherwise null.
struct Storage {
    start: *mut u8,
    capacity: usize,
}

impl Storage {
    fn from_vec(vec: Vec<u8>) -> Self {
        let mut vec = std::mem::ManuallyDrop::new(vec);
        match vec.capacity() {
            0 => Storage { start: std::ptr::null_mut(), capacity: 0 },
            capacity => Storage { start: vec.as_mut_ptr(), capacity },
        }
    }

    /// # Safety
    /// The first `length` bytes are initialised.
    unsafe fn into_vec(self, length: usize) -> Vec<u8> {
        match self.start.is_null() {
            true => Vec::new(),
            // SAFETY: the global allocator gave the memory, with this capacity and alignment 1.
            false => unsafe {
                Vec::from_raw_parts(self.start, length.min(self.capacity), self.capacity)
            },
        }
    }

    fn free(&mut self) {
        if !self.start.is_null() {
            // SAFETY: it was allocated with this layout, by a `Vec` or below.
            unsafe { dealloc(self.start, layout(self.capacity)) };
        }
        *self = Storage { start: std::ptr::null_mut(), capacity: 0 };
    }

    /// Makes room for `size` bytes. If that fails, returns null and keeps the old memory.
    fn grow(&mut self, size: usize, zero: bool) -> *mut u8 {
        let size = size.max(1);
        if isize::try_from(size).is_err() {
            return std::ptr::null_mut();
        }
        // SAFETY: the size is not zero; the old memory was allocated with the old layout.
        let start = unsafe {
            match self.start.is_null() {
                true if zero => alloc_zeroed(layout(size)),
                true => alloc(layout(size)),
                false => realloc(self.start, layout(self.capacity), size),
            }
        };
        if !start.is_null() {
            *self = Storage { start, capacity: size };
        }
        start
    }
}

fn layout(size: usize) -> Layout {
    // SAFETY: every caller's size is at most isize::MAX, and the alignment is 1.
    unsafe { Layout::from_size_align_unchecked(size, 1) }
}

/// `reallocate` of rcl's allocator, whose state is the [`Storage`] of its only array.
unsafe extern "C" fn reallocate(_: *mut c_void, size: usize, state: *mut c_void) -> *mut c_void {
    // SAFETY: rcl calls this only during `fill`, with the state that `fill` gave it.
    unsafe { (*state.cast::<Storage>()).grow(size, false).cast() }
}

unsafe extern "C" fn allocate(size: usize, state: *mut c_void) -> *mut c_void {
    // SAFETY: as above.
    let storage = unsafe { &mut *state.cast::<Storage>() };
    storage.free();
    storage.grow(size, false).cast()
}

unsafe extern "C" fn zero_allocate(n: usize, size: usize, state: *mut c_void) -> *mut c_void {
    // SAFETY: as above.
    let storage = unsafe { &mut *state.cast::<Storage>() };
    storage.free();
    n.checked_mul(size).map_or(std::ptr::null_mut(), |size| storage.grow(size, true).cast())
}

unsafe extern "C" fn deallocate(_: *mut c_void, state: *mut c_void) {
    // SAFETY: as above.
    unsafe { (*state.cast::<Storage>()).free() };
}

/// Identifies a publisher, or another endpoint, in the whole network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Gid(pub [u8; RMW_GID_STORAGE_SIZE as usize]);

/// What the middleware says about a message.
///
/// With Fast DDS 2.14 (`rmw_fastrtps_cpp` of Jazzy) both stamps are set. `publication_sequence`
/// starts at 1 for each publisher and rises by one with every message that it sends, whether or not
/// anyone gets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageInfo {
    /// When it was published, on the publisher's system clock \[ns\].
    pub source_ns: Option<i64>,
    /// When it arrived, on this machine's system clock \[ns\].
    pub received_ns: Option<i64>,
    /// The publisher.
    pub publisher: Gid,
    /// Number of the message among those of its publisher.
    pub publication_sequence: Option<u64>,
}

impl MessageInfo {
    pub(super) fn from_raw(raw: &rmw_message_info_t) -> Self {
        // If the middleware does not know a value, it is zero or the largest number.
        let stamp = |ns: i64| (ns != 0).then_some(ns);
        let number = raw.publication_sequence_number;
        MessageInfo {
            source_ns: stamp(raw.source_timestamp),
            received_ns: stamp(raw.received_timestamp),
            publisher: Gid(raw.publisher_gid.data),
            publication_sequence: (number != u64::MAX).then_some(number),
        }
    }
}

#[cfg(test)]
mod tests;
