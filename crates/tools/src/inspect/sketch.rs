//! Distributions of durations in little memory.

use std::collections::BTreeMap;

use serde::Serialize;

use robocache_core::histogram::{ends, magnitude_bucket};

/// Every power of two has `1 << BITS` buckets, so that a quantile is exact to 0.1 %.
const BITS: u32 = 10;

/// Counts of durations, which may be negative, in buckets of 0.1 %. Only buckets with a duration need
/// memory; the smallest and the largest duration and the sum are exact.
#[derive(Clone, Debug, Default)]
pub struct Sketch {
    /// By bucket: that of the magnitude, or of negative durations its complement.
    counts: BTreeMap<i32, u64>,
    count: u64,
    sum: i128,
    /// The smallest and the largest.
    ends: [i64; 2],
}

/// Distribution of a [`Sketch`] \[ns\].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Distribution {
    /// Durations.
    pub count: u64,
    /// The smallest.
    pub min_ns: i64,
    /// 1 % of them are at most this long.
    pub p1_ns: i64,
    /// Half of them are.
    pub p50_ns: i64,
    /// 95 % of them are.
    pub p95_ns: i64,
    /// 99 % of them are.
    pub p99_ns: i64,
    /// 99.9 % of them are.
    pub p999_ns: i64,
    /// The longest.
    pub max_ns: i64,
    /// The mean.
    pub mean_ns: i64,
}

impl Sketch {
    /// Records a duration.
    pub fn record(&mut self, nanos: i64) {
        let bucket = match u64::try_from(nanos) {
            Ok(nanos) => magnitude_bucket::<BITS>(nanos) as i32,
            Err(_) => !(magnitude_bucket::<BITS>(!nanos as u64) as i32),
        };
        *self.counts.entry(bucket).or_default() += 1;
        self.ends = match self.count {
            0 => [nanos, nanos],
            _ => [self.ends[0].min(nanos), self.ends[1].max(nanos)],
        };
        self.count += 1;
        self.sum += i128::from(nanos);
    }

    /// Number of durations.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The duration that this share of all does not exceed, to 0.1 %; `None` without durations.
    pub fn quantile(&self, share: f64) -> Option<i64> {
        let rank = (self.count as f64 * share).ceil().max(1.0) as u64;
        let mut seen = 0;
        let (bucket, _) = self.counts.iter().find(|(_, count)| {
            seen += **count;
            seen >= rank
        })?;
        Some(middle(*bucket).clamp(self.ends[0], self.ends[1]))
    }

    /// How many durations are longer than this one, to 0.1 %.
    pub fn longer_than(&self, nanos: i64) -> u64 {
        let longer =
            |(bucket, count): (&i32, &u64)| if middle(*bucket) > nanos { *count } else { 0 };
        self.counts.iter().map(longer).sum()
    }

    /// The durations with their numbers, in ascending order; each is that of its bucket.
    pub fn buckets(&self) -> impl Iterator<Item = (i64, u64)> + '_ {
        self.counts.iter().map(|(bucket, count)| (middle(*bucket), *count))
    }

    /// The distribution; `None` without durations.
    pub fn distribution(&self) -> Option<Distribution> {
        let at = |share| self.quantile(share).unwrap_or_default();
        (self.count > 0).then(|| Distribution {
            count: self.count,
            min_ns: self.ends[0],
            p1_ns: at(0.01),
            p50_ns: at(0.5),
            p95_ns: at(0.95),
            p99_ns: at(0.99),
            p999_ns: at(0.999),
            max_ns: self.ends[1],
            mean_ns: (self.sum / i128::from(self.count)) as i64,
        })
    }
}

/// The middle of a bucket.
fn middle(bucket: i32) -> i64 {
    let of_magnitude = |bucket: i32| {
        let (first, last) = ends::<BITS>(bucket as usize);
        (first + (last - first) / 2) as i64
    };
    match bucket {
        0.. => of_magnitude(bucket),
        _ => !of_magnitude(!bucket),
    }
}

#[cfg(test)]
mod tests;
