//! Which messages of a recording are missing without a word: a part of a file that is damaged has no gap.

use std::collections::BTreeMap;

use crate::replay::recording::Gap;
use crate::time::{Epoch, NANOS_PER_S, Stamp};

/// Messages of two threads may be in the log the other way round, but not for longer than this \[ns\].
const DISORDER_NS: i64 = NANOS_PER_S;

/// The numbers of the messages, which are consecutive.
#[derive(Default)]
pub(super) struct Numbers {
    newest: u64,
    /// The arrival of the newest.
    arrival: Option<(Epoch, Stamp)>,
    missing: BTreeMap<u64, Missing>,
}

/// A message that is missing.
#[derive(Clone, Copy)]
pub(super) struct Missing {
    /// The time of the log when that was seen.
    seen: Stamp,
    /// The arrival of a message before it.
    pub after: Option<(Epoch, Stamp)>,
}

impl Numbers {
    /// A message is there.
    pub fn came(&mut self, number: u64, arrival: Option<(Epoch, Stamp)>, now: Stamp) {
        /// A number that is further ahead is damaged itself.
        const MOST: u64 = 1 << 20;
        if number <= self.newest {
            self.missing.remove(&number);
            return;
        }
        if number - self.newest > MOST {
            return;
        }
        let missing = Missing { seen: now, after: self.arrival };
        self.missing.extend((self.newest + 1..number).map(|number| (number, missing)));
        (self.newest, self.arrival) = (number, arrival);
    }

    /// The recording says that messages are missing.
    pub fn told(&mut self, gap: &Gap) {
        self.missing.retain(|number, _| !(gap.first..=gap.last).contains(number));
        self.newest = self.newest.max(gap.last.min(self.newest.saturating_add(1 << 20)));
    }

    /// Takes out what is missing and was not told: how many messages, the last number, and the first of them.
    pub fn lost(&mut self, now: Stamp) -> Option<(u64, u64, Missing)> {
        let (_, first) = self.missing.first_key_value()?;
        if now.since(first.seen) < DISORDER_NS {
            return None;
        }
        let first = *first;
        let (last, _) = self.missing.last_key_value()?;
        let lost = (self.missing.len() as u64, *last, first);
        self.missing.clear();
        Some(lost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::InputId;

    #[test]
    fn what_is_missing_without_a_word_is_found_and_disorder_is_not() {
        let at = |s: i64| Stamp::from_nanos(s * NANOS_PER_S);
        let mut numbers = Numbers::default();
        for number in [1, 3, 2, 4, 8] {
            numbers.came(number, None, at(0));
        }
        let gap = Gap {
            input: InputId::new(0),
            messages: 1,
            first: 5,
            last: 5,
            from: None,
            epoch: Epoch::default(),
        };
        numbers.told(&gap);
        assert!(numbers.lost(at(0)).is_none());
        let (messages, last, _) = numbers.lost(at(2)).unwrap();
        assert_eq!((messages, last), (2, 7));
        assert!(numbers.lost(at(9)).is_none());
        numbers.came(u64::MAX, None, at(9));
        assert!(numbers.lost(at(99)).is_none());
    }
}
