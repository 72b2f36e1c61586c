//! Finds silence and missing messages of an input from its arrivals. All instants are
//! [`NodeTime`](super::NodeTime): they do not move while a simulation is paused.

mod gaps;

use std::collections::VecDeque;
use std::time::Duration;

use crate::publisher::PublisherId;
use gaps::{Gaps, Steps};
use robocache_core::rejected::DropReason;
use robocache_ops::time::{Epoch, Stamp};

/// Number of recent spacings of stamps from which the period is computed.
const SPACINGS: usize = 64;
/// With fewer spacings there is no period.
const ENOUGH: usize = 16;
/// The largest distance of a stamp from a multiple of the period, in periods.
const JITTER: f64 = 0.25;
/// The stamps are periodic if at least this share of them is near a multiple.
const PERIODIC: f64 = 0.8;
/// The short spacings that take up this share of the time tell nothing about the period. A publisher that
/// makes up for a stop sends many messages in no time.
const SHORT: f64 = 0.04;
/// How often the period is computed from the multiples that the one before gave. Each time more of them
/// are right.
const REFINEMENTS: usize = 3;
/// If the messages are at most this share more or fewer than the period tells, it still counts, however
/// uneven they are.
const UNEVEN: f64 = 0.2;
/// Messages between two computations of the period.
const LOOK: usize = 16;
/// If a new period is more than this many times longer or shorter, it must last before it counts.
const ANOTHER: f64 = 1.5;
/// How long a new period must last. A backlog from which a full queue lost most messages is
/// shorter.
const LASTING: Duration = Duration::from_secs(1);
/// The largest part of [`LASTING`] that one message may add, because a pause says nothing about the
/// period.
const PAUSE: Duration = Duration::from_millis(100);
/// Messages that waited while the process stood still come within this time, and so does the first one behind the
/// gap that the standstill left.
const BACKLOG: Duration = Duration::from_secs(2);
/// If two stamps are further apart than this \[ns\] and than [`LEAP_PERIODS`], no message counts as
/// missing between them: the sensor was off, or its clock was set.
const LEAP_NS: f64 = 10e9;
/// See [`LEAP_NS`]; in periods.
const LEAP_PERIODS: f64 = 4.0;
/// Number of intervals between arrivals whose median is the usual interval.
const INTERVALS: usize = 8;
/// How far back pauses are known, from the newest message on.
const LATELY: Duration = Duration::from_secs(10);
/// With fewer pauses alike none is usual.
const ALIKE: usize = 3;

/// The recent arrivals of one input.
#[derive(Debug)]
pub struct Arrivals {
    epoch: Epoch,
    /// The publisher of the stamps; `None` if unknown.
    publisher: Option<PublisherId>,
    newest: Duration,
    /// True if `newest` is later than the newest arrival.
    is_cut: bool,
    seen: bool,
    intervals: VecDeque<Duration>,
    /// When each interval longer than [`PAUSE`] ended, and how long it was: those of [`LATELY`].
    pauses: VecDeque<(Duration, Duration)>,
    stamp: Option<Stamp>,
    spacings: [i64; SPACINGS],
    /// How many messages in each spacing arrived and were dropped.
    explained: [u64; SPACINGS],
    count: usize,
    /// Dropped messages whose gap among the stamps has not been seen yet.
    dropped: u64,
    /// Messages among `dropped` since the last computation of the period. Older ones left no gap.
    dropped_lately: u64,
    /// Period of the published stamps \[ns\] that counts.
    period: Option<f64>,
    /// Time in which messages came, without the pauses between them.
    active: Duration,
    /// The value of `active` when another period, or none, was first computed.
    doubted: Option<Duration>,
    gaps: Gaps,
    /// Until then spacings do not count, because the process stood still.
    excused_until: Duration,
}

impl Arrivals {
    /// Makes an input from which nothing has arrived since `start`.
    pub fn new(start: Duration) -> Self {
        Arrivals {
            epoch: Epoch::default(),
            publisher: None,
            newest: start,
            is_cut: false,
            seen: false,
            intervals: VecDeque::with_capacity(INTERVALS),
            pauses: VecDeque::new(),
            stamp: None,
            spacings: [0; SPACINGS],
            explained: [0; SPACINGS],
            count: 0,
            dropped: 0,
            dropped_lately: 0,
            period: None,
            active: Duration::ZERO,
            doubted: None,
            gaps: Gaps::default(),
            excused_until: Duration::ZERO,
        }
    }

    /// Says who published the messages that are noted next.
    ///
    /// If it is another publisher, the stamps start again, because the stamps of two publishers
    /// have no common period. So while messages of several publishers alternate, none counts as
    /// missing.
    pub fn next_is_from(&mut self, publisher: Option<PublisherId>) {
        if self.publisher != publisher {
            self.publisher = publisher;
            self.restart();
        }
    }

    /// Notes a message that became a row of this stamp.
    pub fn note(&mut self, at: Duration, epoch: Epoch, stamp: Stamp) {
        self.arrived(at);
        if !self.enter(at, epoch) {
            return;
        }
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
        let mut explained = 0;
        if let Some(period) = self.period {
            // The message is out of order and was counted as missing. `stamp` stays the newest.
            if spacing <= 0 && spacing as f64 > -(SPACINGS as f64) * period {
                if spacing < 0 {
                    self.gaps.found();
                }
                return;
            }
            if spacing > 0 {
                explained = self.gaps.note(stamp, spacing, period, self.dropped);
                self.dropped -= explained;
            }
        }
        self.stamp = Some(stamp);
        if spacing <= 0 || at < self.excused_until {
            // The stamps are reordered or repeat, a clock jumped, or the process stood still: the spacings start
            // again.
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

    /// Computes the period. A new one counts only after [`LASTING`].
    ///
    /// If many messages are lost, the others look like a slower input, or like one without a
    /// period. To accept that at once would hide the losses. A burst of stamps looks like a faster
    /// input, and with its period all later messages would be missing.
    fn look(&mut self) {
        let period = self.periodicity().map(|(period, _)| period);
        let agrees = match (self.period, period) {
            (Some(before), Some(period)) => (before / ANOTHER..=before * ANOTHER).contains(&period),
            (Some(_), None) => false,
            (None, _) => true,
        };
        if !agrees && self.is_uneven() {
            self.doubted = None;
            return;
        }
        let since = *self.doubted.get_or_insert(self.active);
        if agrees || self.active.saturating_sub(since) >= LASTING {
            (self.period, self.doubted) = (period, None);
            if period.is_none() {
                self.gaps.restart();
            }
        }
    }

    /// True if about as many messages came lately as the period tells: only their jitter is larger than
    /// before.
    fn is_uneven(&self) -> bool {
        let Some(period) = self.period.filter(|_| self.count >= SPACINGS) else { return false };
        let arrived = SPACINGS as u64 + self.explained.iter().sum::<u64>();
        let expected = self.spacings.iter().sum::<i64>() as f64 / period;
        (arrived as f64 / expected - 1.0).abs() < UNEVEN
    }

    /// Notes a message that was accepted and gave no row.
    pub fn note_without_stamp(&mut self, at: Duration) {
        self.arrived(at);
    }

    /// Notes a message that arrived and was dropped. The pipeline counts it, so its gap among the
    /// stamps is no missing message.
    pub fn note_dropped(&mut self, at: Duration, epoch: Epoch, reason: DropReason) {
        self.arrived(at);
        if !self.enter(at, epoch) {
            return;
        }
        match reason {
            // Its gap was counted when a newer message came.
            DropReason::Late => self.gaps.found(),
            _ => {
                self.dropped += 1;
                self.dropped_lately += 1;
            }
        }
    }

    fn arrived(&mut self, at: Duration) {
        let is_cut = std::mem::take(&mut self.is_cut);
        if self.seen && !is_cut {
            if self.intervals.len() == INTERVALS {
                self.intervals.pop_front();
            }
            let interval = at.saturating_sub(self.newest);
            self.intervals.push_back(interval);
            self.active += interval.min(PAUSE);
            if interval > PAUSE {
                let old = self.pauses.partition_point(|(end, _)| *end + LATELY < at);
                self.pauses.drain(..old);
                self.pauses.push_back((at, interval));
            }
        }
        self.newest = self.newest.max(at);
        self.seen = true;
    }

    /// Returns the usual time between two arrivals; `None` before the third.
    pub fn usual_interval(&self) -> Option<Duration> {
        let mut sorted: Vec<Duration> = self.intervals.iter().copied().collect();
        sorted.sort_unstable();
        (sorted.len() >= 2).then(|| sorted[sorted.len() / 2])
    }

    /// Returns the longest usual pause of an input that comes in bursts; `None` if it does not.
    ///
    /// Half of the time lies in pauses like it, which are far longer than the usual interval. A single
    /// failure is not usual, however long it was.
    pub fn usual_pause(&self) -> Option<Duration> {
        let lately = self.pauses.iter().filter(|(end, _)| *end + LATELY >= self.newest);
        let mut sorted: Vec<Duration> = lately.map(|(_, pause)| *pause).collect();
        sorted.sort_unstable();
        let all: Duration = sorted.iter().sum();
        let mut so_far = Duration::ZERO;
        let middle = *sorted.iter().find(|pause| {
            so_far += **pause;
            2 * so_far >= all
        })?;
        let alike = sorted.iter().filter(|pause| 3 * **pause >= 2 * middle);
        let alike: Vec<_> = alike.take_while(|pause| 2 * **pause <= 3 * middle).collect();
        let usual = 2 * alike.iter().copied().sum::<Duration>() >= LATELY && alike.len() >= ALIKE;
        let longest = **alike.last()?;
        (usual && longest > 2 * self.usual_interval()?).then_some(longest)
    }

    /// Begins an epoch at `at`, unless it has begun already. Stamps of an earlier epoch no longer
    /// count, and silence counts from now.
    pub fn begin(&mut self, at: Duration, epoch: Epoch) {
        if self.epoch.is_before(epoch) {
            self.epoch = epoch;
            self.silent_from(at);
            self.restart();
        }
    }

    /// Notes that the process stood still until `at`. Silence counts from then on. The gap of the standstill counts in
    /// [`Arrivals::missing`], but it is no fault of the publisher, so it has no part in
    /// [`Arrivals::missing_share`].
    pub fn excuse(&mut self, at: Duration) {
        self.silent_from(at);
        self.excused_until = at + BACKLOG;
        self.count = 0;
    }

    /// Counts silence from `at`. What is left of the interval is no time between two arrivals.
    fn silent_from(&mut self, at: Duration) {
        self.is_cut |= at > self.newest;
        self.newest = self.newest.max(at);
    }

    /// Begins `epoch` if it is newer. Returns whether `epoch` is the current one.
    fn enter(&mut self, at: Duration, epoch: Epoch) -> bool {
        self.begin(at, epoch);
        !epoch.is_before(self.epoch)
    }

    /// Forgets the stamps and the period.
    fn restart(&mut self) {
        (self.stamp, self.count, self.period, self.doubted) = (None, 0, None, None);
        (self.dropped, self.dropped_lately) = (0, 0);
        self.gaps.restart();
    }

    /// Returns how many messages are missing by the period of the stamps: lost on the way, or never
    /// sent.
    ///
    /// Messages that came and were dropped do not count. A message counts a few periods after its gap,
    /// if nothing has made up for it. While the stamps have no period, nothing is missing. If an input
    /// becomes slower, messages count as missing until the new period counts, a second or a few dozen
    /// messages later.
    pub fn missing(&self) -> u64 {
        self.gaps.missing()
    }

    /// Returns whether anything has ever arrived, and the time since the newest message, the start
    /// or a jump of the clock.
    pub fn silence(&self, now: Duration) -> (bool, Duration) {
        (self.seen, now.saturating_sub(self.newest))
    }

    /// Returns the share of messages that were probably published and lost on the way. It is the
    /// share of the period's multiples without a message; `None` if the stamps have no period.
    pub fn missing_share(&self) -> Option<f64> {
        self.periodicity().map(|(_, missing)| missing)
    }

    /// Returns the period of the stamps \[ns\] and the share of its multiples without a message.
    fn periodicity(&self) -> Option<(f64, f64)> {
        let count = self.count.min(SPACINGS);
        if count < ENOUGH {
            return None;
        }
        let (newer, older) = self.spacings[..count].split_at(self.count % count);
        let total = older.iter().chain(newer).sum::<i64>() as f64;
        let mut period = first_guess(&self.spacings[..count]);
        let mut near = 0;
        let mut published = 0.0;
        for _ in 0..REFINEMENTS {
            let mut steps = Steps::default();
            let all = older.iter().chain(newer).map(|spacing| {
                let multiples = steps.advance(*spacing as f64 / period);
                (multiples, steps.distance() < JITTER)
            });
            let (sum, fit) = all.fold((0, 0), |(sum, fit), (m, is)| (sum + m, fit + i32::from(is)));
            if sum == 0 {
                return None;
            }
            (near, published) = (fit, sum as f64);
            period = total / published;
        }
        if f64::from(near) < PERIODIC * count as f64 {
            return None;
        }
        let explained: u64 = self.explained[..count].iter().sum();
        let arrived = (count as u64 + explained) as f64;
        Some((period, (1.0 - arrived / published).max(0.0)))
    }
}

/// Returns a spacing that is about one period \[ns\].
///
/// It is the smallest one beyond [`SHORT`], then the median of the spacings near it. Jitter makes the
/// smallest spacing too small.
fn first_guess(spacings: &[i64]) -> f64 {
    let mut sorted = spacings.to_vec();
    sorted.sort_unstable();
    let short = SHORT * sorted.iter().sum::<i64>() as f64;
    let mut so_far = 0.0;
    let smallest = sorted.iter().position(|spacing| {
        so_far += *spacing as f64;
        so_far >= short
    });
    let smallest = smallest.unwrap_or(0);
    let small = sorted[smallest];
    let like_it = sorted.partition_point(|&spacing| spacing <= small.saturating_add(small / 2));
    sorted[usize::midpoint(smallest, like_it)] as f64
}

#[cfg(test)]
mod tests;
