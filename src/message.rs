//! A tick as the bytes of a `robocache_ros/msg/FusedTensor`.
//!
//! Names, shapes, dtypes and offsets never change, and CDR puts nothing of variable length
//! between them, so the message is serialized once. A tick rewrites the stamp, the tick number,
//! the validities and the ages in place, and the backend writes the tensor into the message's own
//! `data`: nothing is allocated and nothing is copied on the way to the middleware.

use crate::align::NO_AGE;
use crate::backend::HostBytes;
use crate::cdr::Writer;
use crate::layout::{ALIGNMENT, Layout};
use crate::time::Stamp;

/// Memory for one output: the serialized message and where its changing parts stand.
#[derive(Debug)]
pub struct Frame {
    memory: Box<dyn HostBytes>,
    /// Where the message starts in `memory`: so that its data is aligned as the memory is.
    start: usize,
    segments: Vec<SegmentPlaces>,
    steps: Vec<Vec<StepState>>,
    /// Serial of the row that each step of `data` is a copy of: 0 where it is zeros, `None` where
    /// it is interpolated or not known.
    rows: Vec<Vec<Option<u64>>>,
    /// The pipeline whose rows these are: serials of another one's mean other rows.
    pipeline: u64,
    tick_at: usize,
    data_at: usize,
}

/// Where the parts of a segment that change stand in the message.
#[derive(Clone, Copy, Debug)]
struct SegmentPlaces {
    valid_at: usize,
    age_at: usize,
}

/// What is known of the value of one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepState {
    /// Whether the value may be acted on.
    pub valid: bool,
    /// Target minus the stamp of the newest row used \[ns\], [`NO_AGE`] where there is none.
    pub age_ns: i64,
}

/// Position of `header.stamp` in the message: right after the encapsulation header.
const STAMP_AT: usize = crate::cdr::ENCAPSULATION_LEN;

impl Frame {
    /// A message with all steps invalid and all values zero, in the zeroed memory that `reserve`
    /// returns for a number of bytes.
    pub(crate) fn new(
        layout: &Layout,
        base_frame: &str,
        pipeline: u64,
        reserve: impl FnOnce(usize) -> Box<dyn HostBytes>,
    ) -> Self {
        let mut writer = Writer::new();
        writer.header(Stamp::ZERO, base_frame);
        writer.u64(0);
        let tick_at = writer.position() - 8;
        writer.u32(layout.segments().len() as u32);
        let mut segments = Vec::new();
        for segment in layout.segments() {
            writer.string(&segment.name);
            writer.u8(segment.dtype.dlpack_code());
            writer.u8(segment.dtype.bits());
            writer.u16(1);
            writer.u32(segment.shape.len() as u32);
            for dim in &segment.shape {
                writer.i64(*dim as i64);
            }
            writer.u64(segment.byte_offset as u64);
            writer.bytes(&vec![0; segment.steps]);
            let valid_at = writer.position() - segment.steps;
            writer.u32(segment.steps as u32);
            for _ in 0..segment.steps {
                writer.i64(NO_AGE);
            }
            segments
                .push(SegmentPlaces { valid_at, age_at: writer.position() - 8 * segment.steps });
        }
        writer.u32(layout.byte_len() as u32);
        let data_at = writer.position();
        let head = writer.finish();
        let start = data_at.next_multiple_of(ALIGNMENT) - data_at;
        let mut memory = reserve(start + data_at + layout.byte_len());
        memory[start..start + data_at].copy_from_slice(&head);
        let never = StepState { valid: false, age_ns: NO_AGE };
        let steps = layout.segments().iter().map(|segment| vec![never; segment.steps]).collect();
        let rows = layout.segments().iter().map(|segment| vec![None; segment.steps]).collect();
        Frame { memory, start, segments, steps, rows, pipeline, tick_at, data_at }
    }

    /// The serialized message, ready to be published or decoded.
    pub fn message(&self) -> &[u8] {
        &self.memory[self.start..]
    }

    /// The packed tensor inside the message.
    pub fn data(&self) -> &[u8] {
        &self.memory[self.start + self.data_at..]
    }

    /// The packed tensor, for the backend to write.
    pub(crate) fn data_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start + self.data_at..]
    }

    /// Validity and age of every history step of a stream.
    pub fn steps(&self, stream: usize) -> &[StepState] {
        &self.steps[stream]
    }

    pub(crate) fn set_tick(&mut self, tick: i64, stamp: Stamp) {
        let (sec, nanosec) = stamp.to_sec_nanosec();
        self.put(STAMP_AT, &sec.to_le_bytes());
        self.put(STAMP_AT + 4, &nanosec.to_le_bytes());
        // Ticks before the epoch exist only on a simulator's clock; the number wraps there.
        self.put(self.tick_at, &(tick as u64).to_le_bytes());
    }

    pub(crate) fn set_step(&mut self, stream: usize, step: usize, state: StepState) {
        self.steps[stream][step] = state;
        let places = self.segments[stream];
        self.put(places.valid_at + step, &[u8::from(state.valid)]);
        self.put(places.age_at + 8 * step, &state.age_ns.to_le_bytes());
    }

    /// Becomes a frame of `pipeline`: a `fresh` one unless it is that already.
    pub(crate) fn belong_to(&mut self, pipeline: u64, fresh: impl FnOnce() -> Frame) {
        if self.pipeline != pipeline {
            *self = fresh();
        }
    }

    /// Notes which row a step is about to be a copy of; returns whether it is one already.
    pub(crate) fn replace_row(&mut self, stream: usize, step: usize, row: Option<u64>) -> bool {
        let before = std::mem::replace(&mut self.rows[stream][step], row);
        row.is_some() && before == row
    }

    /// The notes of [`Frame::replace_row`] were not followed by a fuse.
    pub(crate) fn forget_rows(&mut self) {
        self.rows.iter_mut().flatten().for_each(|row| *row = None);
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        let at = self.start + at;
        self.memory[at..at + bytes.len()].copy_from_slice(bytes);
    }
}
