//! Counts what had no room in the queue. A thread that adds to a count never waits.

use super::event::Gap;
use super::sync::{AtomicI64, AtomicU64, AtomicUsize, Ordering, pause};
use robocache_core::pipeline::Arrival;
use robocache_core::spec::InputId;
use robocache_ops::time::{Epoch, Stamp};

/// Messages of an input that were lost since the writer took them out.
///
/// There are two sides. Threads add to the active one. The writer makes the other one active, waits until no thread
/// adds to the first, and reads it.
#[derive(Default)]
pub(super) struct Lost {
    sides: [Side; 2],
    active: AtomicUsize,
}

struct Side {
    /// Threads that add to it.
    adding: AtomicUsize,
    messages: AtomicU64,
    first: AtomicU64,
    last: AtomicU64,
    /// The earliest arrival; the least number if one is unknown.
    from: AtomicI64,
    epochs: [AtomicU64; 2],
}

impl Default for Side {
    fn default() -> Self {
        Side {
            adding: AtomicUsize::new(0),
            messages: AtomicU64::new(0),
            first: AtomicU64::new(u64::MAX),
            last: AtomicU64::new(0),
            from: AtomicI64::new(i64::MAX),
            epochs: [AtomicU64::new(u64::MAX), AtomicU64::new(0)],
        }
    }
}

impl Lost {
    /// Adds the message of this number.
    pub(super) fn add(&self, number: u64, arrival: Arrival) {
        let side = loop {
            let active = self.active.load(Ordering::SeqCst);
            let side = &self.sides[active];
            side.adding.fetch_add(1, Ordering::SeqCst);
            // The writer, which looks at `adding` after it has changed `active`, sees this thread.
            if self.active.load(Ordering::SeqCst) == active {
                break side;
            }
            side.adding.fetch_sub(1, Ordering::SeqCst);
        };
        let epoch = arrival.epoch.number();
        side.messages.fetch_add(1, Ordering::Relaxed);
        side.first.fetch_min(number, Ordering::Relaxed);
        side.last.fetch_max(number, Ordering::Relaxed);
        side.from.fetch_min(arrival.stamp.map_or(i64::MIN, Stamp::nanos), Ordering::Relaxed);
        side.epochs[0].fetch_min(epoch, Ordering::Relaxed);
        side.epochs[1].fetch_max(epoch, Ordering::Relaxed);
        side.adding.fetch_sub(1, Ordering::SeqCst);
    }

    /// Takes out what was lost. One thread alone may call it.
    pub(super) fn take(&self, input: InputId) -> Option<Gap> {
        let active = self.active.load(Ordering::SeqCst);
        let side = &self.sides[active];
        if side.messages.load(Ordering::Relaxed) == 0 {
            return None;
        }
        self.active.store(1 - active, Ordering::SeqCst);
        // An addition of 0 reads the newest number. So whoever begins to add later sees that this side is not active.
        while side.adding.fetch_add(0, Ordering::SeqCst) > 0 {
            pause();
        }
        let [first_epoch, last_epoch] = &side.epochs;
        let first_epoch = first_epoch.swap(u64::MAX, Ordering::Relaxed);
        let last_epoch = last_epoch.swap(0, Ordering::Relaxed);
        let from = side.from.swap(i64::MAX, Ordering::Relaxed);
        // The instants of two epochs cannot be compared.
        let known = first_epoch == last_epoch && from != i64::MIN;
        Some(Gap {
            input,
            messages: side.messages.swap(0, Ordering::Relaxed),
            first: side.first.swap(u64::MAX, Ordering::Relaxed),
            last: side.last.swap(0, Ordering::Relaxed),
            from: known.then(|| Stamp::from_nanos(from)),
            epoch: Epoch::numbered(first_epoch),
        })
    }
}

/// Events that were lost since the writer took them out.
pub(super) struct LostEvents {
    count: AtomicU64,
    /// When the first was reported.
    first: AtomicI64,
}

impl Default for LostEvents {
    fn default() -> Self {
        LostEvents { count: AtomicU64::new(0), first: AtomicI64::new(i64::MAX) }
    }
}

impl LostEvents {
    /// Adds one that is reported now.
    pub(super) fn add(&self, now: Stamp) {
        self.first.fetch_min(now.nanos(), Ordering::Relaxed);
        self.count.fetch_add(1, Ordering::Release);
    }

    /// Takes out how many were lost, and when the first was; `None` if a thread is just adding it.
    pub(super) fn take(&self) -> Option<(u64, Option<Stamp>)> {
        let count = self.count.swap(0, Ordering::Acquire);
        if count == 0 {
            return None;
        }
        let first = self.first.swap(i64::MAX, Ordering::Relaxed);
        Some((count, (first != i64::MAX).then(|| Stamp::from_nanos(first))))
    }
}

#[cfg(test)]
mod tests;
