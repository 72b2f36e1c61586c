//! Whole messages and whole ticks on the reference robot, on the host's clock.

use std::hint::spin_loop;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::random::Random;
use super::{BenchError, Case, Options, Report};
use crate::backend::cpu::CpuBackend;
use crate::backend::{Backend, create};
use crate::cdr::messages::{Image, Imu, JointState, PointCloud2, PointField, WrenchStamped};
use crate::config::{self, Config};
use crate::layout::Layout;
use crate::pipeline::{Pipeline, TickOutcome};
use crate::time::Stamp;

const MS: i64 = 1_000_000;

/// One camera of 224x224 in bf16: an output of 301,056 bytes, all of it new in every tick.
const CAMERA: &str = "
rate_hz: 1000
output: {dtype: bf16}
streams:
  camera:
    type: sensor_msgs/Image
    topic: /image
    max_age_ms: 1000
    ring_rows: 4
    image: {width: 224, height: 224}
";

/// The configuration of the reference robot.
const ROBOT: &str = include_str!("../../config/robocache.yaml");

/// Runs the cases on the backend of `options`.
pub fn run(options: &Options, report: &mut Report) -> Result<(), BenchError> {
    camera_ticks(options, report)?;
    robot_ticks(options, report)?;
    #[cfg(feature = "cuda")]
    encodes(options, report)?;
    if options.soak_s > 0 {
        soak(options, report)?;
    }
    Ok(())
}

fn parse(text: &str) -> Result<Config, BenchError> {
    config::parse(text, "bench.yaml").map_err(|error| BenchError::Dropped {
        case: "configuration".into(),
        found: error.to_string(),
    })
}

/// A pipeline on the backend under test, and one on the CPU to compare with.
struct Pair {
    subject: Pipeline,
    oracle: Pipeline,
}

impl Pair {
    fn new(text: &str, options: &Options, report: &mut Report) -> Result<Self, BenchError> {
        let config = parse(text)?;
        let layout = Layout::new(&config);
        let backend: Arc<dyn Backend> = create(options.backend, options.device, &config, &layout)?;
        report.backend = backend.name();
        let oracle = Arc::new(CpuBackend::new(&config, &layout)?);
        Ok(Pair {
            subject: Pipeline::new(config.clone(), backend),
            oracle: Pipeline::new(config, oracle),
        })
    }

    fn push(&self, stream: usize, message: &[u8], oracle: bool) -> Result<f64, BenchError> {
        let start = Instant::now();
        let taken = self.subject.push(stream, message, Stamp::ZERO);
        let us = start.elapsed().as_secs_f64() * 1e6;
        let case = || self.subject.config().streams[stream].name.clone();
        let dropped = |error: String| BenchError::Dropped { case: case(), found: error };
        taken.map_err(|error| dropped(error.to_string()))?;
        if oracle {
            let taken = self.oracle.push(stream, message, Stamp::ZERO);
            taken.map_err(|error| dropped(error.to_string()))?;
        }
        Ok(us)
    }
}

/// Ticks of which every one serves a new image.
fn camera_ticks(options: &Options, report: &mut Report) -> Result<(), BenchError> {
    let pair = Pair::new(CAMERA, options, report)?;
    let (mut frame, mut expected) = (pair.subject.new_frame(), pair.oracle.new_frame());
    let pixels = noise(640 * 480 * 3, 7);
    let (mut ticks, mut pushes) = (Vec::new(), Vec::new());
    let mut message = Vec::new();
    for tick in 1..=(options.repeats as i64 + 20) {
        message = image(Stamp::from_nanos(tick * MS), &pixels[..], message);
        // The CPU takes milliseconds for an image, so that only some are compared.
        let compare = tick % 10 == 1;
        let push = pair.push(0, &message, compare)?;
        rest(Duration::from_micros(300));
        let start = Instant::now();
        pair.subject.tick(tick, &mut frame)?;
        let us = start.elapsed().as_secs_f64() * 1e6;
        if compare {
            pair.oracle.tick(tick, &mut expected)?;
            compare_frames("tick of a camera", frame.message(), expected.message())?;
        }
        if tick > 20 {
            ticks.push(us);
            pushes.push(push);
        }
    }
    let on_gpu = report.backend == "cuda";
    let tick = Case::new("tick, 301 kB all new (host clock)", ticks);
    report.cases.push(if on_gpu { tick.target(45.0) } else { tick });
    report.cases.push(Case::new("push of a 640x480 rgb8 image (host clock)", pushes));
    Ok(())
}

/// The reference robot at 100 Hz, its messages in order of their stamps, as fast as it goes.
fn robot_ticks(options: &Options, report: &mut Report) -> Result<(), BenchError> {
    let pair = Pair::new(ROBOT, options, report)?;
    let robot = Robot::new();
    let (mut frame, mut expected) = (pair.subject.new_frame(), pair.oracle.new_frame());
    let period = pair.subject.config().grid.period_ns();
    let (mut ticks, mut clouds) = (Vec::new(), Vec::new());
    let mut now = 0;
    for tick in 1..=(options.repeats as i64).min(600) {
        while now < tick * period {
            now += MS;
            robot.push(&pair, now, &mut clouds)?;
        }
        rest(Duration::from_micros(300));
        let start = Instant::now();
        let outcome = pair.subject.tick(tick, &mut frame)?;
        ticks.push(start.elapsed().as_secs_f64() * 1e6);
        pair.oracle.tick(tick, &mut expected)?;
        if outcome == TickOutcome::Ready {
            compare_frames("tick of the robot", frame.message(), expected.message())?;
        }
    }
    let kb = pair.subject.layout().byte_len() / 1000;
    report.cases.push(Case::new(format!("tick, reference robot, {kb} kB (host clock)"), ticks));
    if !clouds.is_empty() {
        let name = "push of 131072 points, 64x64x32 (host clock)";
        report.cases.push(Case::new(name, clouds));
    }
    Ok(())
}

/// Upload and encoding after the bytes are in pinned memory.
#[cfg(feature = "cuda")]
fn encodes(options: &Options, report: &mut Report) -> Result<(), BenchError> {
    use crate::backend::cuda::{Device, timing::Timer};
    use crate::config::{CloudSpec, Grid, Reduction, Source};
    use crate::decode::cloud::{CloudView, FieldAt, FieldType};
    use crate::decode::image::{Encoding, ImageView};
    use crate::dtype::DType;

    if report.backend != "cuda" {
        return Ok(());
    }
    let timer = Timer::new(&Device::open(options.device)?)?;
    let config = parse(CAMERA)?;
    if let Source::Image(spec) = &config.streams[0].source {
        let data = &noise(640 * 480 * 3, 8);
        let view =
            ImageView { encoding: Encoding::Rgb8, width: 640, height: 480, step: 1920, data };
        let times = timer.image(spec, DType::Bf16, &view, options.repeats)?;
        let name = "image 640x480 rgb8 to 224x224, from pinned memory";
        report.cases.push(Case::new(name, times).target(60.0));
    }
    let fields = [0, 4, 8, 12].map(|offset| FieldAt { offset, kind: FieldType::Float32 });
    let data = &points(131_072, 4, 12.7);
    let view = CloudView {
        width: 131_072,
        height: 1,
        point_step: 16,
        row_step: 16 * 131_072,
        big_endian: false,
        fields: &fields,
        data,
    };
    let spec = CloudSpec {
        grid: Grid { origin_m: [-6.4; 3], size_m: 0.1, shape: [128; 3] },
        t_base_lidar: [[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]],
        channels: vec![Reduction::Count, Reduction::Mean("intensity".into())],
    };
    let times = timer.cloud(&spec, DType::Bf16, &view, options.repeats)?;
    let name = "cloud of 131072 points to 128^3, from pinned memory";
    report.cases.push(Case::new(name, times).target(80.0));
    Ok(())
}

/// Ticks at 1 kHz with all streams live, images and clouds of random sizes among them: how late
/// they are done, and whether device memory stays as it is.
fn soak(options: &Options, report: &mut Report) -> Result<(), BenchError> {
    let text = ROBOT.replace("rate_hz: 100\n", "rate_hz: 1000\n");
    let pair = Pair::new(&text, options, report)?;
    let robot = Robot::new();
    let mut random = Random(3);
    let mut frame = pair.subject.new_frame();
    let (mut late, mut overruns) = (Vec::new(), 0);
    let mut clouds = Vec::new();
    let before = Instant::now();
    let mut free = None;
    for tick in 1..=options.soak_s as i64 * 1000 {
        let due = before + Duration::from_millis(tick as u64);
        robot.push_random(&pair, tick * MS, &mut random, &mut clouds)?;
        while Instant::now() < due {
            spin_loop();
        }
        pair.subject.tick(tick, &mut frame)?;
        let done = due.elapsed();
        late.push(done.as_secs_f64() * 1e6);
        overruns += i64::from(done >= Duration::from_millis(1));
        if tick == 5000 {
            free = free_bytes(options);
        }
    }
    let name = format!("tick at 1 kHz for {} s, {overruns} overruns (host clock)", options.soak_s);
    report.cases.push(Case::new(name, late));
    let after = free_bytes(options);
    if free != after {
        return Err(BenchError::Mismatch {
            case: "free device memory during ticks at 1 kHz".into(),
            found: format!("{free:?} after 5 s and {after:?} at the end"),
        });
    }
    Ok(())
}

#[cfg(feature = "cuda")]
fn free_bytes(options: &Options) -> Option<usize> {
    let device = crate::backend::cuda::Device::open(options.device).ok()?;
    device.free_bytes().ok()
}

#[cfg(not(feature = "cuda"))]
fn free_bytes(_: &Options) -> Option<usize> {
    None
}

/// What the reference robot publishes, with random content.
struct Robot {
    pixels: Vec<u8>,
    points: Vec<u8>,
    names: Vec<String>,
}

impl Robot {
    fn new() -> Self {
        Robot {
            pixels: noise(640 * 480 * 3, 1),
            points: points(131_072, 5, 14.0),
            names: (0..14).map(|i| format!("joint_{i}")).collect(),
        }
    }

    /// Whatever is due in the millisecond `now`.
    fn push(&self, pair: &Pair, now: i64, clouds: &mut Vec<f64>) -> Result<(), BenchError> {
        let stamp = Stamp::from_nanos(now);
        let ms = now / MS;
        if ms % 33 == 0 {
            for camera in 0..2 {
                let shift = (ms as usize * 3 + camera) % 1000;
                pair.push(camera, &image(stamp, &self.pixels[shift..], Vec::new()), true)?;
            }
        }
        if ms % 100 == 0 {
            clouds.push(pair.push(2, &cloud(stamp, &self.points, 20), true)?);
        }
        self.push_vectors(pair, now, true)
    }

    fn push_vectors(&self, pair: &Pair, now: i64, oracle: bool) -> Result<(), BenchError> {
        let stamp = Stamp::from_nanos(now);
        let (ms, t) = (now / MS, now as f64 * 1e-9);
        if ms % 2 == 0 {
            let names: Vec<&str> = self.names.iter().map(String::as_str).collect();
            let position: Vec<f64> = (0..14).map(|i| (t + f64::from(i)).sin()).collect();
            let velocity: Vec<f64> = (0..14).map(|i| (t + f64::from(i)).cos()).collect();
            let joints = JointState {
                stamp,
                frame_id: "",
                name: &names,
                position: &position,
                velocity: &velocity,
                effort: &[],
            };
            pair.push(3, &joints.to_cdr(Vec::new()), oracle)?;
            let force = [t.sin(), t.cos(), 9.8];
            let wrench = WrenchStamped { stamp, frame_id: "wrist", force, torque: force };
            pair.push(4, &wrench.to_cdr(Vec::new()), oracle)?;
        }
        if ms % 5 == 0 {
            let imu = Imu {
                stamp,
                frame_id: "imu",
                orientation: [0.0, 0.0, (t / 2.0).sin(), (t / 2.0).cos()],
                angular_velocity: [0.0, 0.0, 1.0],
                linear_acceleration: [0.0, 0.0, 9.8],
            };
            pair.push(5, &imu.to_cdr(Vec::new()), oracle)?;
        }
        Ok(())
    }

    /// The same to the subject alone, images and clouds of any size up to the usual.
    fn push_random(
        &self,
        pair: &Pair,
        now: i64,
        random: &mut Random,
        clouds: &mut Vec<f64>,
    ) -> Result<(), BenchError> {
        let stamp = Stamp::from_nanos(now);
        let ms = now / MS;
        if ms % 33 == 0 {
            let camera = (ms / 33 % 2) as usize;
            pair.push(camera, &image(stamp, &self.pixels, Vec::new()), false)?;
        }
        if ms % 100 == 50 {
            let count = random.below(131_072) as usize;
            clouds.push(pair.push(2, &cloud(stamp, &self.points[..20 * count], 20), false)?);
        }
        self.push_vectors(pair, now, false)
    }
}

fn compare_frames(case: &str, found: &[u8], expected: &[u8]) -> Result<(), BenchError> {
    match found.iter().zip(expected).position(|(found, expected)| found != expected) {
        None => Ok(()),
        Some(byte) => Err(BenchError::Mismatch {
            case: case.into(),
            found: format!("another byte {byte} of the message"),
        }),
    }
}

/// Waits as an idle thread would: what was started may finish, and caches keep their content.
fn rest(duration: Duration) {
    let start = Instant::now();
    while start.elapsed() < duration {
        spin_loop();
    }
}

fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut random = Random(seed);
    (0..len + 1000).map(|_| random.bits() as u8).collect()
}

/// Points of `columns` floats within `reach` metres, the fourth one up to 255.
fn points(count: usize, columns: usize, reach: f32) -> Vec<u8> {
    let mut random = Random(5);
    let mut data = Vec::with_capacity(4 * count * columns);
    for _ in 0..count {
        for column in 0..columns {
            let value = match column {
                0..3 => random.float(-reach / 2.0, reach / 2.0),
                _ => random.float(0.0, 255.0),
            };
            data.extend_from_slice(&value.to_le_bytes());
        }
    }
    data
}

/// A 640x480 rgb8 image of the first bytes of `pixels`.
fn image(stamp: Stamp, pixels: &[u8], buffer: Vec<u8>) -> Vec<u8> {
    let image =
        Image { stamp, frame_id: "camera", height: 480, width: 640, encoding: "rgb8", step: 1920 };
    image.to_cdr(buffer, |data| data.extend_from_slice(&pixels[..640 * 480 * 3]))
}

/// A cloud with x, y, z, intensity and time.
fn cloud(stamp: Stamp, points: &[u8], point_step: usize) -> Vec<u8> {
    let names = ["x", "y", "z", "intensity", "time"];
    let field =
        |i: usize| PointField { name: names[i], offset: 4 * i as u32, datatype: 7, count: 1 };
    let fields: [PointField<'_>; 5] = std::array::from_fn(field);
    let width = points.len() / point_step;
    let cloud = PointCloud2 {
        stamp,
        frame_id: "lidar",
        height: 1,
        width: width as u32,
        fields: &fields,
        is_bigendian: false,
        point_step: point_step as u32,
        row_step: (width * point_step) as u32,
        is_dense: true,
    };
    cloud.to_cdr(Vec::new(), |data| data.extend_from_slice(points))
}
