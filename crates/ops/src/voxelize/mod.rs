//! Point clouds to voxel grids.

pub mod batch;
pub mod cpu;
#[cfg(feature = "cuda")]
#[allow(unsafe_code)] // launches; every block says why it is sound
pub mod cuda;
mod filter;
pub mod memory;
mod sparse;
mod spec;
mod sweep;

pub use filter::{Action, Filter, Form, Shape, ShapeFrame, after, inverse};
pub use sparse::{COORDINATES_OF_VOXEL, SparseRow};
pub use spec::{
    COORDINATES, FRACTION_BITS, Feature, FieldAt, FieldType, Grid, IDENTITY, MAX_POINTS,
    MAX_SUMMED, PLACES_PER_VOXEL, PointDrops, PointsView, Precision, Reduction, VoxelSpec,
    VoxelizeError, check_view, coordinate, extra_fields, movable,
};
pub use sweep::{Knot, MAX_KNOTS, Sweep};
