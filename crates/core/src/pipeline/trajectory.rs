//! From a plan to rows: the points of a trajectory replace what lies after its start.
//!
//! The newest message counts, by arrival, as it does for the controllers that execute plans. What is
//! in the rings follows from the messages, their order and their arrivals alone.

use std::sync::MutexGuard;

use super::Rings;
use super::admit::Admission;
use super::arrival::{Arrival, cleared, late};
use super::push::PushSink;
use crate::backend::BackendError;
use crate::rejected::{DropReason, Rejected};
use crate::ring::{Lease, Ring, UntilNext};
use crate::sample::{Header, Sample, StampError, Trajectory};
use crate::spec::{RingId, StreamSpec, Timeline};
use robocache_ops::align::{Slot, Value};
use robocache_ops::time::Stamp;

/// End of a plan by the next one, in one ring.
struct Cut {
    /// Rows after this are replaced.
    kept: Stamp,
    /// Values between the last row that is kept and the next one.
    until_next: UntilNext,
    /// The value at `kept`, and its input, if the new plan goes on from there.
    joins: Option<(Value<Slot>, u8)>,
}

/// The rows of a plan for one ring, encoded and not yet in the ring.
struct Encoded<'a> {
    ring: RingId,
    rows: Vec<(Stamp, u8, Lease)>,
    /// For a row that ends the plan before, where the strategy interpolates.
    spare: Option<Lease>,
    /// End of the plan before; `None` until it is known.
    cut: Option<Cut>,
    /// No other sample is encoded into the ring meanwhile.
    _encoding: MutexGuard<'a, ()>,
}

impl PushSink<'_> {
    /// Replaces what lies after the start of a plan, in all of its rings or in none. Returns the
    /// number of its rows.
    pub(super) fn plan(
        &self,
        Admission { stream, stamp: start, .. }: &Admission<'_>,
        plan: &Trajectory<'_>,
    ) -> Result<u32, BackendError> {
        let spec = self.pipeline.config.stream(*stream);
        let start = *start;
        self.check_times(plan, start, spec)?;
        let mut encoded = Vec::with_capacity(plan.parts.len());
        let (rows, replaced) = match self.replace(plan, start, spec, &mut encoded) {
            Ok(counts) => counts,
            Err(error) => {
                let mut rings = self.pipeline.lock_rings();
                encoded.iter_mut().for_each(|part| part.give_back(&mut rings));
                return Err(error);
            }
        };
        let stats = self.pipeline.stats(*stream);
        stats.rows.add(rows as u64);
        stats.replaced.add(replaced as u64);
        Ok(rows as u32)
    }

    /// Encodes a plan and lets it enter its rings. Returns how many rows it has, and how many it replaced.
    fn replace<'a>(
        &'a self,
        plan: &Trajectory<'_>,
        start: Stamp,
        spec: &StreamSpec,
        encoded: &mut Vec<Encoded<'a>>,
    ) -> Result<(usize, usize), BackendError> {
        for at in 0..plan.parts.len() {
            self.encode_part(plan, at, start, spec, encoded)?;
        }
        let rows = encoded.iter().map(|part| part.rows.len()).sum();
        self.find_cuts(start, plan.times_ns, spec, encoded)?;
        encoded.iter_mut().try_for_each(|part| self.join(part))?;
        Ok((rows, self.commit_plan(encoded)?))
    }

    /// When a plan starts. A stamp of zero means "on arrival", as controllers take it.
    pub(super) fn start_of(
        &self,
        header: &Header<'_>,
        spec: &StreamSpec,
    ) -> Result<Stamp, Rejected> {
        let by_arrival = self.spec.timeline == Timeline::Receive;
        match (header.stamp, self.arrival.stamp) {
            (Err(StampError::Zero), Some(now)) if !by_arrival => Ok(now),
            (Err(StampError::Zero), None) => {
                let detail = "header.stamp: zero means now, and there is no clock yet";
                Err(Rejected::new(DropReason::ZeroStamp, detail))
            }
            _ => self.stamp_of(header, spec),
        }
    }

    /// Checks that a plan does not end too far ahead, and that a later target can use it. A stop is always accepted.
    fn check_times(
        &self,
        plan: &Trajectory<'_>,
        start: Stamp,
        spec: &StreamSpec,
    ) -> Result<(), Rejected> {
        let (Some(last_ns), Some(now)) = (plan.times_ns.last(), self.arrival.stamp) else {
            return Ok(());
        };
        let end = start.offset(*last_ns);
        // The start is of this epoch, so the points are.
        Arrival { in_doubt_from: None, ..self.arrival }.check_ahead(
            end,
            spec.max_ahead_ns,
            None,
        )?;
        let past_ns = now.since(end);
        if past_ns > spec.lag_ns.saturating_add(spec.rule.max_age_ns) {
            let ms = past_ns / robocache_ops::time::NANOS_PER_MS;
            return Err(late(&format!("the plan ended {ms} ms before it arrived")));
        }
        Ok(())
    }

    /// Encodes the points of one part into spare slots.
    fn encode_part<'a>(
        &'a self,
        plan: &Trajectory<'_>,
        at: usize,
        start: Stamp,
        spec: &StreamSpec,
        encoded: &mut Vec<Encoded<'a>>,
    ) -> Result<(), BackendError> {
        let part = &plan.parts[at];
        let ring = self.spec.feeds[part.part];
        // Parts are in ascending order, and so are the rings. So no threads wait for each other.
        let encoding = self.pipeline.encoding[ring.index()].lock();
        let encoding = encoding.map_err(|_| self.pipeline.panicked(&spec.name))?;
        // One more, for the row that ends the plan before.
        let rows = Vec::with_capacity(plan.times_ns.len() + 1);
        let mut part_rows = Encoded { ring, rows, spare: None, cut: None, _encoding: encoding };
        let stamps = plan.times_ns.iter().map(|time_ns| start.offset(*time_ns));
        let done = self.encode_rows(stamps, &part.values, spec, &mut part_rows);
        encoded.push(part_rows);
        done
    }

    fn encode_rows(
        &self,
        stamps: impl ExactSizeIterator<Item = Stamp>,
        values: &[f64],
        spec: &StreamSpec,
        into: &mut Encoded<'_>,
    ) -> Result<(), BackendError> {
        let row_len = (values.len() / stamps.len().max(1)).max(1);
        for (stamp, row) in stamps.zip(values.chunks_exact(row_len)) {
            let lease = self.lease(into.ring)?;
            let slot = lease.slot();
            into.rows.push((stamp, self.place, lease));
            self.pipeline.backend.encode(into.ring, slot, &Sample::Vector(row).into())?;
        }
        if spec.strategy().interpolates() {
            into.spare = Some(self.lease(into.ring)?);
        }
        Ok(())
    }

    /// Finds where the plan ends the one before, under one lock. A tick may wait for this lock, so nothing is allocated or
    /// interpolated under it.
    fn find_cuts(
        &self,
        start: Stamp,
        times_ns: &[i64],
        spec: &StreamSpec,
        encoded: &mut [Encoded<'_>],
    ) -> Result<(), Rejected> {
        let entered = {
            let mut rings = self.pipeline.lock_rings();
            let entered = self.enter(&mut rings);
            for part in encoded.iter_mut().filter(|_| entered) {
                part.cut = Some(cut(rings.ring(part.ring), start, times_ns, spec));
            }
            entered
        };
        if entered { Ok(()) } else { Err(cleared()) }
    }

    /// Makes the row that ends the plan before, where the new one goes on from there. No other sample is encoded into the
    /// ring, so the rows that it is made of stay as they are, even if an epoch begins.
    fn join(&self, part: &mut Encoded<'_>) -> Result<(), BackendError> {
        let Encoded { ring, rows, spare, cut: Some(cut), .. } = part else { return Ok(()) };
        let (Some((value, input)), Some(lease)) = (cut.joins, spare.as_ref()) else {
            return Ok(());
        };
        self.pipeline.backend.blend(*ring, value, lease.slot())?;
        if let Some(lease) = spare.take() {
            rows.insert(0, (cut.kept, input, lease));
        }
        Ok(())
    }

    /// Lets the rows of a plan enter their rings, under one lock: no tick sees a part of a plan. Returns how many rows they
    /// replaced.
    fn commit_plan(&self, encoded: &mut [Encoded<'_>]) -> Result<usize, Rejected> {
        let mut leaving = Vec::with_capacity(encoded.len());
        let mut replaced = 0;
        let mut rings = self.pipeline.lock_rings();
        // The cuts are of the epoch that the plan is of.
        let entered = self.enter(&mut rings);
        let is_of_epoch = |part: &Encoded<'_>| {
            let epoch = rings.rings[part.ring.index()].epoch();
            part.leases().all(|lease| lease.epoch() == epoch)
        };
        if !(entered && encoded.iter().all(is_of_epoch)) {
            drop(rings);
            return Err(cleared());
        }
        self.change(&mut rings);
        for Encoded { ring: id, rows, spare, cut, .. } in encoded {
            let Some(cut) = cut else { continue };
            let ring = rings.ring(*id);
            spare.take().into_iter().for_each(|lease| ring.give_back(lease));
            replaced += ring.remove_after(cut.kept, self.seen_from());
            ring.part(cut.until_next, self.seen_from());
            replaced += ring.append(rows.drain(..));
            leaving.extend(rings.leaving(*id));
            // A point of a plan has no delay.
            rings.delays[id.index()] = None;
        }
        drop(rings);
        // No other sample may be encoded meanwhile, as the slots are not spare yet.
        self.pipeline.hand_over(leaving);
        Ok(replaced)
    }
}

/// Cuts the old plan at `start`: it keeps its values before `start`, and has none after it.
///
/// If it has a valid value at the start, the new plan goes on from there to its first point. Otherwise values from `start`
/// to the first point are invalid. A plan whose first point is at its start needs no value there: the cut is the instant
/// before. Strategies that do not interpolate hold the last row that is kept.
fn cut(ring: &Ring, start: Stamp, times_ns: &[i64], spec: &StreamSpec) -> Cut {
    let jumps = times_ns.first() == Some(&0);
    let kept = if jumps { start.offset(-1) } else { start };
    let found = ring.align(spec.rule, kept);
    let Some((last, is_newest)) = ring.newest_until(kept) else {
        return Cut { kept, until_next: UntilNext::Strategy, joins: None };
    };
    let between = last.until_next == UntilNext::Strategy && !is_newest;
    let input = match found.value {
        Value::Between { b, .. } if found.valid => Some(ring.entry(b).input),
        // Held at its end. After a stop it goes on being held.
        Value::Row(row) if found.valid && !jumps && !times_ns.is_empty() => {
            (last.stamp < kept).then_some(ring.entry(row).input)
        }
        _ => None,
    };
    let input = input.filter(|_| spec.strategy().interpolates());
    let until_next = match last.until_next {
        _ if last.stamp == kept => UntilNext::Strategy,
        _ if !spec.strategy().interpolates() => UntilNext::Held,
        _ if between && found.valid => UntilNext::Strategy,
        // The rows on both sides were too far apart.
        _ if between => UntilNext::Nothing,
        UntilNext::Strategy => UntilNext::Held,
        parted => parted,
    };
    Cut { kept, until_next, joins: input.map(|input| (ring.slots_of(found.value), input)) }
}

impl Encoded<'_> {
    fn leases(&self) -> impl Iterator<Item = &Lease> {
        self.rows.iter().map(|(_, _, lease)| lease).chain(&self.spare)
    }

    fn give_back(&mut self, rings: &mut Rings) {
        let ring = rings.ring(self.ring);
        let leases = self.rows.drain(..).map(|(_, _, lease)| lease).chain(self.spare.take());
        leases.for_each(|lease| ring.give_back(lease));
    }
}
