//! Which messages of a recording are missing without a word: a part of a file that is damaged has no gap.

use robocache_data::recording::Gap;
use robocache_ops::time::{Epoch, NANOS_PER_S, Stamp};

/// Messages of two threads may be in the log the other way round, but not for longer than this \[ns\].
const DISORDER_NS: i64 = NANOS_PER_S;

/// A number that is further ahead is damaged itself.
const MOST_AHEAD: u64 = 1 << 20;

/// Most runs of numbers that may still come, and most gaps. A recorder's threads make a few.
const MOST_RUNS: usize = 4096;

/// The numbers of the messages, which are consecutive.
#[derive(Default)]
pub(super) struct Numbers {
    newest: u64,
    /// True if the next message is the first that counts.
    begins: bool,
    /// The arrival of the newest.
    arrival: Option<(Epoch, Stamp)>,
    /// Missing messages, by number.
    missing: Vec<Run>,
    /// Missing messages when there were too many runs.
    too_many: Option<Lost>,
    /// Gaps among whose numbers there are some of other inputs.
    wide: Vec<Wide>,
}

/// Some of these numbers are missing, and a gap explains them; the others belong to other inputs.
struct Wide {
    first: u64,
    last: u64,
    /// How many of them are missing and were not yet counted.
    messages: u64,
}

/// Consecutive numbers that are missing.
#[derive(Clone, Copy)]
struct Run {
    first: u64,
    last: u64,
    /// The time of the log when that was seen.
    seen: Stamp,
    /// The arrival of a message before it.
    after: Option<(Epoch, Stamp)>,
}

/// Messages that are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lost {
    /// How many.
    pub messages: u64,
    /// The number of the last.
    pub last: u64,
    /// The arrival of a message before the first.
    pub after: Option<(Epoch, Stamp)>,
}

impl Numbers {
    /// Counts from the next message on: those before an episode are not all in it.
    pub(super) fn begin_with_next(&mut self) {
        self.begins = true;
    }

    /// A message was announced: it is missing until it [came](Numbers::came).
    pub(super) fn announced(&mut self, number: u64, arrival: Option<(Epoch, Stamp)>, now: Stamp) {
        if std::mem::take(&mut self.begins) {
            self.newest = number - 1;
        }
        if number <= self.newest || number - self.newest > MOST_AHEAD {
            return;
        }
        if self.missing.len() >= MOST_RUNS {
            let runs = std::mem::take(&mut self.missing);
            self.too_many = join(self.too_many, &runs);
        }
        let first = self.newest + 1;
        self.missing.push(Run { first, last: number, seen: now, after: self.arrival });
        (self.newest, self.arrival) = (number, arrival);
    }

    /// The arrival of the newest message.
    pub(super) fn newest(&self) -> Option<(Epoch, Stamp)> {
        self.arrival
    }

    /// A message is there, with its bytes.
    pub(super) fn came(&mut self, number: u64) {
        self.cut(number, number);
    }

    /// The recording says that messages are missing. A gap names one input. If messages of others came between its
    /// first and its last, it does not say which numbers are its own, but how many.
    pub(super) fn told(&mut self, gap: &Gap) {
        let Gap { messages, first, last, .. } = *gap;
        if last.checked_sub(first).is_some_and(|more| more >= messages) {
            if self.wide.len() == MOST_RUNS {
                // Then what it told of counts as not told.
                self.wide.remove(0);
            }
            self.wide.push(Wide { first, last, messages });
            return;
        }
        self.cut(first, last);
        self.newest = self.newest.max(last.min(self.newest.saturating_add(MOST_AHEAD)));
    }

    /// These numbers are missing no more.
    fn cut(&mut self, first: u64, last: u64) {
        let from = self.missing.partition_point(|run| run.last < first);
        let to = self.missing.partition_point(|run| run.first <= last);
        if from >= to {
            return;
        }
        let begin = self.missing[from];
        let end = self.missing[to - 1];
        let before = (begin.first < first).then(|| Run { last: first - 1, ..begin });
        let after = (end.last > last).then(|| Run { first: last + 1, ..end });
        self.missing.splice(from..to, before.into_iter().chain(after));
    }

    /// Removes and returns the numbers that have been missing for too long and that no gap explains.
    pub(super) fn lost(&mut self, now: Stamp) -> Option<Lost> {
        let runs = self.missing.extract_if(.., |run| now.since(run.seen) >= DISORDER_NS);
        let runs: Vec<Run> = runs.collect();
        let untold: u64 = runs.iter().map(|run| untold(&mut self.wide, run)).sum();
        let newest = self.newest;
        let missing = self.missing.first().map(|run| run.first);
        // No number of these gaps is still to come.
        self.wide.retain(|gap| gap.last > newest || missing.is_some_and(|first| first <= gap.last));
        let lost = self.too_many.take();
        match untold {
            0 => lost,
            // It is unknown which of them: the first may be one.
            _ => join(lost, &runs)
                .map(|all| Lost { messages: all.messages - told(&runs, untold), ..all }),
        }
    }
}

/// Numbers of a run that no gap explains. It reduces the counts of the gaps.
fn untold(gaps: &mut [Wide], run: &Run) -> u64 {
    let mut left = run.len();
    for gap in gaps {
        let first = run.first.max(gap.first);
        let last = run.last.min(gap.last);
        if first <= last {
            let told = gap.messages.min(last - first + 1).min(left);
            gap.messages -= told;
            left -= told;
        }
    }
    left
}

/// Numbers of these runs that gaps explain; `untold` are unexplained.
fn told(runs: &[Run], untold: u64) -> u64 {
    runs.iter().map(Run::len).fold(0, u64::saturating_add).saturating_sub(untold)
}

impl Run {
    fn len(&self) -> u64 {
        self.last - self.first + 1
    }
}

/// Adds runs to what is lost.
fn join(lost: Option<Lost>, runs: &[Run]) -> Option<Lost> {
    runs.iter().fold(lost, |lost, run| {
        let (messages, last) = lost.map_or((0, 0), |lost| (lost.messages, lost.last));
        Some(Lost {
            messages: messages.saturating_add(run.len()),
            last: last.max(run.last),
            after: lost.map_or(run.after, |lost| lost.after),
        })
    })
}

#[cfg(test)]
mod tests;
