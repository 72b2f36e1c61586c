//! Tests of what the limits promise, for any sequence of targets.

use proptest::prelude::*;

use super::*;

const PERIOD_NS: i64 = 4_000_000;
const PERIOD_S: f64 = 0.004;

fn limits(position: Option<[f64; 2]>, velocity: f64, acceleration: f64) -> StepLimits {
    let limits =
        JointLimits { position, velocity: Some(velocity), acceleration: Some(acceleration) };
    StepLimits::new(limits, Interface::Position, PERIOD_NS)
}

/// Commands for targets, from a joint at rest at `start`.
fn run(limits: StepLimits, start: f64, targets: &[f64]) -> Vec<f64> {
    let mut track = Track::at(start);
    // After the last target the plan goes on as before.
    let slope = |at: usize| match targets.get(at + 1) {
        Some(next) => next - targets[at],
        None => targets[at] - targets[at.saturating_sub(1)],
    };
    let follow = |at: usize| {
        limits.follow(&mut track, targets[at], slope(at));
        track.last
    };
    (0..targets.len()).map(follow).collect()
}

/// The greatest change that leaves room to stop, by trying.
fn room_by_search(room: f64, bend: f64) -> f64 {
    let needs = |change: f64| {
        let mut sum = 0.0;
        let mut change = change;
        while change > 0.0 {
            sum += change;
            change -= bend;
        }
        sum
    };
    let mut low = 0.0;
    let mut high = room;
    for _ in 0..200 {
        let middle = f64::midpoint(low, high);
        if needs(middle) <= room { low = middle } else { high = middle }
    }
    low
}

proptest! {
    #[test]
    fn the_room_to_stop_is_that_of_a_search(room in 0.0..10.0f64, bend in 0.001..3.0f64) {
        let found = room_to_stop(room, bend);
        let searched = room_by_search(room, bend);
        prop_assert!((found - searched).abs() < 1e-9, "{found} instead of {searched}");
    }

    #[test]
    fn no_command_breaks_a_limit(
        targets in prop::collection::vec(-4.0..4.0f64, 1..400),
        start in -1.0..1.0f64,
        velocity in 0.1..5.0f64,
        acceleration in 0.5..50.0f64,
        stops in 0usize..400,
    ) {
        let limits = limits(Some([-1.5, 2.0]), velocity, acceleration);
        let mut track = Track::at(start);
        for (at, target) in targets.iter().copied().enumerate() {
            let before = track;
            match at < stops {
                true => {
                    let next = targets.get(at + 1).copied().unwrap_or(target);
                    limits.follow(&mut track, target, next - target);
                }
                false => limits.stop(&mut track, Interface::Position),
            }
            let moved = track.last - before.last;
            let bent = moved - (before.last - before.before);
            prop_assert!(moved.abs() <= velocity * PERIOD_S + 1e-12);
            prop_assert!(bent.abs() <= acceleration * PERIOD_S * PERIOD_S + 1e-12);
            prop_assert!((-1.5 - 1e-9..=2.0 + 1e-9).contains(&track.last), "{}", track.last);
        }
    }

    #[test]
    fn a_jump_is_approached_without_passing_it(
        start in -1.0..1.0f64,
        end in -1.0..1.0f64,
        velocity in 0.1..5.0f64,
        acceleration in 0.5..50.0f64,
    ) {
        let commands = run(limits(None, velocity, acceleration), start, &vec![end; 20_000]);
        let low = start.min(end) - 1e-9;
        let high = start.max(end) + 1e-9;
        prop_assert!(commands.iter().all(|command| (low..=high).contains(command)));
        prop_assert_eq!(commands.last(), Some(&end));
    }

    #[test]
    fn from_outside_a_position_limit_the_way_leads_inwards(
        start in 2.1..4.0f64,
        target in -3.0..5.0f64,
    ) {
        let commands = run(limits(Some([-1.5, 2.0]), 1.0, 5.0), start, &vec![target; 5000]);
        prop_assert!(commands.iter().is_sorted_by(|one, next| **one + 1e-12 >= **next));
        prop_assert_eq!(commands.last().copied(), Some(target.clamp(-1.5, 2.0)));
    }
}

#[test]
fn a_plan_within_the_limits_comes_out_bit_for_bit() {
    let wave = |at: i32| 0.3 * (1.0 - libm::cos(f64::from(at) * 0.004));
    let targets: Vec<f64> = (0..1000).map(wave).collect();
    assert_eq!(run(limits(Some([-1.0, 1.0]), 1.0, 2.0), 0.0, &targets), targets);
    let none = StepLimits::new(JointLimits::default(), Interface::Position, PERIOD_NS);
    let jumps = [3.0, -7.0, 1e9, 0.1, 0.2];
    assert_eq!(run(none, 0.0, &jumps), jumps);
}

#[test]
fn a_plan_that_moves_is_caught_up_with_and_not_passed() {
    // The plan is 0.5 away at once, and moves on.
    let plan = |at: i32| 0.5 + 0.2 * f64::from(at) * PERIOD_S;
    let targets: Vec<f64> = (0..1000).map(plan).collect();
    let commands = run(limits(None, 1.0, 4.0), 0.0, &targets);
    let gaps: Vec<f64> = (0..1000).zip(&commands).map(|(at, command)| plan(at) - command).collect();
    assert!(gaps.iter().all(|gap| *gap > -1e-9), "{gaps:?}");
    assert!(gaps[999].abs() < 1e-12 && gaps[400].abs() < 1e-9, "{} {}", gaps[400], gaps[999]);
}

#[test]
fn a_velocity_may_not_pass_its_limit_and_changes_by_the_acceleration() {
    let of = JointLimits { position: None, velocity: Some(0.5), acceleration: Some(2.0) };
    let limits = StepLimits::new(of, Interface::Velocity, PERIOD_NS);
    let commands = run(limits, 0.0, &[3.0; 100]);
    assert_eq!(commands[0], 0.008);
    assert_eq!(commands[99], 0.5);
    let mut track = Track::at(0.5);
    let mut stopped = Vec::new();
    while track.last != 0.0 {
        limits.stop(&mut track, Interface::Velocity);
        stopped.push(track.last);
    }
    assert_eq!(stopped.len(), 63);
    assert!(stopped.iter().is_sorted_by(|one, next| one >= next));
}

#[test]
fn a_command_that_a_limit_changes_is_told() {
    let limits = limits(Some([-1.0, 1.0]), 1.0, 1000.0);
    let mut track = Track::at(0.0);
    assert_eq!(limits.follow(&mut track, 0.003, 0.0), None);
    assert_eq!(limits.follow(&mut track, 0.5, 0.0), Some(Limit::Velocity));
    let mut track = Track::at(1.0);
    assert_eq!(limits.follow(&mut track, 1.5, 0.0), Some(Limit::Position));
    let limits = self::limits(None, 100.0, 10.0);
    assert_eq!(limits.follow(&mut Track::at(0.0), 0.5, 0.0), Some(Limit::Acceleration));
    let of = JointLimits { position: None, velocity: Some(1.0), acceleration: Some(100.0) };
    let limits = StepLimits::new(of, Interface::Velocity, PERIOD_NS);
    assert_eq!(limits.follow(&mut Track::at(0.0), 0.5, 0.0), Some(Limit::Acceleration));
    assert_eq!(limits.follow(&mut Track::at(1.0), 1.1, 0.0), Some(Limit::Velocity));
}
