//! Rows in their final form, for those who keep them.
//!
//! A row is final when it leaves its ring because the ring is full, because an epoch begins, or at the end. Until
//! then a later message may replace it or make it again. Points of a plan that another plan replaces never become
//! final.

use std::sync::Arc;

use super::{Pipeline, Rings};
use crate::backend::{Backend, BackendError};
use crate::ring::{Entry, Ring};
use crate::spec::RingId;
use crate::sync::lock;
use crate::time::{Epoch, Stamp};

/// A row that does not change any more.
#[derive(Clone, Copy, Debug)]
pub struct FinalRow<'a> {
    /// Its ring.
    pub ring: RingId,
    /// Its instant, its input, and what follows it.
    pub entry: Entry,
    /// The epoch of its instant.
    pub epoch: Epoch,
    /// Per input of a merged row: until when its cloud may be used; `None` if the row has none of it. Empty for
    /// other rows.
    pub until: &'a [Option<Stamp>],
    /// Its values, as [`Backend::read_row`] gives them.
    pub bytes: &'a [u8],
}

/// Takes rows: those of a ring and an epoch in the order of their stamps.
pub trait RowSink: Send {
    /// Takes one. What fails is the sink's to tell.
    fn row(&mut self, row: &FinalRow<'_>);
}

/// Where final rows go.
pub(super) struct Tap {
    sink: Box<dyn RowSink>,
    backend: Arc<dyn Backend>,
    bytes: Vec<u8>,
    failed: Option<BackendError>,
}

impl Tap {
    fn take(&mut self, ring: RingId, epoch: Epoch, entry: Entry, until: &[Option<Stamp>]) {
        self.bytes.clear();
        match self.backend.read_row(ring, entry.slot, &mut self.bytes) {
            Ok(()) => self.sink.row(&FinalRow { ring, entry, epoch, until, bytes: &self.bytes }),
            Err(error) => {
                self.failed.get_or_insert(error);
            }
        }
    }
}

impl Rings {
    /// Gives the rows that have left a ring to the sink, if there is one. Their slots are spare then.
    pub(super) fn settle(&mut self, id: RingId) {
        if let Some(tap) = &mut self.tap {
            let ring = &mut self.rings[id.index()];
            let epoch = ring.epoch();
            ring.settle(|entry, until| tap.take(id, epoch, entry, until));
        }
    }

    /// The same for all rows.
    pub(super) fn settle_all(&mut self) {
        if self.tap.is_some() {
            for at in 0..self.rings.len() {
                self.rings[at].leave();
                self.settle(RingId::new(at));
            }
        }
    }
}

impl Pipeline {
    /// Gives every row that becomes final to `sink`, from now on.
    pub fn keep_rows(&mut self, sink: Box<dyn RowSink>) {
        let backend = Arc::clone(&self.backend);
        let mut rings = self.lock_rings();
        rings.rings.iter_mut().for_each(Ring::keep_left);
        rings.tap = Some(Tap { sink, backend, bytes: Vec::new(), failed: None });
    }

    /// Gives the rows that are in the rings to the sink: there will be no other messages.
    pub fn finish_rows(&self) {
        self.lock_rings().settle_all();
    }

    /// Returns the first error of a backend that could not read a row.
    pub fn rows_failed(&self) -> Option<BackendError> {
        lock(&self.rings).tap.as_mut()?.failed.take()
    }
}
