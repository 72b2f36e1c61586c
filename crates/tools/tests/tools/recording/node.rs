//! A node without ROS that records itself, and messages for it.
//!
//! Its threads are those of a real node, but its clock and that of its recorder move only when a test says so. The test
//! waits for each tick. So what a tick sees depends on no other time.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use robocache_core::backend::cpu::CpuBackend;
use robocache_core::backend::{Backend, BackendError, Choice, StepJob};
use robocache_core::cdr::Writer;
use robocache_core::config;
use robocache_core::layout::Layout;
use robocache_core::message::TensorMessage;
use robocache_core::pipeline::{Counter, Pipeline};
use robocache_core::sample::PlacedSample;
use robocache_core::schema::Prefixes;
use robocache_core::spec::{InputId, RingId};
use robocache_data::recording::{Manifest, McapRecorder, RecordOptions};
use robocache_ops::align::Slot;
use robocache_ops::device::OutputMut;
use robocache_ops::sync::lock;
use robocache_ops::time::{NANOS_PER_MS, NANOS_PER_S, Stamp};
use robocache_ops::voxelize::PointDrops;
use robocache_runtime::{
    Clock, CommandEnds, CommandPublisher, Publisher, Recorder, Refused, Runtime, RuntimeError,
    ThreadOptions, Threads, TimeSource, Transit, VirtualTime,
};
use robocache_testing::{Finally, patience, until};
use robocache_tools::verify::{VerifyReport, verify};
use robocache_tools::view;

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
pub(super) const WRENCH: InputId = InputId::new(0);
pub(super) const JOINTS: InputId = InputId::new(1);
pub(super) const CAMERA: InputId = InputId::new(2);
pub(super) const GREY: InputId = InputId::new(3);

/// The ring of the images that the stream `camera` takes.
const CAMERA_RING: usize = 3;
/// The run of the node, and the topic of its chunks.
pub(super) const RUN: u64 = 77;
pub(super) const CHUNKS: &str = "/fusion_node/action_chunk";
/// Time between two ticks.
const PERIOD_NS: i64 = 10 * NANOS_PER_MS;

/// Notes the instant of the newest tensor \[ns\].
struct Newest(Arc<AtomicI64>);

impl Publisher for Newest {
    fn publish(&self, message: &mut TensorMessage) -> Result<(), Refused> {
        let message = message.message();
        let word = |at: usize| message[at..at + 4].try_into().unwrap();
        let sec = i32::from_le_bytes(word(4));
        let nanosec = u32::from_le_bytes(word(8));
        let stamp = Stamp::from_sec_nanosec(sec, nanosec).unwrap();
        self.0.store(stamp.nanos(), Ordering::Release);
        Ok(())
    }
}

/// Notes the messages of commands.
#[derive(Clone, Default)]
pub(super) struct SentCommands(pub Arc<Mutex<Vec<Vec<u8>>>>);

impl CommandPublisher for SentCommands {
    fn audience(&mut self, _: usize) -> Option<usize> {
        None
    }

    fn send(&mut self, _: usize, message: &[u8]) {
        lock(&self.0).push(message.to_vec());
    }

    fn tell(&mut self, _: usize, _: &[u8]) {}
}

/// The CPU backend, but while a test holds the lock, the images of the stream `camera` wait.
#[derive(Default)]
pub(super) struct Gate {
    pub open: Mutex<()>,
    /// Images that have begun.
    pub begun: AtomicU64,
}

struct Gated {
    backend: CpuBackend,
    gate: Arc<Gate>,
}

impl Backend for Gated {
    fn name(&self) -> &'static str {
        "gated"
    }

    fn encode(
        &self,
        r: RingId,
        slot: Slot,
        s: &PlacedSample<'_>,
    ) -> Result<PointDrops, BackendError> {
        if r.index() == CAMERA_RING {
            self.gate.begun.fetch_add(1, Ordering::AcqRel);
            drop(lock(&self.gate.open));
        }
        self.backend.encode(r, slot, s)
    }

    fn fuse(&self, jobs: &[StepJob], out: OutputMut<'_>) -> Result<(), BackendError> {
        self.backend.fuse(jobs, out)
    }
}

/// The clock of a node.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    /// The test moves it. The node takes it for the system's clock.
    Test,
    /// The test moves it. The node takes it for a simulator's clock.
    Simulator,
    /// The system's clock.
    System,
}

/// A node without ROS.
pub(super) struct Node {
    pub runtime: Arc<Runtime>,
    pub recorder: Arc<McapRecorder>,
    pub gate: Arc<Gate>,
    /// The time of its recorder. It does not count if the node's clock is that of the system.
    pub time: VirtualTime,
    /// The commands that it has sent.
    pub commands: SentCommands,
    threads: Threads<RuntimeError>,
    newest: Arc<AtomicI64>,
    now: Cell<Stamp>,
    steps: Cell<u64>,
    /// By input: the messages that were sent.
    sent: [Cell<u64>; 4],
    /// Messages for which the recorder had room, without copies, and whether it had room for the last image.
    kept: Cell<u64>,
    has_image: Cell<bool>,
}

pub(super) fn config_text(lag_ms: f64, camera_lag_ms: f64) -> String {
    CONFIG.replace("LAG", &lag_ms.to_string()).replace("CAMERA", &camera_lag_ms.to_string())
}

impl Node {
    pub(super) fn start(
        text: &str,
        folder: &Path,
        change: impl FnOnce(&mut RecordOptions),
        by: By,
    ) -> Node {
        let config = config::parse(text, "robot.yaml").unwrap();
        let gate = Arc::new(Gate::default());
        let backend = CpuBackend::new(&config, &Layout::new(&config)).unwrap();
        let backend = Arc::new(Gated { backend, gate: Arc::clone(&gate) });
        let real = TimeSource::real();
        let time = VirtualTime::starting_at(real.system());
        let of_recorder = if by == By::System { real.clone() } else { time.source() };
        let clock = match by {
            By::Test => Clock::recorded(config.grid, real),
            By::Simulator => Clock::simulated(config.grid, real),
            By::System => Clock::system(config.grid, real),
        };
        let manifest = Manifest::of(&config, by == By::Simulator, true, "cpu");
        let pipeline = Pipeline::new(config, backend).unwrap().with_run(RUN);
        let mut runtime = Runtime::new(pipeline, clock).with_commands();
        let chunks = runtime.commands.as_ref().map(|_| CHUNKS.to_owned());
        let manifest = Manifest { run: RUN, chunks, ..manifest };
        let mut options = RecordOptions::new(folder, manifest, of_recorder);
        if by == By::System {
            options.end = patience();
        }
        change(&mut options);
        // The log has the time of the messages and of the system, whichever is later: here it is that of the messages.
        let begin =
            time.source().system().offset(3600 * NANOS_PER_S).nanos() / PERIOD_NS * PERIOD_NS;
        let now = Stamp::from_nanos(begin + PERIOD_NS / 2);
        if let Clock::Recorded(clock) = &runtime.clock {
            clock.set(now);
        }
        let start = runtime.clock.now().map(|now| now.stamp);
        let definitions = Prefixes::default();
        let config = runtime.pipeline.config();
        let layout = runtime.pipeline.layout();
        runtime.recorded_segments = options.manifest.recorded_segments(config, layout);
        let config = runtime.pipeline.config();
        let recorder = McapRecorder::start(options, config, &definitions, start).unwrap();
        let recorder = Arc::new(recorder);
        runtime.recorder = Some(Arc::clone(&recorder) as Arc<dyn Recorder>);
        let runtime = Arc::new(runtime);
        let options = ThreadOptions { encode_threads: Some(2), ..ThreadOptions::default() };
        let newest = Arc::new(AtomicI64::new(0));
        let commands = SentCommands::default();
        let ends = CommandEnds { publisher: Box::new(commands.clone()), source: None };
        let ends = runtime.commands.as_ref().map(|_| ends);
        let threads = Threads::start(&runtime, Newest(Arc::clone(&newest)), ends, options).unwrap();
        Node {
            runtime,
            recorder,
            gate,
            time,
            commands,
            threads,
            newest,
            now: Cell::new(now),
            steps: Cell::default(),
            sent: Default::default(),
            kept: Cell::default(),
            has_image: Cell::default(),
        }
    }

    pub(super) fn now(&self) -> Stamp {
        self.now.get()
    }

    pub(super) fn published(&self) -> u64 {
        self.runtime.ticks.published.get()
    }

    /// Sets the clock.
    pub(super) fn set_clock(&self, now: Stamp) {
        self.now.set(now);
        match &self.runtime.clock {
            Clock::Recorded(clock) => drop(clock.set(now)),
            _ => self.runtime.sim_clock().unwrap().set(now, Transit::UNKNOWN),
        }
    }

    /// Moves the clock on by this time, and waits for each tick on the way.
    pub(super) fn go_on(&self, ms: i64) {
        let end = self.now().offset(ms * NANOS_PER_MS);
        let next = |now: Stamp| Stamp::from_nanos((now.nanos() / PERIOD_NS + 1) * PERIOD_NS);
        while next(self.now()) <= end {
            let tick = next(self.now());
            let commands = self.runtime.commands.as_ref().map(|of| &of.grid.served);
            let served = commands.map_or(0, Counter::get);
            self.set_clock(tick);
            // The command ticks of the tests are on the same grid.
            if let Some(commands) = commands {
                until("the command tick", || commands.get() > served);
            }
            until("the tick", || self.newest.load(Ordering::Acquire) == tick.nanos());
        }
        if self.now() < end {
            self.set_clock(end);
        }
    }

    pub(super) fn receive(&self, input: InputId, bytes: Vec<u8>) {
        self.receive_with(input, bytes, Transit::UNKNOWN);
    }

    pub(super) fn receive_with(&self, input: InputId, bytes: Vec<u8>, transit: Transit) {
        let arrival = self.runtime.arrival(input, transit);
        let lost = self.recorder.status().lost;
        self.runtime.receive(input, bytes, arrival).unwrap();
        let is_kept = self.recorder.status().lost == lost;
        let is_copy = input == GREY && self.has_image.get();
        self.sent[input.index()].update(|sent| sent + 1);
        self.kept.update(|kept| kept + u64::from(is_kept && !is_copy));
        if input == CAMERA {
            self.has_image.set(is_kept);
        }
    }

    /// Waits until all messages are rows or dropped.
    pub(super) fn settle(&self) {
        [WRENCH, JOINTS, CAMERA, GREY].into_iter().for_each(|input| self.settle_of(input));
    }

    /// Waits until all messages of this input are rows or dropped.
    pub(super) fn settle_of(&self, input: InputId) {
        let stats = self.runtime.input_stats(input);
        until("the encoders", || {
            stats.accepted.get() + stats.dropped_total() == self.sent[input.index()].get()
        });
    }

    /// Waits until the disk has all messages that the recorder had room for. If a file ends between two copies of a message, both
    /// are written.
    pub(super) fn await_disk(&self) {
        until("the disk", || self.recorder.status().messages >= self.kept.get());
    }

    /// Waits until the recording has failed. Returns the reason.
    pub(super) fn await_failure(&self) -> String {
        robocache_testing::some("the failure", || self.recorder.status().failed)
    }

    /// Ends the node. Returns the folder of its recording.
    pub(super) fn stop(self) -> PathBuf {
        self.threads.stop().unwrap();
        self.recorder.finish();
        self.recorder.folder()
    }
}

pub(super) fn wrench(stamp: Stamp, value: f64) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.header(stamp, "tool");
    writer.f64_array(&[value, 2.0 * value, -value, 0.0, 1.0, value * value]);
    writer.finish()
}

pub(super) fn joints(stamp: Stamp, names: &[&str], value: f64) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.header(stamp, "base");
    writer.u32(names.len() as u32);
    names.iter().for_each(|name| writer.string(name));
    writer.f64_sequence(&vec![value; names.len()]);
    (0..2).for_each(|_| writer.f64_sequence(&[]));
    writer.finish()
}

/// An rgb8 image of this many lines of 640 pixels.
pub(super) fn image(stamp: Stamp, lines: u32, seed: u64) -> Vec<u8> {
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

/// Up to this many milliseconds \[ns\].
fn pseudo(k: u64, most_ms: i64) -> i64 {
    (k.wrapping_mul(2_654_435_761) >> 7) as i64 % (most_ms.max(1) * NANOS_PER_MS)
}

/// Sends a wrench and joints.
fn send_vectors(node: &Node, stamp: Stamp, k: u64) {
    node.receive(WRENCH, wrench(stamp, k as f64 / 100.0));
    match k % 4 {
        0 => node.receive(JOINTS, joints(stamp, &["a", "b", "g"], k as f64)),
        1 => node.receive(JOINTS, joints(stamp, &["b", "a"], k as f64)),
        2 => node.receive(JOINTS, joints(stamp, &["g"], k as f64)),
        _ => {}
    }
}

/// Sends an image to both streams.
pub(super) fn send_image(node: &Node, stamp: Stamp, k: u64) {
    let bytes = image(stamp, 480, k);
    node.receive(CAMERA, bytes.clone());
    node.receive(GREY, bytes);
}

/// Lets this many milliseconds pass, while wrenches come at 200 Hz and joints at 150 Hz. Their stamps are up to
/// `delay_ms` before their arrival. `each` is called after each step of 5 ms with the number of the step.
pub(super) fn vectors(node: &Node, ms: i64, delay_ms: i64, mut each: impl FnMut(u64)) {
    for _ in 0..ms / 5 {
        let k = node.steps.get();
        node.steps.set(k + 1);
        node.go_on(5);
        send_vectors(node, node.now().offset(-pseudo(k, delay_ms)), k);
        each(k);
    }
}

/// Sends as a robot does for this many ticks: [`vectors`], and images at 25 Hz, whose stamps are `camera_delay_ms` before
/// their arrival. Each image is a row, or dropped, before the clock goes on.
pub(super) fn drive(node: &Node, ticks: i64, delay_ms: i64, camera_delay_ms: i64) {
    vectors(node, 10 * ticks, delay_ms, |k| {
        if k % 8 == 0 {
            let before = pseudo(k, 5) - camera_delay_ms * NANOS_PER_MS;
            send_image(node, node.now().offset(before), k);
            node.settle();
        }
    });
}

/// Sets a simulator's clock to its start, and sends as the robot of this epoch does for this many steps of 5 ms. `each` is
/// called after each step with its number.
pub(super) fn simulate(node: &Node, epoch: u64, steps: u64, mut each: impl FnMut(u64)) {
    node.set_clock(Stamp::from_nanos(5_005 * NANOS_PER_MS));
    for k in 0..steps {
        node.go_on(5);
        let now = node.now();
        node.receive(WRENCH, wrench(now, (k + 1000 * epoch) as f64 / 100.0));
        node.receive(JOINTS, joints(now, &["a", "b", "g"], k as f64));
        if k % 16 == 0 {
            node.receive(CAMERA, image(now, 48, k));
            node.receive(GREY, image(now, 48, k));
            node.settle();
        }
        each(k);
    }
}

/// Sends as a robot does, by the system's clock, until the time is over.
pub(super) fn drive_live(node: &Node, length: Duration) {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _stops = Finally(|| stop.store(true, Ordering::Relaxed));
        let runtime = &node.runtime;
        scope.spawn(|| {
            for k in (0..).take_while(|_| !stop.load(Ordering::Relaxed)) {
                let bytes =
                    image(runtime.time.system().offset(pseudo(k, 5) - 12 * NANOS_PER_MS), 480, k);
                for input in [CAMERA, GREY] {
                    let arrival = runtime.arrival(input, Transit::UNKNOWN);
                    runtime.receive(input, bytes.clone(), arrival).unwrap();
                }
                std::thread::sleep(Duration::from_millis(40));
            }
        });
        let begin = Instant::now();
        for k in (0..).take_while(|_| begin.elapsed() < length) {
            send_vectors(node, runtime.time.system().offset(-pseudo(k, 8)), k);
            std::thread::sleep(Duration::from_millis(4));
        }
    });
}

/// The page of a recording, which is also left beside the other results of tests.
pub(super) fn page(recording: &Path, name: &str) -> String {
    let html = view::page(recording, &view::ViewOptions::default()).unwrap().html();
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("recording-{name}.html"));
    std::fs::write(out, &html).unwrap();
    html
}

pub(super) fn verified(folder: &Path) -> VerifyReport {
    let report = verify(folder, Choice::Cpu, 0).unwrap();
    println!(
        "{}",
        serde_json::to_string_pretty(&VerifyReport { different: vec![], ..report.clone() })
            .unwrap()
    );
    report
}
