//! A tick as the bytes of a `robocache_ros/msg/FusedTensor`.
//!
//! The message is serialized once: names, shapes, dtypes and offsets never change, so every part
//! keeps its place. A tick overwrites the stamp, the tick number and what is said of each step. The
//! backend writes the tensor into the message's own `data`. So a tick allocates nothing, and
//! nothing is copied on the way to the middleware.
//!
//! Whoever sends the message may seal it first: [`TensorMessage::seal`] writes a digest of all of
//! it. That reads the whole tensor, so it is no part of a tick.

use std::hash::Hasher;
use std::ops::Range;

use twox_hash::xxhash3_64::{RawHasher, SecretBuffer};

use crate::cdr::Writer;
use crate::layout::{Layout, Segment};
use crate::spec::{RingId, SegmentId};
use robocache_ops::align::NO_AGE;
use robocache_ops::device::{DeviceError, DeviceOutput, Output, OutputMut};
use robocache_ops::packing::ALIGNMENT;
use robocache_ops::time::Stamp;

/// Memory for one output: the serialized message and where its changing parts are.
#[derive(Debug)]
pub struct TensorMessage {
    memory: Output,
    /// The data, if it is on a device. Then `memory` ends before it.
    device: Option<DeviceOutput>,
    /// Where the message starts in `memory`: so that its data is aligned as the memory is.
    start: usize,
    segments: Vec<SegmentPlaces>,
    steps: Vec<Vec<StepState>>,
    /// Per ring and step: the serial of the row that was copied to the ring's part of the step. It
    /// is 0 if that part is zeros, `None` if it is interpolated or not known.
    rows: Vec<Vec<Option<u64>>>,
    /// The id of the pipeline of these rows: in another pipeline a serial means another row.
    pipeline: u64,
    /// The instant of the tick.
    stamp: Stamp,
    /// See [`TensorMessage::changes`].
    changes: u64,
    tick_at: usize,
    digest_at: usize,
    data_at: usize,
}

/// Where the parts of a segment that change are in the message: an entry per step.
#[derive(Clone, Copy, Debug)]
struct SegmentPlaces {
    steps: usize,
    valid_at: usize,
    target_at: usize,
    age_at: usize,
    count_at: usize,
    inputs_at: usize,
}

/// What the message says of one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepState {
    /// Whether the value may be acted on.
    pub valid: bool,
    /// The step's target time, on the node's clock.
    pub target: Stamp,
    /// Target minus the stamp of the newest row used \[ns\], [`NO_AGE`] if there is no row.
    pub age_ns: i64,
    /// Entries in use along the segment's second dimension: all of them, unless the value is zeros
    /// because there is no row.
    pub count: u32,
    /// Bit `i`: the step is valid, and a row that it uses came from the stream's input `i`.
    pub inputs_valid: u32,
}

impl StepState {
    /// The state before the first tick.
    const NEVER: StepState =
        StepState { valid: false, target: Stamp::ZERO, age_ns: NO_AGE, count: 0, inputs_valid: 0 };
}

impl SegmentPlaces {
    /// Writes a segment and notes where its steps are. None of them has been served yet.
    fn write(writer: &mut Writer, segment: &Segment) -> Self {
        let steps = segment.steps;
        writer.string(&segment.name);
        writer.u8(segment.dtype.dlpack_code());
        writer.u8(segment.dtype.bits());
        writer.u16(1);
        writer.i64_sequence(segment.shape.iter().map(|dim| *dim as i64));
        writer.u64(segment.byte_offset as u64);
        let never = StepState::NEVER;
        writer.bytes(&vec![u8::from(never.valid); steps]);
        let valid_at = writer.position() - steps;
        writer.i64_sequence(std::iter::repeat_n(never.target.nanos(), steps));
        let target_at = writer.position() - 8 * steps;
        writer.i64_sequence(std::iter::repeat_n(never.age_ns, steps));
        let age_at = writer.position() - 8 * steps;
        writer.u32_sequence(std::iter::repeat_n(never.count, steps));
        let count_at = writer.position() - 4 * steps;
        writer.u32_sequence(std::iter::repeat_n(never.inputs_valid, steps));
        let inputs_at = writer.position() - 4 * steps;
        SegmentPlaces { steps, valid_at, target_at, age_at, count_at, inputs_at }
    }

    /// The bytes that change, in the order of the message.
    fn ranges(&self) -> [Range<usize>; 5] {
        let range = |at: usize, size: usize| at..at + size * self.steps;
        [
            range(self.valid_at, 1),
            range(self.target_at, 8),
            range(self.age_at, 8),
            range(self.count_at, 4),
            range(self.inputs_at, 4),
        ]
    }
}

/// Position of `header.stamp` in the message: right after the encapsulation header.
const STAMP_AT: usize = crate::cdr::ENCAPSULATION_LEN;

impl TensorMessage {
    /// A message with all steps invalid and all values zero. `reserve` returns zeroed memory of the
    /// number of bytes that it is given. `device` is the data, if it is on a device.
    pub(crate) fn new(
        layout: &Layout,
        base_frame: &str,
        pipeline: u64,
        device: Option<DeviceOutput>,
        reserve: impl FnOnce(usize) -> Output,
    ) -> Self {
        let host_len = if device.is_some() { 0 } else { layout.byte_len() };
        let mut writer = Writer::new();
        writer.header(Stamp::ZERO, base_frame);
        writer.u64(0);
        let tick_at = writer.position() - 8;
        writer.u64(0);
        let digest_at = writer.position() - 8;
        writer.u32(layout.segments().len() as u32);
        let segments = layout.segments().iter();
        let segments = segments.map(|segment| SegmentPlaces::write(&mut writer, segment)).collect();
        writer.u32(host_len as u32);
        let data_at = writer.position();
        let head = writer.finish();
        let start = data_at.next_multiple_of(ALIGNMENT) - data_at;
        let mut memory = reserve(start + data_at + host_len);
        memory[start..start + data_at].copy_from_slice(&head);
        let never = |segment: &Segment| vec![StepState::NEVER; segment.steps];
        let steps = layout.segments().iter().map(never).collect();
        let steps_of = |segment| layout.segment(segment).steps;
        let rows = layout.rings().iter().map(|ring| vec![None; steps_of(ring.segment)]).collect();
        TensorMessage {
            memory,
            device,
            start,
            segments,
            steps,
            rows,
            pipeline,
            stamp: Stamp::ZERO,
            changes: 0,
            tick_at,
            digest_at,
            data_at,
        }
    }

    /// The serialized message, ready to be published or decoded. If the data is on a device, the message has none.
    pub fn message(&self) -> &[u8] {
        &self.memory[self.start..]
    }

    /// The packed tensor inside the message; nothing if it is on a device.
    pub fn data(&self) -> &[u8] {
        &self.memory[self.start + self.data_at..]
    }

    /// The packed tensor, for the backend to write.
    pub(crate) fn data_mut(&mut self) -> OutputMut<'_> {
        if let Some(output) = &mut self.device {
            return OutputMut::Device(output);
        }
        let end = self.memory.len();
        self.memory.part_mut(self.start + self.data_at..end)
    }

    /// The packed tensor, if it is on a device.
    pub fn on_device(&self) -> Option<&DeviceOutput> {
        self.device.as_ref()
    }

    /// A copy of the message with its data, wherever that is.
    ///
    /// # Errors
    /// The device's.
    pub fn complete(&self) -> Result<Vec<u8>, DeviceError> {
        let mut message = self.message().to_vec();
        if let Some(output) = &self.device {
            let len = output.len();
            message[self.data_at - 4..].copy_from_slice(&(len as u32).to_le_bytes());
            message.resize(self.data_at + len, 0);
            output.download(&mut message[self.data_at..])?;
        }
        Ok(message)
    }

    /// The instant of its tick.
    pub fn stamp(&self) -> Stamp {
        self.stamp
    }

    /// How many changes of the rings its tick saw. The changes are numbered from 1, so that these are those up to
    /// this number ([`Accepted::changes`](super::Accepted::changes)).
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Number of segments.
    pub fn segments(&self) -> usize {
        self.segments.len()
    }

    /// What the message says of every history step of a segment.
    pub fn steps(&self, segment: SegmentId) -> &[StepState] {
        &self.steps[segment.index()]
    }

    /// Writes the message's digest. It is the XXH3 hash (64 bits, seed 0) of `valid`, `target_ns`,
    /// `age_ns`, `count` and `inputs_valid` of each segment, and then of `data`: their bytes as
    /// they are in the message, without lengths and padding. Allocates nothing. The next tick
    /// clears the digest. Does nothing if the data is on a device.
    pub fn seal(&mut self) {
        if self.device.is_some() {
            return;
        }
        let mut hasher = RawHasher::new(SecretBuffer::default());
        let message = self.message();
        for place in self.segments.iter().flat_map(SegmentPlaces::ranges) {
            hasher.write(&message[place]);
        }
        hasher.write(self.data());
        let digest = hasher.finish();
        self.put(self.digest_at, &digest.to_le_bytes());
    }

    /// The digest, if the message is sealed.
    pub fn digest(&self) -> Option<u64> {
        let bytes = self.message()[self.digest_at..].first_chunk()?;
        Some(u64::from_le_bytes(*bytes)).filter(|digest| *digest != 0)
    }

    pub(crate) fn set_tick(&mut self, tick: i64, stamp: Stamp, changes: u64) {
        (self.stamp, self.changes) = (stamp, changes);
        let (sec, nanosec) = stamp.to_sec_nanosec();
        self.put(STAMP_AT, &sec.to_le_bytes());
        self.put(STAMP_AT + 4, &nanosec.to_le_bytes());
        // Only a simulator's clock may be before zero. The number of the tick wraps there.
        self.put(self.tick_at, &(tick as u64).to_le_bytes());
        self.put(self.digest_at, &[0; 8]);
    }

    pub(crate) fn set_step(&mut self, segment: SegmentId, step: usize, state: StepState) {
        self.steps[segment.index()][step] = state;
        let places = self.segments[segment.index()];
        let StepState { valid, target, age_ns, count, inputs_valid } = state;
        self.put(places.valid_at + step, &[u8::from(valid)]);
        self.put(places.target_at + 8 * step, &target.nanos().to_le_bytes());
        self.put(places.age_at + 8 * step, &age_ns.to_le_bytes());
        self.put(places.count_at + 4 * step, &count.to_le_bytes());
        self.put(places.inputs_at + 4 * step, &inputs_valid.to_le_bytes());
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

    /// Forgets which rows the data is made of, because no fuse followed the notes, or somebody else may have written
    /// there: the next tick makes all of it.
    pub fn forget_rows(&mut self) {
        self.rows.iter_mut().flatten().for_each(|row| *row = None);
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        let at = self.start + at;
        self.memory[at..at + bytes.len()].copy_from_slice(bytes);
    }
}
