//! Rows of `f32` in host memory, which the host interpolates.

use std::sync::Mutex;

use super::Slot;
use crate::align::Value;
use crate::ops::resample::Lane;
use crate::ops::resample::cpu::Interpolator;
use crate::sync::lock;

/// Rows of one ring. Every slot has its own lock, never contended for long: the caller keeps writers
/// and readers of a slot apart.
pub(super) struct FloatRows {
    slots: Vec<Mutex<Vec<f32>>>,
    interpolator: Interpolator,
}

impl FloatRows {
    /// Zeros in `slots` rows with these lanes.
    pub fn new(lanes: &[Lane], slots: usize) -> Self {
        FloatRows {
            slots: (0..slots).map(|_| Mutex::new(vec![0.0; lanes.len()])).collect(),
            interpolator: Interpolator::new(lanes),
        }
    }

    /// Writes a row.
    pub fn store(&self, slot: Slot, row: &[f32]) {
        lock(&self.slots[slot]).copy_from_slice(row);
    }

    /// Hands the row of a value to `take`. `scratch` has the length of a row. Without a row, this is
    /// zeros.
    pub fn with<T>(
        &self,
        value: Value<Slot>,
        scratch: &mut [f32],
        take: impl FnOnce(&[f32]) -> T,
    ) -> T {
        match value {
            Value::Nothing => {
                scratch.fill(0.0);
                take(scratch)
            }
            Value::Row(slot) => take(&lock(&self.slots[slot])),
            Value::Between { a, b, weight } => {
                let (a, b) = (lock(&self.slots[a]), lock(&self.slots[b]));
                self.interpolator.between(&a, &b, weight, scratch);
                take(scratch)
            }
        }
    }

    /// Writes the row of a value into another slot.
    pub fn blend(&self, value: Value<Slot>, slot: Slot) {
        let out = &mut *lock(&self.slots[slot]);
        match value {
            Value::Nothing => out.fill(0.0),
            Value::Row(a) => out.copy_from_slice(&lock(&self.slots[a])),
            Value::Between { a, b, weight } => {
                let (a, b) = (lock(&self.slots[a]), lock(&self.slots[b]));
                self.interpolator.between(&a, &b, weight, out);
            }
        }
    }
}
