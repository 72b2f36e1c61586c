//! Memory of the device, and memory of the host that the device can reach.

use std::ffi::c_void;
use std::ops::{Deref, DerefMut, Range};
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::{Arc, Mutex, MutexGuard};

use cudarc::driver::sys;

use super::driver::{Device, Event, Stream, check};
use crate::backend::{BackendError, HostBytes};
use crate::sync::lock;

/// Device memory, zero at first, aligned to 256 bytes at least.
#[derive(Debug)]
pub struct DeviceBuffer {
    address: u64,
    len: usize,
    device: Arc<Device>,
}

impl DeviceBuffer {
    /// Reserves `len` bytes; 0 bytes are taken as 1.
    pub fn new(device: &Arc<Device>, len: usize) -> Result<Self, BackendError> {
        device.bind()?;
        let len = len.max(1);
        let mut address = 0;
        // SAFETY: `address` is a place for an address; a context is current.
        check(unsafe { sys::cuMemAlloc_v2(&mut address, len) }, "reserve device memory")?;
        let buffer = DeviceBuffer { address, len, device: device.clone() };
        buffer.clear()?;
        Ok(buffer)
    }

    /// Zeros it. The caller waits for work that uses it first.
    pub fn clear(&self) -> Result<(), BackendError> {
        self.device.at_once("clear device memory", |stream| {
            // SAFETY: all of the buffer; it is waited for.
            unsafe { sys::cuMemsetD8Async(self.address, 0, self.len, stream) }
        })
    }

    /// Puts a copy of another buffer of the same size on a stream.
    ///
    /// # Safety
    /// Nothing else uses it, and nothing writes to `source`, until that is done.
    pub unsafe fn copy_on(
        &self,
        source: &DeviceBuffer,
        stream: &Stream,
    ) -> Result<(), BackendError> {
        assert_eq!(self.len, source.len, "copy: length mismatch");
        self.device.bind()?;
        // SAFETY: both are `len` bytes; the caller answers for the time.
        let status = unsafe {
            sys::cuMemcpyDtoDAsync_v2(self.address, source.address, self.len, stream.handle())
        };
        check(status, "copy device memory")
    }

    /// A buffer with the content of `bytes`.
    pub fn from_bytes(device: &Arc<Device>, bytes: &[u8]) -> Result<Self, BackendError> {
        let mut buffer = DeviceBuffer::new(device, bytes.len())?;
        buffer.write(bytes)?;
        Ok(buffer)
    }

    /// Where it stands on the device.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Its size \[bytes\].
    pub fn len(&self) -> usize {
        self.len
    }

    /// Copies `bytes` to its start and waits for that.
    ///
    /// # Panics
    /// When `bytes` are more than its size.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), BackendError> {
        assert!(bytes.len() <= self.len, "write: length mismatch");
        self.device.at_once("copy to the device", |stream| {
            let source = bytes.as_ptr().cast::<c_void>();
            // SAFETY: both ranges are valid while it is waited for.
            unsafe { sys::cuMemcpyHtoDAsync_v2(self.address, source, bytes.len(), stream) }
        })
    }

    /// Copies its start to `bytes`, after everything that was started on the device.
    ///
    /// # Panics
    /// When `bytes` are more than its size.
    pub fn read(&self, bytes: &mut [u8]) -> Result<(), BackendError> {
        assert!(bytes.len() <= self.len, "read: length mismatch");
        self.device.synchronize()?;
        self.device.at_once("copy from the device", |stream| {
            let to = bytes.as_mut_ptr().cast::<c_void>();
            // SAFETY: both ranges are valid while it is waited for.
            unsafe { sys::cuMemcpyDtoHAsync_v2(to, self.address, bytes.len(), stream) }
        })
    }

    /// Puts a copy of the start of `source` on `stream`.
    ///
    /// # Safety
    /// `source` stays, unchanged, until the copy is done, and nothing else uses what it is
    /// copied over meanwhile.
    ///
    /// # Panics
    /// When `len` is more than either's size.
    pub unsafe fn upload(
        &self,
        source: &PinnedBuffer,
        len: usize,
        stream: &Stream,
    ) -> Result<(), BackendError> {
        assert!(len <= self.len && len <= source.len(), "upload: length mismatch");
        self.device.bind()?;
        // SAFETY: both ranges are valid; the caller answers for the time of the copy.
        let status = unsafe {
            let source = source.pointer.as_ptr().cast::<c_void>();
            sys::cuMemcpyHtoDAsync_v2(self.address, source, len, stream.handle())
        };
        check(status, "upload a message")
    }
}

impl Drop for DeviceBuffer {
    fn drop(&mut self) {
        if self.device.bind().is_ok() {
            // SAFETY: reserved in `new`. Who puts work on it that is not waited for, waits before
            // it goes: in `DeviceRows` and `Staging::fill`.
            let _ = unsafe { sys::cuMemFree_v2(self.address) };
        }
    }
}

/// Page-locked memory of the host, zero at first and aligned to a page. With unified addressing,
/// which every 64-bit driver has, the device reaches it at the same address.
#[derive(Debug)]
pub struct PinnedBuffer {
    pointer: NonNull<u8>,
    len: usize,
    device: Arc<Device>,
}

// SAFETY: owns its memory, like a `Box<[u8]>`.
unsafe impl Send for PinnedBuffer {}
// SAFETY: shared references only read.
unsafe impl Sync for PinnedBuffer {}

impl PinnedBuffer {
    /// Reserves `len` bytes; 0 bytes are taken as 1.
    pub fn new(device: &Arc<Device>, len: usize) -> Result<Self, BackendError> {
        device.bind()?;
        let len = len.max(1);
        let mut pointer = ptr::null_mut();
        // Portable: usable from every context of the process. Mapped: kernels may use it.
        let flags = sys::CU_MEMHOSTALLOC_PORTABLE | sys::CU_MEMHOSTALLOC_DEVICEMAP;
        // SAFETY: `pointer` is a place for an address; a context is current.
        let status = unsafe { sys::cuMemHostAlloc(&mut pointer, len, flags) };
        check(status, "reserve pinned memory")?;
        let pointer = NonNull::new(pointer.cast::<u8>()).ok_or(BackendError::Failed {
            backend: super::NAME,
            operation: "reserve pinned memory",
            detail: "the driver returned no address".into(),
        })?;
        // SAFETY: `len` bytes that are ours alone.
        unsafe { ptr::write_bytes(pointer.as_ptr(), 0, len) };
        Ok(PinnedBuffer { pointer, len, device: device.clone() })
    }

    /// Where the device finds it.
    pub fn address(&self) -> u64 {
        self.pointer.as_ptr() as u64
    }
}

impl Deref for PinnedBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `len` initialised bytes that live as long as `self`.
        unsafe { slice::from_raw_parts(self.pointer.as_ptr(), self.len) }
    }
}

impl DerefMut for PinnedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; borrowed alone through `&mut self`.
        unsafe { slice::from_raw_parts_mut(self.pointer.as_ptr(), self.len) }
    }
}

impl Drop for PinnedBuffer {
    fn drop(&mut self) {
        if self.device.bind().is_ok() {
            // SAFETY: reserved in `new`. Ticks wait for their launch, and for uploads that are
            // under way `DeviceRows` and `Staging::fill` do.
            let _ = unsafe { sys::cuMemFreeHost(self.pointer.as_ptr().cast()) };
        }
    }
}

/// Values without padding between or inside them, of which every bit pattern is one: what a kernel
/// declares likewise.
///
/// # Safety
/// That it is so.
pub unsafe trait Plain: Copy {}

// SAFETY: a number.
unsafe impl Plain for u32 {}
// SAFETY: a number.
unsafe impl Plain for i32 {}
// SAFETY: a number.
unsafe impl Plain for i64 {}

/// The bytes of plain values.
pub fn bytes_of<T: Plain>(values: &[T]) -> &[u8] {
    // SAFETY: `T` has no padding, so that all bytes are initialised.
    unsafe { slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) }
}

/// A message on its way to the device: copied to pinned memory first, from where the device takes
/// it while the caller goes on.
#[derive(Debug)]
pub struct Staging {
    pinned: PinnedBuffer,
    buffer: DeviceBuffer,
    taken: Event,
    len: usize,
}

/// Messages up to this size need no more memory than is reserved at the start \[bytes\]: an image of
/// 1920x1080 in rgb8 takes 6.2 MB, with its tables.
const STAGING_BYTES: usize = 8 << 20;

impl Staging {
    /// Memory for messages of common size.
    pub fn new(device: &Arc<Device>) -> Result<Self, BackendError> {
        Ok(Staging {
            pinned: PinnedBuffer::new(device, STAGING_BYTES)?,
            buffer: DeviceBuffer::new(device, STAGING_BYTES)?,
            taken: Event::new(device, false)?,
            len: 0,
        })
    }

    /// Where the message stands on the device.
    pub fn address(&self) -> u64 {
        self.buffer.address()
    }

    /// Takes the message: `parts`, one after the other. Waits for the upload of the one before,
    /// which almost always is long done. A message larger than all before makes it reserve more
    /// memory, and wait for all that is on `stream`.
    pub fn fill(&mut self, parts: &[&[u8]], stream: &Stream) -> Result<(), BackendError> {
        let len = parts.iter().map(|part| part.len()).sum::<usize>();
        if len > self.pinned.len() {
            stream.synchronize("finish earlier messages")?;
            let capacity = len.next_power_of_two();
            tracing::info!("reserving {capacity} bytes for messages of {len} bytes");
            self.pinned = PinnedBuffer::new(stream.device(), capacity)?;
            self.buffer = DeviceBuffer::new(stream.device(), capacity)?;
        }
        self.taken.synchronize("finish the last upload")?;
        let mut rest = &mut *self.pinned;
        for part in parts {
            let (place, later) = rest.split_at_mut(part.len());
            place.copy_from_slice(part);
            rest = later;
        }
        self.len = len;
        Ok(())
    }

    /// Puts the upload of the message on `stream`.
    pub fn send(&self, stream: &Stream) -> Result<(), BackendError> {
        // SAFETY: the pinned memory is not written before `taken` has happened, and whoever uses
        // the buffer does so on `stream`.
        unsafe { self.buffer.upload(&self.pinned, self.len, stream)? };
        self.taken.record(stream)
    }
}

/// The address ranges of the output memory that is out, so that a tick knows whether it may write
/// straight to the slice it is given.
#[derive(Debug, Default)]
pub struct Outputs(Mutex<Vec<Range<usize>>>);

impl Outputs {
    /// Reserves pinned memory for an output, and keeps note of it for as long as it lives.
    pub fn reserve(
        self: &Arc<Self>,
        device: &Arc<Device>,
        len: usize,
    ) -> Result<Box<dyn HostBytes>, BackendError> {
        let buffer = PinnedBuffer::new(device, len)?;
        let output = OutputBuffer { buffer, outputs: self.clone() };
        self.lock().push(output.range());
        Ok(Box::new(output))
    }

    /// Whether the device may write to `out`.
    pub fn holds(&self, out: &[u8]) -> bool {
        let range = out.as_ptr_range();
        let (start, end) = (range.start as usize, range.end as usize);
        self.lock().iter().any(|known| known.start <= start && end <= known.end)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Range<usize>>> {
        // Every change is one push or removal: a panic elsewhere cannot have left half of one.
        lock(&self.0)
    }
}

/// Pinned memory of one output.
#[derive(Debug)]
struct OutputBuffer {
    buffer: PinnedBuffer,
    outputs: Arc<Outputs>,
}

impl OutputBuffer {
    fn range(&self) -> Range<usize> {
        let start = self.buffer.address() as usize;
        start..start + self.buffer.len()
    }
}

impl Deref for OutputBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.buffer
    }
}

impl DerefMut for OutputBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.buffer
    }
}

impl HostBytes for OutputBuffer {}

impl Drop for OutputBuffer {
    fn drop(&mut self) {
        let range = self.range();
        self.outputs.lock().retain(|known| *known != range);
    }
}
