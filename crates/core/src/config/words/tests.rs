use super::*;

#[test]
fn distance_and_hints() {
    assert_eq!((edits("kitten", "sitting"), edits("", "ab"), edits("a", "a")), (3, 2, 0));
    assert_eq!(nearest("tpoic", &["type", "topic"]), Some("topic"));
    assert_eq!(nearest("banana", &["type", "topic"]), None);
    assert_eq!(nearest(&"type".repeat(1000), &["type", "topic"]), None);
    let types = ["sensor_msgs/msg/Imu", "sensor_msgs/msg/Image", "geometry_msgs/msg/WrenchStamped"];
    for (name, near) in [
        ("geometry_msgs/msg/Wrench", Some(types[2])),
        ("Wrench", Some(types[2])),
        ("sensor_msgs/msg/IMU", Some(types[0])),
        ("sensor_msgs/msg/Joy", None),
        ("sensor_mgs/msg/Imu", Some(types[0])),
        ("sensor_msgs/msg/Imagee", Some(types[1])),
    ] {
        assert_eq!(near_type(name, &types), near, "{name}");
    }
    assert!(unit_is_missing("max_age", "max_age_ms") && unit_is_missing("rate", "rate_hz"));
    assert!(!unit_is_missing("max", "max_age_ms"));
}

#[test]
fn a_name_that_lacks_a_part_is_found_by_the_other_parts() {
    let topics = ["/cam_wrist/color/image_raw", "/cam_head/color/image_raw", "/cam_head/image_raw"];
    let found = suggestion("/cam_head/image_raw", &topics, "topics of this type");
    assert_eq!(found.as_deref(), Some("did you mean /cam_head/color/image_raw?"));
    let found = suggestion("lidr", &["base_link", "lidar"], "known frames");
    assert_eq!(found.as_deref(), Some("did you mean lidar?"));
    let found = suggestion("livox_frame", &["odom", "livox_new", "base_link"], "known frames");
    assert_eq!(found.as_deref(), Some("known frames: livox_new, base_link, odom"));
    let many = ["a", "b", "c", "d", "e", "f", "g"];
    let found = suggestion("some_frame", &many, "known frames");
    assert_eq!(found.as_deref(), Some("known frames: a, b, c, d, e and 2 more"));
    assert_eq!(suggestion("odom", &["odom"], "known frames"), None);
}
