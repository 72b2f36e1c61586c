//! Memory of the device, and memory of the host that the device can reach.

use std::ffi::c_void;
use std::ops::{Deref, DerefMut, Range};
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cudarc::driver::sys::{self, CUresult};

use super::driver::{Device, Stream, check};
use super::{DeviceError, Shared};

/// Bytes that were never freed, because the device did not say that it is done with them.
static KEPT: AtomicU64 = AtomicU64::new(0);

/// Waits for the device, and then frees `len` bytes. Whatever was put on a stream and not waited for may still use
/// them. So if the wait fails, as it does while another library records a graph on this device, they are never freed.
/// Returns whether they were freed.
fn free_after_wait(
    device: &Device,
    what: &str,
    len: usize,
    free: impl FnOnce() -> CUresult,
) -> bool {
    if device.is_left() {
        return false; // The caller of `leave` reports this.
    }
    let waited = device.synchronize();
    let bound = waited.and_then(|()| device.bind());
    let freed = bound.and_then(|_current| check(free(), "free memory"));
    if let Err(error) = freed {
        let before = KEPT.fetch_add(len as u64, Ordering::Relaxed);
        let all = before.saturating_add(len as u64);
        // The first one, and each doubling.
        if all.checked_ilog2() != before.checked_ilog2() {
            tracing::warn!(
                "{what} of {len} bytes is never freed, as the GPU may still use it ({all} bytes in all): {error}"
            );
        }
        return false;
    }
    true
}

/// Device memory, zero at first, aligned to 256 bytes at least.
#[derive(Debug)]
pub struct DeviceBuffer {
    address: u64,
    len: usize,
    device: Arc<Device>,
}

/// Place of a row on a device.
#[derive(Clone, Copy)]
pub struct RowPlace<'a> {
    /// Memory of all rows.
    pub rows: &'a DeviceBuffer,
    /// The row's start in it \[bytes\].
    pub at: usize,
}

impl DeviceBuffer {
    /// Reserves `len` bytes; 0 bytes are taken as 1.
    pub fn new(device: &Arc<Device>, len: usize) -> Result<Self, DeviceError> {
        let _current = device.bind()?;
        let len = len.max(1);
        let mut address = 0;
        // SAFETY: `address` is a place for an address; a context is current.
        check(unsafe { sys::cuMemAlloc_v2(&mut address, len) }, "reserve device memory")?;
        let buffer = DeviceBuffer { address, len, device: device.clone() };
        buffer.fill_now(0)?;
        Ok(buffer)
    }

    /// Sets every byte to `byte`, after everything that was started on the device.
    pub fn fill(&self, byte: u8) -> Result<(), DeviceError> {
        self.device.synchronize()?;
        self.fill_now(byte)
    }

    fn fill_now(&self, byte: u8) -> Result<(), DeviceError> {
        self.device.at_once("fill device memory", |stream| {
            // SAFETY: all of the buffer; it is waited for.
            unsafe { sys::cuMemsetD8Async(self.address, byte, self.len, stream) }
        })
    }

    /// Puts on a stream that every byte becomes `byte`.
    pub fn fill_on(&self, byte: u8, stream: &Stream) -> Result<(), DeviceError> {
        let _current = self.device.bind()?;
        // SAFETY: all of the buffer, which waits for the device before it goes.
        let status = unsafe { sys::cuMemsetD8Async(self.address, byte, self.len, stream.handle()) };
        check(status, "fill device memory")
    }

    /// Puts a copy of another buffer of the same size on a stream.
    ///
    /// # Panics
    /// When the sizes differ.
    pub fn copy_on(&self, source: &DeviceBuffer, stream: &Stream) -> Result<(), DeviceError> {
        assert_eq!(self.len, source.len, "copy: length mismatch");
        let _current = self.device.bind()?;
        // SAFETY: both are `len` bytes, and wait for the device before they go.
        let status = unsafe {
            sys::cuMemcpyDtoDAsync_v2(self.address, source.address, self.len, stream.handle())
        };
        check(status, "copy device memory")
    }

    /// Copies bytes to the host, after everything that is on `stream`, and waits for that.
    ///
    /// # Panics
    /// When the bytes from `at` on are fewer than `out`.
    pub fn download(&self, at: usize, out: &mut [u8], stream: &Stream) -> Result<(), DeviceError> {
        let end = at.checked_add(out.len());
        assert!(end.is_some_and(|end| end <= self.len), "download: length mismatch");
        let _current = self.device.bind()?;
        // SAFETY: both ranges are valid while it is waited for.
        let status = unsafe {
            let to = out.as_mut_ptr().cast::<c_void>();
            let from = self.address + at as u64;
            sys::cuMemcpyDtoHAsync_v2(to, from, out.len(), stream.handle())
        };
        // Waited for whatever it says: a copy may be under way.
        let waited = stream.synchronize("copy a row to the host");
        check(status, "copy a row to the host")?;
        waited
    }

    /// Puts a copy of all of it to the host on `stream`.
    ///
    /// # Safety
    /// Until the copy is done, `out` stays, and nothing reads or writes it.
    ///
    /// # Panics
    /// When `out` has another size.
    pub(super) unsafe fn download_on(
        &self,
        out: &mut [u8],
        stream: &Stream,
    ) -> Result<(), DeviceError> {
        assert_eq!(out.len(), self.len, "download: length mismatch");
        let _current = self.device.bind()?;
        // SAFETY: both are `len` bytes; the caller keeps `out`, and the buffer waits for the device
        // before it goes.
        let status = unsafe {
            let to = out.as_mut_ptr().cast::<c_void>();
            sys::cuMemcpyDtoHAsync_v2(to, self.address, out.len(), stream.handle())
        };
        check(status, "copy a row to the host")
    }

    /// Puts a copy of the `len` bytes from `at` on to pinned memory on `stream`.
    ///
    /// # Safety
    /// Until the copy is done, `len` bytes from `to` on stay, and nothing reads or writes them.
    ///
    /// # Panics
    /// When the bytes from `at` on are fewer.
    pub(super) unsafe fn download_to(
        &self,
        at: usize,
        to: NonNull<u8>,
        len: usize,
        stream: &Stream,
    ) -> Result<(), DeviceError> {
        let end = at.checked_add(len);
        assert!(end.is_some_and(|end| end <= self.len), "download: length mismatch");
        let _current = self.device.bind()?;
        // SAFETY: the bytes are inside, and the buffer waits for the device before it goes; the caller keeps the rest.
        let status = unsafe {
            let to = to.as_ptr().cast::<c_void>();
            sys::cuMemcpyDtoHAsync_v2(to, self.address + at as u64, len, stream.handle())
        };
        check(status, "copy a row to the host")
    }

    /// Waits until nothing uses the buffer, whatever was put on streams.
    pub(super) fn settle(&self) -> Result<(), DeviceError> {
        self.device.synchronize()
    }

    /// A buffer with the content of `bytes`.
    pub fn from_bytes(device: &Arc<Device>, bytes: &[u8]) -> Result<Self, DeviceError> {
        let mut buffer = DeviceBuffer::new(device, bytes.len())?;
        buffer.write(bytes)?;
        Ok(buffer)
    }

    /// Its address on the device.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Its size \[bytes\].
    pub fn len(&self) -> usize {
        self.len
    }

    /// Never: there is one byte at least.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Copies `bytes` to its start and waits for that.
    ///
    /// # Panics
    /// When `bytes` are more than its size.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), DeviceError> {
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
    pub fn read(&self, bytes: &mut [u8]) -> Result<(), DeviceError> {
        assert!(bytes.len() <= self.len, "read: length mismatch");
        self.device.synchronize()?;
        self.read_at_once(bytes)
    }

    /// Copies its start to `bytes`, though what was started on streams may not be done.
    ///
    /// # Panics
    /// When `bytes` are more than its size.
    pub(super) fn read_at_once(&self, bytes: &mut [u8]) -> Result<(), DeviceError> {
        assert!(bytes.len() <= self.len, "read: length mismatch");
        self.device.at_once("copy from the device", |stream| {
            let to = bytes.as_mut_ptr().cast::<c_void>();
            // SAFETY: both ranges are valid while it is waited for.
            unsafe { sys::cuMemcpyDtoHAsync_v2(to, self.address, bytes.len(), stream) }
        })
    }

    /// Puts a copy of `source` on `stream`, to where `at` is.
    ///
    /// # Safety
    /// Until the copy is done, `source` stays, and is not written.
    ///
    /// # Panics
    /// When the bytes from `at` on are fewer than `source`.
    pub(super) unsafe fn upload(
        &self,
        at: usize,
        source: &[u8],
        stream: &Stream,
    ) -> Result<(), DeviceError> {
        let end = at.checked_add(source.len());
        assert!(end.is_some_and(|end| end <= self.len), "upload: length mismatch");
        if source.is_empty() {
            return Ok(());
        }
        let _current = self.device.bind()?;
        // SAFETY: the buffer waits for the device before it goes; the caller answers for the source.
        let status = unsafe {
            let to = self.address + at as u64;
            let from = source.as_ptr().cast::<c_void>();
            sys::cuMemcpyHtoDAsync_v2(to, from, source.len(), stream.handle())
        };
        check(status, "copy to the device")
    }
}

impl Drop for DeviceBuffer {
    fn drop(&mut self) {
        // SAFETY: reserved in `new`; nothing uses it any more.
        let free = || unsafe { sys::cuMemFree_v2(self.address) };
        free_after_wait(&self.device, "device memory", self.len, free);
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
    pub fn new(device: &Arc<Device>, len: usize) -> Result<Self, DeviceError> {
        let _current = device.bind()?;
        let len = len.max(1);
        let mut pointer = ptr::null_mut();
        // Portable: usable from every context of the process. Mapped: kernels may use it.
        let flags = sys::CU_MEMHOSTALLOC_PORTABLE | sys::CU_MEMHOSTALLOC_DEVICEMAP;
        // SAFETY: `pointer` is a place for an address; a context is current.
        let status = unsafe { sys::cuMemHostAlloc(&mut pointer, len, flags) };
        check(status, "reserve pinned memory")?;
        let pointer = NonNull::new(pointer.cast::<u8>()).ok_or(DeviceError::Failed {
            operation: "reserve pinned memory",
            detail: "the driver returned no address".into(),
        })?;
        // SAFETY: `len` bytes that are ours alone.
        unsafe { ptr::write_bytes(pointer.as_ptr(), 0, len) };
        Ok(PinnedBuffer { pointer, len, device: device.clone() })
    }

    /// Its address, for the host and for the device.
    pub fn address(&self) -> u64 {
        self.pointer.as_ptr() as u64
    }

    /// Address of the byte `at`.
    ///
    /// # Panics
    /// When it is not inside.
    pub(super) fn at(&self, at: usize) -> NonNull<u8> {
        assert!(at < self.len, "pinned memory: expected a byte inside");
        // SAFETY: inside of the allocation.
        unsafe { self.pointer.add(at) }
    }

    /// Puts a copy of its first `len` bytes to an address of the device on a stream.
    ///
    /// # Safety
    /// Until the copy is done, `len` bytes at the address are valid, nothing else uses them, and nothing writes this
    /// memory.
    ///
    /// # Panics
    /// When `len` is more than its size.
    pub unsafe fn send(&self, len: usize, to: u64, stream: &Stream) -> Result<(), DeviceError> {
        assert!(len <= self.len, "send: length mismatch");
        if len == 0 {
            return Ok(());
        }
        let _current = self.device.bind()?;
        // SAFETY: this memory is valid, and waits for the device before it goes; the caller answers for the rest.
        let status = unsafe {
            let source = self.pointer.as_ptr().cast::<c_void>();
            sys::cuMemcpyHtoDAsync_v2(to, source, len, stream.handle())
        };
        check(status, "copy to the device")
    }

    /// The bytes in `range`, to be written by either.
    ///
    /// # Panics
    /// When they are not inside.
    pub fn part_mut(&mut self, range: Range<usize>) -> PinnedMut<'_> {
        let address = self.address() + range.start as u64;
        PinnedMut { bytes: &mut self[range], address }
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
        // SAFETY: reserved in `new`; nothing uses it any more.
        let free = || unsafe { sys::cuMemFreeHost(self.pointer.as_ptr().cast()) };
        free_after_wait(&self.device, "pinned memory", self.len, free);
    }
}

/// A part of pinned memory, borrowed to write it.
#[derive(Debug)]
pub struct PinnedMut<'a> {
    pub(super) bytes: &'a mut [u8],
    /// Address of the bytes on the device.
    pub(super) address: u64,
}

impl PinnedMut<'_> {
    /// Its address on the device. For registered memory it may differ from that on the host.
    pub fn address(&self) -> u64 {
        self.address
    }
}

impl Deref for PinnedMut<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes
    }
}

impl DerefMut for PinnedMut<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.bytes
    }
}

/// Ordinary memory that is registered with the driver. A drop ends the registration.
#[derive(Debug)]
pub(super) struct Registration {
    pointer: NonNull<u8>,
    len: usize,
    /// Address of the memory for kernels; `None` if only copies reach it.
    address: Option<u64>,
    device: Arc<Device>,
    has_ended: bool,
}

// SAFETY: a name that the driver accepts from any thread.
unsafe impl Send for Registration {}
// SAFETY: as above.
unsafe impl Sync for Registration {}

impl Registration {
    /// Registers `len` bytes.
    ///
    /// # Safety
    /// They stay until this is dropped.
    pub(super) unsafe fn new(
        device: &Arc<Device>,
        pointer: NonNull<u8>,
        len: usize,
    ) -> Result<Self, DeviceError> {
        let operation = "register host memory";
        if !device.host_access().registers {
            let detail = "the device does not support it".into();
            return Err(DeviceError::Failed { operation, detail });
        }
        let _current = device.bind()?;
        // Portable: for every context of the process. Mapped: kernels may use it.
        let flags = sys::CU_MEMHOSTREGISTER_PORTABLE | sys::CU_MEMHOSTREGISTER_DEVICEMAP;
        // SAFETY: live memory, as the caller promises; a context is current.
        let status =
            unsafe { sys::cuMemHostRegister_v2(pointer.as_ptr().cast::<c_void>(), len, flags) };
        check(status, operation)?;
        let device = device.clone();
        let mut registered = Registration { pointer, len, address: None, device, has_ended: false };
        registered.address = registered.find_address();
        Ok(registered)
    }

    fn find_address(&self) -> Option<u64> {
        if self.device.host_access().at_host_address {
            return Some(self.pointer.as_ptr() as u64);
        }
        let mut address = 0;
        let host = self.pointer.as_ptr().cast::<c_void>();
        // SAFETY: a place for an address, and registered memory; the context is current. 0 is the only flag that is
        // defined.
        let status = unsafe { sys::cuMemHostGetDevicePointer_v2(&mut address, host, 0) };
        (status == CUresult::CUDA_SUCCESS).then_some(address)
    }

    /// Address of the memory for kernels; `None` if only copies reach it.
    pub(super) fn address(&self) -> Option<u64> {
        self.address
    }

    /// Ends it. Returns false if the device may still use the memory, which then must stay.
    pub(super) fn end(mut self) -> bool {
        self.end_now()
    }

    fn end_now(&mut self) -> bool {
        if std::mem::replace(&mut self.has_ended, true) {
            return true;
        }
        // SAFETY: registered in `new`; no copy is under way.
        let end = || unsafe { sys::cuMemHostUnregister(self.pointer.as_ptr().cast::<c_void>()) };
        free_after_wait(&self.device, "host memory", self.len, end)
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.end_now();
    }
}

/// The bytes of values that a kernel reads.
pub fn bytes_of<T: Shared>(values: &[T]) -> &[u8] {
    // SAFETY: `T` has no padding, so that all bytes are initialised.
    unsafe { slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) }
}
