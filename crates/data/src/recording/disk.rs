//! Disks that the files of a recording are written to.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{Builder, JoinHandle};

use nix::sys::statvfs::statvfs;

/// Space that is left free on the disk for others \[bytes\], or this part of it if that is less.
const RESERVE: u64 = 1 << 30;
const RESERVE_SHARE: u64 = 50;

/// Destination of a file's bytes.
pub trait Disk: Write + Send {
    /// Returns when what was written survives a loss of power.
    ///
    /// # Errors
    /// The error of the operating system.
    fn sync(&mut self) -> io::Result<()>;
}

impl Disk for File {
    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}

/// The room on a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// \[bytes\].
    pub free: u64,
    /// \[bytes\].
    pub total: u64,
}

/// Most bytes of a system call: while the kernel copies them, a thread of real-time priority may have to wait.
const PIECE: usize = 1 << 14;

/// A file that is written in pieces.
struct InPieces(File);

impl Write for InPieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(&bytes[..bytes.len().min(PIECE)])
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl Disk for InPieces {
    fn sync(&mut self) -> io::Result<()> {
        self.0.sync_data()
    }
}

/// Opens the files of a recording.
pub trait Files: Send {
    /// Creates a file that does not exist yet.
    ///
    /// # Errors
    /// The error of the operating system.
    fn create(&mut self, path: &Path) -> io::Result<Box<dyn Disk>>;

    /// The room on the disk of a folder; `None` if unknown.
    fn room(&self, _folder: &Path) -> Option<Room> {
        None
    }

    /// Deletes a file, which a user may have deleted before.
    ///
    /// # Errors
    /// The error of the operating system.
    fn delete(&mut self, path: &Path) -> io::Result<()> {
        match std::fs::remove_file(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            deleted => deleted,
        }
    }

    /// Lets a file take the place of another one, which is deleted if it is there.
    ///
    /// # Errors
    /// The error of the operating system.
    fn replace(&mut self, path: &Path, by: &Path) -> io::Result<()> {
        std::fs::rename(by, path)
    }
}

/// Files of the file system.
pub struct OnDisk;

impl Files for OnDisk {
    fn create(&mut self, path: &Path) -> io::Result<Box<dyn Disk>> {
        Ok(Box::new(InPieces(OpenOptions::new().write(true).create_new(true).open(path)?)))
    }

    // The integers are of other widths on other systems.
    #[allow(clippy::useless_conversion, clippy::unnecessary_fallible_conversions)]
    fn room(&self, folder: &Path) -> Option<Room> {
        let found = statvfs(folder).ok()?;
        let unit = u64::try_from(found.fragment_size()).ok()?;
        let bytes = |blocks: u64| blocks.saturating_mul(unit);
        let free = bytes(u64::try_from(found.blocks_available()).ok()?);
        let total = bytes(u64::try_from(found.blocks()).ok()?);
        Some(Room { free, total }).filter(|room| room.total > 0)
    }
}

impl Room {
    fn reserve(self) -> u64 {
        RESERVE.min(self.total / RESERVE_SHARE)
    }

    /// Space that a recording may take \[bytes\].
    pub fn usable(self) -> u64 {
        self.free.saturating_sub(self.reserve())
    }

    /// An error if what is left is the reserve.
    pub(super) fn check(self) -> io::Result<()> {
        let reserve = self.reserve();
        if self.free >= reserve {
            return Ok(());
        }
        let mb = |bytes: u64| bytes / 1_000_000;
        let free = mb(self.free);
        let reserve = mb(reserve);
        let why = format!(
            "No space left on device: {free} MB are free, and the recording leaves {reserve} MB free"
        );
        Err(io::Error::new(io::ErrorKind::StorageFull, why))
    }
}

/// A disk that writes nothing more after its first error: the end of a file must not follow a hole.
pub(super) struct UntilError {
    disk: Box<dyn Disk>,
    /// Bytes that it got.
    stored: Arc<AtomicU64>,
    failed: bool,
}

impl UntilError {
    /// Wraps the disk, and counts the bytes that it gets in `stored`.
    pub(super) fn new(disk: Box<dyn Disk>, stored: Arc<AtomicU64>) -> Self {
        UntilError { disk, stored, failed: false }
    }

    /// The disk, if nothing failed.
    pub(super) fn into_disk(self) -> Option<Box<dyn Disk>> {
        (!self.failed).then_some(self.disk)
    }

    fn attempt<T>(
        &mut self,
        attempt: impl FnOnce(&mut dyn Disk) -> io::Result<T>,
    ) -> io::Result<T> {
        if self.failed {
            return Err(io::Error::other("an earlier write failed"));
        }
        let result = attempt(&mut *self.disk);
        let interrupted = |error: &io::Error| error.kind() == io::ErrorKind::Interrupted;
        self.failed = result.as_ref().is_err_and(|error| !interrupted(error));
        result
    }
}

impl Write for UntilError {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.attempt(|disk| disk.write(bytes))?;
        self.stored.fetch_add(written as u64, Ordering::Relaxed);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.attempt(|disk| disk.flush())
    }
}

/// Finished files that the system still writes to the disk. A thread waits for each: it may take long, and the
/// next file must not wait.
#[derive(Default)]
pub(super) struct Syncing(Vec<JoinHandle<io::Result<()>>>);

impl Syncing {
    /// Adds a file.
    ///
    /// # Errors
    /// The system starts no thread, or a file before could not be written.
    pub(super) fn add(&mut self, mut disk: Box<dyn Disk>) -> io::Result<()> {
        let (done, others) =
            std::mem::take(&mut self.0).into_iter().partition(JoinHandle::is_finished);
        self.0 = others;
        Syncing(done).wait()?;
        let thread = Builder::new().name("record sync".into());
        self.0.push(thread.spawn(move || disk.sync())?);
        Ok(())
    }

    /// Waits until all files are on the disk.
    ///
    /// # Errors
    /// One of them could not be written.
    pub(super) fn wait(self) -> io::Result<()> {
        let panicked = |_| Err(io::Error::other("the thread that waited for the disk panicked"));
        self.0.into_iter().try_for_each(|thread| thread.join().unwrap_or_else(panicked))
    }
}

#[cfg(test)]
mod tests;
