//! Latency of the ticks.

use robocache_core::histogram::Histogram;

/// A histogram of durations that are not negative.
#[derive(Debug, Default)]
pub struct Latency(Histogram);

impl Latency {
    /// Records one duration. If the clock stepped back meanwhile it is negative, and counts as 0.
    pub fn record(&self, nanos: i64) {
        self.0.record(nanos.max(0));
    }

    /// The histogram, for readers.
    pub fn histogram(&self) -> &Histogram {
        &self.0
    }
}

#[cfg(test)]
mod tests;
