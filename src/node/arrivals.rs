//! What the arrivals of a stream say about the way they came: silence, and messages that were
//! published but never arrived.

use std::time::{Duration, Instant};

use crate::time::Stamp;

/// Spacings of stamps that are looked at.
const SPACINGS: usize = 64;
/// Fewer say nothing.
const ENOUGH: usize = 16;
/// How far a spacing may lie from a multiple of the period, in periods.
const JITTER: f64 = 0.25;
/// Share of spacings that must lie near a multiple before the stamps count as periodic.
const PERIODIC: f64 = 0.8;

/// The recent arrivals of one stream.
#[derive(Debug)]
pub struct Arrivals {
    newest: Instant,
    seen: bool,
    stamp: Option<Stamp>,
    spacings: [i64; SPACINGS],
    count: usize,
}

impl Arrivals {
    /// Nothing has arrived since `start`.
    pub fn new(start: Instant) -> Self {
        Arrivals { newest: start, seen: false, stamp: None, spacings: [0; SPACINGS], count: 0 }
    }

    /// Notes a message; `stamp` if it was accepted.
    pub fn note(&mut self, at: Instant, stamp: Option<Stamp>) {
        self.newest = at;
        self.seen = true;
        let Some(stamp) = stamp else { return };
        if let Some(before) = self.stamp.replace(stamp) {
            let spacing = stamp.since(before);
            if spacing <= 0 {
                // Reordering, a replacement or a clock that jumped: spacings start anew.
                self.count = 0;
                return;
            }
            self.spacings[self.count % SPACINGS] = spacing;
            self.count += 1;
        }
    }

    /// Whether anything has ever arrived, and how long ago the newest message did (or the start).
    pub fn silence(&self, now: Instant) -> (bool, Duration) {
        (self.seen, now.saturating_duration_since(self.newest))
    }

    /// The share of messages that seem to have been published and lost on the way: of stamps at
    /// multiples of a period, the share of multiples without a message. `None` where the stamps
    /// do not tell.
    pub fn missing_share(&self) -> Option<f64> {
        let mut spacings = self.spacings[..self.count.min(SPACINGS)].to_vec();
        if spacings.len() < ENOUGH {
            return None;
        }
        spacings.sort_unstable();
        // The smallest usual spacing, then the middle of those like it: jitter makes the very
        // smallest one too small.
        let small = spacings[spacings.len() / 10];
        let like_it = spacings.partition_point(|&s| s <= small.saturating_add(small / 2));
        let period = spacings[like_it / 2] as f64;
        let multiples: Vec<f64> = spacings.iter().map(|&s| s as f64 / period).collect();
        let near = multiples.iter().filter(|m| (**m - m.round()).abs() < JITTER).count();
        if (near as f64) < PERIODIC * multiples.len() as f64 {
            return None;
        }
        let published: f64 = multiples.iter().map(|m| m.round()).sum();
        Some(1.0 - multiples.len() as f64 / published)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrivals(stamps: impl IntoIterator<Item = i64>) -> Arrivals {
        let start = Instant::now();
        let mut arrivals = Arrivals::new(start);
        for stamp in stamps {
            arrivals.note(start, Some(Stamp::from_nanos(1_795_000_000_000_000_000 + stamp)));
        }
        arrivals
    }

    /// Jitter of up to a tenth of the period, the same on every run.
    fn jittered(k: i64, period: i64) -> i64 {
        k * period + (k * 7919 % 201 - 100) * period / 2000
    }

    #[test]
    fn a_complete_stream_misses_nothing() {
        let share = arrivals((0..100).map(|k| jittered(k, 33_333_333))).missing_share();
        assert!(share.unwrap().abs() < 0.05, "{share:?}");
    }

    #[test]
    fn a_stream_of_which_a_quarter_arrives_misses_three_quarters() {
        // 27 of 100 messages, as from a publisher with the middleware's default segment
        let kept = (0..300i64).filter(|k| k * 7919 % 100 < 27);
        let share = arrivals(kept.map(|k| jittered(k, 33_333_333))).missing_share().unwrap();
        assert!((share - 0.73).abs() < 0.1, "{share}");
    }

    #[test]
    fn stamps_without_a_period_and_short_streams_say_nothing() {
        let irregular = (1..80i64).map(|k| k * k * 1_300_000 + k * 7_919_317 % 10_000_019);
        assert_eq!(arrivals(irregular).missing_share(), None);
        assert_eq!(arrivals((0..10).map(|k| k * 1000)).missing_share(), None);
    }

    #[test]
    fn silence_counts_from_the_start_and_then_from_the_newest_message() {
        let start = Instant::now();
        let mut arrivals = Arrivals::new(start);
        let second = Duration::from_secs(1);
        assert_eq!(arrivals.silence(start + second), (false, second));
        arrivals.note(start + second, None);
        assert_eq!(arrivals.silence(start + 3 * second), (true, 2 * second));
    }
}
