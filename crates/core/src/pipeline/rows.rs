//! Rows that have left their rings, for those who keep them.
//!
//! A row leaves its ring because the ring is full, because a later message replaces it, because an epoch begins, or
//! at the end. Each row says from when to when ticks saw it. So who has all of them knows what a ring held at any
//! instant.

use std::sync::{Arc, Mutex};

use super::{Pipeline, Rings};
use crate::backend::{Backend, BackendError};
use crate::ring::{Entry, Left, Ring};
use crate::spec::RingId;
use robocache_ops::device::RowMemory;
use robocache_ops::sync::lock;
use robocache_ops::time::{Epoch, Stamp};

/// A row that has left its ring. A tick of its epoch saw it from [`Entry::received`] on, until `left`.
#[derive(Clone, Copy, Debug)]
pub struct LeftRow<'a> {
    /// Its ring.
    pub ring: RingId,
    /// Its instant, its input, what followed it, and from when on ticks saw it.
    pub entry: Entry,
    /// The epoch of its instant.
    pub epoch: Epoch,
    /// From when on no tick saw it; [`Stamp::MAX`] if it left with its epoch, or at the end.
    pub left: Stamp,
    /// True if a later message replaced it.
    pub replaced: bool,
    /// Per input of a merged row: until when its cloud may be used; `None` if the row has none of it. Empty for
    /// other rows.
    pub until: &'a [Option<Stamp>],
}

/// Takes rows, those of a ring in the order in which they left. Threads call it; those of a ring one by one.
pub trait RowSink: Send + Sync {
    /// True if it takes the rows of a ring. The values of other rows are not read.
    fn takes(&self, _ring: RingId) -> bool {
        true
    }

    /// Takes a row. `bytes` has its values, as [`Backend::read_row`] gives them. The sink may exchange it for
    /// other memory. If the sink fails, it must tell by itself.
    fn row(&self, row: &LeftRow<'_>, bytes: &mut RowMemory);
}

/// Passes rows on to a sink.
pub(super) struct Tap {
    sink: Box<dyn RowSink>,
    backend: Arc<dyn Backend>,
    /// Per ring: memory for the values of a row.
    bytes: Vec<Mutex<RowMemory>>,
    failed: Mutex<Option<BackendError>>,
}

impl Tap {
    fn take(&self, row: &LeftRow<'_>) {
        if !self.sink.takes(row.ring) {
            return;
        }
        let bytes = &mut *lock(&self.bytes[row.ring.index()]);
        match self.backend.read_row(row.ring, row.entry.slot, bytes) {
            Ok(()) => self.sink.row(row, bytes),
            Err(error) => {
                lock(&self.failed).get_or_insert(error);
            }
        }
    }
}

/// Rows that have left a ring and still hold their slots.
pub(super) struct Leaving {
    tap: Arc<Tap>,
    ring: RingId,
    epoch: Epoch,
    rows: Vec<Left>,
    /// [`LeftRow::until`] of all rows, one after the other.
    until: Vec<Option<Stamp>>,
}

impl Leaving {
    fn hand_over(&self) {
        let inputs = self.until.len() / self.rows.len().max(1);
        for (at, Left { entry, at: left, replaced, .. }) in self.rows.iter().enumerate() {
            let until = &self.until[at * inputs..][..inputs];
            let ring = self.ring;
            let epoch = self.epoch;
            let entry = *entry;
            let left = *left;
            let replaced = *replaced;
            self.tap.take(&LeftRow { ring, entry, epoch, left, replaced, until });
        }
    }
}

impl Rings {
    /// The rows that have left a ring, if they are kept. [`Pipeline::hand_over`] must follow.
    pub(super) fn leaving(&mut self, id: RingId) -> Option<Leaving> {
        let tap = Arc::clone(self.tap.as_ref()?);
        let ring = &mut self.rings[id.index()];
        let rows = ring.take_left();
        if rows.is_empty() {
            ring.settle(rows);
            return None;
        }
        let until = rows.iter().flat_map(|row| ring.until(row.entry.slot)).copied().collect();
        Some(Leaving { tap, ring: id, epoch: ring.epoch(), rows, until })
    }

    /// Hands over all rows.
    pub(super) fn leave_all(&mut self) {
        if self.tap.is_some() {
            for at in 0..self.rings.len() {
                self.rings[at].leave();
                if let Some(leaving) = self.leaving(RingId::new(at)) {
                    leaving.hand_over();
                    self.rings[at].settle(leaving.rows);
                }
            }
        }
    }
}

impl Pipeline {
    /// Gives every row that leaves its ring to `sink`, from now on.
    pub fn keep_rows(&mut self, sink: Box<dyn RowSink>) {
        let backend = Arc::clone(&self.backend);
        backend.keep_rows();
        let mut rings = self.lock_rings();
        rings.rings.iter_mut().for_each(Ring::keep_left);
        let bytes = rings.rings.iter().map(|_| Mutex::default()).collect();
        rings.tap = Some(Arc::new(Tap { sink, backend, bytes, failed: Mutex::default() }));
    }

    /// Hands over rows that have left their rings, and makes their slots spare. The caller holds no lock that a
    /// tick needs, and encodes nothing else into these rings meanwhile.
    pub(super) fn hand_over(&self, leaving: impl IntoIterator<Item = Leaving>) {
        for leaving in leaving {
            leaving.hand_over();
            self.lock_rings().ring(leaving.ring).settle(leaving.rows);
        }
    }

    /// Gives the rows that are in the rings to the sink: there will be no other messages.
    pub fn finish_rows(&self) {
        self.lock_rings().leave_all();
    }

    /// Returns the first error of a backend that could not read a row.
    pub fn rows_failed(&self) -> Option<BackendError> {
        let tap = self.lock_rings().tap.clone()?;
        lock(&tap.failed).take()
    }
}
