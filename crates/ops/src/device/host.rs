//! Ordinary memory of the host, in whole pages.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::any::Any;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::slice;
use std::sync::{Arc, LazyLock};

use nix::libc;

/// Size of a page \[bytes\], as the system has it: 4 KiB with x86-64, and up to 64 KiB with 64-bit ARM. The driver
/// registers whole pages, so buffers must not share one.
static PAGE: LazyLock<usize> = LazyLock::new(|| {
    // SAFETY: returns a number.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(page).ok().filter(|page| page.is_power_of_two()).unwrap_or(1 << 16)
});

/// Alignment of the address of lent memory \[bytes\]. If the system has larger pages, lent memory is not registered,
/// because it may share a page with other memory.
pub const LENT_PAGE: usize = 4096;

/// Memory in pages of its own, zero at first.
///
/// It can be registered with a GPU (`register`). Then the GPU copies into it directly. It is still ordinary memory, and
/// stays valid when the device is dropped.
#[derive(Debug)]
pub struct HostBuffer {
    /// The allocated memory; `None` if the memory is lent.
    allocation: Option<NonNull<u8>>,
    /// Who has lent the memory. It stays until this is dropped.
    lender: Option<Arc<dyn Any + Send + Sync>>,
    /// The first page.
    pointer: NonNull<u8>,
    len: usize,
    #[cfg(feature = "cuda")]
    registration: Option<super::memory::Registration>,
}

// SAFETY: has its memory alone, like a `Box<[u8]>`.
unsafe impl Send for HostBuffer {}
// SAFETY: shared references only read.
unsafe impl Sync for HostBuffer {}

impl HostBuffer {
    /// Reserves `len` bytes.
    ///
    /// # Panics
    /// Like a `Vec`, when there is no memory.
    pub fn new(len: usize) -> Self {
        Self::try_new(len).unwrap_or_else(|| match Self::layout(len) {
            Some(layout) => handle_alloc_error(layout),
            None => panic!("host memory: expected a size that fits the address space, found {len}"),
        })
    }

    /// Reserves `len` bytes; `None` if there is no memory for them.
    pub fn try_new(len: usize) -> Option<Self> {
        let layout = Self::layout(len)?;
        // SAFETY: the layout is not of size 0.
        let allocation = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        // SAFETY: the layout has room for a page in front.
        let pointer = unsafe { allocation.add(allocation.align_offset(*PAGE)) };
        Some(HostBuffer {
            allocation: Some(allocation),
            lender: None,
            pointer,
            len,
            #[cfg(feature = "cuda")]
            registration: None,
        })
    }

    /// A buffer in the memory of `owner`, which it keeps.
    ///
    /// # Safety
    /// `pointer` is a multiple of [`LENT_PAGE`]. From there on, `len` bytes, rounded up to such pages, are initialised. They
    /// stay as long as `owner`. Nothing else writes them while somebody uses the buffer, and nothing else reads them while
    /// somebody writes it.
    pub unsafe fn lent(
        pointer: NonNull<u8>,
        len: usize,
        owner: Arc<dyn Any + Send + Sync>,
    ) -> Self {
        HostBuffer {
            allocation: None,
            lender: Some(owner),
            pointer,
            len,
            #[cfg(feature = "cuda")]
            registration: None,
        }
    }

    /// True if another owner has lent the memory ([`HostBuffer::lent`]).
    pub fn is_lent(&self) -> bool {
        self.lender.is_some()
    }

    /// Bytes in whole pages, so that no other memory is in one of them.
    fn page_bytes(len: usize) -> Option<usize> {
        len.max(1).checked_next_multiple_of(*PAGE)
    }

    /// The layout of the allocation. It has one page more, because a larger alignment is not requested. So the
    /// allocator takes large memory from the system as zeros, and an untouched page takes no memory. `None` if it does
    /// not fit the address space.
    fn layout(len: usize) -> Option<Layout> {
        let bytes = Self::page_bytes(len)?.checked_add(*PAGE)?;
        Layout::from_size_align(bytes, 1).ok()
    }

    /// Tells a GPU of the memory.
    ///
    /// # Errors
    /// [`DeviceError::Failed`](super::DeviceError::Failed) where the driver refuses: copies are
    /// then slower, and no less right.
    #[cfg(feature = "cuda")]
    pub fn register(&mut self, device: &Arc<super::Device>) -> Result<(), super::DeviceError> {
        self.registration = None;
        if self.is_lent() && *PAGE != LENT_PAGE {
            return Err(super::DeviceError::Failed {
                operation: "register memory",
                detail: format!(
                    "its pages have {LENT_PAGE} bytes, and those of this system {}",
                    *PAGE
                ),
            });
        }
        let bytes = Self::page_bytes(self.len).unwrap_or(self.len);
        // SAFETY: whole pages of this buffer, which drops the registration before it frees them.
        let registration =
            unsafe { super::memory::Registration::new(device, self.pointer, bytes)? };
        self.registration = Some(registration);
        Ok(())
    }

    /// Address of the memory for kernels; `None` if it is not registered, or if only copies reach it.
    #[cfg(feature = "cuda")]
    pub fn device_address(&self) -> Option<u64> {
        self.registration.as_ref()?.address()
    }

    /// Lets the GPU forget the memory. Returns whether it has: one that was left
    /// ([`Device::leave`](super::Device::leave)) never does, nor one that cannot be waited for.
    #[cfg(feature = "cuda")]
    pub fn unregister(&mut self) -> bool {
        self.registration.take().is_none_or(super::memory::Registration::end)
    }
}

impl Deref for HostBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `len` initialised bytes that live as long as `self`.
        unsafe { slice::from_raw_parts(self.pointer.as_ptr(), self.len) }
    }
}

impl DerefMut for HostBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; borrowed alone through `&mut self`.
        unsafe { slice::from_raw_parts_mut(self.pointer.as_ptr(), self.len) }
    }
}

impl Drop for HostBuffer {
    fn drop(&mut self) {
        #[cfg(feature = "cuda")]
        if !self.unregister() {
            // The driver still maps the pages, and may write into them: they are never freed.
            std::mem::forget(self.lender.take());
            return;
        }
        if let (Some(allocation), Some(layout)) = (self.allocation, Self::layout(self.len)) {
            // SAFETY: reserved in `try_new`, with the same layout.
            unsafe { dealloc(allocation.as_ptr(), layout) };
        }
    }
}

#[cfg(test)]
mod tests;
