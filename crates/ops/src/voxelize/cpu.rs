//! Point clouds to voxel grids: the oracle that every other backend agrees with bit for bit.
//!
//! # The arithmetic, in its order
//!
//! All of it is IEEE 754 with round-to-nearest-even, without fused multiply-add. Per point:
//!
//! 1. *Load.* `x`, `y`, `z` and the extra fields are converted to `f32`, each rounded once.
//!    If the view has a [`Sweep`](super::Sweep), the coordinates are moved to its reference stamp as
//!    `sweep.rs` says.
//! 2. *Finite.* If any of these is NaN or infinite (even if only by that rounding), the point is
//!    dropped as `points_non_finite`.
//! 3. *Filter*, if there is one, in the coordinates of the cloud. `((x*x + y*y) + z*z)` is compared with the
//!    squares of the limits (`points_out_of_reach`). A shape holds the point if `t_shape` takes it, as in
//!    rule 4, between the corners of the box, or so that the sum of squares is at most that of the
//!    radius. A point in no shape that keeps, where there are some, or in one that removes, is
//!    `points_cropped`; any other one in a shape of the robot is `points_on_robot`.
//! 4. *Transform*, in `f32`, per row `r` of `t_base_sensor`, whose numbers are rounded to `f32`:
//!    `p' = ((r[0]*x + r[1]*y) + r[2]*z) + r[3]`. From here on the coordinates are those in the
//!    base frame, even if a channel takes one as its field.
//! 5. *Index*, in `f32` with a true division: `d = p' - origin`, `g = d / size`, `i = floor(g)` per
//!    axis. The numbers of `origin` are rounded to `f32`.
//!    The point is inside if `0 <= g < shape` on all axes, so a point on a face belongs to the
//!    upper voxel. Any other point is dropped as `points_outside`, also if its `g` overflows to
//!    infinity or NaN.
//! 6. *Range.* If the value `v` of a `mean` or `sum` channel has `|v| > 2^20`, or if a feature that is no
//!    field overflows, the point is dropped from all channels as `points_out_of_range`.
//!
//! If the coordinates are float64, int32 or uint32, or if `f32` does not resolve the grid
//! ([`Precision::Double`]), the coordinates are loaded as `f64`; finite means finite in `f64`; `p'`
//! and `d = p' - origin` are computed in `f64`, and each is rounded once to `f32`. So map
//! coordinates lose nothing that a voxel could resolve. All else is the same.
//!
//! A point is counted under the first rule that drops it. Per voxel:
//!
//! - `count`: number of points.
//! - `occupancy`: 1.
//! - `mean`: `sum` is the `i64` sum of `q = round_half_even(v * 2^20)`; scaling by a power of two
//!   is exact. The value is `f64(sum) / (f64(count) * 2^20)`, divided in `f64`.
//! - `sum`: `f64(sum) / 2^20`.
//! - `max`, `min`: the greatest and the least `v`, with -0.0 taken as 0.0.
//! - `last`: the `v` of the last point, in the order of the message.
//!
//! Features that are no fields: `range` is `sqrt((x*x + y*y) + z*z)` in the cloud's own frame; `offset` along
//! an axis is `d - (floor(g) + 0.5) * size`. If a voxel has fewer points than `min_points`, it is empty, and
//! its points are counted as `points_too_few`.
//!
//! The value is rounded to `f32` and then to the stream's element type. Voxels without points
//! are 0. The sums are integers and the maximum has no ties, so the order of the points does not
//! matter, except to `last`.
//!
//! A sparse row lists the occupied voxels in the order of the grid, up to `max_voxels`. Any more are left
//! out, and counted as `voxels_beyond_capacity`.
//!
//! # Bounds
//!
//! A cloud has at most 2^22 points ([`MAX_POINTS`](super::MAX_POINTS)) and `|q| <= 2^40`, so `|sum|
//! <= 2^62` and nothing overflows; the `f32` of a count is exact. A larger cloud, or one with a
//! value that the element type cannot hold (`f16` ends at 65,504), is dropped whole.
//!
//! All values are finite, so an `f32` row needs no check, dense or sparse, on a core or a GPU. Fields and
//! features are finite by the rules 2 and 6. A coordinate of a point inside is not beyond the corners of the
//! grid, which configurations limit to 5 * 10^9 m. A mean is within 2^20, and a sum within 2^42.
//!
//! # Cost
//!
//! O(points + occupied voxels) per cloud, never O(volume): the voxelizer remembers the voxels that
//! a slot holds and clears only these. The memory is 4 bytes per voxel of the grid for all slots
//! together, plus an amount that follows from the most voxels that a cloud occupies.

mod block;
mod condense;
mod list;
mod reduce;
mod sieve;
mod sweep;
mod write;

use std::sync::atomic::{AtomicBool, Ordering};

use self::block::{Block, NONE, blocks};
pub use self::condense::Condenser;
use self::list::List;
use self::reduce::{Channel, Hits};
use self::write::Writer;
use super::filter::Filter;
use super::sparse::SparseRow;
use super::spec::{
    Feature, Grid, MAX_SUMMED, PointDrops, PointsView, Precision, Reduction, VoxelSpec,
    VoxelizeError, check_view, extra_fields,
};
use crate::align::Slot;
use crate::dtype::DType;

/// Encodes the clouds of one stream into the rows of its slots.
pub struct Voxelizer {
    grid: Grid,
    /// `None` if it takes all points.
    filter: Option<Filter>,
    min_points: u32,
    dtype: DType,
    /// Fields that a view must hold.
    fields: usize,
    block: Block,
    channels: Vec<Channel>,
    /// For the range rule: columns that are summed or computed, and the greatest magnitude of each.
    limits: Vec<(usize, f32)>,
    /// Per voxel of the grid: 0, or 1 + its position in `voxels`. All 0 between clouds.
    entry_of: Vec<u32>,
    /// The occupied voxels of the cloud at hand, in the order in which they were met.
    voxels: Vec<u32>,
    /// Points per element of `voxels`.
    counts: Vec<u32>,
    /// Per element of `voxels`: the value of the channel at hand.
    values: Vec<f32>,
    writer: Writer,
    /// For sparse rows.
    list: Option<List>,
    /// Per slot: what its row holds.
    held: Vec<Held>,
}

/// Content of the row of a slot.
#[derive(Default)]
struct Held {
    /// The voxels that it holds values in.
    voxels: Vec<u32>,
    /// Number of voxels of a sparse row, which has no such list.
    listed: usize,
    /// True if something else has written the row.
    unknown: bool,
}

impl Voxelizer {
    /// A voxelizer for rows `[channels, z, y, x]` of `dtype` in `slots` slots, all zero at first.
    ///
    /// # Panics
    /// As [`Grid::volume`].
    pub fn new(spec: &VoxelSpec, dtype: DType, slots: usize) -> Self {
        let volume = spec.grid.volume();
        let extras = extra_fields(spec).count();
        let column = |feature: &Feature| spec.column(feature);
        let channels: Vec<Channel> =
            spec.channels.iter().map(|c| Channel::new(c, column)).collect();
        Voxelizer {
            grid: spec.grid,
            filter: (!spec.filter.is_empty()).then(|| spec.filter.clone()),
            min_points: spec.min_points,
            dtype,
            fields: 3 + extras,
            block: Block::new(extras, spec.computed().collect()),
            limits: limits(spec),
            channels,
            entry_of: vec![0; volume],
            voxels: Vec::new(),
            counts: Vec::new(),
            values: Vec::new(),
            writer: Writer::new(dtype),
            list: SparseRow::new(spec, dtype).map(|row| List::new(row, &spec.grid, dtype)),
            held: (0..slots).map(|_| Held::default()).collect(),
        }
    }

    /// Reserves the memory that clouds of at most `points` points need. A larger one reserves more.
    pub fn reserve(&mut self, points: usize) {
        let most = points.min(self.entry_of.len());
        self.voxels.reserve(most);
        self.counts.reserve(most);
        self.values.reserve(most);
        self.channels.iter_mut().for_each(|channel| channel.reserve(most));
        self.writer.reserve(most);
        match &mut self.list {
            Some(list) => list.reserve(most),
            None => self.held.iter_mut().for_each(|held| held.voxels.reserve(most)),
        }
    }

    /// Bytes of one row.
    pub fn row_bytes(&self) -> usize {
        if let Some(list) = &self.list {
            return list.row_bytes();
        }
        self.channels.len() * self.entry_of.len() * self.dtype.size()
    }

    /// Number of voxels that the row of `slot` holds values in.
    pub fn occupied(&self, slot: Slot) -> usize {
        self.held[slot.index()].voxels.len() + self.held[slot.index()].listed
    }

    /// Notes that something else has written the row of `slot`: the next call for it clears all of it.
    pub fn forget(&mut self, slot: Slot) {
        self.held[slot.index()].unknown = true;
    }

    /// Writes the cloud as the row of `slot`. `row` is the slot's memory, little-endian, as the
    /// last call for this slot left it (zeros before the first), or anything after
    /// [`Voxelizer::forget`].
    ///
    /// # Errors
    /// Those of [`VoxelizeError`]. The row is then all zero.
    ///
    /// # Panics
    /// If `slot` or the length of `row` is not of this stream. Also if the view's size does not fit
    /// its data, which [`PointsView`] rules out.
    pub fn encode(
        &mut self,
        view: &PointsView<'_>,
        slot: Slot,
        row: &mut [u8],
    ) -> Result<PointDrops, VoxelizeError> {
        Ok(self.encode_unless(None, view, slot, row)?.unwrap_or_default())
    }

    /// Writes the cloud as the row of `slot`, unless `overtaken` becomes true, because the row is there from elsewhere.
    /// Then it stops at the next block of points, returns `None`, and leaves a row of zeros.
    ///
    /// # Errors
    /// Those of [`Voxelizer::encode`].
    ///
    /// # Panics
    /// As [`Voxelizer::encode`].
    pub fn encode_unless(
        &mut self,
        overtaken: Option<&AtomicBool>,
        view: &PointsView<'_>,
        slot: Slot,
        row: &mut [u8],
    ) -> Result<Option<PointDrops>, VoxelizeError> {
        assert_eq!(row.len(), self.row_bytes(), "voxelize: length mismatch");
        let held = &mut self.held[slot.index()];
        match std::mem::take(&mut held.unknown) {
            true => row.fill(0),
            false => match &self.list {
                Some(list) => list.clear(held.listed, row),
                None => self.writer.clear(&held.voxels, self.entry_of.len(), row),
            },
        }
        held.voxels.clear();
        held.listed = 0;
        let shapes = self.filter.as_ref().map_or(0, |filter| filter.shapes.len());
        check_view(view, self.fields, shapes)?;
        let mut report = self.scatter(overtaken, view);
        for voxel in &self.voxels {
            self.entry_of[*voxel as usize] = 0;
        }
        if let Some(report) = &mut report
            && self.min_points > 1
        {
            report.too_few = self.leave_out_few();
        }
        if self.list.is_some() {
            return match report {
                Some(report) => self.write_list(report, slot, row).map(Some),
                None => Ok(None),
            };
        }
        let written = if report.is_some() { self.write(row) } else { Ok(()) };
        match &written {
            Ok(()) if report.is_none() => {}
            // The lists change places, so that none is copied and both keep their memory.
            Ok(()) => std::mem::swap(&mut self.held[slot.index()].voxels, &mut self.voxels),
            Err(_) => self.writer.clear(&self.voxels, self.entry_of.len(), row),
        }
        written.map(|()| report)
    }

    /// Adds every point to its voxel; `None` if it was overtaken.
    fn scatter(
        &mut self,
        overtaken: Option<&AtomicBool>,
        view: &PointsView<'_>,
    ) -> Option<PointDrops> {
        self.voxels.clear();
        self.counts.clear();
        self.channels.iter_mut().for_each(Channel::reset);
        let mut report = PointDrops::default();
        self.block.begin(Precision::of(view.fields, &self.grid));
        for points in blocks(view) {
            if overtaken.is_some_and(|flag| flag.load(Ordering::Acquire)) {
                return None;
            }
            let filter = self.filter.as_ref();
            let limits = &self.limits;
            self.block.take(view, points, &self.grid, filter, limits, &mut report);
            self.count_points();
        }
        Some(report)
    }

    /// Gives an entry to every point of the block that was not dropped, and adds it to the
    /// channels.
    fn count_points(&mut self) {
        let mut hits = Hits::default();
        let mut len = 0;
        for (point, voxel) in self.block.voxels().iter().enumerate() {
            // Stores every point and keeps it if it is inside: a branch would be mispredicted
            // often.
            hits.points[len] = point as u32;
            len += usize::from(*voxel != NONE);
        }
        hits.len = len;
        // Looks up all entries before it uses any, so that the processor fetches many at a time.
        let points = &hits.points[..hits.len];
        let entries = &mut hits.entries[..hits.len];
        for (point, entry) in points.iter().zip(&mut *entries) {
            *entry = self.entry_of[self.block.voxels()[*point as usize] as usize];
        }
        for (point, entry) in points.iter().zip(entries) {
            if *entry == 0 {
                *entry = self.enter(*point);
            }
            *entry -= 1;
            self.counts[*entry as usize] += 1;
        }
        for channel in &mut self.channels {
            channel.add(&self.block, &hits, self.voxels.len());
        }
    }

    /// Makes the voxel of a point of the block occupied, unless an earlier point of the block did.
    /// Returns 1 + the voxel's position.
    fn enter(&mut self, point: u32) -> u32 {
        let voxel = self.block.voxels()[point as usize];
        let known = &mut self.entry_of[voxel as usize];
        if *known == 0 {
            self.voxels.push(voxel);
            self.counts.push(0);
            *known = self.voxels.len() as u32;
        }
        *known
    }

    /// Forgets the voxels with too few points, and returns how many points they had.
    fn leave_out_few(&mut self) -> u64 {
        let mut kept = 0;
        let mut left_out = 0;
        for from in 0..self.voxels.len() {
            let count = self.counts[from];
            if count < self.min_points {
                left_out += u64::from(count);
                continue;
            }
            self.voxels[kept] = self.voxels[from];
            self.counts[kept] = count;
            self.channels.iter_mut().for_each(|channel| channel.relocate(from, kept));
            kept += 1;
        }
        self.voxels.truncate(kept);
        self.counts.truncate(kept);
        self.channels.iter_mut().for_each(|channel| channel.truncate(kept));
        left_out
    }

    /// Writes the occupied voxels as a list.
    fn write_list(
        &mut self,
        mut report: PointDrops,
        slot: Slot,
        row: &mut [u8],
    ) -> Result<PointDrops, VoxelizeError> {
        let Some(list) = &mut self.list else { return Ok(report) };
        let kept = list.write_coordinates(&self.voxels, row);
        for (at, channel) in self.channels.iter().enumerate() {
            channel.values(&self.counts, &mut self.values);
            if let Err(value) = list.write_channel(at, &self.values, row) {
                list.clear(kept, row);
                return Err(VoxelizeError::Value { channel: at, dtype: self.dtype, value });
            }
        }
        self.held[slot.index()].listed = kept;
        report.voxels_in_use = kept as u32;
        report.voxels_beyond = (self.voxels.len() - kept) as u64;
        Ok(report)
    }

    /// Writes the occupied voxels of every channel.
    fn write(&mut self, row: &mut [u8]) -> Result<(), VoxelizeError> {
        let planes = row.chunks_exact_mut((self.entry_of.len() * self.dtype.size()).max(1));
        for (at, (channel, plane)) in self.channels.iter().zip(planes).enumerate() {
            channel.values(&self.counts, &mut self.values);
            if let Err(value) = self.writer.store(&self.values, &self.voxels, plane) {
                return Err(VoxelizeError::Value { channel: at, dtype: self.dtype, value });
            }
        }
        Ok(())
    }
}

/// For the range rule: columns that are summed or computed, and the greatest magnitude of each.
fn limits(spec: &VoxelSpec) -> Vec<(usize, f32)> {
    let summed = spec.channels.iter().filter(|channel| channel.sums());
    let summed = summed.filter_map(Reduction::feature).map(|of| (spec.column(of), MAX_SUMMED));
    let computed = spec.computed().map(|of| (spec.column(&of), f32::MAX));
    summed.chain(computed).collect()
}
