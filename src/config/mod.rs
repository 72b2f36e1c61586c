//! The configuration: one annotated YAML file, the same for live and replay.

mod spec;

pub use spec::*;
