//! Everything that reads bytes from elsewhere, as targets of a fuzzer, with the seeds of each. `main.rs` gives them to
//! libFuzzer. A test of `crates/tools` replays the seeds.

mod bags;
mod checkpoint;
mod chunks;
mod episodes;
mod recording;
mod records;
mod rows;
mod seeds;
mod sensors;
mod streams;
mod targets;
mod tensors;

pub(crate) use records::folder;

/// A target: its name, what it does with an input, and its seeds.
pub(crate) type FuzzTarget = (&'static str, fn(&[u8]), fn() -> Vec<Vec<u8>>);

/// All targets.
pub(crate) const TARGETS: [FuzzTarget; 15] = [
    ("messages", targets::messages::run, seeds::messages),
    ("pictures", targets::pictures::run, seeds::pictures),
    ("depth", targets::depth::run, seeds::depth),
    ("raw_images", targets::raw_images::run, seeds::raw_images),
    ("select", targets::select::run, seeds::select),
    ("definitions", targets::definitions::run, seeds::definitions),
    ("configuration", targets::configuration::run, seeds::configurations),
    ("bags", targets::bags::run, bags::bags),
    ("tensors", targets::tensors::run, tensors::messages),
    ("chunks", targets::chunks::run, chunks::messages),
    ("checkpoints", targets::checkpoints::run, checkpoint::files),
    ("inspect", targets::inspect::run, seeds::inspected),
    ("verify", targets::verify::run, tensors::recordings),
    ("stores", targets::stores::run, rows::store),
    ("episodes", targets::episodes::run, rows::saved),
];
