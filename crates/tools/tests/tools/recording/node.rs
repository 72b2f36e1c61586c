//! A node without ROS that records itself, and messages for it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use robocache_core::backend::Choice;
use robocache_core::backend::cpu::CpuBackend;
use robocache_core::cdr::Writer;
use robocache_core::config;
use robocache_core::layout::Layout;
use robocache_core::message::TensorMessage;
use robocache_core::pipeline::Pipeline;
use robocache_core::schema::Prefixes;
use robocache_core::spec::InputId;
use robocache_data::recording::{Manifest, McapRecorder, RecordOptions};
use robocache_ops::time::{NANOS_PER_MS, Stamp};
use robocache_runtime::{
    Clock, Publisher, Recorder, Refused, Runtime, RuntimeError, ThreadOptions, Threads, Transit,
};
use robocache_tools::verify::{Report, verify};
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
pub const WRENCH: InputId = InputId::new(0);
pub const JOINTS: InputId = InputId::new(1);
pub const CAMERA: InputId = InputId::new(2);
pub const GREY: InputId = InputId::new(3);

/// Drops the tensors.
struct Nobody;

impl Publisher for Nobody {
    fn publish(&self, _: &mut TensorMessage) -> Result<(), Refused> {
        Ok(())
    }
}

/// A node without ROS.
pub struct Node {
    pub runtime: Arc<Runtime>,
    pub recorder: Arc<McapRecorder>,
    threads: Threads<RuntimeError>,
}

pub fn config_text(lag_ms: f64, camera_lag_ms: f64) -> String {
    CONFIG.replace("LAG", &lag_ms.to_string()).replace("CAMERA", &camera_lag_ms.to_string())
}

impl Node {
    pub fn start(
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

    pub fn receive(&self, input: InputId, bytes: Vec<u8>) {
        self.receive_with(input, bytes, Transit::UNKNOWN);
    }

    pub fn receive_with(&self, input: InputId, bytes: Vec<u8>, transit: Transit) {
        let arrival = self.runtime.arrival(input, transit);
        self.runtime.receive(input, bytes, arrival).unwrap();
    }

    /// Ends the node. Returns the folder of its recording.
    pub fn stop(self) -> PathBuf {
        self.threads.stop().unwrap();
        self.recorder.finish();
        self.recorder.folder().to_owned()
    }
}

pub fn wrench(stamp: Stamp, value: f64) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.header(stamp, "tool");
    writer.f64_array(&[value, 2.0 * value, -value, 0.0, 1.0, value * value]);
    writer.finish()
}

pub fn joints(stamp: Stamp, names: &[&str], value: f64) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.header(stamp, "base");
    writer.u32(names.len() as u32);
    names.iter().for_each(|name| writer.string(name));
    writer.f64_sequence(&vec![value; names.len()]);
    (0..2).for_each(|_| writer.f64_sequence(&[]));
    writer.finish()
}

/// An rgb8 image of this many lines of 640 pixels.
pub fn image(stamp: Stamp, lines: u32, seed: u64) -> Vec<u8> {
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
pub fn drive(node: &Node, length: Duration, delay_ms: i64, camera_delay_ms: i64) {
    let stop = AtomicBool::new(false);
    let now = || robocache_runtime::system_now();
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

/// The page of a recording, which is also left beside the other results of tests.
pub fn page(recording: &Path, name: &str) -> String {
    let html = view::page(recording, &view::Options::default()).unwrap().html();
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("recording-{name}.html"));
    std::fs::write(out, &html).unwrap();
    html
}

pub fn verified(folder: &Path) -> Report {
    let report = verify(folder, Choice::Cpu, 0).unwrap();
    println!(
        "{}",
        serde_json::to_string_pretty(&Report { different: vec![], ..report.clone() }).unwrap()
    );
    report
}
