//! The disk of the recording: real files, and faults.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use robocache_data::recording::{Disk, Files};

/// Files that are full when the simulation says so.
pub(crate) struct SimFiles(pub Arc<AtomicBool>);

struct SimFile {
    file: File,
    is_full: Arc<AtomicBool>,
}

impl SimFile {
    fn check(&self) -> io::Result<()> {
        match self.is_full.load(Ordering::Relaxed) {
            true => Err(io::Error::new(io::ErrorKind::StorageFull, "a fault of the simulation")),
            false => Ok(()),
        }
    }
}

impl Files for SimFiles {
    fn create(&mut self, path: &Path) -> io::Result<Box<dyn Disk>> {
        let file = OpenOptions::new().write(true).create_new(true).open(path)?;
        Ok(Box::new(SimFile { file, is_full: Arc::clone(&self.0) }))
    }
}

impl Write for SimFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.check()?;
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.check()
    }
}

impl Disk for SimFile {
    fn sync(&mut self) -> io::Result<()> {
        // Nobody looks at a recording of a run after a loss of power.
        self.check()
    }
}
