//! Recordings of a node whose clock says what a script wants.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use robocache_core::backend::Choice;
use robocache_core::backend::cpu::CpuBackend;
use robocache_core::cdr::Writer;
use robocache_core::cdr::messages::{CameraInfo, PointCloud2, PointField};
use robocache_core::config;
use robocache_core::layout::Layout;
use robocache_core::pipeline::{Arrival, Pipeline, TickOutcome};
use robocache_core::schema::Prefixes;
use robocache_core::spec::InputId;
use robocache_data::recording::{Manifest, McapRecorder, RecordOptions};
use robocache_ops::time::{Epoch, NANOS_PER_MS, Stamp};
use robocache_runtime::{
    Event, MessageOutcome, ReceivedMessage, Recorder, TickFate, TickRecord, TimeSource,
};
use robocache_testing::until;
use robocache_tools::verify::{VerifyReport, verify};

use super::node::wrench;

const CONFIG: &str = "
rate_hz: 100
streams:
  w: {type: geometry_msgs/WrenchStamped, topic: /w, max_age_ms: 50, strategy: hold}
  v: {type: geometry_msgs/WrenchStamped, topic: /v, max_age_ms: 50, strategy: hold}
";
const W: InputId = InputId::new(0);
const V: InputId = InputId::new(1);

/// A pipeline that is recorded without threads and clocks.
struct Script {
    pipeline: Pipeline,
    recorder: McapRecorder,
    /// The segments whose digests are recorded; `None` for all.
    segments: Option<Vec<bool>>,
    /// Messages for which the recorder had room.
    kept: Cell<u64>,
}

/// A message that was not yet reported to the recorder.
struct Untold {
    message: ReceivedMessage,
    outcome: MessageOutcome,
}

fn ms(ms: i64) -> Stamp {
    Stamp::from_nanos(ms * NANOS_PER_MS)
}

/// Now, as on the grid of the ticks.
fn start_ms() -> i64 {
    TimeSource::real().system().nanos() / NANOS_PER_MS / 10 * 10
}

impl Script {
    fn start(folder: &Path) -> Script {
        Script::of(CONFIG, folder, 1 << 28)
    }

    fn of(config: &str, folder: &Path, queue_bytes: usize) -> Script {
        Script::with_streams(config, folder, queue_bytes, None)
    }

    /// Records these streams alone.
    fn with_streams(
        config: &str,
        folder: &Path,
        queue_bytes: usize,
        streams: Option<Vec<String>>,
    ) -> Script {
        let config = config::parse(config, "robot.yaml").unwrap();
        let backend = Arc::new(CpuBackend::new(&config, &Layout::new(&config)).unwrap());
        let manifest = Manifest { streams, ..Manifest::of(&config, false, true, "cpu") };
        let segments = manifest.recorded_segments(&config, &Layout::new(&config));
        let options = RecordOptions::new(folder, manifest, TimeSource::real());
        let options = RecordOptions { queue_bytes, ..options };
        let recorder =
            McapRecorder::start(options, &config, &Prefixes::default(), Some(ms(start_ms())));
        let pipeline = Pipeline::new(config, backend).unwrap();
        Script { pipeline, recorder: recorder.unwrap(), segments, kept: Cell::default() }
    }

    /// Takes a message, and does not tell the recorder.
    fn take(&self, input: InputId, epoch: u64, at_ms: i64, value: f64) -> Untold {
        self.take_bytes(input, epoch, at_ms, wrench(ms(at_ms), value))
    }

    fn take_bytes(&self, input: InputId, epoch: u64, at_ms: i64, bytes: Vec<u8>) -> Untold {
        let at = ms(at_ms);
        let arrival =
            Arrival { stamp: Some(at), epoch: Epoch::numbered(epoch), ..Arrival::default() };
        let outcome = MessageOutcome::from(&self.pipeline.push(input, &bytes, arrival).unwrap());
        let bytes = Arc::new(bytes);
        let message = ReceivedMessage { input, bytes, arrival, at, published: None };
        Untold { message, outcome }
    }

    fn tell(&self, Untold { message, outcome }: Untold) {
        let input = message.input;
        let at = message.arrival.stamp;
        let number = self.recorder.received(message);
        if number > 0 {
            self.kept.update(|kept| kept + 1);
            self.recorder.note(Event::MessageOutcome { number, input, outcome, at });
        }
    }

    fn receive(&self, epoch: u64, at_ms: i64, value: f64) {
        self.tell(self.take(W, epoch, at_ms, value));
    }

    fn tick(&self, epoch: u64, at_ms: i64) {
        let tick = at_ms / 10;
        let epoch = Epoch::numbered(epoch);
        let mut message = self.pipeline.new_message();
        let fate = match self.pipeline.tick(tick, epoch, &mut message).unwrap() {
            TickOutcome::Ready => {
                message.seal();
                let digest = self.segments.as_ref().map(|of| message.digest_of(of));
                TickFate::Published { digest: digest.unwrap_or(message.digest()) }
            }
            TickOutcome::HeldBack { stream } => TickFate::HeldBack(stream),
            TickOutcome::Past => panic!("an epoch that is over"),
        };
        let changes = message.changes();
        self.recorder.note(Event::Tick(TickRecord { tick, epoch, changes, fate }));
    }

    /// Messages and ticks for 300 ms.
    fn go_on(&self, epoch: u64, from_ms: i64) {
        for at in (from_ms..from_ms + 300).step_by(10) {
            self.receive(epoch, at + 3, at as f64 % 1000.0);
            self.tick(epoch, at + 10);
        }
    }

    fn stop(self) -> PathBuf {
        self.recorder.finish();
        self.recorder.folder()
    }

    /// All ticks of the recording are equal.
    fn verified(self, ticks: u64) {
        let report: VerifyReport = verify(&self.stop(), Choice::Cpu, 0).unwrap();
        assert_eq!(report.different, []);
        assert_eq!((report.equal, report.unverifiable), (ticks, 0), "{report:?}");
        assert_eq!(report.problems, Vec::<String>::new());
    }
}

#[test]
fn ticks_are_equal_after_the_systems_clock_was_set_back() {
    let folder = tempfile::tempdir().unwrap();
    for step in [10, 50, 150, 500, 1500] {
        let script = Script::start(folder.path());
        let start = start_ms();
        script.go_on(0, start);
        script.go_on(1, start + 300 - step);
        // No message shows that the clock was set back twice.
        script.go_on(3, start + 700);
        script.verified(90);
    }
}

#[test]
fn ticks_are_equal_after_a_silence_of_an_hour() {
    let folder = tempfile::tempdir().unwrap();
    let script = Script::start(folder.path());
    let start = start_ms();
    script.go_on(0, start);
    (40..=50).for_each(|k| script.tick(0, start + k * 10));
    script.tick(0, start + 1_800_000);
    script.go_on(0, start + 3_600_000);
    script.verified(72);
}

#[test]
fn a_message_that_the_recorder_is_told_of_late_keeps_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let script = Script::start(folder.path());
    let start = start_ms();
    script.go_on(0, start);
    let late = script.take(V, 0, start + 305, 7.5);
    script.tick(0, start + 310);
    script.receive(0, start + 355, 8.5);
    script.tick(0, start + 360);
    script.tell(late);
    script.go_on(0, start + 360);
    script.verified(62);
}

#[test]
fn ticks_that_a_stream_held_back_which_is_not_recorded_are_unverifiable() {
    let folder = tempfile::tempdir().unwrap();
    let config = CONFIG.replace("topic: /v,", "topic: /v, required: true,");
    let streams = Some(vec!["w".to_owned()]);
    let script = Script::with_streams(&config, folder.path(), 1 << 28, streams);
    let start = start_ms();
    // Nothing of the other stream yet, then a message for 50 ms.
    script.go_on(0, start);
    script.tell(script.take(V, 0, start + 301, 7.5));
    script.go_on(0, start + 300);
    let report = verify(&script.stop(), Choice::Cpu, 0).unwrap();
    assert_eq!((report.different, report.missing_streams), (vec![], vec!["v".to_owned()]));
    assert_eq!((report.equal, report.unverifiable, report.held_back), (5, 55, 0));
}

/// A cloud with this many points in the voxel at `x`.
fn cloud(stamp: Stamp, x: f32, count: usize) -> Vec<u8> {
    let field = |(at, name): (u32, _)| PointField { name, offset: 4 * at, datatype: 7, count: 1 };
    let fields = [(0, "x"), (1, "y"), (2, "z")].map(field);
    let width = count as u32;
    let cloud = PointCloud2 {
        stamp,
        frame_id: "lidar",
        height: 1,
        width,
        fields: &fields,
        is_bigendian: false,
        point_step: 12,
        row_step: 12 * width,
        is_dense: true,
    };
    let bytes: Vec<u8> = [x, 0.5, 0.5].iter().flat_map(|number| number.to_le_bytes()).collect();
    cloud.to_cdr(Vec::new(), |data| data.extend(bytes.repeat(count)))
}

const LIDARS: &str = "
rate_hz: 100
streams:
  cells:
    type: sensor_msgs/PointCloud2
    max_age_ms: 800
    strategy: hold
    ring_rows: 4
    valid_when: any
    inputs: [{topic: /front}, {topic: /rear}]
    cloud: {origin_m: [0, 0, 0], size_m: 1, shape: [4, 4, 1], channels: [{reduce: count}]}
";

#[test]
fn a_lost_cloud_has_an_effect_until_its_lidar_is_heard_again() {
    let folder = tempfile::tempdir().unwrap();
    let queue_bytes = 60_000;
    let script = Script::of(LIDARS, folder.path(), queue_bytes);
    let start = start_ms();
    let front = InputId::new(0);
    let rear = InputId::new(1);
    let receive =
        |input, at, x: f32, count| receive_bytes(&script, input, at, cloud(ms(at), x, count));
    for k in 0..60 {
        let at = start + 20 * k;
        receive(rear, at + 1, 0.5, 3);
        match k {
            // There is no room for it: the rear lidar's rows have it, and the recording has not.
            10 => receive(front, at + 2, 2.5, 9_000),
            11..30 => {}
            _ => receive(front, at + 2, 1.5, 5),
        }
        script.tick(0, at + 10);
        script.tick(0, at + 20);
    }
    let report = verify(&script.stop(), Choice::Cpu, 0).unwrap();
    assert_eq!(report.different, []);
    assert_eq!((report.missing, report.equal + report.unverifiable), (1, 120));
    assert!((38..60).contains(&report.unverifiable), "{report:?}");
}

/// A message of this kind that has no room in a queue of 60,000 bytes: its end is never read.
fn without_room(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.resize(70_000, 0);
    bytes
}

/// Reports a message, and waits until the recorder has written it.
fn receive_bytes(script: &Script, input: InputId, at_ms: i64, bytes: Vec<u8>) {
    script.tell(script.take_bytes(input, 0, at_ms, bytes));
    until("the recorder", || script.recorder.status().messages == script.kept.get());
}

/// The first tick that differs after something was lost is unverifiable, and so are all that differ later.
fn unverifiable_to_the_end(script: Script, differing: std::ops::RangeInclusive<u64>) {
    let report = verify(&script.stop(), Choice::Cpu, 0).unwrap();
    assert_eq!((report.different, report.missing), (vec![], 1));
    assert!(differing.contains(&report.unverifiable), "{}", report.unverifiable);
    assert_eq!(report.equal + report.unverifiable, 120);
}

const FRAMES: &str = "
rate_hz: 100
tf: {}
streams:
  cells:
    type: sensor_msgs/PointCloud2
    topic: /points
    t_base_sensor: tf
    max_age_ms: 800
    strategy: hold
    ring_rows: 4
    cloud: {origin_m: [0, 0, 0], size_m: 1, shape: [8, 4, 1], channels: [{reduce: count}]}
";

/// The lidar's place \[m\].
fn transform(stamp: Stamp, x: f64) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.u32(1);
    writer.header(stamp, "base_link");
    writer.string("lidar");
    writer.f64_array(&[x, 0.0, 0.0]);
    writer.f64_array(&[0.0, 0.0, 0.0, 1.0]);
    writer.finish()
}

#[test]
fn all_that_differs_after_a_lost_transform_is_unverifiable() {
    let folder = tempfile::tempdir().unwrap();
    let script = Script::of(FRAMES, folder.path(), 60_000);
    let config = script.pipeline.config();
    let input =
        |topic: &str| config.input_ids().find(|id| config.input(*id).topic == topic).unwrap();
    let start = start_ms();
    let points = input("/points");
    let tf = input("/tf");
    receive_bytes(&script, tf, start, transform(ms(start - 50), 0.0));
    for k in 0..60 {
        let at = start + 20 * k;
        // The lidar jumps for a moment: the recording lacks that.
        let bytes = transform(ms(at), if k == 20 { 4.0 } else { 0.0 });
        receive_bytes(&script, tf, at + 1, if k == 20 { without_room(bytes) } else { bytes });
        receive_bytes(&script, points, at + 2, cloud(ms(at - 3), 1.5, 5));
        script.tick(0, at + 10);
        script.tick(0, at + 20);
    }
    // The clouds between the transforms before and after it.
    unverifiable_to_the_end(script, 1..=4);
}

const CAMERAS: &str = "
rate_hz: 100
streams:
  camera:
    type: sensor_msgs/Image
    topic: /image
    max_age_ms: 800
    strategy: hold
    image: {resize: {width: 32, height: 24}, undistort: {camera_info: /info}}
";

/// A camera of 64 by 48 pixels with this focal length \[px\].
fn camera_info(stamp: Stamp, focal: f64) -> Vec<u8> {
    let info = CameraInfo {
        stamp,
        frame_id: "camera",
        height: 48,
        width: 64,
        distortion_model: "plumb_bob",
        d: &[-0.2, 0.05, 0.0, 0.0, 0.0],
        k: [focal, 0.0, 31.5, 0.0, focal, 23.5, 0.0, 0.0, 1.0],
        r: [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0],
        p: [50.0, 0.0, 31.5, 0.0, 0.0, 50.0, 23.5, 0.0, 0.0, 0.0, 1.0, 0.0],
        binning: [0; 2],
        roi: [0; 4],
    };
    info.to_cdr(Vec::new())
}

fn small_image(stamp: Stamp) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.header(stamp, "camera");
    writer.u32(48);
    writer.u32(64);
    writer.string("mono8");
    writer.u8(0);
    writer.u32(64);
    writer.bytes(&(0..48 * 64_u32).map(|at| (at * at / 7) as u8).collect::<Vec<u8>>());
    writer.finish()
}

#[test]
fn all_that_differs_after_a_lost_camera_info_is_unverifiable() {
    let folder = tempfile::tempdir().unwrap();
    let script = Script::of(CAMERAS, folder.path(), 60_000);
    let config = script.pipeline.config();
    let input =
        |topic: &str| config.input_ids().find(|id| config.input(*id).topic == topic).unwrap();
    let start = start_ms();
    let image = input("/image");
    let info = input("/info");
    receive_bytes(&script, info, start, camera_info(ms(start), 50.0));
    for k in 0..60 {
        let at = start + 20 * k;
        if k == 20 {
            // Another lens, and the recording does not know it.
            receive_bytes(&script, info, at + 1, without_room(camera_info(ms(at), 40.0)));
        }
        receive_bytes(&script, image, at + 2, small_image(ms(at)));
        script.tick(0, at + 10);
        script.tick(0, at + 20);
    }
    unverifiable_to_the_end(script, 80..=80);
}
