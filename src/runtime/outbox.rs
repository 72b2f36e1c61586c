//! Hands finished tensors from the tick thread to the publishing thread.

use std::thread::Thread;

use super::Reading;
use crate::pipeline::TensorMessage;
use crate::sync::PiMutex;

/// Messages that go around: one is fused, one waits, one is published.
const MESSAGES: usize = 3;

/// The tensor of a tick, on its way to the publisher.
#[derive(Debug)]
pub struct Finished {
    /// The tensor.
    pub message: TensorMessage,
    /// The number of its tick.
    pub tick: i64,
    /// The reading of the clock that made the tick due.
    pub due: Reading,
}

/// A slot for the newest tensor. If a tensor is still in the slot when the next one is finished, it
/// is overwritten: a policy wants the newest. So the tick thread never waits for the middleware,
/// and nothing is allocated.
#[derive(Debug)]
pub struct Outbox {
    /// Every change is one move, so a panic of another thread leaves no half change.
    state: PiMutex<State>,
}

#[derive(Debug)]
struct State {
    waiting: Option<Finished>,
    /// The thread that waits for a tensor. It parks, and a wake-up takes no lock.
    reader: Option<Thread>,
    /// Messages that nobody uses. The one that was used last is taken first, because it has most of
    /// the values of the next tick, and is in the cache.
    free: Vec<TensorMessage>,
    closed: bool,
}

impl Outbox {
    /// Makes an empty slot. `message` makes memory for a tensor.
    pub fn new(message: impl FnMut() -> TensorMessage) -> Self {
        let free = std::iter::repeat_with(message).take(MESSAGES).collect();
        let state = State { waiting: None, reader: None, free, closed: false };
        Outbox { state: PiMutex::new(state) }
    }

    /// Takes a message to fuse the next tick into; `None` if all are in use, which needs a second
    /// tick thread.
    pub fn free(&self) -> Option<TensorMessage> {
        self.state.lock().free.pop()
    }

    /// Takes back a message that nobody uses any more.
    pub fn give_back(&self, message: TensorMessage) {
        self.state.lock().free.push(message);
    }

    /// Puts a tensor into the slot. Returns the one that it overwrote, whose message the caller gives back.
    #[must_use = "the message of an overwritten tensor must come back"]
    pub fn put(&self, finished: Finished) -> Option<Finished> {
        let mut state = self.state.lock();
        let overwritten = state.waiting.replace(finished);
        let reader = state.reader.take();
        drop(state);
        reader.inspect(Thread::unpark);
        overwritten
    }

    /// Whether no tensor waits.
    pub fn is_empty(&self) -> bool {
        self.state.lock().waiting.is_none()
    }

    /// Waits for a tensor; `None` if the outbox is closed. One thread at a time may wait.
    pub fn take(&self) -> Option<Finished> {
        loop {
            let mut state = self.state.lock();
            if state.closed {
                return None;
            }
            if let Some(finished) = state.waiting.take() {
                return Some(finished);
            }
            state.reader = Some(std::thread::current());
            drop(state);
            // It may also return for no reason.
            std::thread::park();
        }
    }

    /// Closes the outbox: [`Outbox::take`] returns at once, now and later.
    pub fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        let reader = state.reader.take();
        drop(state);
        reader.inspect(Thread::unpark);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::cpu::CpuBackend;
    use crate::layout::Layout;
    use crate::pipeline::Pipeline;
    use crate::sync::preempted;
    use crate::time::{Epoch, Stamp};
    use std::sync::Arc;
    use std::time::Instant;

    fn outbox() -> Outbox {
        let config = "rate_hz: 100\nstreams: {w: {type: geometry_msgs/WrenchStamped, topic: /w, \
                      max_age_ms: 50}}";
        let config = crate::config::parse(config, "test.yaml").unwrap();
        let backend = Arc::new(CpuBackend::new(&config, &Layout::new(&config)).unwrap());
        let pipeline = Pipeline::new(config, backend).unwrap();
        Outbox::new(|| pipeline.new_message())
    }

    fn put(outbox: &Outbox, tick: i64) -> bool {
        let message = outbox.free().unwrap();
        let due = Reading { stamp: Stamp::ZERO, since: Instant::now(), epoch: Epoch::default() };
        let overwritten = outbox.put(Finished { message, tick, due });
        let message = overwritten.map(|overwritten| outbox.give_back(overwritten.message));
        message.is_some()
    }

    #[test]
    fn the_newest_tensor_waits_and_those_that_it_overwrites_are_told() {
        let outbox = outbox();
        assert_eq!([put(&outbox, 1), put(&outbox, 2), put(&outbox, 3)], [false, true, true]);
        let taken = outbox.take().unwrap();
        assert_eq!(taken.tick, 3);
        // While it is being published, ticks go on.
        assert_eq!([put(&outbox, 4), put(&outbox, 5)], [false, true]);
        outbox.give_back(taken.message);
        assert_eq!(outbox.take().unwrap().tick, 5);
    }

    #[test]
    fn a_reader_that_waits_is_woken_by_a_tensor_and_by_the_end() {
        let outbox = Arc::new(outbox());
        let reader = Arc::clone(&outbox);
        let read = move || std::iter::from_fn(|| reader.take()).map(|taken| taken.tick).collect();
        let thread = std::thread::spawn(read);
        for tick in 1..=3 {
            // The reader waits, for the first one or again.
            while outbox.state.lock().reader.is_none() {
                std::thread::yield_now();
            }
            // What wakes it for no reason changes nothing.
            thread.thread().unpark();
            let due =
                Reading { stamp: Stamp::ZERO, since: Instant::now(), epoch: Epoch::default() };
            let message = outbox.free().unwrap();
            assert!(outbox.put(Finished { message, tick, due }).is_none());
        }
        while !outbox.is_empty() {
            std::thread::yield_now();
        }
        outbox.close();
        let taken: Vec<i64> = thread.join().unwrap();
        assert_eq!(taken, [1, 2, 3]);
    }

    #[test]
    fn a_preempted_thread_that_looks_into_the_outbox_delays_no_tick() {
        let outbox = outbox();
        preempted::check(
            || assert!(!put(&outbox, 1)),
            |act| {
                let _state = outbox.state.lock();
                act();
            },
        );
    }
}
