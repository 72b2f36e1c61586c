use super::*;
use crate::VirtualTime;

const MS: i64 = 1_000_000;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[test]
fn a_simulators_time_is_the_sum_of_its_steps_without_jumps() {
    let time = NodeTime::new(true, TimeSource::real());
    let first = Epoch::default();
    let second = first.next(None);
    let set = |epoch, at: i64| {
        time.set(epoch, Stamp::from_nanos(at * MS));
        time.now()
    };
    assert_eq!(time.now(), Duration::ZERO);
    assert_eq!([set(first, 50_000), set(first, 50_010)], [ms(0), ms(10)]);
    assert_eq!(set(first, 50_010), ms(10), "a paused simulation has no time");
    assert_eq!([set(second, 3), set(second, 13)], [ms(10), ms(20)], "a jump adds nothing");
    assert_eq!(set(second, 12), ms(20), "a small step back adds nothing");
    assert_eq!(set(second, 900_000), ms(1020), "somebody sought in a recording");
}

#[test]
fn other_clocks_have_the_monotonic_time() {
    let machine = VirtualTime::starting_at(Stamp::ZERO);
    let time = NodeTime::new(false, machine.source());
    time.set(Epoch::default(), Stamp::from_nanos(0));
    time.set(Epoch::default(), Stamp::from_nanos(900 * 1000 * MS));
    assert_eq!(time.now(), ms(0));
    machine.advance(ms(2));
    machine.set_system(Stamp::from_nanos(900 * 1000 * MS));
    assert_eq!(time.now(), ms(2));
}

#[test]
fn a_rate_is_of_the_nodes_time_and_a_short_window_waits() {
    let mut meter = RateMeter::default();
    let rate = |hz, measured, fresh| Rate { hz, measured, fresh };
    assert_eq!(meter.read(ms(0), 3), rate(0.0, false, false));
    assert_eq!(meter.read(ms(100), 3), rate(30.0, false, false));
    // Half a second of a simulation at half speed: 15 images at 30 Hz.
    assert_eq!(meter.read(ms(500), 15), rate(30.0, true, true));
    assert_eq!(meter.read(ms(500), 15), rate(30.0, true, false), "paused");
    assert_eq!(meter.read(ms(900), 17), rate(30.0, true, false));
    assert_eq!(meter.read(ms(1500), 25), rate(10.0, true, true));
}
