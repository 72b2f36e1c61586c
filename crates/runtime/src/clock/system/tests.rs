//! Tests of the system's clock.

use std::sync::atomic::AtomicBool;

use super::*;
use crate::VirtualTime;
use crate::clock::{IN_FLIGHT, MAX_AHEAD_AFTER_JUMP_NS, TOLERANCE_NS};
use robocache_ops::time::{NANOS_PER_MS, NANOS_PER_S};

fn at(nanos: i64) -> Stamp {
    Stamp::from_nanos(nanos)
}

/// Ten of these are a jump.
const UNIT: i64 = TOLERANCE_NS / 10;

/// A clock with ticks of this period, whose first reading was `first`.
fn clock(period_ns: i64, first: i64) -> SystemClock {
    let time = VirtualTime::starting_at(at(first)).source();
    SystemClock::new(TickGrid::new(period_ns).unwrap(), time)
}

#[test]
fn the_systems_clock_begins_an_epoch_if_it_steps_back_by_more_than_services_correct_it() {
    // Whatever the rate of the ticks is: at 1 kHz, a step of a millisecond clears nothing.
    for period_ns in [NANOS_PER_MS / 2, NANOS_PER_MS, 10 * NANOS_PER_MS, 10 * NANOS_PER_S] {
        let clock = clock(period_ns, 12 * UNIT);
        let look = |units: i64| clock.read(|| at(units * UNIT)).0.epoch;
        let first = Epoch::default();
        assert_eq!([look(12), look(25), look(24), look(19), look(16)], [first; 5]);
        let second = first.next(Some(at(25 * UNIT)));
        assert_eq!([look(15), look(20)], [second; 2]);
        assert_eq!(look(20).jumped_from(), Some(at(25 * UNIT)));
        assert_eq!(look(3), second.next(Some(at(20 * UNIT))));
    }
}

#[test]
fn every_epoch_has_a_span_of_its_own() {
    let clock = clock(10, 10_000 * UNIT);
    for jump in 1..=1000_i64 {
        let (now, began) = clock.read(|| at((10_000 - 10 * jump) * UNIT));
        assert_eq!((now.epoch.number(), began), (jump as u64, now.stamp));
        assert_eq!(now.epoch.jumped_from(), Some(at((10_000 - 10 * (jump - 1)) * UNIT)));
    }
}

#[test]
fn a_thread_that_was_interrupted_sees_no_jump_and_brings_no_old_instant_back() {
    let clock = clock(10, 100 * UNIT);
    // Between its load of the newest instant and its reading, another thread gets ahead of it.
    let interrupted = |other: i64, own: i64| {
        let read = || {
            clock.read(|| at(other * UNIT));
            at(own * UNIT)
        };
        clock.read(read).0
    };
    let now = interrupted(300, 150);
    assert_eq!((now.stamp, now.epoch.number()), (at(150 * UNIT), 0));
    // Another thread notices a jump; this one has read the clock before it.
    let now = interrupted(120, 500);
    assert_eq!((now.stamp, now.epoch.number()), (at(500 * UNIT), 0), "a reading of the old epoch");
    let now = clock.read(|| at(121 * UNIT)).0;
    assert_eq!((now.stamp, now.epoch.number()), (at(121 * UNIT), 1), "the new epoch goes on");
}

#[test]
fn nobody_waits_for_the_thread_that_begins_an_epoch() {
    let clock = clock(10, 100 * UNIT);
    clock.read(|| at(200 * UNIT));
    let held = clock.log.lock().unwrap();
    let now = clock.read(|| at(50 * UNIT)).0;
    assert_eq!((now.stamp, now.epoch.number()), (at(200 * UNIT), 0), "the clock stands still");
    drop(held);
    let now = clock.read(|| at(51 * UNIT)).0;
    assert_eq!((now.stamp, now.epoch.number()), (at(51 * UNIT), 1));
}

/// Ends the readers, also if the test fails.
struct EndsOnDrop<'a>(&'a AtomicBool);

impl Drop for EndsOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Threads read a clock that steps back now and then. Each step begins one epoch, and no reading is of
/// another epoch than its instant.
#[test]
fn many_threads_agree_on_the_epochs_of_a_clock_that_steps_back() {
    const JUMPS: i64 = 2000;
    /// The clock is set back by this, and advances by 1 with each reading.
    const BACK: i64 = 1 << 40;
    let time = AtomicI64::new(JUMPS * BACK);
    let done = AtomicBool::new(false);
    let clock = clock(10, JUMPS * BACK);
    let read = || {
        let nanos = time.fetch_add(1, Ordering::SeqCst);
        // As if the thread were interrupted between its reading and what it does with it.
        if nanos % 5 == 0 {
            std::thread::yield_now();
        }
        at(nanos)
    };
    let look = || {
        let now = clock.read(read).0;
        let steps = JUMPS - now.stamp.nanos().div_euclid(BACK);
        assert_eq!(now.epoch.number() as i64, steps, "{}", now.stamp);
        steps
    };
    std::thread::scope(|scope| {
        let reader = || {
            let mut steps = 0;
            while !done.load(Ordering::Relaxed) {
                let before = std::mem::replace(&mut steps, look());
                assert!(before <= steps, "epochs go on");
            }
        };
        for _ in 0..4 {
            scope.spawn(reader);
        }
        let _ends = EndsOnDrop(&done);
        for jump in 1..=JUMPS {
            time.fetch_sub(BACK, Ordering::SeqCst);
            // The step is noticed before the next one.
            while look() < jump {
                std::thread::yield_now();
            }
        }
    });
    assert_eq!(look(), JUMPS, "one epoch for each step");
}

/// Received at this instant.
fn received(nanos: i64) -> Transit {
    Transit { published_ns: None, arrived_ns: Some(nanos) }
}

#[test]
fn a_sane_receive_stamp_is_that_of_the_row_and_any_other_is_not() {
    let second = NANOS_PER_S;
    let clock = clock(10 * NANOS_PER_MS, 1000 * second);
    let of = |now: i64, transit| {
        let arrival = clock.arrival_by(transit, || at(now));
        assert_eq!(arrival.stamp, Some(at(now)));
        arrival.received.unwrap().nanos()
    };
    let now = 1100 * second;
    assert_eq!(of(now, received(now - 5)), now - 5);
    assert_eq!(of(now, received(now)), now);
    // However long the process stood still: the value is as old as it is.
    assert_eq!(of(now, received(now - 99 * second)), now - 99 * second);
    for insane in [now + 1, 0, -1, i64::MIN, i64::MAX] {
        assert_eq!(of(now, received(insane)), now, "{insane}");
    }
    assert_eq!(of(now, Transit::UNKNOWN), now);
    // Before the first instant of the first epoch, and then of the second.
    assert_eq!(of(1001 * second, received(1000 * second)), 1001 * second, "an epoch begins");
    assert_eq!(of(1002 * second, received(1001 * second)), 1001 * second);
    assert_eq!(of(1002 * second, received(1001 * second - 1)), 1002 * second);
}

#[test]
fn after_a_jump_a_stamp_near_the_old_end_is_in_doubt_while_an_old_message_may_be_on_its_way() {
    let hour = 3600 * NANOS_PER_S;
    let clock = clock(20 * NANOS_PER_MS, 9 * hour);
    let ahead = |nanos| {
        let arrival = clock.arrival_by(Transit::UNKNOWN, || at(nanos));
        (arrival.max_ahead_ns, arrival.in_doubt_from.map(Stamp::nanos))
    };
    assert_eq!(ahead(9 * hour), (0, None));
    let in_flight = IN_FLIGHT.as_nanos() as i64;
    // What is on its way was stamped within five seconds before the jump.
    let in_doubt = (20 * NANOS_PER_MS, Some(9 * hour - in_flight));
    assert_eq!(ahead(7 * hour), in_doubt);
    assert_eq!(ahead(7 * hour + in_flight - 1), in_doubt);
    // The clock is still two hours before the instant that it jumped back from.
    assert_eq!(ahead(7 * hour + in_flight), (0, None));
    // A short step back: the old end comes first.
    let end = 7 * hour + in_flight;
    let in_doubt = (20 * NANOS_PER_MS, Some(end - in_flight));
    assert_eq!(ahead(end - NANOS_PER_S), in_doubt);
    assert_eq!(ahead(end - 1), in_doubt);
    assert_eq!(ahead(end), (0, None));
    // Not less than this, however fast the ticks.
    let fast = self::clock(NANOS_PER_MS, hour);
    let arrival = fast.arrival_by(Transit::UNKNOWN, || at(0));
    assert_eq!(arrival.max_ahead_ns, MAX_AHEAD_AFTER_JUMP_NS);
}
