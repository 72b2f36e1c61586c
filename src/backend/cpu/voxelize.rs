//! Point clouds to voxel grids: the oracle that every other backend agrees with bit for bit.
//!
//! # The arithmetic, in its order
//!
//! All of it is IEEE 754 with round-to-nearest-even, without fused multiply-add. Per point:
//!
//! 1. *Load.* `x`, `y`, `z` and the extra fields are converted to `f32`, each rounded once.
//! 2. *Finite.* If any of these is NaN or infinite (also by that rounding), the point is dropped
//!    as `points_non_finite`.
//! 3. *Transform*, in `f32`, per row `r` of `t_base_lidar`:
//!    `p' = ((r[0]*x + r[1]*y) + r[2]*z) + r[3]`. From here on the coordinates are those in the
//!    base frame, also where a channel takes them as its field.
//! 4. *Index*, in `f32` with a true division: `g = (p' - origin) / size`, `i = floor(g)` per axis.
//!    The point is inside where `0 <= g < shape` on all axes, so a point on a face belongs to the
//!    upper voxel; any other point, and one whose `g` overflows to infinity or NaN, is dropped as
//!    `points_outside`.
//! 5. *Range.* If the value `v` of a `mean` channel has `|v| > 2^20`, the point is dropped from
//!    all channels as `points_out_of_range`.
//!
//! A point is counted under the first of these that drops it. Per voxel:
//!
//! - `count`: number of points.
//! - `occupancy`: 1.
//! - `mean`: `sum` is the `i64` sum of `q = round_half_even(v * 2^20)`; scaling by a power of two
//!   is exact. The value is `f64(sum) / (f64(count) * 2^20)`, divided in `f64`.
//! - `max`: the greatest `v`, with -0.0 taken as 0.0.
//!
//! The value is rounded to `f32` and then to the stream's element type. Voxels without points
//! are 0. The sums are integers and the maximum has no ties, so the order of the points does not
//! matter.
//!
//! # Bounds
//!
//! A cloud has at most 2^22 points ([`MAX_POINTS`]) and `|q| <= 2^40`, so `|sum| <= 2^62` and
//! nothing overflows; the `f32` of a count is exact. A larger cloud, or one with a value that the
//! element type cannot hold (`f16` ends at 65,504), is dropped whole.
//!
//! # Cost
//!
//! O(points + occupied voxels) per cloud, never O(volume): what a slot holds is remembered, and
//! only this is cleared. The memory is 4 bytes per voxel of the grid for all slots together, plus
//! what grows with the occupied voxels.

mod block;
mod reduce;
mod write;

use self::block::{BLOCK, Block, NONE};
use self::reduce::{Channel, Hits};
use self::write::Writer;
use crate::backend::EncodeReport;
use crate::config::{CloudSpec, Grid, Reduction};
use crate::decode::DecodeError;
use crate::decode::cloud::{CloudView, coordinate, extra_fields};
use crate::dtype::DType;
use crate::stats::DropReason;

/// Points of the largest cloud that is accepted: sums of this many cannot overflow.
pub const MAX_POINTS: u64 = 1 << 22;

/// Greatest magnitude of a value that is summed.
pub const MAX_SUMMED: f32 = (1 << FRACTION_BITS) as f32;

/// Fractional bits of the fixed-point sums.
pub const FRACTION_BITS: u32 = 20;

/// Encodes the clouds of one stream into the rows of its slots.
pub struct Voxelizer {
    grid: Grid,
    t_base_lidar: [[f32; 4]; 3],
    dtype: DType,
    /// Fields that a view must hold.
    fields: usize,
    block: Block,
    channels: Vec<Channel>,
    /// Columns that `mean` channels sum, for the range rule.
    summed: Vec<usize>,
    /// Per voxel of the grid: 0, or 1 + its position in `voxels`. All 0 between clouds.
    entry_of: Vec<u32>,
    /// The occupied voxels of the cloud at hand, in the order in which they were met.
    voxels: Vec<u32>,
    /// Points per element of `voxels`.
    counts: Vec<u32>,
    /// Per element of `voxels`: the value of the channel at hand.
    values: Vec<f32>,
    writer: Writer,
    /// Per slot: the voxels that its row holds values in.
    held: Vec<Vec<u32>>,
}

/// Checks of a view what every backend relies on: the fields that its stream's configuration asks
/// for, and few enough points that no sum can overflow.
///
/// # Errors
/// `MissingField` for another number of fields, `OutOfRange` for more than [`MAX_POINTS`] points.
pub fn check_view(view: &CloudView<'_>, fields: usize) -> Result<(), DecodeError> {
    if view.fields.len() != fields {
        let found = view.fields.len();
        let detail = format!("cloud view: expected {fields} fields, found {found}");
        return Err(DecodeError::new(DropReason::MissingField, detail));
    }
    let points = (view.width as u64).saturating_mul(view.height as u64);
    if points > MAX_POINTS {
        let detail = format!("points: expected at most {MAX_POINTS}, found {points}");
        return Err(DecodeError::new(DropReason::OutOfRange, detail));
    }
    Ok(())
}

impl Voxelizer {
    /// A voxelizer for rows `[channels, z, y, x]` of `dtype` in `slots` slots, all zero at first.
    ///
    /// # Panics
    /// When the grid has more than 2^31 - 1 voxels or an axis more than 2^23 (below which an `f32`
    /// resolves halves of a voxel). The size comes from the configuration, never from a message.
    pub fn new(spec: &CloudSpec, dtype: DType, slots: usize) -> Self {
        let volume = spec.grid.shape.iter().try_fold(1usize, |v, n| v.checked_mul(*n));
        let volume = volume.filter(|v| *v <= i32::MAX as usize).expect("grid: too many voxels");
        assert!(spec.grid.shape.iter().all(|n| *n <= 1 << 23), "grid: axis too long");
        let extras: Vec<&str> = extra_fields(spec).collect();
        let column = |name: &str| {
            let extra = || extras.iter().position(|extra| *extra == name).map(|at| at + 3);
            coordinate(name).or_else(extra).expect("extra_fields lists every field of the channels")
        };
        let channels: Vec<Channel> =
            spec.channels.iter().map(|c| Channel::new(c, column)).collect();
        let summed = spec.channels.iter().filter_map(|channel| match channel {
            Reduction::Mean(name) => Some(column(name)),
            _ => None,
        });
        Voxelizer {
            grid: spec.grid,
            t_base_lidar: spec.t_base_lidar,
            dtype,
            fields: 3 + extras.len(),
            block: Block::new(extras.len()),
            summed: summed.collect(),
            channels,
            entry_of: vec![0; volume],
            voxels: Vec::new(),
            counts: Vec::new(),
            values: Vec::new(),
            writer: Writer::new(dtype),
            held: vec![Vec::new(); slots],
        }
    }

    /// Bytes of one row.
    pub fn row_bytes(&self) -> usize {
        self.channels.len() * self.entry_of.len() * self.dtype.size()
    }

    /// Number of voxels that the row of `slot` holds values in.
    pub fn occupied(&self, slot: usize) -> usize {
        self.held[slot].len()
    }

    /// Writes the cloud as the row of `slot`. `row` is the slot's memory, little-endian, as the
    /// last call for this slot left it (zeros before the first).
    ///
    /// # Errors
    /// `OutOfRange` for too many points or a value that the element type cannot hold,
    /// `MissingField` where the view was made for another configuration. The row is then all zero.
    ///
    /// # Panics
    /// When `slot` or the length of `row` is not of this stream, or the view's size does not fit
    /// its data, which [`decode`](crate::decode::cloud::decode) rules out.
    pub fn encode(
        &mut self,
        view: &CloudView<'_>,
        slot: usize,
        row: &mut [u8],
    ) -> Result<EncodeReport, DecodeError> {
        assert_eq!(row.len(), self.row_bytes(), "voxelize: length mismatch");
        self.writer.clear(&self.held[slot], self.entry_of.len(), row);
        self.held[slot].clear();
        check_view(view, self.fields)?;
        let report = self.scatter(view);
        let written = self.write(row);
        for voxel in &self.voxels {
            self.entry_of[*voxel as usize] = 0;
        }
        match &written {
            // The lists change places, so that none is copied and both keep their memory.
            Ok(()) => std::mem::swap(&mut self.held[slot], &mut self.voxels),
            Err(_) => self.writer.clear(&self.voxels, self.entry_of.len(), row),
        }
        written.map(|()| report)
    }

    /// Adds every point to its voxel.
    fn scatter(&mut self, view: &CloudView<'_>) -> EncodeReport {
        self.voxels.clear();
        self.counts.clear();
        self.channels.iter_mut().for_each(Channel::reset);
        let mut report = EncodeReport::default();
        if view.width == 0 {
            return report; // however many rows it declares
        }
        // Rows without padding between them are one long row: fewer and fuller blocks.
        let (rows, points) = match view.width * view.point_step == view.row_step {
            true => (usize::from(view.height > 0), view.width * view.height),
            false => (view.height, view.width),
        };
        for row in 0..rows {
            let bytes = &view.data[row * view.row_step..][..points * view.point_step];
            for points in bytes.chunks(BLOCK * view.point_step) {
                self.block.load(view, points);
                self.block.locate(&self.t_base_lidar, &self.grid, &mut report);
                report.points_out_of_range += self.block.drop_beyond(&self.summed, MAX_SUMMED);
                self.count_points();
            }
        }
        report
    }

    /// Gives every point of the block that is left an entry, and hands it to the channels.
    fn count_points(&mut self) {
        let mut hits = Hits::default();
        for (point, voxel) in self.block.voxels().iter().enumerate() {
            // Stored always and kept if inside: the outcome is too irregular to branch on.
            hits.points[hits.len] = point as u32;
            hits.len += usize::from(*voxel != NONE);
        }
        // Looked up for all before any is acted upon: the memory then fetches many at a time.
        let (points, entries) = (&hits.points[..hits.len], &mut hits.entries[..hits.len]);
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

    /// Makes the voxel of a point of the block occupied, unless an earlier one of the block did.
    /// Returns 1 + its position.
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

    /// Writes the occupied voxels of every channel.
    fn write(&mut self, row: &mut [u8]) -> Result<(), DecodeError> {
        let planes = row.chunks_exact_mut((self.entry_of.len() * self.dtype.size()).max(1));
        for (at, (channel, plane)) in self.channels.iter().zip(planes).enumerate() {
            channel.values(&self.counts, &mut self.values);
            if let Err(value) = self.writer.store(&self.values, &self.voxels, plane) {
                let name = self.dtype.name();
                let detail =
                    format!("channel {at}: expected a value that {name} holds, found {value}");
                return Err(DecodeError::new(DropReason::OutOfRange, detail));
            }
        }
        Ok(())
    }
}
