//! Voxel grids: their keys in a contract.

use super::Keys;

/// A cloud with all keys that it may have.
const CLOUDS: &str = "
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
const MERGED: &str = "
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

pub(super) const KEYS: &[Keys] = &[
    Keys {
        config: CLOUDS,
        refused: &[
            ("streams.t_base_sensor", "[0.1, 0, 0.5]", "[0.2, 0, 0.5]"),
            ("streams.cloud", "size_m: 0.5\n", "size_m: 0.6\n"),
            (
                "streams.deskew",
                "    deskew: {fixed_frame: odom, time_field: t, time_unit: ns, time_from: header, span_ms: [-5, 105]}\n",
                "",
            ),
            ("streams.inputs.t_base_sensor.translation_m", "[0, 0, 0.1]", "[0, 0, 0.2]"),
            ("streams.inputs.t_base_sensor.rotation_rpy_deg", "[0, 0, 10]", "[0, 0, 11]"),
            ("streams.inputs.t_base_sensor.rotation_xyzw", "[0, 0, 0, 1]", "[0, 0, 1, 0]"),
            ("streams.inputs.deskew.fixed_frame", "fixed_frame: odom", "fixed_frame: map"),
            ("streams.inputs.deskew.time_field", "time_field: t", "time_field: time"),
            ("streams.inputs.deskew.time_unit", "time_unit: ns", "time_unit: us"),
            ("streams.inputs.deskew.time_from", "time_from: header", "time_from: epoch"),
            ("streams.inputs.deskew.span_ms", "[-5, 105]", "[-5, 106]"),
            ("streams.cloud.origin_m", "origin_m: [-2, -2, -1]", "origin_m: [-2, -3, -1]"),
            ("streams.cloud.size_m", "size_m: 0.5\n", "size_m: 0.4\n"),
            ("streams.cloud.shape", "[8, 8, 4]", "[8, 8, 5]"),
            ("streams.cloud.channels", "        - {reduce: count}\n", ""),
            ("streams.cloud.channels.reduce", "reduce: max", "reduce: min"),
            ("streams.cloud.channels.field", "field: intensity", "field: ring"),
            ("streams.cloud.channels.feature", "feature: range", "feature: height"),
            ("streams.cloud.min_points", "min_points: 2", "min_points: 3"),
            ("streams.cloud.min_range_m", "min_range_m: 0.3", "min_range_m: 0.4"),
            ("streams.cloud.max_range_m", "max_range_m: 50", "max_range_m: 51"),
            (
                "streams.cloud.crop",
                "      crop: [{action: remove, frame: sensor, min_m: [-1, -2, -3], max_m: [1, 2, 3], pose: {translation_m: [0, 0, 1]}}]\n",
                "",
            ),
            ("streams.cloud.crop.action", "action: remove", "action: keep"),
            ("streams.cloud.crop.frame", "frame: sensor", "frame: base"),
            ("streams.cloud.crop.min_m", "[-1, -2, -3]", "[-2, -2, -3]"),
            ("streams.cloud.crop.max_m", "[1, 2, 3]", "[2, 2, 3]"),
            (
                "streams.cloud.crop.pose",
                "pose: {translation_m: [0, 0, 1]}",
                "pose: {translation_m: [0, 0, 2]}",
            ),
            ("streams.cloud.self_filter", "        - {size_m: [0.8, 0.5, 0.4], frame: arm}\n", ""),
            ("streams.cloud.self_filter.size_m", "[0.8, 0.5, 0.4]", "[0.8, 0.6, 0.4]"),
            ("streams.cloud.self_filter.frame", "frame: arm", "frame: elbow"),
            ("streams.cloud.self_filter.radius_m", "radius_m: 0.15", "radius_m: 0.16"),
            (
                "streams.cloud.self_filter.pose",
                "pose: {translation_m: [0, 0, 0.1], ",
                "pose: {translation_m: [0, 1, 0.1], ",
            ),
            ("streams.cloud.output", "output: sparse\n      max_voxels: 100\n", "output: dense\n"),
            ("streams.cloud.max_voxels", "max_voxels: 100", "max_voxels: 101"),
        ],
        accepted: &[("streams.cloud.max_points", "max_points: 10000", "max_points: 10001")],
        limits: &["streams.max_points"],
        ..Keys::NONE
    },
    Keys {
        config: MERGED,
        refused: &[
            ("streams.valid_when", "valid_when: all", "valid_when: any"),
            ("streams.inputs.type", "type: sensor_msgs/msg/LaserScan, ", ""),
            ("streams.inputs.max_age_ms", "max_age_ms: 150", "max_age_ms: 151"),
            ("streams.inputs.timeline", "timeline: header", "timeline: receive"),
            ("streams.inputs.stamp_offset_ms", "stamp_offset_ms: 2", "stamp_offset_ms: 3"),
            (
                "streams.inputs.t_base_sensor",
                "t_base_sensor: tf",
                "t_base_sensor: {translation_m: [0, 0, 1]}",
            ),
            ("streams.inputs.deskew", ", deskew: {gyro: /imu, sensor: ouster}", ""),
            ("streams.inputs.deskew.gyro", "gyro: /imu", "fixed_frame: odom"),
            ("streams.inputs.deskew.sensor", "sensor: ouster", "sensor: velodyne"),
        ],
        accepted: &[
            ("streams.inputs.topic", "topic: /front", "topic: /lidar/front"),
            ("streams.inputs.qos", "depth: 6", "depth: 7"),
            ("streams.inputs.frame_id", "frame_id: front", "frame_id: nose"),
            ("streams.inputs.expected_rate_hz", "expected_rate_hz: 11", "expected_rate_hz: 12"),
        ],
        ..Keys::NONE
    },
];
