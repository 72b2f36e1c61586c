//! Messages that are encoded before their turn.
//!
//! A replay knows which messages come. [`Pipeline::encode_ahead`] does what depends on the message alone: it reads the
//! message, and encodes its sample into a spare slot. [`Pipeline::push_ahead`] does the rest when the message's turn has
//! come. Both together do what [`Pipeline::push`] does.

use super::admit::{Admission, Placing, check_frame};
use super::arrival::cleared;
use super::push::{NewRows, PushSink, check_sample, tick_has_read};
use super::{Accepted, Arrival, NotTaken, Pipeline};
use crate::backend::BackendError;
use crate::input::{Input, SampleSink, Sink};
use crate::rejected::Rejected;
use crate::ring::Lease;
use crate::sample::{Header, Sample, StampError, Trajectory};
use crate::spec::{InputId, InputSpec, RingId, StreamId};
use robocache_ops::time::Stamp;
use robocache_ops::voxelize::PointDrops;

/// A message that has been read and encoded. If it is never pushed, its slots are lost.
#[derive(Debug)]
#[must_use = "a message that is not pushed loses its slots"]
pub struct EncodedAhead {
    /// The header; `None` if it could not be read.
    header: Option<HeaderAhead>,
    samples: Vec<SampleAhead>,
    /// How the rest was read.
    read: Result<(), NotTaken>,
}

/// Stamp and frame of a message that has been encoded ahead.
#[derive(Debug)]
struct HeaderAhead {
    stamp: Result<Stamp, StampError>,
    frame_id: String,
}

/// A sample that has been encoded.
#[derive(Debug)]
struct SampleAhead {
    ring: RingId,
    encoded: Result<(Lease, PointDrops), BackendError>,
}

impl Pipeline {
    /// Reads and encodes a message. [`Config::encodes_ahead`](crate::spec::Config::encodes_ahead) must be true for the
    /// input. The caller encodes the messages of a stream in their order. At most one more than
    /// [`rows_ahead`](crate::spec::StreamSpec::rows_ahead) of them may wait to be pushed.
    pub fn encode_ahead(&self, input: InputId, message: &[u8]) -> EncodedAhead {
        self.encode_ahead_by(input, |reader, sink| reader.read(message, sink))
    }

    /// Encodes what `read` hands to the sink. It is given the input's reader.
    pub(super) fn encode_ahead_by(
        &self,
        input: InputId,
        read: impl FnOnce(&mut dyn Input, &mut dyn Sink) -> Result<(), Rejected>,
    ) -> EncodedAhead {
        let spec = self.config.input(input);
        let mut sink =
            AheadSink { pipeline: self, spec, header: None, placing: None, samples: Vec::new() };
        let read = match self.inputs[input.index()].input.lock() {
            Ok(mut reader) => read(reader.as_mut(), &mut sink).map_err(NotTaken::Dropped),
            Err(_) => Err(NotTaken::Failed(self.panicked(&spec.name))),
        };
        EncodedAhead { header: sink.header, samples: sink.samples, read }
    }

    /// Takes in a message of an input that has been encoded. The messages of an input are pushed in the order in which
    /// they were encoded.
    ///
    /// # Errors
    /// As for [`Pipeline::push`].
    pub fn push_ahead(
        &self,
        input: InputId,
        EncodedAhead { header, samples, read }: EncodedAhead,
        arrival: Arrival,
    ) -> Result<Accepted, NotTaken> {
        let read = match read {
            Ok(()) => Ok(()),
            Err(NotTaken::Dropped(rejected)) => Err(rejected),
            Err(failed) => return Err(failed),
        };
        self.push_by(input, arrival, |_, sink| {
            let admitted = header.is_none_or(|HeaderAhead { stamp, frame_id }| {
                let header = Header { stamp, frame_id: &frame_id, child_frame_id: "" };
                sink.admit(&header).is_some()
            });
            for sample in samples {
                match admitted {
                    true => sink.sample_ahead(sample),
                    false => sample.give_back(self),
                }
            }
            if admitted { read } else { Ok(()) }
        })
    }
}

impl SampleAhead {
    fn give_back(self, pipeline: &Pipeline) {
        if let Ok((lease, _)) = self.encoded {
            pipeline.lock_rings().ring(self.ring).give_back(lease);
        }
    }
}

/// Encodes the samples of one message.
struct AheadSink<'a> {
    pipeline: &'a Pipeline,
    spec: &'a InputSpec,
    header: Option<HeaderAhead>,
    /// The stream, and how its samples are placed; `None` until the message is admitted.
    placing: Option<(StreamId, Placing<'a>)>,
    samples: Vec<SampleAhead>,
}

impl Sink for AheadSink<'_> {
    /// Judges only what neither the arrival nor another message decides. The rest is judged when the message is pushed.
    fn admit(&mut self, header: &Header<'_>) -> Option<&mut dyn SampleSink> {
        let Header { stamp, frame_id, .. } = *header;
        self.header = Some(HeaderAhead { stamp, frame_id: frame_id.to_owned() });
        let stream = self.spec.stream?;
        check_frame(self.spec, header).ok()?;
        let arrival = Arrival::default();
        let placing =
            Placing::find(self.pipeline, self.spec, stream, header, Stamp::MIN, arrival).ok()?;
        self.placing = Some((stream, placing));
        Some(self)
    }
}

impl SampleSink for AheadSink<'_> {
    fn sample(&mut self, part: usize, sample: Sample<'_>) {
        let Some(ring) = self.spec.feeds.get(part).copied() else { return };
        let encoded = self.encode(ring, sample);
        self.samples.push(SampleAhead { ring, encoded });
    }

    // Only inputs of vectors have these.
    fn trajectory(&mut self, _: &Trajectory<'_>) {}
    fn incomplete(&mut self, _: usize, _: &str) {}
}

impl AheadSink<'_> {
    fn encode(
        &self,
        ring: RingId,
        sample: Sample<'_>,
    ) -> Result<(Lease, PointDrops), BackendError> {
        let Pipeline { config, backend, encoding, .. } = self.pipeline;
        let failed = |detail: &str| BackendError::Failed {
            backend: backend.name(),
            operation: "encode ahead",
            detail: detail.into(),
        };
        let Some((stream, placing)) = &self.placing else {
            return Err(failed("a sample of a message that was not admitted"));
        };
        let stream = config.stream(*stream);
        check_sample(stream, &sample)?;
        let mut moved = Vec::new();
        let placed = placing.place(sample, None, &mut moved)?;
        let encoding = encoding[ring.index()].lock();
        let _encoding = encoding.map_err(|_| self.pipeline.panicked(&stream.name))?;
        let mut rings = self.pipeline.lock_rings();
        let Some(lease) = rings.ring(ring).lease() else {
            drop(rings);
            return Err(failed("more messages than there are spare rows"));
        };
        tick_has_read(self.pipeline, rings, (ring, lease.slot()));
        match backend.encode(ring, lease.slot(), &placed) {
            Ok(drops) => Ok((lease, drops)),
            Err(error) => {
                self.pipeline.lock_rings().ring(ring).give_back(lease);
                Err(error)
            }
        }
    }
}

impl PushSink<'_> {
    /// Takes an encoded sample of a message that was admitted.
    fn sample_ahead(&mut self, sample: SampleAhead) {
        let Some(admitted) = &self.admitted else { return sample.give_back(self.pipeline) };
        let row = self.row_ahead(admitted, sample);
        self.note_row(row);
    }

    fn row_ahead(
        &self,
        admitted: &Admission<'_>,
        SampleAhead { ring, encoded }: SampleAhead,
    ) -> Result<NewRows, NotTaken> {
        let (mut lease, drops) = encoded?;
        lease.note_received(self.seen_from());
        let mut rings = self.pipeline.lock_rings();
        if !self.enter(&mut rings) {
            rings.ring(ring).give_back(lease);
            drop(rings);
            return Err(cleared().into());
        }
        rings.ring(ring).renew(&mut lease);
        drop(rings);
        self.enter_row(admitted.stream, ring, admitted.stamp, lease, &drops)
    }
}
