//! Where the columns of episodes are: memory of our own, a file, or an array of the caller.

use std::sync::Arc;

use super::EpisodeError;

/// Bytes that stay where they are, and as they are.
pub trait Bytes: Send + Sync {
    /// The bytes.
    fn bytes(&self) -> &[u8];
}

/// A column. Clones share it.
pub type Column = Arc<dyn Bytes>;

/// Bytes of our own, aligned for every number.
pub struct Owned {
    words: Vec<u64>,
    len: usize,
}

impl Owned {
    /// `len` bytes, all zero.
    pub fn new(len: usize) -> Self {
        Owned { words: vec![0; len.div_ceil(8)], len }
    }

    /// The same; `None` if the memory does not suffice.
    pub fn of_len(len: usize) -> Option<Self> {
        Vec::<u64>::new().try_reserve_exact(len.div_ceil(8)).ok()?;
        Some(Owned::new(len))
    }

    /// The bytes.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.words)[..self.len]
    }

    /// A copy of numbers.
    pub fn of<T: bytemuck::NoUninit>(numbers: &[T]) -> Column {
        let bytes: &[u8] = bytemuck::cast_slice(numbers);
        let mut owned = Owned::new(bytes.len());
        owned.bytes_mut().copy_from_slice(bytes);
        Arc::new(owned)
    }
}

impl Bytes for Owned {
    fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.words)[..self.len]
    }
}

/// The bytes of a column as numbers.
///
/// # Errors
/// They are no whole numbers, or not aligned.
pub fn numbers<'a, T: bytemuck::AnyBitPattern>(
    column: &'a Column,
    what: &str,
) -> Result<&'a [T], EpisodeError> {
    // Nothing may be anywhere: an empty slice of bytes need not be aligned.
    if column.bytes().is_empty() {
        return Ok(&[]);
    }
    bytemuck::try_cast_slice(column.bytes()).map_err(|error| {
        let found = format!("{} bytes ({error})", column.bytes().len());
        EpisodeError::of(what, format!("aligned numbers of {} bytes", size_of::<T>()), found)
    })
}
