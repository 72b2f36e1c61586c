//! The agenda: what happens next.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use robocache_ops::random::Random;

/// Coming events, in the order of their instants. Among events of one instant, the seed picks.
pub(crate) struct Agenda<E> {
    entries: BinaryHeap<Reverse<Entry<E>>>,
    draw: Random,
    entered: u64,
}

struct Entry<E> {
    at_ns: u64,
    /// Drawn, so that entries of one instant come in any order.
    turn: u64,
    number: u64,
    event: E,
}

impl<E> Entry<E> {
    fn key(&self) -> (u64, u64, u64) {
        (self.at_ns, self.turn, self.number)
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

impl<E> Agenda<E> {
    /// An empty agenda of a seed.
    pub(crate) fn new(seed: u64) -> Self {
        Agenda { entries: BinaryHeap::new(), draw: Random::new(seed ^ 0xA6E1DA), entered: 0 }
    }

    /// Enters an event at an instant since the start \[ns\].
    pub(crate) fn enter(&mut self, at_ns: u64, event: E) {
        self.entered += 1;
        let entry = Entry { at_ns, turn: self.draw.bits(), number: self.entered, event };
        self.entries.push(Reverse(entry));
    }

    /// Takes the next event, and its instant.
    pub(crate) fn next(&mut self) -> Option<(u64, E)> {
        self.entries.pop().map(|Reverse(entry)| (entry.at_ns, entry.event))
    }
}
