//! Rows of `f32` in host memory, which the host interpolates and to which it applies operators.

use std::sync::{Mutex, RwLock};

use crate::spec::StreamSpec;
use robocache_ops::align::Slot;
use robocache_ops::align::Value;
use robocache_ops::operators::{OutputStage, unwrap};
use robocache_ops::resample::Lane;
use robocache_ops::resample::cpu::Interpolator;
use robocache_ops::sync::{lock, read, write};

/// Rows of one ring. Every slot has its own lock, never contended: the caller keeps writers and
/// readers of a slot apart. Several threads may read a slot at once: a tick does not wait for a plan
/// that blends the same row.
pub(super) struct FloatRows {
    slots: Vec<RwLock<Vec<f32>>>,
    interpolator: Interpolator,
    output: Option<Output>,
}

/// Output stage of the interpolated rows, with its memory.
struct Output {
    stage: OutputStage,
    /// The step whose angles stay as they are.
    present: usize,
    scratch: Mutex<Scratch>,
}

/// Written before it is read, so that what a panic left does not matter.
struct Scratch {
    /// `[steps, row]`: the interpolated rows; one row if no step depends on another.
    rows: Vec<f64>,
    /// Per step: whether it has a row.
    filled: Vec<bool>,
    /// One angle at each step.
    angles: Vec<Option<f64>>,
    /// Output of a row.
    part: Vec<f32>,
}

impl FloatRows {
    /// Zeros in `slots` rows with these lanes, for the steps of a stream.
    pub(super) fn new(spec: &StreamSpec, lanes: &[Lane], stage: Option<OutputStage>) -> Self {
        let output = stage.map(|stage| {
            let steps = if stage.unwraps() { spec.steps() } else { 1 };
            let scratch = Scratch {
                rows: vec![0.0; steps * lanes.len()],
                filled: vec![false; steps],
                angles: vec![None; steps],
                part: vec![0.0; stage.len()],
            };
            Output { stage, present: spec.present_step(), scratch: Mutex::new(scratch) }
        });
        FloatRows {
            slots: (0..spec.ring_slots()).map(|_| RwLock::new(vec![0.0; lanes.len()])).collect(),
            interpolator: Interpolator::new(lanes),
            output,
        }
    }

    /// Writes a row.
    pub(super) fn store(&self, slot: Slot, row: &[f32]) {
        write(&self.slots[slot.index()]).copy_from_slice(row);
    }

    /// Appends the bytes of a row.
    pub(super) fn read(&self, slot: Slot, row: &mut Vec<u8>) {
        row.extend(read(&self.slots[slot.index()]).iter().flat_map(|value| value.to_le_bytes()));
    }

    /// True if a step depends on the other steps, so that [`FloatRows::window`] serves all at once.
    pub(super) fn unwraps(&self) -> bool {
        self.output.as_ref().is_some_and(|output| output.stage.unwraps())
    }

    /// Hands what a step holds to `take`. `values` has the length of a row, and is scratch.
    pub(super) fn serve(&self, value: Value<Slot>, values: &mut [f32], take: impl FnOnce(&[f32])) {
        let Some(Output { stage, scratch, .. }) = &self.output else {
            return self.with(value, values, take);
        };
        let Scratch { rows, part, .. } = &mut *lock(scratch);
        self.with(value, values, |row| widen(row, rows));
        stage.apply(rows, |at, value| part[at] = value as f32);
        take(part);
    }

    /// Serves all steps of a tick, whose angles are unwrapped from step to step: hands each step with what it holds to
    /// `take`, or with `None` if it has no row.
    pub(super) fn window(
        &self,
        steps: impl Iterator<Item = (usize, Value<Slot>)> + Clone,
        values: &mut [f32],
        mut take: impl FnMut(usize, Option<&[f32]>),
    ) {
        let Some(Output { stage, present, scratch }) = &self.output else { return };
        let Scratch { rows, filled, angles, part } = &mut *lock(scratch);
        let len = values.len();
        filled.fill(false);
        for (step, value) in steps.clone().filter(|(_, value)| *value != Value::Nothing) {
            self.with(value, values, |row| widen(row, &mut rows[step * len..(step + 1) * len]));
            filled[step] = true;
        }
        for at in stage.unwrapped() {
            for (step, angle) in angles.iter_mut().enumerate() {
                *angle = filled[step].then(|| rows[step * len + at]);
            }
            unwrap(angles, *present);
            for (step, angle) in angles.iter().enumerate() {
                rows[step * len + at] = angle.unwrap_or(0.0);
            }
        }
        for (step, value) in steps {
            if value == Value::Nothing {
                take(step, None);
                continue;
            }
            stage.apply(&rows[step * len..(step + 1) * len], |at, value| part[at] = value as f32);
            take(step, Some(part));
        }
    }

    /// Writes the row of a value into another slot.
    pub(super) fn blend(&self, value: Value<Slot>, slot: Slot) {
        let out = &mut *write(&self.slots[slot.index()]);
        match value {
            Value::Nothing => out.fill(0.0),
            Value::Row(a) => out.copy_from_slice(&read(&self.slots[a.index()])),
            Value::Between { a, b, weight } => {
                let a = read(&self.slots[a.index()]);
                let b = read(&self.slots[b.index()]);
                self.interpolator.between(&a, &b, weight, out);
            }
        }
    }

    /// Hands the row of a value to `take`.
    fn with(&self, value: Value<Slot>, values: &mut [f32], take: impl FnOnce(&[f32])) {
        match value {
            Value::Nothing => {
                values.fill(0.0);
                take(values);
            }
            Value::Row(slot) => take(&read(&self.slots[slot.index()])),
            Value::Between { a, b, weight } => {
                let a = read(&self.slots[a.index()]);
                let b = read(&self.slots[b.index()]);
                self.interpolator.between(&a, &b, weight, values);
                take(values);
            }
        }
    }
}

fn widen(row: &[f32], out: &mut [f64]) {
    out.iter_mut().zip(row).for_each(|(out, value)| *out = f64::from(*value));
}

#[cfg(test)]
mod tests;
