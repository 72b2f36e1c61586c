//! The trace of a run.

use std::collections::VecDeque;

/// Events that a report shows.
const LAST: usize = 200;

/// Events of a run: a number of all of them, and the last ones in words.
pub(crate) struct Trace {
    hash: u64,
    last: VecDeque<(u64, &'static str, u64, u64)>,
    /// Events so far.
    pub events: u64,
}

impl Trace {
    pub(crate) fn new() -> Self {
        Trace { hash: 0xCBF2_9CE4_8422_2325, last: VecDeque::with_capacity(LAST), events: 0 }
    }

    /// Notes an event at an instant, with two numbers of it.
    pub(crate) fn note(&mut self, at_ns: u64, what: &'static str, one: u64, two: u64) {
        self.events += 1;
        for word in [at_ns, what.len() as u64, one, two] {
            // FNV-1a by words.
            self.hash = (self.hash ^ word).wrapping_mul(0x0100_0000_01B3).rotate_left(23);
        }
        if self.last.len() == LAST {
            self.last.pop_front();
        }
        self.last.push_back((at_ns, what, one, two));
    }

    /// A number that depends on all events and their order.
    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }

    /// The last events, a line each.
    pub(crate) fn lines(&self) -> Vec<String> {
        let line = |(at_ns, what, one, two): &(u64, &str, u64, u64)| {
            format!("{:12.6} s  {what} {one} {two}", *at_ns as f64 / 1e9)
        };
        self.last.iter().map(line).collect()
    }
}
