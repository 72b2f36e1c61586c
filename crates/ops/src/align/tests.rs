use super::*;

const MS: i64 = 1_000_000;

fn ms(ms: i64) -> Stamp {
    Stamp::from_nanos(ms * MS)
}

/// Why the target is invalid, at a tick 20 ms after it, in a ring with these rows.
fn why(
    strategy: Strategy,
    rows: &[i64],
    target: i64,
    change: impl FnOnce(&mut Seen),
) -> Option<InvalidReason> {
    let max_age_ns = 50 * MS;
    let max_gap_ns = 100 * MS;
    let rule = AlignRule { strategy, max_age_ns, max_gap_ns, fill: Fill::Zero };
    let future = ms(target + 30);
    let mut seen = Seen { future, lag_ns: 20 * MS, evicted: None, delay_ns: Some(5 * MS) };
    change(&mut seen);
    invalid_reason(rule, rows.len(), |i| ms(rows[i]), ms(target), seen)
}

#[test]
fn every_reason_has_its_place_and_its_name() {
    let mut names: Vec<_> = InvalidReason::ALL.iter().map(|reason| reason.name()).collect();
    for (index, reason) in InvalidReason::ALL.into_iter().enumerate() {
        assert_eq!(reason as usize, index);
    }
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), InvalidReason::ALL.len());
}

#[test]
fn a_valid_step_has_no_reason_and_an_empty_ring_no_row() {
    assert_eq!(why(Strategy::Hold, &[1000], 1040, |_| ()), None);
    assert_eq!(why(Strategy::Linear, &[1000, 1090], 1040, |_| ()), None);
    assert_eq!(why(Strategy::Hold, &[], 1040, |_| ()), Some(InvalidReason::NoRow));
}

#[test]
fn a_history_that_is_not_filled_is_not_a_short_ring() {
    for strategy in [Strategy::Hold, Strategy::Nearest, Strategy::Linear] {
        let why = |evicted: Option<i64>| {
            why(strategy, &[1000, 1010], 900, |seen| {
                (seen.future, seen.evicted) = (ms(1020), evicted.map(ms));
            })
        };
        assert_eq!(why(None), Some(InvalidReason::NotFilled));
        assert_eq!(why(Some(990)), Some(InvalidReason::RingShort));
        // One row more would give the value.
        let last = if strategy.interpolates() { 900 } else { 850 };
        assert_eq!(why(Some(last)), Some(InvalidReason::RingShort));
        // The row that left is of the time before a pause: it would not give a value.
        assert_eq!(why(Some(last - 1)), Some(InvalidReason::NotFilled));
    }
}

#[test]
fn rows_of_the_future_are_told_from_a_short_ring() {
    let why = |oldest: i64| {
        why(Strategy::Hold, &[oldest, 2000], 1000, |seen| seen.evicted = Some(ms(1010)))
    };
    assert_eq!(why(1031), Some(InvalidReason::Ahead));
    assert_eq!(why(1030), Some(InvalidReason::RingShort));
}

#[test]
fn an_old_row_came_late_or_was_the_last_or_has_another_clock() {
    let why = |delay_ns| why(Strategy::Linear, &[900], 1000, |seen| seen.delay_ns = delay_ns);
    assert_eq!(why(None), Some(InvalidReason::TooOld));
    assert_eq!(why(Some(70 * MS)), Some(InvalidReason::TooOld));
    assert_eq!(why(Some(70 * MS + 1)), Some(InvalidReason::Delayed));
    assert_eq!(why(Some(CLOCKS_APART_NS + 1)), Some(InvalidReason::ClockBehind));
}

#[test]
fn rows_on_both_sides_that_are_too_far_apart_are_a_gap() {
    assert_eq!(why(Strategy::Linear, &[1000, 1101], 1050, |_| ()), Some(InvalidReason::Gap));
    assert_eq!(why(Strategy::Hold, &[1000, 1101], 1060, |_| ()), Some(InvalidReason::Gap));
    assert_eq!(why(Strategy::Nearest, &[1000, 1120], 1060, |_| ()), Some(InvalidReason::Gap));
}
