//! Point clouds into rows on the device: `kernels/voxelize_scatter.cu` and `voxelize_finish.cu`,
//! the twin of [`crate::backend::cpu::voxelize`].

mod job;

use std::ptr;
use std::sync::Arc;

use self::job::{
    Accumulators, CHANNEL_MAX, CHANNEL_MEAN, COUNTERS_BYTES, Channel, Cloud, DeviceGrid, Field,
    Finish, INLINE_CHANNELS, INLINE_COLUMNS, POINTS_ALIGNMENT, REPORT_BYTES, Report, Scatter,
    are_words, padding_after, points_of,
};
use super::driver::{Device, Event, Kernel, Stream};
use super::memory::{DeviceBuffer, PinnedBuffer, Staging, bytes_of};
use crate::backend::cpu::voxelize::{MAX_SUMMED, check_view};
use crate::backend::{BackendError, EncodeReport};
use crate::config::{CloudSpec, Reduction};
use crate::decode::DecodeError;
use crate::decode::cloud::{CloudView, coordinate, extra_fields};
use crate::dtype::DType;
use crate::stats::DropReason;

/// Threads of a block, as in the kernels.
const SCATTER_THREADS: u32 = 1024;
const FINISH_THREADS: u32 = 128;
/// Scattering blocks per multiprocessor, at most: what runs at once, as every block marks bins.
const SCATTER_BLOCKS: u32 = 1;
/// Finishing blocks per multiprocessor, at most.
const FINISH_BLOCKS: u32 = 64;
/// log2 of the voxels of a unit, which a warp finishes.
const UNIT_SHIFT: u32 = 8;
/// log2 of the voxels of a bin, unless the grid has more than [`MOST_BINS`] of them.
const BIN_SHIFT: u32 = 10;
/// Bins whose bits, 16 KiB, fit the 48 KiB of shared memory of a block beside the 17 KiB that the
/// kernels take by themselves.
const MOST_BINS: usize = 1 << 17;
/// Copies of the marks, and words from one to the next.
const MARK_COPIES: usize = 8;
const MARK_STRIDE: usize = 8;

/// Encodes the clouds of one stream into the rows of its slots.
pub struct Voxelizer {
    grid: DeviceGrid,
    t_base_lidar: [[f32; 4]; 3],
    dtype: DType,
    plan: Plan,
    kernels: Kernels,
    multiprocessors: u32,
    /// Claims, counts, sums, maxima, marks.
    memory: [DeviceBuffer; 5],
    accumulators: Accumulators,
    /// Columns that sums and maxima take.
    sources: DeviceBuffer,
    /// Channels from [`INLINE_CHANNELS`] on.
    more_channels: DeviceBuffer,
    counters: DeviceBuffer,
    report: PinnedBuffer,
    /// Per slot and unit: in which bricks its row holds values.
    held: Vec<DeviceBuffer>,
    staging: Staging,
    fields: Vec<Field>,
    done: Event,
}

/// For points that are words, and for all others.
struct Kernels {
    /// None where there are more columns than kernels know.
    scatter_words: Option<Kernel>,
    scatter_fields: Kernel,
    finish_words: Kernel,
    finish_fields: Kernel,
}

/// Which sums and maxima the channels of a stream need.
#[derive(Default)]
struct Plan {
    columns: usize,
    channels: Vec<Channel>,
    /// The columns that are summed, and of which the greatest is sought.
    sums: Vec<u32>,
    maxima: Vec<u32>,
}

impl Plan {
    fn new(spec: &CloudSpec) -> Self {
        let extras: Vec<&str> = extra_fields(spec).collect();
        // `extra_fields` lists every field that is not a coordinate.
        let column = |name: &str| {
            let extra = || extras.iter().position(|extra| *extra == name).map(|at| at + 3);
            coordinate(name).or_else(extra).unwrap_or(0) as u32
        };
        let mut plan = Plan { columns: 3 + extras.len(), ..Plan::default() };
        for reduction in &spec.channels {
            let (kind, column, entry) = match reduction {
                Reduction::Count => (0, 0, 0),
                Reduction::Occupancy => (1, 0, 0),
                Reduction::Mean(name) => {
                    (CHANNEL_MEAN, column(name), entry(&mut plan.sums, column(name)))
                }
                Reduction::Max(name) => {
                    (CHANNEL_MAX, column(name), entry(&mut plan.maxima, column(name)))
                }
            };
            plan.channels.push(Channel { kind, column, entry, offset: 0 });
        }
        plan
    }

    /// Whether points have values that are to be kept, and not only to be counted.
    fn has_values(&self) -> bool {
        !(self.sums.is_empty() && self.maxima.is_empty())
    }

    /// Sums of a voxel, with padding: a power of two, so that four of them are one sector of
    /// memory.
    fn sum_stride(&self) -> usize {
        self.sums.len().next_power_of_two()
    }

    /// The greatest magnitudes that the first columns may have.
    fn limits(&self) -> [f32; INLINE_COLUMNS] {
        let is_summed = |column: usize| self.sums.contains(&(column as u32));
        std::array::from_fn(|column| if is_summed(column) { MAX_SUMMED } else { f32::MAX })
    }

    /// Whether [`Kernels::finish_words`] will do for a cloud of words: it reads fields at offsets
    /// of 32 bits, and no coordinates, which would have to be transformed.
    fn finishes_words(&self, view: &CloudView<'_>) -> bool {
        let takes_field = |channel: &Channel| {
            !matches!(channel.kind, CHANNEL_MEAN | CHANNEL_MAX) || channel.column >= 3
        };
        self.channels.len() <= INLINE_CHANNELS
            && self.channels.iter().all(takes_field)
            && points_of(view).len() <= u32::MAX as usize
    }

    fn kernels(&self, device: &Arc<Device>, dtype: DType) -> Result<Kernels, BackendError> {
        let values = self.has_values();
        let scatter_words = match (values, self.columns) {
            (false, 3) => Some("voxelize_count_3"),
            (true, 3) => Some("voxelize_claim_3"),
            (true, 4) => Some("voxelize_claim_4"),
            (true, 5) => Some("voxelize_claim_5"),
            (true, 6) => Some("voxelize_claim_6"),
            (true, 7) => Some("voxelize_claim_7"),
            _ => None,
        };
        let scatter_fields = if values { "voxelize_claim_any" } else { "voxelize_count_any" };
        let (words, fields) = match (values, dtype) {
            (false, DType::F32) => ("voxelize_counts_f32", "voxelize_counts_f32"),
            (false, DType::F16) => ("voxelize_counts_f16", "voxelize_counts_f16"),
            (false, DType::Bf16) => ("voxelize_counts_bf16", "voxelize_counts_bf16"),
            (true, DType::F32) => ("voxelize_words_f32", "voxelize_fields_f32"),
            (true, DType::F16) => ("voxelize_words_f16", "voxelize_fields_f16"),
            (true, DType::Bf16) => ("voxelize_words_bf16", "voxelize_fields_bf16"),
        };
        Ok(Kernels {
            scatter_words: scatter_words.map(|name| device.kernel(name)).transpose()?,
            scatter_fields: device.kernel(scatter_fields)?,
            finish_words: device.kernel(words)?,
            finish_fields: device.kernel(fields)?,
        })
    }
}

/// The position of `column` in `entries`, where it is put unless it is there.
fn entry(entries: &mut Vec<u32>, column: u32) -> u32 {
    let known = entries.iter().position(|entry| *entry == column);
    known.unwrap_or_else(|| {
        entries.push(column);
        entries.len() - 1
    }) as u32
}

impl Voxelizer {
    /// A voxelizer for rows `[channels, z, y, x]` of `dtype` in `slots` slots, all zero at first.
    pub fn new(
        device: &Arc<Device>,
        spec: &CloudSpec,
        dtype: DType,
        slots: usize,
    ) -> Result<Self, BackendError> {
        let plan = Plan::new(spec);
        let grid = DeviceGrid::from(&spec.grid);
        let reserve = |bytes: usize| DeviceBuffer::new(device, bytes);
        let (memory, accumulators) = reserve_accumulators(&plan, grid.volume as usize, reserve)?;
        let units = (accumulators.bin_count as usize) << (accumulators.bin_shift - UNIT_SHIFT);
        let sources: Vec<u32> = plan.sums.iter().chain(&plan.maxima).copied().collect();
        let more_channels = plan.channels.get(INLINE_CHANNELS..).unwrap_or_default();
        Ok(Voxelizer {
            grid,
            t_base_lidar: spec.t_base_lidar,
            dtype,
            kernels: plan.kernels(device, dtype)?,
            multiprocessors: device.multiprocessors(),
            memory,
            accumulators,
            sources: DeviceBuffer::from_bytes(device, bytes_of(&sources))?,
            more_channels: DeviceBuffer::from_bytes(device, bytes_of(more_channels))?,
            counters: reserve(COUNTERS_BYTES)?,
            report: PinnedBuffer::new(device, REPORT_BYTES)?,
            held: (0..slots).map(|_| reserve(units)).collect::<Result<_, _>>()?,
            staging: Staging::new(device)?,
            fields: Vec::new(),
            done: Event::new(device, false)?,
            plan,
        })
    }

    /// Writes the cloud as the row of `slot`, which stands at `row`, and waits for it: whether the
    /// row may be used is known only then.
    pub fn encode(
        &mut self,
        view: &CloudView<'_>,
        slot: usize,
        row: u64,
        stream: &Stream,
    ) -> Result<EncodeReport, BackendError> {
        check_view(view, self.plan.columns)?;
        self.fill(view, stream)?;
        self.start(view, slot, row, stream)
    }

    /// The part of [`Voxelizer::encode`] after the cloud's bytes are in pinned memory.
    pub(super) fn start(
        &mut self,
        view: &CloudView<'_>,
        slot: usize,
        row: u64,
        stream: &Stream,
    ) -> Result<EncodeReport, BackendError> {
        // The kernels add to it, and the last ones are done.
        self.report.fill(0);
        self.staging.send(stream)?;
        let upload = self.staging.address();
        self.launch_scatter(view, upload, stream)?;
        self.launch_finish(view, upload, slot, row, stream)?;
        self.done.record(stream)?;
        self.done.synchronize("voxelize a cloud")?;
        let report = Report::read(&self.report);
        if report.beyond != 0 {
            let (at, name) = (report.beyond - 1, self.dtype.name());
            let value = f32::from_bits(report.beyond_bits);
            let detail = format!("channel {at}: expected a value that {name} holds, found {value}");
            return Err(DecodeError::new(DropReason::OutOfRange, detail).into());
        }
        Ok(EncodeReport {
            points_non_finite: u64::from(report.non_finite),
            points_out_of_range: u64::from(report.out_of_range),
            points_outside: u64::from(report.outside),
        })
    }

    fn fill(&mut self, view: &CloudView<'_>, stream: &Stream) -> Result<(), BackendError> {
        self.fields.clear();
        self.fields.extend(view.fields.iter().map(Field::from));
        self.staging.fill(&parts_of(&self.fields, view), stream)
    }

    /// Has the points of a cloud, uploaded to `upload`, claim their voxels.
    pub(super) fn launch_scatter(
        &mut self,
        view: &CloudView<'_>,
        upload: u64,
        stream: &Stream,
    ) -> Result<(), BackendError> {
        self.accumulators.turn ^= 1;
        let mut job = Scatter {
            cloud: Cloud::new(view, upload, &self.t_base_lidar),
            grid: self.grid,
            to: self.accumulators,
            counters: self.counters.address(),
            sources: self.sources.address(),
            limits: self.plan.limits(),
        };
        let kernel = match &self.kernels.scatter_words {
            Some(kernel) if are_words(view) => kernel,
            _ => &self.kernels.scatter_fields,
        };
        let blocks = job.cloud.count.div_ceil(SCATTER_THREADS);
        let blocks = blocks.min(SCATTER_BLOCKS * self.multiprocessors);
        let shared = 4 * self.accumulators.bin_count.div_ceil(32);
        let arguments = &mut [ptr::from_mut(&mut job).cast()];
        // SAFETY: the argument is that of the kernels. All buffers are of this voxelizer and sized
        // for its grid, and the upload holds every point of the view.
        unsafe { kernel.launch_with(stream, blocks, SCATTER_THREADS, shared, arguments) }
    }

    /// Writes what has been scattered into the row of `slot`, which stands at `row`.
    pub(super) fn launch_finish(
        &mut self,
        view: &CloudView<'_>,
        upload: u64,
        slot: usize,
        row: u64,
        stream: &Stream,
    ) -> Result<(), BackendError> {
        let cloud = Cloud::new(view, upload, &self.t_base_lidar);
        let channel = |at: usize| {
            let channel = self.plan.channels.get(at).copied().unwrap_or_default();
            let field = view.fields.get(channel.column as usize);
            Channel { offset: field.map_or(0, |field| field.offset as u32), ..channel }
        };
        let mut job = Finish {
            cloud,
            from: self.accumulators,
            held: self.held[slot].address(),
            more: self.more_channels.address(),
            row,
            counters: self.counters.address(),
            report: self.report.address(),
            channel_count: self.plan.channels.len() as u32,
            volume: self.grid.volume,
            first: std::array::from_fn(channel),
        };
        let kernel = match are_words(view) && self.plan.finishes_words(view) {
            true => &self.kernels.finish_words,
            false => &self.kernels.finish_fields,
        };
        let block_voxels = (FINISH_THREADS / 32) << UNIT_SHIFT;
        let blocks = job.volume.div_ceil(block_voxels).min(FINISH_BLOCKS * self.multiprocessors);
        let arguments = &mut [ptr::from_mut(&mut job).cast()];
        // SAFETY: as for the scatter; the row is of one of the stream's slots, and is not read
        // until the encode is done.
        unsafe { kernel.launch(stream, blocks, FINISH_THREADS, arguments) }
    }

    /// The claims, which are counts where there are no values, for whoever scatters without
    /// finishing.
    pub(super) fn claims(&self) -> &DeviceBuffer {
        &self.memory[0]
    }
}

/// Claims, counts, sums, maxima and marks of a grid of `volume` voxels, and what kernels are told
/// of them.
fn reserve_accumulators(
    plan: &Plan,
    volume: usize,
    reserve: impl Fn(usize) -> Result<DeviceBuffer, BackendError>,
) -> Result<([DeviceBuffer; 5], Accumulators), BackendError> {
    let bin_shift = (BIN_SHIFT..).find(|shift| volume >> shift <= MOST_BINS).unwrap_or(31);
    let bins = volume.div_ceil(1 << bin_shift);
    // Whole bins, so that no access has to look at the end.
    let voxels = bins << bin_shift;
    let claims = reserve(4 * voxels)?;
    let counts = reserve(if plan.has_values() { 4 * voxels } else { 0 })?;
    let sum_bytes = if plan.sums.is_empty() { 0 } else { 8 * plan.sum_stride() };
    let sums = reserve(sum_bytes * voxels)?;
    let maxima = reserve(4 * plan.maxima.len() * voxels)?;
    let marks = reserve(2 * 4 * bins.div_ceil(32) * MARK_COPIES * MARK_STRIDE)?;
    let accumulators = Accumulators {
        claims: claims.address(),
        counts: counts.address(),
        sums: sums.address(),
        maxima: maxima.address(),
        marks: marks.address(),
        sum_count: plan.sums.len() as u32,
        sum_shift: plan.sum_stride().trailing_zeros(),
        max_count: plan.maxima.len() as u32,
        turn: 0,
        bin_shift,
        bin_count: bins as u32,
    };
    Ok(([claims, counts, sums, maxima, marks], accumulators))
}

/// What the kernels expect of a cloud, in parts: its fields, padding, and its points.
fn parts_of<'a>(fields: &'a [Field], view: &CloudView<'a>) -> [&'a [u8]; 3] {
    let fields = bytes_of(fields);
    [fields, &[0; POINTS_ALIGNMENT][..padding_after(fields.len())], points_of(view)]
}

/// The bytes that the kernels expect of a cloud.
pub(super) fn upload_of(view: &CloudView<'_>) -> Vec<u8> {
    let fields: Vec<Field> = view.fields.iter().map(Field::from).collect();
    parts_of(&fields, view).concat()
}
