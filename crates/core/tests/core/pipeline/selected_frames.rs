//! Tests of what `select` takes of a message, in another frame: the bits of the typed readers, and what their
//! types mean.

use std::path::Path;

use robocache_core::cdr::Writer;
use robocache_core::config;
use robocache_core::schema::Prefixes;

use super::*;

/// A quarter turn about z.
const TURN: [f64; 4] = [0.0, 0.0, std::f64::consts::FRAC_1_SQRT_2, std::f64::consts::FRAC_1_SQRT_2];
const LINK: [f64; 3] = [10.0, 20.0, 30.0];

fn config(streams: &[&str]) -> String {
    let stream = |(at, keys): (usize, &&str)| {
        format!("  s{at}: {{topic: /s{at}, max_age_ms: 1000, in_frame: map, {keys}}}\n")
    };
    let streams: String = streams.iter().enumerate().map(stream).collect();
    format!("rate_hz: 100\nstreams:\n{streams}")
}

/// A pipeline for these streams, which knows where `tool` is in `map`.
fn rig(streams: &[&str], turn: [f64; 4]) -> Pipeline {
    let definitions = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/definitions");
    let config = config(streams);
    let config = config::parse_with(&config, "test.yaml", &Prefixes::new(vec![definitions]));
    let config = config.unwrap_or_else(|error| panic!("{error}"));
    let backend = CpuBackend::new(&config, &Layout::new(&config)).unwrap();
    let pipeline = Pipeline::new(config, Arc::new(backend)).unwrap();
    let mut link = Writer::new();
    link.u32(1);
    link.header(Stamp::from_nanos(MS), "map");
    link.string("tool");
    link.f64_array(&LINK);
    link.f64_array(&turn);
    let inputs = &pipeline.config().inputs;
    let at = inputs.iter().position(|input| input.name == "tf_static").unwrap();
    pipeline.push(InputId::new(at), &link.finish(), Arrival::default()).unwrap();
    pipeline
}

/// The row of each stream, after every stream has taken the message.
fn rows(pipeline: &Pipeline, message: &[u8]) -> Vec<Vec<f32>> {
    let streams: Vec<StreamId> = pipeline.config().stream_ids().collect();
    for at in 0..streams.len() {
        pipeline.push(InputId::new(at), message, Arrival::default()).unwrap();
    }
    let mut out = pipeline.new_message();
    let tick = pipeline.config().grid.tick_at(Stamp::from_nanos(100 * MS));
    assert_eq!(pipeline.tick(tick, Epoch::default(), &mut out).unwrap(), TickOutcome::Ready);
    let row = |at: usize| {
        assert!(out.steps(SegmentId::new(at))[0].valid);
        values(pipeline, &out, SegmentId::new(at))
    };
    (0..streams.len()).map(row).collect()
}

fn message(frame: &str, numbers: &[f64]) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.header(Stamp::from_nanos(90 * MS), frame);
    writer.f64_array(numbers);
    writer.finish()
}

#[test]
fn selected_numbers_have_the_bits_of_the_typed_streams() {
    let turn = [0.1, -0.5, 0.3, (1.0f64 - 0.01 - 0.25 - 0.09).sqrt()];
    let orientation = [0.5, -0.5, 0.5, 0.5];
    let pose = rig(
        &[
            "type: geometry_msgs/PoseStamped",
            "type: geometry_msgs/PoseStamped, select: [pose]",
            "type: geometry_msgs/PoseStamped, select: [pose.position, pose.orientation]",
            "type: geometry_msgs/PoseStamped, strategy: slerp, select: [pose.position.x, \
             pose.position.y, pose.position.z, pose.orientation]",
        ],
        turn,
    );
    let [position, rest] = [[1.5, -2.25, 0.3], orientation[..3].try_into().unwrap()];
    let rows_of_pose = rows(&pose, &message("tool", &[&position[..], &rest, &[0.5]].concat()));
    assert!(rows_of_pose.iter().all(|row| *row == rows_of_pose[0]), "{rows_of_pose:?}");
    assert_ne!(rows_of_pose[0][..3], position.map(|value| value as f32));
    let twist = rig(
        &[
            "type: geometry_msgs/TwistStamped",
            "type: geometry_msgs/TwistStamped, select: [twist]",
            "type: geometry_msgs/TwistStamped, select: [twist.linear, twist.angular]",
        ],
        turn,
    );
    let rows_of_twist = rows(&twist, &message("tool", &[1.0, 2.0, 3.0, -0.1, 0.2, 0.3]));
    assert!(rows_of_twist.iter().all(|row| *row == rows_of_twist[0]), "{rows_of_twist:?}");
}

#[test]
fn points_are_moved_and_directions_are_turned() {
    let close = |row: &[f32], expected: &[f32]| {
        assert_eq!(row.len(), expected.len());
        let pairs = row.iter().zip(expected);
        assert!(pairs.into_iter().all(|(a, b)| (a - b).abs() < 1e-5), "{row:?} {expected:?}");
    };
    let moved = [10.0 - 2.0, 20.0 + 1.0, 30.0 + 3.0];
    let quarter = TURN.map(|value| value as f32);
    let poses = rig(
        &["type: geometry_msgs/PoseArray, select: ['poses[1].position', 'poses[0].orientation']"],
        TURN,
    );
    let mut writer = Writer::new();
    writer.header(Stamp::from_nanos(90 * MS), "tool");
    writer.u32(2);
    writer.f64_array(&[7.0, 7.0, 7.0, 0.0, 0.0, 0.0, 1.0]);
    writer.f64_array(&[1.0, 2.0, 3.0, 0.0, 0.0, 1.0, 0.0]);
    close(&rows(&poses, &writer.finish())[0], &[&moved[..], &quarter].concat());

    let transform = rig(
        &[
            "type: geometry_msgs/TransformStamped, select: [transform.rotation, transform.translation]",
        ],
        TURN,
    );
    let mut writer = Writer::new();
    writer.header(Stamp::from_nanos(90 * MS), "tool");
    writer.string("grip");
    writer.f64_array(&[1.0, 2.0, 3.0, 0.0, 0.0, 0.0, 1.0]);
    close(&rows(&transform, &writer.finish())[0], &[&quarter[..], &moved].concat());

    let twist =
        rig(&["type: geometry_msgs/TwistStamped, select: [twist.angular, twist.linear]"], TURN);
    let numbers = [4.0, 5.0, 6.0, 0.5, 0.25, 0.125];
    let turned = [-0.25, 0.5, 0.125, -5.0, 4.0, 6.0];
    close(&rows(&twist, &message("tool", &numbers))[0], &turned);
}

#[test]
fn a_default_frame_is_for_what_is_in_a_frame() {
    let definitions = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/definitions");
    let text = "rate_hz: 100
defaults: {vector: {in_frame: map, max_age_ms: 10}}
streams:
  none: {type: robot_msgs/Gripper, topic: /a, select: [holding]}
  score: {type: robot_msgs/Grasp, topic: /b, select: [score]}
  pose: {type: geometry_msgs/PoseStamped, topic: /c, select: [pose]}
";
    let config = config::parse_with(text, "test.yaml", &Prefixes::new(vec![definitions])).unwrap();
    let asks: Vec<bool> = config.inputs.iter().map(|input| input.in_frame.is_some()).collect();
    assert_eq!(asks[..3], [false, false, true]);
}
