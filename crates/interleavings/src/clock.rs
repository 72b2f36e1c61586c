//! The system's clock, whose epochs the threads of real-time priority read without a lock.

#[rustfmt::skip] // it is formatted in its crate, and its tests are there
#[path = "../../runtime/src/clock/system.rs"]
#[allow(dead_code, unreachable_pub)] // the models use some of it
mod system;

use std::sync::Arc;
use std::time::Instant;

use loom::thread;
use robocache_core::pipeline::Counter;
use robocache_ops::time::{NANOS_PER_MS, NANOS_PER_S, Stamp, TickGrid};
use robocache_runtime::{Reading, Transit, VirtualTime};

use crate::explore::{PREEMPTIONS, explore};
use system::SystemClock;

/// The log of jumps, which is silent here.
#[derive(Debug, Default)]
struct JumpLog;

/// A line of the log.
struct Jumped;

impl JumpLog {
    #[allow(clippy::unused_self, clippy::needless_pass_by_ref_mut)] // as of the real one
    fn note(&mut self, _now: Instant, _from: Stamp, _to: Stamp) -> Option<Jumped> {
        None
    }
}

impl Jumped {
    #[allow(clippy::unused_self)] // as of the real one
    fn say(self) {}
}

/// The count of steps ahead, which no model looks at.
#[derive(Debug)]
struct SetAhead(#[allow(dead_code)] Counter);

impl SetAhead {
    fn new(_start: Instant) -> Self {
        SetAhead(Counter::default())
    }
}

fn ahead(_now: Reading, _began: Stamp, _grid: TickGrid) -> (i64, Option<Stamp>) {
    (0, None)
}

fn is_jump(from: Stamp, to: Stamp) -> bool {
    from.since(to) >= 100 * NANOS_PER_MS
}

/// A clock of a time that the model sets.
fn clock(seconds: i64) -> (Arc<SystemClock>, VirtualTime) {
    let time = VirtualTime::starting_at(at(seconds));
    let grid = TickGrid::new(10 * NANOS_PER_MS).unwrap();
    (Arc::new(SystemClock::new(grid, time.source())), time)
}

fn at(seconds: i64) -> Stamp {
    Stamp::from_nanos(seconds * NANOS_PER_S)
}

/// Checks a reading of a clock that went from 200 s back to 100 s: its instant is of its epoch. Returns the number of the
/// epoch.
fn check(reading: Reading) -> u64 {
    let number = reading.epoch.number();
    let (from, to) = [(at(200), at(299)), (at(100), at(199))][number as usize];
    assert!((from..=to).contains(&reading.stamp), "epoch {number} at {}", reading.stamp);
    let jumped_from = reading.epoch.jumped_from();
    assert!(jumped_from.is_none_or(|from| (at(200)..=at(299)).contains(&from)));
    assert_eq!(jumped_from.is_some(), number == 1);
    number
}

/// A jump begins one epoch, however many threads notice it, and each reading is of its epoch.
pub fn a_jump_begins_one_epoch_for_all_threads() {
    explore(PREEMPTIONS, || {
        let (clock, time) = clock(200);
        let read = |count: usize| {
            let clock = Arc::clone(&clock);
            thread::spawn(move || {
                let epochs: Vec<u64> = (0..count).map(|_| check(clock.now())).collect();
                assert!(epochs.is_sorted(), "{epochs:?}");
            })
        };
        let readers = [read(2), read(1)];
        time.set_system(at(100));
        check(clock.now());
        readers.into_iter().for_each(|reader| reader.join().unwrap());
        assert_eq!(check(clock.now()), 1);
    });
}

/// A thread that was interrupted between its reading and what it does with it brings no instant of the old epoch into the
/// new one: the clock then jumps once.
pub fn an_old_reading_does_not_make_the_new_epoch_jump() {
    explore(PREEMPTIONS, || {
        let (clock, time) = clock(200);
        let reader = {
            let clock = Arc::clone(&clock);
            thread::spawn(move || check(clock.now()))
        };
        time.set_system(at(250));
        check(clock.now());
        time.set_system(at(100));
        let before = check(clock.now());
        time.set_system(at(101));
        assert!(before <= check(clock.now()));
        reader.join().unwrap();
        time.set_system(at(102));
        let now = clock.now();
        assert_eq!((check(now), now.stamp), (1, at(102)));
    });
}

/// The arrival of a message needs the beginning of the epoch that it reads.
pub fn an_arrival_has_the_beginning_of_its_own_epoch() {
    explore(PREEMPTIONS, || {
        let (clock, time) = clock(200);
        let jumps = {
            let clock = Arc::clone(&clock);
            thread::spawn(move || clock.now().epoch.number())
        };
        time.set_system(at(100));
        // Received in the old epoch: in the new one that is insane.
        let transit = Transit { published_ns: None, arrived_ns: Some(at(200).nanos()) };
        let arrival = clock.arrival(transit);
        let received = arrival.received.unwrap();
        match arrival.epoch.number() {
            0 => assert_eq!(received, at(200)),
            _ => assert_eq!(received, at(100)),
        }
        jumps.join().unwrap();
    });
}
