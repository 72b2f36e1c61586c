//! Recordings of a live node: bags of rosbag2 in MCAP that say, beside each message, how the node took it.
//!
//! 1. [`McapRecorder`] takes what the runtime tells a [`Recorder`](robocache_runtime::Recorder), and hands it to a
//!    thread of its own ([`queue`], [`writing`]).
//! 2. That thread writes files ([`file`]), with a [`RecordingEvent`] for each event.
//! 3. [`Manifest`] says how the node ran: configuration, parameters, statistics.

mod contents;
mod copies;
mod disk;
mod event;
mod facts;
mod file;
mod log_time;
mod lost;
mod manifest;
mod metadata;
mod offers;
mod queue;
mod recorder;
mod writing;

pub use copies::REMEMBERED;
pub use disk::{Disk, Files, Room};
pub use event::{EVENT_TYPE, EventError, Gap, RecordingEvent};
pub use facts::take_fact;
pub use manifest::{Manifest, ManifestError};
pub use recorder::{McapRecorder, RecordError, RecordOptions};
pub use writing::Writing;
