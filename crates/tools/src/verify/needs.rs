//! Which lag would have done.
//!
//! A tick sees a message in the replay from its arrival on, and in the node from when its row was there. Both
//! sides are the same if no target between these instants needs the row. A target needs it from the row's stamp
//! on or, if values are made of two rows, from after the stamp of the row before it. So each row asks for a lag:
//! from that instant until it was there.
//!
//! A row that was too old for every tick when it arrived asks for none: a latched message with an old stamp would
//! make the lag absurd.

use std::collections::BTreeMap;

use super::report::SlowRow;

/// Most different bounds that are kept of rows that were too old.
const MOST_STEPS: usize = 1024;

/// Lags that the rows of a stream ask for.
pub(super) struct LagNeeds {
    /// The stream's lag \[ns\].
    lag_ns: i64,
    /// Of the rows that a tick could use.
    usable: Option<SlowRow>,
    rows: u64,
    /// Rows that no tick could use with the stream's lag: the largest need by the least lag with which a tick
    /// could have used the row. The needs increase.
    too_old: BTreeMap<i64, SlowRow>,
    too_old_rows: u64,
}

impl LagNeeds {
    pub(super) fn new(lag_ns: i64) -> Self {
        LagNeeds { lag_ns, usable: None, rows: 0, too_old: BTreeMap::new(), too_old_rows: 0 }
    }

    /// Adds a row, which a tick could use with a lag of at least `usable_from_ns`.
    pub(super) fn add(&mut self, usable_from_ns: i64, row: SlowRow) {
        self.rows += 1;
        if usable_from_ns > self.lag_ns {
            self.too_old_rows += 1;
            self.add_too_old(usable_from_ns, row);
        } else if self.usable.as_ref().is_none_or(|most| most.needs_ns < row.needs_ns) {
            self.usable = Some(row);
        }
    }

    fn add_too_old(&mut self, from_ns: i64, row: SlowRow) {
        let below = self.too_old.range(..=from_ns).next_back();
        if below.is_some_and(|(_, known)| known.needs_ns >= row.needs_ns) {
            return;
        }
        while let Some((&above, known)) = self.too_old.range(from_ns..).next() {
            if known.needs_ns > row.needs_ns {
                break;
            }
            self.too_old.remove(&above);
        }
        self.too_old.insert(from_ns, row);
        if self.too_old.len() > MOST_STEPS
            && let (Some((_, largest)), Some((from_ns, _))) =
                (self.too_old.pop_last(), self.too_old.pop_last())
        {
            // Less exact, and never too short.
            self.too_old.insert(from_ns, largest);
        }
    }

    /// The row that asks for the longest lag, and how many rows were too old for every tick and are left out.
    pub(super) fn most(&self) -> (Option<&SlowRow>, u64) {
        // If most rows are too old, the lag is to blame.
        let left_out = 2 * self.too_old_rows < self.rows;
        let mut most = self.usable.as_ref();
        for (from_ns, row) in &self.too_old {
            // With a longer lag, ticks could use more rows.
            let is_usable = most.is_some_and(|most| *from_ns <= most.needs_ns);
            if (is_usable || !left_out) && most.is_none_or(|most| most.needs_ns < row.needs_ns) {
                most = Some(row);
            }
        }
        (most, if left_out { self.too_old_rows } else { 0 })
    }
}

#[cfg(test)]
mod tests;
