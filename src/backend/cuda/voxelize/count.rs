//! Clouds of which the points are only counted: `kernels/voxelize_count.cu`.

use std::ptr;
use std::sync::Arc;

use super::Target;
use super::job::{Channels, Cloud, Count, Counted, DeviceGrid, WriteCounts};
use crate::backend::BackendError;
use crate::backend::cuda::driver::{Device, Kernel, Stream};
use crate::backend::cuda::memory::DeviceBuffer;
use crate::dtype::DType;

/// Threads of a block, as in the kernels.
const COUNT_THREADS: u32 = 1024;
const WRITE_THREADS: u32 = 128;
/// Counting blocks per multiprocessor, at most: what runs at once, as every block marks bins.
const COUNT_BLOCKS: u32 = 1;
/// Writing blocks per multiprocessor, at most.
const WRITE_BLOCKS: u32 = 64;
/// log2 of the voxels of a unit, which a warp writes.
const UNIT_SHIFT: u32 = 8;
/// log2 of the voxels of a bin, unless the grid has more than [`MOST_BINS`] of them.
const BIN_SHIFT: u32 = 10;
/// Bins whose bits, 16 KiB, fit the 48 KiB of shared memory that a block has everywhere.
const MOST_BINS: usize = 1 << 17;
/// Copies of the marks, and words from one to the next.
const MARK_COPIES: usize = 8;
const MARK_STRIDE: usize = 8;

/// Counts the points of clouds.
pub struct Counting {
    /// For points that are words, and for all others.
    count_words: Kernel,
    count_fields: Kernel,
    write: Kernel,
    counts: DeviceBuffer,
    /// Kept for its memory.
    _marks: DeviceBuffer,
    counted: Counted,
    /// Per slot and unit: in which bricks its row holds values.
    held: Vec<DeviceBuffer>,
    grid: DeviceGrid,
    multiprocessors: u32,
}

impl Counting {
    pub fn new(
        device: &Arc<Device>,
        grid: DeviceGrid,
        dtype: DType,
        slots: usize,
    ) -> Result<Self, BackendError> {
        let volume = grid.volume as usize;
        let bin_shift = (BIN_SHIFT..).find(|shift| volume >> shift <= MOST_BINS).unwrap_or(31);
        let bins = volume.div_ceil(1 << bin_shift);
        let reserve = |bytes: usize| DeviceBuffer::new(device, bytes);
        // Whole bins, so that no access has to look at the end.
        let counts = reserve(4 * (bins << bin_shift))?;
        let marks = reserve(2 * 4 * bins.div_ceil(32) * MARK_COPIES * MARK_STRIDE)?;
        let counted = Counted {
            counts: counts.address(),
            marks: marks.address(),
            turn: 0,
            bin_shift,
            bin_count: bins as u32,
            reserved: 0,
        };
        let units = bins << (bin_shift - UNIT_SHIFT);
        let write = match dtype {
            DType::F32 => "voxelize_counts_f32",
            DType::F16 => "voxelize_counts_f16",
            DType::Bf16 => "voxelize_counts_bf16",
        };
        Ok(Counting {
            count_words: device.kernel("voxelize_count_words")?,
            count_fields: device.kernel("voxelize_count_fields")?,
            write: device.kernel(write)?,
            counts,
            _marks: marks,
            counted,
            held: (0..slots).map(|_| reserve(units)).collect::<Result<_, _>>()?,
            grid,
            multiprocessors: device.multiprocessors(),
        })
    }

    /// Adds the points of an uploaded cloud to the counts.
    pub fn launch_count(
        &mut self,
        cloud: Cloud,
        words: bool,
        counters: u64,
        stream: &Stream,
    ) -> Result<(), BackendError> {
        self.counted.turn ^= 1;
        let blocks = cloud.count.div_ceil(COUNT_THREADS).min(COUNT_BLOCKS * self.multiprocessors);
        let shared = 4 * self.counted.bin_count.div_ceil(32);
        let mut job = Count { cloud, grid: self.grid, to: self.counted, counters };
        let kernel = if words { &self.count_words } else { &self.count_fields };
        let arguments = &mut [ptr::from_mut(&mut job).cast()];
        // SAFETY: the argument is that of the kernels. All buffers are of this voxelizer and sized
        // for its grid, and the upload holds every point of the cloud.
        unsafe { kernel.launch_with(stream, blocks, COUNT_THREADS, shared, arguments) }
    }

    /// Writes the counts, and returns them to zero.
    pub fn launch_write(
        &self,
        channels: Channels,
        target: &Target,
        stream: &Stream,
    ) -> Result<(), BackendError> {
        let mut job = WriteCounts {
            channels,
            from: self.counted,
            held: self.held[target.slot].address(),
            row: target.row,
            counters: target.counters,
            report: target.report,
            volume: self.grid.volume,
            reserved: 0,
        };
        let block_voxels = (WRITE_THREADS / 32) << UNIT_SHIFT;
        let blocks = job.volume.div_ceil(block_voxels).min(WRITE_BLOCKS * self.multiprocessors);
        let arguments = &mut [ptr::from_mut(&mut job).cast()];
        // SAFETY: as for the count; the row is of one of the stream's slots, and is not read until
        // the encode is done.
        unsafe { self.write.launch(stream, blocks, WRITE_THREADS, arguments) }
    }

    /// The number of points per voxel, for whoever counts without writing.
    pub fn counts(&self) -> &DeviceBuffer {
        &self.counts
    }
}
