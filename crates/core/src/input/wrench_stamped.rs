//! `geometry_msgs/msg/WrenchStamped`.

use super::fields::{Member, message_of_fields};

message_of_fields!(
    "geometry_msgs/msg/WrenchStamped",
    [Member::vector3("force"), Member::vector3("torque")]
);
