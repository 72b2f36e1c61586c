//! Memory on the GPU for clouds of a bounded number of points. It is reserved at the start, so that
//! no cloud ever needs more, however large its points are.

use super::spec::{FieldAt, PointsView};
use super::sweep::{Knot, MAX_KNOTS};
use crate::device::shared::voxelize::sort::THREADS;
use crate::device::shared::voxelize::{
    BUCKET, BUCKET_TILE_POINTS, Bins, CHANNEL_PACK, Crowd, MOST_BUCKET_TILES, MOST_CROWDS, Shape,
    VOXEL_BLOCK,
};

/// Most bytes of a field of a point: those of a float64.
const MOST_FIELD_BYTES: usize = 8;

/// Points that a thread sorts: few if that fills the device, because there are as many tiles then.
pub const FEW: u32 = 2;
/// Points that a thread sorts, if the cloud fills the device anyway.
pub const MANY: u32 = 4;

/// log2 of the bins that a grid should have, so that every multiprocessor has some.
const BIN_BITS: u32 = 8;
/// log2 of the bins that it has at most.
pub const MOST_BIN_BITS: u32 = 11;
/// log2 of the voxels of a sub-bin at least, and at most for the kernels that there are.
const LEAST_SUB_BIN_SHIFT: u32 = 9;
/// The smaller sub-bins.
pub const SMALL_SUB_BIN_SHIFT: u32 = 11;
/// The larger ones serve where a multiprocessor has shared memory for two of their thread blocks.
pub const LARGE_SUB_BIN_SHIFT: u32 = 13;

/// Tiles of voxel blocks that a list has at most: a thread block for each looks at all of them.
/// With 512, which look at fewer counts each, a list took 2 to 6 us longer (`docs/experiments.md`).
const MOST_LIST_TILES: usize = 2048;
/// log2 of the voxel blocks of a tile at least: a warp reads their masks at once.
const LEAST_LIST_TILE_SHIFT: u32 = 5;

/// Bytes of the upload of a cloud of at most `max_points` points with `columns` fields.
pub fn upload_bytes(columns: usize, max_points: usize) -> usize {
    MOST_FIELD_BYTES * columns * max_points
}

/// Bytes that the upload of a cloud has more, if it has a sweep: a time for each point, and the knots.
pub fn sweep_bytes(max_points: usize) -> usize {
    MOST_FIELD_BYTES * max_points + TABLE_ALIGNMENT + MAX_KNOTS * size_of::<Knot>()
}

/// Additional bytes of a cloud's upload for a filter with `shapes` shapes.
pub fn shape_bytes(shapes: usize) -> usize {
    if shapes == 0 { 0 } else { TABLE_ALIGNMENT + shapes * size_of::<Shape>() }
}

/// Tables behind the points are at a multiple of this \[bytes\] in the upload.
const TABLE_ALIGNMENT: usize = 16;

/// Start of the tables in the upload \[bytes\], behind points of `len` bytes: first the knots of the sweep, then the
/// shapes of the filter.
pub fn tables_at(len: usize) -> usize {
    len.next_multiple_of(TABLE_ALIGNMENT)
}

/// Bytes of the buffers of sorted points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SortedBytes {
    /// The voxel of each point.
    pub voxels: usize,
    /// The values of each point.
    pub values: usize,
    /// Starts of the bins in each tile.
    pub segments: usize,
    /// Crowds of each tile.
    pub crowds: usize,
    /// Their values.
    pub crowd_values: usize,
}

impl SortedBytes {
    /// The buffers for `points` points ([`sorted_points`]), `channels` and `bins`.
    pub fn new(points: usize, channels: usize, bins: &Bins) -> Self {
        let packs = channels.div_ceil(CHANNEL_PACK as usize);
        // Of the smaller tiles there are more.
        let tiles = points.div_ceil((THREADS * FEW) as usize);
        SortedBytes {
            voxels: 4 * points,
            values: 4 * CHANNEL_PACK as usize * packs * points,
            segments: 4 * tiles * bins.bin_count as usize,
            crowds: size_of::<Crowd>() * tiles * MOST_CROWDS as usize,
            crowd_values: 8 * channels * tiles * MOST_CROWDS as usize,
        }
    }

    /// At most this, whatever the GPU, for a grid of `volume` voxels. A GPU with less shared memory
    /// has more bins.
    pub fn most(max_points: usize, channels: usize, volume: usize) -> Self {
        let bins = bins_of(volume as u32, SMALL_SUB_BIN_SHIFT);
        SortedBytes::new(sorted_points(max_points), channels, &bins)
    }

    /// All of them.
    pub fn total(self) -> usize {
        self.voxels + self.values + self.segments + self.crowds + self.crowd_values
    }
}

/// log2 of the bins of a grid whose points go into buckets: about as many as a large GPU has multiprocessors.
pub const BUCKET_BIN_BITS: u32 = 7;
/// Points per multiprocessor from which buckets are faster than an atomic per point (`docs/experiments.md`).
pub const LEAST_BUCKET_POINTS: u32 = 1200;

/// Tiles of a cloud of `points` points that go into buckets: one for each multiprocessor if they fit.
pub fn bucket_tiles(points: usize, multiprocessors: u32) -> usize {
    points.div_ceil(BUCKET_TILE_POINTS as usize).max(multiprocessors as usize)
}

/// Bytes of the buckets of `tiles` tiles.
pub fn bucket_bytes(tiles: usize) -> usize {
    (2 * BUCKET as usize * tiles) << BUCKET_BIN_BITS
}

/// Bytes of the buckets of a cloud of at most `max_points` points, at most, whatever the GPU.
pub fn most_bucket_bytes(max_points: usize) -> usize {
    bucket_bytes((max_points / LEAST_BUCKET_POINTS as usize).min(MOST_BUCKET_TILES as usize))
}

/// Bytes of the values of `channels` channels that take the last point.
pub fn last_bytes(max_points: usize, channels: usize) -> usize {
    4 * sorted_points(max_points) * channels
}

/// The buffers for the occupied voxels of a cloud, on their way into a sparse row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListBytes {
    /// Which voxels of each voxel block are occupied.
    pub masks: usize,
    /// Places of the features of each voxel block.
    pub firsts: usize,
    /// The features of all occupied voxels.
    pub features: usize,
    /// Occupied voxels of each tile of voxel blocks, twice.
    pub totals: usize,
    /// Tiles of voxel blocks.
    pub tiles: usize,
    /// log2 of the voxel blocks of a tile.
    pub tile_shift: u32,
}

impl ListBytes {
    /// For a grid with these numbers of voxel blocks and voxels, with features of `feature_bytes` per voxel.
    pub fn new(
        max_points: usize,
        voxel_blocks: usize,
        volume: usize,
        feature_bytes: usize,
    ) -> Self {
        let shift = |shift: &u32| voxel_blocks >> shift <= MOST_LIST_TILES;
        let tile_shift = (LEAST_LIST_TILE_SHIFT..31).find(shift).unwrap_or(31);
        let tiles = voxel_blocks.div_ceil(1 << tile_shift);
        let words = 4 * (tiles << tile_shift);
        ListBytes {
            masks: words,
            firsts: words,
            features: feature_bytes * sorted_points(max_points).min(volume),
            totals: 2 * 4 * tiles,
            tiles,
            tile_shift,
        }
    }

    /// All of them, for a grid of `volume` voxels.
    pub fn total(max_points: usize, volume: usize, feature_bytes: usize) -> usize {
        let bins = bins_of(volume as u32, SMALL_SUB_BIN_SHIFT);
        let voxel_blocks = bins.voxel_block_mask as usize + 1;
        let all = ListBytes::new(max_points, voxel_blocks, volume, feature_bytes);
        all.masks + all.firsts + all.features + all.totals
    }
}

/// The points of a cloud of at most `max_points`, in whole tiles.
pub fn sorted_points(max_points: usize) -> usize {
    max_points.next_multiple_of((THREADS * MANY) as usize)
}

/// The bins of a grid, with sub-bins of up to 2^`most` voxels.
pub fn bins_of(volume: u32, most: u32) -> Bins {
    let volume_bits = volume.max(1 << LEAST_SUB_BIN_SHIFT).next_power_of_two().trailing_zeros();
    let wanted = volume_bits.saturating_sub(BIN_BITS).clamp(LEAST_SUB_BIN_SHIFT, most);
    let bin_shift = wanted.max(volume_bits.saturating_sub(MOST_BIN_BITS));
    Bins {
        bin_shift,
        sub_bin_shift: bin_shift.min(most),
        bin_count: 1 << (volume_bits - bin_shift),
        voxel_block_mask: (1 << (volume_bits - VOXEL_BLOCK.trailing_zeros())) - 1,
    }
}

/// Places the fields in a point that has nothing else; returns the bytes of such a point.
pub fn packed_fields(fields: &[FieldAt], packed: &mut Vec<FieldAt>) -> usize {
    packed.clear();
    let mut step = 0;
    for field in fields {
        packed.push(FieldAt { offset: step, kind: field.kind });
        step += field.kind.size();
    }
    step
}

/// Points that are packed at once: so few that their bytes stay in the innermost cache.
const BLOCK: usize = 512;

/// Copies the fields of all points to `out`, where they are at `packed` ([`packed_fields`]) in points
/// of `step` bytes without gaps. The bytes of a value do not change.
///
/// # Panics
/// If `out` has not the size of the packed points, or a field is not inside its point.
pub fn pack(view: &PointsView<'_>, packed: &[FieldAt], step: usize, out: &mut [u8]) {
    assert_eq!(out.len() as u64, view.points() * step as u64, "pack: length mismatch");
    if out.is_empty() {
        return;
    }
    for (row, out) in out.chunks_exact_mut(view.width * step).enumerate() {
        let points = &view.data[row * view.row_step..][..view.width * view.point_step];
        let blocks = points.chunks(BLOCK * view.point_step).zip(out.chunks_mut(BLOCK * step));
        for (points, out) in blocks {
            for (from, to) in view.fields.iter().zip(packed) {
                let steps = [view.point_step, step];
                let offsets = [from.offset, to.offset];
                match from.kind.size() {
                    1 => copy::<1>(points, out, steps, offsets),
                    2 => copy::<2>(points, out, steps, offsets),
                    4 => copy::<4>(points, out, steps, offsets),
                    _ => copy::<8>(points, out, steps, offsets),
                }
            }
        }
    }
}

/// Copies one field of `SIZE` bytes of every point.
fn copy<const SIZE: usize>(
    points: &[u8],
    out: &mut [u8],
    [from_step, to_step]: [usize; 2],
    [from, to]: [usize; 2],
) {
    for (point, out) in points.chunks_exact(from_step).zip(out.chunks_exact_mut(to_step)) {
        out[to..to + SIZE].copy_from_slice(&point[from..from + SIZE]);
    }
}

#[cfg(test)]
mod tests;
