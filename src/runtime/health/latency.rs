//! Latency of the ticks: a histogram that one thread writes and another reads, without a lock.

use std::sync::atomic::{AtomicU64, Ordering};

/// Every power of two has `1 << SUB_BITS` buckets, so that a quantile is exact to 1/32.
const SUB_BITS: u32 = 5;
const SUB: usize = 1 << SUB_BITS;
/// Number of buckets: enough for every `u64`.
const BUCKETS: usize = (u64::BITS - SUB_BITS + 1) as usize * SUB;

fn bucket_of(nanos: u64) -> usize {
    if nanos < SUB as u64 {
        return nanos as usize;
    }
    let shift = u64::BITS - 1 - nanos.leading_zeros() - SUB_BITS;
    (shift as usize + 1) * SUB + (nanos >> shift) as usize - SUB
}

/// Returns the largest value in a bucket.
fn upper_end(bucket: usize) -> u64 {
    if bucket < SUB {
        return bucket as u64;
    }
    let shift = bucket / SUB - 1;
    let first = ((SUB + bucket % SUB) as u64) << shift;
    first + ((1u64 << shift) - 1)
}

/// A log-linear histogram of durations.
#[derive(Debug)]
pub struct Latency {
    counts: Box<[AtomicU64]>,
    max_total: AtomicU64,
    max_window: AtomicU64,
}

impl Default for Latency {
    fn default() -> Self {
        Latency {
            counts: (0..BUCKETS).map(|_| AtomicU64::new(0)).collect(),
            max_total: AtomicU64::new(0),
            max_window: AtomicU64::new(0),
        }
    }
}

impl Latency {
    /// Records one duration. If the clock stepped back meanwhile it is negative, and counts as 0.
    pub fn record(&self, nanos: i64) {
        let nanos = nanos.max(0) as u64;
        self.counts[bucket_of(nanos)].fetch_add(1, Ordering::Relaxed);
        self.max_total.fetch_max(nanos, Ordering::Relaxed);
        self.max_window.fetch_max(nanos, Ordering::Relaxed);
    }
}

/// Quantiles of a set of durations \[ns\]; all 0 if the set is empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quantiles {
    /// Durations recorded.
    pub count: u64,
    /// Half of them are at most this long.
    pub p50_ns: u64,
    /// 99 % of them are at most this long.
    pub p99_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

/// Reads a [`Latency`] in windows: each reading covers the durations since the last reading.
#[derive(Debug)]
pub struct WindowReader {
    before: Vec<u64>,
}

impl Default for WindowReader {
    fn default() -> Self {
        WindowReader { before: vec![0; BUCKETS] }
    }
}

impl WindowReader {
    /// Returns the quantiles since the last reading, and since the start.
    pub fn read(&mut self, latency: &Latency) -> (Quantiles, Quantiles) {
        let now: Vec<u64> = latency.counts.iter().map(|c| c.load(Ordering::Relaxed)).collect();
        let window: Vec<u64> = now.iter().zip(&self.before).map(|(a, b)| a - b).collect();
        let max_window = latency.max_window.swap(0, Ordering::Relaxed);
        let total = quantiles(&now, latency.max_total.load(Ordering::Relaxed));
        self.before = now;
        (quantiles(&window, max_window), total)
    }
}

fn quantiles(counts: &[u64], max_ns: u64) -> Quantiles {
    let count: u64 = counts.iter().sum();
    let at = |share: f64| {
        let rank = (count as f64 * share).ceil().max(1.0) as u64;
        let mut seen = 0;
        let bucket = counts.iter().position(|n| {
            seen += n;
            seen >= rank
        });
        bucket.map_or(0, |b| upper_end(b).min(max_ns))
    };
    Quantiles { count, p50_ns: at(0.50), p99_ns: at(0.99), max_ns }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_contiguous_and_their_ends_are_inside() {
        for bucket in 0..BUCKETS {
            let end = upper_end(bucket);
            assert_eq!(bucket_of(end), bucket);
            if let Some(next) = end.checked_add(1) {
                assert_eq!(bucket_of(next), bucket + 1);
            }
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_are_within_a_bucket_of_the_sorted_values() {
        let latency = Latency::default();
        let mut reader = WindowReader::default();
        for i in 1..=1000 {
            latency.record(i * 1000);
        }
        let (window, total) = reader.read(&latency);
        assert_eq!(window, total);
        assert_eq!((window.count, window.max_ns), (1000, 1_000_000));
        for (found, exact) in [(window.p50_ns, 500_000.0), (window.p99_ns, 990_000.0)] {
            assert!((found as f64 / exact - 1.0).abs() < 1.0 / 32.0, "{found} against {exact}");
        }
    }

    #[test]
    fn a_window_forgets_and_the_total_does_not() {
        let latency = Latency::default();
        let mut reader = WindowReader::default();
        latency.record(5_000_000);
        reader.read(&latency);
        latency.record(-3);
        let (window, total) = reader.read(&latency);
        assert_eq!((window.count, window.max_ns), (1, 0));
        assert_eq!((total.count, total.max_ns), (2, 5_000_000));
        assert_eq!(reader.read(&latency).0, Quantiles::default());
    }
}
