//! Messages, read back.

use super::{EPOCH, options};
use robocache_core::cdr::Reader;
use robocache_ops::time::Stamp;
use robocache_sim::{JOINT_NAMES, JOINTS, Robot, SensorMessage, Stream};

fn event(stream: Stream) -> SensorMessage {
    let stamp = EPOCH.offset(5_000_000);
    let send_at = EPOCH;
    SensorMessage { stream, seq: 1, sampled: EPOCH, stamp, send_at, due_ns: 0 }
}

/// A reader behind a header that has been checked.
fn open<'a>(message: &'a [u8], event: &SensorMessage) -> Reader<'a> {
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

        let next =
            robot.message(&SensorMessage { sampled: EPOCH.offset(33_333_333), ..e }, Vec::new());
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

    let mut on_ball = 0;
    let mut on_box = 0;
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
        // No ray passes through an object, and a point marked as an object is on its surface.
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
fn no_ray_misses_the_ball_over_minutes() {
    // The scan tries only the columns near a moving object. If these were too few, rays would pass
    // through the ball.
    let mut met = 0;
    let robot = Robot::new(options(|o| (o.lidar_rings, o.lidar_columns) = (16, 256))).unwrap();
    for i in 0..60 {
        let sampled = EPOCH.offset(i * 1_700_000_000);
        let message = robot.message(&SensorMessage { sampled, ..event(Stream::Lidar) }, Vec::new());
        let data = &message[message.len() - 1 - 16 * 256 * 20..message.len() - 1];
        for point in data.chunks_exact(20) {
            let value =
                |i: usize| f64::from(f32::from_le_bytes(point[4 * i..][..4].try_into().unwrap()));
            let p = [value(0), value(1), value(2)];
            let scene = robot.scene(sampled.offset((value(4) * 1e9).round() as i64));
            let length = p.iter().map(|v| v * v).sum::<f64>().sqrt();
            let along = (0..3).map(|i| p[i] / length * scene.ball_center[i]).sum::<f64>();
            let off = (scene.ball_center.iter().map(|v| v * v).sum::<f64>() - along * along).sqrt();
            let hits = off < scene.ball_radius - 1e-3 && along > 0.0;
            assert!(!hits || length < along, "ray to {p:?} passes through the ball");
            met += usize::from(hits);
        }
    }
    assert!(met > 3_000, "{met}");
}
