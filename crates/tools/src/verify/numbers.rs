//! Which messages of a recording are missing without a word: a part of a file that is damaged has no gap.

use std::collections::{BTreeMap, VecDeque};
use std::ops::RangeInclusive;

use robocache_data::recording::Gap;
use robocache_ops::time::{Epoch, NANOS_PER_S, Stamp};

/// Messages of two threads may be in the log the other way round, but not for longer than this \[ns\].
const DISORDER_NS: i64 = NANOS_PER_S;
/// A number that is further ahead is damaged itself.
const MOST_AHEAD: u64 = 1 << 20;
/// Most missing messages that are remembered.
const MOST_MISSING: usize = 1 << 20;
/// Most gaps that are remembered. A recorder's threads make a few.
const MOST_GAPS: usize = 4096;

/// An arrival: its epoch and its instant; `None` if the node had no clock.
type Arrived = Option<(Epoch, Stamp)>;

/// The numbers of the messages, which are consecutive.
#[derive(Default)]
pub(super) struct Numbers {
    newest: u64,
    /// True if the next message is the first that counts.
    begins: bool,
    /// The arrival of the newest.
    arrival: Arrived,
    /// By number, the messages that are missing: the time of the log when that was seen, and the arrival of one before.
    missing: BTreeMap<u64, (Stamp, Arrived)>,
    /// Gaps. Some of their numbers may belong to other inputs.
    gaps: VecDeque<RangeInclusive<u64>>,
}

impl Numbers {
    /// Counts from the next message on: those before an episode are not all in it.
    pub(super) fn begin_with_next(&mut self) {
        self.begins = true;
    }

    /// A message was announced: it is missing until it [came](Numbers::came).
    pub(super) fn announced(&mut self, number: u64, arrival: Arrived, now: Stamp) {
        if std::mem::take(&mut self.begins) {
            self.newest = number - 1;
        }
        if number <= self.newest || number - self.newest > MOST_AHEAD {
            return;
        }
        let missing = (self.newest + 1..=number).map(|number| (number, (now, self.arrival)));
        let room = MOST_MISSING.saturating_sub(self.missing.len());
        self.missing.extend(missing.take(room));
        (self.newest, self.arrival) = (number, arrival);
    }

    /// The arrival of the newest message.
    pub(super) fn newest(&self) -> Arrived {
        self.arrival
    }

    /// A message is there, with its bytes.
    pub(super) fn came(&mut self, number: u64) {
        self.missing.remove(&number);
    }

    /// The recording says that messages are missing.
    pub(super) fn told(&mut self, gap: &Gap) {
        if self.gaps.len() == MOST_GAPS {
            self.gaps.pop_front();
        }
        self.gaps.push_back(gap.first..=gap.last);
    }

    /// Forgets the messages that have been missing for too long. If no gap explains one, returns the arrival of a message
    /// before it.
    pub(super) fn lost(&mut self, now: Stamp) -> Option<Arrived> {
        let mut lost = None;
        let is_told = |number: &u64| self.gaps.iter().any(|gap| gap.contains(number));
        self.missing.retain(|number, (seen, after)| {
            let is_over = now.since(*seen) >= DISORDER_NS;
            if is_over && !is_told(number) {
                lost.get_or_insert(*after);
            }
            !is_over
        });
        lost
    }
}

#[cfg(test)]
mod tests;
