//! Waits in this process.

use std::panic::resume_unwind;
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread::{JoinHandle, ScopedJoinHandle};
use std::time::{Duration, Instant};

use super::evidence::Facts;

/// The first word of the panic if an event did not come in time.
pub const NOT_IN_TIME: &str = "NotInTime: ";
/// Names the patience in seconds, also for the tests in Python.
const PATIENCE: &str = "ROBOCACHE_PATIENCE_S";
/// Time between two looks.
const NAP: Duration = Duration::from_millis(1);
/// Longest wait without a look at the processor times.
const SLICE: Duration = Duration::from_secs(1);

/// Patience of every wait.
///
/// # Panics
/// The environment has another text than a number of seconds in `ROBOCACHE_PATIENCE_S`.
pub fn patience() -> Duration {
    static FOUND: OnceLock<Duration> = OnceLock::new();
    *FOUND.get_or_init(|| {
        let read = |text: String| {
            let wrong = |_| panic!("{PATIENCE}: expected a number of seconds, found {text:?}");
            text.parse().unwrap_or_else(wrong)
        };
        let seconds = std::env::var(PATIENCE).map_or(90.0, read);
        Duration::from_secs_f64(seconds)
    })
}

/// One wait for an event. The caller looks for the event, and calls [`Wait::check`] after each look in vain.
pub struct Wait<'a> {
    /// The event.
    what: &'a str,
    patience: Duration,
    began: Instant,
    facts: Facts,
}

impl<'a> Wait<'a> {
    /// Begins a wait for this event.
    pub fn new(what: &'a str) -> Self {
        Wait::of(what, patience())
    }

    /// Begins a wait with a patience of its own.
    pub(super) fn of(what: &'a str, patience: Duration) -> Self {
        Wait { what, patience, began: Instant::now(), facts: Facts::new() }
    }

    /// Time for which the caller may wait before it calls [`Wait::check`].
    pub fn slice(&self) -> Duration {
        SLICE.min(self.patience.saturating_sub(self.began.elapsed()))
    }

    /// Notes that the event has not come yet.
    ///
    /// # Panics
    /// The time is over.
    #[track_caller]
    pub fn check(&mut self) {
        let waited = self.began.elapsed();
        // Most waits are over before.
        if waited >= SLICE {
            self.facts.look();
        }
        if waited >= self.patience {
            let what = self.what.replace('\n', " ");
            let seconds = waited.as_secs_f64();
            let facts = self.facts.text(self.patience);
            panic!("{NOT_IN_TIME}{what}: waited {seconds:.1} s {facts}");
        }
    }
}

/// Waits until the condition holds.
///
/// # Panics
/// It did not hold in time.
#[track_caller]
pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    some(what, || condition().then_some(()));
}

/// Waits until a look finds something, and returns that.
///
/// # Panics
/// It found nothing in time.
#[track_caller]
pub fn some<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let mut wait = Wait::new(what);
    loop {
        if let Some(found) = look() {
            return found;
        }
        wait.check();
        std::thread::sleep(NAP);
    }
}

/// Waits for a value of a channel.
///
/// # Panics
/// None came in time, or the sender is gone.
#[track_caller]
pub fn received<T>(what: &str, receiver: &Receiver<T>) -> T {
    let mut wait = Wait::new(what);
    loop {
        match receiver.recv_timeout(wait.slice()) {
            Ok(value) => return value,
            Err(RecvTimeoutError::Timeout) => wait.check(),
            Err(RecvTimeoutError::Disconnected) => panic!("{what}: the sender is gone"),
        }
    }
}

/// Waits for the end of a thread, and returns its value. If it panicked, this thread goes on with that panic.
///
/// # Panics
/// It did not end in time.
#[track_caller]
pub fn ended<T>(what: &str, thread: impl Thread<T>) -> T {
    until(what, || thread.has_ended());
    thread.value()
}

/// A thread whose end is waited for.
pub trait Thread<T> {
    /// True if it has ended.
    fn has_ended(&self) -> bool;
    /// Its value, after its end.
    fn value(self) -> T;
}

impl<T> Thread<T> for JoinHandle<T> {
    fn has_ended(&self) -> bool {
        self.is_finished()
    }

    fn value(self) -> T {
        self.join().unwrap_or_else(|panic| resume_unwind(panic))
    }
}

impl<T> Thread<T> for ScopedJoinHandle<'_, T> {
    fn has_ended(&self) -> bool {
        self.is_finished()
    }

    fn value(self) -> T {
        self.join().unwrap_or_else(|panic| resume_unwind(panic))
    }
}

/// A function that is called at the end of a block, also after a panic: it ends the threads of a scope, which would
/// otherwise wait for ever.
#[must_use = "it is called at once if nobody keeps this"]
pub struct Finally<F: FnMut()>(pub F);

impl<F: FnMut()> Drop for Finally<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}
