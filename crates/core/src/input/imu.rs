//! `sensor_msgs/msg/Imu`.

use super::fields::{Member, message_of_fields};

message_of_fields!(
    "sensor_msgs/msg/Imu",
    [
        Member::quaternion("orientation"),
        Member::CovarianceOrNone(9),
        Member::vector3("angular_velocity"),
        Member::CovarianceOrNone(9),
        Member::vector3("linear_acceleration"),
        Member::CovarianceOrNone(9),
    ]
);
