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
