//! `sensor_msgs/msg/MagneticField`.

use super::fields::{Member, message_of_fields};

message_of_fields!(
    "sensor_msgs/msg/MagneticField",
    [Member::vector3("magnetic_field"), Member::Covariance(9)]
);
