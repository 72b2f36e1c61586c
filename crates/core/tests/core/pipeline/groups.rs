//! Streams of several groups and several inputs.

use std::sync::Barrier;

use super::*;
use crate::common::trajectory;
use robocache_core::config;
use robocache_core::config::describe::Report;
use robocache_core::schema::Prefixes;
use robocache_ops::operators::OutputChannel;
use robocache_ops::resample::Lane;

/// A stream of an arm's two joints and a gripper's one, each from a topic of its own.
pub(super) fn grouped(rest: &str) -> Pipeline {
    pipeline(&format!(
        "rate_hz: 100
streams:
  joints:
    type: sensor_msgs/msg/JointState
    groups: {{arm: [a, b], gripper: [g]}}
    inputs: [{{topic: /arm}}, {{topic: /gripper}}]
    max_age_ms: 20
    {rest}
"
    ))
}

/// Pushes a message of input 0 (the arm: `a` is `value`, `b` is `-value`) or 1 (the gripper).
fn push_group(pipeline: &Pipeline, input: usize, ms: i64, value: f64) {
    let stamp = Stamp::from_nanos(ms * MS);
    let message = match input {
        0 => joint_state(stamp, &["b", "a"], &[-value, value]),
        _ => joint_state(stamp, &["g"], &[value]),
    };
    let accepted = pipeline.push(InputId::new(input), &message, Arrival::default()).unwrap();
    assert_eq!((accepted.rows, accepted.stamp), (1, Some(stamp)));
}

#[test]
fn groups_are_resampled_by_themselves_and_served_as_one_row() {
    let pipeline = grouped("history: {steps: 2, step_ms: 10}");
    let mut message = pipeline.new_message();
    for ms in [80, 88, 96, 104] {
        push_group(&pipeline, 0, ms, ms as f64);
    }
    assert_eq!(served(&pipeline, &mut message, 10).1, [NEVER; 2]);
    for ms in [85, 95, 105] {
        push_group(&pipeline, 1, ms, 10.0 * ms as f64);
    }
    // Tick 10 is at 100 ms: between 96 and 104 for the arm, between 95 and 105 for the gripper.
    let (got, steps) = served(&pipeline, &mut message, 10);
    assert_eq!(got, [90.0, -90.0, 900.0, 100.0, -100.0, 1000.0]);
    // The newest rows used are after the targets: the arm's by 6 and 4 ms, the gripper's by 5 ms.
    // The age of a step is the greater of the two.
    assert_eq!(steps, [state(true, -5), state(true, -4)]);
}

#[test]
fn a_group_without_a_row_is_named_while_another_has_one() {
    let pipeline = grouped("");
    assert!(pipeline.groups_without_rows(STREAM).is_empty());
    push_group(&pipeline, 0, 100, 1.0);
    assert_eq!(pipeline.groups_without_rows(STREAM), [["g.position"]]);
    push_group(&pipeline, 1, 100, 1.0);
    assert!(pipeline.groups_without_rows(STREAM).is_empty());
}

#[test]
fn a_step_of_groups_is_valid_when_all_are_and_filled_as_a_whole() {
    for (fill, arm, gripper) in [("zero", 0.0, 0.0), ("last", 96.0, 70.0)] {
        let pipeline = grouped(&format!("fill: {fill}"));
        let mut message = pipeline.new_message();
        push_group(&pipeline, 0, 96, 96.0);
        push_group(&pipeline, 1, 70, 70.0);
        let (got, steps) = served(&pipeline, &mut message, 10);
        assert_eq!(got, [arm, -arm, gripper]);
        assert_eq!(steps, [state(false, 30)]);
        // The gripper is valid again. The message shows it and the arm's row, which has not
        // changed.
        push_group(&pipeline, 1, 99, 99.0);
        let (got, steps) = served(&pipeline, &mut message, 10);
        assert_eq!((got.as_slice(), steps), (&[96.0, -96.0, 99.0][..], vec![state(true, 4)]));
    }
}

#[test]
fn a_message_of_several_groups_is_one_message_and_two_rows() {
    let pipeline = grouped("strategy: hold");
    let both = joint_state(Stamp::from_nanos(100 * MS), &["g", "a", "b"], &[3.0, 1.0, 2.0]);
    let accepted = pipeline.push(FIRST, &both, Arrival::default()).unwrap();
    assert_eq!((accepted.rows, accepted.stamp), (2, Some(Stamp::from_nanos(100 * MS))));
    let mut message = pipeline.new_message();
    assert_eq!(served(&pipeline, &mut message, 10), (vec![1.0, 2.0, 3.0], vec![state(true, 0)]));
    // The arm is incomplete and counted; the gripper is taken.
    let part = joint_state(Stamp::from_nanos(110 * MS), &["g", "a"], &[4.0, 9.0]);
    assert_eq!(pipeline.push(FIRST, &part, Arrival::default()).unwrap().rows, 1);
    // If a number of one group is NaN, that group is dropped; the other is taken.
    let bad = joint_state(Stamp::from_nanos(120 * MS), &["g", "a", "b"], &[f64::NAN, 5.0, 6.0]);
    let accepted = pipeline.push(FIRST, &bad, Arrival::default()).unwrap();
    assert_eq!(accepted.rows, 1);
    assert_eq!(accepted.part.unwrap().reason, DropReason::NonFinite);
    // Neither group is complete: nothing is taken.
    let none = joint_state(Stamp::from_nanos(130 * MS), &["a"], &[5.0]);
    assert!(pipeline.push(FIRST, &none, Arrival::default()).is_err());
    let input = pipeline.input_stats(FIRST);
    let stream = pipeline.stats(STREAM);
    assert_eq!((input.received.get(), input.accepted.get(), stream.rows.get()), (4, 3, 4));
    assert_eq!((input.groups_incomplete.get(), input.parts_dropped_total()), (1, 1));
    assert_eq!(input.parts_dropped(DropReason::NonFinite), 1);
    assert_eq!(input.dropped(DropReason::MissingField), 1);
    assert_eq!(served(&pipeline, &mut message, 12), (vec![5.0, 6.0, 4.0], vec![state(true, 10)]));
}

#[test]
fn two_threads_may_push_the_inputs_of_a_full_ring() {
    let two = pipeline(
        "rate_hz: 100
streams:
  joints:
    type: sensor_msgs/msg/JointState
    joints: [a]
    inputs: [{topic: /one}, {topic: /two}]
    max_age_ms: 20
    ring_rows: 8
",
    );
    let together = Barrier::new(2);
    std::thread::scope(|scope| {
        for input in 0..2 {
            let two = &two;
            let together = &together;
            scope.spawn(move || {
                for i in 0..2000 {
                    let stamp = Stamp::from_nanos((2 * i + input as i64 + 1) * MS);
                    let message = joint_state(stamp, &["a"], &[1.0]);
                    together.wait();
                    // Refused messages show in the count: a panic would keep the other waiting.
                    let _ = two.push(InputId::new(input), &message, Arrival::default());
                }
            });
        }
    });
    assert_eq!(two.stats(STREAM).rows.get(), 4000);
}

/// Two arms of one make: the same names of joints on two topics.
const TWINS: &str = "rate_hz: 100
streams:
  arms:
    type: sensor_msgs/msg/JointState
    inputs:
      - {topic: /left/joint_states, joints: [shoulder, wrist]}
      - {topic: /right/joint_states, joints: [shoulder, wrist, gripper]}
    max_age_ms: 20
";

#[test]
fn inputs_with_joints_of_their_own_may_have_the_same_names() {
    let pipeline = pipeline(TWINS);
    let EncoderSpec::Vector(vector) = &pipeline.config().stream(STREAM).encoder else {
        panic!("no vector")
    };
    let expected = [
        "/left/joint_states:shoulder.position",
        "/left/joint_states:wrist.position",
        "/right/joint_states:shoulder.position",
        "/right/joint_states:wrist.position",
        "/right/joint_states:gripper.position",
    ];
    assert_eq!(vector.names(), expected);
    let report = Report::new(pipeline.config(), &Prefixes::default());
    let joints = "/left/joint_states:shoulder, /left/joint_states:wrist, \
                  /right/joint_states:shoulder, /right/joint_states:wrist, \
                  /right/joint_states:gripper";
    assert_eq!(report.streams[0].joints.join(", "), joints);
    assert_eq!(report.segments[0].contents, format!("position of {joints}"));
    let push = |input, ms, names: &[&str], values: &[f64]| {
        let message = joint_state(Stamp::from_nanos(ms * MS), names, values);
        pipeline.push(InputId::new(input), &message, Arrival::default())
    };
    // The names of the left arm's joints say nothing about the right one.
    for ms in [95, 105] {
        push(0, ms, &["wrist", "shoulder"], &[2.0, 1.0]).unwrap();
    }
    let mut message = pipeline.new_message();
    let (got, steps) = served(&pipeline, &mut message, 10);
    assert_eq!(
        (got, steps[0].0, message.steps(SEGMENT)[0].inputs_valid),
        (vec![0.0; 5], false, 0b01)
    );
    assert_eq!(pipeline.groups_without_rows(STREAM), [&expected[2..]]);
    for ms in [95, 105] {
        let names = ["shoulder", "wrist", "gripper"];
        push(1, ms, &names, &[3.0, 4.0, ms as f64]).unwrap();
    }
    let (got, steps) = served(&pipeline, &mut message, 10);
    assert_eq!((got, steps[0].0), (vec![1.0, 2.0, 3.0, 4.0, 100.0], true));
    assert_eq!(message.steps(SEGMENT)[0].inputs_valid, 0b11);
    let missing = push(1, 115, &["shoulder", "wrist"], &[3.0, 4.0]);
    let Err(NotTaken::Dropped(missing)) = missing else { panic!("{missing:?}") };
    assert_eq!(missing.detail, "name: gripper is missing");
}

#[test]
fn joints_of_the_stream_are_those_of_inputs_that_have_none() {
    let text = "rate_hz: 100
streams:
  arms:
    type: sensor_msgs/msg/JointState
    fields: [position, velocity]
    joints: [a, b]
    angular: [b, '/right:c']
    operators: [{of: [/left], scale: 2}, {of: [c], offset: 1}]
    inputs: [{topic: /left}, {topic: /right, joints: [b, c]}]
    max_age_ms: 20
";
    let config = config::parse(text, "test.yaml").unwrap_or_else(|error| panic!("{error}"));
    let EncoderSpec::Vector(vector) = &config.stream(STREAM).encoder else { panic!("no vector") };
    let turns = vector.channels.iter().filter(|channel| channel.lane == Lane::Angular);
    let turns: Vec<_> = turns.map(|channel| channel.name.as_str()).collect();
    assert_eq!(turns, ["/left:b.position", "/right:b.position", "/right:c.position"]);
    let changed = |output: &OutputChannel| !output.operators.is_empty();
    let changed: Vec<_> = vector.outputs.iter().map(changed).collect();
    // Position, then velocity: of the left a and b, then of the right b and c.
    assert_eq!(changed, [true, true, false, true, true, true, false, true]);
    let plain =
        config::parse(&text.replace(", joints: [b, c]", "").replace(", '/right:c'", ""), "");
    let error = plain.unwrap_err().to_string();
    assert!(
        error.contains("operators[0].of[0]"),
        "without joints of their own there is no label: {error}"
    );
}

#[test]
fn plans_of_inputs_with_joints_of_their_own_replace_their_own_points_alone() {
    let pipeline = pipeline(
        "rate_hz: 100
streams:
  plans:
    type: trajectory_msgs/msg/JointTrajectory
    inputs: [{topic: /left, joints: [a]}, {topic: /right, joints: [a]}]
    max_age_ms: 1000
",
    );
    let push = |input, start_ms: i64, value: f64| {
        let points = [(0, vec![value]), (40 * MS, vec![value])];
        let plan = trajectory(Stamp::from_nanos(start_ms * MS), &["a"], &points);
        pipeline.push(InputId::new(input), &plan, Arrival::default()).unwrap();
    };
    push(0, 80, 1.0);
    push(1, 80, 2.0);
    push(1, 90, 3.0);
    let mut message = pipeline.new_message();
    assert_eq!(served(&pipeline, &mut message, 10).0, [1.0, 3.0]);
}
