//! A Zarr store of many episodes: tables of columns, which grow by a row at a time, one episode after the other.
//!
//! 1. [`PartWriter`] writes the tables of one episode into a folder, a [`StorePart`]. Several run beside each other.
//! 2. [`assemble`] joins the parts, in the order of the episodes, into one store (Zarr v3, sharded, zstd or JPEG, crc32c).
//!
//! A large row is a chunk of its own: it is compressed once, in its part. The parts of episodes have shards, as the
//! store has. Where an episode begins with shards of its own, its shards get another name in the store, and are not
//! written again. Small rows stay as they are in the part, and fill chunks in the store. So the store depends neither on
//! how many episodes ran at once nor on where one ends. Memory does not grow with an episode's length, apart from the
//! keys of rows that did not come in their order ([`order`]).
//!
//! The shards are written here rather than by the crate `zarrs`, which would encode each row again.

pub(crate) mod chunk;
mod column;
mod copy;
mod large;
mod order;
mod part;
mod pool;
pub mod read;
mod shard;
mod stream;
#[cfg(test)]
mod tests;
mod zarr;

pub use chunk::Loss;
pub use column::{Codec, Column, Element, Sizes, Table};
use order::Order;
pub use part::{Losses, PART_FORMAT, PartWriter, RowWriter, StorePart, WriterLimits};

pub use zarr::{Built, Joined, Source, assemble, identity};

/// The version of the arrays of a store and their meaning. Results of another version are made again.
pub(crate) const FORMAT_VERSION: u32 = 5;
/// Attribute of an episode with its gaps: how many ticks came before each that does not follow the one before.
pub(crate) const BREAKS: &str = "breaks";
