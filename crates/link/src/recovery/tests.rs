use std::convert::Infallible;

use super::*;

const MS: Duration = Duration::from_millis(1);

/// A process that is looked at eight times per second.
struct Watched {
    recovery: Recovery,
    now: Instant,
}

impl Watched {
    fn new() -> Self {
        Watched { recovery: Recovery::default(), now: Instant::now() }
    }

    /// These ports are lost for so long. Returns how many connections are due.
    fn run(&mut self, lost: &[u64], ms: u32) -> usize {
        let end = self.now + ms * MS;
        let mut due = 0;
        while self.now < end {
            let lost = || Ok::<_, Infallible>(lost.iter().copied().map(LostPort).collect());
            due += usize::from(self.recovery.look(self.now, lost).unwrap());
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
fn while_a_port_stays_lost_a_connection_is_tried_each_half_minute() {
    let mut watched = Watched::new();
    assert_eq!(watched.run(&[7], 2000), 1);
    assert_eq!(watched.run(&[7], 29_000), 0);
    assert_eq!(watched.run(&[7, 9], 2000), 1);
    // Another port of the same connection, or one of the next connection, changes nothing.
    assert_eq!(watched.run(&[9], 28_000), 0);
    assert_eq!(watched.run(&[], 60_000), 0);
    assert_eq!(watched.run(&[9], 2000), 1);
}

#[test]
fn looks_before_and_after_a_standstill_are_not_in_a_row() {
    let mut watched = Watched::new();
    watched.run(&[], 2000);
    assert_eq!(watched.run(&[7], 1000), 0);
    watched.now += 3000 * MS;
    assert_eq!(watched.run(&[7], 500), 0, "the middleware has not replaced it yet");
    assert_eq!(watched.run(&[], 2000), 0);
}

#[test]
fn an_error_is_no_evidence() {
    let mut recovery = Recovery::default();
    let now = Instant::now();
    assert_eq!(recovery.look(now, || Err("not readable")), Err("not readable"));
    assert_eq!(recovery.look(now, || Ok::<_, &str>(vec![LostPort(1)])), Ok(false));
    assert_eq!(recovery.look(now + LOOK, || Err("not readable")), Err("not readable"));
}
