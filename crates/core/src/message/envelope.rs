//! Bytes that the messages of a form begin with.

use super::{Places, SegmentPlaces, StepState};
use crate::cdr::{ENCAPSULATION_LEN, Writer};
use crate::layout::{Layout, Segment};
use robocache_ops::packing::ALIGNMENT;
use robocache_ops::time::Stamp;

/// A form of message for one layout: the bytes that never change, and the places of all parts.
///
/// Names, shapes, types and offsets are serialized once. So every message is a copy of these bytes, and
/// a tick overwrites only the parts that change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// The bytes in front of the data, for data on the host. No step has been served yet.
    head: Vec<u8>,
    places: Places,
}

impl Envelope {
    /// `robocache_ros/msg/FusedTensor`: its data is the packed tensor of a layout, in one run.
    pub fn fused_tensor(layout: &Layout, base_frame: &str) -> Self {
        let mut writer = Writer::new();
        let stamp_at = ENCAPSULATION_LEN;
        writer.header(Stamp::ZERO, base_frame);
        writer.u64(0);
        let run_at = Some(writer.position() - 8);
        // The epoch, and the tick.
        writer.u64(0);
        writer.u64(0);
        let tick_at = writer.position() - 8;
        writer.u64(0);
        let digest_at = writer.position() - 8;
        writer.u32(layout.segments().len() as u32);
        let segments = layout.segments().iter();
        let mut segments: Vec<_> = segments.map(|segment| write(&mut writer, segment)).collect();
        writer.u32(layout.byte_len() as u32);
        let data_at = writer.position();
        for (places, segment) in segments.iter_mut().zip(layout.segments()) {
            let at = data_at + segment.byte_offset;
            places.data = at..at + segment.byte_len;
        }
        let places = Places {
            frame_id: base_frame.to_owned(),
            big_endian: false,
            stamp_at,
            run_at,
            tick_at,
            digest_at,
            segments,
            data: data_at..data_at + layout.byte_len(),
        };
        Envelope::new(writer.finish(), places)
    }

    /// A form with these bytes in front of the data, and these places.
    pub(super) const fn new(head: Vec<u8>, places: Places) -> Self {
        Envelope { head, places }
    }

    /// The bytes in front of the data.
    pub(super) fn head(&self) -> &[u8] {
        &self.head
    }

    /// Sets the run that the messages name.
    pub(crate) fn set_run(&mut self, run: u64) {
        self.places.put_run(&mut self.head, run);
    }

    /// The run that the messages name; 0 if no node makes them.
    pub(crate) fn run(&self) -> u64 {
        self.places.run(&self.head)
    }

    /// Places of the parts of each message.
    pub const fn places(&self) -> &Places {
        &self.places
    }

    /// Bytes of a message with its data.
    pub const fn byte_len(&self) -> usize {
        self.places.data.end
    }

    /// Bytes of a message whose data is elsewhere, on a device.
    pub(super) const fn byte_len_without_data(&self) -> usize {
        self.places.data.start
    }

    /// Bytes to leave free in front of a message. Then its data is aligned as its memory is.
    pub(super) const fn lead(&self) -> usize {
        self.places.data.start.next_multiple_of(ALIGNMENT) - self.places.data.start
    }

    /// Bytes of memory for a message with its data.
    pub(crate) const fn memory_len(&self) -> usize {
        self.lead() + self.byte_len()
    }

    /// Writes the bytes that never change into a zeroed message, with or without its data.
    pub(super) fn begin(&self, message: &mut [u8]) {
        let has_data = message.len() > self.head.len();
        message[..self.head.len()].copy_from_slice(&self.head);
        if !has_data {
            self.set_data_len(message, 0);
        }
    }

    /// Writes how many bytes of data follow.
    pub(super) fn set_data_len(&self, message: &mut [u8], len: usize) {
        message[self.head.len() - 4..self.head.len()].copy_from_slice(&(len as u32).to_le_bytes());
    }
}

/// Writes a `TensorSegment`, and notes where its steps are.
fn write(writer: &mut Writer, segment: &Segment) -> SegmentPlaces {
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
    SegmentPlaces {
        name: segment.name.clone(),
        dtype: segment.dtype,
        shape: segment.shape.clone(),
        data: 0..0,
        steps_at: [valid_at, target_at, age_at, count_at, inputs_at],
    }
}
