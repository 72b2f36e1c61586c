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
use crate::ring::{Entry, Lease, Ring, UntilNext};
use crate::sample::{Header, Sample, StampError, Trajectory};
use crate::spec::{RingId, StreamSpec, Timeline};
use robocache_ops::align::Value;
use robocache_ops::time::Stamp;

/// Where a plan ends the one before it, in one ring.
struct Cut {
    /// Rows after this are replaced.
    kept: Stamp,
    /// What is between the last row that is kept and the next one.
    until_next: UntilNext,
    /// The input of a row at `kept`, if there is one.
    input: Option<u8>,
}

/// The rows of a plan for one ring, encoded and not yet in the ring.
struct Encoded<'a> {
    ring: RingId,
    rows: Vec<Lease>,
    /// For a row that ends the plan before, where the strategy interpolates.
    cut: Option<Lease>,
    /// No other sample is encoded into the ring meanwhile.
    encoding: MutexGuard<'a, ()>,
}

impl PushSink<'_> {
    /// Replaces what lies after the start of a plan, in all of its rings or in none. Returns the
    /// number of its rows.
    pub(super) fn plan(
        &self,
        Admission { stream, stamp: start, .. }: &Admission<'_>,
        plan: &Trajectory<'_>,
    ) -> Result<u32, BackendError> {
        let (spec, start) = (self.pipeline.config.stream(*stream), *start);
        self.check_times(plan, start, spec)?;
        let mut encoded = Vec::with_capacity(plan.parts.len());
        for at in 0..plan.parts.len() {
            if let Err(error) = self.encode_part(plan, at, spec, &mut encoded) {
                let mut rings = self.pipeline.lock_rings();
                encoded.into_iter().for_each(|part| part.give_back(&mut rings));
                return Err(error);
            }
        }
        let rows: usize = encoded.iter().map(|part| part.rows.len()).sum();
        let replaced = self.commit_plan(plan, start, spec, encoded)?;
        let stats = self.pipeline.stats(*stream);
        stats.rows.add(rows as u64);
        stats.replaced.add(replaced as u64);
        Ok(rows as u32)
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
        spec: &StreamSpec,
        encoded: &mut Vec<Encoded<'a>>,
    ) -> Result<(), BackendError> {
        let part = &plan.parts[at];
        let ring = self.spec.feeds[part.part];
        // Parts are in ascending order, and so are the rings. So no threads wait for each other.
        let encoding = self.pipeline.encoding[ring.index()].lock();
        let encoding = encoding.map_err(|_| self.pipeline.panicked(&spec.name))?;
        let mut rows = Encoded { ring, rows: Vec::new(), cut: None, encoding };
        let done = self.encode_rows(plan, &part.values, spec, &mut rows);
        encoded.push(rows);
        done
    }

    fn encode_rows(
        &self,
        plan: &Trajectory<'_>,
        values: &[f64],
        spec: &StreamSpec,
        into: &mut Encoded<'_>,
    ) -> Result<(), BackendError> {
        let points = plan.times_ns.len();
        for row in values.chunks_exact((values.len() / points.max(1)).max(1)) {
            let lease = self.lease(into.ring)?;
            let slot = lease.slot();
            into.rows.push(lease);
            self.pipeline.backend.encode(into.ring, slot, &Sample::Vector(row).into())?;
        }
        if spec.strategy().interpolates() {
            into.cut = Some(self.lease(into.ring)?);
        }
        Ok(())
    }

    /// Lets the rows of a plan enter their rings, under one lock: no tick sees a part of a plan.
    fn commit_plan(
        &self,
        plan: &Trajectory<'_>,
        start: Stamp,
        spec: &StreamSpec,
        encoded: Vec<Encoded<'_>>,
    ) -> Result<usize, BackendError> {
        let mut rings = self.pipeline.lock_rings();
        let current = self.enter(&mut rings).and_then(|()| {
            match encoded.iter().all(|part| {
                let epoch = rings.rings[part.ring.index()].epoch();
                part.rows.iter().chain(&part.cut).all(|lease| lease.epoch() == epoch)
            }) {
                true => Ok(()),
                false => Err(cleared()),
            }
        });
        let cuts = current.map_err(BackendError::from).and_then(|()| {
            let of = |part: &Encoded<'_>| {
                self.cut(rings.ring(part.ring), part, (start, plan.times_ns), spec)
            };
            encoded.iter().map(of).collect::<Result<Vec<_>, _>>()
        });
        let cuts = match cuts {
            Ok(cuts) => cuts,
            Err(error) => {
                encoded.into_iter().for_each(|part| part.give_back(&mut rings));
                return Err(error);
            }
        };
        self.change(&mut rings);
        let mut replaced = 0;
        let (mut leaving, mut encoding) = (Vec::new(), Vec::with_capacity(encoded.len()));
        for (part, end) in encoded.into_iter().zip(cuts) {
            let Encoded { ring, rows, cut, encoding: held } = part;
            encoding.push(held);
            let ring_rows = rings.ring(ring);
            let mut all: Vec<(Stamp, u8, Lease)> = Vec::with_capacity(rows.len() + 1);
            match (cut, end.input) {
                (Some(cut), Some(input)) => all.push((end.kept, input, cut)),
                (Some(cut), None) => ring_rows.give_back(cut),
                (None, _) => {}
            }
            let stamps = plan.times_ns.iter().map(|time_ns| start.offset(*time_ns));
            all.extend(stamps.zip(rows).map(|(stamp, row)| (stamp, self.place, row)));
            replaced += ring_rows.remove_after(end.kept, self.seen_from());
            ring_rows.part(end.until_next, self.seen_from());
            replaced += ring_rows.append(all);
            leaving.extend(rings.leaving(ring));
            // A point of a plan has no delay.
            rings.delays[ring.index()] = None;
        }
        drop(rings);
        // No other sample may be encoded meanwhile, as the slots are not spare yet.
        self.pipeline.hand_over(leaving);
        drop(encoding);
        Ok(replaced)
    }

    /// Cuts the old plan at `start`: it keeps its values before `start`, and has none after it.
    ///
    /// If it has a valid value at the start, that value is written into the slot for the cut, and the new plan goes on
    /// from there to its first point. Otherwise values from `start` to the first point are invalid. A plan whose first
    /// point is at its start needs no value there: the cut is the instant before. Strategies that do not interpolate
    /// hold the last row that is kept.
    fn cut(
        &self,
        ring: &Ring,
        part: &Encoded<'_>,
        (start, times_ns): (Stamp, &[i64]),
        spec: &StreamSpec,
    ) -> Result<Cut, BackendError> {
        let jumps = times_ns.first() == Some(&0);
        let kept = if jumps { start.offset(-1) } else { start };
        let found = ring.align(spec.rule, kept);
        let before = |(_, row): &(usize, &Entry)| row.stamp <= kept;
        let Some((after, last)) = ring.entries().rev().enumerate().find(before) else {
            return Ok(Cut { kept, until_next: UntilNext::Strategy, input: None });
        };
        let between = last.until_next == UntilNext::Strategy && after > 0;
        let input = match found.value {
            Value::Between { b, .. } if found.valid => Some(ring.entry(b).input),
            // Held at its end. After a stop it goes on being held.
            Value::Row(row) if found.valid && !jumps && !times_ns.is_empty() => {
                (last.stamp < kept).then_some(ring.entry(row).input)
            }
            _ => None,
        };
        let input = input.filter(|_| spec.strategy().interpolates());
        if let (Some(lease), Some(_)) = (&part.cut, input) {
            let value = ring.slots_of(found.value);
            self.pipeline.backend.blend(part.ring, value, lease.slot())?;
        }
        let until_next = match last.until_next {
            _ if last.stamp == kept => UntilNext::Strategy,
            _ if !spec.strategy().interpolates() => UntilNext::Held,
            _ if between && found.valid => UntilNext::Strategy,
            // The rows on both sides were too far apart.
            _ if between => UntilNext::Nothing,
            UntilNext::Strategy => UntilNext::Held,
            parted => parted,
        };
        Ok(Cut { kept, until_next, input })
    }
}

impl Encoded<'_> {
    fn give_back(self, rings: &mut Rings) {
        let ring = rings.ring(self.ring);
        self.rows.into_iter().chain(self.cut).for_each(|lease| ring.give_back(lease));
    }
}
