//! From the bytes of a message to rows in their rings.

use std::cell::Cell;
use std::sync::Arc;

use super::arrival::{Arrival, OffsetKey, cleared, late};
use super::frames::Frames;
use super::merge::Merged;
use super::not_taken::NotTaken;
use super::sweep::Motion;
use super::{AwaitedTransforms, Pipeline, Rings, StreamStats};
use crate::backend::BackendError;
use crate::input::{Input, Sink};
use crate::rejected::{DropReason, Rejected};
use crate::ring::{Inserted, Lease};
use crate::sample::{Header, JpegView, Sample, StampError, StampedTransform, Trajectory};
use crate::spec::{InputId, InputSpec, RingId, StreamId, StreamSpec, Timeline};
use crate::tf::shown;
use robocache_ops::align::Slot;
use robocache_ops::image::camera::Camera;
use robocache_ops::image::{ImageView, Remap};
use robocache_ops::sync::PiGuard;
use robocache_ops::time::Stamp;
use robocache_ops::voxelize::{PointDrops, PointsView};

/// What an accepted message became.
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
        let mut rows = PushSink { pipeline: self, input, spec, place, arrival, changes, outcome };
        let read = match state.input.lock() {
            Ok(mut input) => read(input.as_mut(), &mut rows),
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

/// Makes rows of the samples of one message.
pub(super) struct PushSink<'a> {
    pub(super) pipeline: &'a Pipeline,
    input: InputId,
    pub(super) spec: &'a InputSpec,
    /// Position of the input among those of its stream.
    pub(super) place: u8,
    pub(super) arrival: Arrival,
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
    /// What the message waits for. Only a message of one sample can, so nothing of it is taken.
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
    fn sample(&mut self, part: usize, header: &Header<'_>, mut sample: Sample<'_>) {
        if let Sample::Points(view) = &mut sample {
            view.t_base_sensor = self.spec.t_base_sensor;
        }
        let Some(ring) = self.spec.feeds.get(part) else { return };
        self.note_delay(header);
        let row = self.row(*ring, header, sample);
        self.note_row(row);
    }

    fn takes_coefficients(&self, part: usize) -> bool {
        let ring = self.spec.feeds.get(part);
        ring.is_some_and(|ring| self.pipeline.backend.takes_coefficients(*ring))
    }

    fn trajectory(&mut self, header: &Header<'_>, trajectory: &Trajectory<'_>) {
        if self.spec.feeds.is_empty() {
            return;
        }
        match self.plan(header, trajectory) {
            Ok(rows) => self.outcome.accepted.rows += rows,
            Err(error) => self.note_not_taken(error.into()),
        }
    }

    fn transform(&mut self, transform: &StampedTransform<'_>) {
        let offset_ns = self.spec.stamp_offset_ns;
        let arrival = self.arrival;
        self.put_into_tree(transform.fixed, |frames| frames.insert(transform, offset_ns, arrival));
    }

    fn turn(&mut self, header: &Header<'_>, rate: [f64; 3]) {
        let (spec, arrival) = (self.spec, self.arrival);
        self.put_into_tree(false, |frames| frames.turn(&spec.topic, (header, rate), arrival));
    }

    fn camera(&mut self, header: &Header<'_>, camera: Camera) {
        let inserted = self.pipeline.cameras.insert(self.input, header, camera, self.arrival);
        inserted.unwrap_or_else(|rejected| self.drop_part(rejected));
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
        self.pipeline.lock_rings().begin(self.arrival.epoch, &self.pipeline.clock_jumps);
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

    /// Notes how late the message came.
    pub(super) fn note_delay(&mut self, header: &Header<'_>) {
        self.outcome.delay_ns = self.outcome.delay_ns.or_else(|| self.delay_ns(header));
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
        header: &Header<'_>,
        sample: Sample<'_>,
    ) -> Result<NewRows, NotTaken> {
        // First, because an old message says nothing of this epoch's time.
        self.enter(&mut self.pipeline.lock_rings())?;
        check_frame(self.spec, header)?;
        let stream = self.pipeline.layout.ring(ring).stream;
        check_sample(self.pipeline.config.stream(stream), &sample)?;
        let stamp = self.stamp_of(header, self.pipeline.config.stream(stream))?;
        let table = self.table(stream, header, &sample)?;
        let sample = match (sample, &table) {
            (Sample::Image(view), Some(_)) => {
                Sample::Image(ImageView { remap: table.as_ref(), ..view })
            }
            (Sample::Jpeg(view), Some(_)) => {
                let image = ImageView { remap: table.as_ref(), ..view.image };
                Sample::Jpeg(JpegView { image, ..view })
            }
            (sample, _) => sample,
        };
        let (mut moved, motion) = (Vec::new(), self.motion(header, stamp)?);
        let sample = self.in_frame(header, stamp, sample, &mut moved)?;
        let t_shapes = self.place_shapes(stream, stamp, &sample)?;
        let sample = match sample {
            Sample::Points(view) => Sample::Points(PointsView { t_shapes: &t_shapes, ..view }),
            other => other,
        };
        let sample = with_motion(sample, motion.as_ref())?;
        if let (Sample::Points(view), Some(_)) =
            (&sample, &self.pipeline.streams[stream.index()].merge)
        {
            let Merged { rows, failed } = self.merge((stream, ring), stamp, view)?;
            return Ok(NewRows { rows, stamp, failed });
        }
        let name = || &self.pipeline.config.stream(stream).name;
        let encoding = self.pipeline.encoding[ring.index()].lock();
        let _encoding = encoding.map_err(|_| self.pipeline.panicked(name()))?;
        let lease = self.lease(ring)?;
        let slot = lease.slot();
        let drops = match self.pipeline.backend.encode(ring, slot, sample) {
            Ok(drops) => drops,
            Err(error) => {
                self.pipeline.lock_rings().ring(ring).give_back(lease);
                return Err(error.into());
            }
        };
        self.enter_row((stream, ring), stamp, lease, &drops)
    }

    /// Puts an encoded row into its ring, and counts it.
    pub(super) fn enter_row(
        &self,
        (stream, ring): (StreamId, RingId),
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

    /// What undistorts an image; `None` if nothing does.
    fn table(
        &self,
        stream: StreamId,
        header: &Header<'_>,
        sample: &Sample<'_>,
    ) -> Result<Option<Arc<Remap>>, Rejected> {
        let Pipeline { cameras, config, .. } = self.pipeline;
        let Some(view) = sample.image() else { return Ok(None) };
        cameras.table(config, stream, (header, self.arrival), view)
    }

    /// How the sensor of a cloud moved while it measured the points; `None` if that does not matter.
    fn motion(&self, header: &Header<'_>, stamp: Stamp) -> Result<Option<Motion>, NotTaken> {
        let (Some(spec), Some(frames)) = (&self.spec.deskew, &self.pipeline.frames) else {
            return Ok(None);
        };
        let base_frame = &self.pipeline.config.base_frame;
        let message = (header, stamp, self.arrival);
        Motion::find(frames, (self.spec, spec), base_frame, message).map(Some)
    }

    /// Takes a sample to the frame that it is wanted in. `moved` is memory for the numbers of a vector.
    fn in_frame<'a>(
        &self,
        header: &Header<'_>,
        stamp: Stamp,
        sample: Sample<'a>,
        moved: &'a mut Vec<f64>,
    ) -> Result<Sample<'a>, NotTaken> {
        let (Some(spec), Some(frames)) = (&self.spec.in_frame, &self.pipeline.frames) else {
            return Ok(sample);
        };
        let arrival = self.arrival;
        match sample {
            Sample::Vector(values) => {
                moved.extend_from_slice(values);
                frames.take_to(spec, arrival, header, stamp, moved)?;
                Ok(Sample::Vector(moved))
            }
            Sample::Points(mut view) => {
                let found = frames.lookup(arrival, &spec.frame, header.frame_id, stamp)?;
                view.t_base_sensor = found.matrix();
                Ok(Sample::Points(view))
            }
            Sample::Map(mut view) => {
                let found = frames.lookup(arrival, &spec.frame, header.frame_id, stamp)?;
                view.t_crop_frame = found.matrix();
                Ok(Sample::Map(view))
            }
            Sample::Image(_) | Sample::Jpeg(_) | Sample::Depth(_) => Ok(sample),
        }
    }

    /// From when on ticks see what the message becomes. Before there is a clock, there is no tick.
    pub(super) fn seen_from(&self) -> Stamp {
        self.arrival.seen_from.or(self.arrival.stamp).unwrap_or(Stamp::MIN)
    }

    /// Begins the message's epoch if it is later than that of the rows; refuses the message if it is
    /// earlier.
    pub(super) fn enter(&self, rings: &mut Rings) -> Result<(), Rejected> {
        rings.begin(self.arrival.epoch, &self.pipeline.clock_jumps);
        match self.arrival.epoch.is_before(rings.epoch) {
            true => Err(cleared()),
            false => Ok(()),
        }
    }

    /// A slot to encode into, which no tick reads. If the message is of a later epoch than the rows,
    /// that epoch begins.
    pub(super) fn lease(&self, ring: RingId) -> Result<Lease, Rejected> {
        let mut rings = self.pipeline.lock_rings();
        self.enter(&mut rings)?;
        let mut lease = rings.ring(ring).lease().ok_or_else(|| late("no spare row"))?;
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
        let (inserted, leaving) = {
            let mut rings = self.pipeline.lock_rings();
            let inserted = rings.ring(ring).insert(stamp, self.place, lease);
            self.change(&mut rings);
            if inserted == Inserted::Newest {
                rings.delays[ring.index()] = self.arrival.stamp.map(|at| at.since(stamp));
            }
            (inserted, rings.leaving(ring))
        };
        self.pipeline.hand_over(leaving);
        match inserted {
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

    pub(super) fn stamp_of(
        &self,
        header: &Header<'_>,
        stream: &StreamSpec,
    ) -> Result<Stamp, Rejected> {
        let offset_ns = self.spec.stamp_offset_ns;
        if self.spec.timeline == Timeline::Receive {
            let stamp = self.arrival.received.or(self.arrival.stamp).ok_or_else(|| {
                let detail = "expected the time of arrival, found no clock yet";
                Rejected::new(DropReason::ZeroStamp, detail)
            })?;
            return Ok(stamp.offset(offset_ns));
        }
        let stamp = match header.stamp {
            Err(StampError::Zero) if self.arrival.zero_is_an_instant => Stamp::ZERO,
            stamp => stamp?,
        };
        let stamp = stamp.offset(offset_ns);
        self.arrival.check_ahead(stamp, stream.max_ahead_ns, Some(OffsetKey(offset_ns)))?;
        Ok(stamp)
    }

    fn delay_ns(&self, header: &Header<'_>) -> Option<i64> {
        if self.spec.timeline == Timeline::Receive {
            return None;
        }
        let stamp = header.stamp.as_ref().ok()?.offset(self.spec.stamp_offset_ns);
        self.arrival.stamp.map(|arrival| arrival.since(stamp))
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

/// A cloud with the motion of its sensor.
fn with_motion<'a>(sample: Sample<'a>, motion: Option<&'a Motion>) -> Result<Sample<'a>, Rejected> {
    match (sample, motion) {
        (Sample::Points(mut view), Some(motion)) => {
            let sweep = view.sweep.ok_or_else(super::sweep::without_times)?;
            view.sweep = Some(motion.sweep(sweep));
            Ok(Sample::Points(view))
        }
        (sample, _) => Ok(sample),
    }
}

pub(super) fn check_frame(spec: &InputSpec, header: &Header<'_>) -> Result<(), Rejected> {
    match &spec.frame_id {
        Some(expected) if expected != header.frame_id => {
            let found = shown(header.frame_id);
            let detail = format!("header.frame_id: expected {expected:?}, found {found:?}");
            Err(Rejected::new(DropReason::WrongFrame, detail))
        }
        _ => Ok(()),
    }
}

/// Checks that a sample can become a row of the stream, for which the backend has reserved memory.
pub(super) fn check_sample(spec: &StreamSpec, sample: &Sample<'_>) -> Result<(), Rejected> {
    spec.encoder.check(sample, spec.bounds).map_err(|Rejected { reason, detail, .. }| {
        Rejected::new(reason, format!("streams.{}.{detail}", spec.name))
    })
}
