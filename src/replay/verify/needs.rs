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

/// What the rows of a stream ask for.
pub(super) struct Needs {
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

impl Needs {
    pub fn new(lag_ns: i64) -> Self {
        Needs { lag_ns, usable: None, rows: 0, too_old: BTreeMap::new(), too_old_rows: 0 }
    }

    /// Adds a row, which a tick could use with a lag of at least `usable_from_ns`.
    pub fn add(&mut self, usable_from_ns: i64, row: SlowRow) {
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
    pub fn most(&self) -> (Option<&SlowRow>, u64) {
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
mod tests {
    use super::*;

    fn row(needs_ns: i64) -> SlowRow {
        SlowRow { input: String::new(), stamp_ns: 0, arrived_ns: 0, ready_ns: 0, needs_ns }
    }

    fn most(needs: &Needs) -> (Option<i64>, u64) {
        let (row, left_out) = needs.most();
        (row.map(|row| row.needs_ns), left_out)
    }

    #[test]
    fn an_old_row_asks_for_nothing_unless_the_lag_lets_ticks_use_it() {
        let mut needs = Needs::new(20);
        assert_eq!(most(&needs), (None, 0));
        for k in 0..10 {
            needs.add(-30, row(60 + k));
        }
        assert_eq!(most(&needs), (Some(69), 0));
        // A latched image: no tick could use it with less than 19,500.
        needs.add(19_500, row(20_070));
        assert_eq!(most(&needs), (Some(69), 1));
        // With 69 a tick could use this one, and with 85 the next.
        needs.add(65, row(85));
        assert_eq!(most(&needs), (Some(85), 2));
        needs.add(80, row(90));
        assert_eq!(most(&needs), (Some(90), 3));
    }

    #[test]
    fn if_most_rows_are_too_old_the_lag_is_to_blame() {
        let mut needs = Needs::new(20);
        needs.add(-10, row(15));
        (0..9).for_each(|k| needs.add(50, row(100 + k)));
        assert_eq!(most(&needs), (Some(108), 0));
    }

    #[test]
    fn few_bounds_are_kept_and_the_result_is_the_same() {
        let mut needs = Needs::new(0);
        (0..10_000).for_each(|_| needs.add(-1, row(5)));
        for k in 0..4000 {
            needs.add(10 + 20 * k, row(11 + 20 * k));
            needs.add(11 + 20 * k, row(3));
        }
        assert!(needs.too_old.len() <= MOST_STEPS, "{}", needs.too_old.len());
        assert_eq!(most(&needs), (Some(5), 8000));
        needs.add(0, row(10));
        assert_eq!(most(&needs).0, Some(11));
    }
}
