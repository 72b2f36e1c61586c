use super::*;
use robocache_ops::time::NANOS_PER_MS;

#[test]
fn the_log_goes_on_when_an_epoch_begins_and_only_then() {
    let at = |ms: i64| Stamp::from_nanos(ms * NANOS_PER_MS);
    for step in [10, 50, 150, 500, 1500] {
        let mut time = LogTime::default();
        let mut of = |epoch, ms: i64| time.of(Some(Epoch::numbered(epoch)), at(ms));
        assert_eq!(of(0, 9000), at(9000));
        // Late by two seconds: the log does not go ahead for the rest of the run.
        assert_eq!(of(0, 7000), at(9000));
        assert_eq!(of(0, 9001), at(9001));
        assert_eq!(of(1, 9001 - step), at(9001), "{step}");
        assert_eq!(of(0, 9002), at(9001), "{step}");
        assert_eq!(of(1, 9004 - step), at(9004), "{step}");
    }
}

#[test]
fn under_a_simulators_clock_epochs_are_no_steps_of_the_log() {
    let at = |ms: i64| Stamp::from_nanos(ms * NANOS_PER_MS);
    let mut time = LogTime::new(true);
    let mut of = |epoch, ms: i64| time.of(Some(Epoch::numbered(epoch)), at(ms));
    assert_eq!([of(0, 9000), of(1, 9001), of(0, 9002)], [at(9000), at(9001), at(9002)]);
    assert_eq!([of(1, 5000), of(1, 5001)], [at(9002), at(9003)]);
}
