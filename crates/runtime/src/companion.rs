//! Keeps the publishing thread on the processor of the tick thread.
//!
//! The tick thread has just written the tensor, so that processor has it in its cache. And no other processor has to be
//! woken, which takes longer than the rest of the hand-over. The tick thread is about to sleep, and goes first if it is
//! due again. Both threads must have real-time priority, because at ordinary priority another thread may take the
//! processor. A publication must take little of the period, because a long one must run beside the next tick.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use nix::sched::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
use nix::unistd::{Pid, gettid};

/// Value of `place` for a thread that any of its processors may run.
const ANYWHERE: usize = usize::MAX;

/// The publishing thread works, or has ended: it stays where it is.
const WORKS: u8 = 0;
/// It waits for a tensor, and may run anywhere.
const WAITS: u8 = 1;
/// It waits for a tensor, and follows the tick thread.
const FOLLOWS: u8 = 2;

/// The publishing thread, as the tick thread sees it.
#[derive(Debug)]
pub(crate) struct Companion {
    /// The publishing thread, and the processors that may run it; empty if it stays where it is.
    thread: OnceLock<(Pid, CpuSet)>,
    /// State of the publishing thread.
    state: AtomicU8,
    /// The processor that it was called to.
    place: AtomicUsize,
}

impl Default for Companion {
    fn default() -> Self {
        let state = AtomicU8::new(WORKS);
        let place = AtomicUsize::new(ANYWHERE);
        Companion { thread: OnceLock::new(), state, place }
    }
}

impl Companion {
    /// The calling thread, which publishes, follows the tick thread from now on.
    pub(crate) fn follow(&self) {
        // Where the system does not tell the processors, the thread stays free.
        if let Ok(processors) = sched_getaffinity(Pid::from_raw(0)) {
            let _ = self.thread.set((gettid(), processors));
        }
    }

    /// Notes that the publishing thread waits for a tensor, and whether it follows: if it has real-time
    /// priority, and publishes quickly.
    pub(crate) fn waits(&self, follows: bool) {
        self.state.store(if follows { FOLLOWS } else { WAITS }, Ordering::Relaxed);
    }

    /// Notes that the publishing thread works. Until it is done it is not moved, because a move takes a while.
    pub(crate) fn works(&self) {
        self.state.store(WORKS, Ordering::Relaxed);
    }

    /// Calls the publishing thread to the processor of the calling thread, the tick thread. `is_urgent` says
    /// whether that has real-time priority; if not, the publishing thread may run anywhere.
    pub(crate) fn call(&self, is_urgent: bool) {
        let Some((thread, processors)) = self.thread.get() else { return };
        let here = match self.state.load(Ordering::Relaxed) {
            WORKS => return,
            FOLLOWS if is_urgent => sched_getcpu().unwrap_or(ANYWHERE),
            _ => ANYWHERE,
        };
        if self.place.load(Ordering::Relaxed) == here {
            return;
        }
        let mut wanted = *processors;
        if here != ANYWHERE {
            wanted = CpuSet::new();
            if wanted.set(here).is_err() {
                return;
            }
        }
        // If the system refuses, the thread runs where it did. The next tick asks again.
        if sched_setaffinity(*thread, &wanted).is_ok() {
            self.place.store(here, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests;
