//! Large clouds whose points are only counted: `kernels/voxelize/fill_buckets.cu` and `write_buckets.cu`.

use std::sync::Arc;

use super::Target;
use super::count::kernel_of_rows;
use super::job::PointLayout;
use crate::device::shared::common::WARP;
use crate::device::shared::voxelize::fill_buckets::{FillBuckets, PITCH, THREADS as FILL_THREADS};
use crate::device::shared::voxelize::write_buckets::{
    MOST_BIN_SHIFT, THREADS as WRITE_THREADS, WriteBuckets,
};
use crate::device::shared::voxelize::{
    BUCKET_TILE_POINTS, Buckets, Channels, Cloud, Grid, MOST_BUCKET_TILES, SPAN_SHIFT,
};
use crate::device::{Device, DeviceBuffer, DeviceError, Inputs, Kernel, Launch, Stream};
use crate::dtype::DType;
use crate::voxelize::memory::{BUCKET_BIN_BITS, LEAST_BUCKET_POINTS, bucket_bytes, bucket_tiles};

/// Bytes of a point, at most: a tile of such points fits into shared memory, beside a block of the kernel
/// that writes.
const MOST_POINT_STEP: u32 = 32;
/// Alignment of the points' address \[bytes\], as for every bulk copy.
const COPY_ALIGNMENT: u64 = 16;

/// Counts the points of large clouds, bin by bin in shared memory.
pub(super) struct Bucketing {
    fill: Kernel,
    write: Kernel,
    /// Without tiles.
    buckets: Buckets,
    /// Kept for their memory.
    _all: DeviceBuffer,
    _spilled: DeviceBuffer,
    grid: Grid,
    multiprocessors: u32,
    most_tiles: u32,
}

impl Bucketing {
    /// For clouds of at most `max_points` points, if the device and the grid are such that this is faster than
    /// an atomic per point. `counts`: the address of a count per voxel, for points without room in their bucket.
    pub(super) fn new(
        device: &Arc<Device>,
        grid: Grid,
        dtype: DType,
        max_points: usize,
        counts: u64,
    ) -> Result<Option<Self>, DeviceError> {
        let multiprocessors = device.multiprocessors();
        let volume_bits = grid.volume.next_power_of_two().trailing_zeros();
        let shifts = SPAN_SHIFT + BUCKET_BIN_BITS..=MOST_BIN_SHIFT + BUCKET_BIN_BITS;
        let shared = fill_bytes(BUCKET_TILE_POINTS * MOST_POINT_STEP);
        // Measured on chips on which kernels overlap; these have the bulk copies, too.
        if !device.overlaps()
            || !shifts.contains(&volume_bits)
            || max_points < (LEAST_BUCKET_POINTS * multiprocessors) as usize
            || device.shared_bytes(1)? < shared as usize
        {
            return Ok(None);
        }
        let fill = device.kernel("voxelize_fill_buckets")?;
        fill.allow_shared(shared)?;
        let most_tiles = bucket_tiles(max_points, multiprocessors).min(MOST_BUCKET_TILES as usize);
        let all = DeviceBuffer::new(device, bucket_bytes(most_tiles))?;
        let spilled = DeviceBuffer::new(device, 4 << BUCKET_BIN_BITS)?;
        Ok(Some(Bucketing {
            fill,
            write: kernel_of_rows(device, "voxelize_write_buckets", dtype)?,
            buckets: Buckets {
                all: all.address(),
                counts,
                spilled: spilled.address(),
                tiles: 0,
                warp_points: 0,
                bin_shift: volume_bits - BUCKET_BIN_BITS,
                bin_count: 1 << BUCKET_BIN_BITS,
                span_mask: (1 << (volume_bits - SPAN_SHIFT)) - 1,
                reserved: 0,
            },
            _all: all,
            _spilled: spilled,
            grid,
            multiprocessors,
            most_tiles: most_tiles as u32,
        }))
    }

    /// True if the buckets count this cloud.
    pub(super) fn takes(&self, cloud: &Cloud, layout: PointLayout) -> bool {
        layout == PointLayout::F32
            && cloud.count >= LEAST_BUCKET_POINTS * self.multiprocessors
            && bucket_tiles(cloud.count as usize, self.multiprocessors) <= self.most_tiles as usize
            && cloud.point_step <= MOST_POINT_STEP
            && cloud.points.is_multiple_of(COPY_ALIGNMENT)
    }

    /// Counts a cloud that it takes, and writes the counts into the row of `target`, in whose spans something is
    /// at address `occupied`.
    ///
    /// # Safety
    /// The cloud and the row are valid on the device until the launches are done.
    pub(super) unsafe fn launch(
        &self,
        cloud: Cloud,
        channels: Channels,
        occupied: u64,
        target: &Target,
        inputs: Inputs,
        stream: &Stream,
    ) -> Result<(), DeviceError> {
        let warps = FILL_THREADS / WARP;
        let most = bucket_tiles(cloud.count as usize, self.multiprocessors) as u32 * warps;
        // Each warp copies whole units of 16 bytes, whatever the size of a point.
        let warp_points = cloud.count.div_ceil(most).next_multiple_of(4);
        let tiles = cloud.count.div_ceil(warp_points * warps);
        let buckets = Buckets { tiles, warp_points, ..self.buckets };
        let points = warp_points * warps * cloud.point_step;
        let launch = Launch { blocks: tiles, threads: FILL_THREADS, shared: fill_bytes(points) };
        let job = FillBuckets {
            cloud,
            grid: self.grid,
            to: buckets,
            counters: target.counters,
            inputs_ready: inputs.are_ready(),
            reserved: 0,
        };
        // SAFETY: the parameter is that of the kernel. The buffers are of this voxelizer and sized for its grid and
        // these tiles; the caller answers for the cloud.
        unsafe { self.fill.launch_job(stream, launch, &job)? };
        // One thread block for each bin, and one that reports.
        let launch = Launch {
            blocks: buckets.bin_count + 1,
            threads: WRITE_THREADS,
            shared: 2 << buckets.bin_shift,
        };
        let job = WriteBuckets {
            channels,
            from: buckets,
            occupied,
            row: target.row,
            counters: target.counters,
            report: target.report,
            volume: self.grid.volume,
            reserved: 0,
        };
        // SAFETY: as above; the caller answers for the row.
        unsafe { self.write.follow_job(stream, launch, &job) }
    }
}

/// Shared memory of a thread block that fills the buckets of a tile with `points` bytes of points.
fn fill_bytes(points: u32) -> u32 {
    ((2 * PITCH + 4) << BUCKET_BIN_BITS) + points
}
