//! Time as the node sees it, for rates and patience. It never runs back.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::time_source::TimeSource;
use robocache_ops::sync::lock;
use robocache_ops::time::{Epoch, Stamp};

/// A rate is measured over at least this long. A slow simulation may move by less between two
/// reports.
const SHORTEST: Duration = Duration::from_millis(500);
/// The longest step of a simulator's clock that counts in full. If a user seeks in a recording, the streams have not
/// been silent for that long.
const LONGEST_STEP_NS: i64 = 1_000_000_000;

/// The time since the start by the node's clock.
///
/// The system's clock may be set, so there it is the monotonic time. A simulator's clock may run
/// slow, fast or not at all, so there it is the sum of the clock's steps. A jump back adds nothing.
#[derive(Debug)]
pub struct NodeTime {
    time: TimeSource,
    start: Instant,
    /// Sum of the simulator's steps \[ns\]; `None` for other clocks.
    progress: Option<AtomicU64>,
    newest: Mutex<Option<(Epoch, Stamp)>>,
}

impl NodeTime {
    /// Starts at zero. `simulated` says whether [`NodeTime::set`] moves the time.
    pub fn new(simulated: bool, time: TimeSource) -> Self {
        NodeTime {
            start: time.monotonic(),
            time,
            progress: simulated.then(AtomicU64::default),
            newest: Mutex::default(),
        }
    }

    /// Notes a reading of a simulator's clock. The time of other clocks does not change.
    pub fn set(&self, epoch: Epoch, stamp: Stamp) {
        let Some(progress) = &self.progress else { return };
        let mut newest = lock(&self.newest);
        let before = newest.replace((epoch, stamp));
        // With a new epoch the stamps start again.
        let step_ns = before
            .filter(|(before, _)| *before == epoch)
            .map_or(0, |(_, before)| stamp.since(before).clamp(0, LONGEST_STEP_NS));
        progress.fetch_add(step_ns as u64, Ordering::Relaxed);
    }

    /// Returns the time since the start.
    pub fn now(&self) -> Duration {
        match &self.progress {
            Some(progress) => Duration::from_nanos(progress.load(Ordering::Relaxed)),
            None => self.time.since(self.start),
        }
    }
}

/// Measures how often something happens per second of the node's time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RateMeter {
    begin: Duration,
    before: u64,
    rate_hz: Option<f64>,
}

/// A measured rate.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Rate {
    /// Events per second; 0 before time has passed.
    pub hz: f64,
    /// True if the rate was measured over a window that is long enough to judge it.
    pub measured: bool,
    /// True if such a window has just ended. If not, `hz` is the rate of the one before.
    pub fresh: bool,
}

impl RateMeter {
    /// Reads the rate from the number of events so far.
    pub(crate) fn read(&mut self, now: Duration, events: u64) -> Rate {
        let time = now.saturating_sub(self.begin);
        let new = events.saturating_sub(self.before) as f64;
        let fresh = time >= SHORTEST;
        if fresh {
            self.rate_hz = Some(new / time.as_secs_f64());
            (self.begin, self.before) = (now, events);
        }
        let first = if time.is_zero() { 0.0 } else { new / time.as_secs_f64() };
        Rate { hz: self.rate_hz.unwrap_or(first), measured: self.rate_hz.is_some(), fresh }
    }
}

#[cfg(test)]
mod tests;
