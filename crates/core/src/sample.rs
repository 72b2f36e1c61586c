//! What an input gives to an encoder, and what else it reads from a message.

use robocache_ops::depth::DepthView;
use robocache_ops::image::ImageView;
use robocache_ops::image::jpeg::Coefficients;
use robocache_ops::occupancy::MapView;
use robocache_ops::time::Stamp;
use robocache_ops::voxelize::PointsView;

use crate::rejected::{DropReason, Rejected};

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
    /// The same before it has pixels. Only a sink that [asks for coefficients](crate::input::Sink::takes_coefficients)
    /// gets it.
    Jpeg(JpegView<'a>),
    /// A depth image.
    Depth(DepthView<'a>),
    /// A point cloud.
    Points(PointsView<'a>),
    /// A map of what is free and what is occupied.
    Map(MapView<'a>),
}

/// A JPEG file whose coefficients have been read.
#[derive(Clone, Copy, Debug)]
pub struct JpegView<'a> {
    /// The image, without its lines.
    pub image: ImageView<'a>,
    /// The file.
    pub file: &'a [u8],
    /// What it holds.
    pub coefficients: &'a Coefficients,
}

impl<'a> Sample<'a> {
    /// What is known of an image before it has pixels.
    pub const fn image(&self) -> Option<&ImageView<'a>> {
        match self {
            Sample::Image(image) | Sample::Jpeg(JpegView { image, .. }) => Some(image),
            _ => None,
        }
    }
}

/// What kind of sample an encoder takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SampleKind {
    /// [`Sample::Vector`].
    Vector,
    /// [`Sample::Image`] or [`Sample::Jpeg`].
    Image,
    /// [`Sample::Depth`].
    Depth,
    /// [`Sample::Points`].
    Points,
    /// [`Sample::Map`].
    Map,
}

/// The largest image, cloud or map that a stream takes. The backend reserves memory for it at the start.
/// The pipeline drops what is larger. For a vector the bounds say nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Width of an image \[px\], or of a map \[cells\].
    pub max_width_px: usize,
    /// Height of an image \[px\], or of a map \[cells\].
    pub max_height_px: usize,
    /// Points of a cloud.
    pub max_points: usize,
    /// Whether clouds have a sweep.
    pub swept: bool,
    /// Whether images may be JPEG files.
    pub jpeg: bool,
}

impl Bounds {
    /// Width and height of the largest image \[px\] or map \[cells\].
    pub const fn image_px(self) -> [usize; 2] {
        [self.max_width_px, self.max_height_px]
    }
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds {
            max_width_px: 3840,
            max_height_px: 2160,
            max_points: 1 << 20,
            swept: false,
            jpeg: false,
        }
    }
}

/// The `std_msgs/Header` of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header<'a> {
    /// When the sensor measured, or why that is unknown. A bad stamp does not make the header an error, because
    /// `timeline: receive` does not use it.
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
    /// Before the zero of the clock: a driver's number that int32 does not hold.
    #[error("header.stamp.sec: expected 0 or more, found {0}")]
    Sec(i32),
}

impl StampError {
    /// The stamp of a header with these numbers.
    ///
    /// # Errors
    /// It says no time of measurement.
    pub fn check(sec: i32, nanosec: u32) -> Result<Stamp, StampError> {
        match Stamp::from_sec_nanosec(sec, nanosec) {
            None => Err(StampError::Nanosec(nanosec)),
            Some(Stamp::ZERO) => Err(StampError::Zero),
            Some(_) if sec < 0 => Err(StampError::Sec(sec)),
            Some(stamp) => Ok(stamp),
        }
    }
}

impl From<StampError> for Rejected {
    fn from(error: StampError) -> Self {
        let reason = match error {
            StampError::Zero => DropReason::ZeroStamp,
            StampError::Nanosec(_) | StampError::Sec(_) => DropReason::BadStamp,
        };
        Rejected::new(reason, error.to_string())
    }
}
