//! The synthetic robot: its truth is consistent, its schedule has the faults asked for, and its
//! messages say what the truth says.

use robocache::cdr::Reader;
use robocache::sim::*;
use robocache::time::{NANOS_PER_MS, NANOS_PER_S, Stamp};
use std::collections::HashMap;
use std::ffi::OsString;

/// An instant of this century: where precision would be lost first.
const EPOCH: Stamp = Stamp::from_nanos(1_795_000_000_123_456_789);

fn options(change: impl FnOnce(&mut SimOptions)) -> SimOptions {
    let mut options = SimOptions { duration: 1.0, ..SimOptions::default() };
    change(&mut options);
    options
}

/// Instants over some seconds, on no grid.
fn instants(count: i64) -> impl Iterator<Item = Stamp> {
    (0..count).map(|i| EPOCH.offset(i * 7_919_993))
}

/// All scalar signals at an instant, in the order of [`curvatures`].
fn signals(truth: &Truth, t: Stamp) -> Vec<f64> {
    let (joints, imu, odometry) = (truth.joints(t), truth.imu(t), truth.odometry(t));
    let twist = truth.twist(t);
    [
        &joints.position[..],
        &joints.velocity,
        &joints.effort,
        &truth.wrench(t),
        &imu.angular_velocity,
        &imu.linear_acceleration,
        &truth.pose(t).position,
        &twist.linear,
        &twist.angular,
        &odometry.0.position,
        &odometry.1.linear,
        &odometry.1.angular,
    ]
    .concat()
}

fn curvatures(truth: &Truth) -> Vec<f64> {
    let c = truth.curvature();
    [
        &c.joints.position[..],
        &c.joints.velocity,
        &c.joints.effort,
        &c.wrench,
        &c.imu_angular_velocity,
        &c.imu_linear_acceleration,
        &c.pose_position,
        &c.twist.linear,
        &c.twist.angular,
        &c.odometry_position,
        &c.odometry_twist.linear,
        &c.odometry_twist.angular,
    ]
    .concat()
}

#[test]
fn joint_velocity_is_the_derivative_of_position_at_epoch_sized_stamps() {
    let truth = Truth::new(3);
    const HALF: i64 = 50_000; // 50 us
    for t in instants(500) {
        let (before, now, after) =
            (truth.joints(t.offset(-HALF)), truth.joints(t), truth.joints(t.offset(HALF)));
        for i in 0..JOINTS {
            let slope = (after.position[i] - before.position[i]) / (2.0 * HALF as f64 * 1e-9);
            assert!((slope - now.velocity[i]).abs() < 1e-5, "joint {i} at {t}");
        }
    }
}

#[test]
fn twists_are_the_derivatives_of_poses_and_imu_rates_of_its_orientation() {
    let truth = Truth::new(4);
    const HALF: i64 = 100_000;
    let seconds = 2.0 * HALF as f64 * 1e-9;
    for t in instants(300) {
        let (a, b) = (t.offset(-HALF), t.offset(HALF));
        let (pose, twist) = (truth.pose(t), truth.twist(t));
        let (pose_a, pose_b) = (truth.pose(a), truth.pose(b));
        let slope = difference(pose_b.position, pose_a.position).map(|d| d / seconds);
        assert_near(slope, twist.linear, 1e-6);
        // Small turn from a to b, in the body's frame: 2 * vec(conj(qa) * qb).
        let turn = |qa, qb| rotation_vector(product(conjugate(qa), qb)).map(|d| d / seconds);
        let body = turn(pose_a.orientation, pose_b.orientation);
        assert_near(rotate(pose.orientation, body), twist.angular, 1e-6);

        let imu = truth.imu(t);
        let rates = turn(truth.imu(a).orientation, truth.imu(b).orientation);
        assert_near(rates, imu.angular_velocity, 1e-6);

        let ((odom_a, _), (odom, twist), (odom_b, _)) =
            (truth.odometry(a), truth.odometry(t), truth.odometry(b));
        let slope = difference(odom_b.position, odom_a.position).map(|d| d / seconds);
        assert_near(slope, rotate(odom.orientation, twist.linear), 1e-6);
        assert_near(turn(odom_a.orientation, odom_b.orientation), twist.angular, 1e-6);
    }
}

#[test]
fn the_accelerometer_feels_gravity_upwards() {
    let truth = Truth::new(5);
    for t in instants(300) {
        let imu = truth.imu(t);
        let norm = imu.orientation.iter().map(|v| v * v).sum::<f64>();
        assert!((norm - 1.0).abs() < 1e-12);
        let world = rotate(imu.orientation, imu.linear_acceleration);
        // The rest is the sensor's own motion: 5 cm at 1.5 Hz at most.
        let motion = 0.05 * (std::f64::consts::TAU * 1.5).powi(2);
        assert_near(world, [0.0, 0.0, GRAVITY], motion);
    }
}

#[test]
fn linear_interpolation_errs_within_the_curvature_bounds_and_they_are_not_idle() {
    let truth = Truth::new(6);
    let bounds = curvatures(&truth);
    const GAP: i64 = 20 * NANOS_PER_MS;
    let scale = (GAP as f64 * 1e-9).powi(2) / 8.0;
    let mut worst = vec![0.0f64; bounds.len()];
    for t in instants(4000) {
        let (a, b) = (signals(&truth, t), signals(&truth, t.offset(GAP)));
        let middle = signals(&truth, t.offset(GAP / 2));
        for (i, worst) in worst.iter_mut().enumerate() {
            *worst = worst.max((0.5 * (a[i] + b[i]) - middle[i]).abs());
        }
    }
    for (i, (worst, bound)) in worst.iter().zip(&bounds).enumerate() {
        assert!(*worst <= scale * bound + 1e-12, "signal {i}: {worst} > {}", scale * bound);
        // A bound far from what happens would let wrong values pass.
        let constant = *bound < 1e-12;
        assert!(constant || *worst >= 0.03 * scale * bound, "signal {i}: {worst}, {bound}");
    }
}

#[test]
fn slerp_errs_within_the_angular_acceleration_bound() {
    let truth = Truth::new(7);
    let curvature = truth.curvature();
    const GAP: i64 = 20 * NANOS_PER_MS;
    let scale = (GAP as f64 * 1e-9).powi(2) / 8.0;
    let errors = |orientation: &dyn Fn(Stamp) -> [f64; 4]| {
        instants(3000).fold(0.0f64, |worst, t| {
            // Half way, slerp is the normalised sum.
            let (a, b) = (orientation(t), orientation(t.offset(GAP)));
            let sum: [f64; 4] = std::array::from_fn(|i| a[i] + b[i]);
            let norm = sum.iter().map(|v| v * v).sum::<f64>().sqrt();
            let middle = orientation(t.offset(GAP / 2));
            let error = rotation_vector(product(conjugate(middle), sum.map(|v| v / norm)));
            worst.max(error.iter().map(|v| v * v).sum::<f64>().sqrt())
        })
    };
    for (worst, bound) in [
        (errors(&|t| truth.imu(t).orientation), curvature.imu_orientation),
        (errors(&|t| truth.pose(t).orientation), curvature.pose_orientation),
        (errors(&|t| truth.odometry(t).0.orientation), curvature.odometry_orientation),
    ] {
        assert!(worst <= 1.01 * scale * bound, "{worst} > {}", scale * bound);
        assert!(worst >= 0.03 * scale * bound, "{worst} is far below {}", scale * bound);
    }
}

#[test]
fn the_wrench_stays_within_its_limits_and_gets_near_them() {
    let truth = Truth::new(8);
    let limits = truth.wrench_limits();
    let mut worst = [0.0f64; 6];
    for t in instants(5000) {
        for (worst, value) in worst.iter_mut().zip(truth.wrench(t)) {
            *worst = worst.max(value.abs());
        }
    }
    for (worst, limit) in worst.iter().zip(limits) {
        assert!(*worst <= limit && *worst > 0.8 * limit, "{worst} of {limit}");
    }
}

fn run(options: SimOptions, start: Stamp) -> Vec<(Event, Vec<u8>)> {
    let robot = Robot::new(options).unwrap();
    robot.schedule(start).map(|event| (event, robot.message(&event, Vec::new()))).collect()
}

fn small(change: impl FnOnce(&mut SimOptions)) -> SimOptions {
    options(|o| {
        (o.image_width, o.image_height, o.lidar_rings, o.lidar_columns) = (64, 48, 16, 64);
        (o.pose_hz, o.twist_hz, o.odom_hz) = (50.0, 50.0, 50.0);
        change(o);
    })
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_seed_others() {
    let faulty = |o: &mut SimOptions| {
        (o.send_jitter_ms, o.stamp_jitter_ms) = (3.0, 1.0);
        (o.drop_share, o.reorder_share) = (0.1, 0.1);
    };
    let first = run(small(faulty), EPOCH);
    assert!(first.len() > 1000);
    assert_eq!(first, run(small(faulty), EPOCH));
    let other = run(
        small(|o| {
            faulty(o);
            o.seed = 1;
        }),
        EPOCH,
    );
    assert_ne!(first, other);
}

#[test]
fn runs_share_their_messages_wherever_they_start_and_whatever_else_is_published() {
    let faulty = |o: &mut SimOptions| (o.stamp_jitter_ms, o.drop_share) = (1.0, 0.2);
    let key =
        |(event, bytes): (Event, Vec<u8>)| ((event.stream, event.seq), (event.sampled, bytes));
    let first: HashMap<_, _> = run(small(faulty), EPOCH).into_iter().map(key).collect();
    let later = small(|o| {
        faulty(o);
        (o.camera_front_hz, o.joints_hz) = (0.0, 0.0);
    });
    let later = run(later, EPOCH.offset(400 * NANOS_PER_MS));
    let shared = later.into_iter().map(key).filter(|(key, _)| first.contains_key(key));
    let mut count = 0;
    for (key, message) in shared {
        assert_eq!(first[&key], message);
        count += 1;
    }
    assert!(count > 300, "{count}");
}

#[test]
fn without_faults_every_grid_instant_has_its_message_in_order() {
    let events: Vec<_> = Schedule::new(&options(|_| ()), EPOCH).collect();
    assert!(events.is_sorted_by_key(|e| e.due_ns));
    for (stream, count) in
        [(Stream::Joints, 500), (Stream::Imu, 200), (Stream::Lidar, 10), (Stream::CameraWrist, 30)]
    {
        let of_stream: Vec<_> = events.iter().filter(|e| e.stream == stream).collect();
        assert_eq!(of_stream.len(), count, "{stream:?}");
        let period = options(|_| ()).grid(stream).unwrap().period_ns();
        for event in of_stream {
            assert_eq!(event.stamp.nanos(), event.seq * period);
            assert_eq!((event.sampled, event.send_at), (event.stamp, event.stamp));
            assert_eq!(event.due_ns, event.stamp.since(EPOCH));
            assert!((0..NANOS_PER_S).contains(&event.due_ns));
        }
    }
    assert!(events.iter().all(|e| e.stream != Stream::Clock && e.stream != Stream::Pose));
}

#[test]
fn jitter_keeps_within_its_bounds_and_a_stream_in_order() {
    for shape in [JitterShape::Uniform, JitterShape::Normal] {
        let jittery = options(|o| {
            (o.send_jitter_ms, o.stamp_jitter_ms, o.jitter_shape) = (8.0, 0.5, shape);
        });
        let mut last: HashMap<Stream, (i64, Stamp)> = HashMap::new();
        let mut spread = 0;
        for event in Schedule::new(&jittery, EPOCH) {
            let period = jittery.grid(event.stream).unwrap().period_ns();
            let off = event.sampled.nanos() - event.seq * period;
            assert!(off.abs() <= 500_000);
            spread = spread.max(off.abs());
            assert_eq!(event.stamp, event.sampled);
            if let Some((due_ns, stamp)) = last.insert(event.stream, (event.due_ns, event.stamp)) {
                assert!(due_ns <= event.due_ns && stamp < event.stamp, "{event:?}");
            }
            let delay = event.send_at.since(event.sampled);
            // A sample from just before the start is sent at the start, at 0.5 ms of delay.
            assert!((0..=8 * NANOS_PER_MS + 500_000).contains(&delay), "{event:?}");
        }
        assert!(spread > 400_000, "{shape:?}: {spread}");
    }
}

#[test]
fn stamps_stay_in_order_under_a_jitter_beyond_the_period() {
    let jittery = options(|o| o.stamp_jitter_ms = 1000.0);
    let stamps = Schedule::of_streams(&jittery, EPOCH, &[Stream::Joints]).map(|e| e.stamp);
    assert!(stamps.is_sorted_by(|a, b| a < b));
}

#[test]
fn drops_and_swaps_have_their_shares_and_are_counted() {
    let faulty = options(|o| {
        (o.drop_share, o.reorder_share, o.duration) = (0.2, 0.1, 20.0);
    });
    let mut schedule = Schedule::of_streams(&faulty, EPOCH, &[Stream::Joints]);
    let events: Vec<_> = schedule.by_ref().collect();
    let faults = schedule.faults(Stream::Joints);
    assert_eq!(events.len() as u64 + faults.dropped, 10_000);
    assert!((1_850..2_150).contains(&faults.dropped), "{faults:?}");
    let swapped = events.windows(2).filter(|pair| pair[0].seq > pair[1].seq);
    let swapped = swapped.inspect(|pair| assert_eq!(pair[0].due_ns, pair[1].due_ns)).count();
    assert_eq!(swapped as u64, faults.reordered);
    assert!((600..850).contains(&faults.reordered), "{faults:?}");
    // Nothing is sent before it is sampled.
    assert!(events.iter().all(|e| e.send_at >= e.sampled));
}

#[test]
fn skew_moves_the_stamps_of_one_sensor_and_nothing_else() {
    let skewed = options(|o| {
        (o.skew_stream, o.skew_ms, o.skew_ppm) = (Some(Stream::Imu), -5.0, 1000.0);
    });
    let plain: Vec<_> = Schedule::new(&options(|_| ()), EPOCH).collect();
    let events: Vec<_> = Schedule::new(&skewed, EPOCH).collect();
    assert_eq!(plain.len(), events.len());
    for (plain, event) in plain.iter().zip(&events) {
        let off = event.stamp.since(event.sampled);
        assert_eq!(Event { stamp: plain.stamp, ..*event }, *plain);
        let since_start = event.sampled.since(EPOCH);
        let expected =
            if event.stream == Stream::Imu { -5_000_000 + since_start / 1000 } else { 0 };
        assert!((off - expected).abs() <= 1, "{event:?}");
    }
}

#[test]
fn the_clock_jumps_back_once_and_the_same_messages_come_again() {
    let start = Stamp::from_nanos(10 * NANOS_PER_S);
    let jumping = small(|o| {
        (o.clock, o.jump_back_at, o.jump_back_by, o.duration) = (true, Some(2.0), 1.5, 4.0);
        (o.send_jitter_ms, o.reorder_share) = (5.0, 0.1);
    });
    let events = run(jumping, start);
    assert!(events.is_sorted_by_key(|(e, _)| e.due_ns));
    let clock: Vec<_> = events.iter().filter(|(e, _)| e.stream == Stream::Clock).collect();
    assert_eq!(clock.len(), 4000);
    let steps: Vec<_> = clock.windows(2).map(|w| w[1].0.stamp.since(w[0].0.stamp)).collect();
    assert_eq!(steps.iter().filter(|step| **step != NANOS_PER_MS).count(), 1);
    assert_eq!(steps[1999], -1_499 * NANOS_PER_MS);
    assert_eq!(clock[3999].0.stamp.nanos(), 12_499 * NANOS_PER_MS);

    let mut seen: HashMap<(Stream, i64), (Stamp, &[u8])> = HashMap::new();
    let mut again = 0;
    for (event, bytes) in &events {
        let before = event.due_ns <= 2 * NANOS_PER_S && event.send_at.nanos() > 11 * NANOS_PER_S;
        let at = if before || event.due_ns < 2 * NANOS_PER_S { 0 } else { 1_500 * NANOS_PER_MS };
        assert_eq!(event.send_at.nanos(), start.nanos() + event.due_ns - at, "{event:?}");
        let message = (event.sampled, bytes.as_slice());
        if let Some(earlier) = seen.insert((event.stream, event.seq), message) {
            assert_eq!(earlier, message);
            again += 1;
        }
    }
    assert!(again > 3000, "{again}");
}

/// A clock that tests wind forward.
struct Stepping(std::cell::Cell<i64>);

impl Pace for Stepping {
    fn now_ns(&self) -> i64 {
        self.0.get()
    }
    fn real_ns(&self, ns: i64) -> i64 {
        ns
    }
}

#[test]
fn a_busy_machine_sends_late_then_skips_and_counts_both() {
    let robot = Robot::new(options(|o| o.duration = 0.4)).unwrap();
    let schedule = Schedule::of_streams(robot.options(), EPOCH, &[Stream::Wrench]);
    // Time stands at 0.2 s before the first message and never moves on by itself.
    let pace = Stepping((200 * NANOS_PER_MS).into());
    let stop = std::sync::atomic::AtomicBool::new(false);
    let report = drive(&robot, schedule, &pace, &stop, |event, _| {
        pace.0.set(pace.0.get().max(event.due_ns + 2 * NANOS_PER_MS));
        Ok::<_, ()>(())
    });
    let wrench = report.unwrap()["wrench"];
    assert_eq!((wrench.sent + wrench.skipped, wrench.dropped), (200, 0));
    assert!((49..=51).contains(&wrench.skipped), "{wrench:?}");
    assert!((48..=52).contains(&wrench.late), "{wrench:?}");
}

#[test]
fn a_stop_and_a_failed_publish_end_the_run() {
    let robot = Robot::new(options(|o| o.duration = 0.0)).unwrap();
    let schedule = || Schedule::of_streams(robot.options(), EPOCH, &[Stream::Joints]);
    let stop = std::sync::atomic::AtomicBool::new(false);
    let pace = Stepping((2 * NANOS_PER_MS).into());
    let mut sent = 0;
    let report = drive(&robot, schedule(), &pace, &stop, |event, _| {
        sent += 1;
        pace.0.set(event.due_ns + 2 * NANOS_PER_MS);
        stop.store(sent == 5, std::sync::atomic::Ordering::Relaxed);
        Ok::<_, ()>(())
    });
    assert_eq!(report.unwrap()["joints"].sent, 5);
    stop.store(false, std::sync::atomic::Ordering::Relaxed);
    let report = drive(&robot, schedule(), &pace, &stop, |_, _| Err("gone"));
    assert_eq!(report, Err("gone"));
}

fn event(stream: Stream) -> Event {
    let (stamp, send_at) = (EPOCH.offset(5_000_000), EPOCH);
    Event { stream, seq: 1, sampled: EPOCH, stamp, send_at, due_ns: 0 }
}

/// A reader behind a header that has been checked.
fn open<'a>(message: &'a [u8], event: &Event) -> Reader<'a> {
    let mut reader = Reader::new(message).unwrap();
    let stamp = Stamp::from_sec_nanosec(reader.i32().unwrap(), reader.u32().unwrap());
    assert_eq!(stamp, Some(event.stamp));
    assert_eq!(reader.string_bytes().unwrap(), event.stream.frame_id().as_bytes());
    reader
}

fn f64s<const N: usize>(reader: &mut Reader) -> [f64; N] {
    std::array::from_fn(|_| reader.f64().unwrap())
}

#[test]
fn messages_hold_the_truth_at_the_sampling_instant_and_the_stamp_of_the_header() {
    let robot = Robot::new(options(|_| ())).unwrap();
    let truth = robot.truth();
    let e = event(Stream::Joints);
    // A used buffer must leave nothing behind.
    let message = robot.message(&e, vec![7; 100_000]);
    let mut reader = open(&message, &e);
    assert_eq!(reader.u32(), Ok(14));
    for name in JOINT_NAMES {
        assert_eq!(reader.string_bytes().unwrap(), name.as_bytes());
    }
    let joints = truth.joints(EPOCH);
    for expected in [joints.position, joints.velocity, joints.effort] {
        let values = reader.f64_sequence().unwrap();
        assert_eq!(values.len(), JOINTS);
        (0..JOINTS).for_each(|i| assert_eq!(values.get(i), Some(expected[i])));
    }
    assert!(reader.u8().is_err());

    let e = event(Stream::Wrench);
    let message = robot.message(&e, Vec::new());
    assert_eq!(f64s(&mut open(&message, &e)), truth.wrench(EPOCH));

    let e = event(Stream::Imu);
    let message = robot.message(&e, Vec::new());
    let reader = &mut open(&message, &e);
    let imu = truth.imu(EPOCH);
    assert_eq!((f64s(reader), f64s(reader)), (imu.orientation, [0.0; 9]));
    assert_eq!((f64s(reader), f64s(reader)), (imu.angular_velocity, [0.0; 9]));
    assert_eq!((f64s(reader), f64s(reader)), (imu.linear_acceleration, [0.0; 9]));

    let e = event(Stream::Odom);
    let message = robot.message(&e, Vec::new());
    let reader = &mut open(&message, &e);
    assert_eq!(reader.string_bytes(), Ok(&b"base"[..]));
    let (pose, twist) = truth.odometry(EPOCH);
    assert_eq!((f64s(reader), f64s(reader)), (pose.position, pose.orientation));
    assert_eq!(f64s(reader), [0.0; 36]);
    assert_eq!((f64s(reader), f64s(reader)), (twist.linear, twist.angular));
}

#[test]
fn images_show_their_shapes_where_the_truth_has_them() {
    let robot = Robot::new(options(|_| ())).unwrap();
    for (stream, view) in [
        (Stream::CameraFront, robot.view_front(EPOCH)),
        (Stream::CameraWrist, robot.view_wrist(EPOCH)),
    ] {
        let e = event(stream);
        let message = robot.message(&e, Vec::new());
        let mut reader = open(&message, &e);
        assert_eq!((reader.u32(), reader.u32()), (Ok(480), Ok(640)));
        assert_eq!(reader.string_bytes(), Ok(&b"rgb8"[..]));
        assert_eq!((reader.u8(), reader.u32()), (Ok(0), Ok(1920)));
        let pixels = reader.bytes().unwrap();
        assert_eq!(pixels.len(), 640 * 480 * 3);
        assert!(reader.u8().is_err());
        // The last shape is in front of all others.
        let shape = view.shapes.last().unwrap();
        let [x, y] = shape.center.map(|c| c as usize);
        assert_eq!(pixels[(y * 640 + x) * 3..][..3], shape.color);
        let area = pixels.chunks_exact(3).filter(|pixel| *pixel == shape.color).count() as f64;
        let expected = 4.0 * shape.half[0] * shape.half[1];
        assert!(area >= 0.9 * expected, "{area} of {expected}");

        let next = robot.message(&Event { sampled: EPOCH.offset(33_333_333), ..e }, Vec::new());
        let changed = message.iter().zip(&next).filter(|(a, b)| a != b).count();
        assert!(changed > 3_000, "{changed}");
    }
}

#[test]
fn lidar_points_lie_on_what_the_scene_has_at_their_own_time() {
    let robot = Robot::new(options(|_| ())).unwrap();
    let e = event(Stream::Lidar);
    let message = robot.message(&e, Vec::new());
    let mut reader = open(&message, &e);
    assert_eq!((reader.u32(), reader.u32(), reader.u32()), (Ok(128), Ok(1024), Ok(5)));
    for (i, name) in ["x", "y", "z", "intensity", "time"].iter().enumerate() {
        assert_eq!(reader.string_bytes().unwrap(), name.as_bytes());
        assert_eq!(reader.u32(), Ok(4 * i as u32));
        assert_eq!((reader.u8(), reader.u32()), (Ok(7), Ok(1)));
    }
    assert_eq!((reader.u8(), reader.u32(), reader.u32()), (Ok(0), Ok(20), Ok(20 * 1024)));
    let data = reader.bytes().unwrap();
    assert_eq!(data.len(), 131_072 * 20);
    assert_eq!(reader.u8(), Ok(1));

    let (mut on_ball, mut on_box) = (0, 0);
    for point in data.chunks_exact(20) {
        let value =
            |i: usize| f64::from(f32::from_le_bytes(point[4 * i..][..4].try_into().unwrap()));
        let [x, y, z, intensity, time] = [0, 1, 2, 3, 4].map(value);
        assert!(x.hypot(y) < 15.0 && z.abs() < 5.0 && (-0.1..=0.0).contains(&time));
        let scene = robot.scene(EPOCH.offset((time * 1e9).round() as i64));
        let [bx, by, bz] = scene.ball_center;
        let to_ball = ((x - bx).powi(2) + (y - by).powi(2) + (z - bz).powi(2)).sqrt();
        let boxed = scene.moving_box;
        let p = [x, y, z];
        let beyond = (0..3).map(|i| (p[i] - boxed.center[i]).abs() - boxed.half[i]);
        let to_box = beyond.fold(f64::NEG_INFINITY, f64::max);
        // No ray passes through anything, and what is marked as an object lies on its surface.
        assert!(to_ball > scene.ball_radius - 1e-5 && to_box > -1e-5);
        if intensity == 200.0 {
            on_ball += 1;
            assert!(to_ball < scene.ball_radius + 1e-5);
        } else if intensity == 90.0 {
            on_box += 1;
            assert!(to_box < 1e-5);
        }
    }
    assert!(on_ball > 500 && on_box > 500, "{on_ball} on the ball, {on_box} on the box");
}

#[test]
fn no_ray_misses_the_moving_things_over_minutes() {
    // Columns at the edges of the searched window must be empty of them: a window too narrow
    // would cut the ball. Its silhouette is compared with a count over all rays.
    let robot = Robot::new(options(|o| (o.lidar_rings, o.lidar_columns) = (16, 256))).unwrap();
    for i in 0..60 {
        let sampled = EPOCH.offset(i * 1_700_000_000);
        let message = robot.message(&Event { sampled, ..event(Stream::Lidar) }, Vec::new());
        let data = &message[message.len() - 1 - 16 * 256 * 20..message.len() - 1];
        for point in data.chunks_exact(20) {
            let value =
                |i: usize| f64::from(f32::from_le_bytes(point[4 * i..][..4].try_into().unwrap()));
            let p = [value(0), value(1), value(2)];
            let scene = robot.scene(sampled.offset((value(4) * 1e9).round() as i64));
            let length = p.iter().map(|v| v * v).sum::<f64>().sqrt();
            let along = (0..3).map(|i| p[i] / length * scene.ball_center[i]).sum::<f64>();
            let off = (scene.ball_center.iter().map(|v| v * v).sum::<f64>() - along * along).sqrt();
            let hits = off < scene.ball_radius - 1e-3 && along < length;
            assert!(!hits || length < along, "ray to {p:?} passes through the ball");
        }
    }
}

#[test]
fn options_out_of_range_say_what_was_expected() {
    let error = |change: fn(&mut SimOptions)| Robot::new(options(change)).unwrap_err().to_string();
    assert_eq!(
        error(|o| o.joints_hz = -1.0),
        "--joints-hz: expected 0, or 0.01 to 20000 Hz, found -1"
    );
    assert_eq!(
        error(|o| o.lidar_hz = f64::NAN),
        "--lidar-hz: expected 0, or 0.01 to 20000 Hz, found NaN"
    );
    assert_eq!(error(|o| o.drop_share = 1.0), "--drop-share: expected 0 to below 1, found 1");
    assert_eq!(error(|o| o.speed = 2.0), "--speed: expected 1 without --clock, found 2");
    assert_eq!(
        error(|o| o.skew_ms = 5.0),
        "--skew-stream: expected the stream that the skew is for, found none"
    );
    assert_eq!(error(|o| o.image_width = 5), "--image-width: expected 16 to 4096, found 5");
    let back = |o: &mut SimOptions| {
        (o.clock, o.clock_start_s, o.jump_back_at, o.jump_back_by) = (true, 1, Some(2.0), 4.0);
    };
    let error = Robot::new(options(back)).unwrap_err().to_string();
    assert_eq!(error, "--jump-back-by: expected no further than time 0, found 4");
}

#[test]
fn the_command_line_has_the_same_defaults_and_leaves_ros_arguments_alone() {
    #[derive(clap::Parser)]
    struct Cli {
        #[command(flatten)]
        options: SimOptions,
    }
    let parse = |line: &str| {
        let arguments = line.split_whitespace().map(OsString::from);
        <Cli as clap::Parser>::try_parse_from(without_ros_arguments(arguments))
            .map(|cli| cli.options)
    };
    assert_eq!(parse("sim").unwrap(), SimOptions::default());
    let line = "sim --joints-hz 1000 --ros-args -r __ns:=/a -p use_sim_time:=true -- --clock \
                --speed 2 --jump-back-at 3 --skew-ms -5 --skew-stream camera_front";
    let expected = SimOptions {
        joints_hz: 1000.0,
        clock: true,
        speed: 2.0,
        jump_back_at: Some(3.0),
        skew_ms: -5.0,
        skew_stream: Some(Stream::CameraFront),
        ..SimOptions::default()
    };
    assert_eq!(parse(line).unwrap(), expected);
    assert!(parse("sim --jump-back-at 3").is_err());
    assert!(parse("sim --reliability sometimes").is_err());
}

fn difference(a: [f64; 3], b: [f64; 3]) -> [f64; 3] {
    std::array::from_fn(|i| a[i] - b[i])
}

fn assert_near(a: [f64; 3], b: [f64; 3], tolerance: f64) {
    let near = difference(a, b).iter().all(|d| d.abs() <= tolerance);
    assert!(near, "{a:?} is not {b:?} within {tolerance}");
}

fn conjugate([x, y, z, w]: [f64; 4]) -> [f64; 4] {
    [-x, -y, -z, w]
}

/// Hamilton's product.
fn product([ax, ay, az, aw]: [f64; 4], [bx, by, bz, bw]: [f64; 4]) -> [f64; 4] {
    [
        aw * bx + ax * bw + ay * bz - az * by,
        aw * by - ax * bz + ay * bw + az * bx,
        aw * bz + ax * by - ay * bx + az * bw,
        aw * bw - ax * bx - ay * by - az * bz,
    ]
}

/// Of a small rotation.
fn rotation_vector([x, y, z, w]: [f64; 4]) -> [f64; 3] {
    [x, y, z].map(|v| 2.0 * v * w.signum())
}

fn rotate(q: [f64; 4], [x, y, z]: [f64; 3]) -> [f64; 3] {
    let [x, y, z, _] = product(product(q, [x, y, z, 0.0]), conjugate(q));
    [x, y, z]
}
