//! The messages, as the definitions of ROS have them.

mod accepted;
mod controllers;

use super::*;
use crate::cdr::Reader;
use crate::command::group::tests::{Bench, group_of, limited, line};
use crate::spec::{CommandForm, GroupSpec};

const PERIOD_NS: i64 = 4_000_000;

/// A point: its positions, and its time \[ns\].
type Point = (Vec<f64>, i64);

fn f64s(reader: &mut Reader<'_>) -> Vec<f64> {
    let values = reader.f64_sequence().unwrap();
    (0..values.len()).filter_map(|at| values.get(at)).collect()
}

fn names(reader: &mut Reader<'_>) -> Vec<String> {
    let len = reader.u32().unwrap();
    let name = |_| String::from_utf8(reader.string_bytes().unwrap().to_vec()).unwrap();
    (0..len).map(name).collect()
}

/// The stamp \[ns\], the joints and the points of a JointTrajectory.
fn trajectory(message: &[u8]) -> (i64, Vec<String>, Vec<Point>) {
    let mut reader = Reader::new(message).unwrap();
    let time = |reader: &mut Reader<'_>| {
        i64::from(reader.i32().unwrap()) * 1_000_000_000 + i64::from(reader.u32().unwrap())
    };
    let stamp = time(&mut reader);
    assert_eq!(reader.string_bytes().unwrap(), b"");
    let joints = names(&mut reader);
    let points = (0..reader.u32().unwrap()).map(|_| {
        let positions = f64s(&mut reader);
        (0..3).for_each(|_| assert!(f64s(&mut reader).is_empty()));
        (positions, time(&mut reader))
    });
    let points = points.collect();
    assert_eq!(reader.left(), 0);
    (stamp, joints, points)
}

fn open(bench: &Bench, name: &str, form: CommandForm) -> Box<dyn CommandOutput> {
    CommandType::find(name).unwrap().open(&bench.group, form)
}

#[test]
fn a_forward_controller_gets_the_values_of_its_joints_alone() {
    let mut bench = Bench::new(group_of(vec![limited()]));
    let mut output = open(&bench, "std_msgs/msg/Float64MultiArray", CommandForm::EachTick);
    let at = bench.at();
    let (_, made) = bench.serve();
    assert_eq!(output.write(at, made, &mut bench.group), None, "no plan, no command");
    bench.chunk(4000, &line(0.5, 0.0)).unwrap();
    let at = bench.at();
    let (command, made) = bench.serve();
    let message = output.write(at, made, &mut bench.group).unwrap();
    let mut reader = Reader::new(message).unwrap();
    assert_eq!((reader.u32(), reader.u32()), (Ok(0), Ok(0)));
    assert_eq!(f64s(&mut reader), [command.unwrap()]);
    assert_eq!(reader.left(), 0);
}

#[test]
fn a_joint_state_has_positions_or_velocities() {
    for interface in [Interface::Position, Interface::Velocity] {
        let mut bench = Bench::new(GroupSpec { interface, ..group_of(vec![limited()]) });
        let mut output = open(&bench, "sensor_msgs/msg/JointState", CommandForm::EachTick);
        bench.chunk(4000, &line(0.0, 0.0)).unwrap();
        let at = bench.at();
        let (_, made) = bench.serve();
        let message = output.write(at, made, &mut bench.group).unwrap();
        let mut reader = Reader::new(message).unwrap();
        assert_eq!((reader.i32(), reader.u32()), (Ok(4), Ok(0)));
        assert_eq!(reader.string_bytes().unwrap(), b"");
        assert_eq!(names(&mut reader), ["a"]);
        let values = [f64s(&mut reader).len(), f64s(&mut reader).len(), f64s(&mut reader).len()];
        let expected = if interface == Interface::Position { [1, 0, 0] } else { [0, 1, 0] };
        assert_eq!(values, expected);
    }
}

#[test]
fn a_trajectory_has_the_commands_to_come_and_ends_at_rest() {
    let mut bench = Bench::new(group_of(vec![limited()]));
    let form = CommandForm::Points { step_ns: 5 * PERIOD_NS };
    let mut output = open(&bench, "trajectory_msgs/msg/JointTrajectory", form);
    // It ends while it moves.
    bench.chunk(4000, &line(0.0, 0.02)[..10]).unwrap();
    let at = bench.at();
    let (_, made) = bench.serve();
    let message = output.write(at, made, &mut bench.group).unwrap();
    let (stamp, joints, points) = trajectory(message);
    assert_eq!((stamp, &joints[..]), (at.stamp.nanos() + PERIOD_NS, &["a".to_owned()][..]));
    assert_eq!(points[0].1, 0);
    assert!(points.is_sorted_by_key(|point| point.1));
    // The node's own commands at the instants of the points are the same bits.
    let mut own = Vec::new();
    while bench.at().stamp.nanos() < stamp + points.last().unwrap().1 + 10 * PERIOD_NS {
        let at = bench.at();
        let (command, made) = bench.serve();
        own.push((at.stamp.nanos() - stamp, command.unwrap()));
        let message = output.write(at, made, &mut bench.group);
        assert_eq!(message.is_some(), made.turns, "one more at its end, and none between");
    }
    for (positions, after_ns) in &points {
        let (_, command) = own.iter().find(|(at, _)| at == after_ns).unwrap();
        assert_eq!(positions, &[*command], "after {after_ns} ns");
    }
    assert_eq!(own.last().unwrap().1, points.last().unwrap().0[0], "it is at rest at the end");
}

#[test]
fn one_point_is_to_be_reached_within_a_period_from_the_controllers_now() {
    let mut bench = Bench::new(group_of(vec![limited()]));
    let mut output = open(&bench, "trajectory_msgs/msg/JointTrajectory", CommandForm::EachTick);
    bench.chunk(4000, &line(0.5, 0.0)).unwrap();
    for _ in 0..3 {
        let at = bench.at();
        let (command, made) = bench.serve();
        let message = output.write(at, made, &mut bench.group).unwrap();
        let (stamp, _, points) = trajectory(message);
        assert_eq!((stamp, points), (0, vec![(vec![command.unwrap()], PERIOD_NS)]));
    }
}

#[test]
fn a_group_that_is_disabled_leaves_its_plan_also_if_it_is_at_rest_at_once() {
    let mut bench = Bench::new(group_of(vec![limited()]));
    let form = CommandForm::Points { step_ns: 5 * PERIOD_NS };
    let mut output = open(&bench, "trajectory_msgs/msg/JointTrajectory", form);
    bench.chunk(4000, &line(0.0, 0.02)).unwrap();
    let at = bench.at();
    let (command, made) = bench.serve();
    assert!(output.write(at, made, &mut bench.group).is_some());
    bench.group.disable(crate::command::Disabling::Asked);
    let at = bench.at();
    let (sent, made) = bench.serve();
    assert_eq!(sent, None, "it does not move");
    let message = output.write(at, made, &mut bench.group).unwrap();
    let (_, _, points) = trajectory(message);
    // A second long, so that it is not past when it comes.
    assert_eq!(points, [0, 1_000_000_000].map(|after_ns| (vec![command.unwrap()], after_ns)));
    let at = bench.at();
    let (_, made) = bench.serve();
    assert!(output.write(at, made, &mut bench.group).is_none());
}

#[test]
fn a_row_that_is_held_makes_a_short_trajectory() {
    let late = crate::spec::Late::Last;
    let mut bench = Bench::new(GroupSpec { on_late: late, ..group_of(vec![limited()]) });
    let form = CommandForm::Points { step_ns: 5 * PERIOD_NS };
    let mut output = open(&bench, "trajectory_msgs/msg/JointTrajectory", form);
    bench.chunk(4000, &line(0.0, 0.0)).unwrap();
    while bench.at().stamp.nanos() < 4_100_000_000 {
        bench.serve();
    }
    bench.chunk(4020, &[0.1, 0.1]).unwrap();
    let at = bench.at();
    let (_, made) = bench.serve();
    let (_, _, points) = trajectory(output.write(at, made, &mut bench.group).unwrap());
    assert!(points.len() < 30, "{}", points.len());
    assert_eq!(points.last().unwrap().0, [f64::from(0.1f32)]);
}
