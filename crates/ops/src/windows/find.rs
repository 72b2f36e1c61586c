//! Finds the rows around a target that an instant sees.

use std::ops::Range;

use super::{Rows, Visibility};
use crate::align::MergeSpec;
use crate::align::{AlignRule, Alignment, Position, Value, align, align_invalid};
use crate::time::Stamp;

/// A value of `until_next` in a row of a plan, as in docs/stores.md.
const HELD: u8 = 1;
const NOTHING: u8 = 2;
/// The value of `until_ns` if the row has no cloud of the input.
const NO_CLOUD: i64 = i64::MIN;

/// The rows of one ring, of all episodes. All columns have an entry per row.
#[derive(Clone, Copy, Debug)]
pub struct RingRows<'a> {
    /// The rows.
    pub rows: Rows<'a>,
    /// Their instants \[ns\]. They do not decrease in a span.
    pub stamp_ns: &'a [i64],
    /// From when on ticks saw the row \[ns\].
    pub received_ns: &'a [i64],
    /// Until when ticks saw the row \[ns\].
    pub left_ns: &'a [i64],
    /// Flag per row: not 0 if a later message replaced the row.
    pub replaced: &'a [u8],
    /// In the span: the least `received_ns` of the row and of those after it.
    pub received_from: &'a [i64],
    /// In the span: the greatest `left_ns` of the row and of those before it.
    pub left_until: &'a [i64],
    /// Of plans: what is between the row and the next. Empty for others.
    pub until_next: &'a [u8],
    /// Of merged clouds, `[rows, inputs]`: until when the cloud of each input may be used \[ns\].
    pub until_ns: &'a [i64],
    /// Of sparse rows: voxels in use.
    pub count: &'a [u32],
    /// Of sparse rows: where these voxels are.
    pub coordinates: &'a [u8],
    /// The rows of each span.
    pub spans: &'a [SpanRows],
}

impl RingRows<'_> {
    /// True if a target is before the first row of a span or after its last one. No row of a span: nothing is beyond it.
    pub(super) fn is_beyond(&self, span: usize, target: i64) -> bool {
        let stamps = &self.stamp_ns[self.spans[span].range()];
        let first = stamps.first();
        let last = stamps.last();
        first.is_some_and(|first| target < *first) || last.is_some_and(|last| target > *last)
    }
}

/// The rows of an epoch of an episode: the first, and the one after the last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
pub struct SpanRows {
    /// The first row.
    pub begin: u64,
    /// The one after the last.
    pub end: u64,
}

impl SpanRows {
    /// As positions.
    pub fn range(self) -> Range<usize> {
        self.begin as usize..self.end as usize
    }
}

/// `received_from` and `left_until` of the rows of these spans.
pub fn bounds_of_times(
    received_ns: &[i64],
    left_ns: &[i64],
    spans: &[SpanRows],
) -> (Vec<i64>, Vec<i64>) {
    let mut from = received_ns.to_vec();
    let mut until = left_ns.to_vec();
    for span in spans {
        let range = span.range();
        let mut least = i64::MAX;
        for value in from[range.clone()].iter_mut().rev() {
            least = least.min(*value);
            *value = least;
        }
        let mut greatest = i64::MIN;
        for value in &mut until[range] {
            greatest = greatest.max(*value);
            *value = greatest;
        }
    }
    (from, until)
}

/// Looks for rows around targets, for one item. The next target is likely close to the one before.
pub(super) struct Search<'a> {
    rows: &'a RingRows<'a>,
    range: Range<usize>,
    instant: i64,
    view: Visibility,
    /// The first row after the target before.
    at: usize,
}

/// The rows around a target: the newest at or before it, and the oldest after it.
#[derive(Clone, Copy)]
struct Around {
    held: Option<usize>,
    next: Option<usize>,
}

impl<'a> Search<'a> {
    /// A search among the rows of a span. `first` is a target to begin with.
    pub(super) fn new(
        rows: &'a RingRows<'a>,
        span: SpanRows,
        view: Visibility,
        instant: i64,
        first: i64,
    ) -> Self {
        let range = span.range();
        let at = guess(&rows.stamp_ns[range.clone()], first) + range.start;
        Search { rows, range, instant, view, at }
    }

    /// The rows that give the value at a target. See [`align`].
    pub(super) fn align(
        &mut self,
        rule: AlignRule,
        merge: Option<&MergeSpec>,
        target: i64,
    ) -> Alignment<usize> {
        let around = self.around(target);
        let found = self.alone(around, target, |len, stamp_at, target, nothing| match nothing {
            false => align(rule, len, stamp_at, target),
            true => align_invalid(rule, len, stamp_at, target),
        });
        match (merge, found.value) {
            (Some(merge), Value::Row(row)) if found.valid && !self.suffices(merge, row, target) => {
                self.fill(around, rule, target)
            }
            _ => found,
        }
    }

    /// The fill of a step that is invalid for another reason. See [`align_invalid`].
    pub(super) fn align_invalid(&mut self, rule: AlignRule, target: i64) -> Alignment<usize> {
        let around = self.around(target);
        self.fill(around, rule, target)
    }

    fn fill(&self, around: Around, rule: AlignRule, target: i64) -> Alignment<usize> {
        self.alone(around, target, |len, stamp_at, target, _| {
            align_invalid(rule, len, stamp_at, target)
        })
    }

    /// Aligns as if there were only the rows around the target: others have no part in its value.
    fn alone(
        &self,
        Around { held, next }: Around,
        target: i64,
        align: impl Fn(usize, &dyn Fn(usize) -> Stamp, Stamp, bool) -> Alignment<Position>,
    ) -> Alignment<usize> {
        let stamps = self.rows.stamp_ns;
        let until = match held {
            Some(held) if stamps[held] < target => self.rows.until_next.get(held).copied(),
            _ => None,
        };
        let next = next.filter(|_| !matches!(until, Some(HELD | NOTHING)));
        let (rows, len) = match (held, next) {
            (None, None) => ([0, 0], 0),
            (Some(one), None) | (None, Some(one)) => ([one, one], 1),
            (Some(held), Some(next)) => ([held, next], 2),
        };
        let stamp_at = |at: usize| Stamp::from_nanos(stamps[rows[at]]);
        let nothing = until == Some(NOTHING);
        align(len, &stamp_at, Stamp::from_nanos(target), nothing).map(|at| rows[at.index()])
    }

    /// True if a merged row can be used at a target. A cloud that is too old cannot be taken out of it.
    fn suffices(&self, merge: &MergeSpec, row: usize, target: i64) -> bool {
        let inputs = merge.max_age_ns.len();
        let until = &self.rows.until_ns[row * inputs..][..inputs];
        let has = until.iter().enumerate().filter(|(_, until)| **until != NO_CLOUD);
        let bit = |at: usize| 1u32.checked_shl(at as u32).unwrap_or(0);
        has.clone().all(|(_, until)| *until >= target)
            && merge.suffices(has.fold(0, |bits, (at, _)| bits | bit(at)))
    }

    fn around(&mut self, target: i64) -> Around {
        let after = self.first_after(target);
        let begin = self.range.start;
        let end = self.range.end;
        let rows = self.rows;
        let all = match self.view {
            Visibility::All => true,
            Visibility::Strict => false,
            Visibility::Served => target > self.instant,
        };
        if all {
            let stays = |row: &usize| rows.replaced[*row] == 0;
            let held = (begin..after).rev().find(stays);
            return Around { held, next: (after..end).find(stays) };
        }
        let instant = self.instant;
        let sees = |row: usize| rows.received_ns[row] <= instant && instant < rows.left_ns[row];
        // Behind these bounds no row is seen.
        let held = (begin..after).rev().take_while(|row| rows.left_until[*row] > instant);
        let next = (after..end).take_while(|row| rows.received_from[*row] <= instant);
        let mut held = held;
        let mut next = next;
        Around { held: held.find(|row| sees(*row)), next: next.find(|row| sees(*row)) }
    }

    /// The first row after the target, seen or not. It gallops from where the target before was.
    fn first_after(&mut self, target: i64) -> usize {
        let stamps = &self.rows.stamp_ns[self.range.clone()];
        let at = self.at - self.range.start;
        let mut low = 0;
        let mut high = stamps.len();
        let mut step = 1;
        if at < high && stamps[at] <= target {
            low = at + 1;
            while low + step < high && stamps[low + step] <= target {
                low += step + 1;
                step *= 2;
            }
            high = high.min(low + step);
        } else {
            high = at;
            while high > step && stamps[high - step] > target {
                high -= step;
                step *= 2;
            }
            low = if high > step { high - step } else { low };
        }
        let found = low + stamps[low..high].partition_point(|stamp| *stamp <= target);
        self.at = found + self.range.start;
        found + self.range.start
    }
}

/// About where a target is among stamps, as if they were evenly apart.
fn guess(stamps: &[i64], target: i64) -> usize {
    let (Some(first), Some(last)) = (stamps.first(), stamps.last()) else { return 0 };
    let into = target.saturating_sub(*first);
    let whole = last.saturating_sub(*first);
    let share = (into as f64 / whole.max(1) as f64).clamp(0.0, 1.0);
    ((share * stamps.len() as f64) as usize).min(stamps.len())
}
