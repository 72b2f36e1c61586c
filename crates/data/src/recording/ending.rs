//! The end of a recording, as its folder shows it.

use std::fs::File;
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

use super::event::{EVENT_TYPE, RecordingEvent};
use super::manifest::Manifest;
use crate::bag::{Bag, BagError};

/// Note on a recording without its event END, in words.
pub const NOT_ENDED: &str =
    "the recording was not ended: the node was killed, its disk was full, or it still records";

/// State of a bag in a folder to which a node records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It has `metadata.yaml`, which recorders write last.
    Complete,
    /// A process of this machine writes it.
    Running,
    /// A recording of a node whose files have no end, and which no process writes any more: the node was killed, or its disk
    /// failed.
    Killed,
    /// It has no `metadata.yaml`, and is no recording of a node: nobody knows whether something still writes it.
    Unknown,
}

impl Ending {
    /// Looks at the folder of a bag.
    pub fn of(bag: &Path) -> Self {
        let is_complete = || bag.join("metadata.yaml").is_file();
        if is_complete() {
            return Ending::Complete;
        }
        // Its recorder locks the folder before the first file is there.
        if Manifest::read(bag).is_err() {
            return Ending::Unknown;
        }
        let held = File::open(bag).map(|folder| Flock::lock(folder, FlockArg::LockSharedNonblock));
        match held {
            // It may have ended since the first look.
            Ok(Ok(_)) if is_complete() => Ending::Complete,
            Ok(Ok(_)) => Ending::Killed,
            Ok(Err((_, Errno::EWOULDBLOCK))) => Ending::Running,
            // The file system knows no locks.
            Ok(Err(_)) | Err(_) => Ending::Unknown,
        }
    }

    /// Its word.
    pub const fn word(self) -> &'static str {
        match self {
            Ending::Complete => "complete",
            Ending::Running => "running",
            Ending::Killed => "killed",
            Ending::Unknown => "unknown",
        }
    }
}

/// True if a bag has the event END of a recording, which is its last message; `None` if it is no recording of a node. A recorder
/// whose disk is full gives the files their ends, and `metadata.yaml`, without this event.
///
/// # Errors
/// The bag cannot be opened.
pub fn has_end(bag: &Path) -> Result<Option<bool>, BagError> {
    let bag = Bag::open(bag)?;
    let events: Vec<bool> = bag.topics.iter().map(|topic| topic.ros_type == EVENT_TYPE).collect();
    let (true, Some((_, last))) = (events.contains(&true), bag.span()) else { return Ok(None) };
    let is_end = |bytes: &[u8]| matches!(RecordingEvent::read(bytes), Ok(RecordingEvent::End));
    let mut messages = bag.messages_from(&events, last)?;
    Ok(Some(messages.any(|recorded| is_end(&recorded.bytes))))
}

/// Locks the folder of a recording while a process writes it. The system unlocks it if the process is killed. `None` if the
/// file system knows no locks.
pub(super) fn hold(folder: &Path) -> Option<Flock<File>> {
    Flock::lock(File::open(folder).ok()?, FlockArg::LockExclusiveNonblock).ok()
}
