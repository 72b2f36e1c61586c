//! Histograms of signed durations: any thread records, one reads in windows, and no thread locks.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

/// Every power of two has `1 << SUB_BITS` buckets, so that a quantile is exact to 1/32.
const SUB_BITS: u32 = 5;
const SUB: usize = 1 << SUB_BITS;
/// Number of buckets of one sign: enough for every `i64`.
const SIDE: usize = (u64::BITS - 1 - SUB_BITS + 1) as usize * SUB;
/// Number of buckets. The negative ones come first, the longest first.
const BUCKETS: usize = 2 * SIDE;

/// How long durations are remembered as recent, at least; at most [`STEP`] longer.
const RECENT: Duration = Duration::from_secs(120);
/// Steps in which the recent past moves on.
const STEP: Duration = Duration::from_secs(30);

fn bucket_of(nanos: i64) -> usize {
    match u64::try_from(nanos) {
        Ok(nanos) => SIDE + magnitude_bucket::<SUB_BITS>(nanos),
        // `!nanos` is `-1 - nanos`, so -1 is in the bucket next to 0.
        Err(_) => SIDE - 1 - magnitude_bucket::<SUB_BITS>(!nanos as u64),
    }
}

/// The bucket of a magnitude, if every power of two has `1 << BITS` of them.
pub fn magnitude_bucket<const BITS: u32>(nanos: u64) -> usize {
    let sub = 1 << BITS;
    if nanos < sub as u64 {
        return nanos as usize;
    }
    let shift = u64::BITS - 1 - nanos.leading_zeros() - BITS;
    (shift as usize + 1) * sub + (nanos >> shift) as usize - sub
}

/// Returns the largest value in a bucket.
fn upper_end(bucket: usize) -> i64 {
    match bucket.checked_sub(SIDE) {
        Some(bucket) => ends::<SUB_BITS>(bucket).1 as i64,
        None => !(ends::<SUB_BITS>(SIDE - 1 - bucket).0 as i64),
    }
}

/// Returns the smallest and the largest magnitude in a bucket of one sign.
pub fn ends<const BITS: u32>(bucket: usize) -> (u64, u64) {
    let sub = 1 << BITS;
    if bucket < sub {
        return (bucket as u64, bucket as u64);
    }
    let shift = bucket / sub - 1;
    let first = ((sub + bucket % sub) as u64) << shift;
    (first, first + ((1u64 << shift) - 1))
}

/// A log-linear histogram of durations, which may be negative. Its memory is fixed: 30 KB.
#[derive(Debug)]
pub struct Histogram {
    counts: Box<[AtomicU64]>,
    max_total: AtomicI64,
    max_window: AtomicI64,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram {
            counts: (0..BUCKETS).map(|_| AtomicU64::new(0)).collect(),
            max_total: AtomicI64::new(i64::MIN),
            max_window: AtomicI64::new(i64::MIN),
        }
    }
}

impl Histogram {
    /// Records one duration, in constant time and without a lock.
    pub fn record(&self, nanos: i64) {
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
    pub p50_ns: i64,
    /// 99 % of them are at most this long.
    pub p99_ns: i64,
    /// 99.9 % of them are at most this long.
    pub p999_ns: i64,
    /// The longest.
    pub max_ns: i64,
}

/// Quantiles that a [`WindowReader`] reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Windows {
    /// Since the last reading.
    pub window: Quantiles,
    /// Of the last 2 to 2.5 minutes. Here `max_ns` is that of the total, because a histogram
    /// keeps no other.
    pub recent: Quantiles,
    /// Since the start.
    pub total: Quantiles,
}

/// The counts of all buckets that are not empty, by their numbers. These are few.
type Mark = Vec<(usize, u64)>;

/// Reads a [`Histogram`] in windows: each reading covers the durations since the last reading.
#[derive(Debug)]
pub struct WindowReader {
    before: Vec<u64>,
    /// The counts at the begin of the recent past, and after each [`STEP`] once more.
    marks: VecDeque<(Duration, Mark)>,
}

impl Default for WindowReader {
    fn default() -> Self {
        WindowReader { before: vec![0; BUCKETS], marks: VecDeque::new() }
    }
}

impl WindowReader {
    /// Forgets the recent past: what was recorded in it says nothing. `at` is the time of the last reading.
    pub fn restart(&mut self, at: Duration) {
        self.marks.clear();
        self.marks.push_back((at, mark_of(&self.before)));
    }

    /// Returns the quantiles of the windows that end now. `at` is the time since some start.
    pub fn read(&mut self, histogram: &Histogram, at: Duration) -> Windows {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let now: Vec<u64> = histogram.counts.iter().map(load).collect();
        let max_window = histogram.max_window.swap(i64::MIN, Ordering::Relaxed);
        let max_total = histogram.max_total.load(Ordering::Relaxed);
        let before = now.iter().zip(&self.before).map(|(after, before)| after - before);
        let window = quantiles(&before.collect::<Vec<_>>(), max_window);
        if self.marks.back().is_none_or(|(marked, _)| at.saturating_sub(*marked) >= STEP) {
            // The first mark is before everything.
            let mark = if self.marks.is_empty() { Mark::new() } else { mark_of(&now) };
            self.marks.push_back((at, mark));
        }
        // The newest mark that is old enough is the begin; those before it are over.
        while self.marks.get(1).is_some_and(|(marked, _)| at.saturating_sub(*marked) >= RECENT) {
            self.marks.pop_front();
        }
        let mut recent = now.clone();
        for (bucket, count) in self.marks.front().into_iter().flat_map(|(_, mark)| mark) {
            recent[*bucket] -= count;
        }
        let recent = quantiles(&recent, max_total);
        let total = quantiles(&now, max_total);
        self.before = now;
        Windows { window, recent, total }
    }
}

fn mark_of(counts: &[u64]) -> Mark {
    counts.iter().copied().enumerate().filter(|(_, count)| *count > 0).collect()
}

fn quantiles(counts: &[u64], max_ns: i64) -> Quantiles {
    let count: u64 = counts.iter().sum();
    let Some(last) = counts.iter().rposition(|n| *n > 0) else { return Quantiles::default() };
    // The maximum was read a moment after the counts: it may lack the newest duration.
    let max_ns = match last.checked_sub(1) {
        Some(below) if max_ns <= upper_end(below) => upper_end(last),
        _ => max_ns,
    };
    let at = |share: f64| {
        let rank = (count as f64 * share).ceil().max(1.0) as u64;
        let mut seen = 0;
        let bucket = counts.iter().position(|n| {
            seen += n;
            seen >= rank
        });
        bucket.map_or(max_ns, |bucket| upper_end(bucket).min(max_ns))
    };
    Quantiles { count, p50_ns: at(0.50), p99_ns: at(0.99), p999_ns: at(0.999), max_ns }
}

#[cfg(test)]
mod tests;
