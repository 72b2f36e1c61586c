//! What a configuration means once it has been validated: every number in its final unit, every
//! combination possible. Nothing here is read from a file; see [`super::load`] for that.

use crate::dtype::DType;
use crate::time::TickGrid;

/// The whole of a validated configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Rate of the ticks \[Hz\], as written.
    pub rate_hz: f64,
    /// The instants of the ticks.
    pub grid: TickGrid,
    /// Every target lies this long before its tick \[ns\].
    pub lag_ns: i64,
    /// Which stamp of a message counts.
    pub timeline: Timeline,
    /// Frame of the fused tensor and of all clouds after their transform.
    pub base_frame: String,
    /// Topic of the fused tensor.
    pub output_topic: String,
    /// The streams, in the order in which their segments are packed.
    pub streams: Vec<StreamSpec>,
}

/// Which stamp of a message places it in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Timeline {
    /// `header.stamp`: when the sensor measured.
    #[default]
    Header,
    /// The node's clock on arrival.
    Receive,
}

/// One stream: a topic and how it becomes a segment of the tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamSpec {
    /// Name of the segment; unique in the configuration.
    pub name: String,
    /// Topic, before remapping.
    pub topic: String,
    /// Message type and how a message becomes a row.
    pub source: Source,
    /// How a value at a target time follows from the rows around it.
    pub strategy: Strategy,
    /// Number of target times, at least 1; step `j` stands `(steps-1-j) * step_ns` before the newest.
    pub history_steps: usize,
    /// Distance of neighbouring target times \[ns\].
    pub history_step_ns: i64,
    /// A value older than this is invalid \[ns\].
    pub max_age_ns: i64,
    /// An interpolated value whose bracketing rows lie further apart is invalid \[ns\].
    pub max_gap_ns: i64,
    /// What an invalid step holds.
    pub fill: Fill,
    /// Whether a tick is held back while any step of this stream is invalid.
    pub required: bool,
    /// Added to every stamp on arrival \[ns\].
    pub stamp_offset_ns: i64,
    /// Element type of the segment.
    pub dtype: DType,
    /// Rows the ring holds.
    pub ring_rows: usize,
    /// Reliability and depth asked of the middleware.
    pub qos: Qos,
    /// `header.frame_id` that messages must carry; any if `None`.
    pub frame_id: Option<String>,
    /// Rate at which the stream is expected to arrive \[Hz\], for diagnostics and, at load, to
    /// check that the ring reaches back far enough.
    pub expected_rate_hz: Option<f64>,
}

/// How a value at a target time follows from the rows around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Strategy {
    /// The newest row at or before the target.
    Hold,
    /// The row closest to the target, the earlier on a tie.
    Nearest,
    /// Between the two bracketing rows.
    Linear,
    /// As `Linear`, with quaternions turned along the shorter arc.
    Slerp,
}

impl Strategy {
    /// Whether values lie between rows rather than at one of them.
    pub fn interpolates(self) -> bool {
        matches!(self, Strategy::Linear | Strategy::Slerp)
    }
}

/// What an invalid step holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fill {
    /// Zeros.
    #[default]
    Zero,
    /// The newest row at or before the target, however old; zeros where there is none.
    Last,
}

/// Quality of service asked of the middleware for a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Qos {
    /// `reliable` rather than `best_effort`.
    pub reliable: bool,
    /// Messages the middleware keeps for us (`keep_last`).
    pub depth: usize,
}

/// Message type of a stream and how a message becomes a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// Any of the types that become a flat vector of floats.
    Vector(VectorSpec),
    /// `sensor_msgs/msg/Image`: a row is `[channels, height, width]`.
    Image(ImageSpec),
    /// `sensor_msgs/msg/PointCloud2`: a row is `[channels, z, y, x]`.
    Cloud(CloudSpec),
}

impl Source {
    /// The ROS type, as `package/msg/Type`.
    pub fn ros_type(&self) -> &'static str {
        match self {
            Source::Vector(spec) => spec.message.ros_type(),
            Source::Image(_) => "sensor_msgs/msg/Image",
            Source::Cloud(_) => "sensor_msgs/msg/PointCloud2",
        }
    }

    /// Shape of one row, row-major.
    pub fn row_shape(&self) -> Vec<usize> {
        match self {
            Source::Vector(spec) => vec![spec.dim()],
            Source::Image(spec) => vec![spec.color.channels(), spec.height, spec.width],
            Source::Cloud(spec) => {
                let [x, y, z] = spec.grid.shape;
                vec![spec.channels.len(), z, y, x]
            }
        }
    }

    /// Elements of one row.
    pub fn row_len(&self) -> usize {
        self.row_shape().iter().product()
    }
}

/// A message that becomes a flat vector: the chosen fields in their order, each with all of its
/// elements.
#[derive(Clone, Debug, PartialEq)]
pub struct VectorSpec {
    /// The message type.
    pub message: VectorMessage,
    /// The fields, in row order. For `JointState` a field is followed by the next only after all
    /// joints: `[position of every joint, velocity of every joint]`.
    pub fields: Vec<VectorField>,
    /// Joint names in row order; empty for other messages.
    pub joints: Vec<String>,
    /// How each lane of the row is interpolated; `lanes.len()` is the row's length. The four lanes
    /// of a quaternion are `Lane::Quaternion` and stand together.
    pub lanes: Vec<Lane>,
}

impl VectorSpec {
    /// Elements in a row.
    pub fn dim(&self) -> usize {
        self.lanes.len()
    }
}

/// Message types that become a vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VectorMessage {
    /// `sensor_msgs/msg/JointState`
    JointState,
    /// `sensor_msgs/msg/Imu`
    Imu,
    /// `geometry_msgs/msg/WrenchStamped`
    WrenchStamped,
    /// `geometry_msgs/msg/PoseStamped`
    PoseStamped,
    /// `geometry_msgs/msg/TwistStamped`
    TwistStamped,
    /// `nav_msgs/msg/Odometry`
    Odometry,
}

impl VectorMessage {
    /// The ROS type, as `package/msg/Type`.
    pub const fn ros_type(self) -> &'static str {
        match self {
            VectorMessage::JointState => "sensor_msgs/msg/JointState",
            VectorMessage::Imu => "sensor_msgs/msg/Imu",
            VectorMessage::WrenchStamped => "geometry_msgs/msg/WrenchStamped",
            VectorMessage::PoseStamped => "geometry_msgs/msg/PoseStamped",
            VectorMessage::TwistStamped => "geometry_msgs/msg/TwistStamped",
            VectorMessage::Odometry => "nav_msgs/msg/Odometry",
        }
    }

    /// The fields this message has, in the order in which a message carries them.
    pub const fn fields(self) -> &'static [VectorField] {
        use VectorField::*;
        match self {
            VectorMessage::JointState => &[Position, Velocity, Effort],
            VectorMessage::Imu => &[Orientation, AngularVelocity, LinearAcceleration],
            VectorMessage::WrenchStamped => &[Force, Torque],
            VectorMessage::PoseStamped => &[Position, Orientation],
            VectorMessage::TwistStamped => &[Linear, Angular],
            VectorMessage::Odometry => &[Position, Orientation, Linear, Angular],
        }
    }
}

/// A field of a vector message, by its name in the message. `Position` means the joint positions
/// of a `JointState` and the point of a pose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names are the messages' own
pub enum VectorField {
    Position,
    Velocity,
    Effort,
    Orientation,
    AngularVelocity,
    LinearAcceleration,
    Force,
    Torque,
    Linear,
    Angular,
}

impl VectorField {
    /// The name in the message and in configurations.
    pub const fn name(self) -> &'static str {
        match self {
            VectorField::Position => "position",
            VectorField::Velocity => "velocity",
            VectorField::Effort => "effort",
            VectorField::Orientation => "orientation",
            VectorField::AngularVelocity => "angular_velocity",
            VectorField::LinearAcceleration => "linear_acceleration",
            VectorField::Force => "force",
            VectorField::Torque => "torque",
            VectorField::Linear => "linear",
            VectorField::Angular => "angular",
        }
    }
}

/// How one element of a vector row is interpolated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// Along the straight line.
    Linear,
    /// An angle in radians: along the shorter arc.
    Angular,
    /// One of the four elements (x, y, z, w) of a unit quaternion.
    Quaternion,
}

/// How an image becomes a row.
#[derive(Clone, Debug, PartialEq)]
pub struct ImageSpec {
    /// Width of the row \[px\].
    pub width: usize,
    /// Height of the row \[px\].
    pub height: usize,
    /// What happens to the aspect ratio.
    pub fit: Fit,
    /// Channels of the row, in order.
    pub color: Color,
    /// Per channel of the row: the value is `(byte / 255 - mean) / std`, in `f32`. A single
    /// channel's number stands in all three places.
    pub mean: [f32; 3],
    /// See `mean`; positive.
    pub std: [f32; 3],
    /// Byte value of padding, before normalisation.
    pub pad_value: u8,
}

/// What happens to an image's aspect ratio on resize.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fit {
    /// The whole image into the whole row.
    Stretch,
    /// The whole image, centred, with padding at two sides.
    #[default]
    Pad,
    /// The largest centred part of the row's aspect ratio.
    Crop,
}

/// Channels of an image row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Color {
    /// Red, green, blue.
    #[default]
    Rgb,
    /// Blue, green, red.
    Bgr,
    /// Luma, ITU-R BT.601.
    Mono,
}

impl Color {
    /// Number of channels.
    pub const fn channels(self) -> usize {
        match self {
            Color::Rgb | Color::Bgr => 3,
            Color::Mono => 1,
        }
    }
}

/// How a point cloud becomes a voxel grid.
#[derive(Clone, Debug, PartialEq)]
pub struct CloudSpec {
    /// The grid, in the base frame.
    pub grid: Grid,
    /// `t_base_lidar`: takes a point of the cloud to the base frame, `[R | t]` row by row \[m\].
    pub t_base_lidar: [[f32; 4]; 3],
    /// One channel of the row each.
    pub channels: Vec<Reduction>,
}

/// An axis-aligned voxel grid. Voxel `i` along an axis covers
/// `origin + i*size <= p < origin + (i+1)*size`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Grid {
    /// Lower corner \[m\].
    pub origin_m: [f32; 3],
    /// Edge of a voxel \[m\], positive.
    pub size_m: f32,
    /// Voxels along x, y and z.
    pub shape: [usize; 3],
}

/// What a voxel says of the points in it; all are 0 in an empty voxel.
#[derive(Clone, Debug, PartialEq)]
pub enum Reduction {
    /// Number of points.
    Count,
    /// 1 where there is a point.
    Occupancy,
    /// Mean of a field. `x`, `y` and `z` are in the base frame.
    Mean(String),
    /// Greatest value of a field.
    Max(String),
}
