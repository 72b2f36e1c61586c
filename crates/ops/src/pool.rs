//! Things that are free, kept to be used again.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, TryLockError};

/// Free things, such as memory, up to a bound.
///
/// No caller waits for another thread that uses the pool. A thread of real-time priority must not wait, and in a forked
/// process the other thread may be missing. Then nothing is taken, and what is put is freed.
#[derive(Debug)]
pub struct Pool<T> {
    most: usize,
    free: Mutex<Free<T>>,
}

#[derive(Debug)]
struct Free<T> {
    /// Each with its size. The last one is the newest: the processor's cache has it.
    all: VecDeque<(T, usize)>,
    size: usize,
}

impl<T> Pool<T> {
    /// An empty pool for things whose sizes, as the caller counts them, are at most `most` in sum.
    pub const fn new(most: usize) -> Self {
        Pool { most, free: Mutex::new(Free { all: VecDeque::new(), size: 0 }) }
    }

    /// Takes out the newest one that fits.
    pub fn take(&self, fits: impl Fn(&T) -> bool) -> Option<T> {
        let mut free = self.lock()?;
        let at = free.all.iter().rposition(|(one, _)| fits(one))?;
        let (one, size) = free.all.remove(at)?;
        free.size -= size;
        Some(one)
    }

    /// Keeps one of this size, and frees the oldest ones if that is too much. One that is larger than the bound is
    /// freed.
    pub fn put(&self, one: T, size: usize) {
        if size > self.most {
            return;
        }
        let Some(mut free) = self.lock() else { return };
        free.size += size;
        free.all.push_back((one, size));
        while free.size > self.most {
            let Some((oldest, size)) = free.all.pop_front() else { return };
            free.size -= size;
            // Without the lock, because this may take long.
            drop(free);
            drop(oldest);
            let Some(again) = self.lock() else { return };
            free = again;
        }
    }

    /// The free ones; `None` if another thread is at them.
    fn lock(&self) -> Option<MutexGuard<'_, Free<T>>> {
        match self.free.try_lock() {
            Ok(free) => Some(free),
            // Only `fits` can panic, before anything changes.
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(pool: &Pool<u32>) -> Vec<u32> {
        pool.lock().unwrap().all.iter().map(|(one, _)| *one).collect()
    }

    #[test]
    fn the_newest_that_fits_is_taken_and_the_oldest_are_freed() {
        let pool = Pool::new(10);
        for one in 1..=4 {
            pool.put(one, 3);
        }
        assert_eq!(all(&pool), [2, 3, 4]);
        assert_eq!(pool.take(|one| *one < 4), Some(3));
        assert_eq!(pool.take(|one| *one > 4), None);
        pool.put(5, 8);
        assert_eq!(all(&pool), [5]);
        pool.put(6, 11);
        assert_eq!((all(&pool), pool.lock().unwrap().size), (vec![5], 8));
    }

    #[test]
    fn nobody_waits() {
        let pool = Pool::new(10);
        pool.put(1, 1);
        let held = pool.lock().unwrap();
        assert_eq!(pool.take(|_| true), None);
        pool.put(2, 1);
        assert_eq!(held.all.len(), 1);
    }
}
