//! Serialized messages to samples: one file per message, registered in [`TYPES`]. Messages of any
//! other type are read by the plan of a `select` (`selected`).
//!
//! Live subscriptions and bags both give a message's CDR bytes, so the same input reads both. An input reads the header
//! first, and the [`Sink`] judges it. If the sink admits the message, the input reads the rest, and hands its samples to
//! the sink. Samples borrow from the bytes and have been checked against them: an encoder can index a
//! sample without more checks. An input knows nothing of rows: the sink decides which ring takes a sample.

pub(crate) mod array;
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
mod occupancy_grid;
mod odometry;
pub mod point_cloud2;
mod pose_stamped;
mod pose_with_covariance_stamped;
mod selected;
mod transforms;
mod twist_stamped;
mod wrench_stamped;

pub use array::ArraySample;
pub use camera_info::CAMERA_INFO;
pub use compressed_image::is_compressed_picture;
pub use fields::{Field, Member};
pub use joint_state::JOINT_FIELDS;
pub use joint_trajectory::POINT_FIELDS;
pub use joints::MAX_JOINTS;
pub use transforms::{IMU, ODOMETRY, TF_MESSAGE};

use crate::cdr::{F64Sequence, Reader};
use crate::rejected::{DropReason, Rejected};
pub use crate::sample::{Header, Sample, StampError, StampedTransform, Trajectory};
use crate::spec::{InputSpec, Selection};
use robocache_ops::image::camera::Camera;

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
    &occupancy_grid::TYPE,
];

/// A type of messages.
#[derive(Debug)]
pub struct MessageType {
    /// Its name, as `package/msg/Type`.
    pub name: &'static str,
    /// Content of its messages.
    pub content: Content,
    /// Makes an input for a selection. `None` if the selection is of another content.
    open: fn(&Selection) -> Option<Box<dyn Input>>,
}

/// Content of the messages of a type. It decides which keys of a configuration apply, and which
/// encoder takes the samples.
#[derive(Clone, Copy, Debug)]
pub enum Content {
    /// Fields of fixed size, for a vector.
    Fields(&'static [Member]),
    /// Joints by their names, for a vector.
    Joints,
    /// Plans of joints by their names, for a vector.
    Trajectory,
    /// Numbers that the configuration selects, for a vector.
    Selected,
    /// An image, of light or of depth.
    Image,
    /// Points, for voxels.
    Points,
    /// A map of what is free and what is occupied.
    Map,
}

impl Content {
    /// True if both are the same, whatever the fields.
    pub(crate) fn is_as(self, other: Content) -> bool {
        std::mem::discriminant(&self) == std::mem::discriminant(&other)
    }

    /// True if the content becomes a vector.
    pub fn is_vector(self) -> bool {
        !matches!(self, Content::Image | Content::Points | Content::Map)
    }

    /// True if joints are chosen by their names.
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
    /// [`Rejected`] if the message cannot be read. The sink has then received no sample.
    fn read(&mut self, message: &[u8], sink: &mut dyn Sink) -> Result<(), Rejected>;

    /// Reads joints that come from no message, as the rest of a message that was admitted. Only an input of joints takes
    /// them.
    ///
    /// # Errors
    /// As of [`Input::read`].
    fn read_joints(
        &mut self,
        _names: &[String],
        _positions: F64Sequence<'_>,
        _sink: &mut dyn SampleSink,
    ) -> Result<(), Rejected> {
        let detail = "expected another array, found joints";
        Err(Rejected::new(DropReason::Unsupported, detail))
    }
}

/// Judges a message, and takes what is in it.
pub trait Sink {
    /// Judges a message by its header, before the input reads the rest. Returns what takes the samples; `None` if the
    /// message is not taken: then the sink has recorded why, and the input returns `Ok`.
    fn admit(&mut self, header: &Header<'_>) -> Option<&mut dyn SampleSink>;

    /// Takes a transform between two frames. Only inputs of transforms give them.
    fn transform(&mut self, _transform: &StampedTransform<'_>) {}

    /// Takes the angular velocity of the header's frame in \[rad/s\], about its own axes. Its numbers have
    /// not been checked. Only inputs of gyros give it.
    fn turn(&mut self, _header: &Header<'_>, _rate: [f64; 3]) {}

    /// Takes a camera, whose frame is that of the header. Only inputs of `CameraInfo` give them.
    fn camera(&mut self, _header: &Header<'_>, _camera: Camera) {}
}

/// Takes the samples of a message that was admitted.
pub trait SampleSink {
    /// Takes the sample of part `part` of the input's selection. The sink records the result: a
    /// row, a drop or an error.
    fn sample(&mut self, part: usize, sample: Sample<'_>);

    /// Takes a plan: it replaces what lies after its start in all of its parts, or nothing.
    fn trajectory(&mut self, trajectory: &Trajectory<'_>);

    /// Notes that the message holds some joints of group `part` and lacks others. `lacking` says which.
    fn incomplete(&mut self, part: usize, lacking: &str);
}

/// Makes the input of a specification.
///
/// # Errors
/// If the type is unknown, or the selection is not of the type's content. [`crate::config`] makes
/// no such specification.
pub fn open(spec: &InputSpec) -> Result<Box<dyn Input>, String> {
    let InputSpec { name, ros_type, selection, .. } = spec;
    if let Selection::Numbers(plan) = selection {
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

/// Reads the `std_msgs/Header` in front of a message.
///
/// # Errors
/// `Malformed` if the message ends early or `frame_id` is not UTF-8.
pub fn header<'a>(reader: &mut Reader<'a>) -> Result<Header<'a>, Rejected> {
    let sec = reader.i32()?;
    let nanosec = reader.u32()?;
    let stamp = StampError::check(sec, nanosec);
    let frame_id = std::str::from_utf8(reader.string_bytes()?).map_err(|error| {
        let detail = format!("header.frame_id: expected UTF-8, found {error}");
        Rejected::new(DropReason::Malformed, detail)
    })?;
    Ok(Header { stamp, frame_id, child_frame_id: "" })
}

#[cfg(test)]
mod tests;
