use super::*;

#[test]
fn a_recorded_clock_has_the_epochs_that_it_is_told() {
    let clock = RecordedClock::new(TickGrid::new(10).unwrap(), TimeSource::real());
    let set = |epoch, nanos| {
        clock.set_in(Epoch::numbered(epoch), Stamp::from_nanos(nanos));
        let now = clock.now().unwrap();
        (now.epoch.number(), now.stamp.nanos())
    };
    assert_eq!([set(0, 100), set(0, 50), set(0, 120)], [(0, 100), (0, 100), (0, 120)]);
    // Two epochs later, and ahead of the one before.
    assert_eq!([set(2, 130), set(3, 40), set(2, 200)], [(2, 130), (3, 40), (3, 40)]);
}
