//! Memory of an output: its type says who can write it.

use std::ops::{Deref, DerefMut, Range};

use super::{DeviceOutput, HostBuffer};
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
    /// Memory of the device.
    Device(&'a mut DeviceOutput),
}

impl Output {
    /// The bytes in `range`, to be written.
    ///
    /// # Panics
    /// When they are not inside.
    pub fn part_mut(&mut self, range: Range<usize>) -> OutputMut<'_> {
        match self {
            Output::Host(buffer) => {
                #[cfg(feature = "cuda")]
                if let Some(start) = buffer.device_address() {
                    let address = start + range.start as u64;
                    return OutputMut::Pinned(PinnedMut { bytes: &mut buffer[range], address });
                }
                OutputMut::Host(&mut buffer[range])
            }
            #[cfg(feature = "cuda")]
            Output::Pinned(buffer) => OutputMut::Pinned(buffer.part_mut(range)),
        }
    }

    /// True if another owner has lent the memory ([`HostBuffer::lent`]).
    pub fn is_lent(&self) -> bool {
        match self {
            Output::Host(buffer) => buffer.is_lent(),
            #[cfg(feature = "cuda")]
            Output::Pinned(_) => false,
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

impl OutputMut<'_> {
    /// Number of bytes.
    pub fn len(&self) -> usize {
        match self {
            OutputMut::Host(bytes) => bytes.len(),
            #[cfg(feature = "cuda")]
            OutputMut::Pinned(part) => part.len(),
            OutputMut::Device(output) => output.len(),
        }
    }

    /// True if there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes, if the host reaches them.
    pub fn on_host(&mut self) -> Option<&mut [u8]> {
        match self {
            OutputMut::Host(bytes) => Some(bytes),
            #[cfg(feature = "cuda")]
            OutputMut::Pinned(part) => Some(part),
            OutputMut::Device(_) => None,
        }
    }
}

impl<'a> From<&'a mut [u8]> for OutputMut<'a> {
    fn from(bytes: &'a mut [u8]) -> Self {
        OutputMut::Host(bytes)
    }
}
