//! Ticks compared with the CPU backend, while ticks go on.
//!
//! Every [`EVERY`] ticks the tick thread hands over a copy of its tensor, made after the tick and
//! with time left before the next one. This thread gives the oracle the same messages and compares
//! byte for byte. What the oracle has to have seen follows from the rules of time:
//!
//! - A vector is interpolated over its history: the oracle gets every one. The tick may be compared
//!   if it began after the subject had a vector stamped at or after its target (tick - lag), which
//!   is the last that it can have read.
//! - An image or a cloud is held: the tick shows the newest one stamped at or before its target and
//!   no other. The oracle gets this one alone, which is two encodes a second and not seventy. The
//!   tick may be compared if it began after the subject had it.
//!
//! A tick for which this does not hold because a message was late served what it had, and is only
//! counted: with a lag of 20 ms it is one in an overloaded machine.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use super::note::{Buffer, Note};
use super::timeline::{Span, Timeline, What};
use crate::error::BenchError;
use crate::pair::{compare, push};
use robocache_core::pipeline::Pipeline;
use robocache_core::spec::InputSpec;
use robocache_ops::time::{Epoch, NANOS_PER_MS};

/// Ticks between two comparisons: a prime, so that they meet every phase of the streams.
pub(super) const EVERY: i64 = 499;

/// A tick may reach this thread so much later than the messages after it \[ns\].
const SLACK_NS: i64 = 100 * NANOS_PER_MS;

/// Results of the comparisons.
#[derive(Debug, Default)]
pub(super) struct Checked {
    /// Ticks that were equal.
    pub equal: u64,
    /// Ticks that could not be compared, because messages were late.
    pub unsettled: u64,
    /// The tick that was not equal, which is the end.
    pub mismatch: Option<String>,
    /// When.
    pub spans: Vec<Span>,
}

/// A large message that a tick to come may show.
struct ShownMessage {
    stamp_ns: i64,
    /// True if the oracle has the message.
    fed: bool,
    message: Arc<Buffer>,
}

/// Gives the oracle what it needs.
pub(super) struct Checker<'a> {
    soak: &'a Timeline,
    oracle: &'a Pipeline,
    /// The lag of each input's stream.
    lags_ns: Vec<i64>,
    /// By input; none for vectors.
    held: Vec<VecDeque<ShownMessage>>,
    /// Targets before this instant can no longer be served.
    forgotten_ns: i64,
    checked: Checked,
}

impl<'a> Checker<'a> {
    /// A checker with an oracle in the state of the subject.
    pub(super) fn new(soak: &'a Timeline, oracle: &'a Pipeline) -> Self {
        let lag_ns = |input: &InputSpec| {
            input.stream.map_or(0, |stream| oracle.config().stream(stream).lag_ns)
        };
        Checker {
            soak,
            oracle,
            lags_ns: oracle.config().inputs.iter().map(lag_ns).collect(),
            held: oracle.config().inputs.iter().map(|_| VecDeque::new()).collect(),
            forgotten_ns: i64::MIN,
            checked: Checked::default(),
        }
    }

    /// Compares until there is nothing more to come, or something is not equal.
    pub(super) fn run(mut self, notes: Receiver<Note>) -> Result<Checked, BenchError> {
        for note in notes {
            match note {
                Note::Vector { input, stamp_ns, bytes } => {
                    push(self.oracle, input.index(), &bytes)?;
                    self.forget(stamp_ns);
                }
                Note::Lost { input, stamp_ns } => {
                    self.held[input.index()].retain(|held| held.stamp_ns != stamp_ns);
                }
                Note::End => break,
                Note::Large { input, stamp_ns, message } => {
                    self.held[input.index()].push_back(ShownMessage {
                        stamp_ns,
                        fed: false,
                        message,
                    });
                    self.forget(stamp_ns);
                }
                Note::Tick { tick, settled, message } => {
                    let from = self.soak.now();
                    self.check(tick, &settled, &message.bytes)?;
                    let to = self.soak.now();
                    self.checked.spans.push(Span { what: What::Check, from, to });
                    if self.checked.mismatch.is_some() {
                        self.soak.stop();
                        break;
                    }
                }
            }
        }
        Ok(self.checked)
    }

    /// Forgets what no tick after `now_ns` can show.
    fn forget(&mut self, now_ns: i64) {
        let longest_ns = self.lags_ns.iter().copied().max().unwrap_or(0);
        let before = now_ns - longest_ns - SLACK_NS;
        self.forgotten_ns = self.forgotten_ns.max(before);
        for held in &mut self.held {
            while held.get(1).is_some_and(|next| next.stamp_ns <= before) {
                held.pop_front();
            }
        }
    }

    fn check(&mut self, tick: i64, settled: &[i64], found: &[u8]) -> Result<(), BenchError> {
        let target = |input: usize| tick * NANOS_PER_MS - self.lags_ns[input];
        let shown = |input: usize, held: &VecDeque<ShownMessage>| {
            held.iter().rposition(|held| held.stamp_ns <= target(input))
        };
        let there = |input: usize| match shown(input, &self.held[input]) {
            Some(at) => self.held[input][at].stamp_ns <= settled[input],
            // Nothing but what was there before the start.
            None => true,
        };
        let is_large = |input: &usize| self.oracle.config().inputs[*input].is_large();
        let (large, vectors): (Vec<usize>, Vec<usize>) = (0..self.held.len()).partition(is_large);
        let vectors_are_there = vectors.iter().all(|input| settled[*input] >= target(*input));
        let forgotten = (0..self.held.len()).any(|input| target(input) < self.forgotten_ns);
        if forgotten || !vectors_are_there || !large.iter().copied().all(there) {
            self.checked.unsettled += 1;
            return Ok(());
        }
        let at: Vec<_> = large.iter().map(|input| shown(*input, &self.held[*input])).collect();
        for (input, at) in large.into_iter().zip(at) {
            if let Some(at) = at
                && let held = &mut self.held[input][at]
                && !held.fed
            {
                push(self.oracle, input, &held.message.bytes)?;
                held.fed = true;
            }
        }
        // A new one each time: nothing is taken over from the tick before.
        let mut expected = self.oracle.new_message();
        self.oracle.tick(tick, Epoch::default(), &mut expected)?;
        match compare(&format!("tick {tick}"), found, expected.message()) {
            Ok(()) => self.checked.equal += 1,
            Err(error) => self.checked.mismatch = Some(error.to_string()),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
