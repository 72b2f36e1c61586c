//! Counts what had no room in the queue. A thread that adds to a count never waits.

use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use super::event::Gap;
use crate::pipeline::Arrival;
use crate::spec::InputId;
use crate::time::{Epoch, Stamp};

/// Messages of an input that were lost since the writer took them out.
///
/// There are two sides. Threads add to the active one. The writer makes the other one active, waits until nobody
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
    /// The earliest arrival; the least number if one is not known.
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
    pub fn add(&self, number: u64, arrival: Arrival) {
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
    pub fn take(&self, input: InputId) -> Option<Gap> {
        let active = self.active.load(Ordering::SeqCst);
        let side = &self.sides[active];
        if side.messages.load(Ordering::Relaxed) == 0 {
            return None;
        }
        self.active.store(1 - active, Ordering::SeqCst);
        while side.adding.load(Ordering::SeqCst) > 0 {
            std::thread::sleep(Duration::from_micros(20));
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
    /// When the first was told.
    first: AtomicI64,
}

impl Default for LostEvents {
    fn default() -> Self {
        LostEvents { count: AtomicU64::new(0), first: AtomicI64::new(i64::MAX) }
    }
}

impl LostEvents {
    /// Adds one that was told now.
    pub fn add(&self, now: Stamp) {
        self.first.fetch_min(now.nanos(), Ordering::Relaxed);
        self.count.fetch_add(1, Ordering::Release);
    }

    /// Takes out how many were lost, and when the first was; `None` if a thread is just adding it.
    pub fn take(&self) -> Option<(u64, Option<Stamp>)> {
        let count = self.count.swap(0, Ordering::Acquire);
        if count == 0 {
            return None;
        }
        let first = self.first.swap(i64::MAX, Ordering::Relaxed);
        Some((count, (first != i64::MAX).then(|| Stamp::from_nanos(first))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrival(epoch: u64, nanos: Option<i64>) -> Arrival {
        let stamp = nanos.map(Stamp::from_nanos);
        Arrival { stamp, epoch: Epoch::numbered(epoch), ..Arrival::default() }
    }

    #[test]
    fn what_was_lost_is_one_gap_until_it_is_taken() {
        let (lost, input) = (Lost::default(), InputId::new(2));
        assert_eq!(lost.take(input), None);
        lost.add(7, arrival(1, Some(70)));
        lost.add(5, arrival(1, Some(50)));
        let from = Some(Stamp::from_nanos(50));
        let (messages, first, last, epoch) = (2, 5, 7, Epoch::numbered(1));
        assert_eq!(lost.take(input), Some(Gap { input, messages, first, last, from, epoch }));
        assert_eq!(lost.take(input), None);
        // Of two epochs, and one whose arrival is not known.
        for second in [arrival(2, Some(5)), arrival(1, None)] {
            lost.add(8, arrival(1, Some(80)));
            lost.add(9, second);
            let gap = lost.take(input).unwrap();
            assert_eq!((gap.first, gap.from, gap.epoch), (8, None, Epoch::numbered(1)));
        }
    }

    #[test]
    fn nothing_is_lost_twice_or_forgotten_while_threads_add() {
        const EACH: u64 = 20_000;
        let lost = Lost::default();
        let taken = std::thread::scope(|scope| {
            let adding: Vec<_> = (0..3)
                .map(|thread| {
                    let lost = &lost;
                    let add = move |k| lost.add(thread * EACH + k + 1, arrival(0, Some(1)));
                    scope.spawn(move || (0..EACH).for_each(add))
                })
                .collect();
            let mut taken = 0;
            while adding.iter().any(|thread| !thread.is_finished()) {
                let gap = lost.take(InputId::new(0));
                taken += gap.map_or(0, |gap| {
                    assert!(gap.first <= gap.last && gap.from.is_some(), "{gap:?}");
                    gap.messages
                });
            }
            taken
        });
        let rest = lost.take(InputId::new(0)).map_or(0, |gap| gap.messages);
        assert_eq!(taken + rest, 3 * EACH);
    }

    #[test]
    fn the_first_lost_event_has_its_time() {
        let lost = LostEvents::default();
        assert_eq!(lost.take(), None);
        for nanos in [9, 4, 6] {
            lost.add(Stamp::from_nanos(nanos));
        }
        assert_eq!(lost.take(), Some((3, Some(Stamp::from_nanos(4)))));
        assert_eq!(lost.take(), None);
    }
}
