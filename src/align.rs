//! From a strategy and a target instant to the rows that give the value there.
//!
//! Nothing extrapolates: before the oldest row there is no value, after the newest one
//! interpolating strategies hold it, and how far that may go is bounded by `max_age_ms`.

use crate::config::{Fill, Strategy, StreamSpec};
use crate::time::Stamp;

/// Age of a step for which there is no row at all.
pub const NO_AGE: i64 = i64::MAX;

/// Which rows give a value. `R` names a row: its position in the ring, or its slot in a backend.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<R> {
    /// No row: the step is zeros.
    Nothing,
    /// One row as it is, bit for bit.
    Row(R),
    /// `a + weight * (b - a)` with `0 < weight < 1` (1 only by rounding).
    Between {
        /// The row before the target.
        a: R,
        /// The row after the target.
        b: R,
        /// `(target - stamp(a)) / (stamp(b) - stamp(a))`.
        weight: f32,
    },
}

/// The value of one step and what is known of its quality.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Alignment<R> {
    /// Which rows to read. Where `valid` is false this is the fill.
    pub value: Value<R>,
    /// Whether the value may be acted on.
    pub valid: bool,
    /// Target minus the stamp of the newest row used \[ns\]: negative where that row lies after
    /// the target, [`NO_AGE`] where there is none. Of a step that is filled with zeros, the age of
    /// the row that would have been used.
    pub age_ns: i64,
}

impl<R> Alignment<R> {
    /// The same alignment with rows named differently.
    pub fn map<S>(self, mut name: impl FnMut(R) -> S) -> Alignment<S> {
        let value = match self.value {
            Value::Nothing => Value::Nothing,
            Value::Row(r) => Value::Row(name(r)),
            Value::Between { a, b, weight } => Value::Between { a: name(a), b: name(b), weight },
        };
        Alignment { value, valid: self.valid, age_ns: self.age_ns }
    }
}

/// The rules of a stream that decide on rows and validity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlignRule {
    /// How a value follows from rows.
    pub strategy: Strategy,
    /// Greatest distance between a target and a row used alone \[ns\].
    pub max_age_ns: i64,
    /// Greatest distance between the two rows of an interpolation \[ns\].
    pub max_gap_ns: i64,
    /// What an invalid step holds.
    pub fill: Fill,
}

impl From<&StreamSpec> for AlignRule {
    fn from(spec: &StreamSpec) -> Self {
        AlignRule {
            strategy: spec.strategy,
            max_age_ns: spec.max_age_ns,
            max_gap_ns: spec.max_gap_ns,
            fill: spec.fill,
        }
    }
}

/// Aligns one target. `len` rows stand at the strictly increasing instants `stamp_at(0..len)`; the
/// result names rows by position.
pub fn align(
    rule: AlignRule,
    len: usize,
    stamp_at: impl Fn(usize) -> Stamp,
    target: Stamp,
) -> Alignment<usize> {
    // The first row after the target; the one before it is the newest at or before the target.
    let after = partition_point(len, |i| stamp_at(i) <= target);
    let Some(held) = after.checked_sub(1) else {
        return Alignment { value: Value::Nothing, valid: false, age_ns: NO_AGE };
    };
    let held_age = target.since(stamp_at(held));
    let alone = |row: usize| {
        let age_ns = target.since(stamp_at(row));
        let valid = age_ns.saturating_abs() <= rule.max_age_ns;
        (Value::Row(row), valid, age_ns)
    };
    let (value, valid, age_ns) = match rule.strategy {
        // An exact hit needs no neighbour, and a target after the newest row has none.
        _ if after == len || held_age == 0 => alone(held),
        Strategy::Hold => alone(held),
        Strategy::Nearest => {
            let ahead = stamp_at(after).since(target);
            alone(if ahead < held_age { after } else { held })
        }
        Strategy::Linear | Strategy::Slerp => {
            let gap = stamp_at(after).since(stamp_at(held));
            // Both are exact in f64 up to 2^53 ns (104 days), far beyond any valid gap.
            let weight = (held_age as f64 / gap as f64) as f32;
            let value = Value::Between { a: held, b: after, weight };
            (value, gap <= rule.max_gap_ns, target.since(stamp_at(after)))
        }
    };
    let (value, age_ns) = match (valid, rule.fill) {
        (true, _) => (value, age_ns),
        (false, Fill::Zero) => (Value::Nothing, age_ns),
        (false, Fill::Last) => (Value::Row(held), held_age),
    };
    Alignment { value, valid, age_ns }
}

/// The first `i` in `0..len` for which `before(i)` is false, where `before` is true on a prefix.
fn partition_point(len: usize, before: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, len);
    while low < high {
        let middle = low + (high - low) / 2;
        if before(middle) { low = middle + 1 } else { high = middle }
    }
    low
}
