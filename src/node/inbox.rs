//! Between the spin thread and the encoder: the newest few messages of every large stream.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::sync::lock;
use crate::time::Stamp;

/// A serialized message on its way to the encoder.
#[derive(Debug, PartialEq, Eq)]
pub struct Message {
    /// Stream index in the configuration.
    pub stream: usize,
    /// The message's CDR bytes, as the middleware gave them.
    pub bytes: Vec<u8>,
    /// The node's clock on arrival.
    pub receive: Stamp,
}

/// A bounded queue per stream; messages leave in the order of arrival over all streams.
///
/// A stream whose queue is full loses its oldest message: what a policy wants is the newest, and
/// one slow stream must not hold up or grow the memory of the others.
#[derive(Debug)]
pub struct Inbox {
    state: Mutex<State>,
    filled: Condvar,
    per_stream: usize,
}

#[derive(Debug, Default)]
struct State {
    /// In order of arrival; a handful at most, so that a scan is cheaper than a queue per stream.
    messages: VecDeque<Message>,
    closed: bool,
}

impl Inbox {
    /// An inbox of at most `per_stream` messages of each stream.
    pub fn new(per_stream: usize) -> Self {
        Inbox { state: Mutex::default(), filled: Condvar::new(), per_stream }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change is one push or pop: a panic elsewhere cannot have left half of one.
        lock(&self.state)
    }

    /// Adds a message; returns the stream's oldest one if that had to make room.
    pub fn put(&self, message: Message) -> Option<Message> {
        let mut state = self.lock();
        let stream = message.stream;
        let held = state.messages.iter().filter(|m| m.stream == stream).count();
        let oldest = state.messages.iter().position(|m| m.stream == stream);
        let overwritten = match oldest {
            Some(oldest) if held >= self.per_stream => state.messages.remove(oldest),
            _ => None,
        };
        state.messages.push_back(message);
        drop(state);
        self.filled.notify_one();
        overwritten
    }

    /// Waits until there is a message; `false` once the inbox is closed.
    pub fn wait(&self) -> bool {
        let state = self.lock();
        let idle = |state: &mut State| state.messages.is_empty() && !state.closed;
        let state = self.filled.wait_while(state, idle).unwrap_or_else(PoisonError::into_inner);
        !state.closed
    }

    /// The message that has waited longest.
    pub fn take(&self) -> Option<Message> {
        self.lock().messages.pop_front()
    }

    /// Ends the waiting, now and later.
    pub fn close(&self) {
        self.lock().closed = true;
        self.filled.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(stream: usize, byte: u8) -> Message {
        Message { stream, bytes: vec![byte], receive: Stamp::ZERO }
    }

    #[test]
    fn overload_loses_the_oldest_of_the_stream_that_is_too_fast() {
        let inbox = Inbox::new(2);
        assert_eq!(inbox.put(message(0, 1)), None);
        assert_eq!(inbox.put(message(1, 2)), None);
        assert_eq!(inbox.put(message(0, 3)), None);
        assert_eq!(inbox.put(message(0, 4)), Some(message(0, 1)));
        let left: Vec<u8> = std::iter::from_fn(|| inbox.take()).map(|m| m.bytes[0]).collect();
        assert_eq!(left, [2, 3, 4]);
    }

    #[test]
    fn a_closed_inbox_wakes_its_reader() {
        let inbox = std::sync::Arc::new(Inbox::new(1));
        let reader = std::sync::Arc::clone(&inbox);
        let thread = std::thread::spawn(move || reader.wait());
        inbox.close();
        assert!(!thread.join().unwrap());
    }
}
