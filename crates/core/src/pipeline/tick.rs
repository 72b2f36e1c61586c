//! A tick: every stream resampled at its target times, into one message.

use super::{Pipeline, Rings};
use crate::backend::{BackendError, StepJob};
use crate::layout::{Holds, Layout};
use crate::message::{StepState, TensorMessage};
use crate::spec::{RingId, StreamId, StreamSpec};
use robocache_ops::align::{InvalidReason, Position, Seen, Strategy, Value};
use robocache_ops::time::{Epoch, Stamp};

/// The outcome of a tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TickOutcome {
    /// The message holds the tensor of this tick.
    Ready,
    /// A required stream has an invalid step; the message must not be published.
    HeldBack {
        /// The first such stream.
        stream: StreamId,
    },
    /// The tick is of an epoch that is over; the message must not be published.
    Past,
}

/// Lists that every tick clears first, so that a panic leaves nothing half done.
#[derive(Default)]
pub(super) struct Ticker {
    /// Per ring of a stream: the source of its value at one target.
    found: Vec<Found>,
    jobs: Vec<StepJob>,
}

/// Says from which rows of one ring the value of one step comes.
#[derive(Clone, Copy)]
struct Found {
    ring: RingId,
    value: Value<Position>,
}

/// A message whose notes are of this tick and whose data is of an earlier one. If the tick is held
/// back, fails or panics, this is dropped, and the message forgets its rows.
struct Unfused<'a>(&'a mut TensorMessage);

impl Unfused<'_> {
    /// Ends this: the backend has written the data that the notes name.
    fn fused(self) {
        std::mem::forget(self);
    }
}

impl Drop for Unfused<'_> {
    fn drop(&mut self) {
        self.0.forget_rows();
    }
}

impl Rings {
    /// Notes which slots a tick reads.
    fn read(&mut self, jobs: &[StepJob]) {
        self.read_by_tick.clear();
        for job in jobs {
            let slots = match job.value {
                Value::Nothing => [None, None],
                Value::Row(slot) => [Some(slot), None],
                Value::Between { a, b, .. } => [Some(a), Some(b)],
            };
            self.read_by_tick.extend(slots.into_iter().flatten().map(|slot| (job.ring, slot)));
        }
    }
}

impl Pipeline {
    /// Resamples every stream for tick `tick` of `epoch` into `message`. If `epoch` is later than
    /// that of the rows, it begins first, and the rings are empty. If `message` is of another
    /// pipeline, a new one replaces it.
    ///
    /// # Errors
    /// Those of [`Backend::fuse`](crate::backend::Backend::fuse).
    pub fn tick(
        &self,
        tick: i64,
        epoch: Epoch,
        message: &mut TensorMessage,
    ) -> Result<TickOutcome, BackendError> {
        let mut ticker = self.ticker.lock();
        message.belong_to(self.id, || self.new_message());
        let mut rings = self.lock_rings();
        rings.begin(epoch, &self.epochs);
        if epoch.is_before(rings.epoch) {
            return Ok(TickOutcome::Past);
        }
        let stamp = self.config.grid.stamp_of(tick);
        ticker.jobs.clear();
        let unfused = Unfused(message);
        let message = &mut *unfused.0;
        message.set_tick(epoch, tick, stamp, rings.changes);
        let mut held_back = None;
        for stream in self.config.stream_ids() {
            let all_valid = self.align_stream(stream, &rings, stamp, message, &mut ticker);
            if !all_valid && self.config.stream(stream).required {
                self.streams[stream.index()].held_back.add(1);
                held_back = held_back.or(Some(stream));
            }
        }
        if let Some(stream) = held_back {
            return Ok(TickOutcome::HeldBack { stream });
        }
        // No push overwrites these rows, but every push may go on while the backend works.
        rings.read(&ticker.jobs);
        drop(rings);
        let fused = self.backend.fuse(&ticker.jobs, message.data_mut());
        self.lock_rings().read_by_tick.clear();
        fused?;
        unfused.fused();
        Ok(TickOutcome::Ready)
    }

    /// Aligns all steps of a stream; returns whether all are valid.
    fn align_stream(
        &self,
        stream: StreamId,
        rings: &Rings,
        tick: Stamp,
        message: &mut TensorMessage,
        Ticker { found, jobs }: &mut Ticker,
    ) -> bool {
        let spec = self.config.stream(stream);
        let mut valid_steps = 0;
        let mut invalid = [0; InvalidReason::ALL.len()];
        let mut newest_held = false;
        let mut same_rows = true;
        for step in 0..spec.steps() {
            let target = tick.offset(spec.target_offset_ns(step));
            let state = align_step(&self.layout, stream, spec, rings, target, found);
            if !state.valid {
                let reason = self.why_invalid(stream, spec, rings, tick, target);
                invalid[reason as usize] += 1;
            } else if step == spec.present_step() {
                newest_held = is_held(spec, rings, target, found);
            }
            for id in self.layout.segments_of(stream) {
                let segment = self.layout.segment(id);
                let count = match segment.holds {
                    Holds::Rows => segment.entries() as u32,
                    Holds::Features | Holds::Coordinates => in_use(rings, found),
                };
                message.set_step(id, step, StepState { count, ..state });
            }
            for Found { ring: id, value } in found.iter().copied() {
                let ring = &rings.rings[id.index()];
                let row = match value {
                    _ if self.streams[stream.index()].unwraps => None,
                    Value::Row(at) => Some(ring.entry(at).serial),
                    Value::Nothing => Some(0),
                    Value::Between { .. } => None,
                };
                let unchanged = message.replace_row(id, step, row);
                same_rows &= unchanged;
                jobs.push(StepJob { ring: id, step, value: ring.slots_of(value), unchanged });
            }
            valid_steps += u64::from(state.valid);
        }
        for id in self.layout.segments_of(stream) {
            message.set_unchanged(id, same_rows);
        }
        let stats = &self.streams[stream.index()].stats;
        stats.steps.add(spec.steps() as u64);
        stats.steps_valid.add(valid_steps);
        stats.newest_held.add(u64::from(newest_held));
        stats.add_invalid(&invalid);
        valid_steps == spec.steps() as u64
    }

    /// Says why a step is invalid. Of several rings, the most fundamental reason counts.
    fn why_invalid(
        &self,
        stream: StreamId,
        spec: &StreamSpec,
        rings: &Rings,
        tick: Stamp,
        target: Stamp,
    ) -> InvalidReason {
        let reasons = self.layout.rings_of(stream).filter_map(|id| {
            let ring = &rings.rings[id.index()];
            // If rows ahead of the clock are expected, none says that a clock is wrong.
            let future = match spec.looks_ahead() {
                true => Stamp::MAX,
                false => tick.offset(self.config.grid.period_ns()),
            };
            let seen = Seen {
                future,
                lag_ns: spec.lag_ns,
                evicted: ring.evicted(),
                delay_ns: rings.delays[id.index()],
            };
            ring.invalid_reason(spec.rule, target, seen)
        });
        // At least one ring of an invalid step is invalid.
        reasons.min().unwrap_or(InvalidReason::NoRow)
    }
}

/// Voxels in use of the only row of a sparse step.
fn in_use(rings: &Rings, found: &[Found]) -> u32 {
    let of = |found: &Found| match found.value {
        Value::Row(at) => rings.rings[found.ring.index()].entry(at).in_use,
        Value::Nothing | Value::Between { .. } => 0,
    };
    found.first().map_or(0, of)
}

/// True if a ring gives its newest row for a later target, although the strategy asks for rows on
/// both sides.
fn is_held(spec: &StreamSpec, rings: &Rings, target: Stamp, found: &[Found]) -> bool {
    let held = |found: &Found| {
        let ring = &rings.rings[found.ring.index()];
        let newest = |at: Position| at.index() + 1 == ring.len() && ring.entry(at).stamp < target;
        matches!(found.value, Value::Row(at) if newest(at))
    };
    spec.strategy() != Strategy::Hold && found.iter().any(held)
}

/// Aligns every ring of a stream at one target; `found` is what each gives. The step is valid if all
/// rings are, and its age is the greatest of theirs. If one ring is invalid, the whole step is filled.
/// The step's count is that of a segment, so it is not set.
fn align_step(
    layout: &Layout,
    stream: StreamId,
    spec: &StreamSpec,
    rings: &Rings,
    target: Stamp,
    found: &mut Vec<Found>,
) -> StepState {
    found.clear();
    let mut state = StepState { valid: true, target, age_ns: i64::MIN, count: 0, inputs_valid: 0 };
    for id in layout.rings_of(stream) {
        let ring = &rings.rings[id.index()];
        let aligned = ring.align(spec.rule, target);
        state.valid &= aligned.valid;
        state.age_ns = state.age_ns.max(aligned.age_ns);
        state.inputs_valid |= ring.inputs_of(target, &aligned);
        found.push(Found { ring: id, value: aligned.value });
    }
    if state.valid || found.len() == 1 {
        return state;
    }
    state.age_ns = i64::MIN;
    for Found { ring, value } in found {
        let filled = rings.rings[ring.index()].align_invalid(spec.rule, target);
        state.age_ns = state.age_ns.max(filled.age_ns);
        *value = filled.value;
    }
    state
}

#[cfg(test)]
mod tests;
