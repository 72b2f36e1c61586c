//! Locks.

#[allow(unsafe_code)] // calls of pthread; every block says why it is sound
mod pi;

use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

pub use pi::{PiGuard, PiMutex};

/// Locks a mutex, even if a thread panicked while it held the lock.
///
/// The caller must know that such a panic leaves the value whole, or that the next use does not
/// read what it left. A comment beside the mutex or the call says which.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Locks for one of several readers, as [`lock`] does.
pub fn read<T>(rows: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    rows.read().unwrap_or_else(PoisonError::into_inner)
}

/// Locks for the only writer, as [`lock`] does.
pub fn write<T>(rows: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    rows.write().unwrap_or_else(PoisonError::into_inner)
}
