//! Ends the wait of a thread when something has come for it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::sync::{AtomicBool, Futex, Ordering};

/// Wait of one thread that other threads end, mostly those of the middleware. One wait ends for each wake, also if the
/// wake comes first. Several wakes before a wait end one.
///
/// It takes no lock. So a waiting thread of high priority never waits for one of low priority that wakes it.
#[derive(Debug, Default)]
pub struct Wake {
    /// 1 if the next wait ends at once.
    pending: Futex,
}

impl Wake {
    /// Ends the wait.
    pub fn wake(&self) {
        if self.pending.swap(1) == 0 {
            self.pending.wake_one();
        }
    }

    /// Waits for a wake, at most for `timeout`. Returns whether there was one.
    pub fn wait(&self, timeout: Duration) -> bool {
        let mut end = None;
        loop {
            if self.pending.swap(0) == 1 {
                return true;
            }
            let now = Instant::now();
            let left = end.get_or_insert(now + timeout).saturating_duration_since(now);
            if left.is_zero() {
                return false;
            }
            self.pending.sleep_at(0, left);
        }
    }
}

/// Flag of an entity: true if something waits in it, as far as the middleware has told. Its address goes to the
/// middleware, which may use it until the entity has ended.
pub(super) struct News {
    may_wait: AtomicBool,
    wake: Arc<Wake>,
}

impl News {
    /// Tells `wake` of what comes.
    pub(super) fn new(wake: &Arc<Wake>) -> Arc<Self> {
        Arc::new(News { may_wait: AtomicBool::new(false), wake: Arc::clone(wake) })
    }

    /// Notes that something may wait, and ends the wait of the thread that takes it.
    pub(super) fn tell(&self) {
        self.may_wait.store(true, Ordering::SeqCst);
        self.wake.wake();
    }

    /// True if something may wait.
    pub(super) fn may_wait(&self) -> bool {
        self.may_wait.load(Ordering::SeqCst)
    }

    /// Takes with `take`, unless nothing waits. What comes during the take notes itself again.
    pub(super) fn take<T>(&self, take: impl FnOnce() -> Option<T>) -> Option<T> {
        if !self.may_wait() {
            return None;
        }
        self.may_wait.store(false, Ordering::SeqCst);
        let taken = take()?;
        // Another one may wait.
        self.may_wait.store(true, Ordering::SeqCst);
        Some(taken)
    }
}
