//! Every file in `tests/configs/bad` gives exactly the errors that its first lines announce, each
//! as `# expect: FILE:LINE: KEY: expected ..., found ...`.

use std::path::{Path, PathBuf};

use robocache_core::config;
use robocache_core::schema::Prefixes;

/// Lists that several errors have. The files have their names in braces instead.
const LISTS: [(&str, &str); 5] = [
    (
        "{message_types}",
        "sensor_msgs/msg/JointState, trajectory_msgs/msg/JointTrajectory, sensor_msgs/msg/Imu, \
         sensor_msgs/msg/MagneticField, geometry_msgs/msg/WrenchStamped, \
         geometry_msgs/msg/PoseStamped, geometry_msgs/msg/PoseWithCovarianceStamped, \
         geometry_msgs/msg/TwistStamped, nav_msgs/msg/Odometry, sensor_msgs/msg/Image, \
         sensor_msgs/msg/CompressedImage, sensor_msgs/msg/PointCloud2, sensor_msgs/msg/LaserScan, \
         nav_msgs/msg/OccupancyGrid",
    ),
    (
        "{framed_types}",
        "geometry_msgs/msg/PoseStamped, geometry_msgs/msg/PoseWithCovarianceStamped, \
         geometry_msgs/msg/TwistStamped, geometry_msgs/msg/WrenchStamped, nav_msgs/msg/Odometry, \
         sensor_msgs/msg/Imu, sensor_msgs/msg/MagneticField",
    ),
    (
        "{image_stream_keys}",
        "strategy, lag_ms, history, horizon, max_ahead_ms, max_age_ms, fill, required, timeline, \
         stamp_offset_ms, dtype, ring_rows, qos, frame_id, expected_rate_hz, image",
    ),
    (
        "{field_stream_keys}",
        "strategy, lag_ms, history, horizon, max_ahead_ms, max_age_ms, max_gap_ms, fill, required, \
         timeline, stamp_offset_ms, dtype, ring_rows, qos, frame_id, in_frame, expected_rate_hz, \
         fields, operators",
    ),
    (
        "{image_keys}",
        "preset, undistort, crop, resize, layout, color, range, mean, std, pad_value, \
         max_width_px, max_height_px, encoding_8uc, depth",
    ),
];

fn bad_files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/configs/bad");
    let entries = std::fs::read_dir(folder).unwrap();
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

#[test]
fn each_bad_configuration_gives_exactly_its_errors() {
    let definitions = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/definitions");
    let definitions = Prefixes::new(vec![definitions]);
    let mut wrong = Vec::new();
    for path in bad_files() {
        let name = path.file_name().unwrap().to_str().unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let expected: Vec<_> =
            text.lines().map_while(|line| line.strip_prefix("# expect: ")).collect();
        assert!(!expected.is_empty(), "{name} announces no error");
        let expected = LISTS
            .iter()
            .fold(expected.join("\n"), |errors, (list, names)| errors.replace(list, names));
        match config::parse_with(&text, name, &definitions) {
            Ok(_) => wrong.push(format!("{name} is accepted")),
            Err(error) if error.to_string() == expected => {}
            Err(error) => wrong.push(format!("{error}\n  instead of\n{expected}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn there_are_enough_of_them() {
    assert!(bad_files().len() >= 80, "{}", bad_files().len());
}
