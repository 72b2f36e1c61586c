//! Memory that rcl reads, and locks around calls of rcl.

use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A struct of rcl at a fixed address, because rcl's structs point at each other. Only rcl reads
/// its fields. A drop only frees the memory; the handle around it calls rcl's `_fini` first.
pub(super) struct Raw<T: Copy>(NonNull<T>);

impl<T: Copy> Raw<T> {
    pub(super) fn new(zero: T) -> Self {
        Raw(NonNull::from(Box::leak(Box::new(zero))))
    }

    pub(super) fn get(&self) -> *mut T {
        self.0.as_ptr()
    }
}

impl<T: Copy> Drop for Raw<T> {
    fn drop(&mut self) {
        // SAFETY: the address is that of the Box in `new`, and nothing else frees it.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

/// Locks a mutex, even if a thread panicked while it held the lock: rcl's own state is not Rust's to judge.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
