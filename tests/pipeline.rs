//! The rules of time, end to end: serialized messages in, fused tensors out.

mod common;

use common::{joint_state, pipeline, values};
use robocache::align::NO_AGE;
use robocache::message::{Frame, StepState};
use robocache::pipeline::{Pipeline, PushError, TickOutcome};
use robocache::stats::DropReason;
use robocache::time::Stamp;

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
    match pipeline.push(0, &message, Stamp::ZERO) {
        Ok(accepted) => Ok(accepted.stamp),
        Err(PushError::Dropped(error)) => Err(error.reason),
        Err(PushError::Backend(error)) => panic!("{error}"),
    }
}

fn state(valid: bool, age_ms: i64) -> StepState {
    StepState { valid, age_ns: age_ms * MS }
}

const NEVER: StepState = StepState { valid: false, age_ns: NO_AGE };

fn served(pipeline: &Pipeline, frame: &mut Frame, tick: i64) -> (Vec<f32>, Vec<StepState>) {
    assert_eq!(pipeline.tick(tick, frame).unwrap(), TickOutcome::Ready);
    (values(pipeline, frame, 0), frame.steps(0).to_vec())
}

#[test]
fn history_steps_stand_at_tick_minus_lag_minus_multiples_of_the_step() {
    let extra = "max_age_ms: 50\nhistory: {steps: 3, step_ms: 5}";
    let pipeline = one_joint(extra, "lag_ms: 12");
    let mut frame = pipeline.new_frame();
    for ms in [60, 70, 80, 90, 100] {
        push_ms(&pipeline, ms).unwrap();
    }
    // Tick 10 is at 100 ms: the targets are 78, 83 and 88 ms.
    let (got, steps) = served(&pipeline, &mut frame, 10);
    for (got, expected) in got.iter().zip([780.0, 830.0, 880.0]) {
        assert!((got - expected).abs() < 1e-3, "{got} is not {expected}");
    }
    assert_eq!(steps, [state(true, -2), state(true, -7), state(true, -2)]);
}

#[test]
fn a_value_is_held_to_its_age_limit_and_then_filled() {
    for (fill, after) in [("zero", 0.0), ("last", 1000.0)] {
        let pipeline = one_joint(&format!("max_age_ms: 20\nfill: {fill}"), "");
        let mut frame = pipeline.new_frame();
        assert_eq!(served(&pipeline, &mut frame, 9), (vec![0.0], vec![NEVER]));
        push_ms(&pipeline, 100).unwrap();
        assert_eq!(served(&pipeline, &mut frame, 10), (vec![1000.0], vec![state(true, 0)]));
        assert_eq!(served(&pipeline, &mut frame, 12), (vec![1000.0], vec![state(true, 20)]));
        assert_eq!(served(&pipeline, &mut frame, 13), (vec![after], vec![state(false, 30)]));
    }
}

#[test]
fn a_required_stream_that_is_invalid_holds_the_tick_back() {
    let pipeline = one_joint("max_age_ms: 20\nrequired: true", "");
    let mut frame = pipeline.new_frame();
    let held = TickOutcome::HeldBack { stream: 0 };
    assert_eq!(pipeline.tick(9, &mut frame).unwrap(), held);
    push_ms(&pipeline, 100).unwrap();
    assert_eq!(served(&pipeline, &mut frame, 10).0, [1000.0]);
    assert_eq!(pipeline.tick(13, &mut frame).unwrap(), held);
    assert_eq!(pipeline.held_back(0), 2);
    // The row is the same as before the gap, and the frame must show it again.
    push_ms(&pipeline, 140).unwrap();
    assert_eq!(served(&pipeline, &mut frame, 14).0, [1400.0]);
}

#[test]
fn late_rows_are_dropped_and_out_of_order_rows_put_in_place() {
    let pipeline = one_joint("max_age_ms: 50\nring_rows: 3\nstrategy: hold", "");
    let mut frame = pipeline.new_frame();
    for ms in [100, 120, 110] {
        assert_eq!(push_ms(&pipeline, ms), Ok(Stamp::from_nanos(ms * MS)));
    }
    assert_eq!(served(&pipeline, &mut frame, 11).0, [1100.0]);
    assert_eq!(push_ms(&pipeline, 130), Ok(Stamp::from_nanos(130 * MS)));
    assert_eq!(push_ms(&pipeline, 90), Err(DropReason::Late));
    push_ms(&pipeline, 130).unwrap();
    let stats = pipeline.stats(0);
    assert_eq!((stats.received.get(), stats.rows.get()), (6, 5));
    assert_eq!((stats.reordered.get(), stats.replaced.get()), (1, 1));
    assert_eq!((stats.dropped(DropReason::Late), stats.dropped_total()), (1, 1));
}

#[test]
fn a_replaced_row_is_served_even_where_the_frame_held_the_old_one() {
    let pipeline = one_joint("max_age_ms: 50\nstrategy: hold", "");
    let mut frame = pipeline.new_frame();
    push_ms(&pipeline, 100).unwrap();
    assert_eq!(served(&pipeline, &mut frame, 10).0, [1000.0]);
    let correction = joint_state(Stamp::from_nanos(100 * MS), &["a"], &[7.0]);
    pipeline.push(0, &correction, Stamp::ZERO).unwrap();
    assert_eq!(served(&pipeline, &mut frame, 10).0, [7.0]);
}

#[test]
fn zero_stamps_are_dropped_unless_the_time_of_arrival_counts() {
    let by_header = one_joint("max_age_ms: 50", "");
    assert_eq!(push_ms(&by_header, 0), Err(DropReason::ZeroStamp));
    let by_arrival = one_joint("max_age_ms: 50", "timeline: receive");
    let message = joint_state(Stamp::ZERO, &["a"], &[3.0]);
    by_arrival.push(0, &message, Stamp::from_nanos(95 * MS)).unwrap();
    // No clock yet, no stamp.
    assert!(by_arrival.push(0, &message, Stamp::ZERO).is_err());
    assert_eq!(by_arrival.stats(0).dropped(DropReason::ZeroStamp), 1);
    let mut frame = by_arrival.new_frame();
    assert_eq!(served(&by_arrival, &mut frame, 10), (vec![3.0], vec![state(true, 5)]));
}

#[test]
fn a_stamp_far_ahead_of_the_clock_is_dropped() {
    let pipeline = one_joint("max_age_ms: 50\nstamp_offset_ms: -100", "");
    let now = Stamp::from_nanos(5_000 * MS);
    let push = |ms: i64| {
        let message = joint_state(Stamp::from_nanos(ms * MS), &["a"], &[1.0]);
        pipeline.push(0, &message, now).map(|accepted| accepted.stamp.nanos() / MS)
    };
    assert_eq!(push(6_100).unwrap(), 6_000);
    let error = push(6_101).unwrap_err();
    assert!(matches!(&error, PushError::Dropped(e) if e.reason == DropReason::Ahead), "{error}");
    assert!(error.to_string().contains("found 6.001000000, 1.001 s ahead"), "{error}");
}

#[test]
fn a_stamp_offset_moves_a_sensor_in_time() {
    let pipeline = one_joint("max_age_ms: 50\nstamp_offset_ms: -2.5", "");
    assert_eq!(push_ms(&pipeline, 100), Ok(Stamp::from_nanos(97_500_000)));
}

#[test]
fn a_clock_that_jumps_back_clears_the_rings() {
    let pipeline = one_joint("max_age_ms: 500", "");
    let mut frame = pipeline.new_frame();
    push_ms(&pipeline, 1000).unwrap();
    assert_eq!(served(&pipeline, &mut frame, 100).1, [state(true, 0)]);
    // Found out by the tick itself.
    assert_eq!(served(&pipeline, &mut frame, 10).1, [NEVER]);
    assert_eq!(pipeline.clock_jumps(), 1);
    push_ms(&pipeline, 100).unwrap();
    assert_eq!(served(&pipeline, &mut frame, 10).1, [state(true, 0)]);
    // Told by whoever watches the clock.
    pipeline.reset();
    assert_eq!(served(&pipeline, &mut frame, 5).1, [NEVER]);
    assert_eq!(pipeline.clock_jumps(), 2);
}

#[test]
fn epoch_sized_stamps_lose_nothing() {
    let pipeline = one_joint("max_age_ms: 50", "");
    let mut frame = pipeline.new_frame();
    let tick = 179_500_000_012; // of 10 ms
    let base = Stamp::from_nanos(tick * 10 * MS);
    // Two samples 3 ns apart around the tick: an f64 of seconds cannot tell them apart.
    for (offset, value) in [(-1, 1.0), (2, 4.0)] {
        let message = joint_state(base.offset(offset), &["a"], &[value]);
        pipeline.push(0, &message, Stamp::ZERO).unwrap();
    }
    let (got, steps) = served(&pipeline, &mut frame, tick);
    assert_eq!(got, [2.0]);
    assert_eq!(steps, [StepState { valid: true, age_ns: -2 }]);
}
