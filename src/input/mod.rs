//! Serialized messages to samples: one file per message, registered in [`TYPES`]. Messages of any
//! other type are read by the plan of a `select` (`selected`).
//!
//! Live subscriptions and bags both give a message's CDR bytes, so the same input reads both.
//! Samples borrow from those bytes and have been checked against them: an encoder can index a
//! sample without more checks. An input knows nothing of rows: the [`Sink`] decides which ring
//! takes a sample.

pub mod camera_info;
mod compressed_image;
pub(crate) mod depth_image;
mod fields;
pub mod image;
mod imu;
mod joint_state;
mod joint_trajectory;
mod joints;
pub mod laser_scan;
mod magnetic_field;
mod odometry;
pub mod point_cloud2;
mod pose_stamped;
mod pose_with_covariance_stamped;
mod selected;
mod transforms;
mod twist_stamped;
mod wrench_stamped;

pub use camera_info::CAMERA_INFO;
pub use compressed_image::is_compressed_picture;
pub use fields::{Field, Member};
pub use joint_state::JOINT_FIELDS;
pub use joint_trajectory::POINT_FIELDS;
pub use joints::MAX_JOINTS;
pub use transforms::{IMU, ODOMETRY, TF_MESSAGE};

use crate::cdr::Reader;
use crate::ops::depth::DepthView;
use crate::ops::image::ImageView;
use crate::ops::image::camera::Camera;
use crate::ops::voxelize::PointsView;
use crate::pipeline::{DropReason, Rejected};
use crate::spec::{InputSpec, Selection};
use crate::time::Stamp;

/// All types of messages. A new one is a file in this folder and a line here.
pub static TYPES: &[&MessageType] = &[
    &joint_state::TYPE,
    &joint_trajectory::TYPE,
    &imu::TYPE,
    &magnetic_field::TYPE,
    &wrench_stamped::TYPE,
    &pose_stamped::TYPE,
    &pose_with_covariance_stamped::TYPE,
    &twist_stamped::TYPE,
    &odometry::TYPE,
    &image::TYPE,
    &compressed_image::TYPE,
    &point_cloud2::TYPE,
    &laser_scan::TYPE,
];

/// Most names of a message that an error lists: a message may declare thousands. If there are more, the
/// error says so.
pub(crate) const NAMES_LOGGED: usize = 32;
/// Most bytes of such a name that an error shows.
const NAME_LOGGED: usize = 64;

/// A type of messages.
#[derive(Debug)]
pub struct MessageType {
    /// Its name, as `package/msg/Type`.
    pub name: &'static str,
    /// What its messages hold.
    pub content: Content,
    /// Makes an input for a selection. `None` if the selection is of another content.
    open: fn(&Selection) -> Option<Box<dyn Input>>,
}

/// What the messages of a type hold. It decides which keys of a configuration apply, and which
/// encoder takes the samples.
#[derive(Clone, Copy, Debug)]
pub enum Content {
    /// Fields of fixed size, for a vector; see [`Selection::Fields`].
    Fields(&'static [Member]),
    /// Joints by their names, for a vector; see [`Selection::Joints`].
    Joints,
    /// Plans of joints by their names, for a vector; see [`Selection::Trajectory`].
    Trajectory,
    /// Numbers that the configuration selects, for a vector; see [`Selection::Plan`].
    Selected,
    /// An image, of light or of depth.
    Image,
    /// Points, for voxels.
    Points,
}

impl Content {
    /// Whether it becomes a vector.
    pub fn is_vector(self) -> bool {
        !matches!(self, Content::Image | Content::Points)
    }

    /// Whether joints are chosen by their names.
    pub fn has_joints(self) -> bool {
        matches!(self, Content::Joints | Content::Trajectory)
    }
}

impl MessageType {
    /// The type of this name, if it is known.
    pub fn find(name: &str) -> Option<&'static MessageType> {
        TYPES.iter().copied().find(|known| known.name == name)
    }
}

/// Reads the messages of one subscription. It reuses its memory from message to message.
pub trait Input: Send {
    /// Reads a serialized message and hands what it selects to `sink`: a sample, several, or none.
    ///
    /// # Errors
    /// [`Rejected`] if the message cannot be read. The sink has then received nothing.
    fn read(&mut self, message: &[u8], sink: &mut dyn Sink) -> Result<(), Rejected>;
}

/// Takes the samples of a message.
pub trait Sink {
    /// Takes the sample of part `part` of the input's selection. The sink records the result: a
    /// row, a drop or an error.
    fn sample(&mut self, part: usize, header: &Header<'_>, sample: Sample<'_>);

    /// Takes a plan: it replaces what lies after its start in all of its parts, or nothing.
    fn trajectory(&mut self, header: &Header<'_>, trajectory: &Trajectory<'_>);

    /// Notes that the message holds some joints of group `part` and lacks others.
    fn incomplete(&mut self, part: usize);

    /// Takes a transform between two frames. Only inputs of transforms give them.
    fn transform(&mut self, _transform: &StampedTransform<'_>) {}

    /// Takes the angular velocity of the header's frame in \[rad/s\], about its own axes. Its numbers have
    /// not been checked. Only inputs of gyros give it.
    fn turn(&mut self, _header: &Header<'_>, _rate: [f64; 3]) {}

    /// Takes a camera, whose frame is that of the header. Only inputs of `CameraInfo` give them.
    fn camera(&mut self, _header: &Header<'_>, _camera: Camera) {}
}

/// A transform between two frames, as a message has it. Its numbers have not been checked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StampedTransform<'a> {
    /// When it was so, and the parent frame.
    pub header: Header<'a>,
    /// The child frame.
    pub child: &'a str,
    /// Origin of the child in the parent \[m\].
    pub translation: [f64; 3],
    /// Orientation of the child in the parent: x, y, z, w.
    pub rotation: [f64; 4],
    /// Whether it is so at all stamps.
    pub fixed: bool,
}

/// The points of a plan. Without a point, the plan is to stop.
#[derive(Clone, Copy, Debug)]
pub struct Trajectory<'a> {
    /// When each point is, after the plan's start \[ns\]: strictly increasing, none negative.
    pub times_ns: &'a [i64],
    /// The parts of the input's selection that it is for, in ascending order; at least one.
    pub parts: &'a [TrajectoryPart],
}

/// The points of a plan for one part of the input's selection.
#[derive(Clone, Debug)]
pub struct TrajectoryPart {
    /// The part.
    pub part: usize,
    /// `[points, numbers]`: the row of each point.
    pub values: Vec<f64>,
}

/// What a message holds, for an encoder.
#[derive(Clone, Copy, Debug)]
pub enum Sample<'a> {
    /// Numbers as the message has them. They may be NaN or infinite.
    Vector(&'a [f64]),
    /// An image in one of the raw encodings.
    Image(ImageView<'a>),
    /// A depth image.
    Depth(DepthView<'a>),
    /// A point cloud.
    Points(PointsView<'a>),
}

/// Makes the input of a specification.
///
/// # Errors
/// If the type is unknown, or the selection is not of the type's content. [`crate::config`] makes
/// no such specification.
pub fn open(spec: &InputSpec) -> Result<Box<dyn Input>, String> {
    let InputSpec { name, ros_type, selection, .. } = spec;
    if let Selection::Plan(plan) = selection {
        return Ok(selected::open(plan));
    }
    let unfit =
        || format!("input '{name}': expected a selection from {ros_type}, found {selection:?}");
    if let Selection::Transforms { fixed } = selection {
        return transforms::open(ros_type, *fixed).ok_or_else(unfit);
    }
    if let Selection::CameraInfo { .. } = selection {
        return camera_info::open(ros_type).ok_or_else(unfit);
    }
    let known = MessageType::find(ros_type)
        .ok_or_else(|| format!("input '{name}': expected a known type, found {ros_type}"))?;
    (known.open)(selection).ok_or_else(unfit)
}

/// The `std_msgs/Header` of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header<'a> {
    /// When the sensor measured, or why that is not known. A bad stamp does not make the header an
    /// error, because `timeline: receive` does not use it.
    pub stamp: Result<Stamp, StampError>,
    /// Frame of the data.
    pub frame_id: &'a str,
    /// Frame of the rest of the data, in a message with a `child_frame_id`; otherwise empty.
    pub child_frame_id: &'a str,
}

/// Why a header's stamp cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StampError {
    /// "Not set".
    #[error("header.stamp: expected the time of measurement, found zero")]
    Zero,
    /// The nanosecond part is a second or more.
    #[error("header.stamp.nanosec: expected under 1000000000, found {0}")]
    Nanosec(u32),
}

impl From<StampError> for Rejected {
    fn from(error: StampError) -> Self {
        let reason = match error {
            StampError::Zero => DropReason::ZeroStamp,
            StampError::Nanosec(_) => DropReason::BadStamp,
        };
        Rejected::new(reason, error.to_string())
    }
}

/// Reads the `std_msgs/Header` in front of a message.
///
/// # Errors
/// `Malformed` if the message ends early or `frame_id` is not UTF-8.
pub fn header<'a>(reader: &mut Reader<'a>) -> Result<Header<'a>, Rejected> {
    let (sec, nanosec) = (reader.i32()?, reader.u32()?);
    let stamp = match Stamp::from_sec_nanosec(sec, nanosec) {
        Some(Stamp::ZERO) => Err(StampError::Zero),
        Some(stamp) => Ok(stamp),
        None => Err(StampError::Nanosec(nanosec)),
    };
    let frame_id = std::str::from_utf8(reader.string_bytes()?).map_err(|error| {
        let detail = format!("header.frame_id: expected UTF-8, found {error}");
        Rejected::new(DropReason::Malformed, detail)
    })?;
    Ok(Header { stamp, frame_id, child_frame_id: "" })
}

/// The first names of a message, for an error.
pub(crate) fn names_found<'a>(names: impl ExactSizeIterator<Item = &'a [u8]>) -> String {
    let more = if names.len() > NAMES_LOGGED { ", ..." } else { "" };
    let shorten = |name: &'a [u8]| String::from_utf8_lossy(&name[..name.len().min(NAME_LOGGED)]);
    let shown: Vec<_> = names.take(NAMES_LOGGED).map(shorten).collect();
    format!("{}{more}", shown.join(", "))
}

#[cfg(test)]
mod image_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod twin_tests;
