//! Disks that are slow, full or gone, and a writer that panics.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use robocache_data::bag::Bag;
use robocache_data::recording::{Disk, Ending, Files, RecordLimits, RecordOptions, Room, has_end};
use robocache_runtime::Recorder;
use robocache_testing::threads::ThreadNumber;
use robocache_testing::{Finally, ended, until};

use super::node::{By, Node, config_text, drive, page, verified};

/// Act of a disk before it writes.
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

/// A disk that answers as often as a test says, if it gets much at once: each time, that is 4 MB of messages.
#[derive(Default)]
struct Answers {
    asked: AtomicU64,
    allowed: AtomicU64,
}

impl Answers {
    fn of(count: u64) -> Arc<Self> {
        let answers = Answers::default();
        answers.allow(count);
        Arc::new(answers)
    }

    /// The fault of a disk.
    fn fault(self: &Arc<Self>) -> impl FnMut(&[u8]) -> io::Result<()> + Send + 'static {
        let answers = Arc::clone(self);
        move |bytes| {
            if is_large(bytes) {
                let asked = answers.asked.fetch_add(1, Ordering::AcqRel);
                until("the disk may answer", || asked < answers.allowed.load(Ordering::Acquire));
            }
            Ok(())
        }
    }

    fn allow(&self, more: u64) {
        self.allowed.fetch_add(more, Ordering::AcqRel);
    }

    fn allow_all(&self) {
        self.allowed.store(u64::MAX, Ordering::Release);
    }

    /// Waits until the disk has answered as often as it may, and is asked again.
    fn await_silence(&self) {
        let is_silent =
            || self.asked.load(Ordering::Acquire) > self.allowed.load(Ordering::Acquire);
        until("the disk is silent", is_silent);
    }
}

fn start(folder: &Path, change: impl FnOnce(&mut RecordOptions)) -> Node {
    Node::start(&config_text(600.0, 600.0), folder, change, By::Test)
}

#[test]
fn a_disk_that_is_too_slow_for_a_while_makes_gaps_and_unverifiable_ticks() {
    let folder = tempfile::tempdir().unwrap();
    let answers = Answers::of(0);
    let node = start(folder.path(), |options| {
        options.queue_bytes = 6 << 20;
        on_bad_disk(options, answers.fault());
    });
    drive(&node, 150, 8, 12);
    let lost = node.recorder.status().lost;
    assert!(lost > 20, "{lost}");
    answers.allow_all();
    node.await_disk();
    for _ in 0..90 {
        drive(&node, 4, 8, 12);
        node.await_disk();
    }
    let published = node.published();
    let status = node.recorder.status();
    assert_eq!((published, status.lost, status.lost_events), (510, lost, 0));
    let recording = node.stop();
    let missing = format!("{lost} messages are missing, because the disk was too slow");
    assert!(page(&recording, "gaps").contains(&missing));
    let report = verified(&recording);
    // After the disk has recovered, a gap that ended too early would make ticks differ.
    assert_eq!(report.different, []);
    assert_eq!((report.missing, report.equal + report.unverifiable), (lost, published));
    assert!(report.unverifiable > 0 && report.equal > 100 && report.complete);
}

#[test]
fn a_slow_disk_does_not_keep_the_node_and_the_end_says_what_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let answers = Answers::of(8);
    let node = start(folder.path(), |options| on_bad_disk(options, answers.fault()));
    drive(&node, 300, 8, 12);
    answers.await_silence();
    assert_eq!(node.recorder.status().lost, 0);
    let ender = ThreadNumber::default();
    std::thread::scope(|scope| {
        let _answers = Finally(|| answers.allow_all());
        let ends = scope.spawn(|| {
            ender.is_this();
            node.recorder.finish();
        });
        // It has told the thread that writes, which sees that after its next message.
        ender.until_asleep();
        answers.allow(3);
        answers.await_silence();
        assert!(!ends.is_finished());
        // It writes for 2.5 s of what waits. The rest is missing.
        node.time.advance(Duration::from_millis(2_600));
        answers.allow_all();
        ended("the end of the recording", ends);
    });
    let status = node.recorder.status();
    let published = node.published();
    let report = verified(&node.stop());
    assert!(report.complete && report.missing > 20, "{report:?}");
    assert_eq!((report.missing, status.failed), (status.lost, None));
    assert_eq!(report.different, []);
    assert_eq!(report.equal + report.unverifiable, published);
    assert!(report.equal > 100 && report.unverifiable > 0, "{report:?}");
}

#[test]
fn a_disk_that_never_returns_does_not_keep_the_node() {
    let folder = tempfile::tempdir().unwrap();
    let answers = Answers::of(2);
    let node = start(folder.path(), |options| on_bad_disk(options, answers.fault()));
    drive(&node, 150, 8, 12);
    answers.await_silence();
    let _answers_at_the_end = Finally(|| answers.allow_all());
    let recorder = node.recorder.clone();
    let time = node.time.clone();
    let ender = ThreadNumber::default();
    std::thread::scope(|scope| {
        let ends = scope.spawn(|| {
            ender.is_this();
            recorder.finish();
        });
        ender.until_asleep();
        assert!(!ends.is_finished());
        time.advance(Duration::from_millis(4_001));
        ended("the end of the recording", ends);
    });
    let recording = node.stop();
    let failed = recorder.status().failed.unwrap();
    assert_eq!(failed, "the disk did not answer for 4 s, so it has no end");
    let report = verified(&recording);
    assert_eq!(report.different, []);
    assert!(!report.complete && report.equal > 10);
}

#[test]
fn each_caller_that_ends_a_recording_waits_for_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let answers = Answers::of(0);
    let node = start(folder.path(), |options| on_bad_disk(options, answers.fault()));
    drive(&node, 50, 8, 12);
    answers.await_silence();
    let numbers = [(); 2].map(|()| ThreadNumber::default());
    std::thread::scope(|scope| {
        let _answers = Finally(|| answers.allow_all());
        let callers = numbers.each_ref().map(|number| {
            scope.spawn(|| {
                number.is_this();
                node.recorder.finish();
            })
        });
        numbers.iter().for_each(ThreadNumber::until_asleep);
        assert_eq!(callers.iter().filter(|caller| caller.is_finished()).count(), 0);
        answers.allow_all();
        callers.into_iter().for_each(|caller| ended("the end", caller));
    });
    assert!(verified(&node.stop()).complete);
}

#[test]
fn a_full_disk_ends_the_recording_and_not_the_node() {
    let folder = tempfile::tempdir().unwrap();
    let mut room: usize = 20 << 20;
    let node = start(folder.path(), |options| {
        on_bad_disk(options, move |bytes| {
            // ENOSPC
            let left = room.checked_sub(bytes.len());
            room = left.ok_or_else(|| io::Error::from_raw_os_error(28))?;
            Ok(())
        });
    });
    drive(&node, 200, 8, 12);
    let failed = node.await_failure();
    assert!(failed.contains("No space left"), "{failed}");
    drive(&node, 50, 8, 12);
    assert_eq!(node.published(), 250);
    let report = verified(&node.stop());
    assert_eq!(report.different, []);
    assert!((50..200).contains(&report.equal) && !report.complete, "{}", report.equal);
}

/// A disk of a gigabyte. After a while 10 MB of it are free.
struct AlmostFull(Arc<AtomicBool>);

impl Files for AlmostFull {
    fn create(&mut self, path: &Path) -> io::Result<Box<dyn Disk>> {
        Ok(Box::new(OpenOptions::new().write(true).create_new(true).open(path)?))
    }

    fn room(&self, _: &Path) -> Option<Room> {
        let is_full = self.0.load(Ordering::Relaxed);
        Some(Room { free: if is_full { 10_000_000 } else { 900_000_000 }, total: 1_000_000_000 })
    }
}

#[test]
fn the_recording_ends_before_the_disk_is_full() {
    let folder = tempfile::tempdir().unwrap();
    let is_full = Arc::new(AtomicBool::new(false));
    let files = AlmostFull(Arc::clone(&is_full));
    let node = start(folder.path(), |options| options.files = Some(Box::new(files)));
    drive(&node, 150, 8, 12);
    // It looks every quarter of a second.
    node.time.advance(Duration::from_millis(300));
    drive(&node, 50, 8, 12);
    node.await_disk();
    assert_eq!(node.recorder.status().failed, None);
    is_full.store(true, Ordering::Relaxed);
    node.time.advance(Duration::from_millis(300));
    let expected = "No space left on device: 10 MB are free, and the recording leaves 20 MB free";
    assert_eq!(node.await_failure(), expected);
    drive(&node, 50, 8, 12);
    assert_eq!(node.published(), 250);
    let recording = node.stop();
    assert!(page(&recording, "full").contains("it has no end: the node was killed"));
    let report = verified(&recording);
    assert_eq!((report.different, report.problems), (vec![], vec![]));
    assert!((150..=200).contains(&report.equal) && !report.complete, "{}", report.equal);
    // The file has its end, and the folder is a bag for every tool.
    assert_eq!(Ending::of(&recording), Ending::Complete);
    // But it was cut off, and says so.
    assert_eq!(has_end(&recording).unwrap(), Some(false));
}

#[test]
fn a_recording_with_a_file_that_has_no_end_names_none_so_that_readers_find_all() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path(), |options| {
        options.split_bytes = 4 << 20;
        // The first file never is safe on the disk. The next one that ends learns that.
        on_bad_disk(options, |bytes| match bytes {
            [] => Err(io::Error::other("the disk is bad")),
            _ => Ok(()),
        });
    });
    drive(&node, 200, 8, 12);
    assert_eq!(node.await_failure(), "the disk is bad");
    let recording = node.stop();
    assert_eq!(Ending::of(&recording), Ending::Killed);
    let files = std::fs::read_dir(&recording).unwrap().count();
    assert!(files > 2, "{files}");
    assert_eq!(Bag::open(&recording).unwrap().files(), files);
}

#[test]
fn a_writer_that_panics_ends_the_recording_and_is_no_slow_disk() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path(), |options| {
        on_bad_disk(options, |bytes| {
            assert!(!is_large(bytes), "a bug, as it must be in this test");
            Ok(())
        });
    });
    drive(&node, 50, 8, 12);
    assert_eq!(node.await_failure(), "the thread that writes it panicked");
    drive(&node, 50, 8, 12);
    assert_eq!((node.published(), node.recorder.status().lost), (100, 0));
    node.stop();
}

/// A disk of 100 GB with this room, in which time fills the disk.
struct Filling(Arc<AtomicU64>);

impl Files for Filling {
    fn create(&mut self, path: &Path) -> io::Result<Box<dyn Disk>> {
        Ok(Box::new(OpenOptions::new().write(true).create_new(true).open(path)?))
    }

    fn room(&self, _: &Path) -> Option<Room> {
        Some(Room { free: self.0.load(Ordering::Relaxed), total: 100_000_000_000 })
    }
}

#[test]
fn the_node_tells_ten_minutes_before_the_disk_is_full() {
    let folder = tempfile::tempdir().unwrap();
    let free = Arc::new(AtomicU64::new(20_000_000_000));
    let files = Filling(Arc::clone(&free));
    let node = start(folder.path(), |options| options.files = Some(Box::new(files)));
    let pass = |seconds: u64, bytes: u64| {
        for _ in 0..seconds {
            free.fetch_sub(bytes, Ordering::Relaxed);
            let readings = node.time.readings();
            node.time.advance(Duration::from_secs(1));
            until("the recorder looks", || node.time.readings() > readings + 20);
        }
    };
    pass(20, 1_000_000);
    assert_eq!(node.recorder.status().full_in_s, None);
    pass(90, 50_000_000);
    let left = (free.load(Ordering::Relaxed) - (1 << 30)) / 50_000_000;
    let full = node.recorder.status().full_in_s.unwrap();
    assert!(full.abs_diff(left) <= 2, "{full} of {left}");
    drive(&node, 20, 8, 12);
    assert_eq!((node.recorder.status().failed, node.published()), (None, 20));
    // Another one has deleted something.
    free.store(90_000_000_000, Ordering::Relaxed);
    pass(2, 0);
    assert_eq!(node.recorder.status().full_in_s, None);
}

#[test]
fn a_ring_makes_room_on_a_disk_that_others_fill_and_forecasts_no_end() {
    let folder = tempfile::tempdir().unwrap();
    let free = Arc::new(AtomicU64::new(20_000_000_000));
    let files = Filling(Arc::clone(&free));
    let node = start(folder.path(), |options| {
        options.limits = RecordLimits { bytes: Some(160 << 20), age: None };
        options.files = Some(Box::new(files));
    });
    drive(&node, 150, 8, 12);
    node.await_disk();
    let status = node.recorder.status();
    assert_eq!((status.deleted, status.failed), (0, None));
    // A megabyte is left beside the reserve. The recorder looks every quarter of a second.
    free.store((1 << 30) + 1_000_000, Ordering::Relaxed);
    for _ in 0..2 {
        node.time.advance(Duration::from_secs(6));
        drive(&node, 10, 8, 12);
        node.await_disk();
    }
    let status = node.recorder.status();
    assert!(status.deleted > 0, "{status:?}");
    assert_eq!((status.failed, status.full_in_s), (None, None));
    let report = verified(&node.stop());
    assert!(report.is_cut && report.complete, "{report:?}");
}
