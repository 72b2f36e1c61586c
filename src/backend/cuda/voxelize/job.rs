//! What the kernels of a cloud are given: the structures of `kernels/points.cuh`, `voxels.cuh` and
//! `voxelize_*.cu`, and how they follow from a message.

use crate::backend::cuda::memory::Plain;
use crate::config::Grid;
use crate::decode::cloud::{CloudView, FieldAt, FieldType};

/// Columns that the launch parameters have room for.
pub const INLINE_COLUMNS: usize = 8;
/// Channels that they have room for.
pub const INLINE_CHANNELS: usize = 8;
/// Bytes of `Counters` and of `Report`.
pub const COUNTERS_BYTES: usize = 16;
pub const REPORT_BYTES: usize = 24;

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Field {
    offset: u32,
    kind: u32,
}

// SAFETY: two numbers of one size.
unsafe impl Plain for Field {}

impl From<&FieldAt> for Field {
    fn from(at: &FieldAt) -> Self {
        Field { offset: at.offset as u32, kind: at.kind as u32 }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Cloud {
    points: u64,
    fields: u64,
    row_step: u64,
    width: u32,
    pub count: u32,
    point_step: u32,
    column_count: u32,
    big_endian: u32,
    reserved: u32,
    offsets: [u32; INLINE_COLUMNS],
    t: [[f32; 4]; 3],
}

impl Cloud {
    /// A cloud whose fields and points have been uploaded to `upload`, one after the other.
    pub fn new(view: &CloudView<'_>, upload: u64, t: &[[f32; 4]; 3]) -> Self {
        let fields = size_of::<Field>() * view.fields.len();
        Cloud {
            points: upload + (fields + padding_after(fields)) as u64,
            fields: upload,
            row_step: view.row_step as u64,
            width: view.width as u32,
            count: (view.width * view.height) as u32,
            point_step: view.point_step as u32,
            column_count: view.fields.len() as u32,
            big_endian: u32::from(view.big_endian),
            reserved: 0,
            offsets: std::array::from_fn(|i| view.fields.get(i).map_or(0, |at| at.offset as u32)),
            t: *t,
        }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct DeviceGrid {
    origin: [f32; 3],
    size: f32,
    inverse: f32,
    shape: [f32; 3],
    row: u32,
    plane: u32,
    pub volume: u32,
    reserved: u32,
}

impl From<&Grid> for DeviceGrid {
    fn from(grid: &Grid) -> Self {
        let [x, y, z] = grid.shape;
        // Far enough from the ends of the range that nothing in a quotient overflows or underflows
        // unless the coordinate does.
        let usual = (1e-18..=1e18).contains(&grid.size_m);
        DeviceGrid {
            origin: grid.origin_m,
            size: grid.size_m,
            inverse: if usual { 1.0 / grid.size_m } else { 0.0 },
            shape: grid.shape.map(|n| n as f32),
            row: x as u32,
            plane: (x * y) as u32,
            volume: (x * y * z) as u32,
            reserved: 0,
        }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Channel {
    pub kind: u32,
    /// Of its values, or [`NO_COLUMN`].
    pub column: u32,
    /// The greatest magnitude that these may have.
    pub limit: f32,
    pub reserved: u32,
}

/// The column of a channel without values.
pub const NO_COLUMN: u32 = u32::MAX;

// SAFETY: numbers of one size.
unsafe impl Plain for Channel {}

impl Channel {
    /// A channel of the kernels' `kind`, without values.
    pub fn without_values(kind: u32) -> Self {
        Channel { kind, column: NO_COLUMN, limit: f32::MAX, reserved: 0 }
    }
}

/// The kernels' kinds of channels.
pub const CHANNEL_COUNT: u32 = 0;
pub const CHANNEL_OCCUPANCY: u32 = 1;
pub const CHANNEL_MEAN: u32 = 2;
pub const CHANNEL_MAX: u32 = 3;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Channels {
    more: u64,
    pub count: u32,
    reserved: u32,
    first: [Channel; INLINE_CHANNELS],
}

impl Channels {
    /// These channels, of which those from [`INLINE_CHANNELS`] on stand at `more` on the device.
    pub fn new(all: &[Channel], more: u64) -> Self {
        let absent = Channel::without_values(CHANNEL_OCCUPANCY);
        let first = std::array::from_fn(|at| all.get(at).copied().unwrap_or(absent));
        Channels { more, count: all.len() as u32, reserved: 0, first }
    }

    /// Whether all of them are means, and as many as stand together for each point.
    pub fn are_one_slice_of_means(&self) -> bool {
        let slice = &self.first[..SLICE];
        self.count as usize == SLICE && slice.iter().all(|channel| channel.kind == CHANNEL_MEAN)
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Counted {
    pub counts: u64,
    pub marks: u64,
    pub turn: u32,
    pub bin_shift: u32,
    pub bin_count: u32,
    pub reserved: u32,
}

#[repr(C)]
pub struct Count {
    pub cloud: Cloud,
    pub grid: DeviceGrid,
    pub to: Counted,
    pub counters: u64,
}

#[repr(C)]
pub struct WriteCounts {
    pub channels: Channels,
    pub from: Counted,
    pub held: u64,
    pub row: u64,
    pub counters: u64,
    pub report: u64,
    pub volume: u32,
    pub reserved: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bins {
    pub bin_shift: u32,
    pub unit_shift: u32,
    pub bin_count: u32,
    pub brick_mask: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Sorted {
    pub voxels: u64,
    pub values: u64,
    pub runs: u64,
    pub tiles: u32,
    pub tile_points: u32,
}

/// Channels whose values stand together for each point.
pub const SLICE: usize = 4;

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Sources {
    keys: [u32; SLICE],
    fields: u32,
    coordinates: u32,
    means: u32,
    reserved: u32,
}

impl Sources {
    /// Where the values of the first channels come from, in a cloud of words or any other.
    ///
    /// # Panics
    /// When `fields` are fewer than the channels take.
    pub fn new(channels: &Channels, fields: &[FieldAt], words: bool) -> Self {
        let mut sources = Sources::default();
        for (at, channel) in channels.first.iter().take(SLICE).enumerate() {
            let bit = 1 << at;
            match channel.column {
                NO_COLUMN => {}
                0..3 => sources.coordinates |= bit,
                column => {
                    sources.fields |= bit;
                    let offset = fields[column as usize].offset as u32;
                    sources.keys[at] = if words { offset } else { column };
                }
            }
            if channel.kind == CHANNEL_MEAN {
                sources.means |= bit;
            }
        }
        sources
    }
}

#[repr(C)]
pub struct Sort {
    pub cloud: Cloud,
    pub grid: DeviceGrid,
    pub bins: Bins,
    pub sources: Sources,
    pub channels: Channels,
    pub to: Sorted,
    pub counters: u64,
    pub inputs_ready: u32,
    pub reserved: u32,
}

#[repr(C)]
pub struct Reduce {
    pub bins: Bins,
    pub from: Sorted,
    pub channels: Channels,
    pub held: u64,
    pub row: u64,
    pub counters: u64,
    pub report: u64,
    pub volume: u32,
    pub all_means: u32,
}

/// What a cloud reports.
#[derive(Clone, Copy, Default)]
pub struct Report {
    pub non_finite: u32,
    pub out_of_range: u32,
    pub outside: u32,
    /// 1 + a channel with a value that the element type cannot hold, and the bits of that.
    pub beyond: u32,
    pub beyond_bits: u32,
}

impl Report {
    /// From what the kernels have written.
    pub fn read(bytes: &[u8]) -> Self {
        let words = bytes.as_chunks::<4>().0;
        let word = |at: usize| words.get(at).map_or(0, |word| u32::from_ne_bytes(*word));
        Report {
            non_finite: word(0),
            out_of_range: word(1),
            outside: word(2),
            beyond: word(4),
            beyond_bits: word(5),
        }
    }
}

/// Points start at multiples of this in the upload: whole lines of the caches.
pub const POINTS_ALIGNMENT: usize = 128;

/// Bytes of zeros behind `len` bytes of fields.
pub fn padding_after(len: usize) -> usize {
    len.next_multiple_of(POINTS_ALIGNMENT) - len
}

/// The bytes from the first to the last point.
pub fn points_of<'a>(view: &CloudView<'a>) -> &'a [u8] {
    if view.width == 0 || view.height == 0 {
        return &[];
    }
    &view.data[..(view.height - 1) * view.row_step + view.width * view.point_step]
}

/// Whether all points follow each other, and every used field is a little-endian float at a
/// multiple of four bytes.
pub fn are_words(view: &CloudView<'_>) -> bool {
    let word = |field: &FieldAt| field.kind == FieldType::Float32 && field.offset.is_multiple_of(4);
    let dense = view.width * view.point_step == view.row_step;
    let aligned = dense && view.point_step.is_multiple_of(4);
    !view.big_endian && aligned && view.fields.iter().all(word)
}
