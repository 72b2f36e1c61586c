//! A clock that is never set.

use std::time::{Duration, Instant};

use super::Reading;
use crate::time_source::TimeSource;
use robocache_ops::time::{Epoch, Stamp};

/// A clock that runs with the monotonic clock.
#[derive(Debug)]
pub struct SteadyClock {
    stamp: Stamp,
    at: Instant,
    pub(super) time: TimeSource,
}

impl SteadyClock {
    pub(super) fn new(stamp: Stamp, at: Instant, time: TimeSource) -> Self {
        SteadyClock { stamp, at, time }
    }

    pub(super) fn now(&self) -> Reading {
        let since = self.time.monotonic();
        let nanos = |d: Duration| i64::try_from(d.as_nanos()).unwrap_or(i64::MAX);
        let after = nanos(since.saturating_duration_since(self.at));
        let before = nanos(self.at.saturating_duration_since(since));
        Reading { stamp: self.stamp.offset(after - before), since, epoch: Epoch::default() }
    }
}

#[cfg(test)]
mod tests;
