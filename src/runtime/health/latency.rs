//! Latency of the ticks.

use crate::histogram::Histogram;

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
mod tests {
    use super::*;
    use crate::histogram::WindowReader;
    use std::time::Duration;

    #[test]
    fn a_negative_latency_counts_as_zero() {
        let latency = Latency::default();
        latency.record(-3);
        let window = WindowReader::default().read(latency.histogram(), Duration::ZERO).window;
        assert_eq!((window.count, window.p50_ns, window.max_ns), (1, 0, 0));
    }
}
