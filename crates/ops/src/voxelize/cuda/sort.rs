//! Clouds whose points have values: `kernels/voxelize/sort.cu` and `reduce.cu`.

use std::sync::Arc;

use super::Target;
use super::count::kernel_of_rows;
use super::job::{PointLayout, are_one_pack_of_means};
use super::sift::Sifting;
use crate::align::Slot;
use crate::device::shared::voxelize::reduce::{
    REDUCE_BYTES, Reduce, Sifted as ReduceSifted, VOXEL_BYTES,
};
use crate::device::shared::voxelize::sort::{Sifted as SortSifted, Sort, Sources, THREADS};
use crate::device::shared::voxelize::{Bins, Channels, Cloud, Grid, Listing, Sorted, VOXEL_BLOCK};
use crate::device::{Device, DeviceBuffer, DeviceError, Inputs, Kernel, Launch, Stream};
use crate::dtype::DType;
use crate::voxelize::VoxelSpec;
use crate::voxelize::memory::{
    FEW, LARGE_SUB_BIN_SHIFT, MANY, MOST_BIN_BITS, SMALL_SUB_BIN_SHIFT, SortedBytes, bins_of,
    sorted_points,
};

/// Bytes of shared memory of a thread block that sorts, for each point.
const POINT_BYTES: u32 = 20;

/// Tables that a sort reads beside the cloud.
pub(super) struct SortTables {
    /// Values that the channels are made of.
    pub(super) sources: Sources,
    pub(super) channels: Channels,
    /// Address of the shapes of the filter.
    pub(super) shapes: u64,
}

/// Sorts the points of clouds, and reduces their values.
pub(super) struct Sorting {
    /// By [`PointLayout`], for [`FEW`] and [`MANY`] points per thread.
    sort: [[Kernel; 2]; 3],
    reduce: Kernel,
    /// Shared memory of its thread blocks.
    shared: u32,
    bins: Bins,
    sorted: Buffers,
    /// Per slot, and sub-bin: a bit for each voxel block in which its row holds something.
    occupied: Vec<DeviceBuffer>,
    grid: Grid,
    multiprocessors: u32,
    /// If more is asked for than means and maxima of all points.
    sifting: Option<Sifting>,
}

/// Memory for the points of a sorted cloud.
struct Buffers {
    points: usize,
    voxels: DeviceBuffer,
    values: DeviceBuffer,
    segments: DeviceBuffer,
    crowds: DeviceBuffer,
    crowd_values: DeviceBuffer,
}

impl Buffers {
    fn new(
        device: &Arc<Device>,
        points: usize,
        channels: usize,
        bins: &Bins,
    ) -> Result<Self, DeviceError> {
        let bytes = SortedBytes::new(points, channels, bins);
        Ok(Buffers {
            points,
            voxels: DeviceBuffer::new(device, bytes.voxels)?,
            values: DeviceBuffer::new(device, bytes.values)?,
            segments: DeviceBuffer::new(device, bytes.segments)?,
            crowds: DeviceBuffer::new(device, bytes.crowds)?,
            crowd_values: DeviceBuffer::new(device, bytes.crowd_values)?,
        })
    }
}

impl Sorting {
    pub(super) fn new(
        device: &Arc<Device>,
        grid: Grid,
        spec: &VoxelSpec,
        dtype: DType,
        slots: usize,
        max_points: usize,
    ) -> Result<Self, DeviceError> {
        let sifts = spec.is_sifted();
        let is_list = spec.max_voxels.is_some();
        let large =
            (reduce_bytes(LARGE_SUB_BIN_SHIFT, is_list) as usize) <= device.shared_bytes(2)?;
        let most = if large { LARGE_SUB_BIN_SHIFT } else { SMALL_SUB_BIN_SHIFT };
        let bins = bins_of(grid.volume, most);
        let sifted = if sifts { "_sifted" } else { "" };
        let reduce =
            kernel_of_rows(device, &format!("voxelize_reduce{sifted}_{}", 1 << most), dtype)?;
        reduce.allow_shared(reduce_bytes(most, sifts))?;
        let pair = |points: &str| {
            let sort = if sifts { "sift" } else { "sort" };
            let kernel = |each| device.kernel(&format!("voxelize_{sort}_{points}_points_{each}"));
            let kernels = [kernel(FEW)?, kernel(MANY)?];
            for kernel in &kernels {
                // What any grid needs: the limit is the kernel's, and so that of all streams.
                kernel.allow_shared(THREADS * MANY * POINT_BYTES + (4 << MOST_BIN_BITS))?;
            }
            Ok::<_, DeviceError>(kernels)
        };
        let occupied_bytes = 4 * (sub_bins(&bins) * occupancy_words(&bins)) as usize;
        // A list is of one cloud, whatever slot it is for.
        let rows = if spec.max_voxels.is_some() { 1 } else { slots };
        let occupied = (0..rows).map(|_| DeviceBuffer::new(device, occupied_bytes));
        let sifting = || Sifting::new(device, spec, dtype, &bins, slots, max_points);
        let sifting = sifts.then(sifting).transpose()?;
        let channels = spec.channels.len();
        Ok(Sorting {
            sort: [pair("f32")?, pair("any")?, pair("wide")?],
            reduce,
            shared: reduce_bytes(most, is_list),
            sorted: Buffers::new(device, sorted_points(max_points), channels, &bins)?,
            sifting,
            bins,
            occupied: occupied.collect::<Result<_, _>>()?,
            grid,
            multiprocessors: device.multiprocessors(),
        })
    }

    /// Sorts a cloud, and writes it into its row.
    ///
    /// # Errors
    /// Those of the device, also if the cloud has more points than there is memory for.
    ///
    /// # Safety
    /// The cloud and the row of `target` are valid on the device until the launch is done;
    /// the layout and the tables are theirs.
    pub(super) unsafe fn launch(
        &mut self,
        cloud: Cloud,
        layout: PointLayout,
        tables: SortTables,
        target: &Target,
        inputs: Inputs,
        stream: &Stream,
    ) -> Result<(), DeviceError> {
        let SortTables { sources, channels, shapes } = tables;
        let count = cloud.count;
        let few = count <= self.multiprocessors * THREADS * FEW;
        let each = if few { FEW } else { MANY };
        let tile_points = THREADS * each;
        let tiles = count.div_ceil(tile_points);
        let points = (tiles * tile_points) as usize;
        if points > self.sorted.points {
            let detail = format!("expected at most {} points, found {count}", self.sorted.points);
            return Err(DeviceError::Failed { operation: "take a cloud", detail });
        }
        let sorted = Sorted {
            voxels: self.sorted.voxels.address(),
            values: self.sorted.values.address(),
            segments: self.sorted.segments.address(),
            crowds: self.sorted.crowds.address(),
            crowd_values: self.sorted.crowd_values.address(),
            tiles,
            tile_points,
        };
        let keeps_last = self.sifting.as_ref().is_some_and(Sifting::keeps_last);
        let job = Sort {
            cloud,
            grid: self.grid,
            bins: self.bins,
            sources,
            channels,
            to: sorted,
            counters: target.counters,
            // The sort keeps last points where the cloud before may still read its own.
            inputs_ready: if keeps_last { 0 } else { inputs.are_ready() },
            reserved: 0,
        };
        let kernel = &self.sort[layout as usize][usize::from(!few)];
        let launch =
            Launch { blocks: tiles, threads: THREADS, shared: sort_bytes(&self.bins, each) };
        // SAFETY: the parameter is that of the kernels. The buffers are of this voxelizer and sized
        // for these tiles; the caller answers for the cloud.
        unsafe {
            match &self.sifting {
                None => kernel.launch_job(stream, launch, &job)?,
                Some(sifting) => {
                    let sieve = sifting.sieve(shapes);
                    let last = sifting.last();
                    let tally = target.counters;
                    let job = SortSifted { sort: job, sieve, last, tally, reserved: 0 };
                    kernel.launch_job(stream, launch, &job)?;
                }
            }
        }
        // SAFETY: the caller answers for the row.
        unsafe { self.launch_reduce(sorted, channels, target, stream) }
    }

    /// # Safety
    /// As for [`Sorting::launch`].
    unsafe fn launch_reduce(
        &mut self,
        from: Sorted,
        channels: Channels,
        target: &Target,
        stream: &Stream,
    ) -> Result<(), DeviceError> {
        let job = Reduce {
            bins: self.bins,
            from,
            channels,
            occupied: self.occupied_of(target.slot).address(),
            row: target.row,
            counters: target.counters,
            report: target.report,
            volume: self.grid.volume,
            all_means: u32::from(are_one_pack_of_means(&channels)),
        };
        let sub_bins = sub_bins(&self.bins);
        let launch = |blocks| Launch { blocks, threads: THREADS, shared: self.shared };
        let Some(sifting) = &mut self.sifting else {
            // One thread block for each sub-bin, and one that reports.
            // SAFETY: as for the sort; the caller answers for the row.
            return unsafe {
                match job.from.tiles {
                    0 => self.reduce.launch_job(stream, launch(sub_bins + 1), &job),
                    _ => self.reduce.follow_job(stream, launch(sub_bins + 1), &job),
                }
            };
        };
        let listing = sifting.listing(target.slot);
        let job = ReduceSifted {
            reduce: Reduce { all_means: 0, ..job },
            last: sifting.last(),
            list: listing.unwrap_or(NO_LIST),
            tally: target.counters,
            min_points: sifting.min_points,
            is_list: u32::from(listing.is_some()),
        };
        // SAFETY: as above.
        unsafe {
            match job.reduce.from.tiles {
                0 => self.reduce.launch_job(stream, launch(sub_bins), &job)?,
                _ => self.reduce.follow_job(stream, launch(sub_bins), &job)?,
            }
            sifting.launch_end(target, stream)
        }
    }

    /// In which voxel blocks the row of a slot holds something, or the list that all slots share.
    fn occupied_of(&self, slot: Slot) -> &DeviceBuffer {
        let is_list = self.sifting.as_ref().is_some_and(Sifting::is_list);
        &self.occupied[if is_list { 0 } else { slot.index() }]
    }

    /// Marks of the voxels that hold something in the row of a slot.
    pub(super) fn occupied(&self, slot: Slot) -> &DeviceBuffer {
        let listed = self.sifting.as_ref().and_then(|sifting| sifting.forget(slot));
        listed.unwrap_or_else(|| self.occupied_of(slot))
    }
}

/// In place of a list for rows that are dense.
const NO_LIST: Listing = Listing {
    masks: 0,
    firsts: 0,
    features: 0,
    totals: 0,
    held: 0,
    before: 0,
    phase: 0,
    tiles: 0,
    tile_shift: 0,
    channels: 0,
};

/// Sub-bins of all bins.
fn sub_bins(bins: &Bins) -> u32 {
    bins.bin_count << (bins.bin_shift - bins.sub_bin_shift)
}

/// Words with a bit for each voxel block of a sub-bin.
fn occupancy_words(bins: &Bins) -> u32 {
    ((1 << bins.sub_bin_shift) / (VOXEL_BLOCK * 32)).max(1)
}

/// Shared memory of a thread block that sorts `each` points per thread: values and voxels of the
/// points, and where the bins start.
fn sort_bytes(bins: &Bins, each: u32) -> u32 {
    THREADS * each * POINT_BYTES + 4 * bins.bin_count
}

/// Shared memory of a thread block that reduces sub-bins of up to 2^`most` voxels; for a list it has two
/// words per voxel block more.
fn reduce_bytes(most: u32, is_list: bool) -> u32 {
    let entries = if is_list { 2 * 4 * (1 << most) / VOXEL_BLOCK } else { 0 };
    (VOXEL_BYTES << most) + REDUCE_BYTES + entries
}

#[cfg(test)]
mod tests;
