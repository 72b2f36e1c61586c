//! A clock that is never set.

use std::time::{Duration, Instant};

use super::Reading;
use robocache_ops::time::{Epoch, Stamp};

/// A clock that runs with the monotonic clock.
#[derive(Debug)]
pub struct SteadyClock {
    stamp: Stamp,
    at: Instant,
}

impl SteadyClock {
    pub(super) fn new(stamp: Stamp, at: Instant) -> Self {
        SteadyClock { stamp, at }
    }

    pub(super) fn now(&self) -> Reading {
        let since = Instant::now();
        let nanos = |d: Duration| i64::try_from(d.as_nanos()).unwrap_or(i64::MAX);
        let after = nanos(since.saturating_duration_since(self.at));
        let before = nanos(self.at.saturating_duration_since(since));
        Reading { stamp: self.stamp.offset(after - before), since, epoch: Epoch::default() }
    }
}

#[cfg(test)]
mod tests;
