//! The rules of time, end to end: serialized messages in, fused tensors out.

mod bounds;
mod clouds;
mod failures;
mod groups;
mod hooked;
mod message;
mod operators;
mod plans;
mod plans_meanwhile;
mod rows;
mod selected_frames;
mod selected_inputs;
mod shapes;
mod slow_ticks;
mod sparse;
mod undistort;

use crate::common;
use std::sync::{Arc, Mutex};

use crate::common::{joint_state, pipeline, values};
use robocache_core::backend::cpu::CpuBackend;
use robocache_core::backend::{Backend, BackendError, StepJob};
use robocache_core::encoder::EncoderSpec;
use robocache_core::layout::Layout;
use robocache_core::message::TensorMessage;
use robocache_core::pipeline::{Arrival, NotTaken, Pipeline, TickOutcome};
use robocache_core::rejected::DropReason;
use robocache_core::sample::PlacedSample;
use robocache_core::spec::{Config, InputId, RingId, SegmentId, StreamId};
use robocache_ops::align::NO_AGE;
use robocache_ops::align::Slot;
use robocache_ops::device::OutputMut;
use robocache_ops::dtype::DType;
use robocache_ops::time::{Epoch, Stamp};
use robocache_ops::voxelize::PointDrops;

const MS: i64 = 1_000_000;

/// One joint whose position at `t` ms is `10 t`, at 100 Hz ticks.
fn one_joint(extra: &str, top: &str) -> Pipeline {
    pipeline(&format!(
        "rate_hz: 100\n{top}\nstreams:\n  joints:\n    type: sensor_msgs/msg/JointState\n    \
         topic: /joint_states\n    joints: [a]\n    {}\n",
        extra.trim().replace('\n', "\n    ")
    ))
}

fn push_ms(pipeline: &Pipeline, ms: i64) -> Result<Stamp, DropReason> {
    let message = joint_state(Stamp::from_nanos(ms * MS), &["a"], &[10.0 * ms as f64]);
    match pipeline.push(FIRST, &message, Arrival::default()) {
        Ok(accepted) => Ok(accepted.stamp.unwrap()),
        Err(NotTaken::Dropped(error)) => Err(error.reason),
        Err(error) => panic!("{error}"),
    }
}

/// Validity and age of a step.
type Validity = (bool, i64);

fn state(valid: bool, age_ms: i64) -> Validity {
    (valid, age_ms * MS)
}

/// The first of each. Most configurations here have one input, one stream and one segment.
const FIRST: InputId = InputId::new(0);
const STREAM: StreamId = StreamId::new(0);
const SEGMENT: SegmentId = SegmentId::new(0);

fn at(stamp: Stamp) -> Arrival {
    Arrival { stamp: Some(stamp), ..Arrival::default() }
}

const NEVER: Validity = (false, NO_AGE);

/// Validity and age of the first segment's steps.
fn states(message: &TensorMessage) -> Vec<Validity> {
    message.steps(SEGMENT).iter().map(|step| (step.valid, step.age_ns)).collect()
}

fn served(
    pipeline: &Pipeline,
    message: &mut TensorMessage,
    tick: i64,
) -> (Vec<f32>, Vec<Validity>) {
    assert_eq!(pipeline.tick(tick, Epoch::default(), message).unwrap(), TickOutcome::Ready);
    let spec = pipeline.config().stream(STREAM);
    let newest = pipeline.config().grid.stamp_of(tick).offset(-spec.lag_ns);
    for (back, step) in message.steps(SEGMENT).iter().rev().enumerate() {
        assert_eq!(step.target, newest.offset(-(back as i64) * spec.history_step_ns));
        assert!(step.inputs_valid != 0 || !step.valid, "{step:?}");
    }
    (values(pipeline, message, SEGMENT), states(message))
}

#[test]
fn history_steps_are_at_tick_minus_lag_minus_multiples_of_the_step() {
    let extra = "max_age_ms: 50\nhistory: {steps: 3, step_ms: 5}";
    let pipeline = one_joint(extra, "lag_ms: 12");
    let mut message = pipeline.new_message();
    for ms in [60, 70, 80, 90, 100] {
        push_ms(&pipeline, ms).unwrap();
    }
    // Tick 10 is at 100 ms: the targets are 78, 83 and 88 ms.
    let (got, steps) = served(&pipeline, &mut message, 10);
    for (got, expected) in got.iter().zip([780.0, 830.0, 880.0]) {
        assert!((got - expected).abs() < 1e-3, "{got} is not {expected}");
    }
    assert_eq!(steps, [state(true, -2), state(true, -7), state(true, -2)]);
}

#[test]
fn each_stream_has_its_own_lag_and_each_input_its_own_timeline() {
    let pipeline = pipeline(
        "rate_hz: 100
lag_ms: 10
streams:
  fast: {type: sensor_msgs/msg/JointState, topic: /a, joints: [a], max_age_ms: 50, lag_ms: 0}
  slow: {type: sensor_msgs/msg/JointState, topic: /b, joints: [a], max_age_ms: 50, lag_ms: 30}
  rest:
    type: sensor_msgs/msg/JointState
    max_age_ms: 50
    joints: [a]
    inputs: [{topic: /c}, {topic: /d, timeline: receive}]
",
    );
    let [fast, slow, by_header, by_arrival] = [0, 1, 2, 3].map(InputId::new);
    let push = |input: InputId, ms: i64, arrival_ms: i64| {
        let message = joint_state(Stamp::from_nanos(ms * MS), &["a"], &[10.0 * ms as f64]);
        let arrival = at(Stamp::from_nanos(arrival_ms * MS));
        pipeline.push(input, &message, arrival).unwrap().stamp.unwrap().nanos() / MS
    };
    for ms in [60, 70, 80, 90, 100] {
        assert_eq!((push(fast, ms, 100), push(slow, ms, 100)), (ms, ms));
    }
    assert_eq!((push(by_header, 80, 85), push(by_arrival, 70, 90)), (80, 90));
    let mut message = pipeline.new_message();
    assert_eq!(pipeline.tick(10, Epoch::default(), &mut message).unwrap(), TickOutcome::Ready);
    let segments = [0, 1, 2].map(SegmentId::new);
    // The message of the third stream that is stamped 70 ms arrived at 90 ms.
    let expected = [[1000.0], [700.0], [700.0]];
    assert_eq!(segments.map(|segment| values(&pipeline, &message, segment)), expected);
    for segment in segments {
        let [step] = message.steps(segment) else { panic!("one step") };
        assert_eq!((step.valid, step.age_ns), (true, 0));
    }
}

#[test]
fn a_value_is_held_to_its_age_limit_and_then_filled() {
    for (fill, after) in [("zero", 0.0), ("last", 1000.0)] {
        let pipeline = one_joint(&format!("max_age_ms: 20\nfill: {fill}"), "");
        let mut message = pipeline.new_message();
        assert_eq!(served(&pipeline, &mut message, 9), (vec![0.0], vec![NEVER]));
        push_ms(&pipeline, 100).unwrap();
        assert_eq!(served(&pipeline, &mut message, 10), (vec![1000.0], vec![state(true, 0)]));
        assert_eq!(served(&pipeline, &mut message, 12), (vec![1000.0], vec![state(true, 20)]));
        assert_eq!(served(&pipeline, &mut message, 13), (vec![after], vec![state(false, 30)]));
    }
}

#[test]
fn a_required_stream_that_is_invalid_holds_the_tick_back() {
    let pipeline = one_joint("max_age_ms: 20\nrequired: true", "");
    let mut message = pipeline.new_message();
    let held = TickOutcome::HeldBack { stream: STREAM };
    assert_eq!(pipeline.tick(9, Epoch::default(), &mut message).unwrap(), held);
    push_ms(&pipeline, 100).unwrap();
    assert_eq!(served(&pipeline, &mut message, 10).0, [1000.0]);
    assert_eq!(pipeline.tick(13, Epoch::default(), &mut message).unwrap(), held);
    assert_eq!(pipeline.held_back(STREAM), 2);
    // After the gap there is a new row, and the message must show it.
    push_ms(&pipeline, 140).unwrap();
    assert_eq!(served(&pipeline, &mut message, 14).0, [1400.0]);
}

#[test]
fn late_rows_are_dropped_and_out_of_order_rows_put_in_place() {
    let pipeline = one_joint("max_age_ms: 50\nring_rows: 3\nstrategy: hold", "");
    let mut message = pipeline.new_message();
    for ms in [100, 120, 110] {
        assert_eq!(push_ms(&pipeline, ms), Ok(Stamp::from_nanos(ms * MS)));
    }
    assert_eq!(served(&pipeline, &mut message, 11).0, [1100.0]);
    assert_eq!(push_ms(&pipeline, 130), Ok(Stamp::from_nanos(130 * MS)));
    assert_eq!(push_ms(&pipeline, 90), Err(DropReason::Late));
    push_ms(&pipeline, 130).unwrap();
    let input = pipeline.input_stats(FIRST);
    let stream = pipeline.stats(STREAM);
    assert_eq!((input.received.get(), input.accepted.get(), stream.rows.get()), (6, 5, 5));
    assert_eq!((stream.reordered.get(), stream.replaced.get()), (1, 1));
    assert_eq!((input.dropped(DropReason::Late), input.dropped_total()), (1, 1));
}

#[test]
fn a_replaced_row_is_served_even_if_the_message_holds_the_old_one() {
    let pipeline = one_joint("max_age_ms: 50\nstrategy: hold", "");
    let mut message = pipeline.new_message();
    push_ms(&pipeline, 100).unwrap();
    assert_eq!(served(&pipeline, &mut message, 10).0, [1000.0]);
    let correction = joint_state(Stamp::from_nanos(100 * MS), &["a"], &[7.0]);
    pipeline.push(FIRST, &correction, Arrival::default()).unwrap();
    assert_eq!(served(&pipeline, &mut message, 10).0, [7.0]);
}

#[test]
fn zero_stamps_are_dropped_unless_the_time_of_arrival_counts() {
    let by_header = one_joint("max_age_ms: 50", "");
    assert_eq!(push_ms(&by_header, 0), Err(DropReason::ZeroStamp));
    let by_arrival = one_joint("max_age_ms: 50", "timeline: receive");
    let message = joint_state(Stamp::ZERO, &["a"], &[3.0]);
    by_arrival.push(FIRST, &message, at(Stamp::from_nanos(95 * MS))).unwrap();
    // No clock yet, no stamp.
    assert!(by_arrival.push(FIRST, &message, Arrival::default()).is_err());
    assert_eq!(by_arrival.input_stats(FIRST).dropped(DropReason::ZeroStamp), 1);
    let mut message = by_arrival.new_message();
    assert_eq!(served(&by_arrival, &mut message, 10), (vec![3.0], vec![state(true, 5)]));
}

#[test]
fn a_stamp_ahead_of_the_clock_is_dropped() {
    let pipeline = one_joint("max_age_ms: 50\nstamp_offset_ms: -100", "");
    let now = Stamp::from_nanos(5_000 * MS);
    let push = |ms: i64| {
        let message = joint_state(Stamp::from_nanos(ms * MS), &["a"], &[1.0]);
        pipeline.push(FIRST, &message, at(now)).map(|accepted| accepted.stamp.unwrap().nanos() / MS)
    };
    assert_eq!(push(5_150).unwrap(), 5_050);
    let error = push(5_151).unwrap_err();
    assert!(matches!(&error, NotTaken::Dropped(e) if e.reason == DropReason::Ahead), "{error}");
    assert!(error.to_string().contains("found 5.051000000, 51 ms ahead"), "{error}");
}

#[test]
fn a_stamp_offset_moves_a_sensor_in_time() {
    let pipeline = one_joint("max_age_ms: 50\nstamp_offset_ms: -2.5", "");
    assert_eq!(push_ms(&pipeline, 100), Ok(Stamp::from_nanos(97_500_000)));
}

#[test]
fn an_epoch_that_begins_clears_the_rings() {
    let pipeline = one_joint("max_age_ms: 500", "");
    let mut message = pipeline.new_message();
    let first = Epoch::default();
    let second = first.next(None);
    let third = second.next(Some(Stamp::from_nanos(100 * MS)));
    let fourth = third.next(Some(Stamp::from_nanos(100 * MS)));
    let steps = |message: &mut TensorMessage, tick: i64, epoch: Epoch| {
        assert_eq!(pipeline.tick(tick, epoch, message).unwrap(), TickOutcome::Ready);
        states(message)
    };
    let push = |ms: i64, value: f64, epoch: Epoch| {
        let message = joint_state(Stamp::from_nanos(ms * MS), &["a"], &[value]);
        pipeline.push(FIRST, &message, Arrival { epoch, ..Arrival::default() })
    };
    push(1000, 1.0, first).unwrap();
    assert_eq!(steps(&mut message, 100, first), [state(true, 0)]);
    // A tick begins the second epoch. The first reading of a clock is no jump.
    assert_eq!(steps(&mut message, 10, second), [NEVER]);
    assert_eq!(pipeline.clock_jumps(), 0);
    push(100, 1.0, second).unwrap();
    assert_eq!(steps(&mut message, 10, second), [state(true, 0)]);
    // The caller, who watches the clock, begins the third epoch. A second call does nothing.
    pipeline.begin(third);
    pipeline.begin(third);
    pipeline.begin(second);
    assert_eq!(steps(&mut message, 5, third), [NEVER]);
    assert_eq!(pipeline.clock_jumps(), 1);
    // The first row after the jump must not be mistaken for the first row before it.
    push(50, 7.0, third).unwrap();
    assert_eq!(steps(&mut message, 5, third), [state(true, 0)]);
    assert_eq!(values(&pipeline, &message, SEGMENT), [7.0]);
    // A message begins the fourth epoch.
    push(50, 8.0, fourth).unwrap();
    assert_eq!(steps(&mut message, 5, fourth), [state(true, 0)]);
    assert_eq!(values(&pipeline, &message, SEGMENT), [8.0]);
    // A tick and a message of an earlier epoch are refused.
    assert_eq!(pipeline.tick(5, third, &mut message).unwrap(), TickOutcome::Past);
    let error = push(55, 9.0, third).unwrap_err();
    assert!(matches!(&error, NotTaken::Dropped(e) if e.reason == DropReason::Cleared), "{error}");
    assert_eq!(pipeline.clock_jumps(), 2);
}

#[test]
fn a_message_of_an_earlier_epoch_is_cleared_whatever_its_stamp() {
    let pipeline = one_joint("max_age_ms: 500", "");
    let first = Epoch::default().next(None);
    pipeline.begin(first.next(Some(Stamp::from_nanos(60_000 * MS))));
    let old = joint_state(Stamp::from_nanos(60_000 * MS), &["a"], &[1.0]);
    let unset = joint_state(Stamp::ZERO, &["a"], &[1.0]);
    for message in [old, unset] {
        let stamp = Some(Stamp::from_nanos(500 * MS));
        let arrival = Arrival { stamp, epoch: first, ..Arrival::default() };
        assert!(pipeline.push(FIRST, &message, arrival).is_err());
    }
    assert_eq!(pipeline.input_stats(FIRST).dropped(DropReason::Cleared), 2);
}

#[test]
fn the_arrival_says_how_far_ahead_a_stamp_may_be_and_whether_it_may_be_zero() {
    let pipeline = one_joint("max_age_ms: 500", "");
    let push = |ms: i64, max_ahead_ms: i64, in_doubt_from: Option<i64>| {
        let message = joint_state(Stamp::from_nanos(ms * MS), &["a"], &[1.0]);
        let stamp = Some(Stamp::from_nanos(500 * MS));
        let max_ahead_ns = max_ahead_ms * MS;
        let in_doubt_from = in_doubt_from.map(|ms| Stamp::from_nanos(ms * MS));
        let zero_is_an_instant = true;
        let times = Arrival { stamp, max_ahead_ns, in_doubt_from, ..at(Stamp::ZERO) };
        let arrival = Arrival { zero_is_an_instant, ..times };
        pipeline.push(FIRST, &message, arrival).map_err(|error| match error {
            NotTaken::Dropped(rejected) => rejected.reason,
            error => panic!("{error}"),
        })
    };
    let doubt = Some(i64::MIN / MS);
    // The limit of the stream is 50 ms. What the clock knows may be more, and never makes it less.
    assert_eq!(push(551, 0, None), Err(DropReason::Ahead));
    assert!(push(550, 0, None).is_ok() && push(550, 2000, doubt).is_ok());
    assert!(push(550, 10, None).is_ok() && push(2500, 2000, None).is_ok());
    assert_eq!(push(2501, 2000, None), Err(DropReason::Ahead));
    // In doubt, only what the clock knows counts. What is too far ahead for any stream was never of the old epoch.
    assert_eq!(push(521, 20, doubt), Err(DropReason::Cleared));
    assert_eq!(push(1500, 20, doubt), Err(DropReason::Cleared));
    assert_eq!(push(1501, 20, doubt), Err(DropReason::Ahead));
    assert!(push(520, 20, doubt).is_ok());
    // A stamp from before all that is in doubt is certainly of this epoch.
    assert!(push(549, 20, Some(550)).is_ok());
    assert_eq!(push(550, 20, Some(550)), Err(DropReason::Cleared));
    assert_eq!(push(0, 50, doubt).unwrap().stamp, Some(Stamp::ZERO));
}

#[test]
fn a_sensor_whose_clock_is_ahead_is_refused_with_the_offset_to_write() {
    let detail = |keys: &str, ahead_ns: i64| {
        let pipeline = one_joint(&format!("max_age_ms: 500\n{keys}"), "");
        let now = Stamp::from_nanos(1_790_000_000_000_000_000);
        let message = joint_state(now.offset(ahead_ns), &["a"], &[1.0]);
        let arrival = Arrival { stamp: Some(now), ..at(Stamp::ZERO) };
        match pipeline.push(FIRST, &message, arrival) {
            Ok(_) => String::new(),
            Err(NotTaken::Dropped(rejected)) => {
                assert_eq!(rejected.reason, DropReason::Ahead);
                rejected.detail
            }
            Err(error) => panic!("{error}"),
        }
    };
    assert_eq!(detail("", 50 * MS), "");
    let text = detail("", 299_200_000);
    assert!(
        text.starts_with("header.stamp: expected at most 50 ms ahead of the node's clock"),
        "{text}"
    );
    let advice = "; its clock is 300 ms ahead: set that clock, or stamp_offset_ms: -300";
    assert!(text.ends_with(advice), "{text}");
    // With the offset it counts as what it is, and a further offset is added to it.
    assert_eq!(detail("stamp_offset_ms: -300", 299_200_000), "");
    let text = detail("stamp_offset_ms: -300", 500 * MS);
    assert!(text.ends_with("stamp_offset_ms: -500"), "{text}");
    // Another limit is another key.
    assert_eq!(detail("max_ahead_ms: 400", 400 * MS), "");
    assert!(detail("max_ahead_ms: 20", 21 * MS).contains("at most 20 ms ahead"));
    // Nobody writes an offset of a day.
    let text = detail("", 86_400_000_000_000);
    assert!(text.ends_with("; do sensor and node use the same clock?"), "{text}");
}

#[test]
fn a_specification_that_does_not_fit_is_refused() {
    let image = "rate_hz: 1
streams: {i: {type: sensor_msgs/Image, topic: /i, max_age_ms: 1, image: {resize: {width: 1, height: 1}}}}";
    let refused = |change: fn(&mut Config)| {
        let mut config = robocache_core::config::parse(image, "test.yaml").unwrap();
        change(&mut config);
        let backend = CpuBackend::new(&config, &Layout::new(&config)).unwrap();
        Pipeline::new(config, Arc::new(backend)).map(|_| ()).unwrap_err().to_string()
    };
    let error = refused(|config| config.inputs[0].ros_type = "sensor_msgs/msg/Thermometer".into());
    assert!(error.contains("expected a known type, found sensor_msgs/msg/Thermometer"), "{error}");
    let error = refused(|config| config.inputs[0].ros_type = "sensor_msgs/msg/PointCloud2".into());
    assert!(error.contains("expected a selection from sensor_msgs/msg/PointCloud2"), "{error}");
    let error = refused(|config| {
        let wrench = "rate_hz: 1\nstreams: {w: {type: geometry_msgs/WrenchStamped, topic: /w, max_age_ms: 1}}";
        let mut other = pipeline(wrench).config().inputs[0].clone();
        other.feeds.clone_from(&config.inputs[0].feeds);
        config.inputs[0] = other;
    });
    assert!(error.contains("stream 'i' has an encoder that does not take its samples"), "{error}");
    let error = refused(|config| config.inputs[0].feeds = vec![RingId::new(7)]);
    assert!(error.contains("expected a ring below 1, found 7"), "{error}");
    let error = refused(|config| config.inputs[0].feeds = vec![RingId::new(0); 2]);
    assert!(error.contains("expected 1 rings to feed, found 2"), "{error}");
    let error = refused(|config| config.inputs = vec![config.inputs[0].clone(); 33]);
    assert!(error.contains("input 'i': expected at most 32 inputs of a stream"), "{error}");
    let error = refused(|config| config.streams[0].dtype = DType::I32);
    assert!(error.contains("stream 'i': its encoder writes no rows of i32"), "{error}");
}

#[test]
fn an_input_may_feed_no_ring() {
    let mut config = one_joint("max_age_ms: 50", "").config().clone();
    config.inputs[0].feeds.clear();
    let backend = CpuBackend::new(&config, &Layout::new(&config)).unwrap();
    let pipeline = Pipeline::new(config, Arc::new(backend)).unwrap();
    let message = joint_state(Stamp::from_nanos(10 * MS), &["a"], &[1.0]);
    let accepted = pipeline.push(FIRST, &message, Arrival::default()).unwrap();
    assert_eq!((accepted.rows, accepted.stamp), (0, None));
    assert_eq!(pipeline.input_stats(FIRST).accepted.get(), 1);
}

/// Two joints streams: `a` is required, `b` is not.
fn two_streams() -> Pipeline {
    let stream = |name: &str, rest: &str| {
        format!(
            "  {name}:\n    type: sensor_msgs/msg/JointState\n    topic: /{name}\n    \
             joints: [j]\n    strategy: hold\n    {rest}\n"
        )
    };
    let a = stream("a", "max_age_ms: 15\n    required: true");
    let b = stream("b", "max_age_ms: 1000");
    pipeline(&format!("rate_hz: 100\nstreams:\n{a}{b}"))
}

fn push_value(pipeline: &Pipeline, input: usize, ms: i64, value: f64) {
    let message = joint_state(Stamp::from_nanos(ms * MS), &["j"], &[value]);
    pipeline.push(InputId::new(input), &message, Arrival::default()).unwrap();
}

#[test]
fn a_row_that_arrives_before_a_tick_that_is_held_back_is_shown_by_the_next() {
    let pipeline = two_streams();
    let mut message = pipeline.new_message();
    push_value(&pipeline, 0, 100, 1.0);
    push_value(&pipeline, 1, 100, 2.0);
    assert_eq!(pipeline.tick(10, Epoch::default(), &mut message).unwrap(), TickOutcome::Ready);
    // The required stream is missing while the other one gets a row...
    push_value(&pipeline, 1, 120, 3.0);
    assert_eq!(
        pipeline.tick(12, Epoch::default(), &mut message).unwrap(),
        TickOutcome::HeldBack { stream: STREAM }
    );
    // ... which the message does not hold yet.
    push_value(&pipeline, 0, 130, 1.5);
    assert_eq!(pipeline.tick(13, Epoch::default(), &mut message).unwrap(), TickOutcome::Ready);
    assert_eq!(values(&pipeline, &message, SegmentId::new(1)), [3.0]);
}

#[test]
fn a_message_tells_which_segments_a_tick_left_as_they_were() {
    let pipeline = two_streams();
    let mut message = pipeline.new_message();
    let mut tick = |number: i64| {
        pipeline.tick(number, Epoch::default(), &mut message).unwrap();
        [0, 1].map(|segment| message.is_unchanged(SegmentId::new(segment)))
    };
    push_value(&pipeline, 0, 100, 1.0);
    push_value(&pipeline, 1, 100, 2.0);
    assert_eq!(tick(10), [false, false]);
    assert_eq!(tick(11), [true, true]);
    // An equal value of another row counts as a change.
    push_value(&pipeline, 1, 120, 2.0);
    push_value(&pipeline, 0, 115, 1.0);
    assert_eq!(tick(12), [false, false]);
    push_value(&pipeline, 0, 125, 5.0);
    assert_eq!(tick(13), [false, true]);
    // A tick that is held back leaves nothing that the next one could repeat.
    assert_eq!(tick(20), [false, false]);
    push_value(&pipeline, 0, 205, 5.0);
    assert_eq!(tick(21), [false, false]);
}

#[test]
fn a_message_of_another_pipeline_shows_nothing_of_it() {
    let first = two_streams();
    let second = two_streams();
    let mut message = first.new_message();
    for (pipeline, value) in [(&first, 1.0), (&second, 2.0), (&first, 1.0)] {
        push_value(pipeline, 0, 100, value);
        push_value(pipeline, 1, 100, value);
        assert_eq!(pipeline.tick(10, Epoch::default(), &mut message).unwrap(), TickOutcome::Ready);
        assert_eq!(values(pipeline, &message, SegmentId::new(1)), [value as f32]);
    }
}

#[test]
fn a_bad_stamp_matters_only_where_stamps_count() {
    let mut message = joint_state(Stamp::from_nanos(5), &["a"], &[3.0]);
    message[8..12].copy_from_slice(&1_000_000_000u32.to_le_bytes());
    let now = Stamp::from_nanos(95 * MS);
    let by_header = one_joint("max_age_ms: 50", "");
    assert!(by_header.push(FIRST, &message, at(now)).is_err());
    assert_eq!(by_header.input_stats(FIRST).dropped(DropReason::BadStamp), 1);
    let by_arrival = one_joint("max_age_ms: 50\nstamp_offset_ms: 2000", "timeline: receive");
    assert_eq!(
        by_arrival.push(FIRST, &message, at(now)).unwrap().stamp,
        Some(now.offset(2_000 * MS))
    );
}

#[test]
fn pushes_ticks_and_epochs_from_several_threads_serve_whole_rows_and_lose_no_count() {
    let pipeline = pipeline(
        "rate_hz: 1000\nstreams:\n  joints:\n    type: sensor_msgs/msg/JointState\n    \
         topic: /j\n    joints: [a, b, c, d]\n    strategy: hold\n    max_age_ms: 100\n    \
         ring_rows: 4\n",
    );
    let pushes = 20_000i64;
    let names = ["a", "b", "c", "d"];
    let epoch = Mutex::new(Epoch::default());
    std::thread::scope(|scope| {
        for lane in 0..2 {
            let pipeline = &pipeline;
            let epoch = &epoch;
            scope.spawn(move || {
                for i in 0..pushes {
                    let value = (2 * i + lane) as f64;
                    let message =
                        joint_state(Stamp::from_nanos((i + 1) * 50_000), &names, &[value; 4]);
                    let epoch = *epoch.lock().unwrap();
                    let _ = pipeline.push(FIRST, &message, Arrival { epoch, ..Arrival::default() });
                }
            });
        }
        scope.spawn(|| {
            for _ in 0..200 {
                let mut epoch = epoch.lock().unwrap();
                *epoch = epoch.next(None);
                drop(epoch);
                std::thread::sleep(std::time::Duration::from_micros(100));
            }
        });
        let mut message = pipeline.new_message();
        for tick in 1..4000 {
            let now = *epoch.lock().unwrap();
            pipeline.tick(tick / 4, now, &mut message).unwrap();
            let row = values(&pipeline, &message, SEGMENT);
            assert!(row.iter().all(|value| *value == row[0]), "a torn row: {row:?}");
        }
    });
    let input = pipeline.input_stats(FIRST);
    let stream = pipeline.stats(STREAM);
    assert_eq!(input.received.get(), 2 * pushes as u64);
    assert_eq!(input.accepted.get() + input.dropped_total(), input.received.get());
    assert_eq!(stream.rows.get(), input.accepted.get());
}

#[test]
fn stamps_of_this_century_lose_nothing() {
    let pipeline = one_joint("max_age_ms: 50", "");
    let mut message = pipeline.new_message();
    let tick = 179_500_000_012; // of 10 ms
    let base = Stamp::from_nanos(tick * 10 * MS);
    // Two samples 3 ns apart around the tick: an f64 of seconds cannot tell them apart.
    for (offset, value) in [(-1, 1.0), (2, 4.0)] {
        let message = joint_state(base.offset(offset), &["a"], &[value]);
        pipeline.push(FIRST, &message, Arrival::default()).unwrap();
    }
    let (got, steps) = served(&pipeline, &mut message, tick);
    assert_eq!(got, [2.0]);
    assert_eq!(steps, [(true, -2)]);
}
