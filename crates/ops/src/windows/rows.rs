//! The rows of a ring: as they are, or packed, so that a window unpacks those that it needs.

use std::fmt;

use super::WindowError;

/// Rows that are packed, each by itself. Several threads read at once.
pub trait PackedRows: Send + Sync {
    /// Bytes of all rows when they are unpacked.
    fn byte_len(&self) -> usize;

    /// Unpacks a row into `out`, which has its size.
    ///
    /// # Errors
    /// The row is damaged or cannot be read, in words.
    fn read(&self, row: usize, out: &mut [u8]) -> Result<(), String>;
}

/// The rows of a ring, all of one size.
#[derive(Clone, Copy)]
pub enum Rows<'a> {
    /// One after the other.
    Plain(&'a [u8]),
    /// Each is unpacked when it is needed.
    Packed(&'a dyn PackedRows),
}

impl Rows<'_> {
    /// Bytes of all rows when they are unpacked.
    pub fn byte_len(&self) -> usize {
        match self {
            Rows::Plain(bytes) => bytes.len(),
            Rows::Packed(rows) => rows.byte_len(),
        }
    }

    /// Copies a row of `out.len()` bytes.
    pub(super) fn copy(&self, stream: &str, row: usize, out: &mut [u8]) -> Result<(), WindowError> {
        match self {
            Rows::Plain(bytes) => out.copy_from_slice(&bytes[row * out.len()..][..out.len()]),
            Rows::Packed(rows) => rows.read(row, out).map_err(|error| {
                WindowError::of(format!("row {row} of '{stream}'"), "one that is whole", error)
            })?,
        }
        Ok(())
    }
}

impl fmt::Debug for Rows<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self {
            Rows::Plain(_) => "Plain",
            Rows::Packed(_) => "Packed",
        };
        write!(f, "{kind}({} bytes)", self.byte_len())
    }
}
