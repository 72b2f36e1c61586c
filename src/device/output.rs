//! Memory of an output: its type says who can write it.

use std::ops::{Deref, DerefMut, Range};

use super::HostBuffer;
#[cfg(feature = "cuda")]
use super::{PinnedBuffer, PinnedMut};

/// Memory of one output, as the backend reserved it. Its start is aligned to a page.
#[derive(Debug)]
pub enum Output {
    /// Ordinary memory.
    Host(HostBuffer),
    /// Pinned memory, which the device reaches.
    #[cfg(feature = "cuda")]
    Pinned(PinnedBuffer),
}

/// A part of an output, borrowed to write it. Any bytes of the host are one.
#[derive(Debug)]
pub enum OutputMut<'a> {
    /// Ordinary memory.
    Host(&'a mut [u8]),
    /// Pinned memory, which the device reaches.
    #[cfg(feature = "cuda")]
    Pinned(PinnedMut<'a>),
}

impl Output {
    /// The bytes in `range`, to be written.
    ///
    /// # Panics
    /// When they are not inside.
    pub fn part_mut(&mut self, range: Range<usize>) -> OutputMut<'_> {
        match self {
            Output::Host(buffer) => OutputMut::Host(&mut buffer[range]),
            #[cfg(feature = "cuda")]
            Output::Pinned(buffer) => OutputMut::Pinned(buffer.part_mut(range)),
        }
    }

    /// All bytes, to be written.
    pub fn all_mut(&mut self) -> OutputMut<'_> {
        self.part_mut(0..self.len())
    }
}

impl Deref for Output {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Output::Host(buffer) => buffer,
            #[cfg(feature = "cuda")]
            Output::Pinned(buffer) => buffer,
        }
    }
}

impl DerefMut for Output {
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            Output::Host(buffer) => buffer,
            #[cfg(feature = "cuda")]
            Output::Pinned(buffer) => buffer,
        }
    }
}

impl Deref for OutputMut<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            OutputMut::Host(bytes) => bytes,
            #[cfg(feature = "cuda")]
            OutputMut::Pinned(part) => part,
        }
    }
}

impl DerefMut for OutputMut<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            OutputMut::Host(bytes) => bytes,
            #[cfg(feature = "cuda")]
            OutputMut::Pinned(part) => part,
        }
    }
}

impl<'a> From<&'a mut [u8]> for OutputMut<'a> {
    fn from(bytes: &'a mut [u8]) -> Self {
        OutputMut::Host(bytes)
    }
}
