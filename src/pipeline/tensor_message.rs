//! A tick as the bytes of a `robocache_ros/msg/FusedTensor`.
//!
//! The message is serialized once: names, shapes, dtypes and offsets never change, so every part
//! keeps its place. A tick overwrites the stamp, the tick number, the validities and the ages. The
//! backend writes the tensor into the message's own `data`. So a tick allocates nothing, and
//! nothing is copied on the way to the middleware.

use crate::align::NO_AGE;
use crate::cdr::Writer;
use crate::device::{Output, OutputMut};
use crate::layout::{ALIGNMENT, Layout};
use crate::spec::{RingId, SegmentId};
use crate::time::Stamp;

/// Memory for one output: the serialized message and where its changing parts are.
#[derive(Debug)]
pub struct TensorMessage {
    memory: Output,
    /// Where the message starts in `memory`: so that its data is aligned as the memory is.
    start: usize,
    segments: Vec<SegmentPlaces>,
    steps: Vec<Vec<StepState>>,
    /// Per ring and step: the serial of the row that was copied to the ring's part of the step. It
    /// is 0 if that part is zeros, `None` if it is interpolated or not known.
    rows: Vec<Vec<Option<u64>>>,
    /// The id of the pipeline of these rows: in another pipeline a serial means another row.
    pipeline: u64,
    tick_at: usize,
    data_at: usize,
}

/// Where the parts of a segment that change are in the message.
#[derive(Clone, Copy, Debug)]
struct SegmentPlaces {
    valid_at: usize,
    age_at: usize,
}

/// Validity and age of the value of one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepState {
    /// Whether the value may be acted on.
    pub valid: bool,
    /// Target minus the stamp of the newest row used \[ns\], [`NO_AGE`] if there is no row.
    pub age_ns: i64,
}

/// Position of `header.stamp` in the message: right after the encapsulation header.
const STAMP_AT: usize = crate::cdr::ENCAPSULATION_LEN;

impl TensorMessage {
    /// A message with all steps invalid and all values zero. `reserve` returns zeroed memory of the
    /// number of bytes that it is given.
    pub(crate) fn new(
        layout: &Layout,
        base_frame: &str,
        pipeline: u64,
        reserve: impl FnOnce(usize) -> Output,
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
        let steps_of = |segment| layout.segment(segment).steps;
        let rows = layout.rings().iter().map(|ring| vec![None; steps_of(ring.segment)]).collect();
        TensorMessage { memory, start, segments, steps, rows, pipeline, tick_at, data_at }
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
    pub(crate) fn data_mut(&mut self) -> OutputMut<'_> {
        let end = self.memory.len();
        self.memory.part_mut(self.start + self.data_at..end)
    }

    /// Validity and age of every history step of a segment.
    pub fn steps(&self, segment: SegmentId) -> &[StepState] {
        &self.steps[segment.index()]
    }

    pub(crate) fn set_tick(&mut self, tick: i64, stamp: Stamp) {
        let (sec, nanosec) = stamp.to_sec_nanosec();
        self.put(STAMP_AT, &sec.to_le_bytes());
        self.put(STAMP_AT + 4, &nanosec.to_le_bytes());
        // Only a simulator's clock may be before zero. The number of the tick wraps there.
        self.put(self.tick_at, &(tick as u64).to_le_bytes());
    }

    pub(crate) fn set_step(&mut self, segment: SegmentId, step: usize, state: StepState) {
        self.steps[segment.index()][step] = state;
        let places = self.segments[segment.index()];
        self.put(places.valid_at + step, &[u8::from(state.valid)]);
        self.put(places.age_at + 8 * step, &state.age_ns.to_le_bytes());
    }

    /// Becomes a `fresh` message, unless it is a message of `pipeline` already.
    pub(crate) fn belong_to(&mut self, pipeline: u64, fresh: impl FnOnce() -> TensorMessage) {
        if self.pipeline != pipeline {
            *self = fresh();
        }
    }

    /// Notes which row is about to be copied to a ring's part of a step. Returns whether that part
    /// is a copy of it already.
    pub(crate) fn replace_row(&mut self, ring: RingId, step: usize, row: Option<u64>) -> bool {
        let before = std::mem::replace(&mut self.rows[ring.index()][step], row);
        row.is_some() && before == row
    }

    /// Forgets the notes of [`TensorMessage::replace_row`], because no fuse followed them.
    pub(crate) fn forget_rows(&mut self) {
        self.rows.iter_mut().flatten().for_each(|row| *row = None);
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        let at = self.start + at;
        self.memory[at..at + bytes.len()].copy_from_slice(bytes);
    }
}
