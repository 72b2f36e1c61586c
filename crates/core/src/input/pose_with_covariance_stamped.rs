//! `geometry_msgs/msg/PoseWithCovarianceStamped`.

use super::fields::{Member, message_of_fields};

message_of_fields!(
    "geometry_msgs/msg/PoseWithCovarianceStamped",
    [Member::vector3("position"), Member::quaternion("orientation"), Member::Covariance(36)]
);
