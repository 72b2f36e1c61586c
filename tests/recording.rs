//! A runtime with all its threads records itself, and the recording is verified.
#![cfg(feature = "replay")]

#[path = "recording/script.rs"]
mod script;

use std::fs::OpenOptions;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use robocache::backend::Choice;
use robocache::backend::cpu::CpuBackend;
use robocache::cdr::Writer;
use robocache::config;
use robocache::layout::Layout;
use robocache::pipeline::Pipeline;
use robocache::replay::recording::{Disk, Files, Manifest, McapRecorder, RecordOptions};
use robocache::replay::verify::{Report, verify};
use robocache::runtime::{
    Clock, Publisher, Recorder, Refused, Runtime, RuntimeError, ThreadOptions, Threads, Transit,
};
use robocache::schema::Prefixes;
use robocache::spec::InputId;
use robocache::time::{NANOS_PER_MS, Stamp};

/// A vector of two groups, an image that two streams take, and another vector.
const CONFIG: &str = "
rate_hz: 100
lag_ms: LAG
streams:
  wrench: {type: geometry_msgs/WrenchStamped, topic: /wrench, max_age_ms: 100, history: {steps: 4, step_ms: 7}}
  joints:
    type: sensor_msgs/JointState
    topic: /joints
    max_age_ms: 100
    groups: {arm: [a, b], gripper: [g]}
  camera: {type: sensor_msgs/Image, topic: /camera, max_age_ms: 500, strategy: hold, lag_ms: CAMERA, image: {resize: {width: 64, height: 48}}}
  grey: {type: sensor_msgs/Image, topic: /camera, max_age_ms: 500, strategy: nearest, image: {resize: {width: 32, height: 24}, color: mono}}
";
const WRENCH: InputId = InputId::new(0);
const JOINTS: InputId = InputId::new(1);
const CAMERA: InputId = InputId::new(2);
const GREY: InputId = InputId::new(3);

/// Nobody receives the tensors.
struct Nobody;

impl Publisher for Nobody {
    fn publish(&self, _: &[u8]) -> Result<(), Refused> {
        Ok(())
    }
}

/// A node without ROS.
struct Node {
    runtime: Arc<Runtime>,
    recorder: Arc<McapRecorder>,
    threads: Threads<RuntimeError>,
}

fn config_text(lag_ms: f64, camera_lag_ms: f64) -> String {
    CONFIG.replace("LAG", &lag_ms.to_string()).replace("CAMERA", &camera_lag_ms.to_string())
}

impl Node {
    fn start(
        text: &str,
        folder: &Path,
        change: impl FnOnce(&mut RecordOptions),
        simulated: bool,
    ) -> Node {
        let config = config::parse(text, "robot.yaml").unwrap();
        let backend = Arc::new(CpuBackend::new(&config, &Layout::new(&config)).unwrap());
        let clock =
            if simulated { Clock::simulated(config.grid) } else { Clock::system(config.grid) };
        let manifest = Manifest::of(&config, simulated, true, "cpu");
        let mut runtime = Runtime::new(Pipeline::new(config, backend).unwrap(), clock);
        let mut options = RecordOptions::new(folder, manifest);
        change(&mut options);
        let now = runtime.clock.now().map(|now| now.stamp);
        let definitions = Prefixes::default();
        let config = runtime.pipeline.config();
        let recorder = McapRecorder::start(options, config, &definitions, now).unwrap();
        let recorder = Arc::new(recorder);
        runtime.recorder = Some(Arc::clone(&recorder) as Arc<dyn Recorder>);
        let runtime = Arc::new(runtime);
        let options = ThreadOptions { encode_threads: Some(2), ..ThreadOptions::default() };
        let threads = Threads::start(&runtime, Nobody, options).unwrap();
        Node { runtime, recorder, threads }
    }

    fn receive(&self, input: InputId, bytes: Vec<u8>) {
        let arrival = self.runtime.clock.arrival(Transit::UNKNOWN);
        self.runtime.receive(input, bytes, arrival).unwrap();
    }

    /// Ends the node. Returns the folder of its recording.
    fn stop(self) -> PathBuf {
        self.threads.stop().unwrap();
        self.recorder.finish();
        self.recorder.folder().to_owned()
    }
}

fn wrench(stamp: Stamp, value: f64) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.header(stamp, "tool");
    writer.f64_array(&[value, 2.0 * value, -value, 0.0, 1.0, value * value]);
    writer.finish()
}

fn joints(stamp: Stamp, names: &[&str], value: f64) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.header(stamp, "base");
    writer.u32(names.len() as u32);
    names.iter().for_each(|name| writer.string(name));
    writer.f64_sequence(&vec![value; names.len()]);
    (0..2).for_each(|_| writer.f64_sequence(&[]));
    writer.finish()
}

/// An rgb8 image of this many lines of 640 pixels.
fn image(stamp: Stamp, lines: u32, seed: u64) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.header(stamp, "camera");
    writer.u32(lines);
    writer.u32(640);
    writer.string("rgb8");
    writer.u8(0);
    writer.u32(640 * 3);
    let pixel = |at: u64| ((at.wrapping_mul(seed * 2 + 1)) >> 5) as u8;
    writer.bytes(&(0..u64::from(lines) * 640 * 3).map(pixel).collect::<Vec<u8>>());
    writer.finish()
}

/// Sends as a robot does until the time is over: wrenches at 250 Hz and joints at 125 Hz from this thread, images
/// at 25 Hz from another. Stamps are up to these times before the arrival \[ms\].
fn drive(node: &Node, length: Duration, delay_ms: i64, camera_delay_ms: i64) {
    let stop = AtomicBool::new(false);
    let now = || robocache::runtime::system_now();
    let pseudo = |k: u64, most: i64| {
        (k.wrapping_mul(2_654_435_761) >> 7) as i64 % (most.max(1) * NANOS_PER_MS)
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut k = 0;
            while !stop.load(Ordering::Relaxed) {
                let stamp = now().offset(-camera_delay_ms * NANOS_PER_MS + pseudo(k, 5));
                let bytes = image(stamp, 480, k);
                node.receive(CAMERA, bytes.clone());
                node.receive(GREY, bytes);
                k += 1;
                std::thread::sleep(Duration::from_millis(40));
            }
        });
        let begin = Instant::now();
        let mut k = 0;
        while begin.elapsed() < length {
            let stamp = now().offset(-pseudo(k, delay_ms));
            node.receive(WRENCH, wrench(stamp, k as f64 / 100.0));
            match k % 4 {
                0 => node.receive(JOINTS, joints(stamp, &["a", "b", "g"], k as f64)),
                1 => node.receive(JOINTS, joints(stamp, &["b", "a"], k as f64)),
                2 => node.receive(JOINTS, joints(stamp, &["g"], k as f64)),
                _ => {}
            }
            k += 1;
            std::thread::sleep(Duration::from_millis(4));
        }
        stop.store(true, Ordering::Relaxed);
    });
}

fn verified(folder: &Path) -> Report {
    let report = verify(folder, Choice::Cpu, 0).unwrap();
    println!(
        "{}",
        serde_json::to_string_pretty(&Report { different: vec![], ..report.clone() }).unwrap()
    );
    report
}

const LENGTH: Duration = Duration::from_secs(3);

#[test]
fn with_enough_lag_every_tick_is_equal() {
    let folder = tempfile::tempdir().unwrap();
    let text = config_text(600.0, 600.0);
    // Files of a megabyte: some ten of them.
    let node = Node::start(&text, folder.path(), |options| options.split_bytes = 1 << 20, false);
    drive(&node, LENGTH, 8, 12);
    let published = node.runtime.ticks.published.get();
    let recording = node.stop();
    let report = verified(&recording);
    assert_eq!(report.different, []);
    assert!(report.equal >= published && published > 150, "{published}");
    assert_eq!((report.unverifiable, report.missing, report.complete), (0, 0, true));
    assert_eq!(report.problems, Vec::<String>::new());
    let files = std::fs::read_dir(&recording).unwrap().count();
    assert!(files > 10, "{files} files");
}

#[test]
fn a_lag_that_is_too_short_is_named_with_the_stream_and_the_lag_that_would_do() {
    let folder = tempfile::tempdir().unwrap();
    // The image takes milliseconds to encode and arrives 60 ms after its stamp.
    let node = Node::start(&config_text(600.0, 20.0), folder.path(), |_| {}, false);
    drive(&node, LENGTH, 8, 60);
    let report = verified(&node.stop());
    assert!(!report.different.is_empty());
    assert_eq!(report.unexplained, 0);
    for tick in &report.different {
        assert!(tick.late.iter().chain(&tick.early).all(|row| row.stream == "camera"), "{tick:?}");
    }
    let lag = |name: &str| {
        report.streams.iter().find(|s| s.stream == name).unwrap().lag_that_does_ns.unwrap()
    };
    let does_ns = lag("camera");
    assert!((55..400).contains(&(does_ns / NANOS_PER_MS)), "{does_ns}");
    assert!(lag("wrench") < 200 * NANOS_PER_MS);
    // With that lag, and what one more run may take longer, all are equal.
    let lag_ms = does_ns as f64 / 1e6 + 150.0;
    let node = Node::start(&config_text(600.0, lag_ms), folder.path(), |_| {}, false);
    drive(&node, LENGTH, 8, 60);
    assert_eq!(verified(&node.stop()).different, []);
}

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

#[test]
fn an_end_that_is_cut_off_is_read_up_to_there() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(&config_text(600.0, 600.0), folder.path(), |_| {}, false);
    drive(&node, LENGTH, 8, 12);
    let recording = node.stop();
    let whole = verified(&recording).equal;
    std::fs::remove_file(recording.join("metadata.yaml")).unwrap();
    let name = format!("{}_0.mcap", recording.file_name().unwrap().to_str().unwrap());
    let file = OpenOptions::new().write(true).open(recording.join(name)).unwrap();
    let size = file.metadata().unwrap().len();
    file.set_len(size * 2 / 3 + 1).unwrap();
    let report = verified(&recording);
    assert_eq!(report.different, []);
    assert!(!report.complete && report.equal < whole && report.equal > whole / 3, "{whole}");
}

#[test]
fn a_simulator_that_starts_again_is_verified_in_both_epochs() {
    let folder = tempfile::tempdir().unwrap();
    let text = config_text(600.0, 600.0).replace("streams:", "timeline: receive\nstreams:");
    for text in [config_text(600.0, 600.0), text] {
        let node = Node::start(&text, folder.path(), |_| {}, true);
        for epoch in 0..2 {
            for k in 0..400_u64 {
                let now = Stamp::from_nanos(5_000_000_000 + k as i64 * 5 * NANOS_PER_MS);
                node.runtime.set_clock(now, Transit::UNKNOWN);
                node.receive(WRENCH, wrench(now, (k + 1000 * epoch) as f64 / 100.0));
                node.receive(JOINTS, joints(now, &["a", "b", "g"], k as f64));
                if k % 16 == 0 {
                    node.receive(CAMERA, image(now, 48, k));
                }
                std::thread::sleep(Duration::from_millis(3));
            }
        }
        let published = node.runtime.ticks.published.get();
        let report = verified(&node.stop());
        assert_eq!(report.different, []);
        assert!(report.equal >= published && published > 300, "{published}");
    }
}

#[test]
fn a_damaged_recording_is_read_as_far_as_it_goes() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(&config_text(600.0, 600.0), folder.path(), |_| {}, false);
    drive(&node, Duration::from_millis(700), 8, 12);
    let recording = node.stop();
    let name = format!("{}_0.mcap", recording.file_name().unwrap().to_str().unwrap());
    let whole = std::fs::read(recording.join(&name)).unwrap();
    let mut read = 0;
    for k in 1..16_usize {
        let mut bytes = whole.clone();
        let at = k.wrapping_mul(2_654_435_761) % bytes.len();
        bytes[at..(at + 3).min(whole.len())].fill(0xa5);
        std::fs::write(recording.join(&name), &bytes).unwrap();
        // It ends, and says what is wrong, or that nothing can be compared.
        if let Ok(report) = verify(&recording, Choice::Cpu, 0) {
            read += 1;
            assert!(!report.problems.is_empty() || report.is_equal(), "{report:?}");
            assert_eq!(report.different, [], "byte {at}");
        }
    }
    assert!(read > 5, "{read}");
}

#[test]
fn another_bag_and_one_without_digests_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let error = verify(folder.path(), Choice::Cpu, 0).unwrap_err().to_string();
    assert!(error.ends_with("(its parameter record_to), found no .mcap file"), "{error}");
    let text = config_text(600.0, 600.0);
    let node = Node::start(&text, folder.path(), |options| options.manifest.digest = false, false);
    let error = verify(&node.stop(), Choice::Cpu, 0).unwrap_err().to_string();
    assert!(error.ends_with("the node ran with `digest: false`"), "{error}");
}
