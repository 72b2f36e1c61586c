//! Plans: the points of trajectories, and targets ahead of the tick.

use common::trajectory;
use robocache_ops::align::InvalidReason;
use robocache_ops::random::Random;

use super::*;

/// Plans of the joints `a` and `b`, with 100 Hz ticks.
pub(super) fn planned(rest: &str) -> Pipeline {
    pipeline(&format!(
        "rate_hz: 100
streams:
  plan:
    type: trajectory_msgs/msg/JointTrajectory
    topic: /plan
    max_age_ms: 20
    max_gap_ms: 200
    {rest}
"
    ))
}

const ONE: &str = "joints: [a]\n    horizon: {steps: 4, step_ms: 25}";

/// A plan of joint `a`: its start, and times after it with positions.
fn plan(start_ms: i64, points: &[(i64, f64)]) -> Vec<u8> {
    let points: Vec<_> = points.iter().map(|(ms, at)| (ms * MS, vec![*at])).collect();
    trajectory(Stamp::from_nanos(start_ms * MS), &["a"], &points)
}

fn push_at(pipeline: &Pipeline, ms: i64, message: &[u8]) -> Result<u32, DropReason> {
    match pipeline.push(FIRST, message, at(Stamp::from_nanos(ms * MS))) {
        Ok(accepted) => {
            assert_eq!(accepted.stamp, None);
            Ok(accepted.rows)
        }
        Err(NotTaken::Dropped(error)) => Err(error.reason),
        Err(error) => panic!("{error}"),
    }
}

/// Values and states of a tick.
fn ticked(pipeline: &Pipeline, tick: i64) -> (Vec<f32>, Vec<Validity>) {
    let mut message = pipeline.new_message();
    assert_eq!(pipeline.tick(tick, Epoch::default(), &mut message).unwrap(), TickOutcome::Ready);
    (values(pipeline, &message, SEGMENT), states(&message))
}

#[test]
fn targets_are_those_of_history_and_horizon_around_the_present() {
    let steps = "joints: [a]\n    lag_ms: 10\n    history: {steps: 3, step_ms: 5}\n    \
                 horizon: {steps: 4, step_ms: 20}";
    let pipeline = planned(steps);
    let spec = pipeline.config().stream(STREAM);
    assert_eq!((spec.steps(), spec.present_step()), (6, 2));
    push_at(&pipeline, 60, &plan(60, &[(0, 600.0), (100, 1600.0)])).unwrap();
    let mut message = pipeline.new_message();
    assert_eq!(pipeline.tick(10, Epoch::default(), &mut message).unwrap(), TickOutcome::Ready);
    let targets: Vec<_> =
        message.steps(SEGMENT).iter().map(|step| step.target.nanos() / MS).collect();
    assert_eq!(targets, [80, 85, 90, 110, 130, 150]);
    let expected: Vec<f32> = targets.iter().map(|ms| 10.0 * *ms as f32).collect();
    assert_eq!(values(&pipeline, &message, SEGMENT), expected);
    // Inside the plan the row after the target counts, at 160 ms.
    assert_eq!(states(&message)[5], state(true, -10));
}

#[test]
fn a_plan_is_served_ahead_and_held_to_its_age_limit_at_its_end() {
    let pipeline = planned(ONE);
    assert_eq!(push_at(&pipeline, 90, &plan(100, &[(0, 1.0), (40, 5.0)])), Ok(2));
    // Tick 9 is at 90 ms: the plan has not begun at the first target.
    let (got, steps) = ticked(&pipeline, 9);
    assert_eq!(got, [0.0, 2.5, 5.0, 0.0]);
    // The targets are 90, 115, 140 and 165 ms. The plan ends at 140 ms: nothing extrapolates.
    assert_eq!(steps, [NEVER, state(true, -25), state(true, 0), state(false, 25)]);
    let stats = pipeline.stats(STREAM);
    let reasons = [InvalidReason::NotFilled, InvalidReason::TooOld, InvalidReason::Ahead];
    assert_eq!(reasons.map(|reason| stats.invalid(reason)), [1, 1, 0]);
    assert_eq!(ticked(&pipeline, 16).1[0], state(true, 20));
    assert_eq!(ticked(&pipeline, 17).1[0], state(false, 30));
}

#[test]
fn a_stamp_of_zero_means_now() {
    let pipeline = planned(ONE);
    assert_eq!(push_at(&pipeline, 100, &plan(0, &[(0, 1.0), (50, 6.0)])), Ok(2));
    assert_eq!(ticked(&pipeline, 10).0, [1.0, 3.5, 6.0, 0.0]);
    let unclocked = pipeline.push(FIRST, &plan(0, &[(0, 1.0)]), Arrival::default());
    let Err(NotTaken::Dropped(rejected)) = unclocked else { panic!("there is no clock") };
    assert_eq!(rejected.reason, DropReason::ZeroStamp);
    // Also where a simulator's clock has read zero, so that zero is an instant.
    let arrival = Arrival { zero_is_an_instant: true, ..at(Stamp::from_nanos(110 * MS)) };
    pipeline.push(FIRST, &plan(0, &[(0, 9.0)]), arrival).unwrap();
    assert_eq!(ticked(&pipeline, 11).0[0], 9.0);
}

#[test]
fn a_newer_plan_replaces_what_lies_after_its_start_and_nothing_before() {
    let pipeline = planned(ONE);
    push_at(&pipeline, 100, &plan(100, &[(0, 0.0), (100, 100.0), (150, 150.0)])).unwrap();
    // It starts between two points of the first, where that one is at 40.
    assert_eq!(push_at(&pipeline, 120, &plan(140, &[(40, 0.0)])), Ok(1));
    // The targets are 125, 150, 175 and 200 ms. The last point is at 180 ms.
    let (got, steps) = ticked(&pipeline, 12);
    assert_eq!(&got[..1], [20.0]);
    assert_eq!(ticked(&pipeline, 13).0[..3], [30.0, 25.0, 0.0]);
    assert_eq!(steps.iter().map(|(valid, _)| *valid).collect::<Vec<_>>(), [true; 4]);
    let stats = pipeline.stats(STREAM);
    assert_eq!((stats.rows.get(), stats.replaced.get()), (4, 2));
    // A plan that starts earlier and comes later counts.
    push_at(&pipeline, 130, &plan(110, &[(0, -1.0), (90, -1.0)])).unwrap();
    assert_eq!(ticked(&pipeline, 13).0, [-1.0; 4]);
}

#[test]
fn a_plan_without_points_stops_what_was_planned() {
    for names in [&["a"][..], &[]] {
        let pipeline = planned(ONE);
        push_at(&pipeline, 100, &plan(100, &[(0, 0.0), (100, 100.0)])).unwrap();
        let stop = trajectory(Stamp::ZERO, names, &[]);
        assert_eq!(push_at(&pipeline, 150, &stop), Ok(0));
        // The targets are 150, 175, 200 and 225 ms.
        let (got, steps) = ticked(&pipeline, 15);
        assert_eq!(got, [50.0, 0.0, 0.0, 0.0]);
        assert_eq!(steps[0], state(true, 0));
        assert!(steps[1..].iter().all(|(valid, _)| !valid));
        assert_eq!(pipeline.input_stats(FIRST).accepted.get(), 2);
    }
    let pipeline = planned(ONE);
    let stop = trajectory(Stamp::ZERO, &["x"], &[]);
    assert_eq!(push_at(&pipeline, 130, &stop), Err(DropReason::MissingField));
}

#[test]
fn a_bad_plan_changes_nothing() {
    let pipeline = planned(&format!("{ONE}\n    ring_rows: 10"));
    push_at(&pipeline, 100, &plan(100, &[(0, 7.0), (100, 7.0)])).unwrap();
    let many: Vec<_> = (0..9).map(|k| (k, 0.0)).collect();
    let years = 9_000_000_000;
    for (message, expected) in [
        (plan(100, &[(0, 1.0), (10, f64::NAN)]), DropReason::NonFinite),
        (plan(100, &[(0, 1.0), (10, 1e39)]), DropReason::OutOfRange),
        (plan(100, &[(10, 1.0), (10, 1.0)]), DropReason::Malformed),
        (plan(100, &[(10, 1.0), (9, 1.0)]), DropReason::Malformed),
        (plan(100, &[(-10, 1.0), (9, 1.0)]), DropReason::Malformed),
        (plan(100, &many), DropReason::TooLarge),
        (plan(100, &[(0, 1.0), (60_100, 1.0)]), DropReason::Ahead),
        (plan(years, &[(0, 1.0)]), DropReason::Ahead),
        (plan(years, &[]), DropReason::Ahead),
        (plan(10, &[(0, 1.0), (69, 1.0)]), DropReason::Late),
        (trajectory(Stamp::ZERO, &["b"], &[(0, vec![1.0])]), DropReason::MissingField),
        (trajectory(Stamp::ZERO, &["a"], &[(0, vec![])]), DropReason::MissingField),
        (trajectory(Stamp::ZERO, &["a"], &[(0, vec![1.0; 2])]), DropReason::Malformed),
        (trajectory(Stamp::ZERO, &["a", "a"], &[(0, vec![1.0; 2])]), DropReason::Malformed),
    ] {
        assert_eq!(push_at(&pipeline, 100, &message), Err(expected), "{message:?}");
        assert_eq!(ticked(&pipeline, 10).0, [7.0; 4]);
    }
    // Every slot is still there for the longest plan.
    let eight: Vec<_> = (0..8).map(|k| (10 * k, 1.0)).collect();
    for _ in 0..3 {
        assert_eq!(push_at(&pipeline, 100, &plan(0, &eight)), Ok(8));
        assert_eq!(push_at(&pipeline, 100, &plan(0, &eight[1..])), Ok(7));
    }
}

#[test]
fn a_plan_that_is_cut_off_or_declares_too_much_is_malformed() {
    let pipeline = planned(ONE);
    let message = plan(100, &[(0, 1.0), (10, 2.0)]);
    for len in 0..message.len() {
        assert_eq!(push_at(&pipeline, 100, &message[..len]), Err(DropReason::Malformed), "{len}");
    }
    // Each word in turn declares a length beyond the message, or is another number.
    for at in (4..message.len() - 3).step_by(4) {
        for word in [u32::MAX, 1 << 31, 1 << 20] {
            let mut message = message.clone();
            message[at..at + 4].copy_from_slice(&word.to_le_bytes());
            let _ = push_at(&pipeline, 100, &message);
        }
    }
    let stats = pipeline.input_stats(FIRST);
    assert_eq!(stats.received.get(), stats.accepted.get() + stats.dropped_total());
    assert_eq!(push_at(&pipeline, 100, &message), Ok(2));
}

#[test]
fn a_plan_fills_the_groups_that_it_holds_and_a_bad_one_none() {
    let pipeline = planned(
        "groups: {arm: [a, b], gripper: [g]}\n    fields: [positions]\n    \
         horizon: {steps: 2, step_ms: 10}",
    );
    let push = |names: &[&str], rows: &[Vec<f64>]| {
        let points = rows.iter().zip(0..).map(|(row, k)| (k * 10 * MS, row.clone()));
        let points: Vec<_> = points.collect();
        push_at(&pipeline, 100, &trajectory(Stamp::ZERO, names, &points))
    };
    assert_eq!(push(&["g", "b", "a"], &[vec![3.0, 2.0, 1.0], vec![6.0, 4.0, 2.0]]), Ok(4));
    assert_eq!(ticked(&pipeline, 10).0, [1.0, 2.0, 3.0, 2.0, 4.0, 6.0]);
    // The arm alone; the gripper goes on. One of its joints alone is no arm.
    assert_eq!(push(&["a", "b"], &[vec![8.0, 9.0], vec![8.0, 9.0]]), Ok(2));
    assert_eq!(ticked(&pipeline, 10).0, [8.0, 9.0, 3.0, 8.0, 9.0, 6.0]);
    assert_eq!(push(&["a", "g"], &[vec![0.0, 5.0], vec![0.0, 5.0]]), Ok(2));
    assert_eq!(ticked(&pipeline, 10).0, [8.0, 9.0, 5.0, 8.0, 9.0, 5.0]);
    assert_eq!(pipeline.input_stats(FIRST).groups_incomplete.get(), 1);
    let half = [vec![0.0, 0.0, f64::INFINITY], vec![0.0; 3]];
    assert_eq!(push(&["a", "b", "g"], &half), Err(DropReason::NonFinite));
    assert_eq!(ticked(&pipeline, 10).0, [8.0, 9.0, 5.0, 8.0, 9.0, 5.0]);
    // To stop one joint of a group is to stop the group.
    assert_eq!(push(&["b"], &[]), Ok(0));
    assert!(ticked(&pipeline, 13).1.iter().all(|(valid, _)| !valid));
}

#[test]
fn a_jump_of_the_clock_forgets_plans_and_refuses_those_that_may_be_from_before_it() {
    let pipeline = planned(ONE);
    push_at(&pipeline, 100, &plan(100, &[(0, 1.0), (100, 1.0)])).unwrap();
    let epoch = Epoch::default().next(Some(Stamp::from_nanos(100 * MS)));
    let in_doubt_from = Some(Stamp::MIN);
    let arrival = |max_ahead_ns| Arrival {
        epoch,
        max_ahead_ns,
        in_doubt_from,
        ..at(Stamp::from_nanos(10 * MS))
    };
    let old = pipeline.push(FIRST, &plan(100, &[(0, 1.0)]), arrival(20 * MS));
    let Err(NotTaken::Dropped(rejected)) = old else { panic!("it may be from before the jump") };
    assert_eq!(rejected.reason, DropReason::Cleared);
    // A plan of the new epoch may reach ahead of what the clock can tell.
    pipeline.push(FIRST, &plan(10, &[(0, 2.0), (100, 2.0)]), arrival(20 * MS)).unwrap();
    let mut message = pipeline.new_message();
    pipeline.tick(1, epoch, &mut message).unwrap();
    assert_eq!(values(&pipeline, &message, SEGMENT), [2.0; 4]);
    assert_eq!(push_at(&pipeline, 100, &plan(100, &[(0, 1.0)])), Err(DropReason::Cleared));
}

#[test]
fn a_plan_does_not_change_what_was_before_its_start_and_waits_if_nothing_is_in_force() {
    let node = || {
        pipeline(
            "rate_hz: 100
streams:
  plan:
    type: trajectory_msgs/msg/JointTrajectory
    topic: /plan
    max_age_ms: 100
    max_gap_ms: 1000
    joints: [a]
    horizon: {steps: 100, step_ms: 10}
",
        )
    };
    // The targets are 0, 10, ... 990 ms.
    let at = |pipeline: &Pipeline, ms: i64| {
        let (values, steps) = ticked(pipeline, 0);
        let step = (ms / 10) as usize;
        steps[step].0.then_some(values[step])
    };
    // After the end of the plan before.
    let ended = node();
    push_at(&ended, 0, &plan(10, &[(0, 0.0), (90, 1.0)])).unwrap();
    push_at(&ended, 0, &plan(600, &[(300, 2.0)])).unwrap();
    let got = [200, 210, 590, 600, 750, 890, 900, 990].map(|ms| at(&ended, ms));
    assert_eq!(got, [Some(1.0), None, None, None, None, None, Some(2.0), Some(2.0)]);
    // While its end is still held, and then with a jump.
    let held = node();
    push_at(&held, 0, &plan(10, &[(0, 0.0), (90, 1.0)])).unwrap();
    push_at(&held, 0, &plan(150, &[(100, 3.0)])).unwrap();
    assert_eq!([140, 150, 200, 250].map(|ms| at(&held, ms)), [1.0, 1.0, 2.0, 3.0].map(Some));
    push_at(&held, 0, &plan(300, &[(0, 9.0)])).unwrap();
    assert_eq!([290, 300].map(|ms| at(&held, ms)), [Some(3.0), Some(9.0)]);
    push_at(&held, 0, &plan(200, &[(0, 7.0)])).unwrap();
    assert_eq!([170, 190, 200].map(|ms| at(&held, ms)), [Some(1.4), Some(1.8), Some(7.0)]);
    // After a stop.
    let stopped = node();
    push_at(&stopped, 0, &plan(10, &[(0, 0.0), (900, 9.0)])).unwrap();
    push_at(&stopped, 0, &plan(110, &[])).unwrap();
    push_at(&stopped, 0, &plan(500, &[(200, 5.0)])).unwrap();
    let got = [110, 210, 220, 490, 690, 700].map(|ms| at(&stopped, ms));
    assert_eq!(got, [Some(1.0), Some(1.0), None, None, None, Some(5.0)]);
    // Between two points that are too far apart there was no value. After the cut there is still none.
    let apart = node();
    push_at(&apart, 0, &plan(10, &[(0, 0.0), (1010, 1.0)])).unwrap();
    push_at(&apart, 0, &plan(500, &[(100, 5.0)])).unwrap();
    assert_eq!(
        [10, 20, 490, 590, 600].map(|ms| at(&apart, ms)),
        [Some(0.0), None, None, None, Some(5.0)]
    );
}

#[test]
fn without_interpolation_a_plan_counts_from_its_first_point() {
    for strategy in ["hold", "nearest"] {
        let pipeline = pipeline(&format!(
            "rate_hz: 100
streams:
  plan:
    type: trajectory_msgs/msg/JointTrajectory
    topic: /plan
    strategy: {strategy}
    max_age_ms: 50
    {ONE}
"
        ));
        push_at(&pipeline, 100, &plan(100, &[(0, 1.0), (20, 2.0)])).unwrap();
        push_at(&pipeline, 100, &plan(140, &[(50, 3.0)])).unwrap();
        // The targets are 120, 145, 170 and 195 ms: 170 is nearer to the first point, at 190 ms.
        let (got, steps) = ticked(&pipeline, 12);
        assert_eq!(got, [2.0, 2.0, 2.0, 3.0], "{strategy}");
        assert_eq!(steps[2], state(true, 50));
    }
}

#[test]
fn the_longest_plan_leaves_what_is_before_its_start() {
    let pipeline = planned("joints: [a]\n    history: {steps: 3, step_ms: 10}\n    ring_rows: 5");
    push_at(&pipeline, 100, &plan(80, &[(0, 0.0), (10, 1.0), (40, 4.0)])).unwrap();
    let points = [(20, 5.0), (30, 6.0), (40, 7.0)];
    assert_eq!(push_at(&pipeline, 100, &plan(100, &points)), Ok(3));
    let more = [(20, 5.0), (30, 6.0), (40, 7.0), (50, 8.0)];
    assert_eq!(push_at(&pipeline, 100, &plan(100, &more)), Err(DropReason::TooLarge));
    let (got, steps) = ticked(&pipeline, 11);
    assert!(steps.iter().all(|step| step.0), "{steps:?}");
    assert_eq!(got, [1.0, 2.0, 3.5]);
}

const MAX_AGE_MS: i64 = 20;
const MAX_GAP_MS: i64 = 200;

/// Commands at each millisecond, as a person would write them down: the value, and for how
/// long it has been held since the last point.
struct Model(Vec<Option<(f64, i64)>>);

impl Model {
    fn replace(&mut self, start: i64, points: &[(i64, f64)]) {
        let old = self.0[start as usize];
        let held = |value: f64, age: i64| (age <= MAX_AGE_MS).then_some((value, age));
        for (at, now) in self.0.iter_mut().enumerate().skip(start as usize) {
            let time = at as i64 - start;
            let after = points.iter().find(|point| point.0 >= time);
            let before = points.iter().rev().find(|point| point.0 <= time).copied();
            // The value in force at the start is a point of the new plan.
            let before = before.or(old.map(|(value, _)| (0, value)));
            *now = match (before, after) {
                (Some(a), _) if a.0 == time => Some((a.1, 0)),
                (Some(a), Some(b)) if b.0 - a.0 <= MAX_GAP_MS => {
                    let share = (time - a.0) as f64 / (b.0 - a.0) as f64;
                    Some((a.1 + share * (b.1 - a.1), 0))
                }
                (_, Some(_)) => None,
                // A stop.
                (_, None) if points.is_empty() => {
                    old.and_then(|(value, age)| held(value, age + time))
                }
                (before, None) => before.and_then(|a| held(a.1, time - a.0)),
            };
        }
        if let (Some(now), true) = (old, points.is_empty()) {
            self.0[start as usize] = Some(now);
        }
    }
}

#[test]
fn what_is_served_follows_from_the_messages_and_their_order_alone() {
    let mut random = Random::new(7);
    let mut number = |most: u64| (random.bits() % most) as i64;
    let mut served = 0;
    let mut nothing = 0;
    for _ in 0..200 {
        // Two nodes hear the same messages, one ticks in between.
        let steps = "joints: [a]\n    history: {steps: 60, step_ms: 7}\n    \
                     horizon: {steps: 60, step_ms: 7}";
        let nodes = [(); 2].map(|()| planned(steps));
        let mut model = Model(vec![None; 3000]);
        for k in 0..6 {
            let now = 1000 + 40 * k;
            let start = now + number(120) - 20;
            let mut time = number(3) * [10, 60][number(2) as usize];
            let mut points = Vec::new();
            for _ in 0..number(5) {
                points.push((time, number(1000) as f64));
                let most = [30, 300][number(2) as usize];
                time += 10 + number(most);
            }
            let late = points.last().is_some_and(|last| start + last.0 < now - MAX_AGE_MS);
            let expected = if late { Err(DropReason::Late) } else { Ok(points.len() as u32) };
            for node in &nodes {
                assert_eq!(push_at(node, now, &plan(start, &points)), expected);
            }
            if !late {
                model.replace(start, &points);
            }
            ticked(&nodes[1], now / 10);
        }
        let results = nodes.each_ref().map(|node| ticked(node, 120));
        assert_eq!(results[0], results[1]);
        let (values, states) = &results[0];
        for (step, (value, (valid, age_ns))) in values.iter().zip(states).enumerate() {
            let target = 1200 + 7 * (step as i64 - 59);
            match model.0[target as usize] {
                Some((expected, age)) => {
                    let close = (f64::from(*value) - expected).abs() < 1e-2;
                    assert!(*valid && close, "{target}: {value}, {expected}");
                    assert!(*age_ns.max(&0) == age * MS, "{target}: {age_ns}");
                    served += 1;
                }
                None => {
                    assert!(!valid, "{target}");
                    nothing += 1;
                }
            }
        }
    }
    assert!(served > 1000 && nothing > 1000, "{served} {nothing}");
}
