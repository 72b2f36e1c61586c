//! Point clouds to voxel grids.

pub mod cpu;
#[cfg(feature = "cuda")]
#[allow(unsafe_code)] // launches; every block says why it is sound
pub mod cuda;
pub mod memory;
mod spec;

pub use spec::{
    COORDINATES, FRACTION_BITS, FieldAt, FieldType, Grid, IDENTITY, MAX_POINTS, MAX_SUMMED,
    PLACES_PER_VOXEL, PointDrops, PointsView, Precision, Reduction, VoxelSpec, VoxelizeError,
    check_view, coordinate, extra_fields,
};
