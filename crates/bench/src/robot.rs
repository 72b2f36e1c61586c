//! Whole messages and whole ticks on the reference robot, on the host's clock.

use std::hint::spin_loop;
use std::time::{Duration, Instant};

use robocache_core::encoder::EncodeError;
use robocache_core::layout::Layout;
use robocache_core::pipeline::TickOutcome;
use robocache_ops::align::Slot;
use robocache_ops::dtype::DType;
use robocache_ops::image::Encoding;
use robocache_ops::time::{Epoch, NANOS_PER_MS, Stamp};
use robocache_ops::voxelize::cpu::Voxelizer;
use robocache_ops::voxelize::{
    FieldAt, FieldType, Grid, IDENTITY, Knot, PointsView, Reduction, Sweep, VoxelSpec,
};

use crate::error::BenchError;
use crate::messages::{
    CAMERA_MS, CAMERAS, LIDAR, LIDAR_MS, ROBOT, cloud, image, noise, points, vectors,
};
use crate::options::Options;
use crate::pair::{PipelinePair, compare, parse};
use crate::report::{Case, RunTimes};

/// The usual size of an image.
const VGA: [u32; 2] = [640, 480];
const VGA_BYTES: usize = 640 * 480 * 3;

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
    image: {resize: {width: 224, height: 224}}
";

/// Runs the cases that are asked for on the backend of `options`.
pub(crate) fn run(options: &Options, report: &mut RunTimes) -> Result<(), BenchError> {
    camera_ticks(options, report)?;
    robot_ticks(options, report)?;
    encodes(options, report)
}

/// Ticks that each serve a new image.
fn camera_ticks(options: &Options, report: &mut RunTimes) -> Result<(), BenchError> {
    let names = ["tick, 301 kB all new (host clock)", "push of a 640x480 rgb8 image (host clock)"];
    let [tick_wanted, push_wanted] = names.map(|name| report.wants(options, name));
    if !tick_wanted && !push_wanted {
        return Ok(());
    }
    let pair = PipelinePair::new(CAMERA, options, &mut report.hardware)?;
    let mut found = pair.subject.new_message();
    let mut expected = pair.oracle.new_message();
    let pixels = noise(VGA_BYTES, 7);
    let mut ticks = Vec::new();
    let mut pushes = Vec::new();
    let mut message = Vec::new();
    for tick in 1..=(options.repeats as i64 + 20) {
        let stamp = Stamp::from_nanos(tick * NANOS_PER_MS);
        let shift = tick as usize % 1000;
        message = image(stamp, Encoding::Rgb8, VGA, &pixels[shift..], message);
        // The CPU takes milliseconds for an image, so that only some are compared.
        let compared = tick % 10 == 1;
        let push = pair.push(0, &message, compared)?;
        rest(Duration::from_micros(300));
        let start = Instant::now();
        pair.subject.tick(tick, Epoch::default(), &mut found)?;
        let us = start.elapsed().as_secs_f64() * 1e6;
        if compared {
            pair.oracle.tick(tick, Epoch::default(), &mut expected)?;
            compare("tick of a camera", found.message(), expected.message())?;
        }
        if tick > 20 {
            ticks.push(us);
            pushes.push(push);
        }
    }
    if tick_wanted {
        let tick = Case::new(names[0], ticks);
        let on_gpu = report.hardware.backend == "cuda";
        report.cases.push(if on_gpu { tick.target(45.0) } else { tick });
    }
    if push_wanted {
        report.cases.push(Case::new(names[1], pushes));
    }
    Ok(())
}

/// The reference robot at 100 Hz, its messages in order of their stamps, as fast as it goes.
fn robot_ticks(options: &Options, report: &mut RunTimes) -> Result<(), BenchError> {
    let kb = Layout::new(&parse(ROBOT)?).byte_len() / 1000;
    let names = [
        format!("tick, reference robot, {kb} kB (host clock)"),
        "push of 131072 points, 64x64x32 (host clock)".into(),
    ];
    let [tick_wanted, push_wanted] = names.each_ref().map(|name| report.wants(options, name));
    if !tick_wanted && !push_wanted {
        return Ok(());
    }
    let pair = PipelinePair::new(ROBOT, options, &mut report.hardware)?;
    let pixels = noise(VGA_BYTES, 1);
    let points = points(131_072, 5, 14.0);
    let mut found = pair.subject.new_message();
    let mut expected = pair.oracle.new_message();
    let period = pair.subject.config().grid.period_ns();
    let mut ticks = Vec::new();
    let mut clouds = Vec::new();
    let mut now = 0;
    // Up to the first cloud at least.
    let least = LIDAR_MS * NANOS_PER_MS / period + 1;
    for tick in 1..=(options.repeats as i64).min(600).max(least) {
        while now * NANOS_PER_MS < tick * period {
            now += 1;
            push_robot(&pair, now, &pixels, &points, &mut clouds)?;
        }
        rest(Duration::from_micros(300));
        let start = Instant::now();
        let outcome = pair.subject.tick(tick, Epoch::default(), &mut found)?;
        ticks.push(start.elapsed().as_secs_f64() * 1e6);
        pair.oracle.tick(tick, Epoch::default(), &mut expected)?;
        if outcome == TickOutcome::Ready {
            compare("tick of the robot", found.message(), expected.message())?;
        }
    }
    let wanted = [(tick_wanted, ticks), (push_wanted, clouds)];
    for (name, (wanted, times)) in names.into_iter().zip(wanted) {
        if wanted {
            report.cases.push(Case::new(name, times));
        }
    }
    Ok(())
}

#[cfg(feature = "cuda")]
const ENCODE_OF_AN_IMAGE: &str = "image 640x480 rgb8 to 224x224, from pinned memory";

/// Clouds that [`clouds`] encodes.
const CLOUD: &str = "cloud of 131072 points to 128^3";
const SWEPT_CLOUD: &str = "the same cloud deskewed";
const SPARSE_CLOUD: &str = "the same cloud sparse";

/// Times of encodings, and the row.
type Encoded = Result<(Vec<f64>, Vec<u8>), BenchError>;

/// Upload and encoding on a GPU, after the bytes are in pinned memory; or the encoding on one core.
fn encodes(options: &Options, report: &mut RunTimes) -> Result<(), BenchError> {
    #[cfg(feature = "cuda")]
    if report.hardware.backend == "cuda" {
        let device = robocache_ops::device::Device::open(options.device)?;
        let timer = crate::timer::Timer::new(&device)?;
        if report.wants(options, ENCODE_OF_AN_IMAGE) {
            report.cases.push(encode_of_an_image(&timer, options)?);
        }
        return clouds(options, report, ("from pinned memory", Some(80.0)), |spec, view| {
            Ok(timer.cloud(spec, DType::Bf16, view, options.repeats)?)
        });
    }
    clouds(options, report, ("on one core", None), |spec, view| {
        let mut voxelizer = Voxelizer::new(spec, DType::Bf16, 1);
        let mut row = vec![0; voxelizer.row_bytes()];
        let mut times = Vec::new();
        for _ in 0..options.repeats {
            let start = Instant::now();
            voxelizer.encode(view, Slot::new(0), &mut row).map_err(EncodeError::from)?;
            times.push(start.elapsed().as_secs_f64() * 1e6);
        }
        Ok((times, row))
    })
}

#[cfg(feature = "cuda")]
fn encode_of_an_image(timer: &crate::timer::Timer, options: &Options) -> Result<Case, BenchError> {
    use robocache_ops::image::cpu::ImageEncoder;
    use robocache_ops::image::{ImageSpec, ImageView, Resize};

    let spec = ImageSpec::new(vec![Resize::to(224, 224)]);
    let data = &noise(VGA_BYTES, 8);
    let view = ImageView {
        encoding: Encoding::Rgb8,
        width: 640,
        height: 480,
        step: 1920,
        data,
        remap: None,
    };
    let (times, row) = timer.image(&spec, DType::Bf16, &view, options.repeats)?;
    let mut expected = vec![0; row.len()];
    ImageEncoder::new(&spec, DType::Bf16).encode(&view, &mut expected);
    compare(ENCODE_OF_AN_IMAGE, &row, &expected)?;
    Ok(Case::new(ENCODE_OF_AN_IMAGE, times).target(60.0))
}

/// Encodings of one cloud that are asked for: plain, deskewed and sparse. `way` is how, and the target.
fn clouds(
    options: &Options,
    report: &mut RunTimes,
    way: (&str, Option<f64>),
    encode: impl Fn(&VoxelSpec, &PointsView<'_>) -> Encoded,
) -> Result<(), BenchError> {
    let fields = [0, 4, 8, 12].map(|offset| FieldAt { offset, kind: FieldType::Float32 });
    // The intensity, up to 255, serves as the time, so that the points are the same.
    let knots = turning_knots();
    let rate = (knots.len() - 1) as f64 / 256.0;
    let sweep = Sweep { time: fields[3], origin: 0.0, rate, knots: &knots };
    let spec = VoxelSpec::new(
        Grid { origin_m: [-6.4; 3], size_m: 0.1, shape: [128; 3] },
        vec![Reduction::Count, Reduction::Mean("intensity".into())],
    );
    for cloud in [CLOUD, SWEPT_CLOUD, SPARSE_CLOUD] {
        let name = format!("{cloud}, {}", way.0);
        if !report.wants(options, &name) {
            continue;
        }
        let view = PointsView {
            width: 131_072,
            height: 1,
            point_step: 16,
            row_step: 16 * 131_072,
            big_endian: false,
            fields: &fields,
            t_base_sensor: IDENTITY,
            t_shapes: &[],
            sweep: (cloud == SWEPT_CLOUD).then_some(sweep),
            data: &points(131_072, 4, 12.7),
        };
        let max_voxels = (cloud == SPARSE_CLOUD).then_some(131_072);
        let spec = VoxelSpec { max_voxels, ..spec.clone() };
        let (times, row) = encode(&spec, &view)?;
        let mut expected = vec![0; row.len()];
        let mut voxelizer = Voxelizer::new(&spec, DType::Bf16, 1);
        voxelizer.encode(&view, Slot::new(0), &mut expected).map_err(EncodeError::from)?;
        compare(&name, &row, &expected)?;
        report.cases.push(Case { target_us: way.1, ..Case::new(name, times) });
    }
    Ok(())
}

/// The poses of a sensor that turns and drives during a sweep, as tf gives them.
fn turning_knots() -> Vec<Knot> {
    let knot = |i: usize| {
        let (sin, cos) = (0.002 * i as f32).sin_cos();
        let translation = [0.01 * i as f32, 0.0, 0.0, 0.0];
        Knot { rotation: [0.0, 0.0, sin, cos], translation }
    };
    (0..56).map(knot).collect()
}

/// Whatever is stamped in the millisecond `ms`.
fn push_robot(
    pair: &PipelinePair,
    ms: i64,
    pixels: &[u8],
    points: &[u8],
    clouds: &mut Vec<f64>,
) -> Result<(), BenchError> {
    let stamp = Stamp::from_nanos(ms * NANOS_PER_MS);
    if ms % CAMERA_MS == 0 {
        for camera in CAMERAS {
            let shift = (ms as usize * 3 + camera) % 1000;
            let message = image(stamp, Encoding::Rgb8, VGA, &pixels[shift..], Vec::new());
            pair.push(camera, &message, true)?;
        }
    }
    if ms % LIDAR_MS == 0 {
        clouds.push(pair.push(LIDAR, &cloud(stamp, points, Vec::new()), true)?);
    }
    vectors(ms, |stream, message| pair.push(stream, &message, true).map(|_| ()))
}

/// Waits as an idle thread would: what was started may finish, and caches keep their content.
fn rest(duration: Duration) {
    let start = Instant::now();
    while start.elapsed() < duration {
        spin_loop();
    }
}
