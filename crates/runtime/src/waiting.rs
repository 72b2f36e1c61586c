//! Messages that wait for a transform. They hold no worker.

use std::collections::VecDeque;

use super::queue::Message;
use robocache_core::pipeline::{AwaitedTransforms, Pipeline};
use robocache_core::rejected::Rejected;
use robocache_core::spec::{Config, InputId};
use robocache_ops::time::{Epoch, NANOS_PER_MS, Stamp};

/// Most messages of an input that wait.
const MAX_MESSAGES: usize = 256;
/// Most bytes of an input's messages that wait.
const MAX_BYTES: usize = 64 << 20;

/// Messages that wait for a transform, in the order of arrival; few of each input.
///
/// The outcome of a message depends on arrivals alone, and not on when a thread looks. So before a transform is used,
/// the caller calls [`Waiting::expired`] with the transform's arrival.
#[derive(Debug)]
pub(crate) struct Waiting {
    messages: VecDeque<Held>,
    wait_ns: i64,
}

#[derive(Debug)]
struct Held {
    message: Message,
    need: AwaitedTransforms,
}

impl Held {
    fn bytes(&self) -> usize {
        (*self.message.bytes).as_ref().len()
    }
}

impl Waiting {
    /// An empty list for a configuration.
    pub(crate) fn new(config: &Config) -> Self {
        let wait_ns = config.tf.map_or(0, |tf| tf.wait_ns);
        Waiting { messages: VecDeque::new(), wait_ns }
    }

    /// Number of an input's messages that wait.
    pub(crate) fn of(&self, input: InputId) -> usize {
        self.messages.iter().filter(|held| held.message.input == input).count()
    }

    /// Adds a message to the end of its input's. If there are too many, returns the input's oldest
    /// messages, which must be dropped.
    #[must_use = "what made room must be counted as dropped"]
    pub(crate) fn put(
        &mut self,
        message: Message,
        need: AwaitedTransforms,
    ) -> Vec<(Message, Rejected)> {
        let input = message.input;
        let arrival = message.arrival.stamp;
        // A worker may finish with an older message later than with a newer one.
        let newer = |held: &Held| held.message.arrival.stamp > arrival;
        let place = self.messages.iter().rposition(|held| !newer(held)).map_or(0, |at| at + 1);
        self.messages.insert(place, Held { message, need });
        let mut crowded_out = Vec::new();
        loop {
            let of_input = || self.messages.iter().filter(|held| held.message.input == input);
            let held = of_input().count();
            let bytes = of_input().map(Held::bytes).sum::<usize>();
            if held <= MAX_MESSAGES && (bytes <= MAX_BYTES || held == 1) {
                return crowded_out;
            }
            let oldest = self.messages.iter().position(|held| held.message.input == input);
            let Some(old) = oldest.and_then(|at| self.messages.remove(at)) else {
                return crowded_out;
            };
            let why = old.need.crowded_out(held - 1);
            crowded_out.push((old.message, why));
        }
    }

    /// Takes out the messages whose wait is over at `now`, each with the reason for its drop.
    pub(crate) fn expired(&mut self, epoch: Epoch, now: Stamp) -> Vec<(Message, Rejected)> {
        let wait_ns = self.wait_ns;
        let over = |held: &Held| {
            let Held { message, .. } = held;
            let waited = message.arrival.stamp.is_some_and(|since| now.since(since) > wait_ns);
            waited && message.arrival.epoch == epoch
        };
        let waited_ms = wait_ns as f64 / NANOS_PER_MS as f64;
        let drop = |Held { message, need }| (message, need.given_up(waited_ms));
        self.take(over).into_iter().map(drop).collect()
    }

    /// Takes out the messages that can be pushed again: a transform that has come helps, or none
    /// ever will.
    pub(crate) fn settled(&mut self, pipeline: &Pipeline) -> Vec<Message> {
        let settled = self.take(|held| pipeline.is_settled(&held.need));
        settled.into_iter().map(|held| held.message).collect()
    }

    /// Takes out the messages of epochs before `epoch`.
    pub(crate) fn before(&mut self, epoch: Epoch) -> Vec<Message> {
        let past = self.take(|held| held.message.arrival.epoch.is_before(epoch));
        past.into_iter().map(|held| held.message).collect()
    }

    fn take(&mut self, is_out: impl Fn(&Held) -> bool) -> Vec<Held> {
        if !self.messages.iter().any(&is_out) {
            return Vec::new();
        }
        let messages = std::mem::take(&mut self.messages);
        let (out, left): (VecDeque<_>, _) = messages.into_iter().partition(is_out);
        self.messages = left;
        out.into()
    }
}

#[cfg(test)]
mod tests;
