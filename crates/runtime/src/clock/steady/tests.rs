use super::super::Clock;
use super::*;
use crate::VirtualTime;

#[test]
fn a_steady_clock_is_at_its_stamp_at_its_instant() {
    let time = VirtualTime::starting_at(Stamp::ZERO);
    let second = Duration::from_secs(1);
    let at = time.source().monotonic() + second;
    let clock = Clock::steady(Stamp::from_nanos(5_000_000_000), at, time.source());
    for nanos in [4_000_000_000, 5_000_000_000, 6_000_000_000] {
        assert_eq!(clock.now().unwrap().stamp, Stamp::from_nanos(nanos));
        time.advance(second);
    }
    assert_eq!(clock.stalled_for(), None);
}
