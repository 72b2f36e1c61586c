//! Hands now and then a copy of a tensor message from the publishing thread to the thread that shows
//! it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use robocache_ops::sync::lock;

/// A slot for the copy of a message. The publishing thread copies one only if it is asked to.
#[derive(Debug, Default)]
pub struct Tap {
    wanted: AtomicBool,
    state: Mutex<TapState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct TapState {
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
        let idle = |state: &mut TapState| state.copy.is_none() && !state.closed;
        let waited = self.changed.wait_while(state, idle);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        if state.closed { None } else { state.copy.take() }
    }

    /// Waits for a time. Returns `false` if the tap is closed before.
    pub fn wait_for(&self, time: Duration) -> bool {
        let open = |state: &mut TapState| !state.closed;
        let waited = self.changed.wait_timeout_while(lock(&self.state), time, open);
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
mod tests;
