use super::*;
use crate::backend::cpu::CpuBackend;
use crate::cdr::{Reader, Writer};
use crate::config;
use crate::histogram::WindowReader;
use crate::input::{Input, Sink, header};
use crate::layout::Layout;
use crate::pipeline::{Accepted, MessageReader};
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

/// A mock of a video: a message is a header, whether it can be read by itself, and the difference to the number before.
#[derive(Default)]
struct Differences {
    number: Option<f64>,
    epochs: Vec<u64>,
}

impl Input for Differences {
    fn read(&mut self, message: &[u8], sink: &mut dyn Sink) -> Result<(), Rejected> {
        let mut reader = Reader::new(message)?;
        let sink = sink.admit(&header(&mut reader)?);
        let is_key = reader.u8()? == 1;
        let difference = reader.f64()?;
        self.number = if is_key { Some(difference) } else { self.number.map(|n| n + difference) };
        match (self.number, sink) {
            (Some(number), Some(sink)) => {
                sink.sample(0, Sample::Vector(&[number, 0.0, 0.0]));
                Ok(())
            }
            (None, Some(_)) => Err(Rejected::new(DropReason::Malformed, "no number before")),
            (_, None) => Ok(()),
        }
    }

    fn begin(&mut self, epoch: Epoch) {
        self.number = None;
        self.epochs.push(epoch.number());
    }
}

/// A pipeline whose input is the mock. `frames`: keys of the stream.
fn of_differences(frames: &str) -> Pipeline {
    let keys = format!("type: geometry_msgs/PoseStamped, fields: [position], {frames}");
    let mut config = parse(&keys);
    config.inputs[0].needs_previous = true;
    let mut pipeline = pipeline(config);
    let input = Box::new(Differences::default());
    pipeline.inputs[0].input =
        std::sync::Mutex::new(MessageReader { input, epoch: Epoch::default() });
    pipeline
}

/// Pushes a difference, and returns the newest number of the tensor if it was taken.
fn push(
    pipeline: &Pipeline,
    ms: i64,
    frame: &str,
    key: bool,
    difference: f64,
) -> Result<f32, DropReason> {
    push_as(pipeline, ms, frame, key, difference, |arrival| arrival)
}

fn push_as(
    pipeline: &Pipeline,
    ms: i64,
    frame: &str,
    key: bool,
    difference: f64,
    arrival: impl Fn(Arrival) -> Arrival,
) -> Result<f32, DropReason> {
    let stamp = Stamp::from_nanos(ms * 1_000_000);
    let epoch = pipeline.lock_rings().epoch;
    let mut writer = Writer::new();
    writer.header(stamp, frame);
    writer.u8(u8::from(key));
    writer.f64(difference);
    let arrival = arrival(Arrival { epoch, ..at(stamp) });
    match pipeline.push(INPUT, &writer.finish(), arrival) {
        Ok(_) => {}
        Err(NotTaken::Dropped(why)) => return Err(why.reason),
        Err(other) => panic!("{other}"),
    }
    let mut message = pipeline.new_message();
    pipeline.tick(ms / 100, epoch, &mut message).unwrap();
    Ok(f32::from_le_bytes(message.data()[..4].try_into().unwrap()))
}

#[test]
fn an_input_that_needs_the_messages_before_reads_all_and_begins_again_after_a_gap_and_in_an_epoch()
{
    let pipeline = of_differences("frame_id: own");
    assert_eq!(push(&pipeline, 100, "own", false, 1.0), Err(DropReason::Malformed));
    assert_eq!(push(&pipeline, 200, "own", true, 1.0), Ok(1.0));
    // A message of another frame is read, too: the next one counts from it.
    assert_eq!(push(&pipeline, 300, "other", false, 1.0), Err(DropReason::WrongFrame));
    assert_eq!(push(&pipeline, 400, "own", false, 1.0), Ok(3.0));
    let lost = |arrival| Arrival { follows_loss: true, ..arrival };
    let found = push_as(&pipeline, 500, "own", false, 1.0, lost);
    assert_eq!(found, Err(DropReason::Malformed));
    assert_eq!(push(&pipeline, 600, "own", true, 7.0), Ok(7.0));
    pipeline.begin(Epoch::default().next(None));
    assert_eq!(push(&pipeline, 700, "own", false, 1.0), Err(DropReason::Malformed));
    assert_eq!(push(&pipeline, 800, "own", true, 8.0), Ok(8.0));
    // A late message of the epoch before is not read.
    let before = |arrival| Arrival { epoch: Epoch::default(), ..arrival };
    let found = push_as(&pipeline, 850, "own", false, 5.0, before);
    assert_eq!(found, Err(DropReason::Cleared));
    assert_eq!(push(&pipeline, 900, "own", false, 1.0), Ok(9.0));
    assert!(!pipeline.config().encodes_ahead(INPUT));
}

#[test]
fn a_message_that_cannot_be_read_twice_waits_for_no_transform() {
    let pipeline = of_differences("in_frame: base_link");
    assert_eq!(push(&pipeline, 100, "camera", true, 1.0), Err(DropReason::NoTransform));
    let stats = pipeline.input_stats(INPUT);
    assert_eq!((stats.received.get(), stats.dropped(DropReason::NoTransform)), (1, 1));
}
