//! Point clouds into rows on the device: `kernels/voxelize_*.cu`, the twin of
//! [`crate::backend::cpu::voxelize`].

mod count;
mod job;
mod values;

use std::sync::Arc;

use self::count::Counting;
use self::job::{
    CHANNEL_COUNT, CHANNEL_MAX, CHANNEL_MEAN, CHANNEL_OCCUPANCY, COUNTERS_BYTES, Channel, Channels,
    Cloud, DeviceGrid, Field, INLINE_CHANNELS, NO_COLUMN, POINTS_ALIGNMENT, REPORT_BYTES, Report,
    Sources, are_words, padding_after, points_of,
};
use self::values::Sorting;
use super::driver::{Device, Event, Stream};
use super::memory::{DeviceBuffer, PinnedBuffer, Staging, bytes_of};
use crate::backend::cpu::voxelize::{MAX_SUMMED, check_view};
use crate::backend::{BackendError, EncodeReport};
use crate::config::{CloudSpec, Reduction};
use crate::decode::DecodeError;
use crate::decode::cloud::{CloudView, coordinate, extra_fields};
use crate::dtype::DType;
use crate::stats::DropReason;

/// Encodes the clouds of one stream into the rows of its slots.
pub struct Voxelizer {
    t_base_lidar: [[f32; 4]; 3],
    dtype: DType,
    columns: usize,
    channels: Channels,
    /// Kept for its memory.
    _more_channels: DeviceBuffer,
    method: Method,
    counters: DeviceBuffer,
    report: PinnedBuffer,
    staging: Staging,
    fields: Vec<Field>,
    done: Event,
}

enum Method {
    Count(Box<Counting>),
    Values(Box<Sorting>),
}

/// Where a cloud goes.
struct Target {
    slot: usize,
    /// Where the row of the slot stands.
    row: u64,
    counters: u64,
    report: u64,
    /// Whether nothing that may still run writes the upload.
    inputs_ready: bool,
}

/// The columns that clouds of a stream have, and its channels.
fn channels_of(spec: &CloudSpec) -> (usize, Vec<Channel>) {
    let extras: Vec<&str> = extra_fields(spec).collect();
    // `extra_fields` lists every field that is not a coordinate.
    let column = |name: &str| {
        let extra = || extras.iter().position(|extra| *extra == name).map(|at| at + 3);
        coordinate(name).or_else(extra).unwrap_or(0) as u32
    };
    let of = |kind, name: &str, limit| Channel { kind, column: column(name), limit, reserved: 0 };
    let channel = |reduction: &Reduction| match reduction {
        Reduction::Count => Channel::without_values(CHANNEL_COUNT),
        Reduction::Occupancy => Channel::without_values(CHANNEL_OCCUPANCY),
        Reduction::Mean(name) => of(CHANNEL_MEAN, name, MAX_SUMMED),
        Reduction::Max(name) => of(CHANNEL_MAX, name, f32::MAX),
    };
    (3 + extras.len(), spec.channels.iter().map(channel).collect())
}

impl Voxelizer {
    /// A voxelizer for rows `[channels, z, y, x]` of `dtype` in `slots` slots, all zero at first.
    pub fn new(
        device: &Arc<Device>,
        spec: &CloudSpec,
        dtype: DType,
        slots: usize,
    ) -> Result<Self, BackendError> {
        let grid = DeviceGrid::from(&spec.grid);
        let (columns, channels) = channels_of(spec);
        let more = channels.get(INLINE_CHANNELS..).unwrap_or_default();
        let more = DeviceBuffer::from_bytes(device, bytes_of(more))?;
        let method = match channels.iter().any(|channel| channel.column != NO_COLUMN) {
            true => {
                let sorting = Sorting::new(device, grid, channels.len(), dtype, slots)?;
                Method::Values(Box::new(sorting))
            }
            false => Method::Count(Box::new(Counting::new(device, grid, dtype, slots)?)),
        };
        Ok(Voxelizer {
            t_base_lidar: spec.t_base_lidar,
            dtype,
            columns,
            channels: Channels::new(&channels, more.address()),
            _more_channels: more,
            method,
            counters: DeviceBuffer::new(device, COUNTERS_BYTES)?,
            report: PinnedBuffer::new(device, REPORT_BYTES)?,
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
        check_view(view, self.columns)?;
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
        // The kernels write what is not zero, and the last ones are done.
        self.report.fill(0);
        self.staging.send(stream)?;
        let upload = self.staging.address();
        self.launch(view, upload, (slot, row), false, stream)?;
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

    /// Writes a cloud, uploaded to `upload`, into the row of a slot, which stands at `row`.
    /// `inputs_ready`: nothing that may still run on the stream writes the upload.
    pub(super) fn launch(
        &mut self,
        view: &CloudView<'_>,
        upload: u64,
        (slot, row): (usize, u64),
        inputs_ready: bool,
        stream: &Stream,
    ) -> Result<(), BackendError> {
        let (counters, report) = (self.counters.address(), self.report.address());
        let target = Target { slot, row, counters, report, inputs_ready };
        let (cloud, words) = (Cloud::new(view, upload, &self.t_base_lidar), are_words(view));
        match &mut self.method {
            Method::Count(counting) => {
                counting.launch_count(cloud, words, counters, stream)?;
                counting.launch_write(self.channels, &target, stream)
            }
            Method::Values(sorting) => {
                let sources = Sources::new(&self.channels, view.fields, words);
                sorting.launch(cloud, (words, sources), self.channels, &target, stream)
            }
        }
    }

    /// Adds the points of a cloud, uploaded to `upload`, to the counts, and writes no row.
    ///
    /// # Panics
    /// Where channels have values.
    pub(super) fn launch_count(
        &mut self,
        view: &CloudView<'_>,
        upload: u64,
        stream: &Stream,
    ) -> Result<(), BackendError> {
        let cloud = Cloud::new(view, upload, &self.t_base_lidar);
        let Method::Count(counting) = &mut self.method else { panic!("channels have values") };
        counting.launch_count(cloud, are_words(view), self.counters.address(), stream)
    }

    /// The number of points per voxel that [`Voxelizer::launch_count`] has added.
    ///
    /// # Panics
    /// Where channels have values.
    pub(super) fn counts(&self) -> &DeviceBuffer {
        let Method::Count(counting) = &self.method else { panic!("channels have values") };
        counting.counts()
    }
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
