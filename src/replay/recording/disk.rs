//! What the files of a recording are written to.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;

/// What a file is written to.
pub trait Disk: Write + Seek + Send {}

impl<T: Write + Seek + Send> Disk for T {}

/// Opens the files of a recording.
pub trait Files: Send {
    /// Creates a file that does not exist yet.
    ///
    /// # Errors
    /// That of the operating system.
    fn create(&mut self, path: &Path) -> io::Result<Box<dyn Disk>>;
}

/// Files of the file system.
pub(super) struct OnDisk;

impl Files for OnDisk {
    fn create(&mut self, path: &Path) -> io::Result<Box<dyn Disk>> {
        let file: File = OpenOptions::new().write(true).create_new(true).open(path)?;
        Ok(Box::new(file))
    }
}

/// A disk that writes nothing more after its first error: the end of a file must not follow a hole.
pub(super) struct UntilError {
    disk: Box<dyn Disk>,
    failed: bool,
}

impl UntilError {
    pub fn new(disk: Box<dyn Disk>) -> Self {
        UntilError { disk, failed: false }
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
        self.attempt(|disk| disk.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.attempt(|disk| disk.flush())
    }
}

impl Seek for UntilError {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.attempt(|disk| disk.seek(to))
    }
}
