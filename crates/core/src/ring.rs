//! Which rows a stream holds, in order of their stamps.
//!
//! A ring knows stamps and slots. The rows themselves are in the backend, in `capacity + 1` slots,
//! so that one slot is always spare. The backend encodes a message into the spare slot, and then
//! the row enters the ring. A row out of order goes to its place, if the ring is not full of newer
//! rows.

use std::collections::{VecDeque, vec_deque};

use robocache_ops::align::{
    AlignRule, Alignment, InvalidReason, MergeSpec, Position, Seen, Slot, Value, align,
    align_invalid, invalid_reason,
};
use robocache_ops::time::{Epoch, Stamp};

/// One row: its instant and where the backend keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The row's instant.
    pub stamp: Stamp,
    /// The row's memory.
    pub slot: Slot,
    /// Position of the row's input among the inputs of its stream; 0 for a merged row.
    pub input: u8,
    /// Voxels in use of a sparse row; 0 for any other row.
    pub in_use: u32,
    /// Counts all rows that ever entered this ring, from 1. It tells whether a slot still holds the
    /// same row as before.
    pub serial: u64,
    /// Values between this row and the next one.
    pub until_next: UntilNext,
    /// From when on the ring has the row, on the node's clock.
    pub received: Stamp,
}

/// A row, or a version of one, that has left its ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Left {
    /// The row as it was.
    pub entry: Entry,
    /// From when on the ring no longer has it; [`Stamp::MAX`] if it left with its epoch, or at the end.
    pub at: Stamp,
    /// True if a later message took its place: with an equal stamp, as another plan, or with a cloud that
    /// belongs in it. If not, the ring was full.
    pub replaced: bool,
    /// True if its slot is that of a row that stayed: this is a version of it.
    stays: bool,
}

/// Values between a row and the next one. Only plans give another than the strategy's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UntilNext {
    /// The values of the strategy.
    #[default]
    Strategy,
    /// This row, up to its greatest age, as if there were no next row.
    Held,
    /// No value.
    Nothing,
}

/// A spare slot on loan to the encoder of the next row.
#[derive(Debug)]
#[must_use = "a lease that is neither inserted nor given back loses its slot"]
pub struct Lease {
    slot: Slot,
    epoch: Epoch,
    in_use: u32,
    received: Stamp,
}

impl Lease {
    /// The slot to encode into.
    pub fn slot(&self) -> Slot {
        self.slot
    }

    /// Notes how many voxels of a sparse row are in use.
    pub fn note_in_use(&mut self, voxels: u32) {
        self.in_use = voxels;
    }

    /// Notes from when on the ring has the row.
    pub fn note_received(&mut self, received: Stamp) {
        self.received = received;
    }

    /// The epoch of the ring's rows when the slot was leased.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }
}

/// The outcome of an insertion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inserted {
    /// It is the newest.
    Newest,
    /// It is in its place behind a newer one.
    Reordered,
    /// It took the place of a row with the same stamp.
    Replaced,
    /// The ring is full of newer rows: it was not taken, and its slot is spare again.
    Late,
    /// The ring was cleared while the row was being encoded: it was not taken, and its slot is
    /// spare again.
    Cleared,
}

/// Rows at strictly increasing stamps, at most `capacity` of them.
#[derive(Debug)]
pub struct Ring {
    entries: VecDeque<Entry>,
    capacity: usize,
    spare: Vec<Slot>,
    /// The epoch of the rows. A row of an earlier epoch cannot enter.
    epoch: Epoch,
    serial: u64,
    /// See [`Ring::evicted`].
    evicted: Option<Stamp>,
    /// True if a row of this epoch may have been given an [`UntilNext`].
    parted: bool,
    /// Clouds in merged rows; `None` if each row is of one input.
    merged: Option<Merged>,
    /// Rows that have left and still hold their slots: see [`Ring::keep_left`]. `None` if they hold none.
    left: Option<Vec<Left>>,
}

/// Clouds in the rows, if each holds clouds of several inputs.
#[derive(Debug)]
struct Merged {
    spec: MergeSpec,
    /// Per slot and input: until when the cloud in the row may be used; `None` if it holds none.
    until: Vec<Option<Stamp>>,
}

impl Merged {
    fn of(&self, slot: Slot) -> &[Option<Stamp>] {
        let inputs = self.spec.max_age_ns.len();
        &self.until[slot.index() * inputs..][..inputs]
    }

    /// The inputs whose cloud in the row is not too old at the target: bit `i` for input `i`.
    fn inputs(&self, slot: Slot, target: Stamp) -> u32 {
        let bit = |(at, until): (usize, &Option<Stamp>)| {
            u32::from(until.is_some_and(|until| target <= until)).checked_shl(at as u32)
        };
        self.of(slot).iter().enumerate().filter_map(bit).fold(0, |bits, bit| bits | bit)
    }

    /// True if the row can be used at the target. A cloud that is too old cannot be taken out of it.
    fn is_valid(&self, slot: Slot, target: Stamp) -> bool {
        let in_time = |until: &Stamp| target <= *until;
        self.of(slot).iter().flatten().all(in_time) && self.spec.suffices(self.inputs(slot, target))
    }
}

impl Ring {
    /// An empty ring over the slots `0..=capacity`; `capacity` is at least 1.
    pub fn new(capacity: usize) -> Self {
        Ring::with_slots(capacity, capacity.saturating_add(1))
    }

    /// An empty ring for `capacity` rows, at least 1, over the slots `0..slots`, at least one more.
    pub fn with_slots(capacity: usize, slots: usize) -> Self {
        let capacity = capacity.max(1);
        let slots = slots.max(capacity + 1);
        Ring {
            entries: VecDeque::with_capacity(capacity + 1),
            capacity,
            spare: (0..slots).rev().map(Slot::new).collect(),
            epoch: Epoch::default(),
            serial: 0,
            evicted: None,
            parted: false,
            merged: None,
            left: None,
        }
    }

    /// Makes the ring one of rows that hold clouds of several inputs ([`Ring::insert_merged`]).
    pub fn merging(mut self, spec: MergeSpec) -> Self {
        let slots = self.spare.len();
        let until = vec![None; slots * spec.max_age_ns.len()];
        self.merged = Some(Merged { spec, until });
        self
    }

    /// A slot to encode the next row into; `None` if no slot is spare.
    pub fn lease(&mut self) -> Option<Lease> {
        self.spare.pop().map(|slot| Lease {
            slot,
            epoch: self.epoch,
            in_use: 0,
            received: Stamp::MIN,
        })
    }

    /// Makes a lease one of the ring's epoch: what was encoded before its turn belongs to the epoch in which it enters.
    pub fn renew(&self, lease: &mut Lease) {
        lease.epoch = self.epoch;
    }

    /// Takes back a slot that was not used.
    pub fn give_back(&mut self, lease: Lease) {
        self.spare.push(lease.slot);
    }

    /// Puts a row of the stream's input number `input` into its place. If the ring has a row with an
    /// equal stamp, the new row replaces it: the later message is the sensor's correction. A slot
    /// that this frees is spare again.
    pub fn insert(&mut self, stamp: Stamp, input: u8, lease: Lease) -> Inserted {
        let slot = lease.slot;
        // From the back: almost every row is the newest or close to it.
        let newer = self.entries.iter().rev().take_while(|entry| entry.stamp > stamp).count();
        let place = self.entries.len() - newer;
        let full = self.entries.len() == self.capacity;
        let equal = place > 0 && self.entries[place - 1].stamp == stamp;
        let cleared = lease.epoch != self.epoch;
        if cleared || (full && place == 0) {
            self.spare.push(slot);
            if !cleared {
                self.evicted = self.evicted.max(Some(stamp));
            }
            return if cleared { Inserted::Cleared } else { Inserted::Late };
        }
        self.serial += 1;
        let entry = self.entry_of(stamp, input, &lease);
        if equal {
            let replaced = std::mem::replace(&mut self.entries[place - 1], entry);
            self.leaves(Left { entry: replaced, at: lease.received, replaced: true, stays: false });
            return Inserted::Replaced;
        }
        self.entries.insert(place, entry);
        self.evict(lease.received);
        if newer == 0 { Inserted::Newest } else { Inserted::Reordered }
    }

    /// As [`Ring::insert`], of a row that holds clouds of several inputs. `until` says of each input until
    /// when its cloud may be used; `None` if the row holds none.
    pub fn insert_merged(
        &mut self,
        stamp: Stamp,
        until: &[Option<Stamp>],
        lease: Lease,
    ) -> Inserted {
        if let Some(merged) = &mut self.merged {
            let start = lease.slot.index() * merged.spec.max_age_ns.len();
            merged.until[start..start + until.len()].copy_from_slice(until);
        }
        self.insert(stamp, 0, lease)
    }

    /// Adds rows behind all others: the points of a plan. Their stamps are strictly increasing. If the
    /// first one is at the stamp of the newest row, it takes its place. If the ring is full, the
    /// oldest rows leave. Returns how many rows were replaced: one or none. The slots must have been
    /// leased in the epoch of the rows.
    pub fn append(&mut self, rows: impl IntoIterator<Item = (Stamp, u8, Lease)>) -> usize {
        let mut replaced = 0;
        for (stamp, input, lease) in rows {
            self.serial += 1;
            let entry = self.entry_of(stamp, input, &lease);
            match self.entries.back_mut().filter(|newest| newest.stamp == stamp) {
                Some(newest) => {
                    let before = std::mem::replace(newest, entry);
                    self.leaves(Left {
                        entry: before,
                        at: lease.received,
                        replaced: true,
                        stays: false,
                    });
                    replaced += 1;
                }
                None => self.entries.push_back(entry),
            }
            self.evict(lease.received);
        }
        replaced
    }

    /// Removes the rows after `start`: another plan, received at `at`, replaces them. Returns how many there
    /// were.
    pub fn remove_after(&mut self, start: Stamp, at: Stamp) -> usize {
        let kept = self.entries.partition_point(|entry| entry.stamp <= start);
        let removed = self.entries.drain(kept..);
        let count = removed.len();
        match &mut self.left {
            Some(left) => {
                left.extend(removed.map(|entry| Left { entry, at, replaced: true, stays: false }));
            }
            None => self.spare.extend(removed.map(|entry| entry.slot)),
        }
        count
    }

    /// Sets the values between the newest row and the next one. The newest row has them from `at` on.
    pub fn part(&mut self, until_next: UntilNext, at: Stamp) {
        if let Some(newest) = self.entries.back_mut() {
            if let Some(left) = &mut self.left
                && newest.until_next != until_next
            {
                // The version before. Its slot is that of the row, which stays.
                left.push(Left { entry: *newest, at, replaced: true, stays: true });
                newest.received = at;
            }
            newest.until_next = until_next;
            self.parted |= until_next != UntilNext::Strategy;
        }
    }

    /// The entry of a row that enters, whose serial has been counted.
    fn entry_of(&self, stamp: Stamp, input: u8, lease: &Lease) -> Entry {
        let Lease { slot, in_use, received, .. } = *lease;
        let serial = self.serial;
        let until_next = UntilNext::Strategy;
        Entry { stamp, slot, input, in_use, serial, until_next, received }
    }

    /// Lets a row leave.
    fn leaves(&mut self, row: Left) {
        match &mut self.left {
            Some(left) => left.push(row),
            None => self.spare.push(row.entry.slot),
        }
    }

    /// The rows that give the value at a target. See [`align`].
    pub fn align(&self, rule: AlignRule, target: Stamp) -> Alignment<Position> {
        let found = self.align_stamps(rule, target);
        match self.is_merged_well(&found, target) {
            true => found,
            false => self.align_invalid(rule, target),
        }
    }

    /// The rows at their stamps, whatever they are made of.
    fn align_stamps(&self, rule: AlignRule, target: Stamp) -> Alignment<Position> {
        match self.seen_from(target) {
            (len, false) => align(rule, len, |i| self.entries[i].stamp, target),
            (len, true) => align_invalid(rule, len, |i| self.entries[i].stamp, target),
        }
    }

    /// True if a row that gives a value has the clouds that it needs. Also true if rows are not merged.
    fn is_merged_well(&self, found: &Alignment<Position>, target: Stamp) -> bool {
        match (&self.merged, found.value) {
            (Some(merged), Value::Row(at)) if found.valid => {
                merged.is_valid(self.entries[at.index()].slot, target)
            }
            _ => true,
        }
    }

    /// The inputs that the value at a target comes from: bit `i` for the stream's input `i`. None if
    /// the value is invalid: it is then a fill value, which no input gave.
    pub fn inputs_of(&self, target: Stamp, found: &Alignment<Position>) -> u32 {
        let bits = |row: Position| match (&self.merged, self.entries[row.index()]) {
            (Some(merged), entry) => merged.inputs(entry.slot, target),
            (None, entry) => 1u32.checked_shl(entry.input.into()).unwrap_or(0),
        };
        match found.value {
            _ if !found.valid => 0,
            Value::Nothing => 0,
            Value::Row(row) => bits(row),
            Value::Between { a, b, .. } => bits(a) | bits(b),
        }
    }

    /// The fill of a step that is invalid for another reason. See [`align_invalid`].
    pub fn align_invalid(&self, rule: AlignRule, target: Stamp) -> Alignment<Position> {
        align_invalid(rule, self.seen_from(target).0, |i| self.entries[i].stamp, target)
    }

    /// Why a target has no valid value; `None` if it has one. See [`invalid_reason`].
    pub fn invalid_reason(
        &self,
        rule: AlignRule,
        target: Stamp,
        seen: Seen,
    ) -> Option<InvalidReason> {
        let reason = match self.seen_from(target) {
            (len, false) => invalid_reason(rule, len, |i| self.entries[i].stamp, target, seen),
            (_, true) => Some(InvalidReason::Gap),
        };
        let lacks_a_cloud = || {
            self.merged.is_some() && !self.is_merged_well(&self.align_stamps(rule, target), target)
        };
        reason.or_else(|| lacks_a_cloud().then_some(InvalidReason::Incomplete))
    }

    /// How many rows count for a target, and whether it is where there is no value.
    fn seen_from(&self, target: Stamp) -> (usize, bool) {
        let all = (self.entries.len(), false);
        if !self.parted {
            return all;
        }
        let after = self.entries.partition_point(|entry| entry.stamp <= target);
        match after.checked_sub(1).map(|held| self.entries[held]) {
            Some(held) if held.stamp < target => match held.until_next {
                UntilNext::Strategy => all,
                UntilNext::Held => (after, false),
                UntilNext::Nothing => (after, true),
            },
            _ => all,
        }
    }

    /// Removes the oldest row if there are too many.
    fn evict(&mut self, at: Stamp) {
        if self.entries.len() > self.capacity
            && let Some(oldest) = self.entries.pop_front()
        {
            self.leaves(Left { entry: oldest, at, replaced: false, stays: false });
            self.evicted = self.evicted.max(Some(oldest.stamp));
        }
    }

    /// Lets rows that leave hold their slots until [`Ring::settle`], which must follow [`Ring::take_left`].
    pub fn keep_left(&mut self) {
        self.left = Some(Vec::with_capacity(self.capacity));
    }

    /// Takes out the rows that have left since the last call, in their order. [`Ring::settle`] must follow.
    pub fn take_left(&mut self) -> Vec<Left> {
        self.left.as_mut().map_or_else(Vec::new, std::mem::take)
    }

    /// Makes the slots of rows that have left spare. The list is memory for the next ones.
    pub fn settle(&mut self, mut left: Vec<Left>) {
        let gone = left.drain(..).filter(|row| !row.stays);
        self.spare.extend(gone.map(|row| row.entry.slot));
        if let Some(mine) = &mut self.left
            && mine.is_empty()
        {
            *mine = left;
        }
    }

    /// Until when the cloud of each input in a merged row may be used; `None` if the row has none of it. Empty
    /// for other rows.
    pub fn until(&self, slot: Slot) -> &[Option<Stamp>] {
        self.merged.as_ref().map_or(&[], |merged| merged.of(slot))
    }

    /// Lets all rows leave.
    pub fn leave(&mut self) {
        let all = self.entries.drain(..);
        match &mut self.left {
            Some(left) => {
                left.extend(all.map(|entry| Left {
                    entry,
                    at: Stamp::MAX,
                    replaced: false,
                    stays: false,
                }));
            }
            None => self.spare.extend(all.map(|entry| entry.slot)),
        }
    }

    /// The epoch of the rows.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// How many rows ever entered the ring.
    pub fn serial(&self) -> u64 {
        self.serial
    }

    /// Begins an epoch: forgets all rows. A row that is being encoded will not enter.
    pub fn begin(&mut self, epoch: Epoch) {
        self.epoch = epoch;
        (self.evicted, self.parted) = (None, false);
        self.spare.extend(self.entries.drain(..).map(|entry| entry.slot));
    }

    /// The newest row of this epoch that is not in the ring because the ring was full. It is older
    /// than all rows in the ring.
    pub fn evicted(&self) -> Option<Stamp> {
        self.evicted
    }

    /// True if the next row that is the newest makes the oldest one leave.
    pub fn is_full(&self) -> bool {
        self.entries.len() == self.capacity
    }

    /// The stamp of the row before the one at `stamp`, if there are both. It may have left the ring.
    pub fn before(&self, stamp: Stamp) -> Option<Stamp> {
        let at = self.entries.binary_search_by_key(&stamp, |entry| entry.stamp).ok()?;
        match at.checked_sub(1) {
            Some(before) => Some(self.entries[before].stamp),
            None => self.evicted.filter(|evicted| *evicted < stamp),
        }
    }

    /// The newest row at or before an instant, and whether it is the newest of all.
    pub fn newest_until(&self, stamp: Stamp) -> Option<(Entry, bool)> {
        let after = self.entries.partition_point(|entry| entry.stamp <= stamp);
        let at = after.checked_sub(1)?;
        Some((self.entries[at], after == self.entries.len()))
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True if there are no rows.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The row at a position.
    ///
    /// # Panics
    /// If the position is not below [`Ring::len`].
    pub fn entry(&self, at: Position) -> Entry {
        self.entries[at.index()]
    }

    /// All rows, the oldest first.
    pub fn entries(&self) -> vec_deque::Iter<'_, Entry> {
        self.entries.iter()
    }

    /// Names the rows of a value by their slots.
    ///
    /// # Panics
    /// If a position is not below [`Ring::len`].
    pub fn slots_of(&self, value: Value<Position>) -> Value<Slot> {
        value.map(|at| self.entry(at).slot)
    }
}
