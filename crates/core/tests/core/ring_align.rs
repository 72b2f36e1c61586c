//! The ring and the alignment rule, compared with a plain reference: a sorted list that is searched
//! from end to end, in `i128` arithmetic. The schedules are random, with jitter, duplicates,
//! reordering and gaps, at the clock's zero, long after it and before it.

use proptest::prelude::*;
use robocache_core::ring::{Inserted, Ring};
use robocache_ops::align::{AlignRule, Alignment, NO_AGE, Position, Value, align};
use robocache_ops::align::{Fill, Strategy as Method};
use robocache_ops::time::{Epoch, Stamp};

/// The rows that the rules say a stream holds: `(stamp, message number)`, sorted.
#[derive(Default)]
struct Reference {
    rows: Vec<(i128, usize)>,
}

impl Reference {
    fn insert(&mut self, capacity: usize, stamp: i128, message: usize) -> Inserted {
        if let Some(row) = self.rows.iter_mut().find(|row| row.0 == stamp) {
            row.1 = message;
            return Inserted::Replaced;
        }
        let newest = self.rows.iter().all(|row| row.0 < stamp);
        self.rows.push((stamp, message));
        self.rows.sort_unstable();
        if self.rows.len() > capacity {
            let (evicted, _) = self.rows.remove(0);
            if evicted == stamp {
                return Inserted::Late;
            }
        }
        if newest { Inserted::Newest } else { Inserted::Reordered }
    }

    /// The rules of time, one by one. Rows are named by message number.
    fn align(&self, rule: AlignRule, target: i128) -> Alignment<usize> {
        let held = self.rows.iter().copied().rfind(|row| row.0 <= target);
        let after = self.rows.iter().copied().find(|row| row.0 > target);
        let max_age = i128::from(rule.max_age_ns);
        let max_gap = i128::from(rule.max_gap_ns);
        let Some(held) = held else {
            let (value, age_ns) = match after.filter(|_| rule.fill == Fill::First) {
                Some(first) => (Value::Row(first.1), (target - first.0) as i64),
                None => (Value::Nothing, NO_AGE),
            };
            return Alignment { value, valid: false, age_ns };
        };
        let (value, valid, newest_used) = match (rule.strategy, after) {
            (Method::Linear | Method::Slerp, Some(after)) if held.0 != target => {
                let gap = after.0 - held.0;
                let weight = ((target - held.0) as f64 / gap as f64) as f32;
                let between = Value::Between { a: held.1, b: after.1, weight };
                (between, gap <= max_gap, after.0)
            }
            (Method::Nearest, Some(after)) if after.0 - target < target - held.0 => {
                (Value::Row(after.1), after.0 - target <= max_age, after.0)
            }
            _ => (Value::Row(held.1), target - held.0 <= max_age, held.0),
        };
        let (value, newest_used) = match (valid, rule.fill) {
            (true, _) => (value, newest_used),
            (false, Fill::Zero) => (Value::Nothing, newest_used),
            (false, Fill::Last | Fill::First) => (Value::Row(held.1), held.0),
        };
        Alignment { value, valid, age_ns: (target - newest_used) as i64 }
    }
}

/// Stamps around a base, with gaps, and with some neighbours swapped. The grid is coarse, so that
/// duplicates and exact hits are common.
fn schedule() -> impl Strategy<Value = Vec<i64>> {
    let base = prop_oneof![
        Just(0i64),
        Just(1_795_000_000_000_000_000),
        Just(-5_000_000_000),
        Just(i64::MAX / 2),
    ];
    let steps = proptest::collection::vec((0i64..4, 0i64..3, any::<bool>(), 0u8..20), 1..60);
    (base, steps).prop_map(|(base, steps)| {
        let mut now = 0;
        let mut stamps = Vec::new();
        for (advance, jitter, swap, gap) in steps {
            now += advance * 1_000_000 + jitter + if gap == 0 { 50_000_000 } else { 0 };
            stamps.push(base + now);
            let n = stamps.len();
            if swap && n > 1 {
                stamps.swap(n - 1, n - 2);
            }
        }
        stamps
    })
}

fn rule() -> impl Strategy<Value = AlignRule> {
    let method = prop_oneof![
        Just(Method::Hold),
        Just(Method::Nearest),
        Just(Method::Linear),
        Just(Method::Slerp)
    ];
    // Half of the limits are whole milliseconds, as the distances of the stamps often are.
    let limit = || prop_oneof![1i64..60_000_000, (1i64..60).prop_map(|ms| ms * 1_000_000)];
    let fill = prop_oneof![Just(Fill::Zero), Just(Fill::Last), Just(Fill::First)];
    (method, limit(), limit(), fill).prop_map(|(strategy, max_age_ns, max_gap_ns, fill)| {
        AlignRule { strategy, max_age_ns, max_gap_ns, fill }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, ..ProptestConfig::default() })]

    #[test]
    fn ring_and_align_agree_with_the_reference(
        stamps in schedule(),
        rule in rule(),
        capacity in 1usize..24,
        targets in proptest::collection::vec((0usize..60, -3_000_000i64..3_000_000), 1..20),
    ) {
        let mut ring = Ring::new(capacity);
        let mut reference = Reference::default();
        // What each slot holds: the number of the message that was encoded into it.
        let mut slots = vec![usize::MAX; capacity + 1];
        for (message, stamp) in stamps.iter().enumerate() {
            let lease = ring.lease().expect("one slot is always spare");
            slots[lease.slot().index()] = message;
            let input = message as u8;
            let inserted = ring.insert(Stamp::from_nanos(*stamp), input, lease);
            prop_assert_eq!(inserted, reference.insert(capacity, i128::from(*stamp), message));
            prop_assert_eq!(ring.len(), reference.rows.len());
        }
        for (near, offset) in targets {
            let a = stamps[near % stamps.len()];
            let b = stamps[(near + 1) % stamps.len()];
            let target = match near % 3 {
                0 => a,               // a hit
                1 => a + (b - a) / 2, // often a tie
                _ => a.saturating_add(offset),
            };
            for entry in ring.entries() {
                let message = slots[entry.slot.index()];
                prop_assert_eq!(usize::from(entry.input), message, "a row's own input");
            }
            let stamp_at = |i| ring.entry(Position::new(i)).stamp;
            let got = align(rule, ring.len(), stamp_at, Stamp::from_nanos(target))
                .map(|at| slots[ring.entry(at).slot.index()]);
            prop_assert_eq!(got, reference.align(rule, i128::from(target)));
        }
    }

    #[test]
    fn every_slot_stays_accounted_for(stamps in schedule(), capacity in 1usize..8) {
        let mut ring = Ring::new(capacity);
        let mut epoch = Epoch::default();
        for (n, stamp) in stamps.iter().enumerate() {
            let lease = ring.lease().expect("one slot is always spare");
            prop_assert!(ring.entries().all(|row| row.slot != lease.slot()));
            match n % 7 {
                3 => ring.give_back(lease),
                5 => {
                    epoch = epoch.next(None);
                    ring.begin(epoch);
                    // A row that was being encoded while the ring was cleared does not enter it.
                    let inserted = ring.insert(Stamp::from_nanos(*stamp), 0, lease);
                    prop_assert_eq!(inserted, Inserted::Cleared);
                    prop_assert!(ring.is_empty());
                }
                _ => { ring.insert(Stamp::from_nanos(*stamp), 0, lease); }
            }
        }
    }
}

#[test]
fn a_hit_is_the_row_itself_and_needs_no_bracket() {
    let stamps = [10, 20, 30].map(Stamp::from_nanos);
    let rule =
        AlignRule { strategy: Method::Linear, max_age_ns: 5, max_gap_ns: 1, fill: Fill::Zero };
    let at = |target| align(rule, 3, |i| stamps[i], Stamp::from_nanos(target));
    assert_eq!(at(20), Alignment { value: Value::Row(Position::new(1)), valid: true, age_ns: 0 });
    // The bracket of 25 is wider than max_gap.
    assert_eq!(at(25), Alignment { value: Value::Nothing, valid: false, age_ns: -5 });
    // After the newest row it is held for max_age and no longer.
    assert_eq!(at(35), Alignment { value: Value::Row(Position::new(2)), valid: true, age_ns: 5 });
    assert_eq!(at(36), Alignment { value: Value::Nothing, valid: false, age_ns: 6 });
    // Before the oldest there is nothing.
    assert_eq!(at(9), Alignment { value: Value::Nothing, valid: false, age_ns: NO_AGE });
}

#[test]
fn nearest_takes_the_earlier_row_on_a_tie() {
    let stamps = [10, 20].map(Stamp::from_nanos);
    let rule =
        AlignRule { strategy: Method::Nearest, max_age_ns: 5, max_gap_ns: 0, fill: Fill::Zero };
    let at = |target| align(rule, 2, |i| stamps[i], Stamp::from_nanos(target));
    assert_eq!(at(15), Alignment { value: Value::Row(Position::new(0)), valid: true, age_ns: 5 });
    assert_eq!(at(16), Alignment { value: Value::Row(Position::new(1)), valid: true, age_ns: -4 });
}

#[test]
fn the_row_before_another_is_found_even_after_it_has_left() {
    let mut ring = Ring::new(2);
    let at = Stamp::from_nanos;
    assert_eq!(ring.before(at(10)), None);
    let mut insert = |stamp| {
        let lease = ring.lease().unwrap();
        ring.insert(at(stamp), 0, lease);
        [10, 20, 30].map(|stamp| ring.before(at(stamp)).map(Stamp::nanos))
    };
    assert_eq!(insert(10), [None; 3]);
    assert_eq!(insert(30), [None, None, Some(10)]);
    // The first row leaves.
    assert_eq!(insert(20), [None, Some(10), Some(20)]);
}
