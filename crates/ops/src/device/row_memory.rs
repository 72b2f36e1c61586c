//! Memory of a row that has left its ring.

use std::ops::Deref;

#[cfg(feature = "cuda")]
use super::PinnedSlab;

/// A row on the host. Who takes it out need not copy it.
#[derive(Debug)]
pub enum RowMemory {
    /// Ordinary memory.
    Own(Vec<u8>),
    /// Pinned memory, to which a GPU has copied the row.
    #[cfg(feature = "cuda")]
    Slab(PinnedSlab),
}

impl RowMemory {
    /// Empty ordinary memory, to write a row: that of the last row, if it was ordinary.
    pub fn emptied(&mut self) -> &mut Vec<u8> {
        #[cfg(feature = "cuda")]
        if matches!(self, RowMemory::Slab(_)) {
            *self = RowMemory::default();
        }
        match self {
            RowMemory::Own(bytes) => {
                bytes.clear();
                bytes
            }
            #[cfg(feature = "cuda")]
            RowMemory::Slab(_) => unreachable!("it was replaced by ordinary memory"),
        }
    }

    /// Takes the row. If it is in ordinary memory, `next` gives memory of its size for the next one.
    pub fn take(&mut self, next: impl FnOnce(usize) -> Vec<u8>) -> RowMemory {
        let next = match self {
            RowMemory::Own(bytes) => next(bytes.len()),
            #[cfg(feature = "cuda")]
            RowMemory::Slab(_) => Vec::new(),
        };
        std::mem::replace(self, RowMemory::Own(next))
    }

    /// Its ordinary memory, to be used again. A slab goes back by itself.
    pub fn into_own(self) -> Option<Vec<u8>> {
        match self {
            RowMemory::Own(bytes) => Some(bytes),
            #[cfg(feature = "cuda")]
            RowMemory::Slab(_) => None,
        }
    }
}

impl Default for RowMemory {
    fn default() -> Self {
        RowMemory::Own(Vec::new())
    }
}

impl Deref for RowMemory {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            RowMemory::Own(bytes) => bytes,
            #[cfg(feature = "cuda")]
            RowMemory::Slab(slab) => slab,
        }
    }
}
