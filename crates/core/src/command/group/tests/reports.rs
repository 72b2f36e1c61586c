//! Reports of users of other executors, by their numbers. Those that a rule already answers are beside the rule: look for
//! the name of the report in `tests.rs`.

use super::*;

/// Greatest velocity and acceleration of `limited`.
const LIMITS: [f64; 2] = [2.0, 10.0];
/// First instant of a bench \[ms\].
const FIRST_MS: i64 = 4000;
/// Between two tensors that a policy answers \[ms\].
const ANSWERS_MS: i64 = 80;

/// Position of a robot that moves as the policy wants: 0.4 rad, at 0.5 Hz.
fn path(ns: i64) -> f64 {
    0.4 * libm::sin(std::f64::consts::PI * ns as f64 / NANOS_PER_S as f64)
}

/// A chunk of the path.
fn of_path(answers_ms: i64) -> Vec<f32> {
    let at = |row| answers_ms * NANOS_PER_MS + row * STEP_NS;
    (0..ROWS as i64).map(|row| path(at(row)) as f32).collect()
}

/// The ticks from the first one to an instant \[ms\].
fn ticks_to(ms: i64) -> usize {
    ((ms - FIRST_MS) * NANOS_PER_MS / PERIOD_NS) as usize
}

/// Commands of a policy that answers each tensor after another latency \[ms\], and the group.
fn answered(
    latencies_ms: &[i64],
    spec: GroupSpec,
    chunk: impl Fn(i64) -> Vec<f32>,
) -> (Vec<Option<f64>>, CommandGroup) {
    let mut bench = Bench::new(spec);
    bench.measured = Some(path(FIRST_MS * NANOS_PER_MS));
    let mut all = Vec::new();
    for (answers_ms, latency_ms) in (FIRST_MS..).step_by(ANSWERS_MS as usize).zip(latencies_ms) {
        all.extend(bench.run_to(answers_ms + latency_ms));
        bench.chunk(answers_ms, &chunk(answers_ms)).unwrap();
    }
    all.extend(bench.run_to(bench.now_ms() + ANSWERS_MS));
    (all, bench.group)
}

/// Asserts that no command leaves the limits, as the commands before it allow.
fn assert_within_limits(commands: &[Option<f64>]) {
    let sent: Vec<f64> = commands.iter().map(|command| command.unwrap()).collect();
    let moved: Vec<f64> = sent.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let period_s = PERIOD_NS as f64 / NANOS_PER_S as f64;
    let [step, bend] = [LIMITS[0] * period_s, LIMITS[1] * period_s * period_s];
    assert!(moved.iter().all(|moved| moved.abs() <= step + 1e-12));
    assert!(moved.windows(2).all(|pair| (pair[1] - pair[0]).abs() <= bend + 1e-12));
}

/// Asserts that commands are on the path from a tick on.
///
/// Of a line between two rows the distance is at most h^2 / 8 times the greatest second derivative M. Slopes that are
/// central differences are wrong by M h / 2 at most, which adds M h^2 / 8. A row as f32 is wrong by half of its last digit.
fn assert_on_the_path(commands: &[Option<f64>], from: usize) {
    let most = 0.4 * std::f64::consts::PI.powi(2);
    let step_s = STEP_NS as f64 / NANOS_PER_S as f64;
    let bound = step_s * step_s / 4.0 * most + f64::from(f32::EPSILON);
    for (at, command) in commands.iter().enumerate().skip(from) {
        let truth = path(FIRST_MS * NANOS_PER_MS + at as i64 * PERIOD_NS);
        let command = command.unwrap();
        assert!((command - truth).abs() <= bound, "{at}: {command}, {truth}");
    }
}

#[test]
fn isaac_gr00t_272_320_520_the_arm_does_not_jump_or_step_back_at_a_new_chunk() {
    // There, row 0 of each chunk is executed when the chunk comes. So the arm goes back by what it moved meanwhile.
    let latencies_ms = [60, 64, 44, 72, 68, 40, 76, 52, 60, 48].repeat(3);
    let spec = group_of(vec![JointSpec { interpolate: Interpolate::Cubic, ..limited() }]);
    let (commands, group) = answered(&latencies_ms, spec, of_path);
    let first = ticks_to(FIRST_MS + latencies_ms[0]);
    assert!(commands[..first].iter().all(Option::is_none));
    assert_within_limits(&commands[first..]);
    // Commands begin at the path of 60 ms ago. A joint needs v / a to its velocity and back. Meanwhile the path moves on with
    // V, and this distance is caught up with v - V.
    let [v, a] = LIMITS;
    let of_path = 0.4 * std::f64::consts::PI;
    let catch_up_s = 2.0 * v / a + (0.06 + 2.0 * v / a) * of_path / (v - of_path);
    let caught_up = first + ticks_to(FIRST_MS + (catch_up_s * 1e3).ceil() as i64) + 1;
    assert!(caught_up + 200 < commands.len(), "{caught_up} of {}", commands.len());
    assert_on_the_path(&commands, caught_up);
    // The rows before the arrival are late, and no others.
    let late = |ms: &i64| (ms * NANOS_PER_MS - 1) / STEP_NS + 1;
    let late: i64 = latencies_ms.iter().map(late).sum();
    assert_eq!((group.counts().chunks, group.counts().rows_late), (30, late as u64));
}

#[test]
fn isaac_gr00t_520_without_limits_the_start_alone_is_a_jump() {
    let spec = GroupSpec { blend_ns: 0, ..group_of(vec![joint("a")]) };
    let (commands, _) = answered(&[60, 20, 40, 72, 8, 64, 0, 52], spec, of_path);
    assert_on_the_path(&commands, ticks_to(FIRST_MS + 64));
}

#[test]
fn strands_725_a_latency_does_not_choose_the_row_so_runs_repeat() {
    // There, the latency that is measured chooses the row of each chunk, so no two runs are the same. Here two runs with
    // other latencies have the same commands, bit for bit, while both follow the same chunk.
    let spec = || GroupSpec { blend_ns: 0, ..group_of(vec![joint("a")]) };
    let chunk = |answers_ms: i64| line(answers_ms as f32, 0.7);
    let [slow, fast] = [[40, 36, 44, 40, 28], [8, 12, 4, 16, 0]];
    let (of_slow, _) = answered(&slow, spec(), chunk);
    let (of_fast, _) = answered(&fast, spec(), chunk);
    let mut compared = 0;
    for (number, latency_ms) in (0..).zip(slow) {
        let answers_ms = FIRST_MS + ANSWERS_MS * number;
        // The first command is where the joint is measured.
        for at in ticks_to(answers_ms + latency_ms + 4)..ticks_to(answers_ms + ANSWERS_MS) {
            assert_eq!(of_slow[at], of_fast[at], "{at}");
            compared += 1;
        }
    }
    assert_eq!(compared, 5 * 19 - (40 + 36 + 44 + 40 + 28) / 4);
    // The same facts give the same bits.
    assert_eq!(answered(&slow, spec(), chunk).0, of_slow);
}

#[test]
fn ros2_controllers_95_the_last_velocity_does_not_stay_for_ever_when_the_policy_dies() {
    // There, forward_command_controller goes on with the last value.
    for on_stall in [End::Decelerate, End::Zeros] {
        let spec = GroupSpec { on_stall, on_end: on_stall, ..velocity() };
        let watchdog_ms = spec.watchdog_ns / NANOS_PER_MS;
        let mut bench = Bench::new(spec);
        bench.measured = Some(f64::from(0.8f32));
        bench.chunk(FIRST_MS, &[0.8; ROWS]).unwrap();
        let alive = bench.run_to(FIRST_MS + watchdog_ms + 4);
        assert!(alive.iter().all(|command| *command == Some(f64::from(0.8f32))));
        let dead = bench.run_to(6000);
        // With 5 rad/s^2 it is at rest 0.16 s later, or at once. Zeros are sent for 0.1 s, and then nothing.
        let rests = dead.iter().position(|command| *command == Some(0.0)).unwrap();
        assert!(rests <= if on_stall == End::Zeros { 0 } else { 40 }, "{rests}");
        let zeros = dead[rests..].iter().take_while(|command| **command == Some(0.0)).count();
        assert_eq!(zeros, 25);
        assert!(dead[rests + zeros..].iter().all(Option::is_none));
        assert_eq!(bench.group.counts().stalls, 1);
    }
}

#[test]
fn ros2_controllers_95_a_policy_that_repeats_its_last_chunk_is_dead_as_well() {
    let mut bench = Bench::new(velocity());
    bench.measured = Some(0.8);
    bench.chunk(FIRST_MS, &[0.8; ROWS]).unwrap();
    let mut commands = Vec::new();
    for ms in (FIRST_MS + 20..5500).step_by(20) {
        commands.extend(bench.run_to(ms));
        let again = bench.give(FIRST_MS, &[0.8; ROWS], |sent| sent.sequence = 1, 1, true);
        assert_eq!(again, Err(Refusal::Sequence));
    }
    assert_eq!((commands.last(), bench.group.counts().stalls), (Some(&None), 1));
}

#[test]
fn lerobot_2356_each_chunk_is_used_and_not_the_first_alone() {
    let mut bench = Bench::new(GroupSpec { blend_ns: 0, ..group_of(vec![joint("a")]) });
    for number in 0..8i64 {
        let answers_ms = FIRST_MS + 100 * number;
        bench.chunk(answers_ms, &[number as f32; ROWS]).unwrap();
        let commands = bench.run_to(answers_ms + 100);
        assert_eq!(commands, vec![Some(number as f64); 25]);
    }
    assert_eq!(bench.group.counts().chunks, 8);
}

#[test]
fn strands_3402_rows_that_were_executed_are_not_executed_again() {
    // There, a new chunk is joined to the rows of the old one from its start, not to those to come.
    let mut bench = Bench::of(joint("a"));
    bench.chunk(FIRST_MS, &line(0.0, 1.0)).unwrap();
    bench.run_to(FIRST_MS + 200);
    // The same path, answered 100 ms later, comes after 100 ms more.
    bench.chunk(FIRST_MS + 100, &line(5.0, 1.0)).unwrap();
    let commands: Vec<f64> = bench.run_to(FIRST_MS + 400).into_iter().flatten().collect();
    assert!(commands.is_sorted() && (commands[0] - 10.0).abs() < 1e-9, "{:?}", commands[0]);
    assert_eq!(bench.group.counts().rows_late, 5);
}

#[test]
fn umi_a_chunk_whose_rows_are_all_late_does_not_slip_in_time() {
    // There, the last row of a chunk that is late as a whole is executed at the next step.
    let mut bench = Bench::of(limited());
    bench.chunk(FIRST_MS, &[0.1; ROWS]).unwrap();
    let before = bench.run_to(FIRST_MS + 400);
    bench.chunk(FIRST_MS + 20, &[0.9; 10]).unwrap();
    let after = bench.run_to(FIRST_MS + 480);
    assert_eq!(after.last(), before.last());
    let counts = bench.group.counts();
    assert_eq!((counts.chunks, counts.chunks_late, counts.rows_late), (1, 1, 10));
}

#[test]
fn ros2_control_2183_a_joint_that_lags_behind_does_not_slow_its_commands() {
    // There, limits are relative to what is measured. So a joint that lags behind gets half of its velocity.
    let run = |measured: fn(f64) -> f64| {
        let mut bench = Bench::of(limited());
        bench.chunk(FIRST_MS, &line(0.0, 0.03)).unwrap();
        let mut commands = Vec::new();
        while bench.now_ms() < FIRST_MS + 400 {
            let (command, _) = bench.serve();
            bench.measured = command.map(measured);
            commands.extend(command);
        }
        commands
    };
    let commands = run(|command| command);
    assert_eq!(run(|command| 0.5 * command), commands);
    assert!(commands.windows(2).any(|pair| pair[1] - pair[0] > 0.95 * 1.5 * 0.004));
}
