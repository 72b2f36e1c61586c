//! Steps from rows on the device, in one launch: `kernels/resample/fuse.cu`.
//!
//! Who uses it owns [`Rows`], adds the steps that changed to a [`Tick`], and runs it.

use std::marker::PhantomData;
use std::ops::Range;
use std::ptr;
use std::sync::{Arc, Mutex};

use super::lane_codes;
use crate::align::{Slot, Value};
use crate::device::shared::resample::fuse::{
    BITS_8, BITS_16, F32_TO_BF16, F32_TO_F16, F32_TO_F32, Piece, THREADS,
};
use crate::device::shared::resample::{MODE_BETWEEN, MODE_NOTHING, MODE_ROW};
use crate::device::{
    Device, DeviceBuffer, DeviceError, Event, Kernel, Launch, OutputMut, PinnedBuffer, Stream,
    bytes_of,
};
use crate::dtype::DType;
use crate::packing::Run;
use crate::resample::Lane;
use crate::sync::lock;

/// Output of one piece \[bytes\]: 8 accesses of 16 bytes for each of the 32 threads of a warp.
const PIECE_BYTES: usize = 4096;
/// Bytes of the widest access.
const WIDEST: usize = 16;
/// Pieces that a thread block takes: one per warp.
const PIECES_PER_BLOCK: usize = 4;
/// Rows start at multiples of this many bytes: whole lines of the device's caches.
pub const ROW_ALIGNMENT: usize = 128;

/// The rows of one ring, where the device reaches them.
#[derive(Debug)]
pub struct Rows {
    memory: Memory,
    /// Of slot 0.
    base: u64,
    /// Bytes from one slot to the next.
    pitch: usize,
    slots: usize,
    /// Elements of a row.
    len: usize,
    dtype: DType,
    /// How the elements are interpolated, unless all are linear or nothing is interpolated.
    lanes: Option<DeviceBuffer>,
}

#[derive(Debug)]
enum Memory {
    Device(DeviceBuffer),
    Pinned(Mutex<PinnedBuffer>),
}

impl Rows {
    /// Rows of `len` elements in device memory, which kernels write.
    pub fn on_device(
        device: &Arc<Device>,
        len: usize,
        dtype: DType,
        slots: usize,
    ) -> Result<Self, DeviceError> {
        let pitch = pitch(len, dtype);
        let buffer = DeviceBuffer::new(device, pitch * slots)?;
        let base = buffer.address();
        Ok(Rows { memory: Memory::Device(buffer), base, pitch, slots, len, dtype, lanes: None })
    }

    /// Rows of as many elements as there are lanes, in pinned memory, which the host writes.
    pub fn pinned(
        device: &Arc<Device>,
        lanes: &[Lane],
        dtype: DType,
        slots: usize,
    ) -> Result<Self, DeviceError> {
        let lane_codes = if dtype == DType::F32 { lane_codes(device, lanes)? } else { None };
        Ok(Rows { lanes: lane_codes, ..Rows::on_host(device, lanes.len(), dtype, slots)? })
    }

    /// Rows of `len` elements in pinned memory.
    fn on_host(
        device: &Arc<Device>,
        len: usize,
        dtype: DType,
        slots: usize,
    ) -> Result<Self, DeviceError> {
        let pitch = pitch(len, dtype);
        let buffer = PinnedBuffer::new(device, pitch * slots)?;
        let base = buffer.address();
        let memory = Memory::Pinned(Mutex::new(buffer));
        Ok(Rows { memory, base, pitch, slots, len, dtype, lanes: None })
    }

    /// The device memory of the rows, if they are there.
    pub fn device(&self) -> Option<&DeviceBuffer> {
        match &self.memory {
            Memory::Device(buffer) => Some(buffer),
            Memory::Pinned(_) => None,
        }
    }

    /// Bytes of a row.
    pub fn bytes(&self) -> usize {
        self.len * self.dtype.size()
    }

    /// Rows that there are.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// Start of the row of a slot in the memory \[bytes\].
    pub fn at(&self, slot: Slot) -> usize {
        slot.index() * self.pitch
    }

    /// Writes the row of a slot from the host.
    ///
    /// # Panics
    /// When the rows are in device memory, or `values` are not a row.
    pub fn store(&self, slot: Slot, values: &[f32]) {
        assert_eq!(values.len(), self.len, "rows: length mismatch");
        let Memory::Pinned(buffer) = &self.memory else { panic!("rows: in device memory") };
        let start = self.at(slot);
        let end = start + self.len * self.dtype.size();
        self.dtype.store(values, &mut lock(buffer)[start..end]);
    }

    /// Appends the row of a slot that the host has written.
    ///
    /// # Panics
    /// When the rows are in device memory.
    pub fn read(&self, slot: Slot, row: &mut Vec<u8>) {
        let Memory::Pinned(buffer) = &self.memory else { panic!("rows: in device memory") };
        row.extend_from_slice(&lock(buffer)[self.at(slot)..][..self.len * self.dtype.size()]);
    }

    /// Appends the row of a slot in device memory, after everything that is on `stream`, and waits for that.
    ///
    /// # Errors
    /// The driver's.
    ///
    /// # Panics
    /// When the rows are in memory of the host.
    pub fn download(
        &self,
        slot: Slot,
        row: &mut Vec<u8>,
        stream: &Stream,
    ) -> Result<(), DeviceError> {
        let Memory::Device(buffer) = &self.memory else { panic!("rows: on the host") };
        let before = row.len();
        row.resize(before + self.len * self.dtype.size(), 0);
        buffer.download(self.at(slot), &mut row[before..], stream)
    }

    /// # Panics
    /// When there is no such slot.
    fn address(&self, slot: Slot) -> u64 {
        let slots = self.slots;
        let found = slot.index();
        assert!(found < slots, "rows: expected a slot below {slots}, found {found}");
        self.base + self.at(slot) as u64
    }
}

fn pitch(len: usize, dtype: DType) -> usize {
    (len * dtype.size()).next_multiple_of(ROW_ALIGNMENT)
}

/// Destination of a ring's part of a step.
#[derive(Clone, Copy, Debug)]
pub struct StepPlace<'a> {
    /// Start of the step in the output \[bytes\].
    pub at: usize,
    /// Element type of the output.
    pub dtype: DType,
    /// Which elements of the row go where in the step.
    pub runs: &'a [Run],
}

/// Everything that a tick uses, reserved once.
#[derive(Debug)]
pub struct Fuser {
    kernel: Kernel,
    stream: Stream,
    pieces: Vec<Piece>,
    /// Input of the kernel: the content of `pieces`.
    table: PinnedBuffer,
    /// Output, where the device cannot reach the caller's memory.
    staging: PinnedBuffer,
    /// Ranges that are copied from there to the caller's memory.
    staged: Vec<Range<usize>>,
}

impl Fuser {
    /// For outputs of `len` bytes, into which one tick writes all of `places` at most.
    pub fn new<'a>(
        device: &Arc<Device>,
        len: usize,
        places: impl Iterator<Item = StepPlace<'a>>,
    ) -> Result<Self, DeviceError> {
        let mut pieces = 0;
        let mut runs = 0;
        for place in places {
            runs += place.runs.len();
            // Bytes that remain at the end are a piece more.
            let rest = usize::from(place.dtype == DType::U8);
            let of_run = |run: &Run| (run.len * place.dtype.size()).div_ceil(PIECE_BYTES) + rest;
            pieces += place.runs.iter().map(of_run).sum::<usize>();
        }
        Ok(Fuser {
            kernel: device.kernel("fuse_pieces")?,
            stream: Stream::new(device, true)?,
            pieces: Vec::with_capacity(pieces),
            table: PinnedBuffer::new(device, pieces * size_of::<Piece>())?,
            staging: PinnedBuffer::new(device, len)?,
            staged: Vec::with_capacity(runs),
        })
    }

    /// Begins a tick that writes to `out`. Nothing is left of an earlier one, also if it panicked.
    ///
    /// # Panics
    /// When `out` is longer than the outputs of this fuser.
    pub fn begin<'a>(&'a mut self, out: OutputMut<'a>) -> Tick<'a> {
        self.pieces.clear();
        self.staged.clear();
        assert!(out.len() <= self.staging.len(), "fuse: the output is too long");
        // Steps are aligned in the output. So are accesses, if its start is.
        let direct = match &out {
            OutputMut::Pinned(part) => {
                Some(part.address()).filter(|at| at.is_multiple_of(WIDEST as u64))
            }
            OutputMut::Device(output) => Some(output.address()),
            OutputMut::Host(_) => None,
        };
        let target = direct.unwrap_or(self.staging.address());
        Tick { fuser: self, out, target, direct: direct.is_some(), rows: PhantomData }
    }
}

/// A tick that is being put together.
#[derive(Debug)]
pub struct Tick<'a> {
    fuser: &'a mut Fuser,
    out: OutputMut<'a>,
    /// Address that the kernel writes to.
    target: u64,
    /// True if `target` is the address of `out`.
    direct: bool,
    /// The pieces hold addresses of rows.
    rows: PhantomData<&'a Rows>,
}

impl<'a> Tick<'a> {
    /// Lets the launch wait for an event: a row that it reads may still be written.
    pub fn wait(&self, event: &Event) -> Result<(), DeviceError> {
        self.fuser.stream.wait(event)
    }

    /// Adds a ring's part of a step.
    ///
    /// # Panics
    /// When the value names a missing slot, the place is not inside the output or the row, or the part exceeds the
    /// fuser's capacity.
    pub fn add(&mut self, rows: &'a Rows, value: Value<Slot>, place: StepPlace<'_>) {
        let mut piece = Piece {
            lanes: rows.lanes.as_ref().map_or(0, DeviceBuffer::address),
            conversion: conversion(rows.dtype, place.dtype),
            ..Piece::default()
        };
        match value {
            Value::Nothing => piece.mode = MODE_NOTHING,
            Value::Between { a, b, weight } if rows.dtype == DType::F32 => {
                piece.mode = MODE_BETWEEN;
                (piece.a, piece.b, piece.weight) = (rows.address(a), rows.address(b), weight);
            }
            // `hold` and `nearest` never ask for `Between`; the earlier row is what `hold` gives.
            Value::Row(a) | Value::Between { a, .. } => {
                piece.mode = MODE_ROW;
                piece.a = rows.address(a);
            }
        }
        for run in place.runs {
            assert!(run.row_at + run.len <= rows.len, "fuse: the run is not in the row");
            self.add_run(piece, *run, place.at, place.dtype);
        }
    }

    /// Adds a run. Its pieces count their elements from the start of the row.
    fn add_run(&mut self, mut piece: Piece, run: Run, at: usize, dtype: DType) {
        let size = dtype.size();
        let start = at + run.step_at * size;
        let range = start..start + run.len * size;
        assert!(range.end <= self.out.len(), "fuse: the output is shorter than the layout");
        // Where element 0 of the row would be: in front of the output, perhaps.
        piece.out = (self.target + start as u64).wrapping_sub((run.row_at * size) as u64);
        if dtype == DType::U8 {
            for Copied { unit, at, len } in copied(start, run.row_at, run.len) {
                let (size, conversion) = match unit {
                    4 => (4, F32_TO_F32),
                    2 => (2, BITS_16),
                    _ => (1, BITS_8),
                };
                piece.conversion = conversion;
                piece.wide = u32::from(unit == WIDEST);
                self.cut(piece, at / size, len / size, size);
            }
        } else {
            // Elements of 2 or 4 bytes: a row that is at a multiple of 16 bytes as the output's type
            // also is as its own.
            let aligned = |bytes: usize| bytes.is_multiple_of(WIDEST);
            let wide = aligned(start) && aligned(run.row_at * size) && aligned(run.len * size);
            piece.wide = u32::from(wide);
            self.cut(piece, run.row_at, run.len, size);
        }
        if !self.direct {
            self.fuser.staged.push(range);
        }
    }

    /// Cuts `len` elements of `size` bytes, from number `from` on, into pieces.
    fn cut(&mut self, mut piece: Piece, from: usize, len: usize, size: usize) {
        let most = PIECE_BYTES / size;
        for first in (0..len).step_by(most) {
            piece.first = (from + first) as u32;
            piece.count = most.min(len - first) as u32;
            self.fuser.pieces.push(piece);
        }
    }

    /// Writes all that was added, and waits for it.
    pub fn run(mut self) -> Result<(), DeviceError> {
        let Fuser { kernel, stream, pieces, table, staging, staged } = &mut *self.fuser;
        if pieces.is_empty() {
            return Ok(());
        }
        let bytes = bytes_of(pieces);
        table[..bytes.len()].copy_from_slice(bytes);
        let mut address = table.address();
        let mut count = pieces.len() as u32;
        let arguments = &mut [ptr::from_mut(&mut address).cast(), ptr::from_mut(&mut count).cast()];
        let blocks = pieces.len().div_ceil(PIECES_PER_BLOCK) as u32;
        let launch = Launch { blocks, threads: THREADS, shared: 0 };
        // SAFETY: the arguments are those of the kernel. Pieces name parts of rows that live as
        // long as this tick, and parts of the output, which is borrowed. The launch is waited for,
        // whatever comes of it.
        let launched = unsafe { kernel.launch(stream, launch, arguments) };
        let waited = stream.synchronize("fuse");
        launched?;
        waited?;
        if let Some(out) = self.out.on_host() {
            staged.drain(..).for_each(|at| out[at.clone()].copy_from_slice(&staging[at]));
        }
        Ok(())
    }
}

/// A part of a run of bytes, all in accesses of the same width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Copied {
    /// Bytes of an access: 16, 4, 2 or 1.
    unit: usize,
    /// First byte in the row; a multiple of `unit`.
    at: usize,
    /// A multiple of `unit`.
    len: usize,
}

/// A run of `len` bytes that starts at `row_at` in the row and at `start` in the output. Bytes are only copied,
/// so the width of an access follows from where they are. What then remains at the end are single bytes.
fn copied(start: usize, row_at: usize, len: usize) -> [Copied; 2] {
    let unit = match (start | row_at).trailing_zeros() {
        4.. => WIDEST,
        2 | 3 => 4,
        1 => 2,
        0 => 1,
    };
    let whole = len / unit * unit;
    let rest = Copied { unit: 1, at: row_at + whole, len: len - whole };
    [Copied { unit, at: row_at, len: whole }, rest]
}

fn conversion(from: DType, to: DType) -> u32 {
    match (from, to) {
        (DType::F32, DType::F32) => F32_TO_F32,
        (DType::F32, DType::F16) => F32_TO_F16,
        (DType::F32, DType::Bf16) => F32_TO_BF16,
        // Rows that are not f32 are of the type of their segment, and never interpolated: only
        // their bits count.
        (_, DType::U8) => BITS_8,
        (_, DType::I32) => F32_TO_F32,
        _ => BITS_16,
    }
}

#[cfg(test)]
mod tests;
