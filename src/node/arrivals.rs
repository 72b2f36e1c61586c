//! What the arrivals of a stream say about the way they came: silence, and messages that were
//! published but never arrived.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::stats::DropReason;
use crate::time::Stamp;

/// Spacings of stamps that are looked at.
const SPACINGS: usize = 64;
/// Fewer say nothing.
const ENOUGH: usize = 16;
/// How far a spacing may lie from a multiple of the period, in periods.
const JITTER: f64 = 0.25;
/// Share of spacings that must lie near a multiple before the stamps count as periodic.
const PERIODIC: f64 = 0.8;
/// Messages between two looks at the period.
const LOOK: usize = 16;
/// A period more than this many times longer or shorter than the one before is doubted, until it has
/// lasted.
const ANOTHER: f64 = 1.5;
/// How long it has to last: longer than a backlog takes, of which a full queue lost most.
const LASTING: Duration = Duration::from_secs(1);
/// What a message adds to that at most: a pause is no sign of another period.
const PAUSE: Duration = Duration::from_millis(100);
/// Stamps further apart than this \[ns\], and than [`LEAP_PERIODS`], do not tell how many messages
/// are missing: the stream was off, or its clock was set.
const LEAP_NS: f64 = 10e9;
/// See [`LEAP_NS`].
const LEAP_PERIODS: f64 = 4.0;
/// Intervals between arrivals from which the usual one is learnt.
const INTERVALS: usize = 8;

/// The recent arrivals of one stream.
#[derive(Debug)]
pub struct Arrivals {
    newest: Instant,
    seen: bool,
    intervals: VecDeque<Duration>,
    stamp: Option<Stamp>,
    spacings: [i64; SPACINGS],
    /// Per spacing, how many of the messages that it lacks arrived and were dropped.
    explained: [u64; SPACINGS],
    count: usize,
    /// Dropped messages whose gap among the stamps has not been seen yet.
    dropped: u64,
    /// Of those, the ones noted since the last look: older ones left no gap.
    dropped_lately: u64,
    /// Spacing of the stamps as published \[ns\], as of the last look that told.
    period: Option<f64>,
    /// Time in which messages came, without the pauses between them.
    active: Duration,
    /// When, in that time, looks began to tell of another period, or of none.
    doubted: Option<Duration>,
    missing: u64,
}

impl Arrivals {
    /// Nothing has arrived since `start`.
    pub fn new(start: Instant) -> Self {
        Arrivals {
            newest: start,
            seen: false,
            intervals: VecDeque::with_capacity(INTERVALS),
            stamp: None,
            spacings: [0; SPACINGS],
            explained: [0; SPACINGS],
            count: 0,
            dropped: 0,
            dropped_lately: 0,
            period: None,
            active: Duration::ZERO,
            doubted: None,
            missing: 0,
        }
    }

    /// Notes a message that became a row of this stamp.
    pub fn note(&mut self, at: Instant, stamp: Stamp) {
        self.arrived(at);
        let Some(before) = self.stamp else {
            self.stamp = Some(stamp);
            return;
        };
        let spacing = stamp.since(before);
        if (spacing as f64).abs() > LEAP_NS.max(LEAP_PERIODS * self.period.unwrap_or(0.0)) {
            self.restart();
            self.stamp = Some(stamp);
            return;
        }
        let periods = self.period.map(|period| (spacing as f64 / period).round());
        let mut explained = 0;
        match periods {
            // Out of order: it had been missed already, and the newest stays the newest.
            Some(periods) if spacing <= 0 && periods > -(SPACINGS as f64) => {
                self.missing -= u64::from(spacing < 0).min(self.missing);
                return;
            }
            Some(periods) if periods > 1.0 => {
                let gap = periods as u64 - 1;
                explained = gap.min(self.dropped);
                self.dropped -= explained;
                self.missing += gap - explained;
            }
            _ => {}
        }
        self.stamp = Some(stamp);
        if spacing <= 0 {
            // Reordering, a replacement or a clock that jumped: spacings start anew.
            self.count = 0;
            return;
        }
        self.spacings[self.count % SPACINGS] = spacing;
        self.explained[self.count % SPACINGS] = explained;
        self.count += 1;
        if self.count.is_multiple_of(LOOK) {
            self.look();
            self.dropped = self.dropped.min(self.dropped_lately);
            self.dropped_lately = 0;
        }
    }

    /// Learns the period. Where messages are lost one after the other, what is left looks like a slower
    /// stream, or like one without a period: believed at once, it would hide the losses. And a burst of
    /// stamps close together looks like a faster one, by which all that follows would be missing.
    fn look(&mut self) {
        let period = self.periodicity().map(|(period, _)| period);
        let agrees = match (self.period, period) {
            (Some(before), Some(period)) => (before / ANOTHER..=before * ANOTHER).contains(&period),
            (Some(_), None) => false,
            (None, _) => true,
        };
        let since = *self.doubted.get_or_insert(self.active);
        if agrees || self.active - since >= LASTING {
            (self.period, self.doubted) = (period, None);
        }
    }

    /// Notes a message that arrived and was dropped, which is counted elsewhere: the gap that it
    /// leaves among the stamps is no missing message.
    pub fn note_dropped(&mut self, at: Instant, reason: DropReason) {
        self.arrived(at);
        match reason {
            // The gap has been counted when its successor came.
            DropReason::Late => self.missing = self.missing.saturating_sub(1),
            _ => {
                self.dropped += 1;
                self.dropped_lately += 1;
            }
        }
    }

    fn arrived(&mut self, at: Instant) {
        if self.seen {
            if self.intervals.len() == INTERVALS {
                self.intervals.pop_front();
            }
            let interval = at.saturating_duration_since(self.newest);
            self.intervals.push_back(interval);
            self.active += interval.min(PAUSE);
        }
        self.newest = self.newest.max(at);
        self.seen = true;
    }

    /// The usual time between two arrivals; `None` before the third.
    pub fn usual_interval(&self) -> Option<Duration> {
        let mut sorted: Vec<Duration> = self.intervals.iter().copied().collect();
        sorted.sort_unstable();
        (sorted.len() >= 2).then(|| sorted[sorted.len() / 2])
    }

    /// The clock jumped, or the stamps did: they start anew.
    pub fn restart(&mut self) {
        (self.stamp, self.count, self.period, self.doubted) = (None, 0, None, None);
        (self.dropped, self.dropped_lately) = (0, 0);
    }

    /// Messages that were to be expected by the period of the stamps, so far, and did not come:
    /// lost on the way, or never sent; not those that came and were dropped. Counts nothing while the
    /// stamps have no period; of a stream that becomes slower, counts as missing what it no longer sends
    /// until the new period is believed, a second or a few dozen messages later.
    pub fn missing(&self) -> u64 {
        self.missing
    }

    /// Whether anything has ever arrived, and how long ago the newest message did (or the start).
    pub fn silence(&self, now: Instant) -> (bool, Duration) {
        (self.seen, now.saturating_duration_since(self.newest))
    }

    /// The share of messages that seem to have been published and lost on the way: of stamps at
    /// multiples of a period, the share of multiples without a message. `None` where the stamps
    /// do not tell.
    pub fn missing_share(&self) -> Option<f64> {
        self.periodicity().map(|(_, missing)| missing)
    }

    /// The period of the stamps \[ns\] and the share of its multiples without a message.
    fn periodicity(&self) -> Option<(f64, f64)> {
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
        let period = spacings.iter().sum::<i64>() as f64 / published;
        let explained: u64 = self.explained[..multiples.len()].iter().sum();
        let arrived = (multiples.len() as u64 + explained) as f64;
        Some((period, (1.0 - arrived / published).max(0.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EPOCH: i64 = 1_795_000_000_000_000_000;

    fn arrivals(stamps: impl IntoIterator<Item = i64>) -> Arrivals {
        let start = Instant::now();
        let mut arrivals = Arrivals::new(start);
        for stamp in stamps {
            arrivals.note(start, Stamp::from_nanos(EPOCH + stamp));
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
    fn a_gap_is_counted_by_the_messages_that_it_lacks() {
        let kept = |k: &i64| !(200..3200).contains(k) && *k != 3300;
        let gap = arrivals((0..3400).filter(kept).map(|k| jittered(k, 1_000_000)));
        // The period is that of the last few stamps: as exact as their jitter lets it be.
        assert!(gap.missing().abs_diff(3001) < 30, "{}", gap.missing());
        assert_eq!(arrivals((0..3400).map(|k| jittered(k, 1_000_000))).missing(), 0);
    }

    #[test]
    fn a_backlog_that_lost_most_does_not_hide_how_much() {
        // Stopped for two seconds, and of what has queued up every third to fifth message is left.
        let (start, mut ms) = (Instant::now(), 0);
        let at = |ms: i64| start + Duration::from_millis(ms as u64);
        let mut arrivals = Arrivals::new(start);
        let note = |arrivals: &mut Arrivals, arrival: i64, ms: i64| {
            arrivals.note(at(arrival), Stamp::from_nanos(EPOCH + ms * 1_000_000));
        };
        // Three times, with a doubt and then agreement between them; what is past does not count.
        for _ in 0..3 {
            for _ in 0..3000 {
                note(&mut arrivals, ms, ms);
                ms += 1;
            }
            let (before, first, mut kept) = (arrivals.missing(), ms, 0);
            while ms < first + 2000 {
                note(&mut arrivals, first + 2000, ms);
                kept += 1;
                ms += [3, 5, 4, 5][kept as usize % 4];
            }
            note(&mut arrivals, ms, ms);
            assert_eq!(arrivals.missing() - before, (ms - first) as u64 - kept);
            ms += 1;
        }
    }

    #[test]
    fn a_burst_of_stamps_does_not_make_all_that_follows_seem_missing() {
        let pause = |k: i64| if k < 1000 { k * 1_000_000 } else { (k + 200) * 1_000_000 };
        let burst = |k: i64| pause(1000) + k * 20_000;
        let after = |k: i64| burst(100) + k * 1_000_000;
        let stamps = (0..1001).map(pause).chain((1..100).map(burst)).chain((1..5000).map(after));
        let start = Instant::now();
        let mut arrivals = Arrivals::new(start);
        for stamp in stamps {
            let at = start + Duration::from_nanos(stamp as u64);
            arrivals.note(at, Stamp::from_nanos(EPOCH + stamp));
        }
        assert!((200..=210).contains(&arrivals.missing()), "{}", arrivals.missing());
    }

    #[test]
    fn a_stream_that_slows_down_is_believed_soon() {
        let start = Instant::now();
        let mut arrivals = Arrivals::new(start);
        let mut note = |ms: u64| {
            let at = start + Duration::from_millis(ms);
            arrivals.note(at, Stamp::from_nanos(EPOCH + ms as i64 * 1_000_000));
            arrivals.missing()
        };
        assert_eq!((0..500).map(|k| note(k * 10)).max(), Some(0));
        let slower: Vec<_> = (0..500).map(|k| note(5000 + k * 40)).collect();
        assert!((60..300).contains(&slower[499]), "{}", slower[499]);
        assert_eq!(slower[100], slower[499], "nothing is missing any more");
    }

    #[test]
    fn what_comes_out_of_order_is_not_missing_and_a_jump_starts_anew() {
        // Every tenth message changes places with its successor.
        let place = |k: i64| k + i64::from(k % 10 == 5) - i64::from(k % 10 == 6);
        let swapped = (0..40).chain((40..400).map(place));
        let mut arrivals = arrivals(swapped.map(|k| k * 2_000_000));
        assert_eq!(arrivals.missing(), 0);
        arrivals.restart();
        let later = Stamp::from_nanos(1_795_000_900_000_000_000);
        arrivals.note(Instant::now(), later);
        arrivals.note(Instant::now(), later.offset(90_000_000));
        assert_eq!(arrivals.missing(), 0);
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
        arrivals.note_dropped(start + second, DropReason::Malformed);
        assert_eq!(arrivals.silence(start + 3 * second), (true, 2 * second));
    }

    #[test]
    fn what_came_and_was_dropped_is_not_missing() {
        let start = Instant::now();
        let stamp = |k: i64| Stamp::from_nanos(EPOCH + jittered(k, 33_333_333));
        let mut arrivals = Arrivals::new(start);
        (0..64).for_each(|k| arrivals.note(start, stamp(k)));
        // Two of three are malformed, or wait too long; a drop is noted some messages early.
        for k in (64..364).step_by(3) {
            arrivals.note_dropped(start, DropReason::Malformed);
            arrivals.note_dropped(start, DropReason::Overload);
            arrivals.note(start, stamp(k));
        }
        assert_eq!(arrivals.missing(), 0);
        assert!(arrivals.missing_share().unwrap() < 0.05);
        // What comes late was missing until then.
        (364..464).for_each(|k| arrivals.note(start, stamp(k)));
        arrivals.note(start, stamp(467));
        assert_eq!(arrivals.missing(), 3);
        arrivals.note_dropped(start, DropReason::Late);
        assert_eq!(arrivals.missing(), 2);
        // Drops that left no gap do not hide later losses.
        (0..5).for_each(|_| arrivals.note_dropped(start, DropReason::Ahead));
        (468..568).for_each(|k| arrivals.note(start, stamp(k)));
        arrivals.note(start, stamp(572));
        assert_eq!(arrivals.missing(), 6);
    }

    #[test]
    fn a_leap_of_the_stamps_is_no_gap() {
        let mut arrivals = arrivals((0..100).map(|k| k * 1_000_000));
        // A clock that is set from 1970 to now, or back.
        for leap in [3 * EPOCH, EPOCH / 1000, EPOCH] {
            for k in 0..100 {
                arrivals.note(Instant::now(), Stamp::from_nanos(leap + k * 1_000_000));
            }
        }
        assert_eq!(arrivals.missing(), 0);
        arrivals.note(Instant::now(), Stamp::from_nanos(EPOCH + 102_000_000));
        assert_eq!(arrivals.missing(), 2, "and later gaps count");
    }

    #[test]
    fn the_usual_interval_is_learnt_and_a_pause_does_not_change_it() {
        let start = Instant::now();
        let second = Duration::from_secs(1);
        let mut arrivals = Arrivals::new(start);
        let stamp = |k: u32| Stamp::from_nanos(EPOCH + i64::from(k) * 10_000_000_000);
        arrivals.note(start, stamp(0));
        arrivals.note(start + 10 * second, stamp(1));
        assert_eq!(arrivals.usual_interval(), None);
        for k in 2..6 {
            arrivals.note(start + 10 * k * second, stamp(k));
        }
        arrivals.note(start + 150 * second, stamp(7));
        assert_eq!(arrivals.usual_interval(), Some(10 * second));
    }
}
