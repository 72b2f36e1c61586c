//! Locks.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex, also after a panic elsewhere while it was held. Only for values that such a panic
/// cannot have left half changed, or whose next use does not read what it left: the caller says
/// which, beside the mutex or the call.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
