//! Prints one message of every stream of the synthetic robot, and the time to make it. Each line is
//! JSON with `stream`, `type`, `cost_us` (mean of one second's messages) and `cdr` (hexadecimal).
//!
//! `cargo run --release --example sim_messages`

use robocache_ops::time::Stamp;
use robocache_sim::{Robot, Schedule, SimOptions, Stream};
use std::fmt::Write;
use std::hint::black_box;
use std::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let hz = 50.0;
    let options = SimOptions { pose_hz: hz, twist_hz: hz, odom_hz: hz, ..SimOptions::default() };
    let options = SimOptions { depth_hz: hz, tf_hz: hz, clock: true, ..options };
    let robot = Robot::new(SimOptions { duration: 1.0, ..options })?;
    let start = Stamp::from_nanos(1_795_000_000_123_456_789);
    for stream in Stream::ALL {
        let events: Vec<_> = Schedule::of_streams(robot.options(), start, &[stream]).collect();
        let first = events.first().ok_or("a stream without events")?;
        let mut buffer = robot.message(first, Vec::new());
        let mut hexadecimal = String::with_capacity(2 * buffer.len());
        for byte in &buffer {
            write!(hexadecimal, "{byte:02x}")?;
        }
        let started = Instant::now();
        for event in &events {
            buffer = black_box(robot.message(event, buffer));
        }
        let cost_us = started.elapsed().as_secs_f64() * 1e6 / events.len() as f64;
        let name = stream.name();
        let ros_type = stream.ros_type();
        println!(
            r#"{{"stream":"{name}","type":"{ros_type}","cost_us":{cost_us:.2},"cdr":"{hexadecimal}"}}"#
        );
    }
    Ok(())
}
