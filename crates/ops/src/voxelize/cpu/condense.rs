//! The points of a cloud that are in the grid, without what belongs to their sensor: so that points of
//! several clouds become one row.

use super::block::{BLOCK, Block, NONE, blocks};
use super::limits;
use crate::voxelize::filter::Filter;
use crate::voxelize::spec::{
    Grid, PointDrops, PointsView, Precision, VoxelSpec, VoxelizeError, check_view, extra_fields,
};

/// Condenses the clouds of one stream. The rules are those of [`super`], up to the range of values.
///
/// A condensed point is a row of little-endian `f32`: the coordinates from the origin of the grid \[m\],
/// and each feature that a channel takes ([`VoxelSpec::features`]). If a voxelizer of
/// [`VoxelSpec::of_condensed`] encodes them, the row has the bits of that of the cloud itself.
pub struct Condenser {
    grid: Grid,
    /// `None` if it takes all points.
    filter: Option<Filter>,
    /// Fields that a view must hold.
    fields: usize,
    block: Block,
    /// Columns of the block that channels take.
    columns: Vec<usize>,
    /// For the range rule: columns, and the greatest magnitude of each.
    limits: Vec<(usize, f32)>,
    /// The points of the block that are in the grid.
    kept: Box<[u32; BLOCK]>,
}

impl Condenser {
    /// A condenser for the clouds of a stream.
    pub fn new(spec: &VoxelSpec) -> Self {
        let extras = extra_fields(spec).count();
        Condenser {
            grid: spec.grid,
            filter: (!spec.filter.is_empty()).then(|| spec.filter.clone()),
            fields: 3 + extras,
            block: Block::new(extras, spec.computed().collect()),
            columns: spec.features().map(|feature| spec.column(feature)).collect(),
            limits: limits(spec),
            kept: Box::new([0; BLOCK]),
        }
    }

    /// Bytes of a condensed point.
    pub fn point_bytes(&self) -> usize {
        4 * (3 + self.columns.len())
    }

    /// Writes the condensed points of a cloud into `out`, in the order of the cloud. Returns what
    /// happened to the other points.
    ///
    /// # Errors
    /// Those of [`VoxelizeError`], except for values. `out` is then empty.
    pub fn condense(
        &mut self,
        view: &PointsView<'_>,
        out: &mut Vec<u8>,
    ) -> Result<PointDrops, VoxelizeError> {
        out.clear();
        check_view(
            view,
            self.fields,
            self.filter.as_ref().map_or(0, |filter| filter.shapes.len()),
        )?;
        let mut report = PointDrops::default();
        self.block.begin(Precision::of(view.fields, &self.grid));
        for points in blocks(view) {
            let filter = self.filter.as_ref();
            let limits = &self.limits;
            self.block.take(view, points, &self.grid, filter, limits, &mut report);
            let kept = self.keep();
            self.write(view, kept, out);
        }
        Ok(report)
    }

    /// Finds the points of the block that are in the grid, and returns their number.
    fn keep(&mut self) -> usize {
        let mut kept = 0;
        for (point, voxel) in self.block.voxels().iter().enumerate() {
            // Stores every point and keeps it if it is inside, as the voxelizer does.
            self.kept[kept] = point as u32;
            kept += usize::from(*voxel != NONE);
        }
        kept
    }

    /// Appends the points that are kept.
    fn write(&self, view: &PointsView<'_>, kept: usize, out: &mut Vec<u8>) {
        let step = self.point_bytes();
        let start = out.len();
        let kept = &self.kept[..kept];
        out.resize(start + kept.len() * step, 0);
        let out = &mut out[start..];
        for axis in 0..3 {
            let from_origin =
                self.block.coordinates_from_origin(axis, &view.t_base_sensor, &self.grid);
            put_column(out, step, 4 * axis, kept.iter().map(|i| from_origin.at(*i as usize)));
        }
        for (at, column) in self.columns.iter().enumerate() {
            let values = self.block.column(*column);
            put_column(out, step, 4 * (3 + at), kept.iter().map(|i| values[*i as usize]));
        }
    }
}

/// Writes a value into each point of `step` bytes, `offset` bytes from its start.
fn put_column(out: &mut [u8], step: usize, offset: usize, values: impl Iterator<Item = f32>) {
    for (point, value) in out.chunks_exact_mut(step).zip(values) {
        point[offset..offset + 4].copy_from_slice(&value.to_le_bytes());
    }
}
