//! `nav_msgs/msg/Odometry`.

use super::fields::{Member, message_of_fields};

message_of_fields!(
    "nav_msgs/msg/Odometry",
    [
        Member::ChildFrame,
        Member::vector3("position"),
        Member::quaternion("orientation"),
        Member::Covariance(36),
        Member::vector3("linear"),
        Member::vector3("angular"),
        Member::Covariance(36),
    ]
);
