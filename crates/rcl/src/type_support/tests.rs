use super::*;

#[test]
fn malformed_type_names_are_refused() {
    assert_eq!(split("sensor_msgs/msg/Image", "msg"), Some(("sensor_msgs", "Image")));
    for wrong in
        ["", "Image", "sensor_msgs/Image", "a/srv/B", "../x/msg/B", "a/msg/B/c", "a/msg/\0"]
    {
        assert_eq!(split(wrong, "msg"), None, "{wrong}");
        assert!(TypeSupport::load(wrong).is_err());
    }
}

#[test]
fn an_error_names_a_package_that_another_one_needs() {
    let loader = "libstd_msgs__rosidl_generator_c.so: cannot open shared object file";
    let error = absent("nav_msgs", None, &[loader.to_owned()]);
    assert!(error.starts_with("the package nav_msgs is installed and needs it, but"), "{error}");
    assert!(error.contains("install ros-$ROS_DISTRO-std-msgs"), "{error}");
    for other in ["libnav_msgs__rosidl_generator_c.so: wrong ELF class", "out of memory"] {
        let error = absent("nav_msgs", None, &[other.to_owned()]);
        assert_eq!(
            error,
            format!("the package nav_msgs is installed, but its library does not load ({other})")
        );
    }
}

#[test]
fn an_error_names_the_missing_package_or_message() {
    let error = |ros_type| TypeSupport::load(ros_type).err().unwrap().to_string();
    let package = error("my_robot_msgs/msg/Pose");
    assert!(package.contains("install ros-$ROS_DISTRO-my-robot-msgs or source"), "{package}");
    let message = error("sensor_msgs/msg/Imagined");
    assert!(message.ends_with("sensor_msgs is installed and has no message Imagined"), "{message}");
}
