//! The memory that a service takes, and whether there is room for it.
//!
//! The memory is files of a file system in memory. If that is full, a later write ends the process by SIGBUS. So all of
//! the memory is taken at the start, or the service is refused.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, fallocate, statvfs};
use rustix::io::Errno;

use super::SharedError;

/// Folder in which the system keeps shared memory.
pub(crate) const FOLDER: &str = "/dev/shm";

/// Memory for readers, their connections and the info, beside the tensors \[bytes\].
const BESIDE: u64 = 2 << 20;

/// Checks that the folder of shared memory has room for `needed` bytes, and for what comes beside them.
pub(crate) fn check(service: &str, needed: u64) -> Result<(), SharedError> {
    check_in(Path::new(FOLDER), service, needed.saturating_add(BESIDE))
}

pub(crate) fn check_in(folder: &Path, service: &str, needed: u64) -> Result<(), SharedError> {
    let failed = |why| SharedError::failed(service, "ask for free shared memory")(&why);
    match free_in(folder).map_err(failed)? {
        free if free >= needed => Ok(()),
        free => Err(no_room(folder, service, needed, free)),
    }
}

/// The free bytes of a file system.
fn free_in(folder: &Path) -> io::Result<u64> {
    let room = statvfs(folder)?;
    Ok(room.f_bavail.saturating_mul(room.f_frsize))
}

fn no_room(folder: &Path, service: &str, needed: u64, free: u64) -> SharedError {
    let service = service.to_owned();
    let folder = folder.display().to_string();
    SharedError::NoRoom { service, folder, free, needed }
}

/// Takes all of the memory that `address` is in: the file of this mapping gets its pages now. Returns its bytes.
pub(crate) fn take(service: &str, address: usize) -> Result<u64, SharedError> {
    let failed = |why: io::Error| SharedError::failed(service, "take its memory")(&why);
    let path = mapped_at(address).map_err(failed)?;
    let file = OpenOptions::new().write(true).open(&path).map_err(failed)?;
    let len = file.metadata().map_err(failed)?.len();
    match allocate(&file, len) {
        Ok(()) => Ok(len),
        Err(error) if error.kind() == io::ErrorKind::StorageFull => {
            let folder = path.parent().unwrap_or(&path);
            Err(no_room(folder, service, len, free_in(folder).unwrap_or(0)))
        }
        Err(error) => Err(failed(error)),
    }
}

fn allocate(file: &File, len: u64) -> io::Result<()> {
    loop {
        match fallocate(file, FallocateFlags::empty(), 0, len) {
            // A signal came.
            Err(Errno::INTR) => {}
            done => return Ok(done?),
        }
    }
}

/// The file that is mapped at an address.
fn mapped_at(address: usize) -> io::Result<PathBuf> {
    let maps = fs::read_to_string("/proc/self/maps")?;
    let found = maps.lines().find_map(|line| file_at(line, address));
    found.ok_or_else(|| io::Error::other("its memory is no file"))
}

/// The file of a line of `/proc/self/maps`, if its range has the address. A line is
/// `BEGIN-END FLAGS OFFSET DEVICE INODE PATH`.
fn file_at(line: &str, address: usize) -> Option<PathBuf> {
    let (range, _) = line.split_once(' ')?;
    let (begin, end) = range.split_once('-')?;
    let hex = |text| usize::from_str_radix(text, 16).ok();
    let is_in = (hex(begin)?..hex(end)?).contains(&address);
    let path = line.find('/').map(|at| PathBuf::from(&line[at..]))?;
    is_in.then_some(path)
}
