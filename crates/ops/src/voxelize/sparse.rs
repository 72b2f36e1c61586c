//! Rows that list the occupied voxels: where their parts are.

use super::spec::VoxelSpec;
use crate::dtype::DType;
use crate::packing::ALIGNMENT;

/// Numbers of a voxel's coordinates: z, y, x.
pub const COORDINATES_OF_VOXEL: usize = 3;

/// A sparse row in memory: the features `[max_voxels, channels]`, and behind them the coordinates
/// `[max_voxels, 3]` as `i32`. Voxels are in the order of the grid; those behind the last one are 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SparseRow {
    /// Voxels that it holds at most.
    pub max_voxels: usize,
    /// Bytes of the features of a voxel.
    pub feature_bytes: usize,
}

impl SparseRow {
    /// The row of a specification, if it is sparse.
    pub fn new(spec: &VoxelSpec, dtype: DType) -> Option<Self> {
        let max_voxels = spec.max_voxels?;
        Some(SparseRow { max_voxels, feature_bytes: spec.channels.len() * dtype.size() })
    }

    /// Bytes of all features.
    pub const fn features(&self) -> usize {
        self.max_voxels * self.feature_bytes
    }

    /// Start of the coordinates \[bytes\]: a multiple of [`ALIGNMENT`].
    pub const fn coordinates_at(&self) -> usize {
        self.features().next_multiple_of(ALIGNMENT)
    }

    /// Bytes of all coordinates.
    pub const fn coordinates(&self) -> usize {
        self.max_voxels * COORDINATES_OF_VOXEL * size_of::<i32>()
    }

    /// Bytes of the row.
    pub const fn bytes(&self) -> usize {
        self.coordinates_at() + self.coordinates()
    }
}
