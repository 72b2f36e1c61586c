//! The node's messages, as the model of the controllers takes them.

use super::controllers::{JointTrajectoryController, forwarded};
use super::*;
use crate::command::{Disabling, Stage};
use crate::spec::Interface;
use robocache_ops::random::Random;
use robocache_ops::time::{NANOS_PER_MS, Stamp};

/// Between two points of a trajectory \[ns\].
const POINTS_NS: i64 = 5 * PERIOD_NS;
const TRAJECTORY: &str = "trajectory_msgs/msg/JointTrajectory";

/// One message of a run: its tick, the command of this tick if one is sent, and its bytes if there are any.
type Served = (Stamp, Option<f64>, Option<Vec<u8>>);

/// A run of 4000 ticks in which a policy answers, is late, is gone, and is switched off and on, as drawn.
fn run(spec: GroupSpec, name: &str, form: CommandForm, seed: u64) -> Vec<Served> {
    let mut bench = Bench::new(spec);
    let mut output = open(&bench, name, form);
    let mut random = Random::new(seed);
    let mut all = Vec::new();
    while all.len() < 4000 {
        let now_ms = bench.at().stamp.nanos() / NANOS_PER_MS;
        match random.below(100) {
            0..3 => {
                let from = random.float(-1.0, 1.0);
                let slope = random.float(-0.03, 0.03);
                let rows = 1 + random.below(50) as usize;
                let answers_ms = (now_ms - random.below(200) as i64) / 20 * 20;
                // One that is refused is none.
                let _ = bench.chunk(answers_ms, &line(from, slope)[..rows]);
            }
            3 if random.below(3) == 0 => bench.group.disable(Disabling::Asked),
            4 => bench.group.enable(),
            _ => {}
        }
        let at = bench.at();
        let (command, made) = bench.serve();
        let message = output.write(at, made, &mut bench.group).map(<[u8]>::to_vec);
        all.push((at.stamp, command, message));
    }
    assert!(all.iter().filter(|(_, command, _)| command.is_some()).count() > 1000);
    let counts = bench.group.counts();
    assert!(counts.chunks > 20 && counts.starts > 1 && counts.ends > 1, "{counts:?}");
    all
}

#[test]
fn a_forward_controller_takes_each_command() {
    for interface in [Interface::Position, Interface::Velocity] {
        let spec = GroupSpec { interface, ..group_of(vec![limited()]) };
        let name = "std_msgs/msg/Float64MultiArray";
        let form = CommandForm::EachTick;
        for (_, command, message) in run(spec, name, form, 1) {
            let taken = message.map(|message| forwarded(1, &message).unwrap());
            assert_eq!(taken, command.map(|command| vec![command]));
        }
    }
}

#[test]
fn a_trajectory_controller_takes_each_point() {
    let mut controller = JointTrajectoryController::new(&["a"]);
    let spec = group_of(vec![limited()]);
    for (now, command, message) in run(spec, TRAJECTORY, CommandForm::EachTick, 2) {
        assert_eq!(command.is_some(), message.is_some());
        let Some(message) = message else { continue };
        controller.take(&message, now).unwrap();
        let reached = controller.desired(now.offset(PERIOD_NS)).unwrap();
        assert_eq!(reached, [command.unwrap()]);
    }
}

#[test]
fn a_trajectory_controller_takes_each_plan_and_goes_where_the_commands_go() {
    let form = CommandForm::Points { step_ns: POINTS_NS };
    let period_s = PERIOD_NS as f64 / 1e9;
    // A line between two points is so far from commands with this acceleration.
    let bound = 10.0 * (5.0 * period_s) * (5.0 * period_s) / 8.0 + 1e-9;
    let mut compared = 0;
    let mut sent = 0;
    for seed in 3..8 {
        let mut controller = JointTrajectoryController::new(&["a"]);
        let mut follows = false;
        for (now, command, message) in run(group_of(vec![limited()]), TRAJECTORY, form, seed) {
            match (message, command) {
                // From the next tick on.
                (Some(message), _) => {
                    controller.take(&message, now).unwrap();
                    (follows, sent) = (true, sent + 1);
                }
                (None, Some(command)) if follows => {
                    let desired = controller.desired(now).unwrap()[0];
                    assert!((desired - command).abs() <= bound, "{now}: {desired}, {command}");
                    compared += 1;
                }
                _ => {}
            }
        }
    }
    assert!(compared > 10_000 && sent > 200, "{compared} {sent}");
}

#[test]
fn a_plan_that_comes_late_is_taken_also_if_it_is_a_stop() {
    // The controller refuses what is past as a whole, and goes on with the plan before: so a stop that is short must not be
    // past when it comes.
    let late_ns = 50 * NANOS_PER_MS;
    let form = CommandForm::Points { step_ns: POINTS_NS };
    let mut controller = JointTrajectoryController::new(&["a"]);
    for (now, _, message) in run(group_of(vec![limited()]), TRAJECTORY, form, 9) {
        let Some(message) = message else { continue };
        controller.take(&message, now.offset(late_ns)).unwrap();
    }
}

#[test]
fn a_controller_whose_group_is_disabled_stays_where_it_is_although_the_message_is_late() {
    let mut bench = Bench::new(group_of(vec![limited()]));
    let mut output = open(&bench, TRAJECTORY, CommandForm::Points { step_ns: POINTS_NS });
    let mut controller = JointTrajectoryController::new(&["a"]);
    bench.chunk(4000, &line(0.0, 0.02)).unwrap();
    let at = bench.at();
    let (command, made) = bench.serve();
    let plan = output.write(at, made, &mut bench.group).unwrap();
    controller.take(plan, at.stamp).unwrap();
    bench.group.disable(Disabling::Asked);
    let at = bench.at();
    let (_, made) = bench.serve();
    assert_eq!(made.stage, Stage::Disabled);
    let stop = output.write(at, made, &mut bench.group).unwrap();
    let arrives = at.stamp.offset(3 * PERIOD_NS);
    controller.take(stop, arrives).unwrap();
    let later = arrives.offset(500 * NANOS_PER_MS);
    assert_eq!(controller.desired(later), Some(vec![command.unwrap()]));
}
