//! Which rows a stream holds, in order of their stamps.
//!
//! A ring knows stamps and slots; the rows themselves lie in the backend, in `capacity + 1` slots,
//! so that one is always spare: a message is encoded into the spare slot first and enters the
//! ring only then. Out-of-order rows are put in their place while they fit.

use std::collections::VecDeque;

use crate::backend::Slot;
use crate::time::Stamp;

/// One row: its instant and where the backend keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The row's instant.
    pub stamp: Stamp,
    /// The row's memory.
    pub slot: Slot,
    /// Unique among all rows that ever entered this ring, from 1: tells whether a slot still holds
    /// the row that it held before.
    pub serial: u64,
}

/// A spare slot on loan to whoever encodes the next row.
#[derive(Debug)]
#[must_use = "a lease that is neither inserted nor given back loses its slot"]
pub struct Lease {
    slot: Slot,
    epoch: u64,
}

impl Lease {
    /// The slot to encode into.
    pub fn slot(&self) -> Slot {
        self.slot
    }
}

/// What became of an inserted row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inserted {
    /// It is the newest.
    Newest,
    /// It stands behind a newer one.
    Reordered,
    /// It took the place of a row with the same stamp.
    Replaced,
    /// The ring is full of newer rows: it was not taken, and its slot is spare again.
    Late,
    /// The ring was cleared while the row was being encoded: likewise.
    Cleared,
}

/// Rows at strictly increasing stamps, at most `capacity` of them.
#[derive(Debug)]
pub struct Ring {
    entries: VecDeque<Entry>,
    capacity: usize,
    spare: Vec<Slot>,
    /// Raised by [`Ring::clear`], so that a row from before cannot enter after.
    epoch: u64,
    serial: u64,
}

impl Ring {
    /// An empty ring over the slots `0..=capacity`; `capacity` is at least 1.
    pub fn new(capacity: usize) -> Self {
        let capacity = capacity.max(1);
        Ring {
            entries: VecDeque::with_capacity(capacity + 1),
            capacity,
            spare: (0..=capacity).rev().collect(),
            epoch: 0,
            serial: 0,
        }
    }

    /// A slot to encode the next row into; `None` if the spare one is out already.
    pub fn lease(&mut self) -> Option<Lease> {
        self.spare.pop().map(|slot| Lease { slot, epoch: self.epoch })
    }

    /// Takes back a slot that was not used.
    pub fn give_back(&mut self, lease: Lease) {
        self.spare.push(lease.slot);
    }

    /// Puts a row into its place. A row with an equal stamp is replaced: the later message is the
    /// sensor's correction. Whatever slot this frees is spare again.
    pub fn insert(&mut self, stamp: Stamp, lease: Lease) -> Inserted {
        let slot = lease.slot;
        // From the back: almost every row is the newest or close to it.
        let newer = self.entries.iter().rev().take_while(|entry| entry.stamp > stamp).count();
        let place = self.entries.len() - newer;
        let full = self.entries.len() == self.capacity;
        let equal = place > 0 && self.entries[place - 1].stamp == stamp;
        let cleared = lease.epoch != self.epoch;
        if cleared || (full && place == 0) {
            self.spare.push(slot);
            return if cleared { Inserted::Cleared } else { Inserted::Late };
        }
        self.serial += 1;
        let entry = Entry { stamp, slot, serial: self.serial };
        if equal {
            let replaced = std::mem::replace(&mut self.entries[place - 1], entry);
            self.spare.push(replaced.slot);
            return Inserted::Replaced;
        }
        self.entries.insert(place, entry);
        if full && let Some(oldest) = self.entries.pop_front() {
            self.spare.push(oldest.slot);
        }
        if newer == 0 { Inserted::Newest } else { Inserted::Reordered }
    }

    /// Forgets all rows, and those that are being encoded.
    pub fn clear(&mut self) {
        self.epoch += 1;
        self.spare.extend(self.entries.drain(..).map(|entry| entry.slot));
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Row `i`, oldest first.
    ///
    /// # Panics
    /// When `i` is not below [`Ring::len`].
    pub fn entry(&self, i: usize) -> Entry {
        self.entries[i]
    }
}
