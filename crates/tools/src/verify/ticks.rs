//! The ticks of both sides, and those that differ.

use std::collections::BTreeMap;

use super::report::{Different, Late};
use robocache_core::spec::StreamId;
use robocache_data::replay::ReplayError;
use robocache_ops::time::Stamp;
use robocache_runtime::{Served, Tick, TickFate, TickRecord};

/// The number of an epoch, and that of a tick in it.
pub(super) type TickId = (u64, i64);

/// Ticks of each side that wait for the other's.
const MOST_WAITING: usize = 100_000;

/// Ticks that differ and are kept in words.
const MOST_DIFFERENT: usize = 1000;

/// Result of a tick in the replay.
#[derive(Clone, Copy, Debug)]
pub(super) struct Replayed {
    /// `None` if it was held back.
    pub digest: Option<u64>,
    /// How many changes of the rings it saw.
    pub changes: u64,
    /// Its instant, on the node's clock.
    pub stamp: Stamp,
}

/// A tick that differs and is yet to be explained.
#[derive(Clone, Copy, Debug)]
pub(super) struct Doubt {
    pub id: TickId,
    pub live: TickRecord,
    pub replayed: Replayed,
    /// The time of the log when it was found.
    pub found: Stamp,
}

/// The ticks of both sides.
#[derive(Default)]
pub(super) struct Ticks {
    pub live: BTreeMap<TickId, TickRecord>,
    pub replayed: BTreeMap<TickId, Replayed>,
    /// Ticks that differ, not explained yet.
    pub doubts: Vec<Doubt>,
    pub equal: u64,
    pub held_back: u64,
    pub unverifiable: u64,
    pub unsent: u64,
    pub overruns: u64,
    pub differing: u64,
    pub unexplained: u64,
    /// The first of them.
    pub different: Vec<Different>,
    /// Ticks that the node served, and for which the replay is no more waited for.
    unserved: Vec<TickId>,
    /// The time of the log.
    pub now: Stamp,
    period_ns: i64,
    /// The segments of which the node's digests are; `None` for the whole tensor.
    segments: Option<Vec<bool>>,
    /// The streams that are not recorded.
    missing: Vec<StreamId>,
}

impl Ticks {
    /// No ticks so far, of this period. The node's digests are of these `segments`, and the streams `missing` are not recorded.
    pub(super) fn new(period_ns: i64, segments: Option<Vec<bool>>, missing: Vec<StreamId>) -> Self {
        Ticks { period_ns, segments, missing, ..Ticks::default() }
    }

    /// Notes a tick of the node.
    pub(super) fn told(&mut self, live: TickRecord) {
        let id = (live.epoch.number(), live.tick);
        if live.fate == TickFate::Unsent {
            self.unsent += 1;
            return;
        }
        match self.replayed.remove(&id) {
            Some(replayed) => self.compare(id, live, replayed),
            None => {
                self.live.insert(id, live);
            }
        }
        if self.live.len() > MOST_WAITING {
            self.unserved.extend(self.live.pop_first().map(|(id, _)| id));
        }
    }

    /// Takes out the ticks that the node served and the replay did not; with `all`, also those that it may yet serve.
    pub(super) fn take_unserved(&mut self, all: bool) -> Vec<TickId> {
        let mut unserved = std::mem::take(&mut self.unserved);
        if all {
            unserved.extend(std::mem::take(&mut self.live).into_keys());
        }
        unserved
    }

    /// Notes a tick that differs, with the rows that explain it.
    pub(super) fn differs(&mut self, id: TickId, late: Vec<Late>, early: Vec<Late>) {
        let (epoch, tick) = id;
        self.differing += 1;
        self.unexplained += u64::from(late.is_empty() && early.is_empty());
        if self.different.len() < MOST_DIFFERENT {
            self.different.push(Different { tick, epoch, late, early });
        }
    }

    /// Notes a tick of the replay.
    pub(super) fn served(&mut self, served: Served<'_>) {
        let (Tick { number, epoch, changes, .. }, digest) = match served {
            Served::Tensor(tick, message) => match &self.segments {
                Some(segments) => (tick, message.digest_of(segments)),
                None => {
                    message.seal();
                    (tick, message.digest())
                }
            },
            Served::HeldBack(tick) => (tick, None),
            // Commands are made of the recorded facts.
            Served::Commands(..) => return,
        };
        let stamp = Stamp::from_nanos(number.saturating_mul(self.period_ns));
        let id = (epoch.number(), number);
        let replayed = Replayed { digest, changes, stamp };
        match self.live.remove(&id) {
            Some(live) => self.compare(id, live, replayed),
            None => {
                self.replayed.insert(id, replayed);
            }
        }
        // With this many waiting, the node did not serve the oldest.
        if self.replayed.len() > MOST_WAITING {
            self.replayed.pop_first();
        }
    }

    /// As [`Ticks::served`], for the player, which lets it fail.
    #[allow(clippy::unnecessary_wraps)]
    pub(super) fn took(&mut self, served: Served<'_>) -> Result<(), ReplayError> {
        self.served(served);
        Ok(())
    }

    /// Compares both sides of a tick.
    pub(super) fn compare(&mut self, id: TickId, live: TickRecord, replayed: Replayed) {
        if let TickFate::HeldBack(stream) = live.fate
            && self.missing.contains(&stream)
        {
            self.unverifiable += 1;
            return;
        }
        let same = match live.fate {
            TickFate::Published { digest } => replayed.digest == digest && digest.is_some(),
            TickFate::HeldBack(_) => replayed.digest.is_none(),
            TickFate::Unsent => true,
        };
        if same {
            self.equal += 1;
            self.held_back += u64::from(replayed.digest.is_none());
        } else {
            self.doubts.push(Doubt { id, live, replayed, found: self.now });
        }
    }
}
