//! A Zarr store of many episodes: columns, which grow by a row at a time, one episode after the other.
//!
//! 1. [`PartWriter`] writes the columns of one episode into a folder, a [`Part`]. Several run beside each other.
//! 2. [`assemble`] joins the parts, in the order of the episodes, into one store (Zarr v3, sharded, zstd).
//!
//! A large row is a chunk of its own: it is compressed once, in its part, and the store takes it as it is. Small
//! rows stay as they are in the part, and fill chunks in the store. So the store depends neither on how many
//! episodes ran at once nor on where one ends, and memory does not grow with an episode's length.
//!
//! The shards are written here rather than by the crate `zarrs`, which would encode each row again.

mod column;
mod part;
mod shard;
mod zarr;

pub use column::{Column, Element};
pub use part::{Part, PartWriter};
pub use zarr::{Joined, assemble};
