//! From clouds of several inputs to rows that hold them together.
//!
//! There is a row at the stamp of each cloud. It holds the newest cloud of every input at that stamp, in the order of
//! the inputs. So the rows follow from the clouds alone, and not from their order of arrival. If a cloud comes late,
//! the rows from its stamp to the next cloud of its input are remade.
//!
//! Each cloud is condensed once, on arrival ([`Condenser`]), and kept as long as a row in the ring may
//! need it. So at most `ring_rows` clouds of an input are kept, and one that is just arriving. The memory
//! of a largest cloud is reserved for each as it comes, and serves again. So it never grows beyond
//! [`StreamSpec::kept_bytes`].

mod left_out;

use std::collections::VecDeque;

use left_out::LeftOut;

use super::Pipeline;
use super::arrival::{cleared, late};
use super::push::PushSink;
use crate::backend::BackendError;
use crate::rejected::Rejected;
use crate::ring::{Inserted, Ring};
use crate::sample::Sample;
use crate::spec::{RingId, StreamId, StreamSpec};
use robocache_ops::align::Position;
use robocache_ops::sync::lock;
use robocache_ops::time::{Epoch, Stamp};
use robocache_ops::voxelize::cpu::Condenser;
use robocache_ops::voxelize::{FieldAt, FieldType, IDENTITY, PointDrops, PointsView};

/// The clouds that the rows of a stream are made of.
pub(super) struct Merge {
    condenser: Condenser,
    /// The epoch of the clouds.
    epoch: Epoch,
    /// Per input: its clouds, oldest first.
    inputs: Vec<VecDeque<Cloud>>,
    /// Per input: the greatest age of its cloud in a row \[ns\].
    max_age_ns: Vec<i64>,
    /// Places of the fields in a condensed point.
    fields: Vec<FieldAt>,
    /// Memory of clouds that are not needed any more.
    spare: Vec<Vec<u8>>,
    /// Memory of a largest cloud \[bytes\].
    cloud_bytes: usize,
    /// The points of a row with clouds of several inputs.
    joined: Vec<u8>,
    /// Per input: until when its cloud in the row at hand may be used; `None` if the row holds none.
    until: Vec<Option<Stamp>>,
    /// The stamps of the rows that the cloud at hand belongs in.
    stamps: Vec<Stamp>,
    /// Counted drops of the rows in the ring.
    left_out: LeftOut,
}

/// A cloud, condensed.
struct Cloud {
    stamp: Stamp,
    points: Vec<u8>,
}

/// Result of the merge of a cloud.
pub(super) struct Merged {
    /// Rows that hold it.
    pub rows: u32,
    /// Why a row of them could not be encoded: the first reason. It holds nothing and is invalid.
    pub failed: Option<Rejected>,
}

/// The outcome of a row.
struct MergedRow {
    inserted: Inserted,
    drops: PointDrops,
    failed: Option<Rejected>,
}

impl Merge {
    /// Makes the merge of a stream's clouds; `None` if it merges none.
    pub(super) fn of(spec: &StreamSpec) -> Option<Self> {
        let merge = spec.merge.as_ref()?;
        let condenser = spec.encoder.condenser()?;
        let field = |at| FieldAt { offset: 4 * at, kind: FieldType::Float32 };
        let inputs = merge.max_age_ns.len();
        let cloud_bytes = condenser.point_bytes().saturating_mul(spec.bounds.max_points);
        Some(Merge {
            fields: (0..condenser.point_bytes() / 4).map(field).collect(),
            condenser,
            epoch: Epoch::default(),
            inputs: (0..inputs).map(|_| VecDeque::new()).collect(),
            max_age_ns: merge.max_age_ns.clone(),
            spare: Vec::new(),
            cloud_bytes,
            joined: Vec::with_capacity(cloud_bytes.saturating_mul(inputs)),
            until: vec![None; inputs],
            stamps: Vec::with_capacity(spec.ring_rows + 1),
            left_out: LeftOut::new(spec.ring_rows),
        })
    }

    /// Forgets the clouds of another epoch.
    fn begin(&mut self, epoch: Epoch) {
        if self.epoch != epoch {
            self.epoch = epoch;
            self.left_out.clear();
            let clouds = self.inputs.iter_mut().flat_map(|clouds| clouds.drain(..));
            self.spare.extend(clouds.map(|cloud| cloud.points));
        }
    }

    /// Checks that a row of the ring, whose oldest row is at `oldest` if it is full, can hold a cloud.
    fn check_late(
        &self,
        input: usize,
        stamp: Stamp,
        oldest: Option<Stamp>,
    ) -> Result<(), Rejected> {
        let Some(oldest) = oldest.filter(|oldest| stamp < *oldest) else { return Ok(()) };
        let newer = |cloud: &Cloud| stamp < cloud.stamp && cloud.stamp <= oldest;
        let replaced = self.inputs[input].iter().any(newer);
        match replaced || oldest.since(stamp) > self.max_age_ns[input] {
            true => Err(late(&format!("stamp {stamp}: no row in the ring can hold the cloud"))),
            false => Ok(()),
        }
    }

    /// Keeps a cloud of an input. Returns its points' drops, and whether it replaced another one.
    fn keep(
        &mut self,
        input: usize,
        stamp: Stamp,
        view: &PointsView<'_>,
    ) -> Result<(PointDrops, bool), Rejected> {
        let new = || Vec::with_capacity(self.cloud_bytes);
        let mut points = self.spare.pop().unwrap_or_else(new);
        let drops = match self.condenser.condense(view, &mut points) {
            Ok(drops) => drops,
            Err(error) => {
                self.spare.push(points);
                return Err(error.into());
            }
        };
        let clouds = &mut self.inputs[input];
        let place = clouds.partition_point(|cloud| cloud.stamp < stamp);
        match clouds.get_mut(place).filter(|cloud| cloud.stamp == stamp) {
            Some(cloud) => {
                self.spare.push(std::mem::replace(&mut cloud.points, points));
                Ok((drops, true))
            }
            None => {
                clouds.insert(place, Cloud { stamp, points });
                Ok((drops, false))
            }
        }
    }

    /// True if the row at `at` can hold the cloud of an input that is at `stamp`: it is not too old, and
    /// there is no newer one.
    fn is_held(&self, input: usize, stamp: Stamp, at: Stamp) -> bool {
        let clouds = &self.inputs[input];
        let next = clouds.partition_point(|cloud| cloud.stamp <= stamp);
        at >= stamp
            && at.since(stamp) <= self.max_age_ns[input]
            && clouds.get(next).is_none_or(|next| at < next.stamp)
    }

    /// Gathers the clouds of the row at `stamp`.
    fn gather(&mut self, stamp: Stamp) {
        self.joined.clear();
        for (input, clouds) in self.inputs.iter().enumerate() {
            let after = clouds.partition_point(|cloud| cloud.stamp <= stamp);
            let newest = after.checked_sub(1).map(|at| &clouds[at]);
            let max_age_ns = self.max_age_ns[input];
            let held = newest.filter(|cloud| stamp.since(cloud.stamp) <= max_age_ns);
            self.until[input] = held.map(|cloud| cloud.stamp.offset(max_age_ns));
            held.into_iter().for_each(|cloud| self.joined.extend_from_slice(&cloud.points));
        }
    }

    /// Empties the row at hand.
    fn gather_nothing(&mut self) {
        self.joined.clear();
        self.until.fill(None);
    }

    /// The row at hand.
    fn view(&self) -> PointsView<'_> {
        let point_step = self.condenser.point_bytes();
        PointsView {
            width: self.joined.len() / point_step,
            height: 1,
            point_step,
            row_step: self.joined.len(),
            big_endian: false,
            fields: &self.fields,
            t_base_sensor: IDENTITY,
            t_shapes: &[],
            sweep: None,
            data: &self.joined,
        }
    }

    /// Lets the clouds go that no row from `oldest` on can hold.
    fn forget_before(&mut self, oldest: Stamp) {
        for (clouds, max_age_ns) in self.inputs.iter_mut().zip(&self.max_age_ns) {
            // The newest one up to the oldest row is in it, unless it is too old.
            let newest = clouds.partition_point(|cloud| cloud.stamp <= oldest).checked_sub(1);
            let Some(newest) = newest else { continue };
            let too_old = oldest.since(clouds[newest].stamp) > *max_age_ns;
            let gone = clouds.drain(..newest + usize::from(too_old));
            self.spare.extend(gone.map(|cloud| cloud.points));
        }
    }
}

impl PushSink<'_> {
    /// Makes the rows that hold a cloud. The cloud is where `view` says, and its stamp is `stamp`.
    pub(super) fn merge(
        &self,
        stream: StreamId,
        ring: RingId,
        stamp: Stamp,
        view: &PointsView<'_>,
    ) -> Result<Merged, BackendError> {
        let state = &self.pipeline.streams[stream.index()];
        let Some(merge) = &state.merge else { return Err(wrong_kind(self.pipeline)) };
        let encoding = self.pipeline.encoding[ring.index()].lock();
        let name = &self.pipeline.config.stream(stream).name;
        let _encoding = encoding.map_err(|_| self.pipeline.panicked(name))?;
        let merge = &mut *lock(merge);
        let input = usize::from(self.place);
        let oldest = self.begin_merge(merge, ring)?;
        merge.check_late(input, stamp, oldest)?;
        let (drops, replaced) = merge.keep(input, stamp, view)?;
        state.stats.add_points(&drops);
        let is_a_row = oldest.is_none_or(|oldest| stamp >= oldest);
        self.find_rows(merge, ring, stamp, is_a_row);
        if merge.stamps.is_empty() {
            // Some row held the cloud a moment ago: a tick has begun another epoch since.
            return Err(cleared().into());
        }
        let mut merged = Merged { rows: 0, failed: None };
        for at in 0..merge.stamps.len() {
            let row = merge.stamps[at];
            let MergedRow { inserted, drops, failed } = self.make_row(merge, stream, ring, row)?;
            let own = row == stamp;
            state.stats.reordered.add(u64::from(own && inserted == Inserted::Reordered));
            let again = inserted == Inserted::Replaced;
            state.stats.replaced.add(u64::from(own && again && replaced));
            // A sensor's correction of a cloud is another cloud.
            let remade = again && !(own && replaced);
            state.stats.remade.add(u64::from(remade));
            state.stats.add_points(&merge.left_out.note(row, drops, remade));
            merged.rows += 1;
            merged.failed = merged.failed.or(failed);
        }
        let oldest = {
            let rings = self.pipeline.lock_rings();
            oldest_of_full(&rings.rings[ring.index()]).filter(|_| rings.epoch == merge.epoch)
        };
        oldest.into_iter().for_each(|oldest| merge.forget_before(oldest));
        Ok(merged)
    }

    /// Begins the epoch of the message for the clouds, too. Returns the stamp of the oldest row if the
    /// ring is full.
    fn begin_merge(&self, merge: &mut Merge, ring: RingId) -> Result<Option<Stamp>, Rejected> {
        let (entered, epoch, oldest) = {
            let mut rings = self.pipeline.lock_rings();
            let entered = self.enter(&mut rings);
            (entered, rings.epoch, oldest_of_full(rings.ring(ring)))
        };
        if !entered {
            return Err(cleared());
        }
        merge.begin(epoch);
        Ok(oldest)
    }

    /// Notes the stamps of the rows that hold a cloud: its own first, if that is one.
    fn find_rows(&self, merge: &mut Merge, ring: RingId, stamp: Stamp, is_a_row: bool) {
        let mut stamps = std::mem::take(&mut merge.stamps);
        stamps.clear();
        stamps.extend(is_a_row.then_some(stamp));
        {
            let rings = self.pipeline.lock_rings();
            let ring = &rings.rings[ring.index()];
            let rows = ring.entries().map(|row| row.stamp);
            let input = usize::from(self.place);
            let holds = |row: &Stamp| *row != stamp && merge.is_held(input, stamp, *row);
            stamps.extend(rows.filter(holds));
        }
        merge.stamps = stamps;
    }

    /// Encodes the row at `stamp` and puts it into the ring.
    fn make_row(
        &self,
        merge: &mut Merge,
        stream: StreamId,
        ring: RingId,
        stamp: Stamp,
    ) -> Result<MergedRow, BackendError> {
        merge.gather(stamp);
        let mut lease = self.lease(ring)?;
        let backend = &self.pipeline.backend;
        let slot = lease.slot();
        let mut encoded = backend.encode(ring, slot, &Sample::Points(merge.view()).into());
        let mut failed = None;
        if let Err(BackendError::Sample(rejected)) = encoded {
            // A row of other clouds than these would be wrong. One of none is invalid.
            failed = Some(rejected);
            merge.gather_nothing();
            encoded = backend.encode(ring, slot, &Sample::Points(merge.view()).into());
        }
        let drops = match encoded {
            Ok(drops) => drops,
            Err(error) => {
                self.pipeline.lock_rings().ring(ring).give_back(lease);
                return Err(error);
            }
        };
        lease.note_in_use(drops.voxels_in_use);
        let inserted =
            self.insert(ring, stamp, |ring| ring.insert_merged(stamp, &merge.until, lease));
        match inserted {
            Inserted::Newest | Inserted::Reordered | Inserted::Replaced => {}
            Inserted::Late => return Err(late("the ring is full of newer rows").into()),
            Inserted::Cleared => return Err(cleared().into()),
        }
        self.pipeline.stats(stream).rows.add(1);
        Ok(MergedRow { inserted, drops, failed })
    }
}

/// The stamp of the oldest row of a ring that is full.
fn oldest_of_full(ring: &Ring) -> Option<Stamp> {
    ring.is_full().then(|| ring.entry(Position::new(0)).stamp)
}

/// The error for a stream that merges no clouds. The pipeline rules this out when it is made.
fn wrong_kind(pipeline: &Pipeline) -> BackendError {
    BackendError::Failed {
        backend: pipeline.backend_name(),
        operation: "merge clouds",
        detail: "the stream merges none".into(),
    }
}

#[cfg(test)]
mod tests;
