use super::*;

#[test]
fn gaps_steps_back_and_repeats_are_counted_and_are_no_intervals() {
    let mut series = Series::default();
    let ms = |ms: i64| Stamp::from_nanos(ms * 1_000_000);
    for at in [0, 10, 20, 30, 30, 25, 35, 45, 145, 155, 165, 1165, 1175] {
        series.take(ms(at));
    }
    let found = series.finish();
    assert_eq!((found.backwards, found.repeated, found.gaps), (1, 1, 2));
    assert_eq!(found.furthest_back_ns, 5_000_000);
    let longest: Vec<_> = found.longest.iter().map(|gap| gap.length_ns / 1_000_000).collect();
    assert_eq!(longest, [1000, 100]);
    assert_eq!(found.longest[0].start_ns, 165_000_000);
    assert!((found.rate_hz.unwrap() - 100.0).abs() < 0.1);
    assert_eq!(found.intervals.unwrap().count, 10);
}

#[test]
fn of_a_single_message_nothing_is_known() {
    let mut series = Series::default();
    series.take(Stamp::ZERO);
    assert_eq!(series.finish(), Intervals::default());
}
