//! A clock that nobody sets.

use std::time::{Duration, Instant};

use super::Reading;
use crate::time::{Epoch, Stamp};

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
mod tests {
    use super::super::Clock;
    use super::*;

    #[test]
    fn a_steady_clock_is_at_its_stamp_at_its_instant() {
        let at = Instant::now() + Duration::from_secs(1);
        let clock = Clock::steady(Stamp::from_nanos(5_000_000_000), at);
        let now = clock.now().unwrap();
        let before = i64::try_from((at - now.since).as_nanos()).unwrap();
        assert_eq!(now.stamp, Stamp::from_nanos(5_000_000_000 - before));
        assert_eq!(clock.stands(), None);
    }
}
