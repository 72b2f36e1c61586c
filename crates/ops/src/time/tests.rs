use super::*;

#[test]
fn an_epoch_is_that_of_its_number() {
    let jumped = Epoch::default().next(Some(Stamp::from_nanos(7)));
    assert_eq!(jumped, Epoch::numbered(1));
    assert_ne!(jumped, Epoch::default());
    assert_eq!(jumped.jumped_from(), Some(Stamp::from_nanos(7)));
}

#[test]
fn time_fields_round_trip_and_bad_nanoseconds_are_refused() {
    let stamp = Stamp::from_sec_nanosec(1_795_000_000, 999_999_999).unwrap();
    assert_eq!(stamp.nanos(), 1_795_000_000_999_999_999);
    assert_eq!(stamp.to_sec_nanosec(), (1_795_000_000, 999_999_999));
    assert_eq!(Stamp::from_sec_nanosec(1, 1_000_000_000), None);
    let before_epoch = Stamp::from_nanos(-1);
    assert_eq!(before_epoch.to_sec_nanosec(), (-1, 999_999_999));
    assert_eq!(before_epoch.to_string(), "-0.000000001");
}

#[test]
fn ticks_are_at_multiples_of_the_period() {
    let grid = TickGrid::from_rate_hz(30.0).unwrap();
    assert_eq!(grid.period_ns(), 33_333_333);
    let now = Stamp::from_nanos(1_795_000_000_123_456_789);
    let k = grid.tick_at(now);
    assert!(grid.stamp_of(k) <= now && now < grid.stamp_of(k + 1));
    assert_eq!(grid.tick_at(grid.stamp_of(k)), k);
    assert_eq!(grid.tick_at(Stamp::from_nanos(-1)), -1);
}

#[test]
fn an_epoch_is_before_the_next_and_knows_where_the_clock_jumped_from() {
    let first = Epoch::default();
    let second = first.next(Some(Stamp::from_nanos(7)));
    assert!(first.is_before(second) && !second.is_before(first) && !first.is_before(first));
    assert_eq!((first.jumped_from(), first.number()), (None, 0));
    assert_eq!((second.jumped_from(), second.number()), (Some(Stamp::from_nanos(7)), 1));
}

#[test]
fn unusable_rates_have_no_grid() {
    for rate in [0.0, -1.0, f64::NAN, f64::INFINITY, 3e9, 1e-12] {
        assert_eq!(TickGrid::from_rate_hz(rate), None, "{rate}");
    }
}
