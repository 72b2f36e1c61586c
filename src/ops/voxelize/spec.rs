//! What a point cloud becomes, and the points that it is made of.

use crate::dtype::DType;

/// How a point cloud becomes a voxel grid.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct VoxelSpec {
    /// The grid, in the base frame.
    #[serde(flatten)]
    pub grid: Grid,
    /// One channel of the row each.
    pub channels: Vec<Reduction>,
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

    /// Whether an `f32` coordinate in the base frame has at least [`PLACES_PER_VOXEL`] steps within
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
    /// That of a cloud with these `fields`, whose first three are the coordinates.
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
    /// The column of a field that a channel takes: its position in [`PointsView::fields`].
    ///
    /// # Panics
    /// When no channel takes it.
    pub fn column(&self, name: &str) -> usize {
        let extra = || extra_fields(self).position(|extra| extra == name).map(|at| at + 3);
        coordinate(name).or_else(extra).expect("a field that a channel takes")
    }
}

/// What a voxel says of the points in it; in an empty voxel it is 0.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(tag = "reduce", content = "field", rename_all = "snake_case")]
pub enum Reduction {
    /// Number of points.
    Count,
    /// 1 if there is a point.
    Occupancy,
    /// Mean of a field. `x`, `y` and `z` are in the base frame.
    Mean(String),
    /// Greatest value of a field.
    Max(String),
}

impl Reduction {
    /// The channel's name: `count`, `occupancy`, `mean(FIELD)` or `max(FIELD)`.
    pub fn label(&self) -> String {
        match self {
            Reduction::Count => "count".into(),
            Reduction::Occupancy => "occupancy".into(),
            Reduction::Mean(field) => format!("mean({field})"),
            Reduction::Max(field) => format!("max({field})"),
        }
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

/// Where a field is in a point.
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
    /// Whether numbers have their most significant byte first.
    pub big_endian: bool,
    /// `x`, `y`, `z`, then the extra fields of the configuration in
    /// [`VoxelSpec`](VoxelSpec) order, without repeats.
    pub fields: &'a [FieldAt],
    /// Takes a point of the cloud to the base frame: `[R | t]` row by row \[m\].
    pub t_base_sensor: [[f64; 4]; 3],
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
    let field = |reduction| match reduction {
        &Reduction::Mean(ref name) | &Reduction::Max(ref name) => {
            coordinate(name).is_none().then_some(name.as_str())
        }
        Reduction::Count | Reduction::Occupancy => None,
    };
    spec.channels.iter().enumerate().filter_map(move |(i, reduction)| {
        let name = field(reduction)?;
        let repeated = spec.channels[..i].iter().any(|earlier| field(earlier) == Some(name));
        (!repeated).then_some(name)
    })
}

/// Most points of a cloud: sums of this many values cannot overflow.
pub const MAX_POINTS: u64 = 1 << 22;

/// Greatest magnitude of a value that is summed.
pub const MAX_SUMMED: f32 = (1 << FRACTION_BITS) as f32;

/// Fractional bits of the fixed-point sums.
pub const FRACTION_BITS: u32 = 20;

/// What happened to the points of a cloud on the way into a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PointDrops {
    /// Points dropped because a coordinate or a used field was NaN or infinite.
    pub non_finite: u64,
    /// Points dropped because a used field's value exceeds the fixed-point range.
    pub out_of_range: u64,
    /// Points outside the grid.
    pub outside: u64,
}

/// Why a cloud did not become a row.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum VoxelizeError {
    /// The view was made for another configuration.
    #[error("cloud view: expected {expected} fields, found {found}")]
    Fields {
        /// `x`, `y`, `z` and the extra fields.
        expected: usize,
        /// Those of the view.
        found: usize,
    },
    /// Sums of so many points could overflow.
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

/// Checks what every implementation relies on: the view has `fields` fields, and few enough points
/// that no sum can overflow.
///
/// # Errors
/// [`VoxelizeError::Fields`] and [`VoxelizeError::TooManyPoints`].
pub fn check_view(view: &PointsView<'_>, fields: usize) -> Result<(), VoxelizeError> {
    let found = view.fields.len();
    if found != fields {
        return Err(VoxelizeError::Fields { expected: fields, found });
    }
    let points = view.points();
    if points > MAX_POINTS {
        return Err(VoxelizeError::TooManyPoints(points));
    }
    Ok(())
}
