use super::*;
use crate::backend::cpu::CpuBackend;
use crate::cdr::Writer;
use crate::config;
use crate::histogram::WindowReader;
use crate::layout::Layout;
use crate::pipeline::Accepted;
use crate::spec::{Config, InputId};
use robocache_ops::time::{Epoch, NANOS_PER_S};
use std::time::Duration;

const INPUT: InputId = InputId::new(0);

fn pipeline(config: Config) -> Pipeline {
    let backend = CpuBackend::new(&config, &Layout::new(&config)).unwrap();
    Pipeline::new(config, Arc::new(backend)).unwrap()
}

fn parse(stream: &str) -> Config {
    let text = format!("rate_hz: 10\nstreams: {{s: {{topic: /s, max_age_ms: 9, {stream}}}}}");
    config::parse(&text, "test.yaml").unwrap_or_else(|error| panic!("{error}"))
}

fn at(stamp: Stamp) -> Arrival {
    Arrival { stamp: Some(stamp), ..Arrival::default() }
}

/// A header, and nothing of the message behind it.
fn cut(stamp: Stamp, frame: &str) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.header(stamp, frame);
    writer.finish()
}

fn reason(pushed: Result<Accepted, NotTaken>) -> DropReason {
    match pushed {
        Err(NotTaken::Dropped(why)) => why.reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_message_that_is_not_admitted_is_not_read_behind_its_header() {
    let image = "image: {resize: {width: 4, height: 4}}";
    let cells =
        "cloud: {origin_m: [0, 0, 0], size_m: 1, shape: [2, 2, 2], channels: [{reduce: count}]}";
    let now = Stamp::from_nanos(50 * NANOS_PER_S);
    for keys in [
        format!("type: sensor_msgs/Image, {image}"),
        format!("type: sensor_msgs/CompressedImage, {image}"),
        "type: sensor_msgs/Image, image: {resize: {width: 4, height: 4}, depth: {}}".to_owned(),
        format!("type: sensor_msgs/PointCloud2, {cells}"),
        format!("type: sensor_msgs/LaserScan, {cells}"),
        "type: sensor_msgs/Imu, fields: [angular_velocity]".to_owned(),
    ] {
        let pipeline = pipeline(parse(&format!("frame_id: own, {keys}")));
        let push = |stamp, frame, arrival| pipeline.push(INPUT, &cut(stamp, frame), arrival);
        assert_eq!(reason(push(now, "own", at(now))), DropReason::Malformed, "{keys}");
        assert_eq!(reason(push(now, "other", at(now))), DropReason::WrongFrame, "{keys}");
        let ahead = now.offset(100 * NANOS_PER_S);
        assert_eq!(reason(push(ahead, "own", at(now))), DropReason::Ahead, "{keys}");
        assert_eq!(reason(push(Stamp::ZERO, "own", at(now))), DropReason::ZeroStamp, "{keys}");
        pipeline.begin(Epoch::default().next(Some(now)));
        assert_eq!(reason(push(now, "own", at(now))), DropReason::Cleared, "{keys}");
        let stats = pipeline.input_stats(INPUT);
        assert_eq!((stats.received.get(), stats.accepted.get()), (5, 0));
    }
}

#[test]
fn a_message_for_other_joints_is_none_of_ours_whatever_its_header_says() {
    let now = Stamp::from_nanos(50 * NANOS_PER_S);
    for keys in [
        "type: sensor_msgs/JointState, joints: [a]",
        "type: trajectory_msgs/JointTrajectory, joints: [a], horizon: {steps: 2, step_ms: 100}",
    ] {
        let pipeline = pipeline(parse(&format!("frame_id: own, {keys}")));
        let is_plan = pipeline.config().input(INPUT).is_plan();
        let message = |frame, joint: &str| {
            let mut writer = Writer::new();
            writer.header(now.offset(100 * NANOS_PER_S), frame);
            writer.u32(1);
            writer.string(joint);
            if is_plan {
                writer.u32(1);
                [&[1.0][..], &[], &[], &[]].iter().for_each(|numbers| writer.f64_sequence(numbers));
                writer.i32(1);
                writer.u32(0);
            } else {
                [&[1.0][..], &[], &[]].iter().for_each(|numbers| writer.f64_sequence(numbers));
            }
            writer.finish()
        };
        let push = |frame, joint| reason(pipeline.push(INPUT, &message(frame, joint), at(now)));
        assert_eq!(push("other", "foreign"), DropReason::MissingField, "{keys}");
        assert_eq!(push("own", "foreign"), DropReason::MissingField, "{keys}");
        // Its stamp says nothing of our sensor.
        let delays = || {
            let delay = &pipeline.input_stats(INPUT).delay;
            WindowReader::default().read(delay, Duration::ZERO).total.count
        };
        assert_eq!(delays(), 0, "{keys}");
        assert_eq!(push("other", "a"), DropReason::WrongFrame, "{keys}");
        assert_eq!(push("own", "a"), DropReason::Ahead, "{keys}");
        assert_eq!(delays(), u64::from(!is_plan), "{keys}");
    }
}

#[test]
fn a_message_waits_for_its_transform_before_it_is_read() {
    let pipeline = pipeline(parse(
        "type: sensor_msgs/PointCloud2, t_base_sensor: tf, \
         cloud: {origin_m: [0, 0, 0], size_m: 1, shape: [2, 2, 2], channels: [{reduce: count}]}",
    ));
    let now = Stamp::from_nanos(50 * NANOS_PER_S);
    let waits = pipeline.push(INPUT, &cut(now, "lidar"), at(now));
    assert!(matches!(waits, Err(NotTaken::Waits(_))), "{waits:?}");
    assert_eq!(pipeline.input_stats(INPUT).received.get(), 0);
}
