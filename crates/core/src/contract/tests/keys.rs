//! Every key of a configuration, changed: refused if it bears on what a policy takes, otherwise accepted.

use std::collections::BTreeSet;

use super::*;
use crate::config::ALL_KEYS;

/// Vectors with all keys that they may have.
pub(super) const VECTORS: &str = "
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

/// Images with all keys that they may have.
pub(super) const IMAGES: &str = "
rate_hz: 30
timeline: header
defaults:
  image: {max_age_ms: 100}
streams:
  front:
    type: sensor_msgs/msg/Image
    topic: /front
    image:
      undistort: {camera_info: /front/info, qos: {depth: 7}}
      crop: {x: 10, y: 20, width: 300, height: 200}
      resize:
        - {width: 128, height: 96, filter: pil_bilinear, fit: pad_center, crop_fraction: 0.9}
        - {width: 64, height: 48, filter: cv2_area, fit: stretch}
      layout: chw
      color: rgb
      mean: [0.485, 0.456, 0.406]
      std: [0.229, 0.224, 0.225]
      pad_value: 3
      max_width_px: 1000
      max_height_px: 900
      encoding_8uc: rgb8
  side:
    type: sensor_msgs/msg/Image
    topic: /side
    image: {resize: {width: 32, height: 32}, range: [-1, 1]}
  preset:
    type: sensor_msgs/msg/CompressedImage
    topic: /preset
    image: {preset: pi0}
  depth:
    type: sensor_msgs/msg/Image
    topic: /depth
    image:
      depth: {min_m: 0.1, max_m: 10, fill_m: 2, unit_m: 0.001}
      resize: {width: 16, height: 16}
";

/// A cloud with all keys that it may have.
pub(super) const CLOUDS: &str = "
rate_hz: 10
streams:
  lidar:
    type: sensor_msgs/msg/PointCloud2
    topic: /points
    max_age_ms: 200
    t_base_sensor: {translation_m: [0.1, 0, 0.5], rotation_rpy_deg: [0, 0, 10]}
    deskew: {fixed_frame: odom, time_field: t, time_unit: ns, time_from: header, span_ms: [-5, 105]}
    cloud:
      origin_m: [-2, -2, -1]
      size_m: 0.5
      shape: [8, 8, 4]
      channels:
        - {reduce: count}
        - {reduce: mean, field: intensity}
        - {reduce: max, feature: range}
      min_points: 2
      min_range_m: 0.3
      max_range_m: 50
      crop: [{action: remove, frame: sensor, min_m: [-1, -2, -3], max_m: [1, 2, 3], pose: {translation_m: [0, 0, 1]}}]
      self_filter:
        - {size_m: [0.8, 0.5, 0.4], frame: arm}
        - {radius_m: 0.15, frame: tool, pose: {translation_m: [0, 0, 0.1], rotation_xyzw: [0, 0, 0, 1]}}
      output: sparse
      max_voxels: 100
      max_points: 10000
";

/// Clouds of two inputs.
pub(super) const MERGED: &str = "
rate_hz: 10
streams:
  lidar:
    type: sensor_msgs/msg/PointCloud2
    max_age_ms: 200
    valid_when: all
    inputs:
      - {topic: /front, max_age_ms: 150, stamp_offset_ms: 2, qos: {depth: 6}, frame_id: front,
         t_base_sensor: {translation_m: [1, 0, 0]}, deskew: {gyro: /imu, sensor: ouster}, expected_rate_hz: 11}
      - {topic: /rear, type: sensor_msgs/msg/LaserScan, timeline: header, t_base_sensor: tf}
    cloud: {origin_m: [-2, -2, -1], size_m: 0.5, shape: [8, 8, 4], channels: [{reduce: count}]}
";

/// A map.
pub(super) const MAPS: &str = "
rate_hz: 10
streams:
  map:
    type: nav_msgs/msg/OccupancyGrid
    topic: /map
    max_age_ms: 1000
    occupancy:
      size_m: [6, 6]
      resolution_m: 0.05
      frame: base_link
      free: 0
      occupied: 1
      unknown: 0.5
      free_max: 25
      occupied_min: 65
      between: probability
      max_width_cells: 1000
      max_height_cells: 900
";

/// A key of a mapping, the text that has it, and the text in its place.
type Change = (&'static str, &'static str, &'static str);

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

/// Changes that are refused, by configuration.
const REFUSED: &[(&str, &[Change])] = &[
    (
        VECTORS,
        &[
            ("rate_hz", "rate_hz: 100", "rate_hz: 50"),
            ("lag_ms", "\nlag_ms: 20", "\nlag_ms: 21"),
            ("base_frame", "base_link", "world"),
            ("streams", "  list:\n", "  items:\n"),
            ("output.dtype", "dtype: f32", "dtype: f16"),
            (
                "stream.type",
                "sensor_msgs/msg/JointState\n    topic: /list",
                "trajectory_msgs/msg/JointTrajectory\n    topic: /list",
            ),
            ("stream.groups", "arm: [a, b], grip: [c]", "arm: [a], grip: [b, c]"),
            ("stream.joints", "joints: [d, e]", "joints: [e, d]"),
            ("stream.fields", "fields: [force]", "fields: [torque]"),
            ("stream.angular", "    angular: [a]\n", "    angular: [a, b]\n"),
            ("stream.strategy", "e]\n    strategy: linear", "e]\n    strategy: nearest"),
            ("steps.steps", "{steps: 3", "{steps: 4"),
            ("steps.step_ms", "step_ms: 10}", "step_ms: 11}"),
            ("stream.history", "    history: {steps: 3, step_ms: 10}\n", ""),
            ("stream.horizon", "{steps: 2, step_ms: 30}", "{steps: 2, step_ms: 31}"),
            ("stream.max_ahead_ms", "max_ahead_ms: 500", "max_ahead_ms: 501"),
            ("stream.stamp_offset_ms", "stamp_offset_ms: 1", "stamp_offset_ms: 2"),
            ("stream.in_frame", "in_frame: tool", "in_frame: hand"),
            ("stream.lag_ms", "    lag_ms: 30", "    lag_ms: 31"),
            ("stream.timeline", "    timeline: receive", "    timeline: header"),
            ("stream.dtype", "    fill: zero", "    dtype: bf16"),
            ("stream.select", "[pose.position.z]", "[pose.position.x]"),
            ("stream.stamp", "z]\n    stamp: measured", "z]"),
            ("stream.operators", "    operators: [{rotation_6d: rows}]\n", ""),
            ("operator.unwrap", "      - {unwrap: true, of: [a]}\n", ""),
            ("operator.of", "{scale: 2, of: [b]}", "{scale: 2, of: [c]}"),
            ("operator.scale", "{scale: 2,", "{scale: 2.5,"),
            ("operator.offset", "offset: 3", "offset: 4"),
            ("operator.clamp", "[-10, 10]", "[-10, 11]"),
            ("operator.rad2deg", "      - {rad2deg: true, of: [a]}\n", ""),
            ("operator.rotation_6d", "rotation_6d: rows", "rotation_6d: columns"),
            (
                "operator.normalize",
                "      - normalize: {mode: mean_std, eps: 0.5, mean: [4, 5, 6], std: [7, 8, 9]}\n",
                "",
            ),
            (
                "normalize.mode",
                "{mode: min_max, min: [-21, -22, -23], max: [24, 25, 26]}",
                "{mode: quantile, q01: [-20, -22, -23], q99: [24, 25, 26]}",
            ),
            ("normalize.eps", "eps: 0.5", "eps: 0.25"),
            ("normalize.mean", "[4, 5, 6]", "[4, 5, 6.5]"),
            ("normalize.std", "[7, 8, 9]", "[7, 8, 9.5]"),
            ("normalize.min", "-21", "-20"),
            ("normalize.max", "[24,", "[23,"),
            ("normalize.q01", "-31", "-30"),
            ("normalize.q99", "[34,", "[33,"),
            (
                "stream.inputs",
                "      - {topic: /grip, type: robot_msgs/msg/Gripper, select: [pose.position.y], stamp: measured}\n",
                "",
            ),
            ("input.select", "[pose.position.y]", "[pose.position.z]"),
            ("input.in_frame", "in_frame: world", "in_frame: odom"),
            ("input.stamp", ", stamp: measured}", "}"),
        ],
    ),
    (ARMS, &[("input.joints", "/right, joints: [a, b]", "/right, joints: [b, a]")]),
    (
        LANES,
        &[
            ("stream.quaternions", "[[x, y, z, w], [i, j, k, l]]", "[[x, y, z, w]]"),
            ("stream.held", "    held: [grip]\n", ""),
        ],
    ),
    (
        IMAGES,
        &[
            ("timeline", "timeline: header", "timeline: receive"),
            ("stream.image", "image: {preset: pi0}", "image: {preset: smolvla}"),
            ("image.preset", "preset: pi0", "preset: pi0_lerobot"),
            (
                "image.undistort",
                "      undistort: {camera_info: /front/info, qos: {depth: 7}}\n",
                "",
            ),
            ("image.crop", "      crop: {x: 10, y: 20, width: 300, height: 200}\n", ""),
            ("image.crop.x", "x: 10", "x: 11"),
            ("image.crop.y", "y: 20", "y: 21"),
            ("image.crop.width", "width: 300", "width: 301"),
            ("image.crop.height", "height: 200", "height: 201"),
            (
                "image.resize",
                "        - {width: 128, height: 96, filter: pil_bilinear, fit: pad_center, crop_fraction: 0.9}\n",
                "",
            ),
            ("resize.width", "width: 64", "width: 65"),
            ("resize.height", "height: 96", "height: 95"),
            ("resize.filter", "cv2_area", "cv2_linear"),
            ("resize.fit", "fit: stretch", "fit: crop_center"),
            ("resize.crop_fraction", "crop_fraction: 0.9", "crop_fraction: 0.8"),
            ("image.layout", "layout: chw", "layout: hwc"),
            ("image.color", "color: rgb", "color: bgr"),
            ("image.range", "[-1, 1]", "[0, 1]"),
            ("image.mean", "0.485", "0.486"),
            ("image.std", "0.225", "0.226"),
            ("image.pad_value", "pad_value: 3", "pad_value: 4"),
            ("image.encoding_8uc", "encoding_8uc: rgb8", "encoding_8uc: bgr8"),
            ("image.depth", "      depth: {min_m: 0.1, max_m: 10, fill_m: 2, unit_m: 0.001}\n", ""),
            ("depth.min_m", "min_m: 0.1", "min_m: 0.2"),
            ("depth.max_m", "max_m: 10", "max_m: 11"),
            ("depth.fill_m", "fill_m: 2", "fill_m: 3"),
            ("depth.unit_m", "unit_m: 0.001", "unit_m: 0.002"),
        ],
    ),
    (
        CLOUDS,
        &[
            ("stream.t_base_sensor", "[0.1, 0, 0.5]", "[0.2, 0, 0.5]"),
            ("stream.cloud", "size_m: 0.5\n", "size_m: 0.6\n"),
            (
                "stream.deskew",
                "    deskew: {fixed_frame: odom, time_field: t, time_unit: ns, time_from: header, span_ms: [-5, 105]}\n",
                "",
            ),
            ("transform.translation_m", "[0, 0, 0.1]", "[0, 0, 0.2]"),
            ("transform.rotation_rpy_deg", "[0, 0, 10]", "[0, 0, 11]"),
            ("transform.rotation_xyzw", "[0, 0, 0, 1]", "[0, 0, 1, 0]"),
            ("deskew.fixed_frame", "fixed_frame: odom", "fixed_frame: map"),
            ("deskew.time_field", "time_field: t", "time_field: time"),
            ("deskew.time_unit", "time_unit: ns", "time_unit: us"),
            ("deskew.time_from", "time_from: header", "time_from: epoch"),
            ("deskew.span_ms", "[-5, 105]", "[-5, 106]"),
            ("cloud.origin_m", "origin_m: [-2, -2, -1]", "origin_m: [-2, -3, -1]"),
            ("cloud.size_m", "size_m: 0.5\n", "size_m: 0.4\n"),
            ("cloud.shape", "[8, 8, 4]", "[8, 8, 5]"),
            ("cloud.channels", "        - {reduce: count}\n", ""),
            ("channel.reduce", "reduce: max", "reduce: min"),
            ("channel.field", "field: intensity", "field: ring"),
            ("channel.feature", "feature: range", "feature: height"),
            ("cloud.min_points", "min_points: 2", "min_points: 3"),
            ("cloud.min_range_m", "min_range_m: 0.3", "min_range_m: 0.4"),
            ("cloud.max_range_m", "max_range_m: 50", "max_range_m: 51"),
            (
                "cloud.crop",
                "      crop: [{action: remove, frame: sensor, min_m: [-1, -2, -3], max_m: [1, 2, 3], pose: {translation_m: [0, 0, 1]}}]\n",
                "",
            ),
            ("cloud.crop.action", "action: remove", "action: keep"),
            ("cloud.crop.frame", "frame: sensor", "frame: base"),
            ("cloud.crop.min_m", "[-1, -2, -3]", "[-2, -2, -3]"),
            ("cloud.crop.max_m", "[1, 2, 3]", "[2, 2, 3]"),
            (
                "cloud.crop.pose",
                "pose: {translation_m: [0, 0, 1]}",
                "pose: {translation_m: [0, 0, 2]}",
            ),
            ("cloud.self_filter", "        - {size_m: [0.8, 0.5, 0.4], frame: arm}\n", ""),
            ("self_filter.size_m", "[0.8, 0.5, 0.4]", "[0.8, 0.6, 0.4]"),
            ("self_filter.frame", "frame: arm", "frame: elbow"),
            ("self_filter.radius_m", "radius_m: 0.15", "radius_m: 0.16"),
            (
                "self_filter.pose",
                "pose: {translation_m: [0, 0, 0.1], ",
                "pose: {translation_m: [0, 1, 0.1], ",
            ),
            ("cloud.output", "output: sparse\n      max_voxels: 100\n", "output: dense\n"),
            ("cloud.max_voxels", "max_voxels: 100", "max_voxels: 101"),
        ],
    ),
    (
        MERGED,
        &[
            ("stream.valid_when", "valid_when: all", "valid_when: any"),
            ("input.type", "type: sensor_msgs/msg/LaserScan, ", ""),
            ("input.max_age_ms", "max_age_ms: 150", "max_age_ms: 151"),
            ("input.timeline", "timeline: header", "timeline: receive"),
            ("input.stamp_offset_ms", "stamp_offset_ms: 2", "stamp_offset_ms: 3"),
            (
                "input.t_base_sensor",
                "t_base_sensor: tf",
                "t_base_sensor: {translation_m: [0, 0, 1]}",
            ),
            ("input.deskew", ", deskew: {gyro: /imu, sensor: ouster}", ""),
            ("deskew.gyro", "gyro: /imu", "fixed_frame: odom"),
            ("deskew.sensor", "sensor: ouster", "sensor: velodyne"),
        ],
    ),
    (
        MAPS,
        &[
            ("stream.occupancy", "[6, 6]", "[6, 7]"),
            ("occupancy.size_m", "[6, 6]", "[7, 6]"),
            ("occupancy.resolution_m", "resolution_m: 0.05", "resolution_m: 0.06"),
            ("occupancy.frame", "frame: base_link", "frame: arm"),
            ("occupancy.free", "free: 0", "free: 0.1"),
            ("occupancy.occupied", "occupied: 1", "occupied: 0.9"),
            ("occupancy.unknown", "unknown: 0.5", "unknown: 0.4"),
            ("occupancy.free_max", "free_max: 25", "free_max: 26"),
            ("occupancy.occupied_min", "occupied_min: 65", "occupied_min: 66"),
            ("occupancy.between", "between: probability", "between: unknown"),
        ],
    ),
];

/// Changes that are said or warned of, by configuration, with their kind.
const SAID: &[(&str, DifferenceKind, &[Change])] = &[
    (
        VECTORS,
        DifferenceKind::Validity,
        &[
            ("tf.max_gap_ms", "max_gap_ms: 1000", "max_gap_ms: 900"),
            ("stream.max_age_ms", "max_age_ms: 50\n    max_gap", "max_age_ms: 49\n    max_gap"),
            ("stream.max_gap_ms", "max_gap_ms: 80", "max_gap_ms: 81"),
            ("stream.fill", "fill: zero", "fill: last"),
        ],
    ),
    (IMAGES, DifferenceKind::Validity, &[("defaults", "max_age_ms: 100", "max_age_ms: 101")]),
    (IMAGES, DifferenceKind::Transport, &[("stream.type", "CompressedImage", "Image")]),
];

/// Changes that are accepted, by configuration.
const ACCEPTED: &[(&str, &[Change])] = &[
    (
        VECTORS,
        &[
            ("output", "output: {topic: fused,", "output: {topic: other,"),
            ("output.topic", "topic: fused", "topic: other"),
            ("tf", "wait_ms: 10", "wait_ms: 11"),
            ("tf.wait_ms", "wait_ms: 10", "wait_ms: 12"),
            ("tf.max_frames", "max_frames: 64", "max_frames: 65"),
            ("tf.max_rows", "max_rows: 128", "max_rows: 129"),
            ("tf.odometry", "[/odom]", "[/other]"),
            (
                "stream.topic",
                "topic: /force\n    max_age_ms: 50\n",
                "topic: /tool/force\n    max_age_ms: 50\n",
            ),
            ("stream.required", "required: false", "required: true"),
            ("stream.ring_rows", "ring_rows: 256", "ring_rows: 300"),
            (
                "stream.qos",
                "qos: {reliability: auto, durability: auto, depth: 9}",
                "qos: {depth: 10}",
            ),
            ("qos.reliability", "reliability: auto", "reliability: reliable"),
            ("qos.durability", "durability: auto", "durability: volatile"),
            ("qos.depth", "depth: 9", "depth: 10"),
            ("stream.frame_id", "frame_id: arm_frame", "frame_id: other_frame"),
            ("stream.expected_rate_hz", "expected_rate_hz: 111", "expected_rate_hz: 112"),
        ],
    ),
    (
        IMAGES,
        &[
            ("undistort.camera_info", "/front/info", "/front/camera_info"),
            ("undistort.qos", "depth: 7", "depth: 8"),
            ("image.max_width_px", "max_width_px: 1000", "max_width_px: 1001"),
            ("image.max_height_px", "max_height_px: 900", "max_height_px: 901"),
        ],
    ),
    (CLOUDS, &[("cloud.max_points", "max_points: 10000", "max_points: 10001")]),
    (
        MERGED,
        &[
            ("input.topic", "topic: /front", "topic: /lidar/front"),
            ("input.qos", "depth: 6", "depth: 7"),
            ("input.frame_id", "frame_id: front", "frame_id: nose"),
            ("input.expected_rate_hz", "expected_rate_hz: 11", "expected_rate_hz: 12"),
        ],
    ),
    (
        MAPS,
        &[
            ("occupancy.max_width_cells", "max_width_cells: 1000", "max_width_cells: 1001"),
            ("occupancy.max_height_cells", "max_height_cells: 900", "max_height_cells: 901"),
        ],
    ),
];

/// Keys that only say where numbers are that others have.
const OF_FILES: [&str; 3] = ["normalize.stats", "normalize.key", "normalize.first"];

/// What a change makes different.
fn differences(text: &str, (key, from, to): &Change) -> Vec<Difference> {
    assert!(text.contains(from), "{key}: no {from}");
    contract(text).differences(&contract(&text.replacen(from, to, 1)))
}

#[test]
fn what_bears_on_inputs_is_refused() {
    for (text, changes) in REFUSED {
        for change in *changes {
            let found = differences(text, change);
            let found = refused(&found);
            assert!(!found.is_empty(), "{change:?} was accepted");
            let unclear = found.iter().find(|sentence| !sentence.contains("would be served"));
            assert_eq!(unclear, None, "{change:?}");
        }
    }
}

#[test]
fn what_bears_on_validity_or_transport_alone_is_said() {
    for (text, kind, changes) in SAID {
        for change in *changes {
            let found = differences(text, change);
            assert!(!found.is_empty(), "{change:?} was accepted");
            assert!(found.iter().all(|of| of.kind == *kind), "{change:?}: {found:?}");
        }
    }
}

#[test]
fn what_does_not_bear_on_inputs_is_accepted() {
    for (text, changes) in ACCEPTED {
        for change in *changes {
            assert_eq!(differences(text, change), Vec::new(), "{change:?}");
        }
    }
}

#[test]
fn every_key_is_in_one_of_both_lists() {
    let listed = |lists: &[(&str, &'static [Change])]| -> BTreeSet<&str> {
        lists.iter().flat_map(|(_, changes)| changes.iter().map(|(key, ..)| *key)).collect()
    };
    let (mut refused, mut accepted) = (listed(REFUSED), listed(ACCEPTED));
    refused.extend(SAID.iter().flat_map(|(.., changes)| changes.iter().map(|(key, ..)| *key)));
    accepted.extend(OF_FILES);
    let both: Vec<_> = refused.intersection(&accepted).collect();
    assert!(both.is_empty(), "refused and accepted: {both:?}");
    let all = ALL_KEYS.iter().flat_map(|(mapping, keys)| {
        keys.iter().map(move |key| match *mapping {
            "" => (*key).to_owned(),
            mapping => format!("{mapping}.{key}"),
        })
    });
    let all: BTreeSet<String> = all.collect();
    let lacking =
        |key: &&String| !refused.contains(key.as_str()) && !accepted.contains(key.as_str());
    let lacking: Vec<_> = all.iter().filter(lacking).collect();
    assert!(
        lacking.is_empty(),
        "does a policy rely on {lacking:?}? Add a change to one of both lists"
    );
    let unknown: Vec<_> = refused.union(&accepted).filter(|key| !all.contains(**key)).collect();
    assert!(unknown.is_empty(), "no such keys: {unknown:?}");
}

/// What has no effect is no difference.
#[test]
fn what_has_no_effect_is_accepted() {
    let stretched = camera("nearest", "stretch");
    let with = |more: &str| contract(&stretched.replace("image: {", &format!("image: {{{more}, ")));
    assert_eq!(with("pad_value: 5").differences(&contract(&stretched)), Vec::new());
    let bytes = stretched.replace("topic", "dtype: u8\n    topic");
    assert_ne!(contract(&bytes).differences(&contract(&stretched)), Vec::new());
    // The numbers are the same, whether they are written as a range or as mean and std.
    let range = with("range: [-1, 1]");
    let normalised = with("mean: [0.5, 0.5, 0.5], std: [0.5, 0.5, 0.5]");
    assert_eq!(range.differences(&normalised), Vec::new());
}
