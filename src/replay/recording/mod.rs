//! Recordings of a live node: bags of rosbag2 in MCAP that say, beside each message, how the node took it.
//!
//! 1. [`McapRecorder`] takes what the runtime tells a [`Recorder`](crate::runtime::Recorder), and hands it to a
//!    thread of its own.
//! 2. That thread writes files ([`file`]), with an [`Entry`] for each event.
//! 3. [`Manifest`] says how the node ran: configuration, parameters, statistics.

mod entry;
mod file;
mod manifest;
mod metadata;
mod recorder;

pub use entry::{ENTRY_TYPE, Entry, EntryError, Gap};
pub(super) use file::REMEMBERED;
pub use file::{Disk, Files};
pub use manifest::{Manifest, ManifestError};
pub use recorder::{McapRecorder, RecordError, RecordOptions};
