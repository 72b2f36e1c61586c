//! Locks, atomic numbers and threads of loom, by the names that the parts use.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub(crate) use loom::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, AtomicUsize};
pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard};
pub(crate) use loom::thread::{Thread, current};
/// `OnceLock` of the standard library: threads of loom take turns, and the first one that asks makes the value.
pub(crate) use std::sync::OnceLock;
pub(crate) use std::sync::atomic::Ordering;
pub(crate) use std::sync::mpsc::TrySendError;
pub(crate) use std::sync::{PoisonError, TryLockError};

/// Locks a mutex.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Lets other threads go on.
pub(crate) fn pause() {
    loom::thread::yield_now();
}

/// A mutex whose lock does not fail.
pub(crate) struct PiMutex<T>(Mutex<T>);

impl<T> PiMutex<T> {
    pub(crate) fn new(value: T) -> Self {
        PiMutex(Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        lock(&self.0)
    }
}

impl<T> fmt::Debug for PiMutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PiMutex").finish_non_exhaustive()
    }
}

/// A number that a thread may sleep at. As in Linux, the number is compared, and the thread noted as one that sleeps, under
/// one lock, which a wake-up takes as well.
#[derive(Debug)]
pub(crate) struct Futex {
    number: AtomicU32,
    sleeping: Mutex<()>,
    woken: Condvar,
}

impl Default for Futex {
    fn default() -> Self {
        Futex { number: AtomicU32::new(0), sleeping: Mutex::new(()), woken: Condvar::new() }
    }
}

impl Futex {
    pub(crate) fn swap(&self, number: u32) -> u32 {
        self.number.swap(number, Ordering::SeqCst)
    }

    pub(crate) fn wake_one(&self) {
        drop(lock(&self.sleeping));
        self.woken.notify_one();
    }

    pub(crate) fn sleep_at(&self, expected: u32, _time: Duration) {
        let sleeping = lock(&self.sleeping);
        if self.number.load(Ordering::SeqCst) == expected {
            drop(self.woken.wait(sleeping));
        }
    }
}

/// The channel of the standard library, as far as the recording queue uses it: neither end waits.
pub(crate) fn sync_channel<T>(places: usize) -> (SyncSender<T>, Receiver<T>) {
    let waiting = Arc::new(Mutex::new(VecDeque::new()));
    (SyncSender { waiting: Arc::clone(&waiting), places }, Receiver(waiting))
}

pub(crate) struct SyncSender<T> {
    waiting: Arc<Mutex<VecDeque<T>>>,
    places: usize,
}

impl<T> SyncSender<T> {
    pub(crate) fn try_send(&self, item: T) -> Result<(), TrySendError<T>> {
        let mut waiting = lock(&self.waiting);
        if waiting.len() == self.places {
            return Err(TrySendError::Full(item));
        }
        waiting.push_back(item);
        Ok(())
    }
}

pub(crate) struct Receiver<T>(Arc<Mutex<VecDeque<T>>>);

impl<T> Receiver<T> {
    pub(crate) fn try_recv(&self) -> Result<T, ()> {
        lock(&self.0).pop_front().ok_or(())
    }
}
