//! Clouds whose points have values: `kernels/voxelize_sort.cu` and `voxelize_reduce.cu`.

use std::ptr;
use std::sync::Arc;

use super::Target;
use super::job::{Bins, Channels, Cloud, DeviceGrid, Reduce, SLICE, Sort, Sorted, Sources};
use crate::backend::BackendError;
use crate::backend::cuda::driver::{Device, Kernel, Stream};
use crate::backend::cuda::memory::DeviceBuffer;
use crate::dtype::DType;

/// Threads of a block, as in the kernels.
const THREADS: u32 = 512;
/// Points that a thread sorts: few where that fills the device, as tiles are as many.
const FEW: u32 = 2;
const MANY: u32 = 4;
/// log2 of the voxels of a brick, which are written together.
const BRICK_SHIFT: u32 = 5;
/// log2 of the bins that a grid should have, so that every multiprocessor has some.
const BIN_BITS: u32 = 8;
/// log2 of the bins that it has at most.
const MOST_BIN_BITS: u32 = 11;
/// log2 of the voxels of a unit at least; and at most, for the kernels there are: the larger ones
/// where a multiprocessor has shared memory for two of their blocks.
const LEAST_UNIT_SHIFT: u32 = 9;
const SMALL_UNIT_SHIFT: u32 = 11;
const LARGE_UNIT_SHIFT: u32 = 13;
/// Bytes of shared memory of a block that reduces, beside 10 for each voxel of the largest unit: as in
/// the kernels.
const REDUCE_BYTES: u32 = 28_944;
/// Bytes of shared memory of a block that sorts, for each point.
const POINT_BYTES: u32 = 20;
/// Clouds of up to this many points need no more memory than is reserved at the start.
const POINTS: usize = 1 << 19;

/// Sorts the points of clouds, and reduces their values.
pub struct Sorting {
    /// For [`FEW`] and [`MANY`] points per thread, of points that are words, and of all others.
    sort_words: [Kernel; 2],
    sort_fields: [Kernel; 2],
    reduce: Kernel,
    /// Shared memory of its blocks.
    shared: u32,
    bins: Bins,
    sorted: Buffers,
    /// Per slot, unit and brick: a bit for those in which its row holds values.
    held: Vec<DeviceBuffer>,
    grid: DeviceGrid,
    multiprocessors: u32,
}

/// Memory for the points of a sorted cloud.
struct Buffers {
    points: usize,
    voxels: DeviceBuffer,
    values: DeviceBuffer,
    runs: DeviceBuffer,
}

impl Buffers {
    fn new(
        device: &Arc<Device>,
        points: usize,
        channels: usize,
        bins: &Bins,
    ) -> Result<Self, BackendError> {
        let slices = channels.div_ceil(SLICE);
        // The smaller tiles are as many.
        let tiles = points.div_ceil((THREADS * FEW) as usize);
        Ok(Buffers {
            points,
            voxels: DeviceBuffer::new(device, 4 * points)?,
            values: DeviceBuffer::new(device, 4 * SLICE * slices * points)?,
            runs: DeviceBuffer::new(device, 4 * tiles * bins.bin_count as usize)?,
        })
    }
}

impl Sorting {
    pub fn new(
        device: &Arc<Device>,
        grid: DeviceGrid,
        channels: usize,
        dtype: DType,
        slots: usize,
    ) -> Result<Self, BackendError> {
        let large = (reduce_bytes(LARGE_UNIT_SHIFT) as usize) <= device.shared_bytes(2)?;
        let most = if large { LARGE_UNIT_SHIFT } else { SMALL_UNIT_SHIFT };
        let bins = Bins::new(grid.volume, most);
        let reduce = device.kernel(match (large, dtype) {
            (true, DType::F32) => "voxelize_reduce_8192_f32",
            (true, DType::F16) => "voxelize_reduce_8192_f16",
            (true, DType::Bf16) => "voxelize_reduce_8192_bf16",
            (false, DType::F32) => "voxelize_reduce_2048_f32",
            (false, DType::F16) => "voxelize_reduce_2048_f16",
            (false, DType::Bf16) => "voxelize_reduce_2048_bf16",
        })?;
        reduce.allow_shared(reduce_bytes(most))?;
        let pair = |few, many| {
            let kernels = [device.kernel(few)?, device.kernel(many)?];
            for kernel in &kernels {
                // What any grid needs: the limit is the kernel's, and so that of all streams.
                kernel.allow_shared(THREADS * MANY * POINT_BYTES + (4 << MOST_BIN_BITS))?;
            }
            Ok::<_, BackendError>(kernels)
        };
        let held_bytes = 4 * (bins.units() * bins.brick_words()) as usize;
        let held = (0..slots).map(|_| DeviceBuffer::new(device, held_bytes));
        Ok(Sorting {
            sort_words: pair("voxelize_sort_words_2", "voxelize_sort_words_4")?,
            sort_fields: pair("voxelize_sort_fields_2", "voxelize_sort_fields_4")?,
            reduce,
            shared: reduce_bytes(most),
            sorted: Buffers::new(device, POINTS, channels, &bins)?,
            bins,
            held: held.collect::<Result<_, _>>()?,
            grid,
            multiprocessors: device.multiprocessors(),
        })
    }

    /// Sorts an uploaded cloud, and writes it into its row. A cloud larger than all before makes it
    /// reserve more memory, and wait for all that is on `stream`.
    pub fn launch(
        &mut self,
        cloud: Cloud,
        (words, sources): (bool, Sources),
        channels: Channels,
        target: &Target,
        stream: &Stream,
    ) -> Result<(), BackendError> {
        let count = cloud.count;
        let few = count <= self.multiprocessors * THREADS * FEW;
        let tile_points = THREADS * if few { FEW } else { MANY };
        let tiles = count.div_ceil(tile_points);
        let points = (tiles * tile_points) as usize;
        if points > self.sorted.points {
            stream.synchronize("finish earlier clouds")?;
            let capacity = points.next_power_of_two();
            tracing::info!("reserving memory for clouds of {capacity} points");
            let channels = channels.count as usize;
            self.sorted = Buffers::new(stream.device(), capacity, channels, &self.bins)?;
        }
        let sorted = Sorted {
            voxels: self.sorted.voxels.address(),
            values: self.sorted.values.address(),
            runs: self.sorted.runs.address(),
            tiles,
            tile_points,
        };
        let mut job = Sort {
            cloud,
            grid: self.grid,
            bins: self.bins,
            sources,
            channels,
            to: sorted,
            counters: target.counters,
            inputs_ready: u32::from(target.inputs_ready),
            reserved: 0,
        };
        let [for_few, for_many] = if words { &self.sort_words } else { &self.sort_fields };
        let (kernel, each) = if few { (for_few, FEW) } else { (for_many, MANY) };
        let arguments = &mut [ptr::from_mut(&mut job).cast()];
        // SAFETY: the argument is that of the kernels. The buffers are of this voxelizer and sized
        // for these tiles, and the upload holds every point of the cloud.
        unsafe {
            kernel.launch_with(stream, tiles, THREADS, self.bins.sort_bytes(each), arguments)?;
        }
        self.launch_reduce(sorted, channels, target, stream)
    }

    fn launch_reduce(
        &self,
        from: Sorted,
        channels: Channels,
        target: &Target,
        stream: &Stream,
    ) -> Result<(), BackendError> {
        let mut job = Reduce {
            bins: self.bins,
            from,
            channels,
            held: self.held[target.slot].address(),
            row: target.row,
            counters: target.counters,
            report: target.report,
            volume: self.grid.volume,
            all_means: u32::from(channels.are_one_slice_of_means()),
        };
        let arguments = &mut [ptr::from_mut(&mut job).cast()];
        // One block for each unit, and one that reports.
        let blocks = self.bins.units() + 1;
        // SAFETY: as for the sort; the row is of one of the stream's slots, and is not read until
        // the encode is done.
        unsafe { self.reduce.launch_with(stream, blocks, THREADS, self.shared, arguments) }
    }
}

impl Bins {
    /// The bins of a grid, with units of up to 2^`most` voxels.
    fn new(volume: u32, most: u32) -> Self {
        let volume_bits = volume.max(1 << LEAST_UNIT_SHIFT).next_power_of_two().trailing_zeros();
        let wanted = volume_bits.saturating_sub(BIN_BITS).clamp(LEAST_UNIT_SHIFT, most);
        let bin_shift = wanted.max(volume_bits.saturating_sub(MOST_BIN_BITS));
        Bins {
            bin_shift,
            unit_shift: bin_shift.min(most),
            bin_count: 1 << (volume_bits - bin_shift),
            brick_mask: (1 << (volume_bits - BRICK_SHIFT)) - 1,
        }
    }

    /// Units of all bins.
    fn units(&self) -> u32 {
        self.bin_count << (self.bin_shift - self.unit_shift)
    }

    /// Words with a bit for each brick of a unit.
    fn brick_words(&self) -> u32 {
        ((1 << self.unit_shift) >> (BRICK_SHIFT + 5)).max(1)
    }

    /// Shared memory of a block that sorts `each` points per thread: values and voxels of the points,
    /// and where the bins start.
    fn sort_bytes(&self, each: u32) -> u32 {
        THREADS * each * POINT_BYTES + 4 * self.bin_count
    }
}

/// Shared memory of a block that reduces units of up to 2^`most` voxels: of each, a count and 8 bytes
/// of the tile.
fn reduce_bytes(most: u32) -> u32 {
    (10 << most) + REDUCE_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_usual_grid_has_a_bin_for_every_multiprocessor() {
        let bins = Bins::new(128 * 128 * 128, 13);
        assert_eq!((bins.bin_shift, bins.unit_shift, bins.bin_count), (13, 13, 256));
        assert_eq!((bins.brick_mask, bins.units(), bins.brick_words()), (65_535, 256, 8));
        let small = Bins::new(128 * 128 * 128, 11);
        assert_eq!((small.unit_shift, small.bin_count), (11, 1024));
    }

    #[test]
    fn bins_of_any_grid_hold_all_of_its_voxels() {
        for volume in [1, 31, 512, 513, 65_536, 2_097_153, 1 << 24, 1 << 27, i32::MAX as u32] {
            for most in [SMALL_UNIT_SHIFT, LARGE_UNIT_SHIFT] {
                let bins = Bins::new(volume, most);
                let voxels = u64::from(bins.bin_count) << bins.bin_shift;
                assert!(voxels >= u64::from(volume) && bins.bin_count <= 2048, "{bins:?}");
                assert_eq!(voxels, u64::from(bins.units()) << bins.unit_shift);
                assert_eq!(voxels, (u64::from(bins.brick_mask) + 1) * 32);
                assert!((9..=most).contains(&bins.unit_shift), "{bins:?}");
            }
        }
    }
}
