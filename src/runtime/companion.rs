//! Keeps the publishing thread on the processor of the tick thread.
//!
//! The tick thread has just written the tensor, so that processor has it in its cache. And no other processor
//! has to be woken, which takes longer than the rest of the hand-over. The tick thread is about to sleep, and
//! goes first if it is due again. This holds only while both have real-time priority, because at ordinary
//! priority another thread may take the processor meanwhile; and only while a publication takes little of the
//! period, because a long one must run beside the next tick.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use nix::sched::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
use nix::unistd::{Pid, gettid};

/// The place of a thread that any of its processors may run.
const ANYWHERE: usize = usize::MAX;

/// The publishing thread works, or has ended: it stays where it is.
const WORKS: u8 = 0;
/// It waits for a tensor, and may run anywhere.
const WAITS: u8 = 1;
/// It waits for a tensor, and follows the tick thread.
const FOLLOWS: u8 = 2;

/// The publishing thread, as the tick thread sees it.
#[derive(Debug)]
pub struct Companion {
    /// The publishing thread, and the processors that may run it; empty if it stays where it is.
    thread: OnceLock<(Pid, CpuSet)>,
    /// What the publishing thread does.
    state: AtomicU8,
    /// The processor that it was called to.
    place: AtomicUsize,
}

impl Default for Companion {
    fn default() -> Self {
        let (state, place) = (AtomicU8::new(WORKS), AtomicUsize::new(ANYWHERE));
        Companion { thread: OnceLock::new(), state, place }
    }
}

impl Companion {
    /// The calling thread, which publishes, follows the tick thread from now on.
    pub fn follow(&self) {
        // Where the system does not tell the processors, the thread stays free.
        if let Ok(processors) = sched_getaffinity(Pid::from_raw(0)) {
            let _ = self.thread.set((gettid(), processors));
        }
    }

    /// Notes that the publishing thread waits for a tensor, and whether it follows: if it has real-time
    /// priority, and publishes quickly.
    pub fn waits(&self, follows: bool) {
        self.state.store(if follows { FOLLOWS } else { WAITS }, Ordering::Relaxed);
    }

    /// Notes that the publishing thread works. Nobody moves it meanwhile, which would take a while.
    pub fn works(&self) {
        self.state.store(WORKS, Ordering::Relaxed);
    }

    /// Calls the publishing thread to the processor of the calling thread, the tick thread. `is_urgent` says
    /// whether that has real-time priority; if not, the publishing thread may run anywhere.
    pub fn call(&self, is_urgent: bool) {
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
mod tests {
    use super::*;
    use std::sync::{Arc, Barrier};

    /// The processors that may run a thread.
    fn processors_of(thread: Pid) -> Vec<usize> {
        let set = sched_getaffinity(thread).unwrap();
        (0..CpuSet::count()).filter(|cpu| set.is_set(*cpu).unwrap()).collect()
    }

    #[test]
    fn the_publishing_thread_follows_while_it_waits_and_the_tick_thread_is_urgent() {
        let (companion, steps) = (Arc::new(Companion::default()), Arc::new(Barrier::new(2)));
        let (follower, reached) = (Arc::clone(&companion), Arc::clone(&steps));
        let thread = std::thread::spawn(move || {
            follower.follow();
            reached.wait();
            reached.wait();
        });
        steps.wait();
        let follower = companion.thread.get().unwrap().0;
        let all = processors_of(follower);
        companion.call(true);
        assert_eq!(processors_of(follower), all, "it works");
        companion.waits(false);
        companion.call(true);
        assert_eq!(processors_of(follower), all, "it does not follow");
        companion.waits(true);
        // This thread stays where it is.
        let mut here = CpuSet::new();
        here.set(all[0]).unwrap();
        let before = sched_getaffinity(Pid::from_raw(0)).unwrap();
        sched_setaffinity(Pid::from_raw(0), &here).unwrap();
        companion.call(true);
        assert_eq!(processors_of(follower), [all[0]]);
        companion.works();
        companion.call(false);
        assert_eq!(processors_of(follower), [all[0]], "it works");
        companion.waits(true);
        companion.call(false);
        assert_eq!(processors_of(follower), all);
        sched_setaffinity(Pid::from_raw(0), &before).unwrap();
        steps.wait();
        thread.join().unwrap();
    }

    #[test]
    fn without_a_follower_nothing_is_called() {
        let companion = Companion::default();
        companion.waits(true);
        companion.call(true);
        assert_eq!(companion.place.load(Ordering::Relaxed), ANYWHERE);
    }
}
