//! Locks.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex, even if a thread panicked while it held the lock.
///
/// The caller must know that such a panic leaves the value whole, or that the next use does not
/// read what it left. A comment beside the mutex or the call says which.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
