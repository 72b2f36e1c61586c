//! Joints and IMUs, and the stamps of their headers.

use robocache_core::cdr::messages::JointState;

use super::*;

/// The keys of a stream of joints.
fn joint_keys(rest: &str) -> String {
    format!("type: sensor_msgs/JointState, topic: /s, max_age_ms: 100, strategy: hold, {rest}")
}

/// Joints `ms` before [`NOW`]: their names, positions, velocities and efforts.
fn joints(ms: i64, name: &[&str], [position, velocity, effort]: [&[f64]; 3]) -> Vec<u8> {
    let stamp = NOW.offset(-ms * MS);
    JointState { stamp, frame_id: "", name, position, velocity, effort }.to_cdr(Vec::new())
}

/// The position of the joint `a`.
fn one(ms: i64, position: f64) -> Vec<u8> {
    joints(ms, &["a"], [&[position], &[], &[]])
}

/// An IMU: its orientation, the first number of that covariance, and its angular velocity.
fn imu(orientation: [f64; 4], covariance: f64, rate: [f64; 3]) -> Vec<u8> {
    let mut writer = begun(10, "base");
    writer.f64_array(&orientation);
    writer.f64_array(&[covariance, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
    for vector in [rate, [0.0, 0.0, 9.8]] {
        writer.f64_array(&vector);
        writer.f64_array(&[0.0; 9]);
    }
    writer.finish()
}

/// Replaces the seconds in the stamp of a message.
fn at_second(seconds: i32, mut message: Vec<u8>) -> Vec<u8> {
    message[4..8].copy_from_slice(&seconds.to_le_bytes());
    message
}

#[test]
fn names_and_missing_numbers() {
    use DropReason::{Malformed, MissingField, OutOfRange};
    const NAN: f64 = f64::NAN;
    let kuka = ["j1", "j2", "j4", "j5", "j3", "j6"];
    let kuka_positions = [0.1, 0.2, 0.4, 0.5, 0.3, 0.6];
    let both = joint_keys("fields: [position, velocity], joints: [a, b]");
    let every_third = |ms: i64, number: f64| {
        let velocity = [10.0 * number; 2];
        let velocity: &[f64] = if ms % 30 == 0 { &[] } else { &velocity };
        joints(ms, &["a", "b"], [&[number; 2], velocity, &[NAN; 2]])
    };
    let seven = ["a", "b", "c", "d", "e", "f", "g"];
    let imu_keys = |fields: &str| {
        format!(
            "type: sensor_msgs/Imu, topic: /s, max_age_ms: 100, strategy: hold, fields: [{fields}]"
        )
    };
    let unoriented = || to_s([imu([0.0; 4], -1.0, [1.0, 2.0, 3.0])]);
    check(vec![
        case(
            "kuka_drivers#254",
            joint_keys("joints: [j1, j2, j3, j4, j5, j6]"),
            to_s([joints(10, &kuka, [&kuka_positions, &[NAN; 6], &[NAN; 6]])]),
            value([0.1, 0.2, 0.3, 0.4, 0.5, 0.6]),
        ),
        // The message at 60 ms and the last one have no velocity. The value is that of 40 ms.
        case(
            "clearpath_robot#222, iiwa_stack#156",
            both,
            to_s([(60, 1.0), (50, 2.0), (40, 3.0), (30, 4.0)].map(|(ms, n)| every_third(ms, n))),
            Answer { drops: vec![MissingField; 2], ..value([3.0, 3.0, 30.0, 30.0]) },
        ),
        case(
            "ros_gz#135, topic_based#101",
            joint_keys("joints: [a]"),
            to_s([joints(10, &seven, [&[0.5; 6], &[], &[]])]),
            dropped(&[Malformed]),
        ),
        case(
            "ros_canopen#60",
            joint_keys("fields: [effort], joints: [a]"),
            to_s([joints(10, &["a"], [&[], &[], &[2.89e-321]])]),
            value([0.0]),
        ),
        case(
            "ros_canopen#60",
            joint_keys("fields: [effort], joints: [a]"),
            to_s([joints(10, &["a"], [&[], &[], &[1e224]])]),
            dropped(&[OutOfRange]),
        ),
        case(
            "imu_tools#86, mola_imu#11",
            imu_keys("orientation"),
            unoriented(),
            dropped(&[MissingField]),
        ),
        case(
            "imu_tools#86, mola_imu#11",
            imu_keys("angular_velocity"),
            unoriented(),
            value([1.0, 2.0, 3.0]),
        ),
    ]);
}

#[test]
fn stamps() {
    let keys = || joint_keys("joints: [a]");
    check(vec![
        // Twice the time, which int32 does not hold: a year in the past century.
        case(
            "realsense-ros#1678",
            keys(),
            to_s([at_second(-1_069_394_495, one(10, 1.0))]),
            dropped(&[DropReason::BadStamp]),
        ),
        case(
            "realsense-ros#1678",
            keys(),
            to_s([one(10, 1.0), at_second(-1_069_394_495, one(10, 2.0))]),
            Answer { drops: vec![DropReason::BadStamp], ..value([1.0]) },
        ),
        // Ten messages of one stamp: the last one counts (docs/time.md).
        case(
            "zed-ros2-wrapper#613, pronto#54",
            keys(),
            to_s((0..10).map(|number| one(10, f64::from(number)))),
            value([9.0]),
        ),
    ]);
}
