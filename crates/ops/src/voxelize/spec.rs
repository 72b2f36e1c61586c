//! Specification of voxel rows, and the points of clouds.

use super::filter::Filter;
use super::sweep::{MAX_KNOTS, Sweep};
use crate::dtype::DType;

/// How a point cloud becomes a voxel grid.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct VoxelSpec {
    /// The grid, in the base frame.
    #[serde(flatten)]
    pub grid: Grid,
    /// One channel of the row each.
    pub channels: Vec<Reduction>,
    /// Which points are left out.
    pub filter: Filter,
    /// A voxel with fewer points is empty; at least 1.
    pub min_points: u32,
    /// `None` for the whole grid. Otherwise the row lists the occupied voxels, and this is how many it
    /// holds at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_voxels: Option<usize>,
}

/// An axis-aligned voxel grid. Voxel `i` along an axis covers
/// `origin + i*size <= p < origin + (i+1)*size`.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Grid {
    /// Lower corner \[m\].
    pub origin_m: [f64; 3],
    /// Edge of a voxel \[m\], positive.
    pub size_m: f32,
    /// Voxels along x, y and z.
    pub shape: [usize; 3],
}

impl Grid {
    /// Voxels of the grid.
    ///
    /// # Panics
    /// When the grid has more than 2^31 - 1 voxels or an axis more than 2^23 (below which an `f32`
    /// resolves halves of a voxel). The size comes from the configuration, never from a message.
    pub fn volume(&self) -> usize {
        assert!(self.shape.iter().all(|n| *n <= 1 << 23), "grid: axis too long");
        let volume = self.shape.iter().try_fold(1usize, |v, n| v.checked_mul(*n));
        volume.filter(|v| i32::try_from(*v).is_ok()).expect("grid: too many voxels")
    }

    /// True if an `f32` coordinate in the base frame has at least [`PLACES_PER_VOXEL`] steps within
    /// every voxel.
    pub fn fits_f32(&self) -> bool {
        let resolution = self.farthest_m() as f32 * f32::EPSILON;
        self.size_m >= (PLACES_PER_VOXEL as f32 * resolution).max(f32::MIN_POSITIVE)
    }

    /// The greatest coordinate of the grid's corners, without its sign \[m\].
    pub fn farthest_m(&self) -> f64 {
        let end = |axis: usize| f64::from(self.size_m) * self.shape[axis] as f64;
        let ends = (0..3).map(|axis| self.origin_m[axis] + end(axis));
        ends.chain(self.origin_m).map(f64::abs).fold(0.0, f64::max)
    }
}

/// The steps that a coordinate must have within a voxel, in the type in which it is computed.
pub const PLACES_PER_VOXEL: u32 = 16;

/// A transform that changes nothing: `[R | t]` row by row.
pub const IDENTITY: [[f64; 4]; 3] =
    [[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]];

/// In which numbers a cloud is transformed. The cloud and the grid decide it, for all points alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// `f32` holds the coordinates, and resolves the grid.
    Single,
    /// Coordinates that `f32` does not hold (float64, int32, uint32), or a grid far from the origin
    /// of the base frame, as one in map coordinates.
    Double,
}

impl Precision {
    /// Precision of a cloud with these `fields`, whose first three are the coordinates.
    pub fn of(fields: &[FieldAt], grid: &Grid) -> Self {
        use FieldType::{Float64, Int32, Uint32};
        let wide = |field: &FieldAt| matches!(field.kind, Float64 | Int32 | Uint32);
        match fields.iter().take(3).any(wide) || !grid.fits_f32() {
            true => Precision::Double,
            false => Precision::Single,
        }
    }
}

impl VoxelSpec {
    /// A specification that takes all points.
    pub fn new(grid: Grid, channels: Vec<Reduction>) -> Self {
        VoxelSpec { grid, channels, filter: Filter::default(), min_points: 1, max_voxels: None }
    }

    /// The column of a channel's values: the position of a field in [`PointsView::fields`], and behind
    /// the fields those of [`VoxelSpec::computed`].
    ///
    /// # Panics
    /// When no channel takes it.
    pub fn column(&self, feature: &Feature) -> usize {
        let at = match feature {
            Feature::Field(name) => {
                let extra = || extra_fields(self).position(|extra| extra == name);
                coordinate(name).or_else(|| extra().map(|at| at + 3))
            }
            computed => {
                let at = self.computed().position(|other| other == *computed);
                at.map(|at| 3 + extra_fields(self).count() + at)
            }
        };
        at.expect("a feature that a channel takes")
    }

    /// The features that are no fields of the message, without repeats, in a fixed order.
    pub fn computed(&self) -> impl Iterator<Item = Feature> + '_ {
        let all = std::iter::once(Feature::Range).chain((0..3).map(Feature::Offset));
        all.filter(|feature| self.channels.iter().any(|c| c.feature() == Some(feature)))
    }

    /// The features that channels take, without repeats, in the order of the channels.
    pub fn features(&self) -> impl Iterator<Item = &Feature> {
        let feature = |at: usize| self.channels[at].feature();
        (0..self.channels.len()).filter_map(move |at| {
            let repeated = || (0..at).any(|earlier| feature(earlier) == feature(at));
            feature(at).filter(|_| !repeated())
        })
    }

    /// The specification that makes the same row of condensed points: see
    /// [`Condenser`](super::cpu::Condenser). The grid is at the origin, nothing is left to filter, and
    /// each feature is a field, named by its number among [`VoxelSpec::features`].
    pub fn of_condensed(&self) -> VoxelSpec {
        let field = |feature: &Feature| {
            let at = self.features().take_while(|other| *other != feature).count();
            Feature::Field(at.to_string())
        };
        VoxelSpec {
            grid: Grid { origin_m: [0.0; 3], ..self.grid },
            channels: self.channels.iter().map(|channel| channel.of(field)).collect(),
            filter: Filter::default(),
            ..*self
        }
    }

    /// True if more is asked for than counts, occupancies, means and maxima of fields, of all points, in
    /// the whole grid. On a GPU, kernels of their own do that.
    pub fn is_sifted(&self) -> bool {
        let is_plain = |channel: &Reduction| match channel {
            Reduction::Count | Reduction::Occupancy => true,
            Reduction::Mean(feature) | Reduction::Max(feature) => {
                matches!(feature, Feature::Field(_))
            }
            Reduction::Min(_) | Reduction::Sum(_) | Reduction::Last(_) => false,
        };
        self.min_points > 1
            || self.max_voxels.is_some()
            || !self.filter.is_empty()
            || !self.channels.iter().all(is_plain)
    }

    /// Channels that take the last point of a voxel.
    pub fn last_channels(&self) -> usize {
        self.channels.iter().filter(|channel| matches!(channel, Reduction::Last(_))).count()
    }
}

/// Quantity of a point that a channel takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Feature {
    /// A field of the message. `x`, `y` and `z` are in the base frame.
    Field(String),
    /// Distance from the sensor \[m\].
    Range,
    /// Coordinate along this axis, from the centre of the point's voxel \[m\].
    Offset(usize),
}

impl Feature {
    /// The name in configurations: that of the field, `range`, or `offset_x`, `offset_y`, `offset_z`.
    pub fn name(&self) -> &str {
        match self {
            Feature::Field(name) => name,
            Feature::Range => "range",
            Feature::Offset(axis) => ["offset_x", "offset_y", "offset_z"][*axis],
        }
    }
}

impl From<&str> for Feature {
    fn from(name: &str) -> Self {
        Feature::Field(name.to_owned())
    }
}

impl From<String> for Feature {
    fn from(name: String) -> Self {
        Feature::Field(name)
    }
}

/// Summary of the points in a voxel; in an empty voxel it is 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// Number of points.
    Count,
    /// 1 if there is a point.
    Occupancy,
    /// Mean of a feature.
    Mean(Feature),
    /// Greatest value of a feature.
    Max(Feature),
    /// Least value of a feature.
    Min(Feature),
    /// Sum of a feature.
    Sum(Feature),
    /// Value of the last point, in the order of the cloud.
    Last(Feature),
}

impl Reduction {
    /// The word in configurations.
    pub const fn word(&self) -> &'static str {
        match self {
            Reduction::Count => "count",
            Reduction::Occupancy => "occupancy",
            Reduction::Mean(_) => "mean",
            Reduction::Max(_) => "max",
            Reduction::Min(_) => "min",
            Reduction::Sum(_) => "sum",
            Reduction::Last(_) => "last",
        }
    }

    /// The feature that the reduction takes of each point; `None` if it looks at no values.
    pub const fn feature(&self) -> Option<&Feature> {
        match self {
            Reduction::Count | Reduction::Occupancy => None,
            Reduction::Mean(feature)
            | Reduction::Max(feature)
            | Reduction::Min(feature)
            | Reduction::Sum(feature)
            | Reduction::Last(feature) => Some(feature),
        }
    }

    /// Copies the reduction with another feature in place of its own.
    fn of(&self, other: impl Fn(&Feature) -> Feature) -> Reduction {
        match self {
            Reduction::Count => Reduction::Count,
            Reduction::Occupancy => Reduction::Occupancy,
            Reduction::Mean(feature) => Reduction::Mean(other(feature)),
            Reduction::Max(feature) => Reduction::Max(other(feature)),
            Reduction::Min(feature) => Reduction::Min(other(feature)),
            Reduction::Sum(feature) => Reduction::Sum(other(feature)),
            Reduction::Last(feature) => Reduction::Last(other(feature)),
        }
    }

    /// The field of the message that it takes, if it takes one.
    pub fn field(&self) -> Option<&str> {
        match self.feature() {
            Some(Feature::Field(name)) => Some(name),
            _ => None,
        }
    }

    /// True if the reduction sums values, which have a limit then ([`MAX_SUMMED`]).
    pub const fn sums(&self) -> bool {
        matches!(self, Reduction::Mean(_) | Reduction::Sum(_))
    }

    /// The channel's name: `count`, `mean(intensity)`; `mean(feature range)` for what is no field.
    pub fn label(&self) -> String {
        let word = self.word();
        match self.feature() {
            None => word.to_owned(),
            Some(Feature::Field(name)) => format!("{word}({name})"),
            Some(computed) => format!("{word}(feature {})", computed.name()),
        }
    }
}

/// As in configurations: `{reduce: mean, field: intensity}`.
impl serde::Serialize for Reduction {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeMap;

        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("reduce", self.word())?;
        match self.feature() {
            None => {}
            Some(Feature::Field(name)) => map.serialize_entry("field", name)?,
            Some(computed) => map.serialize_entry("feature", computed.name())?,
        }
        map.end()
    }
}

/// The fields that every cloud must have, in the order of [`PointsView::fields`].
pub const COORDINATES: [&str; 3] = ["x", "y", "z"];

/// Type of a point field: the constants of `sensor_msgs/msg/PointField`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names are the message's own
pub enum FieldType {
    Int8,
    Uint8,
    Int16,
    Uint16,
    Int32,
    Uint32,
    Float32,
    Float64,
}

impl FieldType {
    /// From the constants of `sensor_msgs/msg/PointField`: 1 is int8, 8 is float64.
    pub const fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            1 => Self::Int8,
            2 => Self::Uint8,
            3 => Self::Int16,
            4 => Self::Uint16,
            5 => Self::Int32,
            6 => Self::Uint32,
            7 => Self::Float32,
            8 => Self::Float64,
            _ => return None,
        })
    }

    /// Bytes of one value.
    pub const fn size(self) -> usize {
        match self {
            FieldType::Int8 | FieldType::Uint8 => 1,
            FieldType::Int16 | FieldType::Uint16 => 2,
            FieldType::Int32 | FieldType::Uint32 | FieldType::Float32 => 4,
            FieldType::Float64 => 8,
        }
    }
}

/// Place of a field in a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldAt {
    /// Bytes from the start of the point.
    pub offset: usize,
    /// How the bytes are read.
    pub kind: FieldType,
}

/// A cloud whose declared size has been checked against its data, with the fields of the
/// configuration.
#[derive(Clone, Copy, Debug)]
pub struct PointsView<'a> {
    /// Points per row of the cloud.
    pub width: usize,
    /// Rows of the cloud; 1 if unorganised.
    pub height: usize,
    /// Bytes from one point to the next.
    pub point_step: usize,
    /// Bytes from one row to the next.
    pub row_step: usize,
    /// True if numbers have their most significant byte first.
    pub big_endian: bool,
    /// `x`, `y`, `z`, then the extra fields of the configuration in
    /// [`VoxelSpec`](VoxelSpec) order, without repeats.
    pub fields: &'a [FieldAt],
    /// Takes a point of the cloud to the base frame: `[R | t]` row by row \[m\].
    pub t_base_sensor: [[f64; 4]; 3],
    /// Takes a point of the cloud to the frame of each shape of the filter \[m\]. See [`Filter::place`].
    pub t_shapes: &'a [[[f64; 4]; 3]],
    /// The sensor's motion while it measured the points; `None` if they are all of the same instant.
    /// The points are then [`movable`].
    pub sweep: Option<Sweep<'a>>,
    /// The points: `(height - 1) * row_step + width * point_step` bytes at least, unless empty.
    pub data: &'a [u8],
}

impl PointsView<'_> {
    /// Number of points.
    pub fn points(&self) -> u64 {
        (self.width as u64).saturating_mul(self.height as u64)
    }
}

/// The axis of the coordinate `name`; `None` if it is another field. As the field of a channel, it
/// means the coordinate in the base frame.
pub fn coordinate(name: &str) -> Option<usize> {
    COORDINATES.iter().position(|axis| *axis == name)
}

/// The fields that a configuration takes beside `x`, `y` and `z`, in its order, without repeats.
/// [`PointsView::fields`] holds them from its fourth element on.
pub fn extra_fields(spec: &VoxelSpec) -> impl Iterator<Item = &str> {
    let extra = |channel: &Reduction| coordinate(channel.field()?).is_none().then_some(());
    spec.channels.iter().enumerate().filter_map(move |(i, channel)| {
        extra(channel)?;
        let name = channel.field()?;
        let repeated = spec.channels[..i].iter().any(|earlier| earlier.field() == Some(name));
        (!repeated).then_some(name)
    })
}

/// Most points of a cloud: sums of this many values cannot overflow.
pub const MAX_POINTS: u64 = 1 << 22;

/// Greatest magnitude of a value that is summed.
pub const MAX_SUMMED: f32 = (1 << FRACTION_BITS) as f32;

/// Fractional bits of the fixed-point sums.
pub const FRACTION_BITS: u32 = 20;

/// Points of a cloud that were dropped on the way into a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PointDrops {
    /// Points dropped because a coordinate or a used field was NaN or infinite.
    pub non_finite: u64,
    /// Points dropped because a used field's value exceeds the fixed-point range.
    pub out_of_range: u64,
    /// Points outside the grid.
    pub outside: u64,
    /// Points closer to the sensor, or further from it, than the filter takes.
    pub out_of_reach: u64,
    /// Points that the filter's boxes do not keep, or remove.
    pub cropped: u64,
    /// Points on the robot itself.
    pub on_robot: u64,
    /// Points in voxels that have too few.
    pub too_few: u64,
    /// Occupied voxels that a sparse row has no room for.
    pub voxels_beyond: u64,
    /// Voxels that a sparse row holds; 0 for a dense one.
    pub voxels_in_use: u32,
}

/// Why a cloud did not become a row.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum VoxelizeError {
    /// The view has not a pose for each shape.
    #[error("cloud view: expected the poses of {expected} shapes, found {found}")]
    Shapes {
        /// Shapes of the filter.
        expected: usize,
        /// Shapes of the view.
        found: usize,
    },
    /// The view was made for another configuration.
    #[error("cloud view: expected {expected} fields, found {found}")]
    Fields {
        /// `x`, `y`, `z` and the extra fields.
        expected: usize,
        /// Fields of the view.
        found: usize,
    },
    /// The sweep has no motion, or points that cannot be moved.
    #[error(
        "sweep: expected 2 to {MAX_KNOTS} knots and coordinates that can be moved, found {knots} knots"
    )]
    Sweep {
        /// Poses of the sweep.
        knots: usize,
    },
    /// There are too many points: their sums could overflow.
    #[error("points: expected at most {MAX_POINTS}, found {0}")]
    TooManyPoints(u64),
    /// A value of a voxel that the element type cannot hold.
    #[error("channel {channel}: expected a value that {} holds, found {value}", dtype.name())]
    Value {
        /// Channel of the row.
        channel: usize,
        /// Element type of the row.
        dtype: DType,
        /// The value.
        value: f32,
    },
}

/// True if the points of these fields can be moved by a sweep: the coordinates, which come first, are all `Float32` or
/// all `Float64`, and share no byte with another field. So they can be moved where they are.
pub fn movable(fields: &[FieldAt]) -> bool {
    let Some((coordinates, _)) = fields.split_at_checked(3) else { return false };
    let all = |kind| coordinates.iter().all(|field| field.kind == kind);
    let apart = |a: &FieldAt, b: &FieldAt| {
        a.offset + a.kind.size() <= b.offset || b.offset + b.kind.size() <= a.offset
    };
    let alone = |(at, field): (usize, &FieldAt)| {
        fields.iter().enumerate().all(|(other, b)| other == at || apart(field, b))
    };
    (all(FieldType::Float32) || all(FieldType::Float64))
        && coordinates.iter().enumerate().all(alone)
}

/// Checks what every implementation relies on: the view has `fields` fields, poses of `shapes` shapes
/// at least, and few enough points that no sum can overflow.
///
/// # Errors
/// [`VoxelizeError::Fields`], [`VoxelizeError::Shapes`], [`VoxelizeError::Sweep`] and
/// [`VoxelizeError::TooManyPoints`].
pub fn check_view(
    view: &PointsView<'_>,
    fields: usize,
    shapes: usize,
) -> Result<(), VoxelizeError> {
    let found = view.fields.len();
    if found != fields {
        return Err(VoxelizeError::Fields { expected: fields, found });
    }
    let found = view.t_shapes.len();
    if found < shapes {
        return Err(VoxelizeError::Shapes { expected: shapes, found });
    }
    if let Some(sweep) = &view.sweep {
        let knots = sweep.knots.len();
        if !(2..=MAX_KNOTS).contains(&knots) || !movable(view.fields) {
            return Err(VoxelizeError::Sweep { knots });
        }
    }
    let points = view.points();
    if points > MAX_POINTS {
        return Err(VoxelizeError::TooManyPoints(points));
    }
    Ok(())
}
