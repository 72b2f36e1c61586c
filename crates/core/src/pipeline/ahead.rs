//! Messages that are encoded before their turn.
//!
//! A replay knows which messages come. [`Pipeline::encode_ahead`] does what depends on the message alone: it reads the
//! message, and encodes its sample into a spare slot. [`Pipeline::push_ahead`] does the rest when the message's turn has
//! come. Both together do what [`Pipeline::push`] does.

use super::push::{NewRows, PushSink, check_frame, check_sample, tick_has_read};
use super::{Accepted, Arrival, NotTaken, Pipeline};
use crate::backend::BackendError;
use crate::input::Sink;
use crate::rejected::Rejected;
use crate::ring::Lease;
use crate::sample::{Header, Sample, StampError, Trajectory};
use crate::spec::{InputId, InputSpec, RingId};
use robocache_ops::time::Stamp;
use robocache_ops::voxelize::{PointDrops, PointsView};

/// A message that has been read and encoded. If it is never pushed, its slots are lost.
#[derive(Debug)]
#[must_use = "a message that is not pushed loses its slots"]
pub struct EncodedAhead(Result<Vec<SampleAhead>, EncodeAheadError>);

/// Why a message was not read.
#[derive(Debug)]
enum EncodeAheadError {
    Rejected(Rejected),
    Failed(BackendError),
}

/// A sample that has been encoded.
#[derive(Debug)]
pub(super) struct SampleAhead {
    ring: RingId,
    stamp: Result<Stamp, StampError>,
    /// The outer error: the sample was not encoded, because no row can be made of it.
    encoded: Result<Result<(Lease, PointDrops), BackendError>, Rejected>,
}

impl Pipeline {
    /// Reads and encodes a message. [`Config::encodes_ahead`](crate::spec::Config::encodes_ahead) must be true for the
    /// input. The caller encodes the messages of a stream in their order. At most one more than
    /// [`rows_ahead`](crate::spec::StreamSpec::rows_ahead) of them may wait to be pushed.
    pub fn encode_ahead(&self, input: InputId, message: &[u8]) -> EncodedAhead {
        let spec = self.config.input(input);
        let mut sink = AheadSink { pipeline: self, spec, samples: Vec::new() };
        let Ok(mut reader) = self.inputs[input.index()].input.lock() else {
            return EncodedAhead(Err(EncodeAheadError::Failed(self.panicked(&spec.name))));
        };
        let read = reader.read(message, &mut sink).map_err(EncodeAheadError::Rejected);
        EncodedAhead(read.map(|()| sink.samples))
    }

    /// Takes in a message of an input that has been encoded. The messages of an input are pushed in the order in which
    /// they were encoded.
    ///
    /// # Errors
    /// As for [`Pipeline::push`].
    pub fn push_ahead(
        &self,
        input: InputId,
        EncodedAhead(encoded): EncodedAhead,
        arrival: Arrival,
    ) -> Result<Accepted, NotTaken> {
        let samples = match encoded {
            Err(EncodeAheadError::Failed(error)) => return Err(NotTaken::Failed(error)),
            Err(EncodeAheadError::Rejected(rejected)) => Err(rejected),
            Ok(samples) => Ok(samples),
        };
        self.push_by(input, arrival, |_, sink| {
            samples?.into_iter().for_each(|sample| sink.sample_ahead(sample));
            Ok(())
        })
    }
}

/// Encodes the samples of one message.
struct AheadSink<'a> {
    pipeline: &'a Pipeline,
    spec: &'a InputSpec,
    samples: Vec<SampleAhead>,
}

impl Sink for AheadSink<'_> {
    fn sample(&mut self, part: usize, header: &Header<'_>, sample: Sample<'_>) {
        let Some(ring) = self.spec.feeds.get(part).copied() else { return };
        let encoded = self.check(ring, header, &sample).map(|()| self.encode(ring, sample));
        self.samples.push(SampleAhead { ring, stamp: header.stamp, encoded });
    }

    // Only inputs of vectors have these.
    fn trajectory(&mut self, _: &Header<'_>, _: &Trajectory<'_>) {}
    fn incomplete(&mut self, _: usize, _: &str) {}
}

impl AheadSink<'_> {
    fn check(
        &self,
        ring: RingId,
        header: &Header<'_>,
        sample: &Sample<'_>,
    ) -> Result<(), Rejected> {
        let stream = self.pipeline.layout.ring(ring).stream;
        check_frame(self.spec, header)?;
        check_sample(self.pipeline.config.stream(stream), sample)
    }

    fn encode(
        &self,
        ring: RingId,
        sample: Sample<'_>,
    ) -> Result<(Lease, PointDrops), BackendError> {
        let Pipeline { config, layout, backend, encoding, .. } = self.pipeline;
        let stream = config.stream(layout.ring(ring).stream);
        let t_base_sensor = self.spec.t_base_sensor;
        // No shape is attached to a frame.
        let filter = stream.encoder.filter();
        let t_shapes = filter.map(|filter| filter.place(&t_base_sensor, |_| None));
        let sample = match sample {
            Sample::Points(view) => Sample::Points(PointsView {
                t_base_sensor,
                t_shapes: t_shapes.as_deref().unwrap_or_default(),
                ..view
            }),
            sample => sample,
        };
        let encoding = encoding[ring.index()].lock();
        let _encoding = encoding.map_err(|_| self.pipeline.panicked(&stream.name))?;
        let mut rings = self.pipeline.lock_rings();
        let Some(lease) = rings.ring(ring).lease() else {
            let detail = "more messages than there are spare rows".into();
            let (backend, operation) = (backend.name(), "encode ahead");
            return Err(BackendError::Failed { backend, operation, detail });
        };
        tick_has_read(self.pipeline, rings, (ring, lease.slot()));
        match backend.encode(ring, lease.slot(), sample) {
            Ok(drops) => Ok((lease, drops)),
            Err(error) => {
                self.pipeline.lock_rings().ring(ring).give_back(lease);
                Err(error)
            }
        }
    }
}

impl PushSink<'_> {
    /// Takes an encoded sample. What is wrong is found in the order in which [`Pipeline::push`] finds it.
    fn sample_ahead(&mut self, sample: SampleAhead) {
        let header = Header { stamp: sample.stamp, frame_id: "", child_frame_id: "" };
        self.note_delay(&header);
        let row = self.row_ahead(sample, &header);
        self.note_row(row);
    }

    fn row_ahead(
        &self,
        SampleAhead { ring, encoded, .. }: SampleAhead,
        header: &Header<'_>,
    ) -> Result<NewRows, NotTaken> {
        let stream = self.pipeline.layout.ring(ring).stream;
        let entered = self.enter(&mut self.pipeline.lock_rings());
        let encoded = match encoded {
            Ok(encoded) => encoded,
            Err(unfit) => return Err(entered.err().unwrap_or(unfit).into()),
        };
        let stamp =
            entered.and_then(|()| self.stamp_of(header, self.pipeline.config.stream(stream)));
        let (mut lease, drops, stamp) = match (encoded, stamp) {
            (Ok((lease, drops)), Ok(stamp)) => (lease, drops, stamp),
            (Err(error), Ok(_)) => return Err(error.into()),
            (encoded, Err(rejected)) => {
                if let Ok((lease, _)) = encoded {
                    self.pipeline.lock_rings().ring(ring).give_back(lease);
                }
                return Err(rejected.into());
            }
        };
        lease.note_received(self.seen_from());
        self.pipeline.lock_rings().ring(ring).renew(&mut lease);
        self.enter_row((stream, ring), stamp, lease, &drops)
    }
}
