//! Vectors: their keys in a contract.

use robocache_core::contract::DifferenceKind;

use super::Keys;

/// Vectors with all keys that they may have.
const VECTORS: &str = "
rate_hz: 100
lag_ms: 20
timeline: header
base_frame: base_link
output: {topic: fused, dtype: f32}
tf: {wait_ms: 10, max_gap_ms: 1000, max_frames: 64, max_rows: 128, odometry: [/odom]}
streams:
  joints:
    type: sensor_msgs/msg/JointState
    topic: /joints
    groups: {arm: [a, b], grip: [c]}
    fields: [position]
    angular: [a]
    strategy: linear
    history: {steps: 3, step_ms: 10}
    horizon: {steps: 2, step_ms: 30}
    max_ahead_ms: 500
    max_age_ms: 50
    max_gap_ms: 80
    fill: zero
    required: false
    stamp_offset_ms: 1
    ring_rows: 256
    qos: {reliability: auto, durability: auto, depth: 9}
    frame_id: arm_frame
    expected_rate_hz: 111
    operators:
      - {unwrap: true, of: [a]}
      - {scale: 2, of: [b]}
      - {offset: 3}
      - {clamp: [-10, 10]}
      - {rad2deg: true, of: [a]}
      - normalize: {mode: mean_std, eps: 0.5, mean: [4, 5, 6], std: [7, 8, 9]}
  force:
    type: geometry_msgs/msg/WrenchStamped
    topic: /force
    max_age_ms: 50
    fields: [force]
    in_frame: tool
    lag_ms: 30
    timeline: receive
    operators:
      - normalize: {mode: min_max, min: [-21, -22, -23], max: [24, 25, 26]}
  torque:
    type: geometry_msgs/msg/WrenchStamped
    topic: /force
    max_age_ms: 51
    fields: [torque]
    operators:
      - normalize: {mode: quantile, q01: [-31, -32, -33], q99: [34, 35, 36]}
  pose:
    type: geometry_msgs/msg/PoseStamped
    topic: /pose
    max_age_ms: 52
    operators: [{rotation_6d: rows}]
  list:
    type: sensor_msgs/msg/JointState
    topic: /list
    joints: [d, e]
    strategy: linear
    max_age_ms: 53
  number:
    max_age_ms: 54
    inputs:
      - {topic: /pose_1, type: geometry_msgs/msg/PoseStamped, select: [pose.position], in_frame: world}
      - {topic: /grip, type: robot_msgs/msg/Gripper, select: [pose.position.y], stamp: measured}
  one:
    type: robot_msgs/msg/Gripper
    topic: /one
    max_age_ms: 55
    select: [pose.position.z]
    stamp: measured
";

const ARMS: &str = "rate_hz: 100
streams:
  arms:
    type: sensor_msgs/msg/JointState
    max_age_ms: 50
    inputs: [{topic: /left, joints: [a, b]}, {topic: /right, joints: [a, b]}]
";

/// Joints that are interpolated in three ways.
const LANES: &str = "
rate_hz: 30
streams:
  arm:
    type: sensor_msgs/msg/JointState
    topic: /arm
    joints: [x, y, z, w, i, j, k, l, grip, a]
    quaternions: [[x, y, z, w], [i, j, k, l]]
    held: [grip]
    strategy: slerp
    max_age_ms: 50
";

pub(super) const KEYS: &[Keys] = &[
    Keys {
        config: VECTORS,
        refused: &[
            ("rate_hz", "rate_hz: 100", "rate_hz: 50"),
            ("lag_ms", "\nlag_ms: 20", "\nlag_ms: 21"),
            ("base_frame", "base_link", "world"),
            ("streams", "  list:\n", "  items:\n"),
            ("output.dtype", "dtype: f32", "dtype: f16"),
            (
                "streams.type",
                "sensor_msgs/msg/JointState\n    topic: /list",
                "trajectory_msgs/msg/JointTrajectory\n    topic: /list",
            ),
            ("streams.groups", "arm: [a, b], grip: [c]", "arm: [a], grip: [b, c]"),
            ("streams.joints", "joints: [d, e]", "joints: [e, d]"),
            ("streams.fields", "fields: [force]", "fields: [torque]"),
            ("streams.angular", "    angular: [a]\n", "    angular: [a, b]\n"),
            ("streams.strategy", "e]\n    strategy: linear", "e]\n    strategy: nearest"),
            ("streams.history.steps", "{steps: 3", "{steps: 4"),
            ("streams.history.step_ms", "step_ms: 10}", "step_ms: 11}"),
            ("streams.history", "    history: {steps: 3, step_ms: 10}\n", ""),
            ("streams.horizon", "{steps: 2, step_ms: 30}", "{steps: 2, step_ms: 31}"),
            ("streams.max_ahead_ms", "max_ahead_ms: 500", "max_ahead_ms: 501"),
            ("streams.stamp_offset_ms", "stamp_offset_ms: 1", "stamp_offset_ms: 2"),
            ("streams.in_frame", "in_frame: tool", "in_frame: hand"),
            ("streams.lag_ms", "    lag_ms: 30", "    lag_ms: 31"),
            ("streams.timeline", "    timeline: receive", "    timeline: header"),
            ("streams.dtype", "    fill: zero", "    dtype: bf16"),
            ("streams.select", "[pose.position.z]", "[pose.position.x]"),
            ("streams.stamp", "z]\n    stamp: measured", "z]"),
            ("streams.operators", "    operators: [{rotation_6d: rows}]\n", ""),
            ("streams.operators.unwrap", "      - {unwrap: true, of: [a]}\n", ""),
            ("streams.operators.of", "{scale: 2, of: [b]}", "{scale: 2, of: [c]}"),
            ("streams.operators.scale", "{scale: 2,", "{scale: 2.5,"),
            ("streams.operators.offset", "offset: 3", "offset: 4"),
            ("streams.operators.clamp", "[-10, 10]", "[-10, 11]"),
            ("streams.operators.rad2deg", "      - {rad2deg: true, of: [a]}\n", ""),
            ("streams.operators.rotation_6d", "rotation_6d: rows", "rotation_6d: columns"),
            (
                "streams.operators.normalize",
                "      - normalize: {mode: mean_std, eps: 0.5, mean: [4, 5, 6], std: [7, 8, 9]}\n",
                "",
            ),
            (
                "streams.operators.normalize.mode",
                "{mode: min_max, min: [-21, -22, -23], max: [24, 25, 26]}",
                "{mode: quantile, q01: [-20, -22, -23], q99: [24, 25, 26]}",
            ),
            ("streams.operators.normalize.eps", "eps: 0.5", "eps: 0.25"),
            ("streams.operators.normalize.mean", "[4, 5, 6]", "[4, 5, 6.5]"),
            ("streams.operators.normalize.std", "[7, 8, 9]", "[7, 8, 9.5]"),
            ("streams.operators.normalize.min", "-21", "-20"),
            ("streams.operators.normalize.max", "[24,", "[23,"),
            ("streams.operators.normalize.q01", "-31", "-30"),
            ("streams.operators.normalize.q99", "[34,", "[33,"),
            (
                "streams.inputs",
                "      - {topic: /grip, type: robot_msgs/msg/Gripper, select: [pose.position.y], stamp: measured}\n",
                "",
            ),
            ("streams.inputs.select", "[pose.position.y]", "[pose.position.z]"),
            ("streams.inputs.in_frame", "in_frame: world", "in_frame: odom"),
            ("streams.inputs.stamp", ", stamp: measured}", "}"),
        ],
        said: &[(
            DifferenceKind::Validity,
            &[
                ("tf.max_gap_ms", "max_gap_ms: 1000", "max_gap_ms: 900"),
                (
                    "streams.max_age_ms",
                    "max_age_ms: 50\n    max_gap",
                    "max_age_ms: 49\n    max_gap",
                ),
                ("streams.max_gap_ms", "max_gap_ms: 80", "max_gap_ms: 81"),
                ("streams.fill", "fill: zero", "fill: last"),
            ],
        )],
        accepted: &[
            ("output", "output: {topic: fused,", "output: {topic: other,"),
            ("output.topic", "topic: fused", "topic: other"),
            ("tf", "wait_ms: 10", "wait_ms: 11"),
            ("tf.wait_ms", "wait_ms: 10", "wait_ms: 12"),
            ("tf.max_frames", "max_frames: 64", "max_frames: 65"),
            ("tf.max_rows", "max_rows: 128", "max_rows: 129"),
            ("tf.odometry", "[/odom]", "[/other]"),
            (
                "streams.topic",
                "topic: /force\n    max_age_ms: 50\n",
                "topic: /tool/force\n    max_age_ms: 50\n",
            ),
            ("streams.required", "required: false", "required: true"),
            ("streams.ring_rows", "ring_rows: 256", "ring_rows: 300"),
            (
                "streams.qos",
                "qos: {reliability: auto, durability: auto, depth: 9}",
                "qos: {depth: 10}",
            ),
            ("streams.inputs.qos.reliability", "reliability: auto", "reliability: reliable"),
            ("streams.inputs.qos.durability", "durability: auto", "durability: volatile"),
            ("streams.inputs.qos.depth", "depth: 9", "depth: 10"),
            ("streams.frame_id", "frame_id: arm_frame", "frame_id: other_frame"),
            ("streams.expected_rate_hz", "expected_rate_hz: 111", "expected_rate_hz: 112"),
        ],
        limits: &[],
    },
    Keys {
        config: ARMS,
        refused: &[("streams.inputs.joints", "/right, joints: [a, b]", "/right, joints: [b, a]")],
        ..Keys::NONE
    },
    Keys {
        config: LANES,
        refused: &[
            ("streams.quaternions", "[[x, y, z, w], [i, j, k, l]]", "[[x, y, z, w]]"),
            ("streams.held", "    held: [grip]\n", ""),
        ],
        ..Keys::NONE
    },
];
