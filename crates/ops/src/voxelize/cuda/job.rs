//! Parameters of the kernels, from a specification and a cloud.

use crate::device::shared::voxelize::sort::Sources;
use crate::device::shared::voxelize::{
    CHANNEL_COUNT, CHANNEL_LAST, CHANNEL_MAX, CHANNEL_MEAN, CHANNEL_MIN, CHANNEL_OCCUPANCY,
    CHANNEL_PACK, CHANNEL_SUM, COLUMN_OFFSET, COLUMN_RANGE, Channel, Channels, Cloud, FLOAT32,
    FLOAT64, Field, Grid as GridJob, INT8, INT16, INT32, NONE, UINT8, UINT16, UINT32,
};
use crate::voxelize::{
    Feature, FieldAt, FieldType, Grid, MAX_SUMMED, PointsView, Precision, Reduction, VoxelSpec,
};

// The kernels name field types by the same codes.
const _: () = assert!(FieldType::Int8 as u32 == INT8 && FieldType::Uint8 as u32 == UINT8);
const _: () = assert!(FieldType::Int16 as u32 == INT16 && FieldType::Uint16 as u32 == UINT16);
const _: () = assert!(FieldType::Int32 as u32 == INT32 && FieldType::Uint32 as u32 == UINT32);
const _: () = assert!(FieldType::Float32 as u32 == FLOAT32 && FieldType::Float64 as u32 == FLOAT64);

/// Points on the device, with their layout: see [`PointsView`].
#[derive(Clone, Copy, Debug)]
pub struct DevicePoints<'a> {
    /// The first point.
    pub address: u64,
    /// Points per row of the cloud.
    pub width: usize,
    /// Rows of the cloud.
    pub height: usize,
    /// Bytes from one point to the next.
    pub point_step: usize,
    /// Bytes from one row to the next.
    pub row_step: usize,
    /// True if numbers have their most significant byte first.
    pub big_endian: bool,
    /// `x`, `y`, `z`, then the extra fields of the specification.
    pub fields: &'a [FieldAt],
    /// Takes a point of the cloud to the base frame \[m\].
    pub t_base_sensor: [[f64; 4]; 3],
    /// Takes a point of the cloud to the frame of each shape of the filter \[m\].
    pub t_shapes: &'a [[[f64; 4]; 3]],
}

impl<'a> DevicePoints<'a> {
    /// The points of `view`, whose bytes are at `address` on the device.
    pub fn of(view: &PointsView<'a>, address: u64) -> Self {
        let &PointsView { width, height, point_step, row_step, big_endian, fields, .. } = view;
        let t_base_sensor = view.t_base_sensor;
        let t_shapes = view.t_shapes;
        DevicePoints {
            address,
            width,
            height,
            point_step,
            row_step,
            big_endian,
            fields,
            t_base_sensor,
            t_shapes,
        }
    }

    /// The cloud, without its bytes.
    pub(super) fn view(&self) -> PointsView<'a> {
        PointsView {
            width: self.width,
            height: self.height,
            point_step: self.point_step,
            row_step: self.row_step,
            big_endian: self.big_endian,
            fields: self.fields,
            t_base_sensor: self.t_base_sensor,
            t_shapes: self.t_shapes,
            sweep: None,
            data: &[],
        }
    }

    /// For the kernels; their table of the fields is at `fields` on the device.
    pub(super) fn job(&self, fields: u64) -> Cloud {
        let offset = |at: usize| self.fields.get(at).map_or(0, |field| field.offset as u32);
        Cloud {
            points: self.address,
            fields,
            row_step: self.row_step as u64,
            width: self.width as u32,
            count: (self.width * self.height) as u32,
            point_step: self.point_step as u32,
            column_count: self.fields.len() as u32,
            big_endian: u32::from(self.big_endian),
            reserved: 0,
            offsets: std::array::from_fn(offset),
            t: self.t_base_sensor.map(|row| row.map(|number| number as f32)),
            wide_t: self.t_base_sensor,
        }
    }

    /// The kernels that take these points into a grid.
    pub(super) fn layout(&self, grid: &Grid) -> PointLayout {
        match Precision::of(self.fields, grid) {
            Precision::Double => PointLayout::Wide,
            Precision::Single if self.are_f32() => PointLayout::F32,
            Precision::Single => PointLayout::Any,
        }
    }

    /// True if all points follow each other, and every column is a little-endian float at a
    /// multiple of 4 bytes: then the kernels need not look at the fields.
    fn are_f32(&self) -> bool {
        let f32 =
            |field: &FieldAt| field.kind == FieldType::Float32 && field.offset.is_multiple_of(4);
        let dense = self.width * self.point_step == self.row_step;
        let aligned = self.point_step.is_multiple_of(4) && self.address.is_multiple_of(4);
        !self.big_endian && dense && aligned && self.fields.iter().all(f32)
    }
}

/// Layout of points, as a kernel knows it. Each kernel that reads points exists once for each layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PointLayout {
    /// Little-endian floats at multiples of 4 bytes.
    F32,
    /// Anything whose coordinates `f32` holds.
    Any,
    /// Anything, with coordinates in `f64`.
    Wide,
}

/// The bytes from the first to the last point.
pub fn bytes_of_points<'a>(view: &PointsView<'a>) -> &'a [u8] {
    &view.data[..byte_len(view)]
}

/// Bytes from the first to the last point.
pub(super) fn byte_len(view: &PointsView<'_>) -> usize {
    if view.width == 0 || view.height == 0 {
        return 0;
    }
    (view.height - 1) * view.row_step + view.width * view.point_step
}

/// The table of fields, for the kernels.
pub(super) fn field(at: &FieldAt) -> Field {
    Field { offset: at.offset as u32, type_code: at.kind as u32 }
}

/// The grid, for the kernels.
pub(super) fn grid(grid: &Grid) -> GridJob {
    let [x, y, _] = grid.shape;
    // Far enough from the ends of the range: nothing in a quotient overflows or underflows unless
    // the coordinate does.
    let usual = (1e-18..=1e18).contains(&grid.size_m);
    GridJob {
        origin: grid.origin_m.map(|m| m as f32),
        size: grid.size_m,
        inverse: if usual { 1.0 / grid.size_m } else { 0.0 },
        shape: grid.shape.map(|n| n as f32),
        row: x as u32,
        plane: (x * y) as u32,
        volume: grid.volume() as u32,
        reserved: 0,
        wide_origin: grid.origin_m,
    }
}

/// The channels, for the kernels.
pub(super) fn channels(spec: &VoxelSpec) -> Vec<Channel> {
    let of = |kind, feature: &Feature, limit| {
        let column = match feature {
            Feature::Field(_) => spec.column(feature) as u32,
            Feature::Range => COLUMN_RANGE,
            Feature::Offset(axis) => COLUMN_OFFSET + *axis as u32,
        };
        Channel { kind, column, limit, place: 0 }
    };
    let channel = |reduction: &Reduction| match reduction {
        Reduction::Count => without_values(CHANNEL_COUNT),
        Reduction::Occupancy => without_values(CHANNEL_OCCUPANCY),
        Reduction::Mean(feature) => of(CHANNEL_MEAN, feature, MAX_SUMMED),
        Reduction::Max(feature) => of(CHANNEL_MAX, feature, f32::MAX),
        Reduction::Min(feature) => of(CHANNEL_MIN, feature, f32::MAX),
        Reduction::Sum(feature) => of(CHANNEL_SUM, feature, MAX_SUMMED),
        Reduction::Last(feature) => of(CHANNEL_LAST, feature, f32::MAX),
    };
    let mut channels: Vec<Channel> = spec.channels.iter().map(channel).collect();
    let last = channels.iter_mut().filter(|channel| channel.kind == CHANNEL_LAST);
    last.zip(0..).for_each(|(channel, place)| channel.place = place);
    channels
}

fn without_values(kind: u32) -> Channel {
    Channel { kind, column: NONE, limit: f32::MAX, place: 0 }
}

/// These channels as a parameter. Those that it does not hold are at `more` on the device.
pub(super) fn parameter(all: &[Channel], more: u64) -> Channels {
    let absent = without_values(CHANNEL_OCCUPANCY);
    let first = std::array::from_fn(|at| all.get(at).copied().unwrap_or(absent));
    Channels { more, count: all.len() as u32, reserved: 0, first }
}

/// True if there is one channel pack, and all of it means.
pub(super) fn are_one_pack_of_means(channels: &Channels) -> bool {
    let pack = &channels.first[..CHANNEL_PACK as usize];
    channels.count == CHANNEL_PACK && pack.iter().all(|channel| channel.kind == CHANNEL_MEAN)
}

/// Sources of the values of the first channel pack.
///
/// # Panics
/// When the points have fewer fields than the channels take.
pub(super) fn sources(
    channels: &Channels,
    points: &DevicePoints<'_>,
    layout: PointLayout,
) -> Sources {
    let mut sources = Sources::default();
    for (at, channel) in channels.first.iter().take(CHANNEL_PACK as usize).enumerate() {
        let bit = 1 << at;
        match channel.column {
            // Also `NONE`: nothing is read for it.
            COLUMN_RANGE.. => {}
            0..3 => sources.coordinates |= bit,
            column => {
                sources.fields |= bit;
                let offset = points.fields[column as usize].offset as u32;
                sources.keys[at] = if layout == PointLayout::F32 { offset } else { column };
            }
        }
        if channel.kind == CHANNEL_MEAN {
            sources.means |= bit;
        }
    }
    sources
}
