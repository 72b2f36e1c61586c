//! The bytes of a message in a buffer of this program, and what the middleware says about it.

use std::alloc::{Layout, alloc, alloc_zeroed, dealloc, realloc};
use std::ffi::c_void;
use std::ops::{Deref, DerefMut};

use r2r_rcl::{
    RMW_GID_STORAGE_SIZE, rcl_serialized_message_t, rcutils_allocator_t, rmw_message_info_t,
};

use super::Result;

/// The serialized bytes of a message. The buffer is a `Vec`: it grows if a message needs more, and
/// serves for the next message again. Or it is a place of a fixed size; if a message needs more, the place is dropped, and
/// a `Vec` takes over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SerializedMessage<P = Box<[u8]>>(Memory<P>);

/// The memory of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Memory<P> {
    /// The message is all of it.
    Vec(Vec<u8>),
    /// A place, and how many bytes of it the message has.
    Place(P, usize),
}

impl<P: DerefMut<Target = [u8]>> SerializedMessage<P> {
    /// No message so far. The next one goes to this place.
    pub fn in_place(place: P) -> Self {
        SerializedMessage(Memory::Place(place, 0))
    }

    /// Returns the memory without a copy.
    pub fn into_memory(self) -> Memory<P> {
        self.0
    }

    /// Lets rcl write a message into the buffer; rcl may enlarge it. After an error the message is
    /// empty.
    pub(super) fn fill(
        &mut self,
        write: impl FnOnce(*mut rcl_serialized_message_t) -> Result<bool>,
    ) -> Result<bool> {
        let memory = std::mem::replace(&mut self.0, Memory::Vec(Vec::new()));
        let mut storage = Storage::of(memory);
        storage.locate();
        let mut message = rcl_serialized_message_t {
            buffer: storage.start,
            buffer_length: 0,
            buffer_capacity: storage.capacity,
            allocator: rcutils_allocator_t {
                allocate: Some(allocate::<P>),
                deallocate: Some(deallocate::<P>),
                reallocate: Some(reallocate::<P>),
                zero_allocate: Some(zero_allocate::<P>),
                state: (&raw mut storage).cast(),
            },
        };
        let outcome = write(&mut message);
        let length = match outcome {
            Ok(true) => message.buffer_length,
            _ => 0,
        };
        // SAFETY: rcl has initialised `length` bytes, and no more than it asked for.
        self.0 = unsafe { storage.into_memory(length) };
        outcome
    }
}

impl Default for SerializedMessage {
    fn default() -> Self {
        Vec::new().into()
    }
}

impl<P> From<Vec<u8>> for SerializedMessage<P> {
    /// Uses the memory for the next message, which overwrites the bytes.
    fn from(bytes: Vec<u8>) -> Self {
        SerializedMessage(Memory::Vec(bytes))
    }
}

impl<P: Deref<Target = [u8]>> Deref for SerializedMessage<P> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Memory::Vec(bytes) => bytes,
            Memory::Place(place, len) => &place[..*len],
        }
    }
}

/// The memory of a message while rcl uses it.
struct Storage<P> {
    /// Null if there is none.
    start: *mut u8,
    capacity: usize,
    /// The owner of the memory, if it is a place and not that of a `Vec`.
    place: Option<P>,
}

impl<P: DerefMut<Target = [u8]>> Storage<P> {
    const NONE: Self = Storage { start: std::ptr::null_mut(), capacity: 0, place: None };

    fn of(memory: Memory<P>) -> Self {
        match memory {
            Memory::Vec(vec) if vec.capacity() == 0 => Self::NONE,
            Memory::Vec(vec) => {
                let mut vec = std::mem::ManuallyDrop::new(vec);
                Storage { start: vec.as_mut_ptr(), capacity: vec.capacity(), place: None }
            }
            Memory::Place(place, _) => Storage { place: Some(place), ..Self::NONE },
        }
    }

    /// Looks up where the place is. From then on this must not move.
    fn locate(&mut self) {
        if let Some(place) = &mut self.place {
            (self.start, self.capacity) = (place.as_mut_ptr(), place.len());
        }
    }

    /// # Safety
    /// The first `length` bytes are initialised.
    unsafe fn into_memory(self, length: usize) -> Memory<P> {
        let Storage { start, capacity, place } = self;
        let length = length.min(capacity);
        match place {
            Some(place) => Memory::Place(place, length),
            None if start.is_null() => Memory::Vec(Vec::new()),
            // SAFETY: the global allocator gave the memory, with this capacity and alignment 1.
            None => Memory::Vec(unsafe { Vec::from_raw_parts(start, length, capacity) }),
        }
    }

    fn free(&mut self) {
        let Storage { start, capacity, place } = std::mem::replace(self, Self::NONE);
        if place.is_none() && !start.is_null() {
            // SAFETY: it was allocated with this layout, by a `Vec` or below.
            unsafe { dealloc(start, layout(capacity)) };
        }
    }

    /// Makes room for `size` bytes. If that fails, returns null and keeps the old memory.
    fn grow(&mut self, size: usize, zero: bool) -> *mut u8 {
        let size = size.max(1);
        if isize::try_from(size).is_err() {
            return std::ptr::null_mut();
        }
        let is_own = self.place.is_none() && !self.start.is_null();
        // SAFETY: the size is not zero; the old memory was allocated with the old layout.
        let start = unsafe {
            match is_own {
                true => realloc(self.start, layout(self.capacity), size),
                false if zero => alloc_zeroed(layout(size)),
                false => alloc(layout(size)),
            }
        };
        if start.is_null() {
            return start;
        }
        if let Some(place) = &self.place {
            // SAFETY: the place and the new memory each have the copied bytes, and they do not overlap.
            unsafe { start.copy_from_nonoverlapping(place.as_ptr(), place.len().min(size)) };
        }
        *self = Storage { start, capacity: size, place: None };
        start
    }
}

fn layout(size: usize) -> Layout {
    // SAFETY: every caller's size is at most isize::MAX, and the alignment is 1.
    unsafe { Layout::from_size_align_unchecked(size, 1) }
}

/// `reallocate` of rcl's allocator, whose state is the [`Storage`] of its only array.
unsafe extern "C" fn reallocate<P: DerefMut<Target = [u8]>>(
    _: *mut c_void,
    size: usize,
    state: *mut c_void,
) -> *mut c_void {
    // SAFETY: rcl calls this only during `fill`, with the state that `fill` gave it.
    unsafe { (*state.cast::<Storage<P>>()).grow(size, false).cast() }
}

unsafe extern "C" fn allocate<P: DerefMut<Target = [u8]>>(
    size: usize,
    state: *mut c_void,
) -> *mut c_void {
    // SAFETY: as above.
    let storage = unsafe { &mut *state.cast::<Storage<P>>() };
    storage.free();
    storage.grow(size, false).cast()
}

unsafe extern "C" fn zero_allocate<P: DerefMut<Target = [u8]>>(
    n: usize,
    size: usize,
    state: *mut c_void,
) -> *mut c_void {
    // SAFETY: as above.
    let storage = unsafe { &mut *state.cast::<Storage<P>>() };
    storage.free();
    n.checked_mul(size).map_or(std::ptr::null_mut(), |size| storage.grow(size, true).cast())
}

unsafe extern "C" fn deallocate<P: DerefMut<Target = [u8]>>(_: *mut c_void, state: *mut c_void) {
    // SAFETY: as above.
    unsafe { (*state.cast::<Storage<P>>()).free() };
}

/// Identifies a publisher, or another endpoint, in the whole network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Gid(pub [u8; RMW_GID_STORAGE_SIZE as usize]);

/// Facts of the middleware about a message.
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
