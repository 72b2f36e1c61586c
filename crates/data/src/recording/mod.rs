//! Recordings of a live node: bags of rosbag2 in MCAP that say, beside each message, how the node took it.
//!
//! 1. [`McapRecorder`] takes what the runtime tells a [`Recorder`](robocache_runtime::Recorder), and hands it to a
//!    thread of its own ([`queue`], [`writing`]).
//! 2. That thread writes files ([`file`]), with a [`RecordingEvent`] for each event.
//! 3. [`Manifest`] says how the node ran: configuration, parameters, statistics.
//! 4. A recorder of episodes writes between two requests ([`EpisodeRequest`]). It begins each with its [`lead`].

mod compression;
mod contents;
mod copies;
mod disk;
mod ending;
mod episodes;
mod event;
mod facts;
mod file;
mod forecast;
mod lead;
mod log_time;
mod lost;
mod manifest;
mod marks;
mod metadata;
mod offers;
mod queue;
mod recorder;
mod request;
mod sync;
mod writing;

pub use compression::ChunkCompression;
pub use copies::REMEMBERED;
pub use disk::{Disk, Files, OnDisk, Room};
pub use ending::{Ending, NOT_ENDED, has_end};
pub use event::{EVENT_TYPE, EventError, Gap, RecordingEvent};
pub use facts::take_fact;
pub use file::RecordLimits;
pub use manifest::{EpisodeFacts, Manifest, ManifestError};
pub use marks::{DISCARD, Mark};
pub use recorder::{McapRecorder, RecordError, RecordOptions};
pub use request::{EpisodeRequest, MarkRequest, NotRecorded};
pub use writing::Writing;
