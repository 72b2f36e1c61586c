//! The queue between the receiving threads and the encode workers: the newest messages of every
//! large input.

use std::collections::VecDeque;
use std::fmt;
use std::time::Instant;

use super::publisher::PublisherId;
use super::steps::Found;
use super::time_source::TimeSource;
use crate::sync::{Condvar, Mutex, MutexGuard, PoisonError, lock};
use robocache_core::pipeline::Arrival;
use robocache_core::spec::{Config, InputId};
use robocache_ops::time::Epoch;

/// Messages of one large input that may wait for an encode worker. Four are about a tenth of a
/// second of a camera, for moments in which the processor is busy.
pub const QUEUED_MESSAGES: usize = 4;

/// A serialized message on its way to an encode worker.
pub struct Message {
    /// The input that received it.
    pub input: InputId,
    /// Who published it; `None` if unknown.
    pub publisher: Option<PublisherId>,
    /// Its number in a recording; 0 if it is in none.
    pub number: u64,
    /// True if it is a latched one that is taken again, because an epoch has begun.
    pub again: bool,
    /// Its CDR bytes, in whatever memory they arrived.
    pub bytes: Box<dyn AsRef<[u8]> + Send>,
    /// When it arrived.
    pub arrival: Arrival,
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let len = (*self.bytes).as_ref().len();
        write!(f, "{len} bytes of {:?}, {:?}", self.input, self.arrival)
    }
}

/// A bounded queue for each input. Messages leave in the order of arrival, but those of a lane one at
/// a time: while a worker has one, the others wait. So the messages of a stream are encoded in their
/// order, and a slow stream occupies one worker.
///
/// If an input's queue is full, its oldest message is dropped: a policy wants the newest, and one
/// slow input must not delay the others or take more memory.
#[derive(Debug)]
pub(crate) struct Queue {
    state: Mutex<QueueState>,
    /// A message came, or a lane became free.
    changed: Condvar,
    per_input: usize,
    /// The lane of each input.
    lanes: Vec<usize>,
    time: TimeSource,
}

#[derive(Debug)]
struct QueueState {
    /// All messages in the order of arrival. They are few, so a scan is cheaper than several
    /// queues.
    messages: VecDeque<Message>,
    /// Messages that were put back; they leave first.
    put_back: VecDeque<Message>,
    /// By lane: whether a worker has a message of it.
    busy: Vec<bool>,
    closed: bool,
}

impl QueueState {
    /// The place of the oldest message of a free lane, and whether it is among those that were put back.
    fn next(&self, lanes: &[usize]) -> Option<(bool, usize)> {
        let is_free = |message: &Message| !self.busy[lanes[message.input.index()]];
        let of = |messages: &VecDeque<Message>| messages.iter().position(is_free);
        let put_back = of(&self.put_back).map(|at| (true, at));
        put_back.or_else(|| of(&self.messages).map(|at| (false, at)))
    }
}

/// Returns the lane of each input of a configuration: that of its stream, or one of its own.
pub(crate) fn lanes(config: &Config) -> Vec<usize> {
    let lane = |id: InputId| match config.input(id).stream {
        Some(stream) => stream.index(),
        None => config.streams.len() + id.index(),
    };
    config.input_ids().map(lane).collect()
}

/// A message that a worker has. A drop frees its lane.
pub(crate) struct Taken<'a> {
    /// The message.
    pub message: Message,
    queue: &'a Queue,
}

impl Taken<'_> {
    /// Gives the message up, and frees its lane.
    pub(crate) fn into_message(mut self) -> Message {
        let bytes = std::mem::replace(&mut self.message.bytes, Box::new([]));
        let Message { input, publisher, number, again, arrival, .. } = self.message;
        Message { input, publisher, number, again, bytes, arrival }
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let lane = self.queue.lanes[self.message.input.index()];
        self.queue.lock().busy[lane] = false;
        self.queue.changed.notify_one();
    }
}

impl Queue {
    /// Makes a queue of at most `per_input` messages for each input. `lanes` has the lane of each
    /// input.
    pub(crate) fn new(per_input: usize, lanes: Vec<usize>, time: TimeSource) -> Self {
        let busy = vec![false; lanes.iter().max().map_or(0, |last| last + 1)];
        let messages = VecDeque::new();
        let put_back = VecDeque::new();
        let state = QueueState { messages, put_back, busy, closed: false };
        let state = Mutex::new(state);
        let changed = Condvar::new();
        Queue { state, changed, per_input, lanes, time }
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        // Every change is one push or pop, so a panic of another thread leaves no half change.
        lock(&self.state)
    }

    /// Adds a message. If the input's queue was full, returns the message that is dropped.
    pub(crate) fn put(&self, message: Message) -> Option<Message> {
        let mut state = self.lock();
        let input = message.input;
        let held = state.messages.iter().filter(|m| m.input == input).count();
        let oldest = state.messages.iter().position(|m| m.input == input);
        let overwritten = match oldest {
            Some(oldest) if held >= self.per_input => state.messages.remove(oldest),
            _ => None,
        };
        state.messages.push_back(message);
        drop(state);
        self.changed.notify_one();
        overwritten
    }

    /// Adds messages that were taken before, in front of all others. They do not count as waiting for a worker: neither
    /// they nor others are dropped because the queue is full.
    pub(crate) fn put_back(&self, messages: Vec<Message>) {
        let mut state = self.lock();
        messages.into_iter().rev().for_each(|message| state.put_back.push_front(message));
        drop(state);
        self.changed.notify_all();
    }

    /// Takes the oldest message of a free lane.
    pub(crate) fn take(&self) -> Found<Taken<'_>> {
        let mut state = self.lock();
        if state.closed {
            return Found::Closed;
        }
        let Some((of_put_back, at)) = state.next(&self.lanes) else { return Found::Nothing };
        let QueueState { messages, put_back, busy, .. } = &mut *state;
        let messages = if of_put_back { put_back } else { messages };
        let Some(message) = messages.remove(at) else { return Found::Nothing };
        busy[self.lanes[message.input.index()]] = true;
        Found::Work(Taken { message, queue: self })
    }

    /// Waits until there is a message of a free lane or the queue is closed, but not longer than until `end`.
    pub(crate) fn wait(&self, end: Option<Instant>) {
        let mut state = self.lock();
        while !state.closed && state.next(&self.lanes).is_none() {
            let Some(end) = end else {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let left = self.time.until(end);
            if left.is_zero() {
                return;
            }
            let waited = self.changed.wait_timeout(state, left);
            (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Removes the messages of epochs before `epoch` and returns them.
    pub(crate) fn remove_before(&self, epoch: Epoch) -> Vec<Message> {
        let mut state = self.lock();
        let QueueState { messages, put_back, .. } = &mut *state;
        let is_past = |message: &Message| message.arrival.epoch.is_before(epoch);
        let mut removed = Vec::new();
        for messages in [put_back, messages] {
            let (past, left): (VecDeque<_>, _) =
                std::mem::take(messages).into_iter().partition(is_past);
            *messages = left;
            removed.extend(past);
        }
        removed
    }

    /// Closes the queue: [`Queue::take`] finds that, now and later.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests;
