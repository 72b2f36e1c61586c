//! Files in memory, read-only: the system reads what is used, when it is used.

#![allow(unsafe_code)] // a mapping; every block says why it is sound

use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::num::NonZero;
use std::path::Path;
use std::ptr::NonNull;

use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};

use super::memory::Bytes;

/// A file in memory. If another process changes or shortens the file, the values that are read change. The files of a
/// cache are written once, under another name.
pub(super) struct Mapped {
    /// `None` if the file is empty.
    memory: Option<NonNull<c_void>>,
    len: usize,
}

// SAFETY: the mapping is read-only, and belongs to this value alone.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}

impl Mapped {
    /// Maps a file.
    ///
    /// # Errors
    /// It cannot be opened or mapped.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let len = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
        let Some(length) = NonZero::new(len) else { return Ok(Mapped { memory: None, len }) };
        let flags = MapFlags::MAP_SHARED;
        // SAFETY: the system chooses the address; the mapping is read-only and stays until `drop`.
        let memory = unsafe { mmap(None, length, ProtFlags::PROT_READ, flags, &file, 0) }?;
        Ok(Mapped { memory: Some(memory), len })
    }
}

impl Bytes for Mapped {
    fn bytes(&self) -> &[u8] {
        match self.memory {
            None => &[],
            // SAFETY: `len` bytes are mapped there until `drop`, and no process writes the file.
            Some(memory) => unsafe {
                std::slice::from_raw_parts(memory.cast::<u8>().as_ptr(), self.len)
            },
        }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        if let Some(memory) = self.memory {
            // SAFETY: it was mapped with this length, and no slice of it outlives this value.
            let unmapped = unsafe { munmap(memory, self.len) };
            debug_assert!(unmapped.is_ok(), "munmap: {unmapped:?}");
        }
    }
}
