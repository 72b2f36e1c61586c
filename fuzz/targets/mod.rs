//! Targets of the fuzzer: a function of each takes an input.

pub(crate) mod bags;
pub(crate) mod checkpoints;
pub(crate) mod chunks;
pub(crate) mod configuration;
pub(crate) mod definitions;
pub(crate) mod depth;
pub(crate) mod episodes;
pub(crate) mod inspect;
pub(crate) mod messages;
pub(crate) mod pictures;
pub(crate) mod raw_images;
pub(crate) mod select;
pub(crate) mod stores;
pub(crate) mod tensors;
pub(crate) mod verify;

/// The text at the start of an input.
fn text(input: &[u8]) -> &str {
    input.utf8_chunks().next().map_or("", |chunk| chunk.valid())
}
