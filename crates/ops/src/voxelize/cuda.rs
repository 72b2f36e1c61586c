//! Points to voxel grids on the GPU: `kernels/voxelize/`, the twin of [`super::cpu`].
//!
//! `kernels/voxelize/README.md` explains how it works, and the words.

mod buckets;
mod count;
mod deskew;
mod job;
mod scatter;
mod sift;
mod sort;
mod staged;

use std::sync::Arc;

pub use self::job::{DevicePoints, bytes_of_points};
pub use self::scatter::{Scatter, Words};

use self::count::Counting;
use self::deskew::{Deskewing, StagedSweep};
use self::sort::{SortTables, Sorting};
use self::staged::Staged;
use super::filter::Filter;
use super::memory::{pack, packed_fields, shape_bytes, sweep_bytes, tables_at, upload_bytes};
use super::sparse::SparseRow;
use super::spec::{
    FieldAt, Grid, PointDrops, PointsView, VoxelSpec, VoxelizeError, check_view, extra_fields,
};
use crate::align::Slot;
use crate::device::shared::voxelize::{
    Channels, Field, INLINE_CHANNELS, NONE, Report, Shape, Tally,
};
use crate::device::{
    Device, DeviceBuffer, DeviceError, Event, Inputs, PinnedBuffer, RowPlace, Staging, Stream,
    bytes_of,
};
use crate::dtype::DType;

/// Why a cloud did not become a row.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum EncodeError {
    /// The cloud is at fault.
    #[error(transparent)]
    Cloud(#[from] VoxelizeError),
    /// The GPU is.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// Turns clouds into the rows of its slots, on one stream.
///
/// A slot is a row that is written again and again: the voxelizer knows in which voxel blocks the row holds something,
/// and clears no others. If the content of a row is unknown, the caller must call [`Voxelizer::forget`].
pub struct Voxelizer {
    grid: Grid,
    dtype: DType,
    /// Bytes of a row.
    row_bytes: usize,
    channels: Channels,
    /// Kept for its memory.
    _more_channels: DeviceBuffer,
    method: Method,
    counters: DeviceBuffer,
    /// The kernels write what is not zero.
    report: PinnedBuffer,
    /// Event after the last cloud: it has happened if that is done.
    done: Event,
    staging: Staging,
    staged: Staged,
    deskewing: Deskewing,
    /// Fields that a cloud must have.
    columns: usize,
    /// Fields as the kernels know them: the content of `fields_on_device`.
    fields: Vec<Field>,
    fields_on_device: DeviceBuffer,
    filter: Filter,
    /// Voxels of a sparse row.
    max_voxels: Option<u32>,
    /// The shapes of the filter, for clouds that are on the device: the content of `shapes_on_device`.
    shapes: Vec<Shape>,
    shapes_on_device: DeviceBuffer,
}

enum Method {
    /// All channels are counts or occupancies.
    Count(Box<Counting>),
    /// Some have values.
    Sort(Box<Sorting>),
}

/// Destination of a cloud.
struct Target {
    slot: Slot,
    /// The address of the slot's row.
    row: u64,
    /// Of a [`Tally`], which starts with the counters of clouds that are not sifted.
    counters: u64,
    report: u64,
}

impl Voxelizer {
    /// A voxelizer for rows `[channels, z, y, x]` of `dtype`, or sparse ones ([`SparseRow`]), in `slots`
    /// slots, all zero at first. It reserves all memory for clouds of at most `max_points` points.
    ///
    /// # Panics
    /// As [`Grid::volume`](super::Grid::volume).
    pub fn new(
        device: &Arc<Device>,
        spec: &VoxelSpec,
        dtype: DType,
        slots: usize,
        max_points: usize,
    ) -> Result<Self, DeviceError> {
        let grid = job::grid(&spec.grid);
        let channels = job::channels(spec);
        let more = channels.get(INLINE_CHANNELS as usize..).unwrap_or_default();
        let more = DeviceBuffer::from_bytes(device, bytes_of(more))?;
        let has_values = channels.iter().any(|channel| channel.column != NONE);
        let method = match has_values || spec.is_sifted() {
            true => {
                let sorting = Sorting::new(device, grid, spec, dtype, slots, max_points)?;
                Method::Sort(Box::new(sorting))
            }
            false => {
                Method::Count(Box::new(Counting::new(device, grid, dtype, slots, max_points)?))
            }
        };
        let columns = 3 + extra_fields(spec).count();
        let dense = || channels.len() * spec.grid.volume() * dtype.size();
        let shapes = shape_bytes(spec.filter.shapes.len());
        Ok(Voxelizer {
            grid: spec.grid,
            dtype,
            row_bytes: SparseRow::new(spec, dtype).map_or_else(dense, |row| row.bytes()),
            channels: job::parameter(&channels, more.address()),
            _more_channels: more,
            method,
            counters: DeviceBuffer::new(device, size_of::<Tally>())?,
            report: PinnedBuffer::new(device, size_of::<Report>())?,
            done: Event::new(device, false)?,
            staging: Staging::new(device, upload_bytes(columns, max_points) + shapes)?,
            staged: Staged { fields: Vec::with_capacity(columns + 1), ..Staged::default() },
            deskewing: Deskewing::new(device)?,
            columns,
            fields: Vec::with_capacity(columns),
            fields_on_device: DeviceBuffer::new(device, columns * size_of::<Field>())?,
            filter: spec.filter.clone(),
            max_voxels: spec.max_voxels.map(|most| most as u32),
            shapes: Vec::new(),
            shapes_on_device: DeviceBuffer::new(device, shapes)?,
        })
    }

    /// Reserves memory for the sweeps of clouds of at most `max_points` points, too.
    pub fn with_sweeps(
        mut self,
        device: &Arc<Device>,
        max_points: usize,
    ) -> Result<Self, DeviceError> {
        let bytes = self.staging.capacity() + sweep_bytes(max_points);
        self.staging = Staging::new(device, bytes)?;
        Ok(self)
    }

    /// Bytes of a row.
    pub fn row_bytes(&self) -> usize {
        self.row_bytes
    }

    /// Writes a cloud as the row of `slot`, which is `at` bytes from the start of `rows`, and waits until it is done.
    /// Only then is it known whether the row may be used.
    ///
    /// # Panics
    /// When there is no such slot, or the row is not inside `rows`.
    pub fn encode(
        &mut self,
        view: &PointsView<'_>,
        slot: Slot,
        row: RowPlace<'_>,
        stream: &Stream,
    ) -> Result<PointDrops, EncodeError> {
        self.stage(view)?;
        self.start(slot, row, stream)?;
        self.finish(stream)
    }

    /// The first part of [`Voxelizer::encode`]: checks the cloud and takes its bytes. If they are
    /// more than there is memory for, because the points have other fields too, it takes the fields
    /// of the specification alone.
    ///
    /// # Errors
    /// Those of [`check_view`] and of the device, also if the cloud has more points than there is
    /// memory for.
    pub fn stage(&mut self, view: &PointsView<'_>) -> Result<(), EncodeError> {
        self.check(view)?;
        self.staging.wait()?;
        Ok(self.take(view)?)
    }

    /// Takes the bytes of a cloud that was checked, and notes how its points are laid out.
    fn take(&mut self, view: &PointsView<'_>) -> Result<(), DeviceError> {
        let bytes = bytes_of_points(view);
        let staged = &mut self.staged;
        (staged.width, staged.height) = (view.width, view.height);
        staged.big_endian = view.big_endian;
        staged.t_base_sensor = view.t_base_sensor;
        staged.sweep = view.sweep.as_ref().map(StagedSweep::of);
        staged.knots.clear();
        if let Some(sweep) = &view.sweep {
            deskew::knots(sweep, &mut staged.knots);
        }
        sift::shapes(&self.filter, view.t_shapes, &mut staged.shapes);
        let tables = [bytes_of(&staged.knots), bytes_of(&staged.shapes)];
        let table_bytes = tables[0].len() + tables[1].len();
        let gap = [0; 16];
        let gap = match table_bytes {
            0 => &[][..],
            _ => &gap[..tables_at(bytes.len()) - bytes.len()],
        };
        if bytes.len() + gap.len() + table_bytes <= self.staging.capacity() {
            staged.fields.clear();
            staged.fields.extend_from_slice(view.fields);
            (staged.point_step, staged.row_step) = (view.point_step, view.row_step);
            return self.staging.fill([bytes, gap, tables[0], tables[1]].into_iter());
        }
        let times = view.sweep.iter().map(|sweep| sweep.time);
        let used: Vec<FieldAt> = view.fields.iter().copied().chain(times).collect();
        let step = packed_fields(&used, &mut staged.fields);
        (staged.point_step, staged.row_step) = (step, view.width * step);
        let len = view.width * view.height * step;
        let all = if table_bytes == 0 { len } else { tables_at(len) + table_bytes };
        let place = self.staging.place(all)?;
        pack(&PointsView { fields: &used, ..*view }, &staged.fields, step, &mut place[..len]);
        let (knots, shapes) = place[all - table_bytes..].split_at_mut(tables[0].len());
        knots.copy_from_slice(tables[0]);
        shapes.copy_from_slice(tables[1]);
        if let Some(sweep) = &mut staged.sweep
            && let Some(time) = staged.fields.pop()
        {
            sweep.time = time;
        }
        Ok(())
    }

    /// Checks what the kernels rely on.
    fn check(&self, view: &PointsView<'_>) -> Result<(), VoxelizeError> {
        check_view(view, self.columns, self.filter.shapes.len())
    }

    /// Notes that the caller has waited for the stream of the last cloud.
    pub fn settled(&mut self) {
        self.staging.settled();
    }

    /// As [`Voxelizer::stage`], after [`Voxelizer::settled`]: makes no call of the driver.
    ///
    /// # Errors
    /// As [`Voxelizer::stage`]: an error of the device means that the cloud is larger than the memory.
    pub fn restage(&mut self, view: &PointsView<'_>) -> Result<(), EncodeError> {
        self.check(view)?;
        Ok(self.take(view)?)
    }

    /// The second part of [`Voxelizer::encode`], for the cloud that was staged last. The row may be
    /// used after [`Voxelizer::finish`].
    ///
    /// # Panics
    /// When there is no such slot, the row is not inside `rows`, or no cloud was staged.
    pub fn start(
        &mut self,
        slot: Slot,
        row: RowPlace<'_>,
        stream: &Stream,
    ) -> Result<(), EncodeError> {
        let RowPlace { rows, at } = row;
        let end = at.checked_add(self.row_bytes);
        assert!(end.is_some_and(|end| end <= rows.len()), "voxelize: the row is not inside");
        // Apart from `self` while `self` launches; afterwards it is put back.
        let staged = std::mem::take(&mut self.staged);
        let cloud = staged.view();
        assert!(staged.len() == self.staging.len(), "voxelize: no cloud was staged");
        self.staging.send(stream)?;
        let points = DevicePoints::of(&cloud, self.staging.address());
        let row = rows.address() + at as u64;
        // SAFETY: the upload holds every point of the cloud, its knots and its shapes. It and the rows
        // wait for the device before they go.
        let launched = unsafe {
            self.deskew(&points, staged.sweep.as_ref(), staged.point_bytes(), stream).and_then(
                |()| {
                    let shapes = self.staging.address() + staged.shapes_at() as u64;
                    self.launch_with(&points, shapes, slot, row, Inputs::MayBeInFlight, stream)
                },
            )
        };
        self.staged = staged;
        launched
    }

    /// Moves the points of a sweep, whose knots are behind `len` bytes of points.
    ///
    /// # Safety
    /// The points and the knots are in the staging memory.
    unsafe fn deskew(
        &self,
        points: &DevicePoints<'_>,
        sweep: Option<&StagedSweep>,
        len: usize,
        stream: &Stream,
    ) -> Result<(), EncodeError> {
        let Some(sweep) = sweep else { return Ok(()) };
        let inside = |at: &FieldAt| at.offset + at.kind.size() <= points.point_step;
        let all = points.fields[..3].iter().chain([&sweep.time]).all(inside);
        assert!(all, "voxelize: a field is not inside its point");
        let counters = self.counters.address();
        // SAFETY: the caller answers for the points; the fields are inside of them.
        unsafe { self.deskewing.launch(points, len, sweep, counters, stream)? };
        Ok(())
    }

    /// Waits for the last cloud that was put on `stream`, and returns what happened to its points.
    ///
    /// # Errors
    /// [`VoxelizeError::Value`] where the row must not be used.
    pub fn finish(&mut self, stream: &Stream) -> Result<PointDrops, EncodeError> {
        self.done.record(stream)?;
        self.done.synchronize("voxelize a cloud")?;
        Ok(self.outcome()?)
    }

    /// As [`Voxelizer::finish`], for a caller that has waited for the stream.
    ///
    /// # Errors
    /// [`VoxelizeError::Value`] where the row must not be used.
    pub fn outcome(&mut self) -> Result<PointDrops, VoxelizeError> {
        let words = self.report.as_chunks::<4>().0;
        let word = |at: usize| u32::from_ne_bytes(words[at]);
        let [non_finite, out_of_range, outside, not_swept] =
            [0, 1, 2, 3].map(|at| u64::from(word(at)));
        let non_finite = non_finite.saturating_sub(not_swept);
        let out_of_range = out_of_range + not_swept;
        let beyond = word(4);
        let bits = word(5);
        let [out_of_reach, cropped, on_robot, too_few] = [6, 7, 8, 9].map(|at| u64::from(word(at)));
        let voxels = word(10);
        // For the next cloud: the kernels write what is not zero.
        self.report.fill(0);
        if let Some(channel) = beyond.checked_sub(1) {
            let channel = channel as usize;
            let dtype = self.dtype;
            let value = f32::from_bits(bits);
            return Err(VoxelizeError::Value { channel, dtype, value });
        }
        let voxels_in_use = self.max_voxels.map_or(0, |most| voxels.min(most));
        Ok(PointDrops {
            non_finite,
            out_of_range,
            outside,
            out_of_reach,
            cropped,
            on_robot,
            too_few,
            voxels_beyond: u64::from(voxels - voxels_in_use),
            voxels_in_use,
        })
    }

    /// Puts a cloud that is on the device on `stream`, as the row of `slot`, which is at address
    /// `row`. Fields or poses of shapes that differ from those of the last cloud make it wait.
    ///
    /// # Errors
    /// Those of [`check_view`] and of the device. [`Voxelizer::finish`] returns the counts of the points.
    ///
    /// # Safety
    /// Until the launch is done, the points and the row, aligned to 16 bytes, are valid on the
    /// device, nothing else writes the points, and nothing else uses the row. The row is as the
    /// last launch for this slot left it, or all zero before the first one. `inputs` is
    /// [`Inputs::Ready`] only if no kernel that may still run writes the points. All launches of
    /// this voxelizer are on one stream.
    ///
    /// # Panics
    /// When there is no such slot.
    pub unsafe fn launch(
        &mut self,
        points: &DevicePoints<'_>,
        slot: Slot,
        row: u64,
        inputs: Inputs,
        stream: &Stream,
    ) -> Result<(), EncodeError> {
        self.set_shapes(points.t_shapes, stream)?;
        let shapes = self.shapes_on_device.address();
        // SAFETY: the caller promises the same.
        unsafe { self.launch_with(points, shapes, slot, row, inputs, stream) }
    }

    /// Launches the encoding of a cloud, with the shapes of the filter at `shapes` on the device.
    ///
    /// # Safety
    /// As for [`Voxelizer::launch`]; the shapes stay as well.
    unsafe fn launch_with(
        &mut self,
        points: &DevicePoints<'_>,
        shapes: u64,
        slot: Slot,
        row: u64,
        inputs: Inputs,
        stream: &Stream,
    ) -> Result<(), EncodeError> {
        let cloud = self.cloud(points, stream)?;
        let layout = points.layout(&self.grid);
        let counters = self.counters.address();
        let report = self.report.address();
        let target = Target { slot, row, counters, report };
        match &mut self.method {
            // SAFETY: the caller answers for the points and the row.
            Method::Count(counting) => unsafe {
                counting.launch(cloud, layout, self.channels, &target, inputs, stream)?;
            },
            Method::Sort(sorting) => {
                let sources = job::sources(&self.channels, points, layout);
                // SAFETY: as above.
                unsafe {
                    let tables = SortTables { sources, channels: self.channels, shapes };
                    sorting.launch(cloud, layout, tables, &target, inputs, stream)?;
                }
            }
        }
        Ok(())
    }

    /// Notes that something else has written the row of `slot`: the next launch writes all of it.
    ///
    /// # Panics
    /// When there is no such slot.
    pub fn forget(&mut self, slot: Slot, stream: &Stream) -> Result<(), DeviceError> {
        let occupied = match &self.method {
            Method::Count(counting) => counting.occupied(slot),
            Method::Sort(sorting) => sorting.occupied(slot),
        };
        // As if every voxel block held something.
        occupied.fill_on(0xFF, stream)
    }

    /// Tells the device of the fields of clouds. A launch does so too, where they are new to it; it
    /// then waits, which a launch that is recorded into a graph must not.
    pub fn set_fields(&mut self, fields: &[FieldAt], stream: &Stream) -> Result<(), EncodeError> {
        let found = fields.len();
        if found != self.columns {
            return Err(VoxelizeError::Fields { expected: self.columns, found }.into());
        }
        let same = |(known, new): (&Field, &FieldAt)| *known == job::field(new);
        if self.fields.len() == found && self.fields.iter().zip(fields).all(same) {
            return Ok(());
        }
        // An earlier launch may still read them.
        stream.synchronize("finish earlier clouds")?;
        self.fields.clear();
        self.fields.extend(fields.iter().map(job::field));
        Ok(self.fields_on_device.write(bytes_of(&self.fields))?)
    }

    /// Tells the device where the shapes of the filter are. As with [`Voxelizer::set_fields`], a launch
    /// does so too.
    ///
    /// # Errors
    /// [`VoxelizeError::Shapes`] and those of the device.
    pub fn set_shapes(
        &mut self,
        t_shapes: &[[[f64; 4]; 3]],
        stream: &Stream,
    ) -> Result<(), EncodeError> {
        let expected = self.filter.shapes.len();
        let found = t_shapes.len();
        if found < expected {
            return Err(VoxelizeError::Shapes { expected, found }.into());
        }
        let mut shapes = Vec::new();
        sift::shapes(&self.filter, t_shapes, &mut shapes);
        if bytes_of(&shapes) == bytes_of(&self.shapes) {
            return Ok(());
        }
        // An earlier launch may still read them.
        stream.synchronize("finish earlier clouds")?;
        self.shapes = shapes;
        Ok(self.shapes_on_device.write(bytes_of(&self.shapes))?)
    }

    /// The cloud for the kernels.
    fn cloud(
        &mut self,
        points: &DevicePoints<'_>,
        stream: &Stream,
    ) -> Result<crate::device::shared::voxelize::Cloud, EncodeError> {
        check_view(&points.view(), self.columns, 0)?;
        let inside = |at: &FieldAt| at.offset + at.kind.size() <= points.point_step;
        assert!(points.fields.iter().all(inside), "voxelize: a field is not inside its point");
        self.set_fields(points.fields, stream)?;
        Ok(points.job(self.fields_on_device.address()))
    }
}
