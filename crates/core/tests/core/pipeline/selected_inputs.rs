//! Several inputs with `select` in one stream: the numbers of the first, then those of the next.

use std::path::Path;

use robocache_core::cdr::Writer;
use robocache_core::config::{self, ConfigError};
use robocache_core::pipeline::StepState;
use robocache_core::schema::Prefixes;

use super::*;

fn try_parse(stream: &str) -> Result<Config, ConfigError> {
    let definitions = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/definitions");
    let text = format!("rate_hz: 100\nstreams:\n  s:\n    max_age_ms: 50\n{stream}");
    config::parse_with(&text, "test.yaml", &Prefixes::new(vec![definitions]))
}

fn parse(stream: &str) -> Config {
    try_parse(stream).unwrap_or_else(|error| panic!("{error}"))
}

fn rig(stream: &str) -> Pipeline {
    let config = parse(stream);
    let backend = CpuBackend::new(&config, &Layout::new(&config)).unwrap();
    Pipeline::new(config, Arc::new(backend)).unwrap()
}

fn names(config: &Config) -> Vec<String> {
    match &config.stream(STREAM).encoder {
        EncoderSpec::Vector(vector) => vector.names().into_iter().map(str::to_owned).collect(),
        other => panic!("{other:?}"),
    }
}

fn twist(ms: i64, numbers: [f64; 6]) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.header(Stamp::from_nanos(ms * MS), "tool");
    writer.f64_array(&numbers);
    writer.finish()
}

/// A `robot_msgs/Gripper`, which has no header, with these widths.
fn gripper(measured_ms: i64, widths: [f32; 2]) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.string("left");
    widths.iter().for_each(|width| writer.f32(*width));
    writer.u8(1);
    writer.f64_sequence(&[]);
    writer.f64_array(&[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]);
    writer.u32(0);
    writer.u32(u32::try_from(measured_ms * MS).unwrap());
    writer.finish()
}

fn tick(pipeline: &Pipeline, ms: i64) -> (StepState, Vec<f32>) {
    let mut message = pipeline.new_message();
    let tick = pipeline.config().grid.tick_at(Stamp::from_nanos(ms * MS));
    assert_eq!(pipeline.tick(tick, Epoch::default(), &mut message).unwrap(), TickOutcome::Ready);
    (message.steps(SEGMENT)[0], values(pipeline, &message, SEGMENT))
}

#[test]
fn inputs_of_two_types_are_one_row_and_are_resampled_by_themselves() {
    let pipeline = rig("    inputs:
      - {topic: /twist, type: geometry_msgs/TwistStamped, select: [twist.linear.x, twist.angular.z]}
      - {topic: /gripper, type: robot_msgs/Gripper, select: [width_m], stamp: measured}
");
    let expected = [
        "/twist:twist.linear.x",
        "/twist:twist.angular.z",
        "/gripper:width_m[0]",
        "/gripper:width_m[1]",
    ];
    assert_eq!(names(pipeline.config()), expected);
    let types = pipeline.config().inputs.iter().map(|input| input.ros_type.as_str());
    let types: Vec<_> = types.collect();
    assert_eq!(types, ["geometry_msgs/msg/TwistStamped", "robot_msgs/msg/Gripper"]);
    let [left, right] = [0, 1].map(InputId::new);
    let push = |input, message: &[u8]| pipeline.push(input, message, Arrival::default()).unwrap();
    push(left, &twist(94, [1.0, 9.0, 9.0, 9.0, 9.0, 10.0]));
    push(left, &twist(102, [2.0, 9.0, 9.0, 9.0, 9.0, 30.0]));
    let (state, row) = tick(&pipeline, 100);
    assert!(!state.valid, "one input has no row");
    assert_eq!((state.inputs_valid, row), (0b01, vec![0.0; 4]));
    push(right, &gripper(96, [1.0, -1.0]));
    push(right, &gripper(112, [5.0, -5.0]));
    // The target is 6 of 8 ms after the first twist, and 4 of 16 ms after the first width.
    let (state, row) = tick(&pipeline, 100);
    assert_eq!((state.valid, state.inputs_valid, state.age_ns), (true, 0b11, -2 * MS));
    assert_eq!(row, [1.75, 25.0, 2.0, -2.0]);
    // The twist is too old, the width is not.
    let (state, row) = tick(&pipeline, 160);
    assert_eq!((state.valid, state.inputs_valid), (false, 0b10));
    assert_eq!(row, [0.0; 4]);
}

#[test]
fn each_input_drops_what_it_cannot_read_and_the_other_goes_on() {
    let pipeline = rig("    strategy: hold
    inputs:
      - {topic: /twist, type: geometry_msgs/TwistStamped, select: [twist.linear.x]}
      - {topic: /gripper, type: robot_msgs/Gripper, select: ['currents[0]'], stamp: measured}
");
    let [left, right] = [0, 1].map(InputId::new);
    let reason = |input, message: &[u8]| match pipeline.push(input, message, Arrival::default()) {
        Err(NotTaken::Dropped(rejected)) => rejected.reason,
        other => panic!("{other:?}"),
    };
    assert_eq!(reason(left, &twist(100, [f64::NAN; 6])), DropReason::NonFinite);
    assert_eq!(reason(left, &twist(100, [1.0; 6])[..40]), DropReason::Malformed);
    assert_eq!(reason(right, &gripper(100, [1.0; 2])), DropReason::MissingField);
    assert_eq!(reason(right, &gripper(100, [1.0; 2])[..24]), DropReason::Malformed);
    pipeline.push(left, &twist(100, [1.0; 6]), Arrival::default()).unwrap();
    assert_eq!(tick(&pipeline, 100).0.inputs_valid, 0b01);
}

#[test]
fn keys_of_the_stream_are_for_the_inputs_that_lack_them() {
    let pipeline = rig("    type: geometry_msgs/TwistStamped
    max_gap_ms: 50
    select: [twist.linear.x, twist.angular.z]
    angular: ['/right:twist.linear.y']
    operators:
      - {scale: 2, of: ['/left']}
      - {offset: 1, of: [twist.angular.z]}
    inputs:
      - {topic: /left}
      - {topic: /right, select: [twist.linear.y], stamp_offset_ms: -2}
");
    let expected = ["/left:twist.linear.x", "/left:twist.angular.z", "/right:twist.linear.y"];
    assert_eq!(names(pipeline.config()), expected);
    let [left, right] = [0, 1].map(InputId::new);
    let push = |input, ms, numbers| {
        pipeline.push(input, &twist(ms, numbers), Arrival::default()).unwrap();
    };
    push(left, 100, [1.0, 9.0, 9.0, 9.0, 9.0, 2.0]);
    push(right, 92, [9.0, 3.0, 9.0, 9.0, 9.0, 9.0]);
    push(right, 112, [9.0, -3.0, 9.0, 9.0, 9.0, 9.0]);
    let (state, row) = tick(&pipeline, 100);
    assert!(state.valid);
    assert_eq!(row[..2], [2.0, 5.0]);
    // Half-way from 3 to -3 rad, along the shorter arc.
    assert!((f64::from(row[2]).abs() - std::f64::consts::PI).abs() < 1e-6, "{row:?}");
}

#[test]
fn each_input_may_have_a_frame() {
    let config = parse(
        "    strategy: slerp
    inputs:
      - {topic: /pose, type: geometry_msgs/PoseStamped, select: [pose], in_frame: map}
      - {topic: /twist, type: geometry_msgs/TwistStamped, select: [twist.linear]}
      - {topic: /gripper, type: robot_msgs/Gripper, select: [holding]}
",
    );
    let frames = config.inputs[..3].iter().map(|input| {
        let in_frame = input.in_frame.as_ref()?;
        let parts = in_frame.parts.iter().map(|part| part.quantity.numbers());
        Some((in_frame.frame.as_str(), parts.collect::<Vec<_>>()))
    });
    assert_eq!(frames.collect::<Vec<_>>(), [Some(("map", vec![3, 4])), None, None]);
    assert!(config.tf.is_some());
    let rings = config.inputs[..3].iter().map(|input| input.feeds.clone());
    assert_eq!(rings.collect::<Vec<_>>(), [0, 1, 2].map(|ring| vec![RingId::new(ring)]));
}

#[test]
fn one_input_of_a_list_is_called_as_one_without() {
    let alone = parse("    type: robot_msgs/Grasp\n    topic: /a\n    select: [score]\n");
    let listed = parse("    inputs: [{topic: /a, type: robot_msgs/Grasp, select: [score]}]\n");
    assert_eq!((&alone.inputs, &alone.streams), (&listed.inputs, &listed.streams));
}

#[test]
fn each_ring_must_serve_the_fastest_input() {
    let stream = |hz: u32| {
        format!(
            "    type: robot_msgs/Grasp
    select: [score]
    history: {{steps: 11, step_ms: 100}}
    ring_rows: 104
    expected_rate_hz: {hz}
    inputs: [{{topic: /a}}, {{topic: /b}}]
"
        )
    };
    // The ring reaches back over 1010 ms, whatever the other input sends.
    assert_eq!(parse(&stream(100)).stream(STREAM).ring_rows, 104);
    let error = try_parse(&stream(110)).unwrap_err().to_string();
    assert!(error.contains("streams.s.ring_rows: expected at least 114 rows"), "{error}");
}
