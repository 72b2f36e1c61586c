//! Memory of large rows on their way to the threads that compress them.

use std::ops::Deref;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use robocache_ops::device::RowMemory;
use robocache_ops::pool::Pool;
use robocache_ops::sync::lock;

/// Memory that serves again, and a bound for the rows in work.
pub(super) struct RowPool {
    /// The bound \[bytes\].
    most: usize,
    free: Pool<Vec<u8>>,
    /// Rows that wait or are being compressed, before they are written \[bytes\].
    in_work: Mutex<usize>,
    changed: Condvar,
}

/// A row, whose memory goes back to the pool.
pub(super) struct Row {
    bytes: RowMemory,
    pool: Arc<RowPool>,
}

impl Row {
    pub(super) fn new(bytes: RowMemory, pool: &Arc<RowPool>) -> Self {
        Row { bytes, pool: Arc::clone(pool) }
    }
}

impl Deref for Row {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Row {
    fn drop(&mut self) {
        if let Some(mut bytes) = std::mem::take(&mut self.bytes).into_own() {
            bytes.clear();
            let len = bytes.capacity();
            self.pool.free.put(bytes, len);
        }
    }
}

impl RowPool {
    /// A pool for at most `most` bytes in work. One row may have more.
    pub(super) fn new(most: usize) -> Self {
        let free = Pool::new(most);
        let in_work = Mutex::new(0);
        RowPool { most, free, in_work, changed: Condvar::new() }
    }

    /// Empty memory for a row of this size.
    pub(super) fn memory(&self, len: usize) -> Vec<u8> {
        let row = self.free.take(|row| row.capacity() == len);
        row.unwrap_or_else(|| Vec::with_capacity(len))
    }

    /// Counts a row that begins its way. Waits while there are too many, unless the threads have `failed`.
    pub(super) fn begin(&self, len: usize, failed: impl Fn() -> bool) {
        let mut in_work = lock(&self.in_work);
        while *in_work > 0 && *in_work + len > self.most && !failed() {
            in_work = self.changed.wait(in_work).unwrap_or_else(PoisonError::into_inner);
        }
        *in_work += len;
    }

    /// Counts rows that were written.
    pub(super) fn end(&self, len: usize) {
        *lock(&self.in_work) -= len;
        self.changed.notify_all();
    }

    /// Ends all waits, as the threads have failed.
    pub(super) fn wake(&self) {
        // A thread that saw no failure is waiting by now.
        drop(lock(&self.in_work));
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests;
