//! The end of a recording, as its folder shows it.

use std::fs::File;
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

use super::manifest::Manifest;

/// State of a bag in a folder to which a node records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It has `metadata.yaml`, which recorders write last.
    Complete,
    /// A process of this machine writes it.
    Running,
    /// A recording of a node without an end, which no process writes any more.
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

/// Locks the folder of a recording while a process writes it. The system unlocks it if the process is killed. `None` if the
/// file system knows no locks.
pub(super) fn hold(folder: &Path) -> Option<Flock<File>> {
    Flock::lock(File::open(folder).ok()?, FlockArg::LockExclusiveNonblock).ok()
}
