//! Samples that come from no message: arrays of a program.
//!
//! Their headers are judged as those of messages, and their samples become rows in the same way.

use super::{Accepted, Arrival, EncodedAhead, NotTaken, Pipeline};
use crate::cdr::F64Sequence;
use crate::input::{ArraySample, Input, SampleSink, Sink, array};
use crate::rejected::{DropReason, Rejected};
use crate::sample::{Header, Sample, SampleKind};
use crate::spec::{InputId, RingId, StreamId};

impl Pipeline {
    /// The channels of its stream that an input feeds, ascending; empty if it feeds no vector. A
    /// [`ArraySample::Vector`] has their numbers in this order.
    pub fn channels_of(&self, input: InputId) -> Vec<usize> {
        let spec = self.config.input(input);
        let Some(stream) = spec.stream else { return Vec::new() };
        let mut channels: Vec<usize> =
            spec.feeds.iter().flat_map(|ring| self.group(stream, *ring)).copied().collect();
        channels.sort_unstable();
        channels
    }

    /// The channels of a ring of a vector.
    fn group(&self, stream: StreamId, ring: RingId) -> &[usize] {
        let Some(vector) = self.config.stream(stream).encoder.as_vector() else { return &[] };
        vector.groups.get(self.layout.ring(ring).group).map_or(&[], |group| &group.channels)
    }

    /// Takes in a sample of an input, with the same checks as the sample of a message. `header` is what the message
    /// would have.
    ///
    /// # Errors
    /// As for [`Pipeline::push`]. `Unsupported` if the input takes no such sample, `Malformed` if its size is wrong.
    pub fn push_sample(
        &self,
        input: InputId,
        header: &Header<'_>,
        sample: &ArraySample<'_>,
        arrival: Arrival,
    ) -> Result<Accepted, NotTaken> {
        self.push_by(input, arrival, |reader, sink| {
            self.read_sample(input, reader, header, sample, sink)
        })
    }

    /// Encodes a sample of an input before its turn, as [`Pipeline::encode_ahead`] does a message.
    pub fn encode_sample_ahead(
        &self,
        input: InputId,
        header: &Header<'_>,
        sample: &ArraySample<'_>,
    ) -> EncodedAhead {
        self.encode_ahead_by(input, |reader, sink| {
            self.read_sample(input, reader, header, sample, sink)
        })
    }

    /// Hands what an array has to the sink, if the sink admits its header.
    fn read_sample(
        &self,
        input: InputId,
        reader: &mut dyn Input,
        header: &Header<'_>,
        sample: &ArraySample<'_>,
        sink: &mut dyn Sink,
    ) -> Result<(), Rejected> {
        let spec = self.config.input(input);
        array::check_kind(spec, sample)?;
        let Some(sink) = sink.admit(header) else { return Ok(()) };
        match (spec.takes_arrays(), *sample) {
            (Some(SampleKind::Vector), ArraySample::Vector(values)) => {
                self.vectors(input, values, sink)
            }
            (Some(SampleKind::Vector), ArraySample::Joints { names, positions }) => {
                reader.read_joints(names, F64Sequence::of_le_bytes(positions), sink)
            }
            _ => array::read(spec, sample, sink),
        }
    }

    /// Hands a vector to the rings that the input feeds.
    fn vectors(
        &self,
        input: InputId,
        values: &[f64],
        sink: &mut dyn SampleSink,
    ) -> Result<(), Rejected> {
        let channels = self.channels_of(input);
        if values.len() != channels.len() {
            let expected = channels.len();
            let found = values.len();
            let detail = format!("expected {expected} numbers, found {found}");
            return Err(Rejected::new(DropReason::Malformed, detail));
        }
        let spec = self.config.input(input);
        let Some(stream) = spec.stream else { return Ok(()) };
        let value = |channel: &usize| channels.binary_search(channel).ok().map(|at| values[at]);
        for (part, ring) in spec.feeds.iter().enumerate() {
            let row: Vec<f64> = self.group(stream, *ring).iter().filter_map(value).collect();
            sink.sample(part, Sample::Vector(&row));
        }
        Ok(())
    }
}
