//! Memory of one message, which ticks write.
//!
//! Names, shapes, dtypes and offsets never change, so every part keeps its place. A tick overwrites
//! the stamp, the numbers of the epoch and the tick, and what is said of each step. The
//! backend writes the tensor into the message's own `data`. So a tick allocates nothing, and
//! nothing is copied on the way to the middleware.
//!
//! The sender of the message may seal it first: [`TensorMessage::seal`] writes a digest of all of it. That reads the
//! whole tensor, so it is no part of a tick.

use std::hash::Hasher;
use std::sync::Arc;

use twox_hash::xxhash3_64::{RawHasher, SecretBuffer};

use super::{Envelope, Places, SegmentPlaces, StepState};
use crate::layout::{Layout, Segment};
use crate::spec::{RingId, SegmentId};
use robocache_ops::device::{DeviceError, DeviceOutput, Output, OutputMut};
use robocache_ops::time::{Epoch, Stamp};

/// Memory for one output: the serialized message. Each tick overwrites the parts that change.
#[derive(Debug)]
pub struct TensorMessage {
    memory: Output,
    /// The data, if it is on a device. Then `memory` ends before it.
    device: Option<DeviceOutput>,
    /// Start of the message in `memory`: so that its data is aligned as the memory is.
    start: usize,
    envelope: Arc<Envelope>,
    steps: Vec<Vec<StepState>>,
    /// Per ring and step: the serial of the row that was copied to the ring's part of the step. It is 0 if that part is
    /// zeros, `None` if it is interpolated or unknown.
    rows: Vec<Vec<Option<u64>>>,
    /// Per segment: see [`TensorMessage::is_unchanged`].
    unchanged: Vec<bool>,
    /// The id of the pipeline of these rows: in another pipeline a serial means another row.
    pipeline: u64,
    /// The instant of the tick.
    stamp: Stamp,
    /// See [`TensorMessage::changes`].
    changes: u64,
}

impl TensorMessage {
    /// A message with all steps invalid and all values zero. `envelope` is one of the layout. `reserve`
    /// returns zeroed memory of the number of bytes that it is given. `device` is the data, if it is on a
    /// device.
    pub(crate) fn new(
        layout: &Layout,
        envelope: &Arc<Envelope>,
        pipeline: u64,
        device: Option<DeviceOutput>,
        reserve: impl FnOnce(usize) -> Output,
    ) -> Self {
        let len = match device {
            Some(_) => envelope.byte_len_without_data(),
            None => envelope.byte_len(),
        };
        let start = envelope.lead();
        let mut memory = reserve(start + len);
        envelope.begin(&mut memory[start..]);
        let never = |segment: &Segment| vec![StepState::NEVER; segment.steps];
        let steps = layout.segments().iter().map(never).collect();
        let steps_of = |segment| layout.segment(segment).steps;
        let rows = layout.rings().iter().map(|ring| vec![None; steps_of(ring.segment)]).collect();
        let envelope = Arc::clone(envelope);
        let stamp = Stamp::ZERO;
        let unchanged = vec![false; layout.segments().len()];
        TensorMessage {
            memory,
            device,
            start,
            envelope,
            steps,
            rows,
            unchanged,
            pipeline,
            stamp,
            changes: 0,
        }
    }

    /// Envelope of the message, with the places of its parts. If the data is on a device, the places of the data are
    /// those of [`TensorMessage::complete`].
    pub fn envelope(&self) -> &Arc<Envelope> {
        &self.envelope
    }

    fn places(&self) -> &Places {
        self.envelope.places()
    }

    /// The serialized message, ready to be published or decoded. If the data is on a device, the message has none.
    pub fn message(&self) -> &[u8] {
        &self.memory[self.start..]
    }

    /// Start of its memory: at most [`ALIGNMENT`](robocache_ops::packing::ALIGNMENT) bytes in front of the message.
    pub fn memory_start(&self) -> *const u8 {
        self.memory.as_ptr()
    }

    /// True if another owner has lent its memory
    /// ([`Pipeline::new_message_in`](crate::pipeline::Pipeline::new_message_in)).
    pub fn is_lent(&self) -> bool {
        self.memory.is_lent()
    }

    /// The packed tensor inside the message; nothing if it is on a device.
    pub fn data(&self) -> &[u8] {
        &self.message()[self.places().data.start..]
    }

    /// The elements of a segment; nothing if they are on a device.
    pub fn segment_data(&self, segment: SegmentId) -> &[u8] {
        let range = self.places().segments[segment.index()].data.clone();
        self.message().get(range).unwrap_or_default()
    }

    /// The packed tensor, for the backend to write.
    pub(crate) fn data_mut(&mut self) -> OutputMut<'_> {
        if let Some(output) = &mut self.device {
            return OutputMut::Device(output);
        }
        let at = self.start + self.envelope.places().data.start;
        let end = self.memory.len();
        self.memory.part_mut(at..end)
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
            self.envelope.set_data_len(&mut message, output.len());
            message.resize(self.envelope.byte_len(), 0);
            output.download(&mut message[self.places().data.clone()])?;
        }
        Ok(message)
    }

    /// The instant of its tick.
    pub fn stamp(&self) -> Stamp {
        self.stamp
    }

    /// The run of the node that makes it; 0 if no node does.
    pub fn run(&self) -> u64 {
        self.envelope.run()
    }

    /// How many changes of the rings its tick saw. The changes are numbered from 1, so that these are those up to
    /// this number ([`Accepted::changes`](crate::pipeline::Accepted::changes)).
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Number of segments.
    pub fn segments(&self) -> usize {
        self.steps.len()
    }

    /// State of every history step of a segment in the message.
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
        for range in self.places().segments.iter().flat_map(SegmentPlaces::step_ranges) {
            hasher.write(&message[range]);
        }
        hasher.write(self.data());
        let digest = hasher.finish();
        self.envelope.places().put_digest(&mut self.memory[self.start..], digest);
    }

    /// The digest of some segments, alike: of `valid` to `inputs_valid` of each, and then of the data of each, without the padding
    /// between them. `None` if the data is on a device.
    pub fn digest_of(&self, segments: &[bool]) -> Option<u64> {
        if self.device.is_some() {
            return None;
        }
        let mut hasher = RawHasher::new(SecretBuffer::default());
        let message = self.message();
        let wanted = || self.places().segments.iter().zip(segments).filter(|(_, wanted)| **wanted);
        for range in wanted().flat_map(|(segment, _)| segment.step_ranges()) {
            hasher.write(&message[range]);
        }
        wanted().for_each(|(segment, _)| hasher.write(&message[segment.data.clone()]));
        Some(hasher.finish()).filter(|digest| *digest != 0)
    }

    /// The digest, if the message is sealed.
    pub fn digest(&self) -> Option<u64> {
        Some(self.places().digest(self.message())).filter(|digest| *digest != 0)
    }

    pub(crate) fn set_tick(&mut self, epoch: Epoch, tick: i64, stamp: Stamp, changes: u64) {
        (self.stamp, self.changes) = (stamp, changes);
        let places = self.envelope.places();
        let message = &mut self.memory[self.start..];
        places.put_epoch(message, epoch.number());
        places.put_tick(message, tick, stamp);
    }

    pub(crate) fn set_step(&mut self, segment: SegmentId, step: usize, state: StepState) {
        self.steps[segment.index()][step] = state;
        let places = &self.envelope.places().segments[segment.index()];
        places.put_step(&mut self.memory[self.start..], step, state);
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

    /// Forgets which rows the data is made of, because no fuse followed the notes, or other code may have written
    /// there. Then the next tick makes all of the data.
    pub fn forget_rows(&mut self) {
        self.rows.iter_mut().flatten().for_each(|row| *row = None);
        self.unchanged.fill(false);
    }

    /// Notes whether a segment is made of the same rows as at the tick before.
    pub(crate) fn set_unchanged(&mut self, segment: SegmentId, unchanged: bool) {
        self.unchanged[segment.index()] = unchanged;
    }

    /// True if the newest tick left the elements of a segment as the tick before in this memory had made them. If
    /// false, they may still be equal.
    pub fn is_unchanged(&self, segment: SegmentId) -> bool {
        self.unchanged[segment.index()]
    }
}
