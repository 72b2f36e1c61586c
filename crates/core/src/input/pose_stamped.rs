//! `geometry_msgs/msg/PoseStamped`.

use super::fields::{Member, message_of_fields};

message_of_fields!(
    "geometry_msgs/msg/PoseStamped",
    [Member::vector3("position"), Member::quaternion("orientation")]
);
