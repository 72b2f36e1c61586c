//! The synthetic robot, whose cameras and IMU have a hidden skew.

use super::super::motion::MotionReader;
use super::super::*;
use robocache_core::config;
use robocache_ops::time::Stamp;
use robocache_sim::{JOINT_NAMES, Robot, Schedule, SimOptions, Stream};

const SKEW_MS: f64 = 35.0;
const CONFIG: &str = "rate_hz: 30
streams:
  joints: {type: sensor_msgs/JointState, topic: /joint_states, max_age_ms: 50, joints: [JOINTS]}
  twist: {type: geometry_msgs/TwistStamped, topic: TWIST, max_age_ms: 50}
  imu: {type: sensor_msgs/Imu, topic: IMU, max_age_ms: 50}
  front: {type: sensor_msgs/Image, topic: FRONT, max_age_ms: 50, image: {resize: {width: 8, height: 8}}}
  wrist: {type: sensor_msgs/Image, topic: WRIST, max_age_ms: 50, image: {resize: {width: 8, height: 8}}}
";

/// A number of the environment, for longer measurements.
fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |value| value.parse().unwrap())
}

/// The motion of a stream of the robot, with jitter and drops.
fn motion(seed: u64, stream: Stream, skew_ms: f64) -> Vec<Piece> {
    let text = CONFIG
        .replace("/joint_states", Stream::Joints.topic())
        .replace("JOINTS", &JOINT_NAMES.join(", "))
        .replace("TWIST", Stream::Twist.topic())
        .replace("IMU", Stream::Imu.topic())
        .replace("FRONT", Stream::CameraFront.topic())
        .replace("WRIST", Stream::CameraWrist.topic());
    let config = config::parse(&text, "robot.yaml").unwrap();
    let spec = config.inputs.iter().find(|input| input.topic == stream.topic()).unwrap();
    let mut reader = MotionReader::new(spec).unwrap();
    let options = SimOptions {
        seed,
        bursts: true,
        duration: number("CALIBRATE_SECONDS", 40) as f64,
        stamp_jitter_ms: 1.0,
        send_jitter_ms: 5.0,
        drop_share: 0.02,
        joints_hz: 200.0,
        twist_hz: 50.0,
        skew_stream: Some(stream),
        skew_ms,
        ..SimOptions::default()
    };
    let robot = Robot::new(options).unwrap();
    let start = Stamp::from_nanos(1_795_000_000_123_456_789);
    for event in Schedule::of_streams(robot.options(), start, &[stream]) {
        reader.take(&robot.message(&event, Vec::new()), event.send_at);
    }
    reader.finish().pieces
}

/// The errors of a seed's offsets with their intervals \[ms\]: joints or twist against cameras and an IMU.
fn errors(seed: u64) -> Vec<(f64, f64)> {
    let [joints, twist] = [Stream::Joints, Stream::Twist].map(|stream| motion(seed, stream, 0.0));
    let [front, wrist, imu] = [Stream::CameraFront, Stream::CameraWrist, Stream::Imu]
        .map(|stream| motion(seed, stream, SKEW_MS));
    let pairs = [(&joints, &front), (&joints, &wrist), (&joints, &imu), (&twist, &wrist)];
    let error = |(reference, stream): (&Vec<Piece>, &Vec<Piece>)| {
        let found = compare([reference, stream], 500 * NANOS_PER_MS).unwrap();
        println!("seed {seed}: {:.2} +- {:.2} ms", found.offset_ms, found.uncertainty_ms);
        (found.offset_ms + SKEW_MS, found.uncertainty_ms)
    };
    pairs.into_iter().map(error).collect()
}

#[test]
#[ignore = "a measurement: cargo test -p robocache_tools robot -- --ignored --nocapture"]
fn the_skew_of_every_robot_is_found_within_2_ms() {
    let seeds = 1..=number("CALIBRATE_SEEDS", 3);
    let errors: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = seeds.map(|seed| scope.spawn(move || errors(seed))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let count = errors.len();
    let within = errors.iter().filter(|(error, _)| error.abs() < 2.0).count();
    let inside = errors.iter().filter(|(error, interval)| error.abs() <= *interval).count();
    let largest = errors.iter().map(|(error, _)| error.abs()).fold(0.0, f64::max);
    println!("{count}: {within} within 2 ms, {inside} in the interval, at most {largest:.2} ms");
    assert_eq!((within, inside), (count, count), "{errors:?}");
}
