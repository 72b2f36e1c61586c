//! Tests of the meaning of valid commands.

use std::path::Path;

use crate::config::describe::Report;
use crate::config::tests::{REFERENCE, reference_with_commands};
use crate::config::{all_keys, parse, parse_with};
use crate::contract::Contract;
use crate::schema::{Definitions, Prefixes};
use crate::spec::{
    CommandForm, CommandOutputSpec, CommandsSpec, Config, End, GroupSpec, Interface, Interpolate,
    JointLimits, JointSpec, Late, StartSpec, StreamId,
};
use robocache_ops::operators::Operator;
use robocache_ops::time::TickGrid;

const MS: i64 = 1_000_000;
const ARM: &str = include_str!("../../../../../tests/configs/limits/arm.urdf");
const LIMITS: &str = include_str!("../../../../../tests/configs/limits/joint_limits.yaml");

const STREAMS: &str = "rate_hz: 50
streams:
  wrench: {type: geometry_msgs/msg/WrenchStamped, topic: /wrench, max_age_ms: 50}
  joints:
    type: sensor_msgs/msg/JointState
    topic: /joint_states
    joints: [finger, wrist, shoulder]
    fields: [velocity, position]
    angular: [wrist]
    max_age_ms: 50
";

/// Actions of a policy that moves two joints.
const ACTIONS: &str = r#"{
    "base": {"names": ["wheel.velocity"], "offsets_ns": [0, 5]},
    "action": {"names": ["shoulder.position", "finger.position"], "offsets_ns": [-1, 33333333, 66666666],
        "operators": [[], [{"affine": {"shift": 1, "scale": 2, "offset": 0}}]],
        "relative": ["shoulder.position"], "reference": "joints"}}"#;

/// The contract of a policy that moves two joints, and was trained on `STREAMS`.
fn checkpoint() -> String {
    let streams = Contract::of(&parse(STREAMS, "training.yaml").unwrap());
    let mut contract = streams.value();
    contract["actions"] = serde_json::from_str(ACTIONS).unwrap();
    serde_json::json!({ "contract": contract }).to_string()
}

/// The files of a robot's description.
struct Files;

impl Definitions for Files {
    fn find(&self, name: &str) -> Result<String, String> {
        Err(name.to_owned())
    }

    fn file(&self, path: &Path) -> Result<String, String> {
        match path.to_str() {
            Some("robot/arm.urdf") => Ok(ARM.to_owned()),
            Some("robot/joint_limits.yaml") => Ok(LIMITS.to_owned()),
            Some("robot/checkpoint/robocache.json") => Ok(checkpoint()),
            _ => Err(format!("{}: no such file", path.display())),
        }
    }
}

fn parsed(streams: &str, commands: &str) -> Config {
    let text = format!("{streams}{commands}");
    parse_with(&text, "robot/robot.yaml", &Files).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// The only group of a configuration with these lines in it, without limits.
fn group(lines: &[&str]) -> GroupSpec {
    let lines: String = lines.iter().map(|line| format!("      {line}\n")).collect();
    let commands = format!(
        "commands:\n  rate_hz: 250\n  groups:\n    arm:\n      start_from: joints\n      watchdog_ms: \
         2000\n      limits: none\n{lines}"
    );
    parsed(STREAMS, &commands).commands.unwrap().groups.remove(0)
}

const OUTPUT: &str = "output: {topic: /c, type: std_msgs/Float64MultiArray}";
const ROWS: &str = "rows: {steps: 3, step_ms: 20}";
const HOLDS: [&str; 2] = ["on_stall: hold", "on_end: silence"];
const SHOULDER: &str = "joints: [shoulder]";

#[test]
fn a_file_without_commands_has_none() {
    assert_eq!(parsed(STREAMS, "").commands, None);
}

#[test]
fn each_key_is_in_the_spec() {
    let config = parsed(
        STREAMS,
        "commands:
  rate_hz: 250
  groups:
    arm:
      joints: [shoulder, wrist, finger]
      interface: position
      rows: {steps: 3, step_ms: 20, lag_ms: 5}
      relative: [shoulder]
      angular: [wrist]
      interpolate: cubic
      held: [finger]
      operators:
        - {offset: -1, of: [shoulder, wrist.position]}
        - {clamp: [-2, 2], of: [shoulder]}
        - {rad2deg: true, of: [wrist]}
      start_from: joints
      lead_ms: 8
      blend_ms: 0
      watchdog_ms: 300
      on_stall: hold
      on_end: hold
      on_late: last
      rearm: true
      limits:
        urdf: arm.urdf
        file: joint_limits.yaml
        joints:
          shoulder: {position: [-1, 1.5]}
          finger: {velocity: 0.05, acceleration: 4}
      output: {topic: /arm/joint_trajectory, type: trajectory_msgs/JointTrajectory, points_ms: 20}
",
    );
    let affine = |offset| Operator::Affine { shift: 0.0, scale: 1.0, offset };
    let degrees = Operator::Affine { shift: 0.0, scale: 180.0 / std::f64::consts::PI, offset: 0.0 };
    let limits = |position, velocity, acceleration| JointLimits {
        position,
        velocity: Some(velocity),
        acceleration: Some(acceleration),
    };
    let shoulder = JointSpec {
        name: "shoulder".to_owned(),
        interpolate: Interpolate::Cubic,
        relative: true,
        angular: false,
        operators: vec![affine(-1.0), Operator::Clamp { low: -2.0, high: 2.0 }],
        limits: limits(Some([-1.0, 1.5]), 1.5, 10.0),
    };
    let wrist = JointSpec {
        name: "wrist".to_owned(),
        interpolate: Interpolate::Cubic,
        relative: false,
        angular: true,
        operators: vec![affine(-1.0), degrees],
        limits: limits(None, 3.5, 20.0),
    };
    let finger = JointSpec {
        name: "finger".to_owned(),
        interpolate: Interpolate::Hold,
        relative: false,
        angular: false,
        operators: Vec::new(),
        limits: limits(Some([0.0, 0.04]), 0.05, 4.0),
    };
    let arm = GroupSpec {
        name: "arm".to_owned(),
        joints: vec![shoulder, wrist, finger],
        interface: Interface::Position,
        contract: None,
        offsets_ns: vec![-5 * MS, 15 * MS, 35 * MS],
        lead_ns: 8 * MS,
        blend_ns: 0,
        start_from: StartSpec { stream: StreamId::new(1), channels: vec![5, 4, 3] },
        reference: Some(StreamId::new(1)),
        watchdog_ns: 300 * MS,
        on_stall: End::Hold,
        on_end: End::Hold,
        on_late: Late::Last,
        rearm: true,
        output: CommandOutputSpec {
            topic: "/arm/joint_trajectory".to_owned(),
            ros_type: "trajectory_msgs/msg/JointTrajectory",
            form: CommandForm::Points { step_ns: 20 * MS },
        },
    };
    let grid = TickGrid::from_rate_hz(250.0).unwrap();
    assert_eq!(config.commands, Some(CommandsSpec { rate_hz: 250.0, grid, groups: vec![arm] }));
    assert_eq!(config.streams, parsed(STREAMS, "").streams);
    let files = [("robot/joint_limits.yaml", LIMITS), ("robot/arm.urdf", ARM)];
    let files = files.map(|(file, text)| (file.to_owned(), text.to_owned()));
    assert_eq!(config.source.files, files, "a recording needs them");
}

#[test]
fn a_group_has_defaults() {
    let limits = "limits: {joints: {shoulder: {position: [-1, 1], velocity: 1, acceleration: 1}}}";
    let lines = format!(
        "commands: {{rate_hz: 100, groups: {{arm: {{{SHOULDER}, {ROWS}, start_from: joints, \
         watchdog_ms: 10, {limits}, {OUTPUT}}}}}}}\n"
    );
    let group = parsed(STREAMS, &lines).commands.unwrap().groups.remove(0);
    assert_eq!((group.interface, group.lead_ns, group.blend_ns), (Interface::Position, 0, 20 * MS));
    assert_eq!((group.on_stall, group.on_end), (End::Decelerate, End::Decelerate));
    assert_eq!((group.on_late, group.rearm), (Late::Ignore, false));
    assert_eq!(group.offsets_ns, [0, 20 * MS, 40 * MS]);
    assert_eq!(group.output.form, CommandForm::EachTick);
    let joint = &group.joints[0];
    assert_eq!(
        (joint.interpolate, joint.relative, joint.angular),
        (Interpolate::Linear, false, false)
    );
    assert!(joint.operators.is_empty());
}

#[test]
fn a_contract_says_what_a_row_is() {
    const JOINTS: &str = "joints: [shoulder, finger]";
    for path in ["checkpoint", "checkpoint/", "checkpoint/robocache.json"] {
        let contract = format!("contract: {path}");
        let made = group(&[JOINTS, &contract, HOLDS[0], HOLDS[1], OUTPUT]);
        assert_eq!(made.offsets_ns, [-1, 33_333_333, 66_666_666]);
        assert_eq!((made.blend_ns, made.contract.as_deref()), (33_333_334, Some(path)));
        let [shoulder, finger] = &made.joints[..] else { panic!("two joints") };
        assert!(shoulder.relative && !finger.relative && shoulder.operators.is_empty());
        let operator = Operator::Affine { shift: 1.0, scale: 2.0, offset: 0.0 };
        assert_eq!(finger.operators, [operator]);
    }
    let commands = relative();
    let config = parsed(STREAMS, &commands);
    let files = [("robot/checkpoint/robocache.json".to_owned(), checkpoint())];
    assert_eq!(config.source.files, files, "a recording needs it");
    let report = Report::new(&config, &Prefixes::default()).to_string();
    assert!(report.contains("3 rows: ") && report.contains(" (checkpoint)\n"), "{report}");
    let beside = error(
        STREAMS,
        &format!("{commands}      rows: {{steps: 3, step_ms: 20}}\n      relative: [finger]\n"),
    );
    for key in ["rows", "relative"] {
        let expected = format!("groups.arm.{key}: expected no such key beside `contract`");
        assert!(beside.contains(&expected), "{beside}");
    }
}

/// A group of a contract whose shoulder is relative to the stream `joints`.
fn relative() -> String {
    let lines = ["joints: [shoulder, finger]", "contract: checkpoint", HOLDS[0], HOLDS[1], OUTPUT]
        .map(|line| format!("      {line}\n"));
    format!(
        "commands:\n  rate_hz: 250\n  groups:\n    arm:\n      start_from: joints\n      watchdog_ms: \
         2000\n      limits: none\n{}",
        lines.concat()
    )
}

/// The problems of a configuration.
fn error(streams: &str, commands: &str) -> String {
    let text = format!("{streams}{commands}");
    parse_with(&text, "robot/robot.yaml", &Files).unwrap_err().to_string()
}

/// Another order of joints has the same shape, so no client can see it.
#[test]
fn the_reference_of_a_contract_is_served_as_in_the_training() {
    for (from, to, found) in [
        ("[finger, wrist, shoulder]", "[wrist, finger, shoulder]", "joints.channels: the policy"),
        ("angular: [wrist]", "angular: [wrist]\n    operators: [{scale: 2}]", "joints.encoder."),
        ("angular: [wrist]", "angular: [wrist]\n    lag_ms: 5", "joints.targets_ns: the policy"),
        ("angular: [wrist]", "dtype: f16", "expected a stream of dtype f32: rows are added"),
    ] {
        let refused = error(&STREAMS.replace(from, to), &relative());
        let key = "commands.groups.arm.contract: expected ";
        assert!(refused.contains(found), "{refused}");
        assert_eq!((refused.matches(key).count(), refused.lines().count()), (1, 1), "{refused}");
    }
    let other = STREAMS.replace("  joints:\n", "  arm:\n");
    let elsewhere = error(&other, &relative().replace("from: joints", "from: arm"));
    let expected = "groups.arm.contract: expected a vector `joints` among the streams";
    assert!(elsewhere.contains(expected), "{elsewhere}");
    // Other streams, and other ages, are no matter of the reference.
    let older = STREAMS
        .replace("50\n  joints", "60\n  joints")
        .replace("50\n    angular", "60\n    angular");
    parsed(&older, &relative());
}

#[test]
fn the_contract_of_a_node_names_the_reference_of_its_policy() {
    let own = "  own: {type: sensor_msgs/msg/JointState, topic: /own, joints: [finger, shoulder], max_age_ms: 50}\n";
    let streams = format!("{STREAMS}{own}");
    let reference = |commands: &str| {
        let config = parsed(&streams, commands);
        Contract::of_node(&config).actions().unwrap().remove(0).reference
    };
    let begins = relative().replace("from: joints", "from: own");
    assert_eq!(reference(&begins).as_deref(), Some("joints"));
    let keys = format!("{ROWS}\n      relative: [finger]");
    assert_eq!(reference(&begins.replace("contract: checkpoint", &keys)).as_deref(), Some("own"));
    assert_eq!(reference(&begins.replace("contract: checkpoint", ROWS)), None);
}

#[test]
fn each_offset_is_rounded_by_itself() {
    let rows = |rows| group(&[SHOULDER, rows, HOLDS[0], HOLDS[1], OUTPUT]).offsets_ns;
    let written = rows("rows: {steps: 4, step_ms: 33.333333}");
    assert_eq!(written, [0, 33_333_333, 66_666_666, 99_999_999]);
    let exact = rows("rows: {steps: 4, step_ms: 33.333333333}");
    assert_eq!(exact, [0, 33_333_333, 66_666_667, 100_000_000]);
    let lagging = rows("rows: {steps: 2, step_ms: 33.333333333, lag_ms: 20}");
    assert_eq!(lagging, [-20_000_000, 13_333_333]);
    let longest = rows("rows: {steps: 1024, step_ms: 0.000001}");
    assert!(longest.is_sorted_by(|a, b| a < b) && longest.len() == 1024);
}

#[test]
fn a_group_of_velocities_begins_at_velocities() {
    let text = "commands:
  rate_hz: 250
  groups:
    arm:
      joints: [shoulder, wrist]
      interface: velocity
      rows: {steps: 3, step_ms: 20}
      start_from: joints
      watchdog_ms: 300
      on_end: zeros
      limits: {urdf: arm.urdf, file: joint_limits.yaml}
      output: {topic: /c, type: sensor_msgs/JointState}
";
    let group = parsed(STREAMS, text).commands.unwrap().groups.remove(0);
    assert_eq!(group.start_from.channels, [2, 1]);
    assert_eq!((group.on_stall, group.on_end), (End::Decelerate, End::Zeros));
    let limits = group.joints.iter().map(|joint| joint.limits).collect::<Vec<_>>();
    let of = |velocity, acceleration| JointLimits {
        position: None,
        velocity: Some(velocity),
        acceleration: Some(acceleration),
    };
    assert_eq!(limits, [of(1.5, 10.0), of(3.5, 20.0)], "positions do not limit velocities");
}

#[test]
fn the_start_takes_samples_whatever_operators_make_of_them() {
    let streams = "rate_hz: 50
streams:
  joints:
    type: sensor_msgs/msg/JointState
    max_age_ms: 50
    inputs:
      - {topic: /left, joints: [a, b]}
      - {topic: /right, joints: [b, c]}
    angular: [c]
    operators:
      - normalize: {mode: mean_std, mean: [1, 2, 3, 4], std: [0.5, 0.5, 0.5, 0.25]}
      - {clamp: [-5, 5]}
";
    let text = "commands:
  rate_hz: 250
  groups:
    arm:
      joints: [c, a]
      rows: {steps: 3, step_ms: 20}
      start_from: joints
      watchdog_ms: 300
      limits: none
      on_stall: hold
      on_end: hold
      output: {topic: /c, type: sensor_msgs/JointState}
";
    let start = parsed(streams, text).commands.unwrap().groups.remove(0).start_from;
    assert_eq!(start.channels, [3, 0]);
}

#[test]
fn points_of_a_trajectory_are_whole_periods_apart() {
    let form = |rate_hz: u32, points: &str| {
        let output = format!("{{topic: /c, type: trajectory_msgs/JointTrajectory, {points}}}");
        let lines = format!(
            "commands: {{rate_hz: {rate_hz}, groups: {{arm: {{{SHOULDER}, {ROWS}, start_from: joints, \
             watchdog_ms: 300, limits: none, {}, {}, output: {output}}}}}}}\n",
            HOLDS[0], "on_end: hold"
        );
        parsed(STREAMS, &lines).commands.unwrap().groups[0].output.form
    };
    assert_eq!(form(250, "points_ms: 4"), CommandForm::Points { step_ns: 4 * MS });
    assert_eq!(
        form(250, "points_ms: 20, one_point: false"),
        CommandForm::Points { step_ns: 20 * MS }
    );
    assert_eq!(form(30, "points_ms: 100"), CommandForm::Points { step_ns: 99_999_999 });
    assert_eq!(form(250, "one_point: true"), CommandForm::EachTick);
}

#[test]
fn a_watchdog_within_a_chunk_is_advice() {
    let advice = |watchdog_ms: u32| {
        let lines = format!(
            "commands:\n  rate_hz: 250\n  groups:\n    arm: {{{SHOULDER}, {ROWS}, start_from: joints, \
             watchdog_ms: {watchdog_ms}, limits: none, {}, {}, {OUTPUT}}}\n",
            HOLDS[0], HOLDS[1]
        );
        parsed(STREAMS, &lines).source.advice
    };
    assert_eq!(advice(40), [""; 0]);
    let expected = "robot/robot.yaml:14: commands.groups.arm.watchdog_ms: expected at least 40 ms, the span of \
                    a chunk, found 39 ms; without a newer chunk, a chunk stalls before its last row";
    assert_eq!(advice(39), [expected]);
}

#[test]
fn a_continuous_joint_that_is_no_angle_without_an_end_is_advice() {
    let advice = |angular: &str, interface: &str| {
        let commands = format!(
            "commands:\n  rate_hz: 250\n  groups:\n    arm:\n      joints: [wrist]\n      {ROWS}\n      start_from: \
             joints\n      watchdog_ms: 2000\n      {angular}\n      {interface}\n      limits: {{urdf: arm.urdf, joints: \
             {{wrist: {{acceleration: 9}}}}}}\n      {OUTPUT}\n"
        );
        parsed(STREAMS, &commands).source.advice
    };
    let told = "robot/robot.yaml:14: commands.groups.arm.angular: expected wrist, which the URDF calls continuous, found none \
                of them; from 3.1 to -3.1 such a joint goes back by nearly a turn";
    assert_eq!(advice("", ""), [told]);
    assert!(advice("angular: [wrist]", "").is_empty());
    assert!(advice("", "interface: velocity").is_empty());
}

#[test]
fn problems_of_streams_and_commands_are_reported_together() {
    let text = "rate_hz: 50\nstreams: {s: {type: sensor_msgs/JointState, topic: /t, max_age_ms: 50}}\n\
                commands: {rate_hz: 1, groups: {arm: {joints: [a, a]}}}\n";
    let error = parse(text, "t.yaml").unwrap_err().to_string();
    for key in ["streams.s.joints", "groups.arm.joints[1]", "groups.arm.limits", "arm.start_from"] {
        assert!(error.contains(&format!("{key}: expected")), "{key}: {error}");
    }
}

/// The commands of the reference, which are a comment there.
#[test]
fn the_reference_shows_commands_that_are_valid() {
    let text = reference_with_commands();
    let config = parsed(&text, "");
    let [arm] = &config.commands.as_ref().unwrap().groups[..] else { panic!("one group") };
    assert_eq!((arm.offsets_ns.len(), arm.watchdog_ns), (50, 1_000 * MS));
    assert_eq!((arm.on_stall, arm.blend_ns), (End::Decelerate, 20 * MS));
    // Lines with defaults may be left out.
    let defaults = [
        "interface: position",
        "lag_ms: 0",
        "interpolate: linear",
        "lead_ms: 0",
        "blend_ms: 20",
        "on_stall: decelerate",
        "on_end: decelerate",
        "on_late: ignore",
        "rearm: false",
    ];
    let (streams, commands) = text.split_once("commands:\n").unwrap();
    let is_default = |line: &&str| defaults.iter().any(|of| line.trim_start().starts_with(of));
    assert_eq!(commands.lines().filter(is_default).count(), defaults.len());
    let rest = commands.lines().filter(|line| !is_default(line));
    let rest: String = rest.map(|line| format!("{line}\n")).collect();
    assert_eq!(parsed(streams, &format!("commands:\n{rest}")).commands, config.commands);
}

#[test]
fn the_reference_and_the_page_have_each_key() {
    let page = include_str!("../../../../../docs/actions.md");
    let (_, reference) = REFERENCE.split_once("# commands:\n").unwrap();
    let all = all_keys();
    // `operators` are those of a stream.
    let own = all.iter().filter_map(|key| key.strip_prefix("commands."));
    let own: Vec<_> = own.filter_map(|key| key.rsplit('.').next()).collect();
    assert!(own.len() > 30, "{own:?}");
    for key in own {
        assert!(
            reference.contains(&format!("{key}: ")) || reference.contains(&format!("{key}:\n")),
            "{key}"
        );
        assert!(page.contains(&format!("`{key}")), "{key}");
    }
}
