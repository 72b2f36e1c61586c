//! The report of commands.

use super::super::Report;
use crate::config::parse;
use crate::schema::Prefixes;

const STREAMS: &str = "rate_hz: 50
streams:
  joints:
    type: sensor_msgs/msg/JointState
    topic: /joint_states
    joints: [shoulder, wrist, finger]
    fields: [position, velocity]
    max_age_ms: 50
";

const COMMANDS: &str = "commands:
  rate_hz: 250
  groups:
    arm:
      joints: [shoulder, wrist]
      rows: {steps: 50, step_ms: 20, lag_ms: 5}
      relative: [shoulder]
      angular: [wrist]
      start_from: joints
      watchdog_ms: 1500
      on_end: hold
      limits:
        joints:
          shoulder: {position: [-1, 1.5], velocity: 2, acceleration: 10}
          wrist: {velocity: 3, acceleration: 20}
      output: {topic: /arm/joint_trajectory, type: trajectory_msgs/JointTrajectory, points_ms: 20}
    finger:
      joints: [finger]
      interface: velocity
      rows: {steps: 2, step_ms: 20}
      interpolate: hold
      start_from: joints
      watchdog_ms: 40
      on_stall: zeros
      on_end: zeros
      limits: none
      output: {topic: /finger/commands, type: std_msgs/Float64MultiArray}
";

fn report(text: &str) -> Report {
    Report::new(&parse(text, "robot.yaml").unwrap(), &Prefixes::default())
}

#[test]
fn commands_follow_what_is_said_of_streams() {
    let before = report(STREAMS).to_string();
    let after = report(&format!("{STREAMS}{COMMANDS}")).to_string();
    let expected = "
group   joint     rows              position   velocity  acceleration
arm     shoulder  linear, relative  -1 to 1.5  2         10
        wrist     linear, angular   none       3         20
finger  finger    hold              none       none      none

commands    250 Hz, every 4000000 ns
group       arm: position, from joints
  chunks    50 rows: tick - 5 ms to tick + 975 ms, 20 ms apart
  ends      decelerate 1500 ms after the newest chunk, hold after the last row
  topic     /arm/joint_trajectory (trajectory_msgs/msg/JointTrajectory), plans in points 20 ms apart
group       finger: velocity, from joints
  chunks    2 rows: tick - 0 ms and tick + 20 ms
  ends      zeros 40 ms after the newest chunk, zeros after the last row
  topic     /finger/commands (std_msgs/msg/Float64MultiArray), at each tick
";
    let found = after.strip_prefix(&before).unwrap();
    assert_eq!(found, expected, "{found}");
}

#[test]
fn the_json_has_all_defaults() {
    let found = serde_json::to_value(report(&format!("{STREAMS}{COMMANDS}"))).unwrap();
    let finger = serde_json::json!({
        "name": "finger",
        "interface": "velocity",
        "joints": [{
            "name": "finger",
            "interpolate": "hold",
            "relative": false,
            "angular": false,
            "operators": [],
            "limits": {"position": null, "velocity": null, "acceleration": null},
        }],
        "offsets_ns": [0, 20_000_000],
        "lead_ns": 0,
        "blend_ns": 20_000_000,
        "start_from": "joints",
        "watchdog_ns": 40_000_000,
        "on_stall": "zeros",
        "on_end": "zeros",
        "on_late": "ignore",
        "rearm": false,
        "output": {"topic": "/finger/commands", "type": "std_msgs/msg/Float64MultiArray"},
    });
    assert_eq!(found["commands"]["groups"][1], finger);
    assert_eq!(found["commands"]["period_ns"], 4_000_000);
    let arm = &found["commands"]["groups"][0];
    assert_eq!(arm["output"]["points_ns"], 20_000_000);
    let limits =
        serde_json::json!({"position": [-1.0, 1.5], "velocity": 2.0, "acceleration": 10.0});
    assert_eq!(arm["joints"][0]["limits"], limits);
    assert_eq!(serde_json::to_value(report(STREAMS)).unwrap().get("commands"), None);
}
