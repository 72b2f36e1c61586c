//! The clock: the system's, or a simulator's through `/clock`.
//!
//! The clock owns the epoch. When it jumps back, a new epoch begins. Each arrival and each reading
//! carries the epoch in which it was stamped.

mod pace;
mod recorded;
mod sim;
mod sleeper;
mod steady;
mod system;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

pub use recorded::RecordedClock;
pub use sim::{SimClock, decode_clock};
pub use sleeper::Sleeper;
pub use steady::SteadyClock;
pub use system::SystemClock;

use crate::time_source::TimeSource;

use robocache_core::pipeline::{Arrival, Counter, MAX_AHEAD_NS};
use robocache_ops::time::{Epoch, NANOS_PER_MS, NANOS_PER_S, Stamp, TickGrid};

/// The longest sleep without a reading of the clock. A step of the system's clock is noticed within
/// this time.
const SLICE: Duration = Duration::from_millis(50);
/// Time between two looks at the clock of a recording.
const LOOK: Duration = Duration::from_millis(1);
/// A step back of the system's clock that is shorter than this \[ns\] is no jump. Services that correct the clock step it
/// by milliseconds.
const TOLERANCE_NS: i64 = 100 * NANOS_PER_MS;
/// No message is on its way for longer than this. So long after a jump back, a message may be from
/// before it.
const IN_FLIGHT: Duration = Duration::from_secs(5);
/// After the system's clock jumps back, a header's stamp may be this far ahead \[ns\], or one period if that is longer. If
/// it is further ahead, and near the instant from which the clock jumped, the message may have been stamped before the
/// jump, and come late through the middleware. This holds for [`IN_FLIGHT`], or until the clock passes that instant.
const MAX_AHEAD_AFTER_JUMP_NS: i64 = 10 * NANOS_PER_MS;
/// Time between two log lines about jumps back.
const JUMP_LOG_PERIOD: Duration = Duration::from_secs(10);

/// A reading of the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The instant.
    pub stamp: Stamp,
    /// Instant on the monotonic clock since which the clock reads this. For a clock that runs by itself, it is that of
    /// the reading. For a simulator's clock, it is the arrival of the message that set it to `stamp`.
    pub since: Instant,
    /// The epoch of the instant.
    pub epoch: Epoch,
}

/// When a message was published, and when it arrived.
///
/// The node compares two messages with it: was one published before the clock jumped, which the
/// other one shows?
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transit {
    /// The publication, on the system clock of the publisher's machine \[ns\]; `None` if the
    /// middleware does not tell.
    pub published_ns: Option<i64>,
    /// The arrival, on the system clock of this machine \[ns\]; `None` if the middleware does not
    /// tell.
    pub arrived_ns: Option<i64>,
}

impl Transit {
    /// Nothing is known.
    pub const UNKNOWN: Transit = Transit { published_ns: None, arrived_ns: None };
    /// If a message seems to arrive longer than this before its publication \[ns\], the clocks of
    /// the two machines differ.
    const EARLY_NS: i64 = NANOS_PER_MS;
    /// If a message seems to travel for longer than this \[ns\], the clocks of the two machines
    /// probably differ.
    const LATE_NS: i64 = 2 * NANOS_PER_S;

    /// When the message was published, on the publisher's system clock.
    pub(super) fn published_at(self) -> Option<Stamp> {
        self.published_ns.map(Stamp::from_nanos)
    }

    /// True if the publisher's clock agrees with that of this machine, as far as this message shows.
    pub fn agrees(self) -> bool {
        self.published().is_some()
    }

    /// Returns when the message was published, if it can be compared with other messages: the
    /// publisher's clock agrees with that of this machine.
    fn published(self) -> Option<i64> {
        let published = self.published_ns?;
        let arrived = self.arrived_ns?;
        let travelled = arrived.saturating_sub(published);
        (-Self::EARLY_NS..=Self::LATE_NS).contains(&travelled).then_some(published)
    }

    /// Returns true if the message was published before another one; `None` if that is unknown. The clock of this machine may
    /// be another one: the two publishers seem to have one clock if this message travelled about as long as the other one. A
    /// publisher whose clock is ahead only seems to be later.
    fn is_before(self, other: Transit) -> Option<bool> {
        let [published, first] = [self, other].map(|of| of.published_ns.zip(of.arrived_ns));
        let ((published, arrived), (first, first_arrived)) = published.zip(first)?;
        let travelled = arrived.saturating_sub(published);
        let longer = travelled.saturating_sub(first_arrived.saturating_sub(first));
        let is_before = published < first;
        let least = if is_before { -Self::LATE_NS } else { -Self::EARLY_NS };
        (least..=Self::LATE_NS).contains(&longer).then_some(is_before)
    }
}

/// The clock of the node: it stamps arrivals and says when ticks are due.
#[derive(Debug)]
pub enum Clock {
    /// The system's clock: nanoseconds since 1970.
    System(Box<SystemClock>),
    /// A clock that is never set, for benchmarks and tests.
    Steady(SteadyClock),
    /// The system's clock of a recording: who holds the other handle sets it.
    Recorded(Arc<RecordedClock>),
    /// A simulator's clock: the newest message on `/clock`.
    Sim(Box<SimClock>),
}

impl Clock {
    /// Makes the system's clock, for ticks on `grid`.
    pub fn system(grid: TickGrid, time: TimeSource) -> Self {
        Clock::System(Box::new(SystemClock::new(grid, time)))
    }

    /// Makes a clock that is at `stamp` at the instant `at`.
    pub fn steady(stamp: Stamp, at: Instant, time: TimeSource) -> Self {
        Clock::Steady(SteadyClock::new(stamp, at, time))
    }

    /// Makes the system's clock of a recording, which does not run yet, for ticks on `grid`.
    pub fn recorded(grid: TickGrid, time: TimeSource) -> Self {
        Clock::Recorded(Arc::new(RecordedClock::new(grid, time)))
    }

    /// Makes a simulator's clock, which does not run yet, for ticks on `grid`.
    pub fn simulated(grid: TickGrid, time: TimeSource) -> Self {
        Clock::Sim(Box::new(SimClock::new(grid, time)))
    }

    /// Source of the time that the clock reads.
    pub fn time(&self) -> &TimeSource {
        match self {
            Clock::System(clock) => &clock.time,
            Clock::Steady(clock) => &clock.time,
            Clock::Recorded(clock) => &clock.time,
            Clock::Sim(clock) => &clock.time,
        }
    }

    /// Reads the clock; `None` before the first message on `/clock`, or before a recorded clock is set.
    pub fn now(&self) -> Option<Reading> {
        match self {
            Clock::System(clock) => Some(clock.now()),
            Clock::Steady(clock) => Some(clock.now()),
            Clock::Recorded(clock) => clock.now(),
            Clock::Sim(clock) => clock.now(),
        }
    }

    /// Instant on the monotonic clock at which the clock reached `instant`. That is at or before the reading `now`.
    pub(crate) fn reached(&self, now: Reading, instant: Stamp) -> Instant {
        match self {
            Clock::System(_) | Clock::Steady(_) | Clock::Recorded(_) => {
                let passed = Duration::from_nanos(now.stamp.since(instant).max(0) as u64);
                now.since.checked_sub(passed).unwrap_or(now.since)
            }
            Clock::Sim(clock) => clock.reached(now, instant),
        }
    }

    /// Returns the arrival of a message that comes now and has a stamp.
    pub fn arrival(&self, transit: Transit) -> Arrival {
        self.arrival_at(transit, self.time().monotonic(), true)
    }

    /// Returns the arrival of a message that came at `at` by the monotonic clock. Only a simulator's
    /// clock, which estimates its pace from such instants, asks for them. It also asks whether a stamp of the
    /// message tells its epoch (`is_stamped`).
    pub(crate) fn arrival_at(&self, transit: Transit, at: Instant, is_stamped: bool) -> Arrival {
        match self {
            Clock::System(clock) => clock.arrival(transit),
            Clock::Steady(clock) => {
                Arrival { stamp: Some(clock.now().stamp), ..Arrival::default() }
            }
            Clock::Recorded(clock) => clock.arrival(transit),
            Clock::Sim(clock) => clock.arrival_at(transit, at, is_stamped),
        }
    }

    /// Notes that a loop has ticks on `grid`. A simulator's clock warns if its steps are too long for them.
    pub(crate) fn note_loop(&self, name: &'static str, grid: TickGrid) {
        if let Clock::Sim(clock) = self {
            clock.note_loop(name, grid);
        }
    }

    /// Notes that a loop finds the clock set ahead between two of its readings, and warns once however many loops do.
    pub(crate) fn note_set_ahead(&self, before: Reading, now: Reading) {
        if let Clock::System(clock) = self {
            clock.set_ahead.note(before, now);
        }
    }

    /// Returns how often the clock was set ahead. The pipeline counts jumps back.
    pub fn times_set_ahead(&self) -> u64 {
        match self {
            Clock::System(clock) => clock.set_ahead.times.get(),
            Clock::Recorded(clock) => clock.times_set_ahead.get(),
            Clock::Steady(_) | Clock::Sim(_) => 0,
        }
    }

    /// True if the messages of a simulator set the clock.
    pub fn is_simulated(&self) -> bool {
        matches!(self, Clock::Sim(_))
    }

    /// Returns how long a simulator's clock has not moved; `None` before it runs, and for clocks
    /// that run by themselves.
    pub fn stalled_for(&self) -> Option<Duration> {
        match self {
            Clock::System(_) | Clock::Steady(_) | Clock::Recorded(_) => None,
            Clock::Sim(clock) => clock.stalled_for(),
        }
    }

    /// Instant at which a loop that waits must read the clock again. `next` is as for [`wait`](Self::wait).
    pub(crate) fn look_again(&self, next: Option<(Reading, Stamp)>) -> Instant {
        match (self, next) {
            (Clock::System(_) | Clock::Steady(_), Some((Reading { stamp, since, .. }, until))) => {
                since + Duration::from_nanos(until.since(stamp).max(0) as u64).min(SLICE)
            }
            (Clock::Recorded(_), _) => self.time().monotonic() + LOOK,
            (Clock::Sim(_), Some((now, until))) if until <= now.stamp => now.since,
            // Who sets it also wakes the loop.
            _ => self.time().monotonic() + SLICE,
        }
    }

    /// Waits until an instant may have come, at most for a short time. The caller then reads the clock
    /// again. `next` is the newest reading and the instant; with `None`, waits for any instant. `sleeper`
    /// is that of the calling thread.
    pub fn wait(&self, next: Option<(Reading, Stamp)>, sleeper: &mut Sleeper) {
        match self {
            Clock::System(_) | Clock::Steady(_) => sleeper.wait(left(next, self.time()), SLICE),
            // It moves only when its owner sets it. Mostly that is a thread that ticks itself, and does not wait.
            Clock::Recorded(_) => std::thread::sleep(LOOK),
            Clock::Sim(clock) => clock.wait(next),
        }
    }
}

/// The time that is left of a wait on a clock that runs by itself; without end if there is no instant to
/// wait for.
fn left(next: Option<(Reading, Stamp)>, time: &TimeSource) -> Duration {
    next.map_or(Duration::MAX, |(Reading { stamp, since, .. }, until)| {
        Duration::from_nanos(until.since(stamp).max(0) as u64).saturating_sub(time.since(since))
    })
}

/// Bounds of stamps that are ahead of the system's clock: [`Arrival::max_ahead_ns`] and [`Arrival::in_doubt_from`].
///
/// A reading and the first instant of its epoch decide it, and no other clock. So the replay of a
/// recording, which has these instants, decides as the node did.
fn ahead(
    Reading { stamp, epoch, .. }: Reading,
    began: Stamp,
    grid: TickGrid,
) -> (i64, Option<Stamp>) {
    let in_flight_ns = IN_FLIGHT.as_nanos() as i64;
    let from = epoch.jumped_from().filter(|from| stamp < *from);
    // What is on its way was stamped within this span before the jump. An earlier stamp is of this epoch.
    match from.filter(|_| stamp.since(began) < in_flight_ns) {
        Some(from) => {
            let known_ns = grid.period_ns().clamp(MAX_AHEAD_AFTER_JUMP_NS, MAX_AHEAD_NS);
            (known_ns, Some(from.offset(-in_flight_ns)))
        }
        None => (0, None),
    }
}

/// True if a step of the system's clock is a jump back. After a shorter one, rows stay true, and ticks are due again
/// when
/// the clock has passed the last one. To clear all rows would do more harm.
fn is_jump(from: Stamp, to: Stamp) -> bool {
    from.since(to) >= TOLERANCE_NS
}

/// Steps ahead of a clock that somebody sets. Each loop notices them between two of its readings.
#[derive(Debug)]
struct SetAhead {
    times: Counter,
    /// When the clock was made.
    start: Instant,
    /// Time from then to the end of the newest step that was counted \[ns\].
    counted_ns: AtomicU64,
}

impl SetAhead {
    fn new(start: Instant) -> Self {
        SetAhead { times: Counter::default(), start, counted_ns: AtomicU64::new(0) }
    }

    /// Counts a step between two readings of a loop, and logs it. If their time overlaps that of the last one, another
    /// loop has noticed the same step.
    fn note(&self, before: Reading, now: Reading) {
        let passed = |reading: Reading| reading.since.saturating_duration_since(self.start);
        let [from, to] = [before, now].map(|reading| passed(reading).as_nanos() as u64);
        let is_new = |counted: u64| (from >= counted).then_some(to);
        if self.counted_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, is_new).is_ok() {
            self.times.add(1);
            tracing::warn!("the clock was set ahead from {} to {}", before.stamp, now.stamp);
        }
    }
}

/// Logs jumps back, but not more often than every [`JUMP_LOG_PERIOD`].
#[derive(Debug, Default)]
struct JumpLog {
    said: Option<Instant>,
    /// Jumps since then.
    unsaid: u64,
}

/// A line of the log about jumps back.
#[derive(Debug, PartialEq, Eq)]
struct Jumped {
    from: Stamp,
    to: Stamp,
    /// Jumps that were not logged.
    unsaid: u64,
}

impl JumpLog {
    /// Notes a jump. Returns what the caller logs, after it has released its lock.
    fn note(&mut self, now: Instant, from: Stamp, to: Stamp) -> Option<Jumped> {
        if self.said.is_some_and(|said| now.saturating_duration_since(said) < JUMP_LOG_PERIOD) {
            self.unsaid += 1;
            return None;
        }
        self.said = Some(now);
        Some(Jumped { from, to, unsaid: std::mem::take(&mut self.unsaid) })
    }
}

impl Jumped {
    fn say(self) {
        let Jumped { from, to, unsaid } = self;
        let before = match unsaid {
            0 => String::new(),
            n => format!(" ({n} more jumps since the last line like this)"),
        };
        tracing::warn!(
            "the clock jumped back from {from} to {to}: all streams start again{before}"
        );
    }
}

#[cfg(test)]
mod tests;
