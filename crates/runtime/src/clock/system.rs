//! The system's clock.
//!
//! Threads of real-time priority read it, so a reading takes no lock, never repeats itself, and never
//! waits for a thread that was interrupted. Three rules make that sound:
//!
//! - **The newest instant is loaded before the clock is read.** The thread that stored it had read the clock before. So
//!   if the clock is behind the newest instant, the clock was set back. A thread that is interrupted after its reading
//!   sees no false jump.
//! - **Each epoch has a [`Span`] of its own, for ever.** A thread advances only the span that it
//!   had loaded. If it read the clock before a jump and goes on after it, it advances the old epoch, and
//!   not the new one.
//! - **One thread begins an epoch; the others do not wait for it.** The span is complete before its number is
//!   published. Meanwhile all other threads read the newest instant of the old epoch: the clock stops for a moment. So
//!   a jump begins one epoch.

use std::time::Instant;

use super::{JumpLog, Reading, SetAhead, Transit, ahead, is_jump};
use crate::sync::{AtomicI64, AtomicU64, Mutex, OnceLock, Ordering, TryLockError};
use crate::time_source::TimeSource;
use robocache_core::pipeline::Arrival;
use robocache_ops::time::{Epoch, Stamp, TickGrid};

/// The system's clock, which a user or a service may set. The [module](self) says how threads share it.
#[derive(Debug)]
pub struct SystemClock {
    grid: TickGrid,
    pub(super) time: TimeSource,
    spans: Spans,
    pub(super) set_ahead: SetAhead,
    /// The thread that holds this lock begins an epoch. No thread waits for the lock.
    log: Mutex<JumpLog>,
}

impl SystemClock {
    pub(super) fn new(grid: TickGrid, time: TimeSource) -> Self {
        let spans = Spans::new(time.system());
        let set_ahead = SetAhead::new(time.monotonic());
        SystemClock { grid, time, spans, set_ahead, log: Mutex::default() }
    }

    pub(super) fn now(&self) -> Reading {
        self.read(|| self.time.system()).0
    }

    /// Reads the clock, and begins an epoch if it jumped back. Returns the first instant of the epoch as
    /// well.
    fn read(&self, clock: impl Fn() -> Stamp) -> (Reading, Stamp) {
        let newest = self.spans.newest();
        let looked = self.look(newest, &clock);
        looked.unwrap_or_else(|jump| self.jumped(newest, jump.from, &clock))
    }

    /// Reads the clock in an epoch, if it has not jumped back.
    fn look(
        &self,
        (number, span): (u64, &Span),
        clock: impl Fn() -> Stamp,
    ) -> Result<(Reading, Stamp), Jump> {
        // In this order: see the module.
        let newest = Stamp::from_nanos(span.newest.load(Ordering::Acquire));
        let stamp = clock();
        let since = self.time.monotonic();
        if is_jump(newest, stamp) {
            return Err(Jump { from: newest, to: stamp, since });
        }
        span.newest.fetch_max(stamp.nanos(), Ordering::Release);
        Ok((Reading { stamp, since, epoch: span.epoch(number) }, span.began()))
    }

    /// Begins an epoch, unless another thread does: then the clock is still where it jumped back `from`.
    fn jumped(
        &self,
        (number, span): (u64, &Span),
        from: Stamp,
        clock: impl Fn() -> Stamp,
    ) -> (Reading, Stamp) {
        let mut log = match self.log.try_lock() {
            Ok(log) => log,
            // It is plain values: a panic does not leave them half written.
            Err(TryLockError::Poisoned(log)) => log.into_inner(),
            Err(TryLockError::WouldBlock) => {
                let reading = Reading {
                    stamp: from,
                    since: self.time.monotonic(),
                    epoch: span.epoch(number),
                };
                return (reading, span.began());
            }
        };
        // Another thread may have begun the epoch since. Now none does.
        let newest = self.spans.newest();
        let Jump { from, to: stamp, since } = match self.look(newest, &clock) {
            Ok(found) => return found,
            Err(jump) => jump,
        };
        let Some((number, span)) = self.spans.begin(newest.0 + 1, from, stamp) else {
            return (Reading { stamp, since, epoch: newest.1.epoch(newest.0) }, newest.1.began());
        };
        let jumped = log.note(since, from, stamp);
        drop(log);
        if let Some(jumped) = jumped {
            jumped.say();
        }
        (Reading { stamp, since, epoch: span.epoch(number) }, span.began())
    }

    pub(super) fn arrival(&self, transit: Transit) -> Arrival {
        self.arrival_by(transit, || self.time.system())
    }

    /// The arrival of a message by this clock.
    fn arrival_by(&self, transit: Transit, clock: impl Fn() -> Stamp) -> Arrival {
        let (now, began) = self.read(clock);
        // However long it has waited, because the process may have stood still: with the time of now, an old value
        // would be fresh.
        let is_sane = |received: &Stamp| (began..=now.stamp).contains(received);
        let received = transit.arrived_ns.map(Stamp::from_nanos).filter(is_sane);
        let (max_ahead_ns, in_doubt_from) = ahead(now, began, self.grid);
        Arrival {
            stamp: Some(now.stamp),
            received: Some(received.unwrap_or(now.stamp)),
            epoch: now.epoch,
            max_ahead_ns,
            in_doubt_from,
            ..Arrival::default()
        }
    }
}

/// A step back of the clock.
struct Jump {
    from: Stamp,
    to: Stamp,
    /// When it was noticed.
    since: Instant,
}

/// An epoch of the clock.
#[derive(Debug, Default)]
struct Span {
    /// Instant that the clock jumped back from \[ns\]; nothing for the first epoch.
    jumped_from: AtomicI64,
    /// The first instant \[ns\].
    began: AtomicI64,
    /// The latest instant that any thread has read \[ns\].
    newest: AtomicI64,
}

impl Span {
    fn set(&self, jumped_from: Stamp, began: Stamp) {
        self.jumped_from.store(jumped_from.nanos(), Ordering::Relaxed);
        self.began.store(began.nanos(), Ordering::Relaxed);
        self.newest.store(began.nanos(), Ordering::Relaxed);
    }

    fn began(&self) -> Stamp {
        Stamp::from_nanos(self.began.load(Ordering::Relaxed))
    }

    /// The epoch, if it is the span of this number.
    fn epoch(&self, number: u64) -> Epoch {
        match number.checked_sub(1) {
            None => Epoch::default(),
            Some(before) => {
                let jumped_from = Stamp::from_nanos(self.jumped_from.load(Ordering::Relaxed));
                Epoch::numbered(before).next(Some(jumped_from))
            }
        }
    }
}

/// All epochs of the clock. A jump takes 24 bytes, and nothing is given back: if the clock is set back
/// once in a second, that is 2 MB a day.
#[derive(Debug)]
struct Spans {
    /// The number of the newest.
    newest: AtomicU64,
    first: Span,
    /// Chunk `k` has the `2^k` spans from number `2^k` on.
    chunks: [OnceLock<Box<[Span]>>; 32],
}

impl Spans {
    fn new(began: Stamp) -> Self {
        let first = Span::default();
        first.set(began, began);
        Spans { newest: AtomicU64::new(0), first, chunks: Default::default() }
    }

    /// The newest span, and its number.
    fn newest(&self) -> (u64, &Span) {
        // All of a span was written before its number.
        let number = self.newest.load(Ordering::Acquire);
        (number, self.of(number).unwrap_or(&self.first))
    }

    fn of(&self, number: u64) -> Option<&Span> {
        let Some(chunk) = number.checked_ilog2() else { return Some(&self.first) };
        self.chunks.get(chunk as usize)?.get()?.get((number - (1 << chunk)) as usize)
    }

    /// Begins the span of this number, which is the next. One thread at a time may call it. `None` after
    /// 2^32 spans.
    fn begin(&self, number: u64, jumped_from: Stamp, began: Stamp) -> Option<(u64, &Span)> {
        let chunk = number.checked_ilog2()?;
        self.chunks
            .get(chunk as usize)?
            .get_or_init(|| (0..1_u64 << chunk).map(|_| Span::default()).collect());
        let span = self.of(number)?;
        span.set(jumped_from, began);
        self.newest.store(number, Ordering::Release);
        Some((number, span))
    }
}

#[cfg(test)]
mod tests;
