//! Stored arrays, which grow along their first dimension.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use robocache_core::codec::JpegRow;
use robocache_ops::dtype::DType;

/// How an array is divided, before it is compressed \[bytes\].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sizes {
    /// A row of this size or more is a chunk of its own.
    pub large_row: usize,
    /// A chunk of smaller rows.
    pub chunk: usize,
    /// A shard.
    pub shard: usize,
}

impl Default for Sizes {
    fn default() -> Self {
        Sizes { large_row: 16 << 10, chunk: 64 << 10, shard: 64 << 20 }
    }
}

/// Chunks of a shard, at most: its index has 16 bytes for each, and an episode of large rows begins with a new shard.
const MOST_CHUNKS: usize = 1024;

/// The type of an element, by its name in Zarr. All are little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum Element {
    Bool,
    Uint8,
    Uint16,
    Int32,
    Uint32,
    Int64,
    Uint64,
    Float16,
    Float32,
    Float64,
}

impl Element {
    /// Bytes of an element.
    pub const fn size(self) -> usize {
        match self {
            Element::Bool | Element::Uint8 => 1,
            Element::Uint16 | Element::Float16 => 2,
            Element::Int32 | Element::Uint32 | Element::Float32 => 4,
            Element::Int64 | Element::Uint64 | Element::Float64 => 8,
        }
    }

    /// The type that has the bits of a tensor's element. Zarr's readers know no bf16: its bits are in a
    /// `uint16`.
    pub const fn of(dtype: DType) -> Self {
        match dtype {
            DType::F32 => Element::Float32,
            DType::F16 => Element::Float16,
            DType::Bf16 => Element::Uint16,
            DType::U8 => Element::Uint8,
            DType::I32 => Element::Int32,
        }
    }
}

/// How a chunk is compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Codec {
    /// By zstd, without loss.
    #[default]
    Zstd,
    /// As JPEG: a row, which is an image, is a file.
    Jpeg(JpegRow),
}

/// An array that grows by a row at a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    /// Its place in the store, such as `data/joints.valid`.
    pub path: String,
    /// The type of its elements.
    pub element: Element,
    /// The shape of a row; empty for a number.
    pub row: Vec<usize>,
    /// The names of its dimensions, that of the rows first.
    pub dimensions: Vec<String>,
    /// Attributes of the column in the store.
    pub attributes: Map<String, Value>,
    /// How it is divided.
    pub sizes: Sizes,
    /// The byte that fills rows between two episodes, if episodes are apart ([`Table::begins`]).
    #[serde(default)]
    pub filler: u8,
    /// How its chunks are compressed.
    #[serde(default)]
    pub codec: Codec,
}

/// Columns that grow together: all have the same rows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    /// The columns.
    pub columns: Vec<Column>,
    /// The array that says where the rows of each episode end.
    pub ends: String,
    /// The array that says where they begin. With it, an episode begins with shards of its own in columns of large rows.
    /// So its shards are files of its part, under other names. Otherwise an episode begins where the one before ends.
    pub begins: Option<String>,
    /// Columns of `int64` by which the rows are sorted, the most significant first. Otherwise rows stay in the order in
    /// which they come.
    pub sorted_by: Option<[usize; 3]>,
}

impl Column {
    /// A column without attributes. `rest` names the dimensions of a row, with their sizes.
    pub fn new(path: String, element: Element, along: &str, rest: &[(String, usize)]) -> Self {
        let names = rest.iter().map(|(name, _)| name.clone());
        Column {
            path,
            element,
            row: rest.iter().map(|(_, size)| *size).collect(),
            dimensions: std::iter::once(along.to_owned()).chain(names).collect(),
            attributes: Map::new(),
            sizes: Sizes::default(),
            filler: 0,
            codec: Codec::default(),
        }
    }

    /// Adds an attribute.
    pub fn with(mut self, name: &str, value: impl Serialize) -> Self {
        // What is stored here is made of names and numbers, which JSON has.
        let value = serde_json::to_value(value).unwrap_or(Value::Null);
        self.attributes.insert(name.to_owned(), value);
        self
    }

    /// Bytes of a row.
    pub fn row_bytes(&self) -> usize {
        self.row.iter().product::<usize>() * self.element.size()
    }

    /// True if each row is a chunk.
    pub fn has_large_rows(&self) -> bool {
        self.codec != Codec::Zstd || self.row_bytes() >= self.sizes.large_row
    }

    /// Rows of a chunk.
    pub fn chunk_rows(&self) -> usize {
        match self.has_large_rows() {
            true => 1,
            false => power_of_two_below(self.sizes.chunk / self.row_bytes().max(1)),
        }
    }

    /// Chunks of a shard, a power of two.
    pub fn shard_chunks(&self) -> usize {
        let chunk = self.chunk_rows() * self.row_bytes().max(1);
        power_of_two_below(self.sizes.shard / chunk).min(MOST_CHUNKS)
    }

    /// Rows of a shard, a power of two.
    pub fn shard_rows(&self) -> u64 {
        self.chunk_rows() as u64 * self.shard_chunks() as u64
    }
}

impl Table {
    /// An episode begins at a multiple of this row.
    pub fn alignment(&self) -> u64 {
        let large = self.columns.iter().filter(|column| column.has_large_rows());
        let aligned = self.begins.as_ref().and_then(|_| large.map(Column::shard_rows).max());
        aligned.unwrap_or(1)
    }

    /// Rows of each episode in the store, from their numbers. An episode without rows is where the one before ends.
    pub fn spans(&self, rows: impl IntoIterator<Item = u64>) -> Vec<Range<u64>> {
        let alignment = self.alignment();
        let mut end = 0u64;
        let span = |rows| {
            let begin = if rows == 0 { end } else { end.next_multiple_of(alignment) };
            end = begin + rows;
            begin..end
        };
        rows.into_iter().map(span).collect()
    }
}

/// The largest power of two that is not above `value`; 1 for zero.
fn power_of_two_below(value: usize) -> usize {
    1 << value.max(1).ilog2()
}

#[cfg(test)]
mod tests;
