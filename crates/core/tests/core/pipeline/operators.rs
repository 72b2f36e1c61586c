//! Operators: what is made of the channels at each target.

use std::path::Path;

use robocache_core::cdr::Writer;
use robocache_core::schema::Prefixes;
use robocache_ops::align::Strategy;

use super::*;

fn near(got: &[f32], expected: &[f64]) {
    assert_eq!(got.len(), expected.len(), "{got:?}");
    for (got, expected) in got.iter().zip(expected) {
        let tolerance = 1e-6 * expected.abs().max(1.0);
        assert!((f64::from(*got) - expected).abs() <= tolerance, "{got} is not {expected}");
    }
}

/// Joints `a` and `b` with these keys, at 100 Hz ticks.
fn joints(keys: &str) -> Pipeline {
    pipeline(&format!(
        "rate_hz: 100
streams:
  joints:
    type: sensor_msgs/msg/JointState
    topic: /joint_states
    joints: [a, b]
    max_age_ms: 50
    {keys}
"
    ))
}

fn push(pipeline: &Pipeline, ms: i64, values: &[f64]) -> Result<(), DropReason> {
    let message = joint_state(Stamp::from_nanos(ms * MS), &["a", "b"], values);
    match pipeline.push(FIRST, &message, Arrival::default()) {
        Ok(_) => Ok(()),
        Err(NotTaken::Dropped(error)) => Err(error.reason),
        Err(error) => panic!("{error}"),
    }
}

/// The values at tick 10, which is at 100 ms.
fn at_100(pipeline: &Pipeline) -> Vec<f32> {
    let mut message = pipeline.new_message();
    assert_eq!(pipeline.tick(10, Epoch::default(), &mut message).unwrap(), TickOutcome::Ready);
    values(pipeline, &message, SEGMENT)
}

#[test]
fn a_joint_is_no_part_of_another_whose_name_begins_or_ends_with_it() {
    let pipeline = pipeline(
        "rate_hz: 100
streams:
  joints:
    type: sensor_msgs/msg/JointState
    topic: /joint_states
    joints: [elbow, 'left:elbow', 'elbow::tip', left, elbow.tip, left.elbow]
    max_age_ms: 50
    strategy: hold
    operators: [{scale: -1, of: [elbow]}, {scale: 10, of: [left]}, {scale: 3, of: ['elbow::tip']}]
",
    );
    let names = ["elbow", "left:elbow", "elbow::tip", "left", "elbow.tip", "left.elbow"];
    let message =
        joint_state(Stamp::from_nanos(100 * MS), &names, &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0]);
    pipeline.push(FIRST, &message, Arrival::default()).unwrap();
    near(&at_100(&pipeline), &[-1.0, 2.0, 12.0, 80.0, 16.0, 32.0]);
}

#[test]
fn operators_act_in_the_order_in_which_they_are_written() {
    for (operators, expected) in [
        ("[{scale: 2}, {offset: 1}]", [7.0, -3.0]),
        ("[{offset: 1}, {scale: 2}]", [8.0, -2.0]),
        ("[{scale: 2}, {clamp: [-3, 3]}, {offset: 1}]", [4.0, -2.0]),
        ("[{clamp: [-1, 2]}, {scale: 2}, {offset: 1}]", [5.0, -1.0]),
        ("[{scale: 2, of: [a]}, {offset: -0.5, of: [b.position]}]", [6.0, -2.5]),
        ("[{rad2deg: true, of: [position]}]", [3.0f64.to_degrees(), (-2.0f64).to_degrees()]),
        ("[{normalize: {mode: mean_std, mean: [1, 2], std: [0.5, 4]}}]", [4.0, -1.0]),
        ("[{normalize: {mode: min_max, min: [-5, -4], max: [5, 0]}}]", [0.6, 0.0]),
        ("[{normalize: {mode: quantile, q01: [-5, -4], q99: [5, 0]}}]", [0.6, 0.0]),
        ("[{normalize: {mode: mean_std, mean: [3, -2], std: [0, 0], eps: 1e-8}}]", [0.0, 0.0]),
    ] {
        for strategy in ["linear", "hold", "nearest"] {
            let pipeline = joints(&format!("strategy: {strategy}\n    operators: {operators}"));
            push(&pipeline, 100, &[3.0, -2.0]).unwrap();
            near(&at_100(&pipeline), &expected);
        }
    }
}

#[test]
fn a_limit_acts_on_the_value_at_the_target_and_not_on_the_rows() {
    let pipeline = joints("operators: [{scale: 10}, {clamp: [0, 10]}]");
    push(&pipeline, 95, &[0.0, -1.0]).unwrap();
    push(&pipeline, 105, &[4.0, 1.0]).unwrap();
    // Halfway at 2 and 0. Between limited rows, `a` would be halfway to 10.
    near(&at_100(&pipeline), &[10.0, 0.0]);
    let pipeline = joints("operators: [{clamp: [0, 1]}, {scale: 8}]");
    push(&pipeline, 95, &[0.0, 0.0]).unwrap();
    push(&pipeline, 105, &[1.0, 5.0]).unwrap();
    near(&at_100(&pipeline), &[4.0, 8.0]);
}

#[test]
fn large_coordinates_lose_nothing_to_an_offset() {
    for strategy in ["linear", "hold"] {
        let operators = "operators: [{offset: -5000000}, {scale: 100}]";
        let pipeline = joints(&format!("strategy: {strategy}\n    {operators}"));
        push(&pipeline, 100, &[5_000_000.012_5, 5_000_001.0]).unwrap();
        near(&at_100(&pipeline), &[1.25, 100.0]);
    }
}

#[test]
fn an_angle_takes_the_short_arc_in_radians_before_it_is_degrees() {
    let pipeline =
        joints("angular: [a]\n    operators: [{rad2deg: true, of: [a]}, {offset: 1, of: [a]}]");
    push(&pipeline, 95, &[3.0, 3.0]).unwrap();
    push(&pipeline, 105, &[-3.0, -3.0]).unwrap();
    let got = at_100(&pipeline);
    assert!(((got[0] - 1.0).abs() - 180.0).abs() < 1e-3, "{got:?}");
    assert_eq!(got[1], 0.0);
}

#[test]
fn angles_are_unwrapped_over_the_steps_around_the_present_one() {
    let keys = "angular: [a]\n    history: {steps: 4, step_ms: 10}\n    \
                operators: [{unwrap: true}, {rad2deg: true, of: [a]}]";
    for order in [[70, 80, 90, 100], [100, 70, 90, 80], [90, 100, 80, 70]] {
        let pipeline = joints(keys);
        let angle = |ms: i64| match ms {
            70 => 2.5,
            80 => 3.0,
            90 => -3.0,
            _ => -2.5,
        };
        for ms in order {
            push(&pipeline, ms, &[angle(ms), 0.5]).unwrap();
        }
        let turn = std::f64::consts::TAU;
        let expected = [2.5 - turn, 3.0 - turn, -3.0, -2.5].map(f64::to_degrees);
        let got = at_100(&pipeline);
        near(&got.iter().step_by(2).copied().collect::<Vec<_>>(), &expected);
        assert!(got[1..].iter().step_by(2).all(|b| *b == 0.5));
        // The same message again: a step that has not changed depends on the others.
        let mut message = pipeline.new_message();
        pipeline.tick(10, Epoch::default(), &mut message).unwrap();
        push(&pipeline, 100, &[3.1, 0.5]).unwrap();
        pipeline.tick(10, Epoch::default(), &mut message).unwrap();
        let got = values(&pipeline, &message, SEGMENT);
        let expected = [2.5, 3.0, -3.0 + turn, 3.1].map(f64::to_degrees);
        near(&got.iter().step_by(2).copied().collect::<Vec<_>>(), &expected);
    }
    // Without interpolation, any number may be an angle. Steps without a row stay zeros.
    let pipeline = joints(
        "strategy: hold\n    history: {steps: 4, step_ms: 30}\n    \
         operators: [{unwrap: true, of: [b]}]",
    );
    push(&pipeline, 45, &[3.0, 3.0]).unwrap();
    push(&pipeline, 75, &[-3.0, -3.0]).unwrap();
    let turn = std::f64::consts::TAU;
    near(&at_100(&pipeline), &[0.0, 0.0, 0.0, 0.0, 3.0, 3.0 - turn, -3.0, -3.0]);
}

/// An `Imu` with this orientation and rates.
fn imu(ms: i64, orientation: [f64; 4], rates: [f64; 3]) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.header(Stamp::from_nanos(ms * MS), "imu");
    writer.f64_array(&orientation);
    writer.f64_array(&[0.0; 9]);
    writer.f64_array(&rates);
    writer.f64_array(&[0.0; 9]);
    writer.f64_array(&[1.0, 2.0, 3.0]);
    writer.f64_array(&[0.0; 9]);
    writer.finish()
}

#[test]
fn a_quaternion_is_turned_and_then_becomes_six_numbers_of_its_matrix() {
    let half = 0.5f64.sqrt();
    // Turned about z by 90 degrees in the middle: x goes to y, and y to -x.
    for (order, expected) in [
        ("rows", [0.0, -1.0, 0.0, 1.0, 0.0, 0.0]),
        ("columns", [0.0, 1.0, 0.0, -1.0, 0.0, 0.0]),
        ("columns_by_row", [0.0, -1.0, 1.0, 0.0, 0.0, 0.0]),
    ] {
        for (strategy, ms) in [("slerp", [95, 105]), ("hold", [100, 105])] {
            let pipeline = pipeline(&format!(
                "rate_hz: 100
streams:
  imu:
    type: sensor_msgs/msg/Imu
    topic: /imu
    max_age_ms: 50
    strategy: {strategy}
    fields: [angular_velocity, orientation, linear_acceleration]
    operators:
      - {{rotation_6d: {order}}}
      - {{scale: 2, of: [orientation]}}
      - {{offset: 1, of: [linear_acceleration.z]}}
"
            ));
            let EncoderSpec::Vector(spec) = &pipeline.config().stream(STREAM).encoder else {
                panic!("a vector");
            };
            assert_eq!((spec.len(), spec.names()[3]), (12, "orientation.r00"));
            assert_eq!(pipeline.layout().segment(SEGMENT).shape, [1, 12]);
            let turns = match strategy {
                "slerp" => [[0.0, 0.0, 0.0, 1.0], [0.0, 0.0, 1.0, 0.0]],
                _ => [[0.0, 0.0, half, half], [0.0, 0.0, 1.0, 0.0]],
            };
            for (ms, turn) in ms.into_iter().zip(turns) {
                let message = imu(ms, turn, [4.0, 5.0, 6.0]);
                pipeline.push(FIRST, &message, Arrival::default()).unwrap();
            }
            let all = [&[4.0, 5.0, 6.0], &expected.map(|x| 2.0 * x)[..], &[1.0, 2.0, 4.0]].concat();
            near(&at_100(&pipeline), &all);
        }
    }
}

#[test]
fn groups_keep_their_places_among_the_outputs() {
    let pipeline =
        groups::grouped("operators: [{scale: 2, of: [g]}, {clamp: [0, 100], of: [b, g]}]");
    let push = |input: usize, names: &[&str], values: &[f64]| {
        let message = joint_state(Stamp::from_nanos(100 * MS), names, values);
        pipeline.push(InputId::new(input), &message, Arrival::default()).unwrap();
    };
    push(0, &["a", "b"], &[-1.0, -2.0]);
    push(1, &["g"], &[70.0]);
    assert_eq!(at_100(&pipeline), [-1.0, 0.0, 100.0]);
}

#[test]
fn what_is_not_finite_or_too_large_after_an_operator_is_dropped() {
    for operators in ["[{clamp: [-1, 1]}]", "[{scale: 2}, {clamp: [-1, 1]}, {scale: 2}]"] {
        for strategy in ["linear", "hold"] {
            let pipeline = joints(&format!("strategy: {strategy}\n    operators: {operators}"));
            for wrong in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
                assert_eq!(push(&pipeline, 100, &[0.0, wrong]), Err(DropReason::NonFinite));
            }
        }
    }
    for keys in ["strategy: linear", "strategy: hold", "angular: [a, b]"] {
        let pipeline = joints(&format!("{keys}\n    dtype: f16\n    operators: [{{scale: 1000}}]"));
        assert_eq!(push(&pipeline, 100, &[65.0, 65.6]), Err(DropReason::OutOfRange), "{keys}");
        // Between two messages an angle may be half a turn beyond them.
        let largest = if keys.starts_with("angular") { 62.3 } else { 65.5 };
        assert_eq!(push(&pipeline, 100, &[62.0, -largest]), Ok(()));
        // What is large before an operator is not large after it.
        let pipeline =
            joints(&format!("{keys}\n    dtype: f16\n    operators: [{{scale: 0.001}}]"));
        assert_eq!(push(&pipeline, 100, &[1e6, -1e6]), Ok(()), "{keys}");
    }
}

#[test]
fn no_value_between_two_messages_is_beyond_the_element_type() {
    let half = "dtype: f16\n    history: {steps: 3, step_ms: 10}\n    ";
    // The middle of 3.1 and -3.1 is half a turn, and unwrapped angles grow from step to step.
    for (operators, fits) in [
        ("[{scale: 21000}]", false),
        ("[{scale: 20000}]", true),
        ("[{scale: 21000}, {clamp: [-9, 9]}]", true),
        ("[{unwrap: true}, {scale: 4000}]", false),
        ("[{unwrap: true}, {scale: 2900}]", true),
    ] {
        let pipeline = joints(&format!("{half}angular: [a, b]\n    operators: {operators}"));
        let expected = if fits { Ok(()) } else { Err(DropReason::OutOfRange) };
        for (ms, angle) in [(75, 3.1), (85, -3.1), (95, 3.1), (105, -3.1)] {
            assert_eq!(push(&pipeline, ms, &[angle, 0.0]), expected, "{operators}");
        }
        assert!(at_100(&pipeline).iter().all(|value| value.is_finite()), "{operators}");
    }
}

#[test]
fn an_offset_behind_a_limit_loses_nothing_of_a_large_coordinate() {
    for (operators, expected) in [
        ("[{clamp: [4.9e6, 5.1e6]}, {offset: -5000000}]", [0.3, 100_000.0]),
        ("[{clamp: [4.9e6, 5.1e6]}, {offset: -5000000}, {scale: -2}]", [-0.6, -200_000.0]),
        (
            "[{clamp: [4.9e6, 5.1e6]}, {scale: -1}, {clamp: [-5.05e6, 0]}, {offset: 5000000}]",
            [-0.3, -50_000.0],
        ),
    ] {
        for strategy in ["linear", "hold"] {
            let pipeline = joints(&format!("strategy: {strategy}\n    operators: {operators}"));
            push(&pipeline, 95, &[5_000_000.3, 9e6]).unwrap();
            push(&pipeline, 105, &[5_000_000.3, 9e6]).unwrap();
            near(&at_100(&pipeline), &expected);
        }
    }
}

#[test]
fn statistics_come_from_a_file_beside_the_configuration() {
    let folder = std::env::temp_dir().join(format!("robocache_stats_{}", std::process::id()));
    std::fs::create_dir_all(folder.join("meta")).unwrap();
    let stats = r#"{
        "observation.state": {"mean": [9, 1.0, 2.0], "std": [9, 0.5, 4], "min": [0, "x"], "count": [3]},
        "action": {"q01": [-5, -4], "q99": [5, 0], "std": [1, 0], "mean": [0, 0]}
    }"#;
    std::fs::write(folder.join("meta/stats.json"), stats).unwrap();
    let load = |normalize: &str| {
        let file = folder.join("robot.yaml");
        let yaml = format!(
            "rate_hz: 100
streams:
  joints:
    type: sensor_msgs/msg/JointState
    topic: /joint_states
    joints: [a, b]
    max_age_ms: 50
    operators:
      - normalize: {{stats: meta/stats.json, {normalize}}}
"
        );
        std::fs::write(&file, yaml).unwrap();
        robocache_core::config::load(&file)
    };
    for (normalize, expected) in [
        ("mode: mean_std, key: observation.state, first: 1", [4.0, -1.0]),
        ("mode: quantile, key: action", [0.6, 0.0]),
        ("mode: mean_std, key: action, eps: 1", [1.5, -2.0]),
    ] {
        let config = load(normalize).unwrap_or_else(|error| panic!("{error}"));
        let backend = CpuBackend::new(&config, &Layout::new(&config)).unwrap();
        let pipeline = Pipeline::new(config, Arc::new(backend)).unwrap();
        push(&pipeline, 100, &[3.0, -2.0]).unwrap();
        near(&at_100(&pipeline), &expected);
    }
    for (normalize, expected) in [
        ("mode: mean_std, key: observation.state", "2 numbers in `mean`, one per channel"),
        (
            "mode: mean_std, key: observation.state, first: 2",
            "2 numbers in `mean`, one per channel",
        ),
        ("mode: min_max, key: observation.state", "a key with the list of numbers `min`"),
        ("mode: mean_std, key: action", "a finite mean and a std greater than 0, or an `eps`"),
        ("mode: mean_std, key: actions", "one of action, observation.state"),
        ("mode: mean_std", "a key of the file such as observation.state"),
        ("mode: mean_std, key: action, mean: [1, 2]", "no such key beside `stats`"),
    ] {
        let error = load(normalize).unwrap_err().to_string();
        assert!(error.contains(expected) && error.contains("robot.yaml:"), "{error}");
    }
    std::fs::write(folder.join("meta/stats.json"), "{\"action\": {\"mean\": [NaN, 1]}}").unwrap();
    let error = load("mode: mean_std, key: action").unwrap_err().to_string();
    assert!(error.contains("a JSON file that can be read"), "{error}");
    std::fs::remove_file(folder.join("meta/stats.json")).unwrap();
    let error = load("mode: mean_std, key: action").unwrap_err().to_string();
    assert!(error.contains("No such file or directory"), "{error}");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn an_angle_beside_a_quaternion_takes_its_own_short_arc() {
    let definitions = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/definitions");
    let yaml = "
rate_hz: 100
streams:
  pose:
    type: geometry_msgs/msg/PoseStamped
    topic: /pose
    max_age_ms: 50
    select: [pose.position.x, pose.orientation, pose.position.z]
    angular: [pose.position.z]
    operators: [{rotation_6d: rows}, {rad2deg: true, of: [pose.position.z]}]
";
    let definitions = Prefixes::new(vec![definitions]);
    let config = robocache_core::config::parse_with(yaml, "test.yaml", &definitions).unwrap();
    assert_eq!(config.stream(STREAM).strategy(), Strategy::Slerp);
    let backend = CpuBackend::new(&config, &Layout::new(&config)).unwrap();
    let pipeline = Pipeline::new(config, Arc::new(backend)).unwrap();
    for (ms, x, turn, angle) in
        [(95, 1.0, [0.0, 0.0, 0.0, 1.0], 3.0), (105, 2.0, [0.0, 0.0, 1.0, 0.0], -3.0)]
    {
        let mut writer = Writer::new();
        writer.header(Stamp::from_nanos(ms * MS), "base");
        writer.f64_array(&[x, 0.0, angle]);
        writer.f64_array(&turn);
        pipeline.push(FIRST, &writer.finish(), Arrival::default()).unwrap();
    }
    let got = at_100(&pipeline);
    near(&got[..7], &[1.5, 0.0, -1.0, 0.0, 1.0, 0.0, 0.0]);
    assert!((got[7].abs() - 180.0).abs() < 1e-3, "{got:?}");
}
