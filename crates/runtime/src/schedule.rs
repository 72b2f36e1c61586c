//! Decides which tick to serve and when: at absolute instants, only the newest due tick, never a
//! burst.

use std::time::Instant;

use super::clock::Reading;
use robocache_ops::time::{Epoch, NANOS_PER_S, Stamp, TickGrid};

/// If the clock gains more than this on the monotonic clock between two readings, it was set. A
/// smaller difference is a late wake-up, or a clock that is slewed.
const STEP_NS: i64 = NANOS_PER_S;

/// Next step of a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Wait until this instant.
    Wait(Stamp),
    /// Serve this tick.
    Serve {
        /// The newest tick that is due.
        tick: i64,
        /// Ticks between the last one served and this one.
        missed: u64,
    },
    /// The clock was set ahead after the reading `before`; the next tick is the first one from now on.
    SetAhead {
        /// The last reading.
        before: Reading,
    },
}

/// The schedule of ticks on a clock that may jump. It starts again with each epoch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schedule {
    grid: TickGrid,
    /// True if the clock is compared with the monotonic one. A simulator's clock has its own speed, so it is not
    /// compared.
    real_time: bool,
    /// The tick served last (or skipped at the start), and the last reading of the clock.
    progress: Option<(i64, Reading)>,
}

impl Schedule {
    /// Makes a schedule that starts at the first tick at or after the first reading of the clock.
    pub(crate) fn new(grid: TickGrid, real_time: bool) -> Self {
        Schedule { grid, real_time, progress: None }
    }

    /// Decides from a reading of the clock.
    pub(crate) fn advance(&mut self, now: Reading) -> Step {
        let Some((last, before)) = self.progress else {
            return self.start_at(now);
        };
        if before.epoch != now.epoch {
            return self.start_at(now);
        }
        if self.stepped_ahead(before, now) {
            self.start_at(now);
            return Step::SetAhead { before };
        }
        let due = self.grid.tick_at(now.stamp);
        if due <= last {
            self.progress = Some((last, now));
            return Step::Wait(self.grid.stamp_of(last.saturating_add(1)));
        }
        self.progress = Some((due, now));
        Step::Serve { tick: due, missed: (due - last - 1) as u64 }
    }

    /// The clock's epoch, and the first tick of it that can still be served; `None` before the first reading.
    pub(crate) fn next(&self) -> Option<(Epoch, i64)> {
        self.progress.map(|(last, reading)| (reading.epoch, last.saturating_add(1)))
    }

    fn start_at(&mut self, now: Reading) -> Step {
        // A tick exactly at this instant is still to be served.
        let passed = self.grid.tick_at(now.stamp.offset(-1));
        self.progress = Some((passed, now));
        Step::Wait(self.grid.stamp_of(passed.saturating_add(1)))
    }

    fn stepped_ahead(&self, before: Reading, now: Reading) -> bool {
        let monotonic = elapsed_ns(before.since, now.since);
        self.real_time && now.stamp.since(before.stamp).saturating_sub(monotonic) > STEP_NS
    }
}

/// Returns the nanoseconds from one instant to a later one.
pub(crate) fn elapsed_ns(from: Instant, to: Instant) -> i64 {
    i64::try_from(to.saturating_duration_since(from).as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
