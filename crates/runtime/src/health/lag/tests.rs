use super::*;

const MS: i64 = NANOS_PER_MS;

#[test]
fn times_are_rounded_up_to_what_a_person_would_write() {
    for (nanos, expected) in [
        (-5 * MS, 0.0),
        (0, 0.0),
        (1, 0.5),
        (500_000, 0.5),
        (1_500_001, 2.0),
        (10 * MS, 10.0),
        (37_200_000, 38.0),
        (100 * MS, 100.0),
        (101 * MS, 110.0),
        (1001 * MS, 1100.0),
    ] {
        assert_eq!(round_up_ms(nanos), expected, "{nanos}");
    }
}

#[test]
fn the_lag_is_the_worst_delay_and_for_two_sided_strategies_one_distance_more() {
    let delay = |p999_ns| Quantiles { count: 9, p999_ns, ..Quantiles::default() };
    let delays = [delay(4 * MS), delay(7 * MS + 1), Quantiles::default()];
    let suggested = |strategy, distance| suggested_ms(strategy, delays, distance);
    assert_eq!(suggested(Strategy::Hold, None), Some(7.5));
    for strategy in [Strategy::Nearest, Strategy::Linear, Strategy::Slerp] {
        assert_eq!(suggested(strategy, Some(10 * MS)), Some(18.0));
        assert_eq!(suggested(strategy, None), None);
    }
    assert_eq!(suggested_ms(Strategy::Hold, [Quantiles::default()], None), None);
    assert_eq!(suggested_ms(Strategy::Hold, [delay(-2 * MS)], None), Some(0.0));
    assert_eq!(suggested_ms(Strategy::Hold, [delay(CLOCKS_APART_NS + 1)], None), None);
}
