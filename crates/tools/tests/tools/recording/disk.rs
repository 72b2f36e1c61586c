//! Disks that are slow, full or gone, and a writer that panics.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use robocache_data::recording::{Disk, Files, RecordOptions, Room};
use robocache_runtime::Recorder;

use super::LENGTH;
use super::node::{Node, config_text, drive, page, verified};

/// What a disk does before it writes.
type Fault = Box<dyn FnMut(&[u8]) -> io::Result<()> + Send>;

/// A file on a bad disk.
struct BadFile {
    file: File,
    fault: Fault,
}

impl Write for BadFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (self.fault)(bytes)?;
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Disk for BadFile {
    fn sync(&mut self) -> io::Result<()> {
        (self.fault)(&[])
    }
}

/// A disk whose first file has a fault.
struct BadDisk(Option<Fault>);

impl Files for BadDisk {
    fn create(&mut self, path: &Path) -> io::Result<Box<dyn Disk>> {
        let file = OpenOptions::new().write(true).create_new(true).open(path)?;
        Ok(match self.0.take() {
            Some(fault) => Box::new(BadFile { file, fault }),
            None => Box::new(file),
        })
    }
}

fn on_bad_disk(
    options: &mut RecordOptions,
    fault: impl FnMut(&[u8]) -> io::Result<()> + Send + 'static,
) {
    options.files = Some(Box::new(BadDisk(Some(Box::new(fault)))));
}

fn is_large(bytes: &[u8]) -> bool {
    bytes.len() > 10_000
}

#[test]
fn a_disk_that_is_too_slow_for_a_while_makes_gaps_and_unverifiable_ticks() {
    let folder = tempfile::tempdir().unwrap();
    let slow = |options: &mut RecordOptions| {
        options.queue_bytes = 6 << 20;
        let begin = Instant::now();
        on_bad_disk(options, move |bytes| {
            if is_large(bytes) && begin.elapsed() < LENGTH / 2 {
                std::thread::sleep(Duration::from_millis(600));
            }
            Ok(())
        });
    };
    let node = Node::start(&config_text(600.0, 600.0), folder.path(), slow, false);
    drive(&node, LENGTH / 2, 8, 12);
    let lost = node.recorder.status().lost;
    assert!(lost > 0);
    drive(&node, Duration::from_millis(700), 8, 12);
    let before = node.recorder.status().lost;
    drive(&node, LENGTH, 8, 12);
    let status = node.recorder.status();
    assert_eq!((status.lost, status.lost_events), (before, 0));
    let recording = node.stop();
    let missing = format!("{} messages are missing, because the disk was too slow", status.lost);
    assert!(page(&recording, "gaps").contains(&missing));
    let report = verified(&recording);
    // After the disk has recovered, a gap that ended too early would make ticks differ.
    assert_eq!(report.different, []);
    assert_eq!(report.missing, status.lost);
    assert!(report.unverifiable > 0 && report.equal > 100 && report.complete);
}

#[test]
fn a_slow_disk_does_not_keep_the_node_and_the_end_says_what_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    // About 10 MB/s for the 25 MB/s of the camera's two inputs.
    let slow = |options: &mut RecordOptions| {
        on_bad_disk(options, |bytes| {
            std::thread::sleep(Duration::from_nanos(100 * bytes.len() as u64));
            Ok(())
        });
    };
    let node = Node::start(&config_text(600.0, 600.0), folder.path(), slow, false);
    drive(&node, 2 * LENGTH, 8, 12);
    assert_eq!(node.recorder.status().lost, 0);
    let recorder = node.recorder.clone();
    let begin = Instant::now();
    let recording = node.stop();
    // It writes for 2.5 s of what waits. The rest is missing.
    assert!(begin.elapsed() > Duration::from_secs(2));
    let report = verified(&recording);
    assert!(report.complete && report.missing > 20, "{report:?}");
    assert_eq!(report.missing, recorder.status().lost);
    assert_eq!(recorder.status().failed, None);
    assert_eq!(report.different, []);
    assert!(report.equal > 100 && report.unverifiable > 0);
}

#[test]
fn a_disk_that_never_returns_does_not_keep_the_node() {
    let folder = tempfile::tempdir().unwrap();
    let (gone, until_the_end): (_, Receiver<()>) = channel();
    let mut written = 0;
    let stuck = |options: &mut RecordOptions| {
        on_bad_disk(options, move |bytes| {
            written += bytes.len();
            if written > 8 << 20 {
                // The sender is dropped at the end of the test.
                let _ = until_the_end.recv();
            }
            Ok(())
        });
    };
    let node = Node::start(&config_text(600.0, 600.0), folder.path(), stuck, false);
    drive(&node, LENGTH / 2, 8, 12);
    let recorder = node.recorder.clone();
    let recording = node.stop();
    let failed = recorder.status().failed.unwrap();
    assert_eq!(failed, "the disk did not answer for 4 s, so it has no end");
    let report = verified(&recording);
    assert_eq!(report.different, []);
    assert!(!report.complete && report.equal > 10);
    drop(gone);
}

#[test]
fn each_caller_that_ends_a_recording_waits_for_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let (answers, until_it_answers): (_, Receiver<()>) = channel();
    let silent = Arc::new(AtomicBool::new(false));
    let is_silent = Arc::clone(&silent);
    let stuck = |options: &mut RecordOptions| {
        on_bad_disk(options, move |_| {
            if is_silent.load(Ordering::Relaxed) {
                // The sender is dropped below.
                let _ = until_it_answers.recv();
            }
            Ok(())
        });
    };
    let node = Node::start(&config_text(600.0, 600.0), folder.path(), stuck, false);
    drive(&node, LENGTH / 2, 8, 12);
    silent.store(true, Ordering::Relaxed);
    std::thread::scope(|scope| {
        let callers = [(); 2].map(|()| scope.spawn(|| node.recorder.finish()));
        std::thread::sleep(Duration::from_millis(300));
        let early = callers.iter().filter(|caller| caller.is_finished()).count();
        drop(answers);
        assert_eq!(early, 0);
    });
    assert!(verified(&node.stop()).complete);
}

#[test]
fn a_full_disk_ends_the_recording_and_not_the_node() {
    let folder = tempfile::tempdir().unwrap();
    let mut room: usize = 40 << 20;
    let full = |options: &mut RecordOptions| {
        on_bad_disk(options, move |bytes| {
            // ENOSPC
            let left = room.checked_sub(bytes.len());
            room = left.ok_or_else(|| io::Error::from_raw_os_error(28))?;
            Ok(())
        });
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

/// A disk of a gigabyte. After a while 10 MB of it are free.
struct AlmostFull(Instant);

impl Files for AlmostFull {
    fn create(&mut self, path: &Path) -> io::Result<Box<dyn Disk>> {
        Ok(Box::new(OpenOptions::new().write(true).create_new(true).open(path)?))
    }

    fn room(&self, _: &Path) -> Option<Room> {
        let is_full = self.0.elapsed() > LENGTH / 2;
        Some(Room { free: if is_full { 10_000_000 } else { 900_000_000 }, total: 1_000_000_000 })
    }
}

#[test]
fn the_recording_ends_before_the_disk_is_full() {
    let folder = tempfile::tempdir().unwrap();
    let almost = |options: &mut RecordOptions| {
        options.files = Some(Box::new(AlmostFull(Instant::now())));
    };
    let node = Node::start(&config_text(600.0, 600.0), folder.path(), almost, false);
    drive(&node, LENGTH, 8, 12);
    let failed = node.recorder.status().failed.unwrap();
    let expected = "No space left on device: 10 MB are free, and the recording leaves 20 MB free";
    assert_eq!(failed, expected);
    let recording = node.stop();
    assert!(page(&recording, "full").contains("it has no end: the node was killed"));
    let report = verified(&recording);
    assert_eq!((report.different, report.problems), (vec![], vec![]));
    assert!(report.equal > 50 && !report.complete);
    // The file has its end, and the folder is a bag for every tool.
    assert!(recording.join("metadata.yaml").exists());
}

#[test]
fn a_writer_that_panics_ends_the_recording_and_is_no_slow_disk() {
    let folder = tempfile::tempdir().unwrap();
    let panics = |options: &mut RecordOptions| {
        on_bad_disk(options, |bytes| {
            assert!(!is_large(bytes), "a bug, as it must be in this test");
            Ok(())
        });
    };
    let node = Node::start(&config_text(600.0, 600.0), folder.path(), panics, false);
    drive(&node, Duration::from_secs(1), 8, 12);
    let status = node.recorder.status();
    assert_eq!(status.failed.as_deref(), Some("the thread that writes it panicked"));
    assert_eq!(status.lost, 0);
    node.stop();
}
