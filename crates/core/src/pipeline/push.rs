//! From the bytes of a message to rows in their rings.

use std::cell::Cell;

use super::admit::Admission;
use super::arrival::{Arrival, cleared, late};
use super::frames::Frames;
use super::merge::Merged;
use super::not_taken::NotTaken;
use super::{AwaitedTransforms, Pipeline, Rings, StreamStats};
use crate::backend::BackendError;
use crate::input::{Input, SampleSink, Sink};
use crate::rejected::{DropReason, Rejected};
use crate::ring::{Inserted, Lease, Ring};
use crate::sample::{Header, Sample, StampedTransform, Trajectory};
use crate::spec::{InputId, InputSpec, RingId, StreamId, StreamSpec};
use robocache_ops::align::Slot;
use robocache_ops::image::camera::Camera;
use robocache_ops::sync::PiGuard;
use robocache_ops::time::Stamp;
use robocache_ops::voxelize::PointDrops;

/// Result of an accepted message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accepted {
    /// Number of rows: several if it fills several groups or is a plan, none if its input feeds no
    /// ring or if it stops a plan.
    pub rows: u32,
    /// Number of transforms.
    pub transforms: u32,
    /// Instant of the rows, offset included; `None` without rows, or for the rows of a plan.
    pub stamp: Option<Stamp>,
    /// Why a part of the message was not taken: the first rejection, or else what an incomplete group lacks. `None`
    /// if all were taken.
    pub part: Option<Rejected>,
    /// Which changes of the rings it made: the number of the first and that of the last. `None` if it changed
    /// none. [`TensorMessage::changes`](crate::message::TensorMessage::changes) tells which of them a tick saw.
    pub changes: Option<(u64, u64)>,
}

/// The rows of a sample.
pub(super) struct NewRows {
    /// How many: several if it is a cloud that is merged with others.
    rows: u32,
    /// The instant of the sample.
    stamp: Stamp,
    /// Why a merged row of them could not be encoded.
    failed: Option<Rejected>,
}

impl Pipeline {
    /// Takes in a serialized message of an input.
    ///
    /// # Errors
    /// [`NotTaken::Dropped`] if nothing of it could be taken, [`NotTaken::Waits`] if it needs a
    /// transform that may still come, [`NotTaken::Failed`] if the backend failed.
    pub fn push(
        &self,
        input: InputId,
        message: &[u8],
        arrival: Arrival,
    ) -> Result<Accepted, NotTaken> {
        self.push_by(input, arrival, |reader, sink| reader.read(message, sink))
    }

    /// Takes in what `read` hands to the sink. It is given the input's reader.
    pub(super) fn push_by(
        &self,
        input: InputId,
        arrival: Arrival,
        read: impl FnOnce(&mut dyn Input, &mut PushSink<'_>) -> Result<(), Rejected>,
    ) -> Result<Accepted, NotTaken> {
        let state = &self.inputs[input.index()];
        let spec = self.config.input(input);
        let place = state.place;
        let outcome = PushTally::default();
        let changes = Cell::new(None);
        let admitted = None;
        let mut rows =
            PushSink { pipeline: self, input, spec, place, arrival, admitted, changes, outcome };
        let read = match state.input.lock() {
            Ok(mut reader) => read(reader.as_mut(), &mut rows),
            Err(_) => return Err(NotTaken::Failed(self.panicked(&spec.name))),
        };
        let changes = rows.changes.get();
        let PushTally { mut accepted, dropped, failure, incomplete, lacking, delay_ns, waits } =
            rows.outcome;
        if let Some(need) = waits {
            return Err(NotTaken::Waits(need));
        }
        state.stats.received.add(1);
        if let Some(failure) = failure {
            return Err(NotTaken::Failed(failure));
        }
        state.stats.groups_incomplete.add(incomplete);
        let rejected = read.err().or(dropped.first);
        // A message of another epoch, or of another frame, says nothing about the sensor's delay.
        let timed = |r: &Rejected| matches!(r.reason, DropReason::Ahead | DropReason::Late);
        let taken = accepted.rows + accepted.transforms;
        if taken > 0 || rejected.as_ref().is_some_and(timed) {
            delay_ns.into_iter().for_each(|delay_ns| state.stats.delay.record(delay_ns));
        }
        match rejected {
            Some(rejected) if taken == 0 => {
                state.stats.drop(rejected.reason);
                Err(NotTaken::Dropped(rejected))
            }
            part => {
                for reason in DropReason::ALL {
                    state.stats.drop_parts(reason, dropped.counts[reason as usize]);
                }
                state.stats.accepted.add(1);
                (accepted.part, accepted.changes) = (part.or(lacking), changes);
                Ok(accepted)
            }
        }
    }

    /// Counts a message that was lost before it could be pushed.
    pub fn drop_unseen(&self, input: InputId, reason: DropReason) {
        let stats = &self.inputs[input.index()].stats;
        stats.received.add(1);
        stats.drop(reason);
    }
}

/// Judges one message, and makes rows of its samples.
pub(super) struct PushSink<'a> {
    pub(super) pipeline: &'a Pipeline,
    input: InputId,
    pub(super) spec: &'a InputSpec,
    /// Position of the input among those of its stream.
    pub(super) place: u8,
    pub(super) arrival: Arrival,
    /// `None` until the message is admitted.
    pub(super) admitted: Option<Admission<'a>>,
    /// See [`Accepted::changes`].
    changes: Cell<Option<(u64, u64)>>,
    outcome: PushTally,
}

/// The outcome of a message.
#[derive(Default)]
struct PushTally {
    accepted: Accepted,
    dropped: Drops,
    failure: Option<BackendError>,
    incomplete: u64,
    /// The drop of the first of these groups: which joints it lacks.
    lacking: Option<Rejected>,
    /// Arrival minus stamp \[ns\], if the stamp is the sensor's and there is a clock.
    delay_ns: Option<i64>,
    /// Transforms that the message waits for. Only a message of one sample can, so nothing of it is taken.
    waits: Option<Box<AwaitedTransforms>>,
}

/// Parts that were not taken.
#[derive(Default)]
struct Drops {
    /// By [`DropReason`].
    counts: [u64; DropReason::ALL.len()],
    first: Option<Rejected>,
}

impl Sink for PushSink<'_> {
    fn admit(&mut self, header: &Header<'_>) -> Option<&mut dyn SampleSink> {
        let stream = self.spec.stream.filter(|_| !self.spec.feeds.is_empty())?;
        // A plan is for instants to come.
        if !self.pipeline.config.stream(stream).plans {
            self.outcome.delay_ns = self.delay_ns(header);
        }
        match self.judge(stream, header) {
            Ok(admitted) => {
                self.admitted = Some(admitted);
                Some(self)
            }
            Err(why) => {
                self.note_not_taken(why);
                None
            }
        }
    }

    fn transform(&mut self, transform: &StampedTransform<'_>) {
        let offset_ns = self.spec.stamp_offset_ns;
        let arrival = self.arrival;
        self.put_into_tree(transform.fixed, |frames| frames.insert(transform, offset_ns, arrival));
    }

    fn turn(&mut self, header: &Header<'_>, rate: [f64; 3]) {
        let spec = self.spec;
        let arrival = self.arrival;
        self.put_into_tree(false, |frames| frames.turn(&spec.topic, header, rate, arrival));
    }

    fn camera(&mut self, header: &Header<'_>, camera: Camera) {
        let inserted = self.pipeline.cameras.insert(self.input, header, camera, self.arrival);
        inserted.unwrap_or_else(|rejected| self.drop_part(rejected));
    }
}

impl SampleSink for PushSink<'_> {
    fn sample(&mut self, part: usize, sample: Sample<'_>) {
        let (Some(ring), Some(admitted)) = (self.spec.feeds.get(part), &self.admitted) else {
            return;
        };
        let row = self.row(*ring, admitted, sample);
        self.note_row(row);
    }

    fn trajectory(&mut self, trajectory: &Trajectory<'_>) {
        let Some(admitted) = &self.admitted else { return };
        match self.plan(admitted, trajectory) {
            Ok(rows) => self.outcome.accepted.rows += rows,
            Err(error) => self.note_not_taken(error.into()),
        }
    }

    fn incomplete(&mut self, _part: usize, lacking: &str) {
        self.outcome.incomplete += 1;
        self.outcome.lacking.get_or_insert_with(|| {
            Rejected::new(DropReason::MissingField, format!("name: {lacking}"))
        });
    }
}

impl PushSink<'_> {
    /// Counts a change of the rings that the message makes. The caller makes it under the same lock.
    pub(super) fn change(&self, rings: &mut Rings) {
        rings.changes += 1;
        let first = self.changes.get().map_or(rings.changes, |(first, _)| first);
        self.changes.set(Some((first, rings.changes)));
    }

    /// Puts a transform into the tree of frames.
    fn put_into_tree(&mut self, fixed: bool, put: impl FnOnce(&Frames) -> Result<Stamp, Rejected>) {
        let Some(frames) = &self.pipeline.frames else { return };
        // The rings' epoch comes first, so that a message from before the jump is refused without a look-up.
        if !self.pipeline.epochs.is_newest(self.arrival.epoch) {
            self.pipeline.lock_rings().begin(self.arrival.epoch, &self.pipeline.epochs);
        }
        match put(frames) {
            Ok(stamp) => {
                self.outcome.accepted.transforms += 1;
                let delay_ns = self.arrival.stamp.map(|arrival| arrival.since(stamp));
                let delay_ns = delay_ns.filter(|_| !fixed);
                self.outcome.delay_ns = self.outcome.delay_ns.or(delay_ns);
            }
            Err(rejected) => self.drop_part(rejected),
        }
    }

    /// Notes what a sample became.
    pub(super) fn note_row(&mut self, row: Result<NewRows, NotTaken>) {
        match row {
            Ok(NewRows { rows: made, stamp, failed }) => {
                let Accepted { rows, stamp: newest, .. } = &mut self.outcome.accepted;
                *rows += made;
                *newest = (*newest).max(Some(stamp));
                failed.into_iter().for_each(|rejected| self.drop_part(rejected));
            }
            Err(why) => self.note_not_taken(why),
        }
    }

    fn note_not_taken(&mut self, why: NotTaken) {
        match why {
            NotTaken::Waits(need) => self.outcome.waits = Some(need),
            NotTaken::Dropped(rejected) => self.drop_part(rejected),
            NotTaken::Failed(failure) => {
                self.outcome.failure.get_or_insert(failure);
            }
        }
    }

    fn drop_part(&mut self, rejected: Rejected) {
        let Drops { counts, first } = &mut self.outcome.dropped;
        counts[rejected.reason as usize] += 1;
        first.get_or_insert(rejected);
    }

    /// Encodes a sample and puts it into its ring.
    fn row(
        &self,
        ring: RingId,
        Admission { stream, stamp, placing }: &Admission<'_>,
        sample: Sample<'_>,
    ) -> Result<NewRows, NotTaken> {
        let pipeline = self.pipeline;
        let stream = *stream;
        let stamp = *stamp;
        let spec = pipeline.config.stream(stream);
        check_sample(spec, &sample)?;
        let table = placing.table(pipeline, stream, &sample)?;
        let mut moved = Vec::new();
        let placed = placing.place(sample, table.as_ref(), &mut moved)?;
        if let (Sample::Points(view), Some(_)) =
            (&placed.sample, &pipeline.streams[stream.index()].merge)
        {
            let view = placed.placement.points(view);
            let Merged { rows, failed } = self.merge(stream, ring, stamp, &view)?;
            return Ok(NewRows { rows, stamp, failed });
        }
        let encoding = pipeline.encoding[ring.index()].lock();
        let _encoding = encoding.map_err(|_| pipeline.panicked(&spec.name))?;
        let lease = self.lease(ring)?;
        let slot = lease.slot();
        let drops = match pipeline.backend.encode(ring, slot, &placed) {
            Ok(drops) => drops,
            Err(error) => {
                pipeline.lock_rings().ring(ring).give_back(lease);
                return Err(error.into());
            }
        };
        let entered = self.enter_row(stream, ring, stamp, lease, &drops);
        if let (Ok(_), Sample::Vector(values)) = (&entered, placed.sample) {
            pipeline.measured.note(ring, self.arrival.epoch, stamp, values);
        }
        entered
    }

    /// Puts an encoded row into its ring, and counts it.
    pub(super) fn enter_row(
        &self,
        stream: StreamId,
        ring: RingId,
        stamp: Stamp,
        mut lease: Lease,
        drops: &PointDrops,
    ) -> Result<NewRows, NotTaken> {
        lease.note_in_use(drops.voxels_in_use);
        let stats = self.pipeline.stats(stream);
        self.commit(ring, stamp, lease, stats)?;
        stats.rows.add(1);
        stats.add_points(drops);
        Ok(NewRows { rows: 1, stamp, failed: None })
    }

    /// From when on ticks see what the message becomes. Before there is a clock, there is no tick.
    pub(super) fn seen_from(&self) -> Stamp {
        self.arrival.seen_from.or(self.arrival.stamp).unwrap_or(Stamp::MIN)
    }

    /// A slot to encode into, which no tick reads. If the message is of a later epoch than the rows,
    /// that epoch begins.
    pub(super) fn lease(&self, ring: RingId) -> Result<Lease, Rejected> {
        let mut rings = self.pipeline.lock_rings();
        let entered = self.enter(&mut rings);
        let lease = if entered { rings.ring(ring).lease() } else { None };
        let Some(mut lease) = lease else {
            drop(rings);
            return Err(if entered { late("no spare row") } else { cleared() });
        };
        lease.note_received(self.seen_from());
        tick_has_read(self.pipeline, rings, (ring, lease.slot()));
        Ok(lease)
    }

    fn commit(
        &self,
        ring: RingId,
        stamp: Stamp,
        lease: Lease,
        stats: &StreamStats,
    ) -> Result<(), Rejected> {
        match self.insert(ring, stamp, |ring| ring.insert(stamp, self.place, lease)) {
            Inserted::Newest => {}
            Inserted::Reordered => stats.reordered.add(1),
            Inserted::Replaced => stats.replaced.add(1),
            Inserted::Late => {
                return Err(late(&format!("stamp {stamp} is older than everything in the ring")));
            }
            Inserted::Cleared => return Err(cleared()),
        }
        Ok(())
    }

    /// Puts a row into a ring, and hands over the rows that leave it.
    pub(super) fn insert(
        &self,
        ring: RingId,
        stamp: Stamp,
        insert: impl FnOnce(&mut Ring) -> Inserted,
    ) -> Inserted {
        let mut rings = self.pipeline.lock_rings();
        let inserted = insert(rings.ring(ring));
        self.change(&mut rings);
        if inserted == Inserted::Newest {
            rings.delays[ring.index()] = self.arrival.stamp.map(|at| at.since(stamp));
        }
        let leaving = rings.leaving(ring);
        drop(rings);
        self.pipeline.hand_over(leaving);
        inserted
    }
}

/// Waits until the tick under way has read a slot, if it does.
pub(super) fn tick_has_read(pipeline: &Pipeline, rings: PiGuard<'_, Rings>, slot: (RingId, Slot)) {
    if rings.read_by_tick.contains(&slot) {
        // Its row left the ring after the tick under way had chosen it. Later ticks do not.
        drop(rings);
        drop(pipeline.ticker.lock());
    }
}

/// Checks that a sample can become a row of the stream, for which the backend has reserved memory.
pub(super) fn check_sample(spec: &StreamSpec, sample: &Sample<'_>) -> Result<(), Rejected> {
    spec.encoder.check(sample, spec.bounds).map_err(|Rejected { reason, detail, .. }| {
        Rejected::new(reason, format!("streams.{}.{detail}", spec.name))
    })
}
