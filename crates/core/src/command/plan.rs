//! A chunk's rows at their instants, and the value between two rows.

use super::chunk::ActionChunk;
use super::refused::Refusal;
use crate::spec::{GroupSpec, Interpolate};
use robocache_ops::operators::taken_back;
use robocache_ops::time::Stamp;

/// A turn \[rad\].
const TURN: f64 = std::f64::consts::TAU;

/// Rows at rising instants. It takes its memory once.
#[derive(Clone, Debug, Default)]
pub(super) struct Plan {
    instants: Vec<Stamp>,
    /// Rows times joints, row by row.
    values: Vec<f64>,
    /// Joints.
    width: usize,
    /// True if its only row counts also later.
    held: bool,
}

/// A place on a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Before the first row.
    Before,
    /// At this row, or between it and the next.
    Row(usize),
    /// After the last row.
    After,
}

impl Plan {
    /// A plan without rows, with memory for all rows of a group.
    pub(super) fn of(spec: &GroupSpec) -> Self {
        let rows = spec.offsets_ns.len();
        let width = spec.joints.len();
        Plan {
            instants: Vec::with_capacity(rows),
            values: Vec::with_capacity(rows * width),
            width,
            held: false,
        }
    }

    /// Replaces the rows by those of a chunk, absolute and as they were before the training's operators.
    ///
    /// # Errors
    /// The plan has no rows then.
    pub(super) fn fill(
        &mut self,
        spec: &GroupSpec,
        chunk: &ActionChunk<'_>,
    ) -> Result<(), Refusal> {
        self.clear();
        let read = self.read(spec, chunk);
        if read.is_err() {
            self.clear();
        }
        read
    }

    fn read(&mut self, spec: &GroupSpec, chunk: &ActionChunk<'_>) -> Result<(), Refusal> {
        let width = self.width;
        for (at, value) in chunk.values.iter().enumerate() {
            let joint = at % width;
            let spec = &spec.joints[at % width];
            let mut value = taken_back(&spec.operators, f64::from(value));
            if spec.relative {
                value += f64::from(chunk.reference.get(joint).ok_or(Refusal::Reference)?);
            }
            if spec.angular && at >= width {
                value += turns(self.values[at - width] - value);
            }
            if !value.is_finite() {
                return Err(Refusal::NonFinite);
            }
            self.values.push(value);
        }
        let rows = spec.offsets_ns.iter().take(chunk.rows);
        self.instants.extend(rows.map(|offset| chunk.stamp.offset(*offset)));
        Ok(())
    }

    /// Removes all rows.
    pub(super) fn clear(&mut self) {
        self.instants.clear();
        self.values.clear();
        self.held = false;
    }

    /// Leaves the last row alone, from this instant on.
    pub(super) fn keep_last(&mut self, at: Stamp) {
        let rows = self.instants.len().saturating_sub(1);
        self.values.drain(..rows * self.width);
        self.instants.drain(..rows);
        self.instants.iter_mut().for_each(|instant| *instant = at);
        self.held = true;
    }

    /// True if its only row counts also later.
    pub(super) fn is_held(&self) -> bool {
        self.held
    }

    /// Instant of the first row; `None` without rows.
    pub(super) fn first(&self) -> Option<Stamp> {
        self.instants.first().copied()
    }

    /// The instants of the rows, and their values, row by row.
    pub(super) fn parts(&self) -> (&[Stamp], &[f64]) {
        (&self.instants, &self.values)
    }

    /// Number of rows before an instant.
    pub(super) fn rows_before(&self, at: Stamp) -> usize {
        self.instants.partition_point(|instant| *instant < at)
    }

    /// Number of rows.
    pub(super) fn rows(&self) -> usize {
        self.instants.len()
    }

    /// The place of an instant.
    pub(super) fn place(&self, at: Stamp) -> Place {
        match self.instants.partition_point(|instant| *instant <= at) {
            0 => Place::Before,
            rows if rows == self.rows() && self.instants[rows - 1] < at => Place::After,
            rows => Place::Row(rows - 1),
        }
    }

    /// Moves an angle's rows by whole turns, so that its value at a place is at most half a turn from another value.
    pub(super) fn turn(&mut self, joint: usize, value: f64, towards: f64) {
        let by = turns(towards - value);
        if by != 0.0 {
            self.values.iter_mut().skip(joint).step_by(self.width).for_each(|value| *value += by);
        }
    }

    /// The value of a joint at an instant whose place this row is.
    pub(super) fn value(&self, joint: usize, how: Interpolate, row: usize, at: Stamp) -> f64 {
        let here = self.row(row, joint);
        if how == Interpolate::Hold || at == self.instants[row] || row + 1 == self.rows() {
            return here;
        }
        let span = self.instants[row + 1].since(self.instants[row]) as f64;
        let along = at.since(self.instants[row]) as f64 / span;
        let next = self.row(row + 1, joint);
        match how {
            Interpolate::Hold => here,
            Interpolate::Linear => here + (next - here) * along,
            Interpolate::Cubic => {
                let slopes = [self.slope(row, joint) * span, self.slope(row + 1, joint) * span];
                hermite([here, next], slopes, along)
            }
        }
    }

    /// Slope at a row \[per ns\]: the central difference; at the first and the last row, that to its neighbour.
    fn slope(&self, row: usize, joint: usize) -> f64 {
        let from = row.saturating_sub(1);
        let to = (row + 1).min(self.rows() - 1);
        let span = self.instants[to].since(self.instants[from]) as f64;
        (self.row(to, joint) - self.row(from, joint)) / span
    }

    fn row(&self, row: usize, joint: usize) -> f64 {
        self.values[row * self.width + joint]
    }
}

/// Whole turns in an angle \[rad\].
fn turns(angle: f64) -> f64 {
    (angle / TURN).round_ties_even() * TURN
}

/// The cubic with these values and slopes at 0 and 1 (basis functions as in Bartels, Beatty and Barsky, 1987).
fn hermite([from, to]: [f64; 2], [leaves, arrives]: [f64; 2], t: f64) -> f64 {
    let t2 = t * t;
    let s = 1.0 - t;
    let s2 = s * s;
    let values = from * ((1.0 + 2.0 * t) * s2) + to * (t2 * (3.0 - 2.0 * t));
    values + (leaves * (t * s2) - arrives * (t2 * s))
}

#[cfg(test)]
mod tests;
