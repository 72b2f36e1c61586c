//! Commands again, without a node.
//!
//! 1. [`CommandGroups`] makes the commands of all groups, as the command thread of a node does, of what each command tick
//!    finds. The caller says what that is.
//! 2. [`RecordedCommands`] takes it from the facts of a recording. Nothing else enters: no lag, and no order of messages. So
//!    a difference to the recorded digest is one of the arithmetic, unless the recording lacks an event.

mod groups;
mod recorded;

pub use groups::{CommandGroups, MadeCommand, TakenChunk};
pub use recorded::{Judged, RecordedCommands};

/// Type of messages with chunks of actions.
pub const CHUNK_TYPE: &str = "robocache_ros/msg/ActionChunk";
