//! Tests of a simulator's clock.

use super::super::Clock;
use super::*;
use crate::VirtualTime;
use robocache_core::cdr::Writer;
use robocache_ops::time::NANOS_PER_MS;
use robocache_testing::threads::ThreadNumber;
use robocache_testing::{ended, patience};

fn sim_clock() -> SimClock {
    SimClock::new(TickGrid::new(10).unwrap(), TimeSource::real())
}

fn at(nanos: i64) -> Stamp {
    Stamp::from_nanos(nanos)
}

/// Published at this instant, and arrived at once.
fn published(ns: i64) -> Transit {
    Transit { published_ns: Some(ns), arrived_ns: Some(ns) }
}

fn set(clock: &SimClock, nanos: i64) -> Option<Epoch> {
    clock.set(at(nanos), Transit::UNKNOWN)
}

#[test]
fn a_tick_is_due_since_the_first_message_at_or_after_it() {
    let time = VirtualTime::starting_at(Stamp::ZERO);
    let clock = SimClock::new(TickGrid::new(10).unwrap(), time.source());
    let set = |nanos| {
        time.advance(Duration::from_millis(2));
        set(&clock, nanos);
        clock.now().unwrap()
    };
    let [first, second, third] = [12, 15, 19].map(set);
    let due = |instant| clock.reached(third, at(instant));
    // Whatever the grid of the loop that asks is.
    assert_eq!([8, 10, 12].map(due), [first.since; 3]);
    assert_eq!([13, 15, 16, 19].map(due), [second, second, third, third].map(|it| it.since));
    assert_eq!(set(19), third, "the clock does not move");
    let again = set(9);
    assert_eq!(due(12), third.since, "nothing of before a jump is remembered");
    assert_eq!(clock.reached(again, at(9)), again.since);
}

#[test]
fn a_clock_whose_messages_repeat_an_instant_does_not_move() {
    let time = VirtualTime::starting_at(Stamp::ZERO);
    let grid = TickGrid::new(10).unwrap();
    let clock = SimClock::new(grid, time.source());
    assert_eq!(clock.stalled_for(), None);
    let pause = Duration::from_millis(20);
    set(&clock, 5);
    time.advance(pause);
    set(&clock, 5);
    assert_eq!(clock.stalled_for(), Some(pause));
    set(&clock, 6);
    assert_eq!(clock.stalled_for(), Some(Duration::ZERO));
    assert_eq!(Clock::system(grid, time.source()).stalled_for(), None);
}

#[test]
fn an_epoch_begins_with_the_first_reading_and_with_a_jump_back() {
    let clock = sim_clock();
    let first = Epoch::default().next(None);
    assert_eq!(set(&clock, 5), Some(first));
    assert_eq!([set(&clock, 5), set(&clock, 19)], [None; 2]);
    assert_eq!(clock.now().map(|r| (r.stamp, r.epoch)), Some((at(19), first)));
    let second = first.next(Some(at(19)));
    assert_eq!(set(&clock, 9), Some(second));
    assert_eq!(clock.now().map(|r| (r.stamp, r.epoch)), Some((at(9), second)));
    let arrival = clock.arrival_at(Transit::UNKNOWN, Instant::now(), true);
    assert_eq!((arrival.stamp, arrival.epoch), (Some(at(9)), second));
}

#[test]
fn a_step_back_that_is_shorter_than_a_tick_changes_nothing() {
    let clock = sim_clock();
    let first = set(&clock, 25).unwrap();
    for (step, newest) in [(24, 25), (16, 25), (25, 25), (26, 26)] {
        assert_eq!(set(&clock, step), None);
        assert_eq!(clock.now().map(|r| (r.stamp, r.epoch)), Some((at(newest), first)));
    }
    assert!(set(&clock, 16).is_some());
}

#[test]
fn a_message_belongs_to_the_epoch_in_which_it_was_published() {
    let clock = sim_clock();
    let now = Instant::now();
    let set = |nanos, ns| clock.set_at(at(nanos), published(ns), now);
    let first = set(990, 90).unwrap();
    set(1000, 199);
    let second = set(500, 200).unwrap();
    let epoch = |transit| clock.arrival_at(transit, now, true).epoch;
    assert_eq!([epoch(published(199)), epoch(published(150))], [first; 2]);
    assert_eq!([epoch(published(200)), epoch(published(201))], [second; 2]);
    // All of them may be stamped far ahead of a clock whose steps are not known yet.
    assert_eq!(clock.arrival_at(published(201), now, true).max_ahead_ns, MAX_AHEAD_NS);
    assert_eq!(clock.arrival_at(published(201), now, true).in_doubt_from, None);
    // This publisher's clock is not that of the machine that publishes /clock.
    let elsewhere = Transit { published_ns: Some(5), arrived_ns: Some(10_000_000_000) };
    assert_eq!((epoch(elsewhere), epoch(Transit::UNKNOWN)), (second, second));
    // An old message says nothing of this epoch's time.
    let old = clock.arrival_at(published(150), now, true);
    assert_eq!(old, Arrival { epoch: first, ..Arrival::default() });
    // After a while the machine's clock may have been set back: nothing old is on its way.
    assert_eq!(clock.arrival_at(published(150), now + IN_FLIGHT, true).epoch, second);
}

#[test]
fn a_message_before_the_first_clock_of_an_epoch_is_told_by_its_stamp() {
    let clock = SimClock::new(TickGrid::new(NANOS_PER_MS).unwrap(), TimeSource::real());
    let now = Instant::now();
    let set = |ms: i64, ns| clock.set_at(at(ms * NANOS_PER_MS), published(ns), now);
    let arrival = |ns| clock.arrival_at(published(ns), now, true);
    let steps = (0..5).map(|k| set(60_000 + 25 * k, 100 + k)).collect::<Vec<_>>();
    let first = steps[0].unwrap();
    let second = set(500, 200).unwrap();
    // The last old message on /clock was published at 104.
    assert_eq!(arrival(104).epoch, first);
    // Two steps of the clock after the first reading.
    let latest = at(550 * NANOS_PER_MS);
    let between = || {
        let between = arrival(105);
        assert_eq!(between.epoch, second);
        (between.stamp.unwrap().offset(between.max_ahead_ns), between.in_doubt_from)
    };
    assert_eq!((between(), arrival(200).in_doubt_from), ((latest, Some(Stamp::MIN)), None));
    // However late such a message comes, the clock's later readings allow it no later stamp.
    set(600, 210);
    assert_eq!(between(), (latest, Some(Stamp::MIN)));
    // Its arrival tells nothing.
    let unstamped = |ns| clock.arrival_at(published(ns), now, false);
    assert_eq!(unstamped(105), Arrival { epoch: first, ..Arrival::default() });
    assert_eq!(unstamped(200).epoch, second);
}

#[test]
fn after_a_short_jump_a_stamp_tells_nothing_of_the_epoch() {
    const STEPS_NS: i64 = 50 * NANOS_PER_MS;
    // A sensor may have published a second after its stamp, which was two steps ahead of the new epoch.
    for (jump_ns, tells) in [(STEPS_NS + MAX_AHEAD_NS, false), (STEPS_NS + MAX_AHEAD_NS + 1, true)]
    {
        let clock = SimClock::new(TickGrid::new(NANOS_PER_MS).unwrap(), TimeSource::real());
        let now = Instant::now();
        let set = |nanos, ns| clock.set_at(at(nanos), published(ns), now);
        let first = set(60_000 * NANOS_PER_MS, 100).unwrap();
        (1..5).for_each(|k| assert_eq!(set((60_000 + 25 * k) * NANOS_PER_MS, 100 + k), None));
        let second = set(60_100 * NANOS_PER_MS - jump_ns, 200).unwrap();
        let epoch_at = |transit, at| clock.arrival_at(transit, at, true).epoch;
        let epoch = |transit| epoch_at(transit, now);
        let expected = if tells { second } else { first };
        assert_eq!(epoch(published(150)), expected);
        assert_eq!(epoch(published(200)), second);
        // Its publisher's clock is another one, but perhaps that of `/clock`.
        let on_its_way = |published: i64, ns: i64| Transit {
            published_ns: Some(published),
            arrived_ns: Some(published.saturating_add(ns)),
        };
        for ns in [-Transit::EARLY_NS - 1, -Transit::LATE_NS] {
            let old = on_its_way(199, ns);
            assert_eq!([old, on_its_way(200, ns)].map(epoch), [expected, second], "{ns}");
            assert_eq!(epoch_at(old, now + IN_FLIGHT), second, "{ns}");
        }
        // Nobody can compare these, so the stamp must do: clocks of other machines, simulated time as the arrival, and a
        // middleware that tells no arrival.
        for ns in [-Transit::LATE_NS - 1, Transit::LATE_NS + 1, i64::MAX] {
            assert_eq!(epoch(on_its_way(199, ns)), second, "{ns}");
        }
        let without_arrival = Transit { published_ns: Some(150), arrived_ns: None };
        assert_eq!([without_arrival, Transit::UNKNOWN].map(epoch), [second; 2]);
    }
}

/// The simulator and its sensors are on a machine whose clock is `offset_ns` ahead, or behind.
#[test]
fn after_a_short_jump_a_clock_of_another_machine_tells() {
    for offset_ns in [-3_000, -1, 2, 3_000].map(|ms| ms * NANOS_PER_MS) {
        let clock = SimClock::new(TickGrid::new(NANOS_PER_MS).unwrap(), TimeSource::real());
        let now = Instant::now();
        let sent = |ns| Transit { published_ns: Some(ns + offset_ns), arrived_ns: Some(ns + 50) };
        let first = clock.set_at(at(60_000 * NANOS_PER_MS), sent(100), now).unwrap();
        let second = clock.set_at(at(59_900 * NANOS_PER_MS), sent(200), now).unwrap();
        let epoch = |ns| clock.arrival_at(sent(ns), now, true).epoch;
        assert_eq!([199, 200, 300].map(epoch), [first, second, second], "{offset_ns}");
    }
}

#[test]
fn before_the_first_jump_a_clock_that_differs_refuses_nothing() {
    let clock = sim_clock();
    let first = set(&clock, 5).unwrap();
    let ahead = Transit { published_ns: Some(10_000_000_000), arrived_ns: Some(0) };
    assert_eq!(clock.arrival_at(ahead, Instant::now(), true).epoch, first);
}

/// A clock with steps of 25 ms that jumped back from 1100 ms to 500 ms, and the instant of the jump.
fn jumped_back(transit: impl Fn(i64) -> Transit) -> (SimClock, Instant) {
    let clock = SimClock::new(TickGrid::new(NANOS_PER_MS).unwrap(), TimeSource::real());
    let jump = Instant::now();
    let set = |ms: i64| clock.set_at(at(ms * NANOS_PER_MS), transit(ms), jump);
    (0..5).for_each(|k| assert_eq!(set(1000 + 25 * k).is_some(), k == 0));
    assert!(set(500).is_some());
    (clock, jump)
}

#[test]
fn without_publications_a_stamp_further_ahead_than_two_steps_is_in_doubt_until_the_old_end() {
    let (clock, jump) = jumped_back(published);
    let is_in_doubt = |transit| {
        let arrival = clock.arrival_at(transit, jump, true);
        assert_eq!(arrival.max_ahead_ns, 50 * NANOS_PER_MS);
        arrival.in_doubt_from.is_some()
    };
    let set = |ms: i64| clock.set_at(at(ms * NANOS_PER_MS), published(ms), jump);
    assert!(is_in_doubt(Transit::UNKNOWN));
    assert!(!is_in_doubt(published(500)));
    set(1099);
    assert!(is_in_doubt(Transit::UNKNOWN));
    set(1100);
    assert!(!is_in_doubt(Transit::UNKNOWN), "by now a sensor may be ahead again");
}

#[test]
fn the_doubt_after_a_jump_ends_when_no_old_message_is_on_its_way() {
    let publications: [fn(i64) -> Transit; 2] = [published, |_| Transit::UNKNOWN];
    for publication in publications {
        let (clock, jump) = jumped_back(publication);
        let is_in_doubt = |transit, after: Duration| {
            clock.arrival_at(transit, jump + after, true).in_doubt_from.is_some()
        };
        let just_before = IN_FLIGHT.saturating_sub(Duration::from_nanos(1));
        assert!(is_in_doubt(Transit::UNKNOWN, just_before));
        // The clock is still far before the instant that it jumped back from.
        assert!(!is_in_doubt(Transit::UNKNOWN, IN_FLIGHT));
        assert!(!is_in_doubt(publication(501), IN_FLIGHT));
        assert!(!is_in_doubt(publication(501), 20 * IN_FLIGHT));
    }
}

#[test]
fn a_stamp_from_before_all_that_may_be_on_its_way_is_certainly_of_the_new_epoch() {
    const S: i64 = 1000 * NANOS_PER_MS;
    // Twenty seconds of /clock in a loop, at this speed.
    for (speed, in_doubt_from) in [(1, 14), (2, 9)] {
        let clock = SimClock::new(TickGrid::new(NANOS_PER_MS).unwrap(), TimeSource::real());
        let start = Instant::now();
        let real = |ms: i64| start + Duration::from_millis(ms as u64) / speed;
        let set = |ms: i64, stamp| clock.set_at(stamp, Transit::UNKNOWN, real(ms));
        for ms in (0..=20_000).step_by(250 * speed as usize) {
            set(ms, at(ms * NANOS_PER_MS));
        }
        assert!(set(20_250, at(0)).is_some());
        let arrival = clock.arrival_at(Transit::UNKNOWN, real(20_250), true);
        // Five seconds of real time, and a second for a sensor that stamps long before it publishes.
        let from = arrival.in_doubt_from.unwrap();
        assert!((from.nanos() - in_doubt_from * S).abs() < S, "{from}");
        // The epoch was shorter than a message may be on its way: it may even be from the one before.
        assert!(set(20_500, at(2 * S)).is_none() && set(20_750, at(0)).is_some());
        let arrival = clock.arrival_at(Transit::UNKNOWN, real(20_750), true);
        assert_eq!(arrival.in_doubt_from, Some(Stamp::MIN));
    }
}

#[test]
fn zero_is_an_instant_of_an_epoch_whose_clock_has_read_zero() {
    let clock = sim_clock();
    let zero = || clock.arrival_at(Transit::UNKNOWN, Instant::now(), true).zero_is_an_instant;
    let after = |nanos| {
        set(&clock, nanos);
        zero()
    };
    assert!(!zero());
    assert_eq!([after(5), after(100), after(0), after(50)], [false, false, true, true]);
    assert_eq!([after(20), after(-10), after(0)], [false, false, true]);
}

#[test]
fn arrivals_between_two_readings_have_different_instants_below_the_next_step() {
    let clock = sim_clock();
    let start = Instant::now();
    // The clock is five times as fast as the system's.
    let step = 20 * NANOS_PER_MS;
    let ms = Duration::from_millis(1);
    let mut stamps = Vec::new();
    for k in 1..=6 {
        let since = start + 4 * k * ms;
        clock.set_at(at(i64::from(k) * step), Transit::UNKNOWN, since);
        let arrival = |later| clock.arrival_at(Transit::UNKNOWN, since + later * ms, true);
        stamps.extend((0..4).map(|later| arrival(later).stamp.unwrap()));
    }
    assert!(stamps.is_sorted_by(|a, b| a < b), "{stamps:?}");
    for (k, four) in (1..).zip(stamps.chunks(4)) {
        let limit = at((k + 1) * step);
        assert!(four.iter().all(|stamp| (at(k * step)..limit).contains(stamp)), "{four:?}");
        // Without a pace, a millisecond later is just the next nanosecond.
        let expected = if k >= 4 { 5 * NANOS_PER_MS } else { 1 };
        assert_eq!(four[1].since(four[0]), expected, "{four:?}");
    }
}

#[test]
fn messages_have_no_arrival_stamp_before_a_simulators_clock_runs() {
    assert_eq!(sim_clock().arrival_at(published(5), Instant::now(), true), Arrival::default());
}

#[test]
fn a_clock_with_steps_longer_than_the_ticks_of_a_loop_is_reported_as_coarse_once() {
    let clock = sim_clock();
    let grid = |period_ns| TickGrid::new(period_ns).unwrap();
    clock.note_loop("slow", grid(20));
    clock.note_loop("fast", grid(10));
    let mut state = clock.lock();
    let mut steps = |steps: &[i64]| -> Vec<Vec<&str>> {
        let note = |step_ns: &i64| state.note_step(*step_ns);
        let names =
            |all: Vec<(&'static str, TickGrid)>| all.into_iter().map(|(name, _)| name).collect();
        steps.iter().map(note).map(names).collect()
    };
    let nobody = Vec::new();
    let fast = vec!["fast"];
    assert_eq!(steps(&[11, 11, 11, 11, 10]), [const { Vec::<&str>::new() }; 5]);
    assert_eq!(
        steps(&[11, 11, 11, 11, 11]),
        [&nobody, &nobody, &nobody, &nobody, &fast].map(Vec::clone)
    );
    assert_eq!(steps(&[11; 20]), [const { Vec::<&str>::new() }; 20]);
    assert_eq!(steps(&[21; 6]).concat(), ["slow"]);
}

#[test]
fn all_waiters_wake_when_the_clock_first_reads_reaches_their_instants_or_jumps_back() {
    for (before, set) in [(None, 15), (Some(15), 20), (Some(15), 3)] {
        let clock = sim_clock();
        let waiters = [18, 20].map(|it| (it, ThreadNumber::default()));
        before.map(|before| clock.set(at(before), Transit::UNKNOWN));
        let seen = clock.now();
        std::thread::scope(|scope| {
            let waits = waiters.each_ref().map(|(instant, waiter)| {
                let clock = &clock;
                let next = seen.map(|seen| (seen, at(*instant)));
                scope.spawn(move || {
                    waiter.is_this();
                    clock.wait_at_most(next, 2 * patience());
                })
            });
            waiters.iter().for_each(|(_, waiter)| waiter.until_asleep());
            assert!(waits.iter().all(|wait| !wait.is_finished()));
            clock.set(at(set), Transit::UNKNOWN);
            waits.into_iter().for_each(|wait| ended("the wait", wait));
        });
    }
}

#[test]
fn a_clock_that_jumps_back_before_a_wait_ends_it() {
    let clock = sim_clock();
    set(&clock, 15);
    let seen = clock.now().unwrap();
    set(&clock, 3);
    std::thread::scope(|scope| {
        let wait = || clock.wait_at_most(Some((seen, at(20))), 2 * patience());
        ended("the wait", scope.spawn(wait));
    });
}

#[test]
fn a_clock_message_has_seconds_and_nanoseconds() {
    let mut writer = Writer::new();
    writer.i32(7);
    writer.u32(500_000_000);
    let bytes = writer.finish();
    assert_eq!(decode_clock(&bytes), Ok(Some(Stamp::from_nanos(7_500_000_000))));
    assert!(decode_clock(&bytes[..8]).is_err());
}
