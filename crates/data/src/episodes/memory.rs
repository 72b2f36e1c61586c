//! Memory of the columns of episodes: of our own, a file, or an array of the caller.

use std::sync::Arc;

use super::EpisodeError;
use super::packed::Packed;
use robocache_ops::windows::Rows;

/// Bytes that stay where they are, and as they are.
pub trait Bytes: Send + Sync {
    /// The bytes.
    fn bytes(&self) -> &[u8];
}

/// A column. Clones share it.
pub type Column = Arc<dyn Bytes>;

/// The rows of a ring. Clones share them.
#[derive(Clone)]
pub enum RowColumn {
    /// One after the other.
    Plain(Column),
    /// Compressed, in the files of a store.
    Packed(Arc<Packed>),
}

impl RowColumn {
    /// Bytes of all rows when they are unpacked.
    pub fn byte_len(&self) -> usize {
        self.view().byte_len()
    }

    /// The rows for windows.
    pub fn view(&self) -> Rows<'_> {
        match self {
            RowColumn::Plain(column) => Rows::Plain(column.bytes()),
            RowColumn::Packed(packed) => Rows::Packed(packed.as_ref()),
        }
    }

    /// The rows as they are; `None` if they are compressed.
    pub fn plain(&self) -> Option<&Column> {
        match self {
            RowColumn::Plain(column) => Some(column),
            RowColumn::Packed(_) => None,
        }
    }

    /// Hands all bytes to `take`, in their order, some at a time.
    ///
    /// # Errors
    /// That of `take`, or of a row that cannot be read.
    pub(super) fn for_each<E: From<String>>(
        &self,
        mut take: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        match self {
            RowColumn::Plain(column) => take(column.bytes()),
            RowColumn::Packed(rows) => rows.for_each(take),
        }
    }
}

impl From<Column> for RowColumn {
    fn from(column: Column) -> Self {
        RowColumn::Plain(column)
    }
}

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

    /// `len` bytes, all zero; `None` if the memory does not suffice.
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
pub(super) fn numbers<'a, T: bytemuck::AnyBitPattern>(
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
