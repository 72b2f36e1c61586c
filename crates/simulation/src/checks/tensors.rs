//! Each tensor: ticks rise, and each valid value is the robot's truth.

use super::{Kind, RowMessage, Seen};
use crate::net::S;
use crate::robot::{BEND, joint, units};
use robocache_core::message::{StepState, TensorMessage};
use robocache_ops::time::Stamp;
use robocache_runtime::Runtime;

/// Longest distance of two rows that a value may be between \[s\], as configured.
const GAP_S: f64 = 0.4;
/// Greatest error of an f32 that stands for a time, and of the rounding of a stamp \[units\].
const RESOLUTION: f64 = 1.1;

impl Seen {
    /// Checks a tensor that is published.
    pub(crate) fn tensor(&mut self, runtime: &Runtime, message: &TensorMessage) {
        self.published += 1;
        let stamp = message.stamp();
        let tick = stamp.nanos().div_euclid(self.grid_ns);
        let epoch = message.envelope().places().epoch(message.message());
        if let Some((of, newest)) = self.newest
            && (epoch < of || (epoch == of && tick <= newest))
        {
            self.fail(format!("tick {tick} of epoch {epoch} follows tick {newest} of epoch {of}"));
        }
        self.newest = Some((epoch, tick));
        if stamp.nanos().rem_euclid(self.grid_ns) != 0 {
            self.fail(format!("tick {tick} is at {stamp}"));
        }
        if self.began.is_none_or(|(of, _)| of != epoch) {
            self.began = Some((epoch, stamp));
        }
        for stream in runtime.streams() {
            let spec = runtime.stream_spec(stream);
            let kind = Kind::ALL.into_iter().find(|kind| {
                runtime
                    .inputs_of(Some(stream))
                    .any(|id| runtime.input_spec(id).topic == kind.topic().0)
            });
            let (Some(kind), Some(segment)) =
                (kind, runtime.pipeline.layout().segments_of(stream).next())
            else {
                continue;
            };
            let steps = message.steps(segment);
            let since = self.began.map_or(0, |(_, began)| stamp.since(began));
            if kind == Kind::Mark
                && since > spec.lag_ns + S as i64
                && self.mark.is_some()
                && !steps.iter().all(|step| step.valid)
            {
                self.fail(format!(
                    "the latched message is not valid {since} ns after the epoch began"
                ));
            }
            for (at, step) in steps.iter().enumerate() {
                if step.valid {
                    self.valid += 1;
                    let width = message.segment_data(segment).len() / steps.len();
                    let data = &message.segment_data(segment)[at * width..][..width];
                    let lag_ns = spec.lag_ns;
                    self.step(kind, epoch, stamp.offset(-lag_ns), *step, data);
                }
            }
        }
    }

    fn step(&mut self, kind: Kind, epoch: u64, newest: Stamp, step: StepState, data: &[u8]) {
        if step.target > newest || newest.since(step.target) > S as i64 {
            self.fail(format!(
                "{kind:?}: a target is at {}, the present step at {newest}",
                step.target
            ));
        }
        let at = step.target.offset(-step.age_ns);
        let is_held = step.age_ns >= 0;
        let Some(input) = self.input_of(kind) else { return };
        // Of messages of equal stamps the latest counts, but not one that came after the tick was fused. The check may not know
        // of it if the recorder has no room.
        let mut rows = self.rows[input].get(&(epoch, at)).into_iter().flatten();
        let row = rows.rfind(|row| !self.blind && row.entered <= self.fused).copied();
        if row.is_none() && !self.blind {
            self.fail(format!(
                "{kind:?}: a valid value has age {} ns at {}, but there is no row at {at} in epoch {epoch}",
                step.age_ns, step.target
            ));
            return;
        }
        if kind == Kind::Camera {
            if let Some(RowMessage { number, .. }) = row
                && data.iter().any(|pixel| u64::from(*pixel) != number % 251)
            {
                self.fail(format!("camera: image {number} has the pixels {data:?}"));
            }
            return;
        }
        let values: Vec<f64> = data
            .as_chunks::<4>()
            .0
            .iter()
            .map(|bytes| f64::from(f32::from_le_bytes(*bytes)))
            .collect();
        match kind {
            Kind::Joints => self.joints(epoch, step.target, at, &values),
            Kind::Wrench => self.measured(kind, epoch, (step.target, at), (row, &values, is_held)),
            _ => self.measured(kind, epoch, (at, at), (row, &values, true)),
        }
    }

    /// The pass of the robot's clock that an epoch shows. Each epoch shows one, and a later one no earlier pass.
    fn pass(&mut self, kind: Kind, epoch: u64, pass: f64) {
        let found = pass as u64;
        let is_whole = pass.fract() == 0.0;
        let known = *self.passes.entry(epoch).or_insert(found);
        // The instant of this one is its arrival. Until the clock of its pass arrives, it counts in the epoch before.
        let known = if kind == Kind::Twist { known.max(found) } else { known };
        let before = self.passes.range(..epoch).next_back().map_or(0, |(_, pass)| *pass);
        if !is_whole || known != found || found < before {
            self.fail(format!(
                "{kind:?}: epoch {epoch} has a value of pass {pass}, after pass {known} and, in an epoch before, {before}"
            ));
        }
    }

    /// A vector that says when it was measured, in which pass, by which publisher and as which message.
    fn measured(
        &mut self,
        kind: Kind,
        epoch: u64,
        (target, at): (Stamp, Stamp),
        (row, values, is_held): (Option<RowMessage>, &[f64], bool),
    ) {
        let [time, pass, number, ..] = values[..] else { return };
        // A latched message is of no pass. When a message was published tells its pass only by a clock that agrees.
        if matches!(kind, Kind::Wrench | Kind::Goal)
            || (kind == Kind::Twist && self.tells_publications)
        {
            self.pass(kind, epoch, pass);
        }
        let is_between = kind == Kind::Wrench && target < at;
        let base = self.bases.get(pass as usize).copied().unwrap_or(Stamp::ZERO);
        let shift = if kind == Kind::Goal { 1.0 } else { 0.0 };
        let expected = match kind {
            Kind::Wrench if is_between => Some(units(target, base)),
            Kind::Wrench | Kind::Goal => Some(units(at, base) + shift),
            _ => None,
        };
        if let Some(expected) = expected
            && (time - expected).abs() > RESOLUTION
        {
            self.fail(format!("{kind:?}: expected the value of {expected} units, found {time}"));
        }
        if !is_between
            && is_held
            && let Some(row) = row
            && number as u64 != row.number
        {
            self.fail(format!("{kind:?}: expected message {}, found {number}", row.number));
        }
        if kind == Kind::Mark {
            self.mark = Some((values[3] as usize, number as u64));
        }
    }

    /// Joints follow a curve, which a straight line leaves by a bounded error.
    fn joints(&mut self, epoch: u64, target: Stamp, at: Stamp, values: &[f64]) {
        let Some(pass) = self.passes.get(&epoch).copied() else { return };
        let base = self.bases[pass as usize];
        for (which, value) in values.iter().enumerate() {
            let (instant, bound) = match target <= at {
                true => (target, GAP_S * GAP_S / 8.0 * BEND),
                false => (at, 0.0),
            };
            let truth = joint(instant, base, pass, which);
            if (value - truth).abs() > bound + 1e-4 {
                self.fail(format!("joint {which} is {value}, and was {truth} at {instant}"));
            }
        }
    }
}
