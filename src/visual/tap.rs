//! Hands now and then a copy of a tensor message from the publishing thread to the thread that shows
//! it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Instant;

use crate::sync::lock;

/// A slot for the copy of a message. The publishing thread copies one only if it is asked to.
#[derive(Debug, Default)]
pub struct Tap {
    wanted: AtomicBool,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    copy: Option<Vec<u8>>,
    /// Memory for the next copy.
    spare: Vec<u8>,
    closed: bool,
}

impl Tap {
    /// Copies a message if one is wanted. Otherwise it reads one flag.
    pub fn offer(&self, message: &[u8]) {
        if !self.wanted.load(Ordering::Relaxed) {
            return;
        }
        self.wanted.store(false, Ordering::Relaxed);
        let mut state = lock(&self.state);
        let mut copy = std::mem::take(&mut state.spare);
        copy.clear();
        copy.extend_from_slice(message);
        state.copy = Some(copy);
        drop(state);
        self.changed.notify_one();
    }

    /// Waits for the next message; `None` if the tap is closed. `spare` is memory for the next copy.
    pub fn next(&self, spare: Vec<u8>) -> Option<Vec<u8>> {
        let mut state = lock(&self.state);
        state.spare = spare;
        self.wanted.store(true, Ordering::Relaxed);
        let idle = |state: &mut State| state.copy.is_none() && !state.closed;
        let waited = self.changed.wait_while(state, idle);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        if state.closed { None } else { state.copy.take() }
    }

    /// Waits until an instant. Returns `false` if the tap is closed before.
    pub fn wait_until(&self, instant: Instant) -> bool {
        let left = instant.saturating_duration_since(Instant::now());
        let open = |state: &mut State| !state.closed;
        let waited = self.changed.wait_timeout_while(lock(&self.state), left, open);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        !state.closed
    }

    /// Ends all waits, now and later.
    pub fn close(&self) {
        lock(&self.state).closed = true;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::time::Duration;

    #[test]
    fn only_a_message_that_is_wanted_is_copied() {
        let tap = Arc::new(Tap::default());
        tap.offer(b"before");
        assert!(lock(&tap.state).copy.is_none());
        let await_reader = || {
            while !tap.wanted.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
        };
        let reader = Arc::clone(&tap);
        let thread = std::thread::spawn(move || reader.next(Vec::with_capacity(100)).unwrap());
        await_reader();
        tap.offer(b"one");
        tap.offer(b"two");
        let first = thread.join().unwrap();
        assert_eq!(first, b"one");
        let place = first.as_ptr().addr();
        let reader = Arc::clone(&tap);
        let thread = std::thread::spawn(move || reader.next(first).unwrap());
        await_reader();
        tap.offer(b"three");
        let second = thread.join().unwrap();
        assert_eq!((second.as_slice(), second.as_ptr().addr()), (&b"three"[..], place));
    }

    #[test]
    fn a_closed_tap_ends_every_wait() {
        let tap = Arc::new(Tap::default());
        assert!(tap.wait_until(Instant::now() + Duration::from_millis(5)));
        let reader = Arc::clone(&tap);
        let late = Instant::now() + Duration::from_secs(600);
        let thread = std::thread::spawn(move || (reader.wait_until(late), reader.next(Vec::new())));
        tap.close();
        assert_eq!(thread.join().unwrap(), (false, None));
    }
}
