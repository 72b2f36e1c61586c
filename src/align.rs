//! Finds the rows that give the value at a target time.
//!
//! Nothing extrapolates. Before the oldest row there is no value. After the newest row every
//! strategy holds that row, and the value is valid up to `max_age_ms`.

use crate::time::Stamp;

/// How a value at a target time follows from the rows around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Strategy {
    /// The newest row at or before the target.
    Hold,
    /// The row closest to the target, the earlier on a tie.
    Nearest,
    /// Between the two bracketing rows.
    Linear,
    /// As `Linear`, with quaternions turned along the shorter arc.
    Slerp,
}

impl Strategy {
    /// Whether a value may be between two rows rather than one of them.
    pub fn interpolates(self) -> bool {
        matches!(self, Strategy::Linear | Strategy::Slerp)
    }

    /// The name in configurations.
    pub const fn name(self) -> &'static str {
        match self {
            Strategy::Hold => "hold",
            Strategy::Nearest => "nearest",
            Strategy::Linear => "linear",
            Strategy::Slerp => "slerp",
        }
    }
}

/// What an invalid step holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fill {
    /// Zeros.
    #[default]
    Zero,
    /// The newest row at or before the target, however old; zeros if there is none.
    Last,
}

impl Fill {
    /// The name in configurations.
    pub const fn name(self) -> &'static str {
        match self {
            Fill::Zero => "zero",
            Fill::Last => "last",
        }
    }
}

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

/// The value of one step, with its validity and age.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Alignment<R> {
    /// Which rows to read. If `valid` is false, this is the fill.
    pub value: Value<R>,
    /// Whether the value may be acted on.
    pub valid: bool,
    /// Target minus the stamp of the newest row used \[ns\]: negative if that row is after the
    /// target, [`NO_AGE`] if there is no row. If the step is filled with zeros, this is the age of
    /// the row that would have been used.
    pub age_ns: i64,
}

impl<R> Alignment<R> {
    /// The same alignment with rows named differently.
    pub fn map<S>(self, name: impl FnMut(R) -> S) -> Alignment<S> {
        let Alignment { value, valid, age_ns } = self;
        Alignment { value: value.map(name), valid, age_ns }
    }
}

impl<R> Value<R> {
    /// The same value with rows named differently.
    pub fn map<S>(self, mut name: impl FnMut(R) -> S) -> Value<S> {
        match self {
            Value::Nothing => Value::Nothing,
            Value::Row(r) => Value::Row(name(r)),
            Value::Between { a, b, weight } => Value::Between { a: name(a), b: name(b), weight },
        }
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

/// Aligns one target. `len` rows are at the strictly increasing instants `stamp_at(0..len)`; the
/// result names rows by position.
pub fn align(
    rule: AlignRule,
    len: usize,
    stamp_at: impl Fn(usize) -> Stamp,
    target: Stamp,
) -> Alignment<usize> {
    let found = unfilled(rule, len, &stamp_at, target);
    if found.valid { found } else { fill(rule, len, &stamp_at, target, found.age_ns) }
}

/// As [`align`], but for a step that is invalid for another reason: gives its fill.
pub fn align_invalid(
    rule: AlignRule,
    len: usize,
    stamp_at: impl Fn(usize) -> Stamp,
    target: Stamp,
) -> Alignment<usize> {
    let found = unfilled(rule, len, &stamp_at, target);
    fill(rule, len, &stamp_at, target, found.age_ns)
}

/// The rows that give the value, valid or not.
fn unfilled(
    rule: AlignRule,
    len: usize,
    stamp_at: impl Fn(usize) -> Stamp,
    target: Stamp,
) -> Alignment<usize> {
    let after = first_after(len, &stamp_at, target);
    let Some(held) = after.checked_sub(1) else {
        return Alignment { value: Value::Nothing, valid: false, age_ns: NO_AGE };
    };
    let held_age = target.since(stamp_at(held));
    let alone = |row: usize| {
        let age_ns = target.since(stamp_at(row));
        let valid = age_ns.saturating_abs() <= rule.max_age_ns;
        Alignment { value: Value::Row(row), valid, age_ns }
    };
    match rule.strategy {
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
            let age_ns = target.since(stamp_at(after));
            Alignment { value, valid: gap <= rule.max_gap_ns, age_ns }
        }
    }
}

/// What an invalid step holds. `age_ns` is that of the row that would have been used.
fn fill(
    rule: AlignRule,
    len: usize,
    stamp_at: impl Fn(usize) -> Stamp,
    target: Stamp,
    age_ns: i64,
) -> Alignment<usize> {
    let held = first_after(len, &stamp_at, target).checked_sub(1);
    match (rule.fill, held) {
        (Fill::Last, Some(held)) => {
            let age_ns = target.since(stamp_at(held));
            Alignment { value: Value::Row(held), valid: false, age_ns }
        }
        _ => Alignment { value: Value::Nothing, valid: false, age_ns },
    }
}

/// The first row after the target; the one before it is the newest at or before the target.
fn first_after(len: usize, stamp_at: impl Fn(usize) -> Stamp, target: Stamp) -> usize {
    partition_point(len, |i| stamp_at(i) <= target)
}

/// The first `i` in `0..len` for which `before(i)` is false, otherwise `len`. `before` must be true
/// on a prefix.
fn partition_point(len: usize, before: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, len);
    while low < high {
        let middle = low + (high - low) / 2;
        if before(middle) { low = middle + 1 } else { high = middle }
    }
    low
}
