//! Which messages of a recording are missing without a word: a part of a file that is damaged has no gap.

use crate::replay::recording::Gap;
use crate::time::{Epoch, NANOS_PER_S, Stamp};

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
    /// The arrival of the newest.
    arrival: Option<(Epoch, Stamp)>,
    /// What is missing, by number.
    missing: Vec<Run>,
    /// What was missing when there were too many runs.
    too_many: Option<Lost>,
    /// Gaps among whose numbers there are some of other inputs.
    wide: Vec<Wide>,
}

/// Some of these numbers are missing, and that was told; the others belong to other inputs.
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
    /// A message was announced: it is missing until it [came](Numbers::came).
    pub fn announced(&mut self, number: u64, arrival: Option<(Epoch, Stamp)>, now: Stamp) {
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
    pub fn newest(&self) -> Option<(Epoch, Stamp)> {
        self.arrival
    }

    /// A message is there, with its bytes.
    pub fn came(&mut self, number: u64) {
        self.cut(number, number);
    }

    /// The recording says that messages are missing. A gap names one input. If messages of others came between its
    /// first and its last, it does not say which numbers are its own, but how many.
    pub fn told(&mut self, gap: &Gap) {
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
        let (begin, end) = (self.missing[from], self.missing[to - 1]);
        let before = (begin.first < first).then(|| Run { last: first - 1, ..begin });
        let after = (end.last > last).then(|| Run { first: last + 1, ..end });
        self.missing.splice(from..to, before.into_iter().chain(after));
    }

    /// Takes out what is missing for so long that it will not come, and was not told.
    pub fn lost(&mut self, now: Stamp) -> Option<Lost> {
        let runs = self.missing.extract_if(.., |run| now.since(run.seen) >= DISORDER_NS);
        let runs: Vec<Run> = runs.collect();
        let untold: u64 = runs.iter().map(|run| untold(&mut self.wide, run)).sum();
        let (newest, missing) = (self.newest, self.missing.first().map(|run| run.first));
        // No number of these gaps is still to come.
        self.wide.retain(|gap| gap.last > newest || missing.is_some_and(|first| first <= gap.last));
        let lost = self.too_many.take();
        match untold {
            0 => lost,
            // Nobody knows which of them: the first may be one.
            _ => join(lost, &runs)
                .map(|all| Lost { messages: all.messages - told(&runs, untold), ..all }),
        }
    }
}

/// How many numbers of a run no gap tells of. The counts of the gaps are used up.
fn untold(gaps: &mut [Wide], run: &Run) -> u64 {
    let mut left = run.len();
    for gap in gaps {
        let (first, last) = (run.first.max(gap.first), run.last.min(gap.last));
        if first <= last {
            let told = gap.messages.min(last - first + 1).min(left);
            gap.messages -= told;
            left -= told;
        }
    }
    left
}

/// How many numbers of some runs gaps tell of, if they do not tell of so many.
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
mod tests {
    use super::*;
    use crate::spec::InputId;

    fn at(s: i64) -> Stamp {
        Stamp::from_nanos(s * NANOS_PER_S)
    }

    fn gap(first: u64, last: u64) -> Gap {
        let (input, epoch) = (InputId::new(0), Epoch::default());
        Gap { input, messages: last - first + 1, first, last, from: None, epoch }
    }

    fn whole(numbers: &mut Numbers, number: u64, now: Stamp) {
        numbers.announced(number, None, now);
        numbers.came(number);
    }

    #[test]
    fn what_is_missing_without_a_word_is_found_and_disorder_is_not() {
        let mut numbers = Numbers::default();
        for number in [1, 3, 2, 4, 8] {
            whole(&mut numbers, number, at(0));
        }
        numbers.told(&gap(5, 5));
        assert_eq!(numbers.lost(at(0)), None);
        let lost = numbers.lost(at(2));
        assert_eq!(lost, Some(Lost { messages: 2, last: 7, after: None }));
        assert_eq!(numbers.lost(at(9)), None);
        numbers.announced(u64::MAX, None, at(9));
        assert_eq!(numbers.lost(at(99)), None);
    }

    #[test]
    fn a_message_without_its_bytes_is_missing() {
        let mut numbers = Numbers::default();
        whole(&mut numbers, 1, at(0));
        numbers.announced(2, None, at(0));
        whole(&mut numbers, 3, at(0));
        assert_eq!(numbers.lost(at(1)), Some(Lost { messages: 1, last: 2, after: None }));
    }

    #[test]
    fn what_was_seen_a_moment_ago_is_not_lost_yet() {
        let mut numbers = Numbers::default();
        whole(&mut numbers, 2, at(0));
        whole(&mut numbers, 4, at(5));
        assert_eq!(numbers.lost(at(5)), Some(Lost { messages: 1, last: 1, after: None }));
        numbers.came(3);
        assert_eq!(numbers.lost(at(9)), None);
    }

    #[test]
    fn a_gap_does_not_hide_what_other_inputs_lack() {
        // The odd numbers are of an input that lost all five; of the other, 4 never came.
        let wide = Gap { messages: 5, ..gap(1, 9) };
        for lacks in [Some(4), None] {
            let mut numbers = Numbers::default();
            numbers.told(&wide);
            for number in [2, 4, 6, 8, 10].into_iter().filter(|number| Some(*number) != lacks) {
                whole(&mut numbers, number, at(0));
            }
            assert_eq!(numbers.lost(at(0)), None);
            // It may have been any of them, so what follows the first is doubtful.
            let lost = lacks.map(|_| Lost { messages: 1, last: 9, after: None });
            assert_eq!(numbers.lost(at(1)), lost);
            assert!(numbers.wide.is_empty());
        }
        // The recorder tells of a loss before it writes what waits.
        let mut numbers = Numbers::default();
        whole(&mut numbers, 1, at(0));
        numbers.told(&Gap { messages: 2, ..gap(3, 5) });
        numbers.announced(2, None, at(0));
        whole(&mut numbers, 4, at(0));
        whole(&mut numbers, 6, at(0));
        assert_eq!(numbers.lost(at(1)).map(|lost| lost.messages), Some(1), "2 has no bytes");
    }

    #[test]
    fn a_gap_cuts_runs_and_memory_is_bounded() {
        let mut numbers = Numbers::default();
        whole(&mut numbers, 10, at(0));
        numbers.told(&gap(4, 6));
        assert_eq!(numbers.lost(at(1)), Some(Lost { messages: 6, last: 9, after: None }));
        let mut numbers = Numbers::default();
        let (steps, step) = (3 * MOST_RUNS as u64, MOST_AHEAD);
        for k in 1..=steps {
            whole(&mut numbers, k * step, at(0));
        }
        assert!(numbers.missing.len() <= MOST_RUNS);
        let lost = numbers.lost(at(1)).unwrap();
        assert_eq!((lost.messages, lost.last), (steps * (step - 1), steps * step - 1));
    }
}
