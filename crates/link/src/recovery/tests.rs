use std::convert::Infallible;

use super::*;
use robocache_runtime::TimeSource;

const MS: Duration = Duration::from_millis(1);

/// A process that is looked at eight times per second.
struct Watched {
    recovery: Recovery,
    now: Instant,
    /// True if the process stood still since the last look.
    stood_still: bool,
}

impl Watched {
    fn new() -> Self {
        Watched { recovery: Recovery::default(), now: Instant::now(), stood_still: false }
    }

    /// These ports are lost for so long. Returns how many connections are due.
    fn run(&mut self, lost: &[u64], ms: u32) -> usize {
        let end = self.now + ms * MS;
        let mut due = 0;
        while self.now < end {
            let lost = || Ok::<_, Infallible>(lost.iter().copied().map(LostPort).collect());
            let stood_still = std::mem::take(&mut self.stood_still);
            // Each order is served at once.
            let (connector, _orders) = Connector::new(TimeSource::real());
            let asked = self.recovery.heal(self.now, stood_still, &connector, lost).unwrap();
            assert_eq!(asked, !connector.connect());
            due += usize::from(asked);
            self.now += 125 * MS;
        }
        due
    }
}

#[test]
fn a_port_that_is_lost_for_two_looks_needs_a_connection() {
    let mut watched = Watched::new();
    assert_eq!(watched.run(&[], 60_000), 0);
    assert_eq!(watched.run(&[7], 1000), 0, "one look");
    assert_eq!(watched.run(&[7], 1000), 1);
}

#[test]
fn a_port_that_the_middleware_replaces_is_not_lost() {
    let mut watched = Watched::new();
    for port in 0..20 {
        // Each of them is seen once, as one port may be replaced after the other.
        assert_eq!(watched.run(&[port], 1000), 0);
    }
    assert_eq!(watched.run(&[], 1000), 0);
}

#[test]
fn a_port_that_stays_lost_after_a_connection_is_answered_less_and_less_often() {
    let mut watched = Watched::new();
    assert_eq!(watched.run(&[7], 2000), 1);
    for seconds in [30, 60, 120, 240, 480, 600, 600] {
        assert_eq!(watched.run(&[7], 1000 * seconds - 1000), 0);
        assert_eq!(watched.run(&[7], 1000), 1);
    }
    assert_eq!(watched.run(&[], 60_000), 0);
    // It is known for ever: a port without its name gets none again.
    assert_eq!(watched.run(&[7], 500_000), 0);
}

#[test]
fn a_port_that_is_lost_since_a_connection_was_made_needs_another_when_the_one_before_has_ended() {
    let mut watched = Watched::new();
    assert_eq!(watched.run(&[7], 2000), 1);
    assert_eq!(watched.run(&[7], 3000), 0);
    assert_eq!(watched.run(&[7, 9], 8000), 0);
    assert_eq!(watched.run(&[7, 9], 1000), 1);
    // Both are answered now, and wait from the beginning.
    assert_eq!(watched.run(&[7, 9], 29_000), 0);
    assert_eq!(watched.run(&[9], 1000), 1);
    assert_eq!(watched.run(&[], 60_000), 0);
    assert_eq!(watched.run(&[11], 2000), 1);
}

#[test]
fn a_port_that_was_lost_at_one_look_before_a_connection_is_answered_too() {
    let mut watched = Watched::new();
    assert_eq!(watched.run(&[7], 1000), 0);
    assert_eq!(watched.run(&[7, 8], 1000), 1);
    assert_eq!(watched.run(&[7, 8], 29_000), 0);
    assert_eq!(watched.run(&[7, 8], 1000), 1);
}

#[test]
fn looks_before_and_after_a_standstill_are_not_in_a_row() {
    let mut watched = Watched::new();
    watched.run(&[], 2000);
    assert_eq!(watched.run(&[7], 1000), 0);
    watched.now += 3000 * MS;
    watched.stood_still = true;
    assert_eq!(watched.run(&[7], 500), 0, "the middleware has not replaced it yet");
    assert_eq!(watched.run(&[], 2000), 0);
    // Nobody notices a standstill of which one witness knows nothing, but so long is no overload.
    assert_eq!(watched.run(&[8], 1000), 0);
    watched.now += 10_000 * MS;
    assert_eq!(watched.run(&[8], 500), 0);
}

#[test]
fn late_looks_of_an_overloaded_machine_are_in_a_row() {
    let mut recovery = Recovery::default();
    let now = Instant::now();
    let mut look =
        |seconds| recovery.look(now + seconds * LOOK, || Ok::<_, Infallible>(vec![LostPort(7)]));
    assert_eq!([look(0), look(9)], [Ok(false), Ok(true)]);
}

#[test]
fn an_error_is_no_evidence_and_is_told_once_if_it_lasts() {
    let mut recovery = Recovery::default();
    let now = Instant::now();
    let mut look = |seconds, found: Result<u64, &'static str>| {
        recovery.look(now + seconds * LOOK, || found.map(|port| vec![LostPort(port)]))
    };
    assert_eq!(look(0, Ok(1)), Ok(false));
    assert_eq!(look(1, Err("no file left")), Ok(false), "one alone");
    assert_eq!(look(2, Ok(1)), Ok(false), "not twice in a row");
    assert_eq!(look(3, Ok(1)), Ok(true), "it looks on");
    let fails = [4, 5, 6, 7].map(|seconds| look(seconds, Err("no file left")));
    assert_eq!(fails, [Ok(false), Err("no file left"), Ok(false), Ok(false)]);
    assert_eq!(look(8, Ok(2)), Ok(false));
    let fails = [9, 10].map(|seconds| look(seconds, Err("no file left")));
    assert_eq!(fails, [Ok(false), Err("no file left")]);
}
