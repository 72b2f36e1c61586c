//! Clouds whose points are only counted: `kernels/voxelize/count.cu` and `write_counts.cu`.

use std::sync::Arc;

use super::Target;
use super::buckets::Bucketing;
use super::job::PointLayout;
use crate::align::Slot;
use crate::device::shared::common::WARP;
use crate::device::shared::voxelize::count::{Count, THREADS as COUNT_THREADS};
use crate::device::shared::voxelize::write_counts::{THREADS as WRITE_THREADS, WriteCounts};
use crate::device::shared::voxelize::{
    Channels, Cloud, Counted, Grid, SECTOR_WORDS, SPAN_SHIFT, TOUCHED_COPIES,
};
use crate::device::{Device, DeviceBuffer, DeviceError, Inputs, Kernel, Launch, Stream};
use crate::dtype::DType;

/// Counting thread blocks per multiprocessor, at most: what runs at once, as each notes touched
/// bins.
const COUNT_BLOCKS: u32 = 1;
/// Writing thread blocks per multiprocessor, at most.
const WRITE_BLOCKS: u32 = 64;
/// log2 of the voxels of a bin, unless the grid has more than [`MOST_BINS`] of them.
const BIN_SHIFT: u32 = 10;
/// Bins whose bits, 16 KiB, fit the 48 KiB of shared memory that a thread block has on every GPU.
const MOST_BINS: usize = 1 << 17;

/// Counts the points of clouds.
pub(super) struct Counting {
    /// By [`PointLayout`].
    count: [Kernel; 3],
    write: Kernel,
    /// Kept for its memory.
    _counts: DeviceBuffer,
    /// Kept for its memory.
    _touched: DeviceBuffer,
    counted: Counted,
    /// Per slot, and span of the grid: in which voxel blocks its row holds something.
    occupied: Vec<DeviceBuffer>,
    grid: Grid,
    multiprocessors: u32,
    /// For large clouds.
    bucketing: Option<Bucketing>,
}

/// The kernel of this family that writes rows of an element type. No configuration leads to another type.
pub(super) fn kernel_of_rows(
    device: &Arc<Device>,
    family: &str,
    dtype: DType,
) -> Result<Kernel, DeviceError> {
    if matches!(dtype, DType::U8 | DType::I32) {
        let detail = format!("expected rows of f32, f16 or bf16, found {}", dtype.name());
        return Err(DeviceError::Failed { operation: "make a voxelizer", detail });
    }
    device.kernel(&format!("{family}_{}", dtype.name()))
}

impl Counting {
    pub(super) fn new(
        device: &Arc<Device>,
        grid: Grid,
        dtype: DType,
        slots: usize,
        max_points: usize,
    ) -> Result<Self, DeviceError> {
        let volume = grid.volume as usize;
        let bin_shift = (BIN_SHIFT..31).find(|shift| volume >> shift <= MOST_BINS).unwrap_or(31);
        let bins = volume.div_ceil(1 << bin_shift);
        let reserve = |bytes: usize| DeviceBuffer::new(device, bytes);
        // Whole bins, so that no access has to look at the end.
        let counts = reserve(4 * (bins << bin_shift))?;
        let words = bins.div_ceil(WARP as usize) * (TOUCHED_COPIES * SECTOR_WORDS) as usize;
        let touched = reserve(2 * 4 * words)?;
        let counted = Counted {
            counts: counts.address(),
            touched: touched.address(),
            phase: 0,
            bin_shift,
            bin_count: bins as u32,
            reserved: 0,
        };
        let spans = bins << (bin_shift - SPAN_SHIFT);
        Ok(Counting {
            count: [
                device.kernel("voxelize_count_f32_points")?,
                device.kernel("voxelize_count_any_points")?,
                device.kernel("voxelize_count_wide_points")?,
            ],
            write: kernel_of_rows(device, "voxelize_write_counts", dtype)?,
            bucketing: Bucketing::new(device, grid, dtype, max_points, counts.address())?,
            _counts: counts,
            _touched: touched,
            counted,
            occupied: (0..slots).map(|_| reserve(spans)).collect::<Result<_, _>>()?,
            grid,
            multiprocessors: device.multiprocessors(),
        })
    }

    /// Counts a cloud, and writes the counts into its row.
    ///
    /// # Safety
    /// The cloud and the row of `target` are valid on the device until the launches are done, and the cloud is of
    /// this layout.
    pub(super) unsafe fn launch(
        &mut self,
        cloud: Cloud,
        layout: PointLayout,
        channels: Channels,
        target: &Target,
        inputs: Inputs,
        stream: &Stream,
    ) -> Result<(), DeviceError> {
        if let Some(bucketing) = &self.bucketing
            && bucketing.takes(&cloud, layout)
        {
            let occupied = self.occupied[target.slot.index()].address();
            // SAFETY: the caller promises the same.
            return unsafe { bucketing.launch(cloud, channels, occupied, target, inputs, stream) };
        }
        // SAFETY: as above.
        unsafe {
            self.launch_count(cloud, layout, target.counters, inputs, stream)?;
            self.launch_write(channels, target, cloud.count != 0, stream)
        }
    }

    /// Adds the points of a cloud to the counts.
    ///
    /// # Safety
    /// The cloud is valid on the device until the launch is done, and of this layout.
    unsafe fn launch_count(
        &mut self,
        cloud: Cloud,
        layout: PointLayout,
        counters: u64,
        inputs: Inputs,
        stream: &Stream,
    ) -> Result<(), DeviceError> {
        self.counted.phase ^= 1;
        let most = COUNT_BLOCKS * self.multiprocessors;
        let launch = Launch {
            blocks: cloud.count.div_ceil(COUNT_THREADS).min(most),
            threads: COUNT_THREADS,
            shared: 4 * self.counted.bin_count.div_ceil(WARP),
        };
        let job = Count {
            cloud,
            grid: self.grid,
            to: self.counted,
            counters,
            inputs_ready: inputs.are_ready(),
            reserved: 0,
        };
        let kernel = &self.count[layout as usize];
        // SAFETY: the parameter is that of the kernels. All buffers are of this voxelizer and sized
        // for its grid; the caller answers for the cloud.
        unsafe { kernel.launch_job(stream, launch, &job) }
    }

    /// Writes the counts into a row, and zeros them, just after the launch that counted.
    ///
    /// `counts`: whether the counting launch ran. A cloud without points has no such launch.
    ///
    /// # Safety
    /// The row of `target` is valid on the device until the launch is done.
    unsafe fn launch_write(
        &self,
        channels: Channels,
        target: &Target,
        counts: bool,
        stream: &Stream,
    ) -> Result<(), DeviceError> {
        let job = WriteCounts {
            channels,
            from: self.counted,
            occupied: self.occupied[target.slot.index()].address(),
            row: target.row,
            counters: target.counters,
            report: target.report,
            volume: self.grid.volume,
            reserved: 0,
        };
        let block_voxels = (WRITE_THREADS / WARP) << SPAN_SHIFT;
        let blocks = job.volume.div_ceil(block_voxels).min(WRITE_BLOCKS * self.multiprocessors);
        let launch = Launch { blocks, threads: WRITE_THREADS, shared: 0 };
        // SAFETY: as for the count; the caller answers for the row.
        unsafe {
            match counts {
                true => self.write.follow_job(stream, launch, &job),
                false => self.write.launch_job(stream, launch, &job),
            }
        }
    }

    /// Per slot: in which voxel blocks its row holds something.
    pub(super) fn occupied(&self, slot: Slot) -> &DeviceBuffer {
        &self.occupied[slot.index()]
    }
}
