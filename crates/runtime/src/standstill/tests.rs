use super::*;
use crate::VirtualTime;
use robocache_ops::time::Stamp;

/// Two witnesses, and the time that they see.
struct Witnesses {
    time: VirtualTime,
    standstills: Standstills,
}

impl Witnesses {
    fn new() -> Self {
        let time = VirtualTime::starting_at(Stamp::ZERO);
        let standstills = Standstills::new(time.source());
        Witnesses { time, standstills }
    }

    /// Wakes these every 50 ms for a time. Returns what the last one is told.
    fn run(&self, witnesses: &[Witness], ms: u64) -> Option<Duration> {
        let mut slept = None;
        for _ in 0..ms / 50 {
            for witness in witnesses {
                slept = self.standstills.awake(*witness);
                self.time.advance(Duration::from_millis(7));
            }
            self.time.advance(Duration::from_millis(50 - 7 * witnesses.len() as u64));
        }
        slept
    }
}

const BOTH: [Witness; 2] = [Witness::Tick, Witness::Report];

#[test]
fn a_standstill_is_told_once() {
    let witnesses = Witnesses::new();
    let newest = || witnesses.standstills.newest();
    witnesses.run(&BOTH, 10_000);
    assert_eq!(newest(), None);
    // The process is stopped. Then the machine is suspended: the monotonic clock stands, too.
    for pause in [VirtualTime::advance, VirtualTime::suspend] {
        pause(&witnesses.time, Duration::from_secs(3));
        witnesses.run(&BOTH, 1000);
        let stood = newest().unwrap();
        assert!((3_000..3_060).contains(&stood.as_millis()), "{stood:?}");
        assert_eq!(newest(), None);
    }
    // Somebody sets the system's clock.
    witnesses.time.set_system(Stamp::from_nanos(900_000_000_000));
    witnesses.run(&BOTH, 1000);
    assert_eq!(newest(), None);
}

#[test]
fn one_thread_that_was_held_up_shows_nothing() {
    let witnesses = Witnesses::new();
    witnesses.run(&BOTH, 1000);
    witnesses.run(&[Witness::Tick], 3000);
    let held_up = witnesses.run(&[Witness::Report], 50);
    assert!(held_up.is_some_and(|time| time >= Duration::from_secs(3)));
    assert_eq!(witnesses.standstills.newest(), None);
    // Nor do two threads that were held up one after the other.
    witnesses.run(&[Witness::Report], 2000);
    assert!(witnesses.run(&[Witness::Tick], 50).is_some());
    assert_eq!(witnesses.standstills.newest(), None);
}

#[test]
fn a_thread_that_goes_on_later_than_the_other_shows_it_too() {
    let witnesses = Witnesses::new();
    witnesses.run(&BOTH, 1000);
    witnesses.time.advance(Duration::from_secs(3));
    for _ in 0..40 {
        witnesses.run(&[Witness::Tick], 50);
        assert_eq!(witnesses.standstills.newest(), None);
    }
    witnesses.run(&[Witness::Report], 50);
    let stood = witnesses.standstills.newest().unwrap();
    assert!((3_000..3_100).contains(&stood.as_millis()), "{stood:?}");
}
