//! `geometry_msgs/msg/TwistStamped`.

use super::fields::{Member, message_of_fields};

message_of_fields!(
    "geometry_msgs/msg/TwistStamped",
    [Member::vector3("linear"), Member::vector3("angular")]
);
