//! Finds the rows that give the value at a target time.
//!
//! Nothing extrapolates. Before the oldest row there is no value. After the newest row every
//! strategy holds that row, and the value is valid up to `max_age_ms`.

use crate::time::{NANOS_PER_S, Stamp};

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
    /// True if a value may be between two rows rather than one of them.
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

/// Content of an invalid step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fill {
    /// Zeros.
    #[default]
    Zero,
    /// The newest row at or before the target, however old. Without such a row: zeros.
    Last,
    /// As `Last`; before the oldest row: that row. So the edge rows go on in both directions.
    First,
}

impl Fill {
    /// The name in configurations.
    pub const fn name(self) -> &'static str {
        match self {
            Fill::Zero => "zero",
            Fill::Last => "last",
            Fill::First => "first",
        }
    }
}

/// Age of a step for which there is no row at all.
pub const NO_AGE: i64 = i64::MAX;

/// A row's index among the rows of a ring in the order of their stamps, the oldest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(usize);

impl Position {
    /// The position with this index.
    pub const fn new(index: usize) -> Self {
        Position(index)
    }

    /// The index.
    pub const fn index(self) -> usize {
        self.0
    }
}

/// A place in the memory of a ring's rows. A row keeps its slot while its position changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(usize);

impl Slot {
    /// The slot with this index.
    pub const fn new(index: usize) -> Self {
        Slot(index)
    }

    /// The index.
    pub const fn index(self) -> usize {
        self.0
    }
}

/// Which rows give a value. `R` names a row: its [`Position`] in a ring, or its [`Slot`] in a backend.
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
    /// True if the value may be acted on.
    pub valid: bool,
    /// Target minus the stamp of the newest row used \[ns\]: negative if that row is after the
    /// target, [`NO_AGE`] if there is no row. If the step is filled with zeros, this is the age of
    /// the row that would have been used.
    pub age_ns: i64,
}

impl<R> Alignment<R> {
    /// Renames the rows.
    pub fn map<S>(self, name: impl FnMut(R) -> S) -> Alignment<S> {
        let Alignment { value, valid, age_ns } = self;
        Alignment { value: value.map(name), valid, age_ns }
    }
}

impl<R> Value<R> {
    /// Renames the rows.
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
    /// Content of an invalid step.
    pub fill: Fill,
}

/// Aligns one target. `len` rows are at the strictly increasing instants `stamp_at(0..len)`.
pub fn align(
    rule: AlignRule,
    len: usize,
    stamp_at: impl Fn(usize) -> Stamp,
    target: Stamp,
) -> Alignment<Position> {
    align_after(rule, len, &stamp_at, target, first_after(len, &stamp_at, target))
}

/// As [`align`], for a caller that has searched: the first `after` rows are at or before the target.
#[inline(always)]
pub(crate) fn align_after(
    rule: AlignRule,
    len: usize,
    stamp_at: impl Fn(usize) -> Stamp,
    target: Stamp,
    after: usize,
) -> Alignment<Position> {
    let found = unfilled(rule, len, &stamp_at, target, after);
    if found.valid { found } else { fill(rule, len, &stamp_at, target, after, found.age_ns) }
}

/// As [`align`], but for a step that is invalid for another reason: gives its fill.
pub fn align_invalid(
    rule: AlignRule,
    len: usize,
    stamp_at: impl Fn(usize) -> Stamp,
    target: Stamp,
) -> Alignment<Position> {
    let after = first_after(len, &stamp_at, target);
    let found = unfilled(rule, len, &stamp_at, target, after);
    fill(rule, len, &stamp_at, target, after, found.age_ns)
}

/// The rows that give the value, valid or not. The first `after` are at or before the target.
#[inline(always)]
fn unfilled(
    rule: AlignRule,
    len: usize,
    stamp_at: impl Fn(usize) -> Stamp,
    target: Stamp,
    after: usize,
) -> Alignment<Position> {
    let Some(held) = after.checked_sub(1) else {
        return Alignment { value: Value::Nothing, valid: false, age_ns: NO_AGE };
    };
    let held_age = target.since(stamp_at(held));
    let alone = |row: usize| {
        let age_ns = target.since(stamp_at(row));
        let valid = age_ns.saturating_abs() <= rule.max_age_ns;
        Alignment { value: Value::Row(Position(row)), valid, age_ns }
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
            let value = Value::Between { a: Position(held), b: Position(after), weight };
            let age_ns = target.since(stamp_at(after));
            Alignment { value, valid: gap <= rule.max_gap_ns, age_ns }
        }
    }
}

/// Why a step is invalid. The more fundamental reason comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(usize)]
pub enum InvalidReason {
    /// No row has come in this epoch.
    NoRow,
    /// All rows are stamped after the tick: the sensor's clock is ahead.
    Ahead,
    /// The target is before the oldest row, and the full ring has dropped what was there.
    RingShort,
    /// The target is before the first row since the start, a jump or a pause.
    NotFilled,
    /// The newest row was stamped long before it arrived: the sensor's clock is far behind.
    ClockBehind,
    /// The newest row was too old for every tick when it arrived: the lag is shorter than the delay.
    Delayed,
    /// The newest row was in time, and no newer one has come since.
    TooOld,
    /// There are rows on both sides of the target, and they are too far apart.
    Gap,
    /// There is a row, and a cloud that it must have is missing or too old.
    Incomplete,
}

impl InvalidReason {
    /// All reasons, in the order of their discriminants.
    pub const ALL: [InvalidReason; 9] = [
        InvalidReason::NoRow,
        InvalidReason::Ahead,
        InvalidReason::RingShort,
        InvalidReason::NotFilled,
        InvalidReason::ClockBehind,
        InvalidReason::Delayed,
        InvalidReason::TooOld,
        InvalidReason::Gap,
        InvalidReason::Incomplete,
    ];

    /// The name in diagnostics and logs.
    pub const fn name(self) -> &'static str {
        match self {
            InvalidReason::NoRow => "no_row",
            InvalidReason::Ahead => "ahead",
            InvalidReason::RingShort => "ring_short",
            InvalidReason::NotFilled => "not_filled",
            InvalidReason::ClockBehind => "clock_behind",
            InvalidReason::Delayed => "delayed",
            InvalidReason::TooOld => "too_old",
            InvalidReason::Gap => "gap",
            InvalidReason::Incomplete => "incomplete",
        }
    }
}

/// If a row arrives longer than this after its stamp \[ns\], the clocks differ. No message is on its
/// way for so long.
pub const CLOCKS_APART_NS: i64 = 10 * NANOS_PER_S;

/// Facts of a ring and its stream beside the stamps of the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The tick's instant, and one period: a row after that is in the future.
    pub future: Stamp,
    /// How long the newest target is before its tick \[ns\].
    pub lag_ns: i64,
    /// The newest row of this epoch that the full ring has dropped.
    pub evicted: Option<Stamp>,
    /// The newest row's arrival minus its stamp \[ns\]; `None` if there was no clock.
    pub delay_ns: Option<i64>,
}

/// Says why a target has no valid value in a ring; `None` if it has one. See [`align`] for the rows.
pub fn invalid_reason(
    rule: AlignRule,
    len: usize,
    stamp_at: impl Fn(usize) -> Stamp,
    target: Stamp,
    seen: Seen,
) -> Option<InvalidReason> {
    let after = first_after(len, &stamp_at, target);
    if unfilled(rule, len, &stamp_at, target, after).valid {
        return None;
    }
    Some(if len == 0 {
        InvalidReason::NoRow
    } else if after == 0 {
        before_the_oldest(rule, stamp_at(0), target, seen)
    } else if after < len {
        InvalidReason::Gap
    } else {
        after_the_newest(rule, seen)
    })
}

/// Why there is no value before the oldest row.
fn before_the_oldest(rule: AlignRule, oldest: Stamp, target: Stamp, seen: Seen) -> InvalidReason {
    if oldest > seen.future {
        return InvalidReason::Ahead;
    }
    let short = seen.evicted.is_some_and(|evicted| {
        // If it is after the target, the ring cannot reach the target. Otherwise the ring lacks
        // only this row, which counts if it would have given a value.
        let age_ns = target.since(evicted);
        let valid = match rule.strategy.interpolates() {
            true => oldest.since(evicted) <= rule.max_gap_ns,
            false => age_ns <= rule.max_age_ns,
        };
        age_ns < 0 || valid
    });
    if short { InvalidReason::RingShort } else { InvalidReason::NotFilled }
}

/// Why the newest row is too old. If it came later than lag and greatest age allow, no tick after
/// its arrival could use it.
fn after_the_newest(rule: AlignRule, seen: Seen) -> InvalidReason {
    let allowed_ns = seen.lag_ns.saturating_add(rule.max_age_ns);
    match seen.delay_ns {
        Some(delay_ns) if delay_ns > allowed_ns.max(CLOCKS_APART_NS) => InvalidReason::ClockBehind,
        Some(delay_ns) if delay_ns > allowed_ns => InvalidReason::Delayed,
        _ => InvalidReason::TooOld,
    }
}

/// Content of an invalid step. `age_ns` is that of the row that would have been used.
#[inline(always)]
fn fill(
    rule: AlignRule,
    len: usize,
    stamp_at: impl Fn(usize) -> Stamp,
    target: Stamp,
    after: usize,
    age_ns: i64,
) -> Alignment<Position> {
    let row = match (rule.fill, after.checked_sub(1)) {
        (Fill::Last | Fill::First, Some(held)) => held,
        (Fill::First, None) if len > 0 => 0,
        _ => return Alignment { value: Value::Nothing, valid: false, age_ns },
    };
    let age_ns = target.since(stamp_at(row));
    Alignment { value: Value::Row(Position(row)), valid: false, age_ns }
}

/// The first row after the target; the one before it is the newest at or before the target.
fn first_after(len: usize, stamp_at: impl Fn(usize) -> Stamp, target: Stamp) -> usize {
    partition_point(len, |i| stamp_at(i) <= target)
}

/// The first `i` in `0..len` for which `before(i)` is false, otherwise `len`. `before` must be true
/// on a prefix.
fn partition_point(len: usize, before: impl Fn(usize) -> bool) -> usize {
    let mut low = 0;
    let mut high = len;
    while low < high {
        let middle = low + (high - low) / 2;
        if before(middle) { low = middle + 1 } else { high = middle }
    }
    low
}

/// How clouds of several inputs become one row. There is a row at the stamp of each cloud. It holds the
/// newest cloud of every input at that stamp.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergeSpec {
    /// Per input: the greatest age of its cloud, at the stamp of a row and at a target \[ns\].
    pub max_age_ns: Vec<i64>,
    /// When a step is valid.
    pub valid_when: ValidWhen,
}

/// Which inputs must have a cloud in a row, for a step that uses it to be valid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ValidWhen {
    /// All of them.
    #[default]
    All,
    /// One of them.
    Any,
    /// At least these: bit `i` for input `i`. Some bit is set.
    Listed(u32),
}

impl MergeSpec {
    /// True if these inputs suffice: bit `i` for input `i`.
    pub fn suffices(&self, inputs: u32) -> bool {
        match self.valid_when {
            ValidWhen::All => inputs.count_ones() as usize == self.max_age_ns.len(),
            ValidWhen::Any => inputs != 0,
            ValidWhen::Listed(needed) => inputs & needed == needed,
        }
    }

    /// True if the merge may need an input: without it, others may not suffice.
    pub fn needs(&self, input: usize) -> bool {
        match self.valid_when {
            ValidWhen::All | ValidWhen::Any => true,
            ValidWhen::Listed(needed) => needed & 1u32.checked_shl(input as u32).unwrap_or(0) != 0,
        }
    }
}

#[cfg(test)]
mod tests;
