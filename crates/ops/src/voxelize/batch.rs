//! Several clouds at once on the CPU, each on a core.

use super::cpu::Voxelizer;
use super::spec::{FieldAt, PointDrops, PointsView, VoxelSpec, VoxelizeError};
use crate::align::Slot;
use crate::dtype::DType;
use crate::parallel;

/// Clouds whose points follow one another, with the same fields.
#[derive(Clone, Copy, Debug)]
pub struct Clouds<'a> {
    /// The points, little-endian.
    pub data: &'a [u8],
    /// Bytes from one point to the next.
    pub point_step: usize,
    /// See [`PointsView::fields`]; each is inside a point.
    pub fields: &'a [FieldAt],
    /// Takes a point to the base frame: `[R | t]` row by row \[m\].
    pub t_base_sensor: [[f64; 4]; 3],
    /// Begin of each cloud, and the number of all points: without a decrease.
    pub offsets: &'a [i64],
}

impl<'a> Clouds<'a> {
    /// Number of clouds.
    pub fn len(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    /// True if there are no clouds.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One of the clouds.
    ///
    /// # Panics
    /// If there is no such cloud, or the offsets are not inside the data.
    pub fn view(&self, at: usize) -> PointsView<'a> {
        let [first, end] = [0, 1].map(|next| self.offsets[at + next] as usize);
        let step = self.point_step;
        PointsView {
            width: end - first,
            height: 1,
            point_step: step,
            row_step: (end - first) * step,
            big_endian: false,
            fields: self.fields,
            t_base_sensor: self.t_base_sensor,
            t_shapes: &[],
            sweep: None,
            data: &self.data[first * step..end * step],
        }
    }
}

/// Writes the row of every cloud, and returns what happened to its points. The row of a cloud with an error
/// is zero.
///
/// # Errors
/// Of the first cloud that has one.
///
/// # Panics
/// If `rows` has another size, or as [`Clouds::view`].
pub fn encode(
    spec: &VoxelSpec,
    dtype: DType,
    clouds: &Clouds<'_>,
    rows: &mut [u8],
    threads: usize,
) -> Result<Vec<PointDrops>, VoxelizeError> {
    if clouds.is_empty() {
        return Ok(Vec::new());
    }
    let mut outcomes = vec![Ok(PointDrops::default()); clouds.len()];
    let row_bytes = rows.len() / clouds.len();
    let work = rows.chunks_mut(row_bytes.max(1)).zip(&mut outcomes).enumerate();
    let work: Vec<_> = work.map(|(at, (row, outcome))| (at, row, outcome)).collect();
    assert_eq!(work.len(), clouds.len(), "voxelize: rows of all clouds");
    let make = || Voxelizer::new(spec, dtype, 1);
    let slot = Slot::new(0);
    parallel::for_each(work, threads, make, |voxelizer, (at, row, outcome)| {
        voxelizer.forget(slot);
        *outcome = voxelizer.encode(&clouds.view(at), slot, row);
    });
    outcomes.into_iter().collect()
}
