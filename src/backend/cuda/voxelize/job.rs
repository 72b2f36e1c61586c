//! What the kernels of a cloud are given: the structures of `kernels/points.cuh`, `voxels.cuh`,
//! `voxelize_scatter.cu` and `voxelize_finish.cu`, and how they follow from a message.

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
#[derive(Clone, Copy, Default)]
pub struct Channel {
    pub kind: u32,
    pub column: u32,
    pub entry: u32,
    pub offset: u32,
}

// SAFETY: numbers of one size.
unsafe impl Plain for Channel {}

/// Kinds of channels that take values.
pub const CHANNEL_MEAN: u32 = 2;
pub const CHANNEL_MAX: u32 = 3;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Accumulators {
    pub claims: u64,
    pub counts: u64,
    pub sums: u64,
    pub maxima: u64,
    pub marks: u64,
    pub sum_count: u32,
    pub sum_shift: u32,
    pub max_count: u32,
    pub turn: u32,
    pub bin_shift: u32,
    pub bin_count: u32,
}

#[repr(C)]
pub struct Scatter {
    pub cloud: Cloud,
    pub grid: DeviceGrid,
    pub to: Accumulators,
    pub counters: u64,
    pub sources: u64,
    pub limits: [f32; INLINE_COLUMNS],
}

#[repr(C)]
pub struct Finish {
    pub cloud: Cloud,
    pub from: Accumulators,
    pub held: u64,
    pub more: u64,
    pub row: u64,
    pub counters: u64,
    pub report: u64,
    pub channel_count: u32,
    pub volume: u32,
    pub first: [Channel; INLINE_CHANNELS],
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
