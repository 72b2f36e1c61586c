use super::*;

#[test]
fn what_was_missed_is_told_by_its_cause() {
    let mut ticks = Ticks::default();
    let mut note = |tick: i64, missed: u64, began: u64, ended: u64, after: After| {
        let due = (tick as u64 - missed) * PERIOD_NS;
        ticks.note(Overrun { tick, due, began, ended, missed, after });
    };
    note(1, 0, 1_000_100, 1_000_300, After::Sleep); // as it should be
    note(4, 2, 4_100_000, 4_200_000, After::Sleep); // woke late by two periods
    note(5, 0, 5_000_000, 7_500_000, After::Sleep); // took too long, so that
    note(7, 1, 7_500_000, 7_900_000, After::Tick); // one is missed
    note(10, 2, 10_100_000, 10_200_000, After::Copy); // the copy of 7 took long
    assert_eq!((ticks.missed, ticks.missed_awake, ticks.missed_copying), (5, 1, 2));
    let kept: Vec<_> = ticks.overruns.iter().map(|overrun| overrun.tick).collect();
    assert_eq!((kept, ticks.overrun_count), (vec![4, 5, 7, 10], 4));
    assert_eq!(ticks.late, [100, 2_100_000, 0]);
    assert_eq!(ticks.took, [200, 100_000, 2_500_000, 400_000, 100_000]);
}
