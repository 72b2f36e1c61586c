//! The system's clock of a recording.

use std::sync::{Mutex, MutexGuard};

use super::{JumpLog, Reading, Transit, ahead, is_jump};
use crate::time_source::TimeSource;
use robocache_core::pipeline::{Arrival, Counter};
use robocache_ops::sync::lock;
use robocache_ops::time::{Epoch, Stamp, TickGrid};

/// The clock of a recording: the caller sets it. When it is set back, an
/// epoch begins, as on the machine that was recorded.
#[derive(Debug)]
pub struct RecordedClock {
    grid: TickGrid,
    pub(super) time: TimeSource,
    pub(super) times_set_ahead: Counter,
    state: Mutex<RecordedInstants>,
}

/// Plain values: a panic of another thread does not leave them half written.
#[derive(Debug, Default)]
struct RecordedInstants {
    /// The instant; `None` before the first.
    at: Option<Stamp>,
    /// The latest instant of the epoch that was read.
    newest: Option<Stamp>,
    /// The first one.
    began: Option<Stamp>,
    epoch: Epoch,
    log: JumpLog,
}

impl RecordedClock {
    /// Makes a clock that does not run yet, for ticks on `grid`.
    pub fn new(grid: TickGrid, time: TimeSource) -> Self {
        RecordedClock { grid, time, times_set_ahead: Counter::default(), state: Mutex::default() }
    }

    /// Sets the clock, and returns its reading.
    pub fn set(&self, stamp: Stamp) -> Reading {
        let mut state = lock(&self.state);
        state.at = Some(stamp);
        let (reading, _) = self.read(state, stamp);
        reading
    }

    /// Notes that the recorder's clock was set ahead.
    pub(crate) fn note_set_ahead(&self) {
        self.times_set_ahead.add(1);
    }

    /// Sets the clock in an epoch that the recording tells. It goes back only when an epoch
    /// begins, and what is of an epoch that is over leaves it alone.
    pub fn set_in(&self, epoch: Epoch, stamp: Stamp) {
        let mut state = lock(&self.state);
        if epoch.is_before(state.epoch) {
            return;
        }
        let begins = state.epoch.is_before(epoch);
        let stamp = state.at.filter(|_| !begins).map_or(stamp, |before| before.max(stamp));
        if begins {
            (state.epoch, state.began) = (epoch, Some(stamp));
        }
        (state.at, state.newest) = (Some(stamp), Some(stamp));
    }

    pub(crate) fn now(&self) -> Option<Reading> {
        self.reading().map(|(reading, _)| reading)
    }

    /// The reading and the first instant of its epoch; `None` before the clock is set.
    fn reading(&self) -> Option<(Reading, Stamp)> {
        let state = lock(&self.state);
        let stamp = state.at?;
        Some(self.read(state, stamp))
    }

    /// Reads the clock, which is at `stamp`, and begins an epoch if it was set back. Returns the first instant
    /// of the epoch as well.
    fn read(&self, mut state: MutexGuard<'_, RecordedInstants>, stamp: Stamp) -> (Reading, Stamp) {
        let since = self.time.monotonic();
        let newest = state.newest.unwrap_or(stamp);
        let mut jumped = None;
        if is_jump(newest, stamp) {
            state.epoch = state.epoch.next(Some(newest));
            (state.newest, state.began) = (Some(stamp), Some(stamp));
            jumped = state.log.note(since, newest, stamp);
        } else {
            state.newest = Some(newest.max(stamp));
        }
        let epoch = state.epoch;
        let began = *state.began.get_or_insert(stamp);
        drop(state);
        if let Some(jumped) = jumped {
            jumped.say();
        }
        (Reading { stamp, since, epoch }, began)
    }

    /// Returns the arrival of a message that comes now. What the recording says of the receive stamp is
    /// believed: the node that made the recording has checked it.
    pub(super) fn arrival(&self, transit: Transit) -> Arrival {
        let Some((now, began)) = self.reading() else { return Arrival::default() };
        let received = transit.arrived_ns.map_or(now.stamp, Stamp::from_nanos).min(now.stamp);
        let (max_ahead_ns, in_doubt_from) = ahead(now, began, self.grid);
        Arrival {
            stamp: Some(now.stamp),
            received: Some(received),
            epoch: now.epoch,
            max_ahead_ns,
            in_doubt_from,
            ..Arrival::default()
        }
    }
}

#[cfg(test)]
mod tests;
