//! A tick: the steps that changed, cut into pieces of a warp's size, in one launch.

use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::StreamMemory;
use super::driver::{Device, Kernel, Stream};
use super::memory::{DeviceBuffer, PinnedBuffer, Plain, bytes_of};
use crate::align::Value;
use crate::backend::{BackendError, Slot, StepJob};
use crate::dtype::DType;
use crate::layout::{Layout, Segment};

/// Output of one piece \[bytes\]: 8 accesses of 16 bytes for each of the 32 threads of a warp.
const PIECE_BYTES: usize = 4096;
/// Threads of a block, and pieces that it takes.
const THREADS: u32 = 128;
const PIECES_PER_BLOCK: usize = 4;

/// Where the rows of a stream lie.
#[derive(Debug)]
pub struct RowSource {
    /// Of slot 0.
    pub base: u64,
    /// Bytes from one slot to the next.
    pub pitch: usize,
    /// Element type of the rows.
    pub dtype: DType,
    /// How the lanes of an interpolated row are interpolated, unless all are linear.
    pub lanes: Option<DeviceBuffer>,
}

impl RowSource {
    /// Where the row of a slot lies.
    pub fn address(&self, slot: Slot) -> u64 {
        self.base + (slot * self.pitch) as u64
    }
}

/// A part of one step; `Piece` in `kernels/fuse.cu`.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, Default)]
struct Piece {
    a: u64,
    b: u64,
    out: u64,
    lanes: u64,
    first: u32,
    count: u32,
    weight: f32,
    mode: u32,
    conversion: u32,
    wide: u32,
    reserved: [u32; 2],
}

// SAFETY: numbers without padding between them: four of 8 bytes and eight of 4 are the 64 bytes of its
// alignment.
unsafe impl Plain for Piece {}

/// How a value follows from rows; `Mode` in `kernels/common.cuh`.
const MODE_NOTHING: u32 = 0;
const MODE_ROW: u32 = 1;
const MODE_BETWEEN: u32 = 2;

/// `Conversion` in `kernels/fuse.cu`.
fn conversion(from: DType, to: DType) -> u32 {
    match (from, to) {
        (DType::F32, DType::F32) => 0,
        (DType::F32, DType::F16) => 1,
        (DType::F32, DType::Bf16) => 2,
        // Rows that are not f32 are of the type of their segment.
        _ => 3,
    }
}

/// Everything that a tick uses, reserved once.
pub struct Fuser {
    kernel: Kernel,
    stream: Stream,
    pieces: Vec<Piece>,
    /// What the kernel reads: the content of `pieces`.
    table: PinnedBuffer,
    /// Output for callers whose memory the device cannot reach.
    staging: PinnedBuffer,
    /// Rows that the tick at hand waits for.
    awaited: Vec<(usize, Slot)>,
}

impl Fuser {
    /// For ticks of a layout.
    pub fn new(device: &Arc<Device>, layout: &Layout) -> Result<Self, BackendError> {
        let most = layout
            .segments()
            .iter()
            .map(|segment| segment.steps * segment.step_byte_len().div_ceil(PIECE_BYTES).max(1))
            .sum::<usize>();
        let steps = layout.segments().iter().map(|segment| segment.steps).sum::<usize>();
        Ok(Fuser {
            kernel: device.kernel("fuse")?,
            stream: Stream::new(device, true)?,
            pieces: Vec::with_capacity(most),
            table: PinnedBuffer::new(device, most * size_of::<Piece>())?,
            staging: PinnedBuffer::new(device, layout.byte_len())?,
            awaited: Vec::with_capacity(2 * steps),
        })
    }

    /// Writes the steps of `jobs` that changed into `out`, which the device reaches if `direct`.
    pub fn fuse(
        &mut self,
        streams: &[StreamMemory],
        jobs: &[StepJob],
        out: &mut [u8],
        direct: bool,
    ) -> Result<(), BackendError> {
        self.pieces.clear();
        self.awaited.clear();
        let target = if direct { out.as_mut_ptr() as u64 } else { self.staging.address() };
        for job in jobs.iter().filter(|job| !job.unchanged) {
            let memory = &streams[job.stream];
            let range = memory.segment.step_range(job.step);
            assert!(range.end <= out.len(), "fuse: the output is shorter than the layout");
            self.await_rows(memory, job)?;
            let out = target + range.start as u64;
            self.cut(&memory.source, &memory.segment, job.value, out);
        }
        if self.pieces.is_empty() {
            return Ok(());
        }
        self.launch()?;
        for (stream, slot) in &self.awaited {
            if let Some(rows) = streams[*stream].device_rows() {
                rows.slots[*slot].pending.store(false, Ordering::Release);
            }
        }
        if !direct {
            for job in jobs.iter().filter(|job| !job.unchanged) {
                let range = streams[job.stream].segment.step_range(job.step);
                out[range.clone()].copy_from_slice(&self.staging[range]);
            }
        }
        Ok(())
    }

    /// Lets the launch wait for the rows of a job, where they may still be under way.
    fn await_rows(&mut self, memory: &StreamMemory, job: &StepJob) -> Result<(), BackendError> {
        let Some(rows) = memory.device_rows() else { return Ok(()) };
        let slots = match job.value {
            Value::Nothing => return Ok(()),
            Value::Row(slot) => [Some(slot), None],
            Value::Between { a, b, .. } => [Some(a), Some(b)],
        };
        for slot in slots.into_iter().flatten() {
            if rows.slots[slot].pending.load(Ordering::Acquire) {
                self.stream.wait(&rows.slots[slot].encoded)?;
                self.awaited.push((job.stream, slot));
            }
        }
        Ok(())
    }

    fn cut(&mut self, source: &RowSource, segment: &Segment, value: Value<Slot>, out: u64) {
        let size = segment.dtype.size();
        let mut piece = Piece {
            out,
            lanes: source.lanes.as_ref().map_or(0, DeviceBuffer::address),
            conversion: conversion(source.dtype, segment.dtype),
            ..Piece::default()
        };
        match value {
            Value::Nothing => piece.mode = MODE_NOTHING,
            Value::Between { a, b, weight } if source.dtype == DType::F32 => {
                piece.mode = MODE_BETWEEN;
                (piece.a, piece.b, piece.weight) = (source.address(a), source.address(b), weight);
            }
            // `hold` and `nearest` never ask for `Between`; the earlier row is what `hold` gives.
            Value::Row(a) | Value::Between { a, .. } => {
                piece.mode = MODE_ROW;
                piece.a = source.address(a);
            }
        }
        let wide = out.is_multiple_of(16) && segment.step_byte_len().is_multiple_of(16);
        piece.wide = u32::from(wide);
        let most = PIECE_BYTES / size;
        for first in (0..segment.step_len).step_by(most) {
            piece.first = first as u32;
            piece.count = most.min(segment.step_len - first) as u32;
            self.pieces.push(piece);
        }
    }

    fn launch(&mut self) -> Result<(), BackendError> {
        let bytes = bytes_of(&self.pieces);
        self.table[..bytes.len()].copy_from_slice(bytes);
        let mut table = self.table.address();
        let mut count = self.pieces.len() as u32;
        let mut arguments = [ptr::from_mut(&mut table).cast(), ptr::from_mut(&mut count).cast()];
        let blocks = self.pieces.len().div_ceil(PIECES_PER_BLOCK) as u32;
        // SAFETY: the arguments are those of `fuse`. Pieces name rows of live buffers that no
        // encode writes to meanwhile, and parts of the output that are inside of it and borrowed
        // until the launch is done, which is waited for here.
        unsafe { self.kernel.launch(&self.stream, blocks, THREADS, &mut arguments)? };
        self.stream.synchronize("fuse")
    }
}
