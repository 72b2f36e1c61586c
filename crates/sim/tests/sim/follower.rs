//! The second arm: it is a linear system within its limits, and depends on its commands alone.

use robocache_core::cdr::Writer;
use robocache_ops::time::{NANOS_PER_MS, NANOS_PER_S, Stamp};
use robocache_sim::{FOLLOWER_STEP_NS, Followed, Follower, FollowerModel, JOINT_NAMES, JOINTS};

const ARM: FollowerModel = FollowerModel::ARM;

fn values(positions: &[f64]) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.u32(0);
    writer.u32(0);
    writer.f64_sequence(positions);
    writer.finish()
}

/// A JointTrajectory with these points.
fn trajectory(names: &[&str], points: &[&[f64]]) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.header(Stamp::ZERO, "");
    writer.string_sequence(names.iter().copied());
    writer.u32(points.len() as u32);
    for positions in points {
        writer.f64_sequence(positions);
        (0..3).for_each(|_| writer.f64_sequence(&[]));
        writer.stamp(Stamp::from_nanos(4 * NANOS_PER_MS));
    }
    writer.finish()
}

fn arm() -> Follower {
    Follower::new(ARM, Followed::Values)
}

fn seconds(ns: i64) -> f64 {
    ns as f64 / NANOS_PER_S as f64
}

/// Commands all joints along a path, at this distance in time \[ns\]. Returns the position of the first joint at each step.
fn along(arm: &mut Follower, path: impl Fn(f64) -> f64, period_ns: i64, to_ns: i64) -> Vec<f64> {
    let steps = (0..to_ns / FOLLOWER_STEP_NS).map(|step| {
        let now_ns = step * FOLLOWER_STEP_NS;
        arm.advance(now_ns);
        if now_ns % period_ns == 0 {
            assert!(arm.take(now_ns, &values(&[path(seconds(now_ns)); JOINTS])));
        }
        arm.positions()[0]
    });
    steps.collect()
}

#[test]
fn behind_an_even_motion_it_lags_by_two_time_constants_and_its_delay() {
    let speed = 0.5;
    let mut arm = arm();
    let positions = along(&mut arm, |t| speed * t, FOLLOWER_STEP_NS, NANOS_PER_S);
    let lag_s = 2.0 / ARM.frequency + seconds(ARM.delay_ns);
    for (step, position) in positions.iter().enumerate().skip(700) {
        let expected = speed * (seconds(step as i64 * FOLLOWER_STEP_NS) - lag_s);
        assert!((position - expected).abs() < 1e-9, "{step}: {position} {expected}");
    }
}

#[test]
fn behind_any_motion_it_is_within_the_bound_of_a_positive_kernel() {
    // The response to an impulse is nowhere negative, its sum is 1 and its mean the lag: so the distance is at most the
    // greatest velocity times the lag. A command may be a period old, and acts from the next step on.
    let period_ns = 4 * NANOS_PER_MS;
    let omega = 3.0;
    let size = 0.5;
    let path = |t: f64| size * (1.0 - libm::cos(omega * t));
    let positions = along(&mut arm(), path, period_ns, 4 * NANOS_PER_S);
    let oldest_ns = ARM.delay_ns + period_ns + FOLLOWER_STEP_NS;
    let bound = size * omega * (2.0 / ARM.frequency + seconds(oldest_ns));
    for (step, position) in positions.iter().enumerate() {
        let truth = path(seconds(step as i64 * FOLLOWER_STEP_NS));
        assert!((position - truth).abs() <= bound, "{step}: {position} {truth}");
    }
    let span = positions.iter().fold(0.0f64, |most, position| most.max(*position));
    assert!(span > 0.9 * 2.0 * size, "it does move: {span}");
}

#[test]
fn it_keeps_its_limits_and_comes_to_rest_at_its_target() {
    for (target, rest) in [(2.5, 2.5), (-2.5, -2.5), (10.0, ARM.position)] {
        let mut arm = arm();
        arm.take(0, &values(&[target; JOINTS]));
        let mut before = 0.0;
        let step_s = seconds(FOLLOWER_STEP_NS);
        for step in 1..3000 {
            arm.advance(step * FOLLOWER_STEP_NS);
            let x = arm.positions()[0];
            let v = arm.velocities()[0];
            assert!(x.abs() <= ARM.position && v.abs() <= ARM.velocity + 1e-12);
            let is_at_stop = x.abs() == ARM.position && v == 0.0;
            assert!((v - before).abs() <= ARM.acceleration * step_s + 1e-12 || is_at_stop);
            before = v;
        }
        assert!((arm.positions()[JOINTS - 1] - rest).abs() < 1e-9, "{:?}", arm.positions());
    }
}

#[test]
fn a_command_acts_after_its_delay() {
    let mut arm = arm();
    assert!(arm.take(0, &values(&[1.0; JOINTS])));
    arm.advance(ARM.delay_ns);
    assert_eq!(arm.positions(), &[0.0; JOINTS]);
    arm.advance(ARM.delay_ns + FOLLOWER_STEP_NS);
    assert!(arm.positions().iter().all(|position| *position > 0.0));
}

#[test]
fn its_state_does_not_depend_on_how_often_it_moves_on() {
    let run = |each_ns: i64| {
        let mut arm = arm();
        for now_ns in (0..NANOS_PER_S).step_by(NANOS_PER_MS as usize) {
            if now_ns % (7 * NANOS_PER_MS) == 0 {
                arm.take(now_ns, &values(&[seconds(now_ns); JOINTS]));
            }
            if now_ns % each_ns == 0 {
                arm.advance(now_ns);
            }
        }
        arm.advance(NANOS_PER_S);
        (*arm.positions(), *arm.velocities())
    };
    let often = run(NANOS_PER_MS);
    assert!(often.1[0] > 0.5, "{often:?}");
    assert_eq!(often, run(50 * NANOS_PER_MS));
    assert_eq!(often, run(NANOS_PER_S));
}

#[test]
fn after_a_jump_of_its_clock_it_is_at_rest_where_it_was() {
    for to_ns in [0, 3600 * NANOS_PER_S] {
        let mut arm = arm();
        arm.take(0, &values(&[2.0; JOINTS]));
        arm.advance(NANOS_PER_S / 5);
        let positions = *arm.positions();
        arm.take(NANOS_PER_S / 5, &values(&[-2.0; JOINTS]));
        arm.advance(to_ns);
        assert_eq!((arm.positions(), arm.velocities()), (&positions, &[0.0; JOINTS]));
        arm.advance(to_ns + NANOS_PER_S);
        assert_eq!(arm.positions(), &positions, "what waited is gone");
        arm.take(to_ns + NANOS_PER_S, &values(&[0.0; JOINTS]));
        arm.advance(to_ns + 3 * NANOS_PER_S);
        assert!(arm.positions()[0].abs() < 1e-6, "it follows again");
    }
}

#[test]
fn what_is_no_command_is_counted_and_moves_nothing() {
    let mut nan = [0.5; JOINTS];
    nan[3] = f64::NAN;
    let whole = values(&[0.5; JOINTS]);
    let wrong = [
        values(&[0.5; JOINTS - 1]),
        values(&[0.5; JOINTS + 1]),
        values(&nan),
        values(&[f64::INFINITY; JOINTS]),
        whole[..whole.len() - 1].to_vec(),
        Vec::new(),
    ];
    let mut arm = arm();
    for message in &wrong {
        assert!(!arm.take(0, message));
    }
    arm.advance(NANOS_PER_S);
    assert_eq!(arm.positions(), &[0.0; JOINTS]);
    assert_eq!((arm.counts().commands, arm.counts().refused), (0, wrong.len() as u64));
}

#[test]
fn one_point_is_for_joints_by_their_names() {
    let backwards: Vec<&str> = JOINT_NAMES.iter().rev().copied().collect();
    let targets: Vec<f64> = (0..JOINTS).rev().map(|joint| 0.1 * joint as f64).collect();
    let mut arm = Follower::new(ARM, Followed::OnePoint);
    assert!(arm.take(0, &trajectory(&backwards, &[&targets])));
    arm.advance(2 * NANOS_PER_S);
    for (joint, position) in arm.positions().iter().enumerate() {
        assert!((position - 0.1 * joint as f64).abs() < 1e-9, "{joint}: {position}");
    }
    let mut others = JOINT_NAMES;
    others[2] = "elbow";
    let wrong = [
        trajectory(&others, &[&targets]),
        trajectory(&JOINT_NAMES, &[&targets, &targets]),
        trajectory(&JOINT_NAMES, &[]),
        trajectory(&JOINT_NAMES, &[&targets[1..]]),
        trajectory(&JOINT_NAMES[1..], &[&targets]),
        values(&targets),
    ];
    for message in &wrong {
        assert!(!arm.take(0, message));
    }
    assert_eq!((arm.counts().commands, arm.counts().refused), (1, wrong.len() as u64));
}
