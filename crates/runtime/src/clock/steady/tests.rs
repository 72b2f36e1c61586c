use super::super::Clock;
use super::*;

#[test]
fn a_steady_clock_is_at_its_stamp_at_its_instant() {
    let at = Instant::now() + Duration::from_secs(1);
    let clock = Clock::steady(Stamp::from_nanos(5_000_000_000), at);
    let now = clock.now().unwrap();
    let before = i64::try_from((at - now.since).as_nanos()).unwrap();
    assert_eq!(now.stamp, Stamp::from_nanos(5_000_000_000 - before));
    assert_eq!(clock.stalled_for(), None);
}
