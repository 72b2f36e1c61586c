//! Samples that an input gives to an encoder, and other contents of a message.

use std::sync::Arc;

use robocache_ops::depth::DepthView;
use robocache_ops::image::jpeg::Scan;
use robocache_ops::image::{ImageView, Remap};
use robocache_ops::map::MapView;
use robocache_ops::time::Stamp;
use robocache_ops::voxelize::{IDENTITY, Knot, PointsView, Sweep};

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
    /// True if the transform is so at all stamps.
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

/// Content of a message, for an encoder. The [`Placement`] beside it has what the message does not say.
#[derive(Clone, Copy, Debug)]
pub enum Sample<'a> {
    /// Numbers as the message has them. They may be NaN or infinite.
    Vector(&'a [f64]),
    /// An image in one of the raw encodings.
    Image(ImageView<'a>),
    /// A compressed image, whose encoder decodes it.
    Compressed(CompressedImage<'a>),
    /// A depth image.
    Depth(DepthView<'a>),
    /// A point cloud.
    Points(PointsView<'a>),
    /// A map of what is free and what is occupied.
    Map(MapView<'a>),
}

/// JPEG or PNG file that nobody has decoded.
#[derive(Clone, Copy, Debug)]
pub struct CompressedImage<'a> {
    /// The file.
    pub file: &'a [u8],
    /// Width and height that the file declares \[px\].
    pub size: [usize; 2],
    /// True if red and blue have changed places in the file.
    pub is_swapped: bool,
    /// True if gray of 16 bits is a picture of 8 bits; see [`mono16`](crate::codec::mono16).
    pub is_mono16: bool,
    /// The compressed data, if somebody has read the headers for a GPU. They say the same size.
    pub scan: Option<&'a Scan>,
}

impl Sample<'_> {
    /// Width and height of an image \[px\], whether it has pixels yet or not.
    pub const fn image_size(&self) -> Option<[usize; 2]> {
        match self {
            Sample::Image(ImageView { width, height, .. }) => Some([*width, *height]),
            Sample::Compressed(CompressedImage { size, .. }) => Some(*size),
            _ => None,
        }
    }
}

/// Table, transform, shapes and motion that bring a sample to the frame of its row. The message does not say them.
///
/// The views of `ops` have places for these values. In a [`Sample`] those are not filled; an encoder fills them from
/// here.
#[derive(Clone, Copy, Debug)]
pub struct Placement<'a> {
    /// The table that undistorts an image; `None` if the image stays as it is.
    pub table: Option<&'a Arc<Remap>>,
    /// Takes a point of the message's frame to the frame of the row: `[R | t]` row by row \[m\]. A vector has been
    /// taken there already.
    pub transform: &'a [[f64; 4]; 3],
    /// Takes a point of a cloud to each shape of the filter \[m\].
    pub shapes: &'a [[[f64; 4]; 3]],
    /// Motion of a cloud's sensor meanwhile; `None` if all points are of one instant.
    pub motion: Option<Motion<'a>>,
}

/// The motion of a sensor while it measured the points of a cloud; see [`Sweep`].
#[derive(Clone, Copy, Debug)]
pub struct Motion<'a> {
    /// Time of the first knot, as the field with the time of a point has it.
    pub origin: f64,
    /// Knots per unit of that field.
    pub rate: f64,
    /// Poses of the sensor.
    pub knots: &'a [Knot],
}

/// A sample and its placement, as an encoder takes them.
#[derive(Clone, Copy, Debug)]
pub struct PlacedSample<'a> {
    /// The sample.
    pub sample: Sample<'a>,
    /// Its placement.
    pub placement: Placement<'a>,
}

impl<'a> From<Sample<'a>> for PlacedSample<'a> {
    /// A sample that is in the frame of its row.
    fn from(sample: Sample<'a>) -> Self {
        PlacedSample { sample, placement: Placement::NONE }
    }
}

impl Placement<'_> {
    /// The placement of a sample that is in the frame of its row.
    pub const NONE: Placement<'static> =
        Placement { table: None, transform: &IDENTITY, shapes: &[], motion: None };
}

impl<'a> Placement<'a> {
    /// An image with its table.
    pub fn image(&self, view: &ImageView<'a>) -> ImageView<'a> {
        ImageView { remap: self.table, ..*view }
    }

    /// A cloud with its place, and with the motion of its sensor.
    pub fn points(&self, view: &PointsView<'a>) -> PointsView<'a> {
        let sweep = self.motion.zip(view.sweep).map(|(motion, Sweep { time, .. })| {
            let Motion { origin, rate, knots } = motion;
            Sweep { time, origin, rate, knots }
        });
        PointsView { t_base_sensor: *self.transform, t_shapes: self.shapes, sweep, ..*view }
    }

    /// A map with its place.
    pub fn map(&self, view: &MapView<'a>) -> MapView<'a> {
        MapView { t_crop_frame: *self.transform, ..*view }
    }
}

/// Kind of the samples that an encoder takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SampleKind {
    /// [`Sample::Vector`].
    Vector,
    /// [`Sample::Image`] or [`Sample::Compressed`].
    Image,
    /// [`Sample::Depth`].
    Depth,
    /// [`Sample::Points`].
    Points,
    /// [`Sample::Map`].
    Map,
}

impl SampleKind {
    /// The kind's name, for programs that give arrays.
    pub const fn name(self) -> &'static str {
        match self {
            SampleKind::Vector => "vector",
            SampleKind::Image => "image",
            SampleKind::Depth => "depth",
            SampleKind::Points => "points",
            SampleKind::Map => "map",
        }
    }
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
    /// True if clouds have a sweep.
    pub swept: bool,
    /// True if images may be JPEG files.
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
