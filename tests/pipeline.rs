//! The rules of time, end to end: serialized messages in, fused tensors out.

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use common::{joint_state, pipeline, values};
use robocache::align::NO_AGE;
use robocache::backend::cpu::CpuBackend;
use robocache::backend::{Backend, BackendError, EncodeReport, Sample, Slot, StepJob};
use robocache::layout::Layout;
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
    pipeline.reset(Stamp::from_nanos(100 * MS));
    assert_eq!(served(&pipeline, &mut frame, 5).1, [NEVER]);
    assert_eq!(pipeline.clock_jumps(), 2);
    // The first row after a jump is not taken for the first row before it.
    let message = joint_state(Stamp::from_nanos(50 * MS), &["a"], &[7.0]);
    pipeline.push(0, &message, Stamp::ZERO).unwrap();
    assert_eq!(served(&pipeline, &mut frame, 5).0, [7.0]);
    pipeline.reset(Stamp::from_nanos(50 * MS));
    let message = joint_state(Stamp::from_nanos(50 * MS), &["a"], &[8.0]);
    pipeline.push(0, &message, Stamp::ZERO).unwrap();
    assert_eq!(served(&pipeline, &mut frame, 5).0, [8.0]);
}

#[test]
fn what_was_stamped_before_a_jump_is_refused_until_the_clock_has_passed_it() {
    let pipeline = one_joint("max_age_ms: 500", "");
    pipeline.reset(Stamp::from_nanos(1000 * MS)); // to 500 ms
    let push = |ms: i64, now_ms: i64| {
        let message = joint_state(Stamp::from_nanos(ms * MS), &["a"], &[1.0]);
        pipeline.push(0, &message, Stamp::from_nanos(now_ms * MS)).is_ok()
    };
    assert!(!push(1002, 500));
    assert_eq!(pipeline.stats(0).dropped(DropReason::Cleared), 1);
    assert!(push(505, 500));
    assert!(push(1100, 1000), "by now a sensor may be ahead again");
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

fn push_value(pipeline: &Pipeline, stream: usize, ms: i64, value: f64) {
    let message = joint_state(Stamp::from_nanos(ms * MS), &["j"], &[value]);
    pipeline.push(stream, &message, Stamp::ZERO).unwrap();
}

#[test]
fn what_changed_during_a_tick_that_was_held_back_is_shown_by_the_next() {
    let pipeline = two_streams();
    let mut frame = pipeline.new_frame();
    push_value(&pipeline, 0, 100, 1.0);
    push_value(&pipeline, 1, 100, 2.0);
    assert_eq!(pipeline.tick(10, &mut frame).unwrap(), TickOutcome::Ready);
    // The required stream is missing while the other one gets a row...
    push_value(&pipeline, 1, 120, 3.0);
    assert_eq!(pipeline.tick(12, &mut frame).unwrap(), TickOutcome::HeldBack { stream: 0 });
    // ... which the frame does not hold yet.
    push_value(&pipeline, 0, 130, 1.5);
    assert_eq!(pipeline.tick(13, &mut frame).unwrap(), TickOutcome::Ready);
    assert_eq!(values(&pipeline, &frame, 1), [3.0]);
}

#[test]
fn a_frame_of_another_pipeline_shows_nothing_of_it() {
    let (first, second) = (two_streams(), two_streams());
    let mut frame = first.new_frame();
    for (pipeline, value) in [(&first, 1.0), (&second, 2.0), (&first, 1.0)] {
        push_value(pipeline, 0, 100, value);
        push_value(pipeline, 1, 100, value);
        assert_eq!(pipeline.tick(10, &mut frame).unwrap(), TickOutcome::Ready);
        assert_eq!(values(pipeline, &frame, 1), [value as f32]);
    }
}

#[test]
fn a_bad_stamp_matters_only_where_stamps_count() {
    let mut message = joint_state(Stamp::from_nanos(5), &["a"], &[3.0]);
    message[8..12].copy_from_slice(&1_000_000_000u32.to_le_bytes());
    let now = Stamp::from_nanos(95 * MS);
    let by_header = one_joint("max_age_ms: 50", "");
    assert!(by_header.push(0, &message, now).is_err());
    assert_eq!(by_header.stats(0).dropped(DropReason::BadStamp), 1);
    let by_arrival = one_joint("max_age_ms: 50\nstamp_offset_ms: 2000", "timeline: receive");
    assert_eq!(by_arrival.push(0, &message, now).unwrap().stamp, now.offset(2_000 * MS));
}

#[test]
fn pushes_ticks_and_resets_from_several_threads_serve_whole_rows_and_lose_no_count() {
    let pipeline = pipeline(
        "rate_hz: 1000\nstreams:\n  joints:\n    type: sensor_msgs/msg/JointState\n    \
         topic: /j\n    joints: [a, b, c, d]\n    strategy: hold\n    max_age_ms: 100\n    \
         ring_rows: 4\n",
    );
    let (pushes, names) = (20_000i64, ["a", "b", "c", "d"]);
    std::thread::scope(|scope| {
        for lane in 0..2 {
            let pipeline = &pipeline;
            scope.spawn(move || {
                for i in 0..pushes {
                    let value = (2 * i + lane) as f64;
                    let message =
                        joint_state(Stamp::from_nanos((i + 1) * 50_000), &names, &[value; 4]);
                    let _ = pipeline.push(0, &message, Stamp::ZERO);
                }
            });
        }
        scope.spawn(|| {
            for _ in 0..200 {
                pipeline.reset(Stamp::ZERO);
                std::thread::sleep(std::time::Duration::from_micros(100));
            }
        });
        let mut frame = pipeline.new_frame();
        for tick in 1..4000 {
            pipeline.tick(tick / 4, &mut frame).unwrap();
            let row = values(&pipeline, &frame, 0);
            assert!(row.iter().all(|value| *value == row[0]), "a torn row: {row:?}");
        }
    });
    let stats = pipeline.stats(0);
    assert_eq!(stats.received.get(), 2 * pushes as u64);
    assert_eq!(stats.rows.get() + stats.dropped_total(), stats.received.get());
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

/// A backend that panics at its first message.
struct Panicking(AtomicBool);

impl Backend for Panicking {
    fn name(&self) -> &'static str {
        "panicking"
    }

    fn encode(&self, _: usize, _: Slot, _: Sample<'_>) -> Result<EncodeReport, BackendError> {
        assert!(self.0.swap(true, Ordering::Relaxed), "as the test has it");
        Ok(EncodeReport::default())
    }

    fn fuse(&self, _: &[StepJob], _: &mut [u8]) -> Result<(), BackendError> {
        Ok(())
    }
}

#[test]
fn a_stream_whose_message_made_the_backend_panic_takes_no_other() {
    let config = one_joint("max_age_ms: 50", "").config().clone();
    let pipeline = Pipeline::new(config, Arc::new(Panicking(AtomicBool::new(false))));
    assert!(catch_unwind(AssertUnwindSafe(|| push_ms(&pipeline, 10))).is_err());
    let message = joint_state(Stamp::from_nanos(20 * MS), &["a"], &[1.0]);
    let error = pipeline.push(0, &message, Stamp::ZERO).unwrap_err();
    assert!(matches!(error, PushError::Backend(_)));
    let words = "an earlier message of stream 'joints' made it panic";
    assert!(error.to_string().ends_with(words), "{error}");
    let mut frame = pipeline.new_frame();
    assert_eq!(pipeline.tick(2, &mut frame).unwrap(), TickOutcome::Ready);
    assert_eq!(frame.steps(0), [NEVER]);
}

/// The CPU backend, but for ticks that panic or fail before they write anything.
struct Failing {
    cpu: CpuBackend,
    panics: AtomicBool,
    fails: AtomicBool,
}

impl Backend for Failing {
    fn name(&self) -> &'static str {
        "failing"
    }

    fn encode(&self, at: usize, to: Slot, of: Sample<'_>) -> Result<EncodeReport, BackendError> {
        self.cpu.encode(at, to, of)
    }

    fn fuse(&self, jobs: &[StepJob], out: &mut [u8]) -> Result<(), BackendError> {
        assert!(!self.panics.swap(false, Ordering::Relaxed), "as the test has it");
        if self.fails.swap(false, Ordering::Relaxed) {
            let (operation, detail) = ("fuse", "as the test has it".into());
            return Err(BackendError::Failed { backend: "failing", operation, detail });
        }
        self.cpu.fuse(jobs, out)
    }
}

#[test]
fn what_a_tick_that_panics_or_fails_was_to_write_is_written_by_the_next() {
    let config = two_streams().config().clone();
    let cpu = CpuBackend::new(&config, &Layout::new(&config)).unwrap();
    let (panics, fails) = (AtomicBool::new(false), AtomicBool::new(false));
    let backend = Arc::new(Failing { cpu, panics, fails });
    let pipeline = Pipeline::new(config, backend.clone());
    let mut frame = pipeline.new_frame();
    push_value(&pipeline, 0, 100, 1.0);
    push_value(&pipeline, 1, 100, 2.0);
    backend.panics.store(true, Ordering::Relaxed);
    assert!(catch_unwind(AssertUnwindSafe(|| pipeline.tick(10, &mut frame))).is_err());
    assert_eq!(values(&pipeline, &frame, 1), [0.0]);
    assert_eq!(pipeline.tick(10, &mut frame).unwrap(), TickOutcome::Ready);
    assert_eq!(values(&pipeline, &frame, 1), [2.0]);
    push_value(&pipeline, 1, 105, 3.0);
    backend.fails.store(true, Ordering::Relaxed);
    assert!(pipeline.tick(11, &mut frame).is_err());
    assert_eq!(pipeline.tick(11, &mut frame).unwrap(), TickOutcome::Ready);
    assert_eq!(values(&pipeline, &frame, 1), [3.0]);
}
