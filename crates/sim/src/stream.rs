//! The streams of the robot.

/// One topic of the robot. At equal instants they are sent in this order: time first, then small
/// messages before large ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, clap::ValueEnum)]
#[allow(missing_docs)] // each is named for its topic, see `topic`
#[value(rename_all = "snake_case")]
pub enum Stream {
    Clock,
    Joints,
    Wrench,
    Imu,
    Pose,
    Twist,
    Odom,
    CameraFront,
    CameraWrist,
    Lidar,
    Depth,
    Tf,
}

impl Stream {
    /// All streams, in order.
    pub const ALL: [Stream; 12] = [
        Stream::Clock,
        Stream::Joints,
        Stream::Wrench,
        Stream::Imu,
        Stream::Pose,
        Stream::Twist,
        Stream::Odom,
        Stream::CameraFront,
        Stream::CameraWrist,
        Stream::Lidar,
        Stream::Depth,
        Stream::Tf,
    ];

    fn row(self) -> [&'static str; 4] {
        match self {
            Stream::Clock => ["clock", "/clock", "rosgraph_msgs/msg/Clock", ""],
            Stream::Joints => ["joints", "/joint_states", "sensor_msgs/msg/JointState", ""],
            Stream::Wrench => ["wrench", "/wrench", "geometry_msgs/msg/WrenchStamped", "wrist"],
            Stream::Imu => ["imu", "/imu/data", "sensor_msgs/msg/Imu", "imu"],
            Stream::Pose => ["pose", "/pose", "geometry_msgs/msg/PoseStamped", "base"],
            Stream::Twist => ["twist", "/twist", "geometry_msgs/msg/TwistStamped", "base"],
            Stream::Odom => ["odom", "/odom", "nav_msgs/msg/Odometry", "odom"],
            Stream::CameraFront => {
                ["camera_front", "/camera_front/image_raw", "sensor_msgs/msg/Image", "camera_front"]
            }
            Stream::CameraWrist => {
                ["camera_wrist", "/camera_wrist/image_raw", "sensor_msgs/msg/Image", "camera_wrist"]
            }
            Stream::Tf => ["tf", "/tf", "tf2_msgs/msg/TFMessage", "base_link"],
            Stream::Depth => ["depth", "/depth", "sensor_msgs/msg/Image", "camera_front"],
            Stream::Lidar => ["lidar", "/lidar/points", "sensor_msgs/msg/PointCloud2", "lidar"],
        }
    }

    /// Name in options and counts. In the name of a flag it has `-` for `_`.
    pub fn name(self) -> &'static str {
        self.row()[0]
    }

    /// Topic, before remapping.
    pub fn topic(self) -> &'static str {
        self.row()[1]
    }

    /// Type of the messages.
    pub fn ros_type(self) -> &'static str {
        self.row()[2]
    }

    /// `header.frame_id` of the messages.
    pub fn frame_id(self) -> &'static str {
        self.row()[3]
    }

    /// True if a message takes long to make and send. Such a stream needs a thread of its own;
    /// otherwise it delays the others.
    pub fn is_large(self) -> bool {
        matches!(self, Stream::CameraFront | Stream::CameraWrist | Stream::Lidar | Stream::Depth)
    }
}
