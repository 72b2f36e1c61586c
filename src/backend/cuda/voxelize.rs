//! Point clouds into rows on the device: `kernels/voxelize.cu`, the twin of
//! [`crate::backend::cpu::voxelize`].

use std::ptr;
use std::sync::Arc;

use super::driver::{Device, Event, Kernel, Stream};
use super::memory::{DeviceBuffer, PinnedBuffer, Plain, Staging, bytes_of};
use crate::backend::cpu::voxelize::check_view;
use crate::backend::{BackendError, EncodeReport};
use crate::config::{CloudSpec, Grid, Reduction};
use crate::decode::DecodeError;
use crate::decode::cloud::{CloudView, FieldAt, FieldType, coordinate, extra_fields};
use crate::dtype::DType;
use crate::stats::DropReason;

const THREADS: u32 = 256;
/// log2 of the voxels of a bin: at most 32 bricks of 32 voxels, and one at least.
const BIN_SHIFTS: std::ops::RangeInclusive<u32> = 5..=10;
/// Lists of a bin, and words between the fill counts of two bins.
const LISTS: usize = 8;
const FILL_STRIDE: usize = 8;
/// Bytes of a point up to which those of a block are fetched together.
const STAGED_BYTES: usize = 32;
/// Shared memory of a block, of which six then fit on a multiprocessor of 228 KiB.
const BIN_BYTES: usize = 37 << 10;
/// "Not asked for" in [`Column`].
const NONE: u32 = u32::MAX;
/// Blocks of the finishing kernel per multiprocessor, at most: more than fit at once, so that the
/// device balances bins of unequal fill.
const FINISH_BLOCKS: usize = 16;

/// `Field` in `kernels/voxelize.cu`, as are the next ones.
#[repr(C)]
#[derive(Clone, Copy)]
struct Field {
    offset: u32,
    kind: u32,
}

// SAFETY: two numbers of one size.
unsafe impl Plain for Field {}

#[repr(C)]
#[derive(Clone, Copy)]
struct Channel {
    kind: u32,
    entry: u32,
}

// SAFETY: two numbers of one size.
unsafe impl Plain for Channel {}

#[repr(C)]
#[derive(Clone, Copy)]
struct Column {
    sum: u32,
    max: u32,
}

// SAFETY: two numbers of one size.
unsafe impl Plain for Column {}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Counters {
    non_finite: u32,
    out_of_range: u32,
    outside: u32,
    beyond: u32,
    beyond_bits: u32,
    blocks_done: u32,
    reserved: [u32; 2],
}

#[repr(C)]
#[derive(Clone, Copy)]
struct DeviceGrid {
    origin: [f32; 3],
    size: f32,
    shape: [f32; 3],
    row: u32,
    plane: u32,
    volume: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Accumulators {
    counts: u64,
    sums: u64,
    maxima: u64,
    fills: u64,
    records: u64,
    sum_count: u32,
    sum_shift: u32,
    max_count: u32,
    epoch: u32,
    bin_shift: u32,
    capacity: u32,
    record_words: u32,
    bin_count: u32,
}

#[repr(C)]
struct Scatter {
    points: u64,
    fields: u64,
    columns: u64,
    row_step: u64,
    width: u32,
    count: u32,
    point_step: u32,
    column_count: u32,
    big_endian: u32,
    words: u32,
    staged: u32,
    reserved: u32,
    t: [[f32; 4]; 3],
    grid: DeviceGrid,
    to: Accumulators,
    counters: u64,
}

#[repr(C)]
struct Finish {
    from: Accumulators,
    held: u64,
    channels: u64,
    row: u64,
    counters: u64,
    report: u64,
    channel_count: u32,
    volume: u32,
    dtype: u32,
    reserved: u32,
}

/// Encodes the clouds of one stream into the rows of its slots.
pub struct Voxelizer {
    grid: Grid,
    t_base_lidar: [[f32; 4]; 3],
    dtype: DType,
    column_count: usize,
    channel_count: usize,
    scatter: Kernel,
    finish: Kernel,
    finish_blocks: u32,
    /// Bytes of shared memory that the finishing kernel takes.
    bin_bytes: u32,
    /// Memory of the accumulators: counts, sums, maxima, fills, records.
    memory: [DeviceBuffer; 5],
    accumulators: Accumulators,
    columns: DeviceBuffer,
    channels: DeviceBuffer,
    counters: DeviceBuffer,
    report: PinnedBuffer,
    /// Per slot and bin: in which bricks its row holds values.
    held: Vec<DeviceBuffer>,
    staging: Staging,
    fields: Vec<Field>,
    done: Event,
}

/// Which sums and maxima the channels of a stream need.
struct Plan {
    columns: Vec<Column>,
    channels: Vec<Channel>,
    sums: u32,
    maxima: u32,
}

impl Plan {
    fn new(spec: &CloudSpec) -> Self {
        let extras: Vec<&str> = extra_fields(spec).collect();
        // `extra_fields` lists every field that is not a coordinate.
        let column = |name: &str| {
            let extra = || extras.iter().position(|extra| *extra == name).map(|at| at + 3);
            coordinate(name).or_else(extra).unwrap_or(0)
        };
        let columns = vec![Column { sum: NONE, max: NONE }; 3 + extras.len()];
        let mut plan = Plan { columns, channels: Vec::new(), sums: 0, maxima: 0 };
        for reduction in &spec.channels {
            let channel = match reduction {
                Reduction::Count => Channel { kind: 0, entry: 0 },
                Reduction::Occupancy => Channel { kind: 1, entry: 0 },
                Reduction::Mean(name) => {
                    let entry = entry(&mut plan.columns[column(name)].sum, &mut plan.sums);
                    Channel { kind: 2, entry }
                }
                Reduction::Max(name) => {
                    let entry = entry(&mut plan.columns[column(name)].max, &mut plan.maxima);
                    Channel { kind: 3, entry }
                }
            };
            plan.channels.push(channel);
        }
        plan
    }

    /// Sums of a voxel, with padding: a power of two, so that four of them are one sector of
    /// memory.
    fn sum_stride(&self) -> u32 {
        self.sums.max(1).next_power_of_two()
    }

    /// Words of shared memory per voxel: its count, its sums in two halves, its maxima.
    fn voxel_words(&self) -> usize {
        1 + 2 * self.sums as usize + self.maxima as usize
    }

    /// log2 of the voxels of a bin: as many as fit the shared memory of a block.
    fn bin_shift(&self) -> Result<u32, BackendError> {
        let fits = |shift: &u32| (4 * self.voxel_words()) << shift <= BIN_BYTES;
        BIN_SHIFTS.rev().find(fits).ok_or_else(|| {
            let most = (BIN_BYTES >> BIN_SHIFTS.start()) / 4 - 1;
            let found = self.voxel_words() - 1;
            let detail = format!(
                "voxel channels: expected at most {most} words of sums (2 each) and maxima (1), \
                 found {found}"
            );
            BackendError::Failed { backend: super::NAME, operation: "plan a voxel grid", detail }
        })
    }

    /// Records of a list, and their words: the voxel in the bin, values to sum, values to compare.
    /// Counts alone are quicker without.
    fn records(&self, bin_shift: u32) -> (u32, u32) {
        match self.sums + self.maxima {
            0 => (0, 4),
            values => (32.max(1 << bin_shift >> 4), (1 + values).next_multiple_of(4)),
        }
    }

    /// The kernel for this number of columns.
    fn scatter_kernel(&self) -> &'static str {
        match self.columns.len() {
            3 => "voxelize_scatter_3",
            4 => "voxelize_scatter_4",
            5 => "voxelize_scatter_5",
            7 => "voxelize_scatter_7",
            _ => "voxelize_scatter_any",
        }
    }
}

/// The number in `slot`, or else the next one of `count`.
fn entry(slot: &mut u32, count: &mut u32) -> u32 {
    if *slot == NONE {
        *slot = *count;
        *count += 1;
    }
    *slot
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
        let volume: usize = spec.grid.shape.iter().product();
        let bin_shift = plan.bin_shift()?;
        let bins = volume.div_ceil(1 << bin_shift);
        let (capacity, record_words) = plan.records(bin_shift);
        let reserve = |bytes: usize| DeviceBuffer::new(device, bytes);
        let counts = reserve(4 * volume)?;
        let sum_bytes = if plan.sums == 0 { 0 } else { 8 * plan.sum_stride() as usize };
        let sums = reserve(sum_bytes * volume)?;
        let maxima = reserve(4 * plan.maxima as usize * volume)?;
        let fills = reserve(4 * LISTS * FILL_STRIDE * bins)?;
        let records = reserve(4 * bins * LISTS * (capacity * record_words) as usize)?;
        let accumulators = Accumulators {
            fills: fills.address(),
            records: records.address(),
            bin_shift,
            capacity,
            record_words,
            bin_count: bins as u32,
            counts: counts.address(),
            sums: sums.address(),
            maxima: maxima.address(),
            sum_count: plan.sums,
            sum_shift: plan.sum_stride().trailing_zeros(),
            max_count: plan.maxima,
            epoch: 0,
        };
        let finish = match dtype {
            DType::F32 => "voxelize_finish_f32",
            DType::F16 => "voxelize_finish_f16",
            DType::Bf16 => "voxelize_finish_bf16",
        };
        let held = (0..slots).map(|_| reserve(4 * bins));
        Ok(Voxelizer {
            grid: spec.grid,
            t_base_lidar: spec.t_base_lidar,
            dtype,
            column_count: plan.columns.len(),
            channel_count: plan.channels.len(),
            scatter: device.kernel(plan.scatter_kernel())?,
            finish: device.kernel(finish)?,
            finish_blocks: bins.min(FINISH_BLOCKS * device.multiprocessors() as usize) as u32,
            bin_bytes: (4 * plan.voxel_words() as u32) << bin_shift,
            memory: [counts, sums, maxima, fills, records],
            accumulators,
            columns: DeviceBuffer::from_bytes(device, bytes_of(&plan.columns))?,
            channels: DeviceBuffer::from_bytes(device, bytes_of(&plan.channels))?,
            counters: reserve(size_of::<Counters>())?,
            report: PinnedBuffer::new(device, size_of::<Counters>())?,
            held: held.collect::<Result<_, _>>()?,
            staging: Staging::new(device)?,
            fields: Vec::new(),
            done: Event::new(device, false)?,
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
        check_view(view, self.column_count)?;
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
        self.staging.send(stream)?;
        let upload = self.staging.address();
        self.launch_scatter(view, upload, stream)?;
        self.launch_finish(slot, row, stream)?;
        self.done.record(stream)?;
        self.done.synchronize("voxelize a cloud")?;
        let report = self.read_report();
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
        self.fields.extend(view.fields.iter().map(field));
        let fields = bytes_of(&self.fields);
        let padding = &[0; POINTS_ALIGNMENT][..padding_after(fields.len())];
        self.staging.fill(&[fields, padding, points_of(view)], stream)
    }

    /// Adds the points of a cloud, uploaded to `upload`, to the bins.
    pub(super) fn launch_scatter(
        &mut self,
        view: &CloudView<'_>,
        upload: u64,
        stream: &Stream,
    ) -> Result<(), BackendError> {
        self.next_epoch();
        let count = (view.width * view.height) as u32;
        let fields = size_of::<Field>() * self.column_count;
        let mut job = Scatter {
            points: upload + (fields + padding_after(fields)) as u64,
            fields: upload,
            columns: self.columns.address(),
            row_step: if is_dense(view) { 0 } else { view.row_step as u64 },
            width: view.width as u32,
            count,
            point_step: view.point_step as u32,
            column_count: self.column_count as u32,
            big_endian: u32::from(view.big_endian),
            words: u32::from(are_words(view)),
            staged: u32::from(are_words(view) && is_dense(view) && view.point_step <= STAGED_BYTES),
            reserved: 0,
            t: self.t_base_lidar,
            grid: device_grid(&self.grid),
            to: self.accumulators,
            counters: self.counters.address(),
        };
        let arguments = &mut [ptr::from_mut(&mut job).cast()];
        // SAFETY: the argument is that of the kernel. All buffers are of this voxelizer and sized
        // for its grid, and the upload holds every point of the view.
        unsafe { self.scatter.launch(stream, count.div_ceil(THREADS), THREADS, arguments) }
    }

    /// Writes what has been scattered into the row of `slot`, which stands at `row`.
    pub(super) fn launch_finish(
        &mut self,
        slot: usize,
        row: u64,
        stream: &Stream,
    ) -> Result<(), BackendError> {
        let mut job = Finish {
            from: self.accumulators,
            held: self.held[slot].address(),
            channels: self.channels.address(),
            row,
            counters: self.counters.address(),
            report: self.report.address(),
            channel_count: self.channel_count as u32,
            volume: device_grid(&self.grid).volume,
            dtype: self.dtype as u32,
            reserved: 0,
        };
        let arguments = &mut [ptr::from_mut(&mut job).cast()];
        // SAFETY: as for the scatter; the row is of one of the stream's slots, and is not read
        // until the encode is done.
        unsafe {
            self.finish.launch_with(
                stream,
                self.finish_blocks,
                THREADS,
                self.bin_bytes,
                arguments,
            )?
        };
        Ok(())
    }

    /// Starts counting clouds from 1 again, for whoever replays launches.
    pub(super) fn restart_epochs(&mut self) {
        self.accumulators.epoch = 0;
    }

    /// The counts of points, for whoever scatters without finishing.
    pub(super) fn counts(&self) -> &DeviceBuffer {
        &self.memory[0]
    }

    /// Numbers the cloud at hand, from 1: what marks a bin as touched where it holds no records.
    fn next_epoch(&mut self) {
        self.accumulators.epoch = self.accumulators.epoch.checked_add(1).unwrap_or(1);
    }

    fn read_report(&self) -> Counters {
        let mut words = self.report.as_chunks::<4>().0.iter().map(|word| u32::from_ne_bytes(*word));
        let mut next = || words.next().unwrap_or(0);
        Counters {
            non_finite: next(),
            out_of_range: next(),
            outside: next(),
            beyond: next(),
            beyond_bits: next(),
            ..Counters::default()
        }
    }
}

/// The bytes that the kernels expect of a cloud: its fields, then its points.
pub(super) fn upload_of(view: &CloudView<'_>) -> Vec<u8> {
    let fields: Vec<Field> = view.fields.iter().map(field).collect();
    let mut bytes = bytes_of(&fields).to_vec();
    bytes.resize(bytes.len() + padding_after(bytes.len()), 0);
    bytes.extend_from_slice(points_of(view));
    bytes
}

fn field(at: &FieldAt) -> Field {
    Field { offset: at.offset as u32, kind: at.kind as u32 }
}

/// Points start at multiples of this in the upload.
const POINTS_ALIGNMENT: usize = 16;

fn padding_after(len: usize) -> usize {
    len.next_multiple_of(POINTS_ALIGNMENT) - len
}

/// Whether rows follow each other without padding, as one long row.
fn is_dense(view: &CloudView<'_>) -> bool {
    view.width * view.point_step == view.row_step
}

/// The bytes from the first to the last point.
fn points_of<'a>(view: &CloudView<'a>) -> &'a [u8] {
    if view.width == 0 || view.height == 0 {
        return &[];
    }
    &view.data[..(view.height - 1) * view.row_step + view.width * view.point_step]
}

/// Whether every used field is a little-endian float at a multiple of four bytes.
fn are_words(view: &CloudView<'_>) -> bool {
    let word = |field: &FieldAt| field.kind == FieldType::Float32 && field.offset.is_multiple_of(4);
    let aligned =
        view.point_step.is_multiple_of(4) && (is_dense(view) || view.row_step.is_multiple_of(4));
    !view.big_endian && aligned && view.fields.iter().all(word)
}

fn device_grid(grid: &Grid) -> DeviceGrid {
    let [x, y, z] = grid.shape;
    DeviceGrid {
        origin: grid.origin_m,
        size: grid.size_m,
        shape: grid.shape.map(|n| n as f32),
        row: x as u32,
        plane: (x * y) as u32,
        volume: (x * y * z) as u32,
    }
}
