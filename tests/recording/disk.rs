//! Disks that are slow or full, and a writer that panics.

use std::fs::OpenOptions;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::Duration;

use robocache::replay::recording::{Disk, Files, RecordOptions};
use robocache::runtime::Recorder;

use super::LENGTH;
use super::node::{Node, config_text, drive, verified};

/// A file that takes a while to write, or has no more room.
struct Bad {
    file: std::fs::File,
    pause: Duration,
    room: usize,
}

impl Write for Bad {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() > 10_000 {
            std::thread::sleep(self.pause);
        }
        if bytes.len() > self.room {
            // ENOSPC
            return Err(io::Error::from_raw_os_error(28));
        }
        self.room -= bytes.len();
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Seek for Bad {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

struct BadDisk(Duration, usize);

impl Files for BadDisk {
    fn create(&mut self, path: &Path) -> io::Result<Box<dyn Disk>> {
        let file = OpenOptions::new().write(true).create_new(true).open(path)?;
        Ok(Box::new(Bad { file, pause: self.0, room: self.1 }))
    }
}

#[test]
fn a_disk_that_is_too_slow_makes_gaps_and_unverifiable_ticks() {
    let folder = tempfile::tempdir().unwrap();
    let slow = |options: &mut RecordOptions| {
        options.queue_bytes = 6 << 20;
        options.files = Some(Box::new(BadDisk(Duration::from_millis(600), usize::MAX)));
    };
    let node = Node::start(&config_text(600.0, 600.0), folder.path(), slow, false);
    drive(&node, LENGTH, 8, 12);
    let status = node.recorder.status();
    assert!(status.lost > 0, "{status:?}");
    let report = verified(&node.stop());
    assert_eq!(report.missing, status.lost);
    assert_eq!(report.different, []);
    assert!(report.unverifiable > 0 && report.equal > 0 && report.complete);
}

#[test]
fn a_full_disk_ends_the_recording_and_not_the_node() {
    let folder = tempfile::tempdir().unwrap();
    let full = |options: &mut RecordOptions| {
        options.files = Some(Box::new(BadDisk(Duration::ZERO, 40 << 20)));
    };
    let node = Node::start(&config_text(600.0, 600.0), folder.path(), full, false);
    drive(&node, LENGTH, 8, 12);
    let failed = node.recorder.status().failed.unwrap();
    assert!(failed.contains("No space left"), "{failed}");
    let published = node.runtime.ticks.published.get();
    assert!(published > 150);
    let report = verified(&node.stop());
    assert_eq!(report.different, []);
    assert!(report.equal > 50 && report.equal < published && !report.complete);
}

/// A file whose first large write panics.
struct Panics(std::fs::File);

impl Write for Panics {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        assert!(bytes.len() < 10_000, "a bug");
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl Seek for Panics {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.0.seek(to)
    }
}

struct PanickingDisk;

impl Files for PanickingDisk {
    fn create(&mut self, path: &Path) -> io::Result<Box<dyn Disk>> {
        Ok(Box::new(Panics(OpenOptions::new().write(true).create_new(true).open(path)?)))
    }
}

#[test]
fn a_writer_that_panics_ends_the_recording_and_is_no_slow_disk() {
    let folder = tempfile::tempdir().unwrap();
    let panics = |options: &mut RecordOptions| options.files = Some(Box::new(PanickingDisk));
    let node = Node::start(&config_text(600.0, 600.0), folder.path(), panics, false);
    drive(&node, Duration::from_secs(1), 8, 12);
    let status = node.recorder.status();
    assert_eq!(status.failed.as_deref(), Some("the thread that writes it panicked"));
    assert_eq!(status.lost, 0);
    node.stop();
}
