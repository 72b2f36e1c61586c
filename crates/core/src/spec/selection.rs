//! Selections of an input from its messages. Outside of this crate, the input answers questions about its own.

use std::sync::Arc;

use super::{InputSpec, StreamId, StreamSpec, Timeline};
use crate::codec::PixelFormat;
use crate::sample::{Bounds, SampleKind};
use crate::schema::{FieldReader, StampSource};

/// Parts of a message that an input takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Selection {
    /// The fields of these names, one after the other, as one vector.
    Fields(Vec<String>),
    /// Joints by their names. Each group is one part, a vector: the first field of all its joints,
    /// then the next field.
    Joints {
        /// `position`, `velocity` or `effort`, in order.
        fields: Vec<String>,
        /// The joints of each group, in order.
        groups: Vec<Vec<String>>,
    },
    /// The points of a trajectory, each with joints by their names. Parts are as in `Joints`.
    Trajectory {
        /// `positions`, `velocities`, `accelerations` or `effort`, in order.
        fields: Vec<String>,
        /// The joints of each group, in order.
        groups: Vec<Vec<String>>,
        /// Most points of a message.
        max_points: usize,
    },
    /// The numbers that the plan selects from a message of any type, as one vector.
    Numbers(Arc<FieldReader>),
    /// The image, if it is not larger than this.
    Image {
        /// Width and height \[px\].
        largest_px: [usize; 2],
        /// Meaning of the encodings `8UC1`, `8UC3` and `8UC4`; nothing if `None`.
        encoding_8uc: Option<PixelFormat>,
    },
    /// The depth image, if it is not larger than this.
    Depth {
        /// Width and height \[px\].
        largest_px: [usize; 2],
    },
    /// The points: `x`, `y`, `z` and the fields of these names.
    Points {
        /// In order, without repeats.
        extra: Vec<String>,
        /// Points of the largest cloud.
        most: usize,
        /// The field with the time of a point, for a deskew.
        time: Option<String>,
    },
    /// The map, if it is not larger than this.
    Map {
        /// Width and height \[cells\].
        largest_cells: [usize; 2],
    },
    /// Transforms between frames, which become no rows.
    Transforms {
        /// True if they hold at all stamps, and are latched.
        fixed: bool,
    },
    /// A camera, whose images are undistorted. It becomes no row.
    CameraInfo {
        /// The streams of its images.
        streams: Vec<StreamId>,
    },
}

impl Selection {
    /// Number of parts: of samples that a message gives at most at one instant.
    pub(crate) fn parts(&self) -> usize {
        match self {
            Selection::Joints { groups, .. } | Selection::Trajectory { groups, .. } => groups.len(),
            Selection::Fields(_)
            | Selection::Numbers(_)
            | Selection::Image { .. }
            | Selection::Depth { .. }
            | Selection::Points { .. }
            | Selection::Map { .. }
            | Selection::Transforms { .. }
            | Selection::CameraInfo { .. } => 1,
        }
    }

    /// The samples that it gives; `None` if messages become no rows.
    fn gives(&self) -> Option<SampleKind> {
        match self {
            Selection::Fields(_)
            | Selection::Joints { .. }
            | Selection::Trajectory { .. }
            | Selection::Numbers(_) => Some(SampleKind::Vector),
            Selection::Image { .. } => Some(SampleKind::Image),
            Selection::Depth { .. } => Some(SampleKind::Depth),
            Selection::Points { .. } => Some(SampleKind::Points),
            Selection::Map { .. } => Some(SampleKind::Map),
            Selection::Transforms { .. } | Selection::CameraInfo { .. } => None,
        }
    }
}

impl InputSpec {
    /// The samples that its messages give; `None` if they become no rows.
    pub fn gives(&self) -> Option<SampleKind> {
        self.selection.gives()
    }

    /// True if its messages are transforms between frames.
    pub fn feeds_tree(&self) -> bool {
        matches!(self.selection, Selection::Transforms { .. })
    }

    /// True if its messages are transforms that hold at all stamps, and are latched.
    pub fn feeds_fixed_tree(&self) -> bool {
        matches!(self.selection, Selection::Transforms { fixed: true })
    }

    /// True if its messages say how a camera bends its images.
    pub fn is_calibration(&self) -> bool {
        matches!(self.selection, Selection::CameraInfo { .. })
    }

    /// The streams whose images it undistorts.
    pub(crate) fn calibrates(&self) -> &[StreamId] {
        match &self.selection {
            Selection::CameraInfo { streams } => streams,
            _ => &[],
        }
    }

    /// True if a message is a plan: it replaces what lies after its start.
    pub fn is_plan(&self) -> bool {
        matches!(self.selection, Selection::Trajectory { .. })
    }

    /// True if it selects numbers from messages of any type.
    pub fn selects(&self) -> bool {
        self.selected().is_some()
    }

    /// The plan by which it selects numbers.
    pub(crate) fn selected(&self) -> Option<&FieldReader> {
        match &self.selection {
            Selection::Numbers(plan) => Some(plan),
            _ => None,
        }
    }

    /// Names of the fields that it takes, of a message or of its joints. Empty if it takes something else.
    pub fn fields(&self) -> &[String] {
        match &self.selection {
            Selection::Fields(fields)
            | Selection::Joints { fields, .. }
            | Selection::Trajectory { fields, .. } => fields,
            _ => &[],
        }
    }

    /// Names of the joints of each group; `None` if it has no joints.
    pub fn joint_groups(&self) -> Option<&[Vec<String>]> {
        match &self.selection {
            Selection::Joints { groups, .. } | Selection::Trajectory { groups, .. } => Some(groups),
            _ => None,
        }
    }

    /// Copies the input as if it took these fields. One that takes no fields stays as it is.
    #[must_use]
    pub fn taking(&self, names: &[&str]) -> InputSpec {
        let mut spec = self.clone();
        if let Selection::Fields(fields)
        | Selection::Joints { fields, .. }
        | Selection::Trajectory { fields, .. } = &mut spec.selection
        {
            *fields = names.iter().map(|name| (*name).to_owned()).collect();
        }
        spec
    }

    /// Meaning of the encodings `8UC1`, `8UC3` and `8UC4` of its images; `None` if the configuration does not say.
    pub(crate) fn encoding_8uc(&self) -> Option<PixelFormat> {
        match self.selection {
            Selection::Image { encoding_8uc, .. } => encoding_8uc,
            _ => None,
        }
    }

    /// The samples that a program can give it as arrays; `None` if it takes messages alone.
    pub fn takes_arrays(&self) -> Option<SampleKind> {
        let kind = self.gives()?;
        let is_array = match kind {
            SampleKind::Vector => !self.is_plan(),
            SampleKind::Image | SampleKind::Depth | SampleKind::Points => true,
            SampleKind::Map => false,
        };
        is_array.then_some(kind)
    }

    /// True if its messages become rows at the stamps of their headers. A plan does not: it begins when its stamp
    /// says, which may be later than it is sent.
    pub fn has_stamps_of_header(&self) -> bool {
        let by_header = match self.selected() {
            Some(plan) => plan.stamp() == StampSource::Header,
            None => self.gives().is_some() && !self.is_plan(),
        };
        by_header && self.timeline == Timeline::Header
    }

    /// True if of two messages the one that arrives later counts, whatever their stamps are. Then the history that a
    /// publisher keeps for a new subscription must not come after a newer message. Fixed transforms are not of these: a
    /// message of the history may have a link that no later one has.
    pub fn newest_arrival_counts(&self) -> bool {
        self.is_calibration() || self.is_plan() || self.timeline == Timeline::Receive
    }

    /// True if messages are images, clouds or maps, which take milliseconds to copy or to encode.
    pub fn is_large(&self) -> bool {
        !matches!(self.gives(), None | Some(SampleKind::Vector))
    }

    /// Most bytes of a message that becomes a sample within these bounds; `None` for a cloud, whose points may have any
    /// size.
    pub fn largest_message(&self, bounds: Bounds) -> Option<usize> {
        /// More than any vector's message has: a header, names, numbers and covariances.
        const VECTOR: usize = 64 << 10;
        /// More than an image has before its pixels.
        const HEAD: usize = 1 << 10;
        /// Bytes of a pixel of rgba8 or 32FC1, the largest.
        const PIXEL: usize = 4;
        let [width, height] = bounds.image_px();
        match self.gives() {
            None | Some(SampleKind::Vector) => Some(VECTOR),
            Some(SampleKind::Image | SampleKind::Depth) => Some(HEAD + PIXEL * width * height),
            Some(SampleKind::Map) => Some(HEAD + width * height),
            Some(SampleKind::Points) => None,
        }
    }

    /// True if its messages need the tree of frames. `streams` are all streams.
    pub fn asks_for_frames(&self, streams: &[StreamSpec]) -> bool {
        let stream = self.stream.and_then(|stream| streams.get(stream.index()));
        let filter = stream.and_then(|stream| stream.encoder.filter());
        let shapes = filter.is_some_and(|filter| filter.frames().next().is_some());
        shapes || self.in_frame.is_some() || self.deskew.is_some()
    }
}
