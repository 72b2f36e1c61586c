//! Remembers since when a simulator's clock reads what it read lately.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::super::Reading;
use robocache_ops::time::Stamp;

/// Number of the newest readings that are remembered one by one: a second of a clock of 1 kHz.
const NEWEST: usize = 1024;
/// Older readings are remembered for this long. If a loop looks even later, its latency is this long at least.
const LATEST: Duration = Duration::from_secs(10);
/// Older readings within this time are remembered as one.
const THINNED: Duration = Duration::from_millis(10);

/// Instants of an epoch that the clock read last, and since when. A loop looks later than the clock moves, and each loop
/// has a grid of its own. So the readings tell each of them when its tick became due.
#[derive(Debug, Default)]
pub(super) struct Newest {
    all: VecDeque<(Stamp, Instant)>,
    /// Older instants, thinned: the last one of each group, and since when the clock read the first one. So a latency
    /// may be too long by [`THINNED`], but never too short.
    older: VecDeque<(Stamp, Instant)>,
}

impl Newest {
    /// Notes a reading, which is later than those before.
    pub(super) fn note(&mut self, Reading { stamp, since, .. }: Reading) {
        if self.all.len() == NEWEST {
            self.thin(since);
        }
        self.all.push_back((stamp, since));
    }

    /// Moves the oldest reading of all to those that are thinned, and forgets what is too old at `now`.
    fn thin(&mut self, now: Instant) {
        let Some((stamp, since)) = self.all.pop_front() else { return };
        match self.older.back_mut() {
            Some(group) if since.saturating_duration_since(group.1) < THINNED => group.0 = stamp,
            _ => self.older.push_back((stamp, since)),
        }
        let is_old =
            |(_, since): &(Stamp, Instant)| now.saturating_duration_since(*since) >= LATEST;
        // If the second one is old enough, nothing needs the first.
        while self.older.get(1).is_some_and(is_old) {
            self.older.pop_front();
        }
    }

    /// Begins an epoch with a reading.
    pub(super) fn begin(&mut self, first: Reading) {
        self.all.clear();
        self.older.clear();
        self.note(first);
    }

    /// Arrival of the first message at or after `instant`; of the oldest one if that is forgotten.
    pub(super) fn reached(&self, instant: Stamp) -> Option<Instant> {
        let first_of = |readings: &VecDeque<(Stamp, Instant)>| {
            let first = readings.partition_point(|(stamp, _)| *stamp < instant);
            readings.get(first).map(|(_, since)| *since)
        };
        first_of(&self.older).or_else(|| first_of(&self.all))
    }
}

#[cfg(test)]
mod tests;
