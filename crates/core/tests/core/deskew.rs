//! Points seen one after the other from a moving lidar are where scipy puts them, and where they
//! truly are. `tests/golden/make_deskew_golden.py` made the points.

use std::fmt::Write as _;

use crate::common::{pipeline, values};
use robocache_core::cdr::Writer;
use robocache_core::pipeline::{Arrival, NotTaken, Pipeline, TickOutcome};
use robocache_core::rejected::DropReason;
use robocache_core::spec::{InputId, SegmentId};
use robocache_core::tf::Transform;
use robocache_ops::time::{Epoch, Stamp};

const REFERENCE: i64 = 1_700_000_000_000_000_000;
/// The lidar in the base.
const MOUNT: &str = "{translation_m: [0.3, -0.1, 0.5], rotation_rpy_deg: [3, -5, 80]}";
/// `MOUNT` as a transform: the translation, and the quaternion by scipy.
const MOUNT_TRANSFORM: [f64; 7] = [
    0.3,
    -0.1,
    0.5,
    0.048_062_013_874_087_37,
    -0.016_592_735_826_274_144,
    0.642_830_447_439_489_8,
    0.764_319_134_776_116_7,
];

/// How far a point may be from where scipy puts it \[m\]: 2 ms between knots, and `f32`.
const FROM_SCIPY_M: f64 = 2e-5;
/// How far it may be from the truth \[m\]: 5 ms between poses, too.
const FROM_TRUTH_M: f64 = 5e-5;

struct Golden {
    poses: Vec<(i64, [f64; 7])>,
    points: Vec<Point>,
}

struct Point {
    seen: [f64; 3],
    time_ns: i64,
    expected: [f64; 3],
    truth: [f64; 3],
}

fn golden() -> Golden {
    let mut poses = Vec::new();
    let mut points = Vec::new();
    for line in include_str!("../../../../tests/golden/deskew.txt")
        .lines()
        .filter(|line| !line.starts_with('#'))
    {
        let words: Vec<&str> = line.split(' ').collect();
        let numbers = |at: usize| -> Vec<f64> {
            words[at..].iter().map(|number| number.parse().unwrap()).collect()
        };
        if words[0] == "pose" {
            poses.push((words[1].parse().unwrap(), numbers(2).try_into().unwrap()));
        } else {
            let seen = numbers(1);
            let rest = numbers(5);
            let three = |from: &[f64]| [from[0], from[1], from[2]];
            points.push(Point {
                seen: three(&seen),
                time_ns: words[4].parse().unwrap(),
                expected: three(&rest),
                truth: three(&rest[3..]),
            });
        }
    }
    assert_eq!((poses.len(), points.len()), (31, 400));
    Golden { poses, points }
}

fn config(keys: &str) -> String {
    format!(
        "
rate_hz: 100
base_frame: base
tf: {{odometry: [/odom]}}
streams:
  lidar:
    type: sensor_msgs/PointCloud2
    topic: /points
    max_age_ms: 1000
    {keys}
    cloud:
      origin_m: [-10, -10, 0]
      size_m: 1
      shape: [20, 20, 4]
      channels:
        - {{reduce: mean, field: x}}
        - {{reduce: mean, field: y}}
        - {{reduce: mean, field: z}}
"
    )
}

/// How a driver writes times and coordinates.
#[derive(Clone, Copy)]
struct Form {
    field: &'static str,
    datatype: u8,
    bytes: fn(i64) -> Vec<u8>,
    wide: bool,
    big_endian: bool,
}

const OUSTER: Form = Form {
    field: "t",
    datatype: 6,
    bytes: |ns| (ns as u32).to_le_bytes().to_vec(),
    wide: false,
    big_endian: false,
};

fn cloud(points: &[Point], form: Form) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.header(Stamp::from_nanos(REFERENCE), "lidar");
    writer.u32(1);
    writer.u32(points.len() as u32);
    let (size, kind) = if form.wide { (8, 8) } else { (4, 7) };
    writer.u32(4);
    let fields = ["x", "y", "z"].into_iter().enumerate().map(|(i, name)| (name, size * i, kind));
    for (name, offset, datatype) in fields.chain([(form.field, 3 * size + 3, form.datatype)]) {
        writer.string(name);
        writer.u32(offset as u32);
        writer.u8(datatype);
        writer.u32(1);
    }
    let time_size = (form.bytes)(0).len();
    let step = 3 * size + 3 + time_size;
    writer.u8(u8::from(form.big_endian));
    writer.u32(step as u32);
    writer.u32((step * points.len()) as u32);
    let mut data = Vec::new();
    let mut put = |mut bytes: Vec<u8>| {
        if form.big_endian {
            bytes.reverse();
        }
        data.extend(bytes);
    };
    for point in points {
        for value in point.seen {
            put(match form.wide {
                true => value.to_le_bytes().to_vec(),
                false => (value as f32).to_le_bytes().to_vec(),
            });
        }
        put(vec![0xEE; 3]);
        put((form.bytes)(point.time_ns));
    }
    writer.bytes(&data);
    writer.u8(1);
    writer.finish()
}

fn transform(stamp: i64, parent: &str, child: &str, pose: &[f64; 7]) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.u32(1);
    writer.header(Stamp::from_nanos(stamp), parent);
    writer.string(child);
    writer.f64_array(pose);
    writer.finish()
}

fn odometry(stamp: i64, pose: &[f64; 7]) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.header(Stamp::from_nanos(stamp), "odom");
    writer.string("base");
    writer.f64_array(pose);
    writer.f64_array(&[0.0; 36 + 6 + 36]);
    writer.finish()
}

/// Pushes a message to the input of this name.
fn push(pipeline: &Pipeline, input: &str, message: &[u8]) -> Result<(), NotTaken> {
    let Some(at) = pipeline.config().inputs.iter().position(|spec| spec.name == input) else {
        return Ok(()); // nothing asks for a frame
    };
    let stamp = Some(Stamp::from_nanos(REFERENCE + 200_000_000));
    let arrival = Arrival { stamp, ..Arrival::default() };
    pipeline.push(InputId::new(at), message, arrival).map(|_| ())
}

/// The means of x, y, z in the voxels of these points, in the tensor of the tick at the reference.
fn means(pipeline: &Pipeline, points: &[Point]) -> Vec<[f64; 3]> {
    let mut message = pipeline.new_message();
    let tick = pipeline.config().grid.tick_at(Stamp::from_nanos(REFERENCE));
    let outcome = pipeline.tick(tick, Epoch::default(), &mut message).unwrap();
    assert_eq!(outcome, TickOutcome::Ready);
    assert!(message.steps(SegmentId::new(0))[0].valid);
    let all = values(pipeline, &message, SegmentId::new(0));
    let of = |point: &Point| {
        let [x, y, z] = [10.0, 10.0, 0.0];
        let [i, j, k] = [point.truth[0] + x, point.truth[1] + y, point.truth[2] + z];
        let voxel = (k as usize * 20 + j as usize) * 20 + i as usize;
        [0, 1, 2].map(|channel| f64::from(all[channel * 1600 + voxel]))
    };
    points.iter().map(of).collect()
}

fn farthest(found: &[[f64; 3]], points: &[Point], place: fn(&Point) -> [f64; 3]) -> f64 {
    let distance = |(found, point): (&[f64; 3], &Point)| {
        let place = place(point);
        (0..3).map(|i| (found[i] - place[i]).powi(2)).sum::<f64>().sqrt()
    };
    found.iter().zip(points).map(distance).fold(0.0, f64::max)
}

/// The deskewed points of a stream with these keys. The motion comes from `tf`, or from an odometry.
fn deskewed(keys: &str, form: Form, by_tf: bool) -> (Golden, Vec<[f64; 3]>) {
    let golden = golden();
    let pipeline = pipeline(&config(keys));
    for (stamp, pose) in &golden.poses {
        match by_tf {
            true => push(&pipeline, "tf", &transform(*stamp, "odom", "base", pose)).unwrap(),
            false => push(&pipeline, "tf.odometry[0]", &odometry(*stamp, pose)).unwrap(),
        }
    }
    push(&pipeline, "tf_static", &transform(0, "base", "lidar", &MOUNT_TRANSFORM)).unwrap();
    push(&pipeline, "lidar", &cloud(&golden.points, form)).unwrap();
    let found = means(&pipeline, &golden.points);
    (golden, found)
}

#[test]
fn points_are_where_scipy_puts_them_and_where_they_are() {
    let (points, found) = {
        let keys = "t_base_sensor: tf\n    deskew: {fixed_frame: odom, sensor: ouster}";
        let (golden, found) = deskewed(keys, OUSTER, true);
        (golden.points, found)
    };
    let scipy = farthest(&found, &points, |p| p.expected);
    let truth = farthest(&found, &points, |p| p.truth);
    assert!(scipy < FROM_SCIPY_M && truth < FROM_TRUTH_M, "{scipy} m, {truth} m");
}

#[test]
fn every_convention_of_times_gives_the_same_points() {
    let explicit = |keys: &str| format!("deskew: {{fixed_frame: odom, {keys}, span_ms: [0, 100]}}");
    let seconds = |ns: i64| ((REFERENCE + ns) as f64 / 1e9).to_le_bytes().to_vec();
    let absolute = |ns: i64| ((REFERENCE + ns) as f64).to_le_bytes().to_vec();
    let of = |field, datatype, bytes| Form { field, datatype, bytes, ..OUSTER };
    let cases = [
        ("sensor: hesai".to_owned(), of("timestamp", 8, seconds)),
        ("sensor: livox".to_owned(), of("timestamp", 8, absolute)),
        (
            "time_field: time, time_unit: s".to_owned(),
            of("time", 7, |ns| (ns as f32 / 1e9).to_le_bytes().to_vec()),
        ),
        (
            "time_field: offset_time, time_unit: us".to_owned(),
            of("offset_time", 6, |ns| ((ns / 1000) as u32).to_le_bytes().to_vec()),
        ),
        ("sensor: ouster".to_owned(), Form { big_endian: true, ..OUSTER }),
        ("sensor: ouster".to_owned(), Form { wide: true, ..OUSTER }),
    ];
    for (keys, form) in cases {
        let keys = format!("t_base_sensor: {MOUNT}\n    {}", explicit(&keys));
        let (Golden { points, .. }, found) = deskewed(&keys, form, false);
        let scipy = farthest(&found, &points, |p| p.expected);
        assert!(scipy < FROM_SCIPY_M, "{keys}: {scipy} m");
    }
}

#[test]
fn points_that_are_not_deskewed_are_elsewhere() {
    // Such a test could fail: 100 ms of this motion are a quarter of a metre.
    let (golden, found) = deskewed(&format!("t_base_sensor: {MOUNT}"), OUSTER, true);
    assert!(farthest(&found, &golden.points, |p| p.truth) > 0.2);
}

#[test]
fn points_outside_of_the_span_are_dropped_and_counted() {
    let keys = format!(
        "t_base_sensor: {MOUNT}\n    deskew: {{fixed_frame: odom, sensor: ouster, span_ms: [0, 50]}}"
    );
    let golden = golden();
    let pipeline = pipeline(&config(&keys));
    for (stamp, pose) in &golden.poses {
        push(&pipeline, "tf", &transform(*stamp, "odom", "base", pose)).unwrap();
    }
    push(&pipeline, "lidar", &cloud(&golden.points, OUSTER)).unwrap();
    let later = golden.points.iter().filter(|point| point.time_ns > 50_000_000).count() as u64;
    let stats = pipeline.stats(robocache_core::spec::StreamId::new(0));
    let counts = [&stats.points_out_of_range, &stats.points_non_finite, &stats.points_outside];
    assert_eq!(counts.map(robocache_core::pipeline::Counter::get), [later, 0, 0]);
}

#[test]
fn a_cloud_waits_until_the_motion_covers_its_sweep() {
    let keys = format!("t_base_sensor: {MOUNT}\n    deskew: {{fixed_frame: odom, sensor: ouster}}");
    let golden = golden();
    let pipeline = pipeline(&config(&keys));
    let cloud = cloud(&golden.points, OUSTER);
    let mut waited = String::new();
    for (stamp, pose) in &golden.poses {
        let need = match push(&pipeline, "lidar", &cloud) {
            Err(NotTaken::Waits(need)) => need,
            Err(NotTaken::Dropped(rejected)) => panic!("{rejected}"),
            other => {
                let _ = write!(waited, "{} ms {other:?} ", (stamp - REFERENCE) / 1_000_000);
                break;
            }
        };
        push(&pipeline, "tf", &transform(*stamp, "odom", "base", pose)).unwrap();
        let settled = pipeline.is_settled(&need);
        // The span of the preset is 5 ms longer than the sweep.
        assert_eq!(settled, *stamp >= REFERENCE + 105_000_000, "{stamp}");
    }
    assert_eq!(waited, "110 ms Ok(()) ");
    let input = pipeline.config().inputs.iter().position(|spec| spec.name == "lidar").unwrap();
    let stats = pipeline.input_stats(InputId::new(input));
    assert_eq!((stats.received.get(), stats.accepted.get()), (1, 1));
}

#[test]
fn a_cloud_without_its_times_or_of_whole_numbers_is_dropped() {
    let keys =
        format!("t_base_sensor: {MOUNT}\n    deskew: {{fixed_frame: odom, sensor: velodyne}}");
    let golden = golden();
    let pipeline = pipeline(&config(&keys));
    for (stamp, pose) in &golden.poses {
        push(&pipeline, "tf", &transform(*stamp, "odom", "base", pose)).unwrap();
    }
    // A sweep of this sensor begins before the header's stamp.
    let still = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0];
    push(&pipeline, "tf", &transform(REFERENCE - 200_000_000, "odom", "base", &still)).unwrap();
    let error = push(&pipeline, "lidar", &cloud(&golden.points, OUSTER)).unwrap_err().to_string();
    assert_eq!(error, "expected field time, found [x, y, z, t]");
}

#[test]
fn rays_of_a_scan_have_times_too() {
    let keys = "deskew: {fixed_frame: odom, span_ms: [0, 105]}";
    let text = config(keys).replace("PointCloud2", "LaserScan");
    let pipeline = pipeline(&text);
    for k in 0..=21 {
        let pose = [0.005 * f64::from(k), 0.0, 0.0, 0.0, 0.0, 0.0, 1.0];
        push(
            &pipeline,
            "tf",
            &transform(REFERENCE + 5_000_000 * i64::from(k), "odom", "base", &pose),
        )
        .unwrap();
    }
    // Three rays ahead, 50 ms apart, while the robot drives at 1 m/s.
    let mut writer = Writer::new();
    writer.header(Stamp::from_nanos(REFERENCE), "base");
    for value in [0.0, 0.0, 0.0, 0.05, 0.1, 0.1, 30.0] {
        writer.f32(value);
    }
    writer.f32_sequence([5.5f32; 3].into_iter());
    writer.f32_sequence([].into_iter());
    push(&pipeline, "lidar", &writer.finish()).unwrap();
    let point = Point { seen: [0.0; 3], time_ns: 0, expected: [0.0; 3], truth: [5.55, 0.0, 0.0] };
    let found = means(&pipeline, std::slice::from_ref(&point));
    assert!(farthest(&found, &[point], |p| p.truth) < 1e-5, "{found:?}");
}

/// Radians per second about the axes of the IMU.
const TURN_RATE: [f64; 3] = [0.7, -0.4, 1.9];
/// Pose of the IMU in the base: the translation, and a turn about two axes.
const IMU: [f64; 7] = [0.2, -0.1, -0.3, 0.5, 0.5, 0.5, 0.5];
const GYRO: &str = "deskew: {gyro: /imu, sensor: ouster}";

fn imu(stamp: i64, rate: [f64; 3]) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.header(Stamp::from_nanos(stamp), "imu");
    writer.f64_array(&[0.0; 4 + 9]);
    writer.f64_array(&rate);
    writer.f64_array(&[0.0; 9 + 3 + 9]);
    writer.finish()
}

/// The rotation about this vector, by its length \[rad\].
fn rotation(vector: [f64; 3]) -> Transform {
    let angle = vector.iter().map(|value| value * value).sum::<f64>().sqrt();
    let [x, y, z] = vector.map(|value| value / angle * (angle / 2.0).sin());
    Transform::new([0.0; 3], [x, y, z, (angle / 2.0).cos()]).unwrap()
}

/// Points of a lidar at the base's origin, on a robot that turns about its IMU.
fn turning() -> Vec<Point> {
    let [x, y, z, rest @ ..] = IMU;
    let t_base_imu = Transform::new([x, y, z], rest).unwrap();
    let point = |k: i64| {
        // In the middle of a voxel of its own.
        let truth = [(k % 20) as f64 - 9.5, (k / 20 % 20) as f64 - 9.5, (k / 400) as f64 + 0.5];
        let time_ns = k * 7_919_777 % 100_000_000;
        let turned = rotation(TURN_RATE.map(|rate| rate * (time_ns + 1) as f64 / 1e9));
        let at_stamp = t_base_imu.inverse().apply(truth);
        let seen = t_base_imu.apply(turned.inverse().apply(at_stamp));
        Point { seen, time_ns, expected: truth, truth }
    };
    (0..1600).step_by(4).map(point).collect()
}

/// A pipeline that knows where the IMU is.
fn with_imu() -> Pipeline {
    let pipeline = pipeline(&config(GYRO));
    push(&pipeline, "tf_static", &transform(0, "base", "imu", &IMU)).unwrap();
    pipeline
}

#[test]
fn a_gyro_alone_turns_points_about_the_imu() {
    let points = turning();
    let pipeline = with_imu();
    let cloud = cloud(&points, OUSTER);
    assert!(matches!(push(&pipeline, "lidar", &cloud), Err(NotTaken::Waits(_))));
    for k in -2..=23 {
        push(&pipeline, "deskew.gyro[0]", &imu(REFERENCE + k * 5_000_000, TURN_RATE)).unwrap();
    }
    push(&pipeline, "lidar", &cloud).unwrap();
    let found = means(&pipeline, &points);
    let away = farthest(&found, &points, |point| point.truth);
    assert!(away < FROM_SCIPY_M, "{away} m");
    let skewed: Vec<[f64; 3]> = points.iter().map(|point| point.seen).collect();
    assert!(farthest(&skewed, &points, |point| point.truth) > 1.0, "the test could fail");
}

#[test]
fn one_absurd_message_of_a_gyro_changes_no_cloud() {
    let points = turning();
    for absurd in [1e200, 1e6, 200.0] {
        let pipeline = with_imu();
        let gyro = |at: i64, rate| push(&pipeline, "deskew.gyro[0]", &imu(REFERENCE + at, rate));
        for k in -20..=23 {
            // 2 ms after a true message, and in place of another one.
            let dropped = gyro(k * 5_000_000 + 2_000_000, [absurd, 0.0, 0.0]);
            let Err(NotTaken::Dropped(rejected)) = dropped else { panic!("{dropped:?}") };
            assert_eq!(rejected.reason, DropReason::OutOfRange, "{}", rejected.detail);
            gyro(k * 5_000_000, TURN_RATE).unwrap();
            if k == 10 {
                // A wrong stamp, as far ahead as a message may be.
                gyro(1_100_000_000, TURN_RATE).unwrap();
            }
        }
        push(&pipeline, "lidar", &cloud(&points, OUSTER)).unwrap();
        let away = farthest(&means(&pipeline, &points), &points, |point| point.truth);
        assert!(away < FROM_SCIPY_M, "{away} m");
    }
}

#[test]
fn two_wrong_messages_of_a_gyro_in_a_row_turn_no_point() {
    let points = turning();
    let pipeline = with_imu();
    let gyro = |at: i64, rate| push(&pipeline, "deskew.gyro[0]", &imu(REFERENCE + at, rate));
    for k in -20..=23 {
        for wrong in [1, 2] {
            let dropped = gyro(k * 5_000_000 - wrong * 1_000_000, [200.0, 0.0, 0.0]);
            let Err(NotTaken::Dropped(rejected)) = dropped else { panic!("{dropped:?}") };
            assert_eq!(rejected.reason, DropReason::OutOfRange, "{}", rejected.detail);
        }
        gyro(k * 5_000_000, TURN_RATE).unwrap();
    }
    push(&pipeline, "lidar", &cloud(&points, OUSTER)).unwrap();
    let away = farthest(&means(&pipeline, &points), &points, |point| point.truth);
    assert!(away < FROM_SCIPY_M, "{away} m");

    // Two stamps of the future confirm each other. The true messages are late then, and the cloud is dropped: the node
    // cannot know which clock is right.
    let pipeline = with_imu();
    let gyro = |at: i64, rate| push(&pipeline, "deskew.gyro[0]", &imu(REFERENCE + at, rate));
    for k in -20..=10 {
        gyro(k * 5_000_000, TURN_RATE).unwrap();
    }
    gyro(1_100_000_000, TURN_RATE).unwrap();
    gyro(1_105_000_000, TURN_RATE).unwrap();
    for k in 11..=23 {
        let dropped = gyro(k * 5_000_000, TURN_RATE);
        let Err(NotTaken::Dropped(rejected)) = dropped else { panic!("{dropped:?}") };
        assert_eq!(rejected.reason, DropReason::Late, "{}", rejected.detail);
    }
    let dropped = push(&pipeline, "lidar", &cloud(&points, OUSTER));
    let Err(NotTaken::Dropped(rejected)) = dropped else { panic!("{dropped:?}") };
    assert_eq!(rejected.reason, DropReason::NoTransform);
    let detail = &rejected.detail;
    assert!(detail.contains("\"gyro /imu\"") && detail.contains("found 1050 ms"), "{detail}");
}

#[test]
fn a_gyro_that_never_spoke_is_named() {
    let pipeline = with_imu();
    match push(&pipeline, "lidar", &cloud(&turning(), OUSTER)) {
        Err(NotTaken::Waits(need)) => {
            let detail = need.given_up(200.0).detail;
            assert!(detail.contains("two messages of the gyro /imu at most"), "{detail}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_gyro_with_a_gap_or_without_an_order_says_nothing() {
    let points = turning();
    let pipeline = with_imu();
    let gyro =
        |ms: i64, rate| push(&pipeline, "deskew.gyro[0]", &imu(REFERENCE + ms * 1_000_000, rate));
    let dropped = |result: Result<(), NotTaken>| match result {
        Err(NotTaken::Dropped(rejected)) => (rejected.reason, rejected.detail),
        other => panic!("{other:?}"),
    };
    gyro(-20, TURN_RATE).unwrap();
    gyro(20, TURN_RATE).unwrap();
    assert_eq!(dropped(gyro(10, TURN_RATE)).0, DropReason::Late);
    assert_eq!(dropped(gyro(20, TURN_RATE)).0, DropReason::Late);
    assert_eq!(dropped(gyro(30, [0.0, f64::NAN, 0.0])).0, DropReason::NonFinite);
    let whole = imu(REFERENCE + 30_000_000, TURN_RATE);
    for len in 0..whole.len() {
        let cut = push(&pipeline, "deskew.gyro[0]", &whole[..len]);
        assert_eq!(dropped(cut).0, DropReason::Malformed, "{len}");
    }
    let mut unknown = whole;
    let covariance = unknown.len() - 8 * (9 + 3 + 9);
    unknown[covariance..covariance + 8].copy_from_slice(&(-1.0f64).to_le_bytes());
    let drop = dropped(push(&pipeline, "deskew.gyro[0]", &unknown));
    assert_eq!(drop.0, DropReason::MissingField);
    // 51 ms without a message.
    gyro(71, TURN_RATE).unwrap();
    gyro(120, TURN_RATE).unwrap();
    let (reason, detail) = dropped(push(&pipeline, "lidar", &cloud(&points, OUSTER)));
    assert_eq!(reason, DropReason::NoTransform);
    assert!(
        detail.starts_with("\"gyro /imu\" in its parent") && detail.contains("found 51 ms"),
        "{detail}"
    );
}
