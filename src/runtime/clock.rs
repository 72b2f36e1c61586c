//! The clock: the system's, or a simulator's through `/clock`.
//!
//! The clock owns the epoch. When it jumps back, a new epoch begins. Each arrival and each reading
//! carries the epoch in which it was stamped.

mod sim;

use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

pub use sim::{SimClock, decode_clock};

use crate::pipeline::Arrival;
use crate::sync::lock;
use crate::time::{Epoch, Stamp, TickGrid};

/// The longest sleep without a reading of the clock. A step of the system's clock is noticed within
/// this time.
const SLICE: Duration = Duration::from_millis(50);

/// A reading of the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The instant.
    pub stamp: Stamp,
    /// An instant on the monotonic clock. For a clock that runs by itself, it is that of the
    /// reading. For a simulator's clock, it is the arrival of the message that made the newest tick
    /// due.
    pub since: Instant,
    /// The epoch of the instant.
    pub epoch: Epoch,
}

/// The clock of the node: it stamps arrivals and says when ticks are due.
#[derive(Debug)]
pub enum Clock {
    /// The system's clock: nanoseconds since 1970.
    System(SystemClock),
    /// A clock that nobody sets, for benchmarks and tests.
    Steady(SteadyClock),
    /// A simulator's clock: the newest message on `/clock`.
    Sim(SimClock),
}

impl Clock {
    /// Makes the system's clock, for ticks on `grid`.
    pub fn system(grid: TickGrid) -> Self {
        Clock::System(SystemClock { grid, state: Mutex::default() })
    }

    /// Makes a clock that is at `stamp` at the instant `at`.
    pub fn steady(stamp: Stamp, at: Instant) -> Self {
        Clock::Steady(SteadyClock { stamp, at })
    }

    /// Makes a simulator's clock, which does not run yet, for ticks on `grid`.
    pub fn simulated(grid: TickGrid) -> Self {
        Clock::Sim(SimClock::new(grid))
    }

    /// Reads the clock; `None` before the first message on `/clock`.
    pub fn now(&self) -> Option<Reading> {
        match self {
            Clock::System(clock) => Some(clock.read(system_now)),
            Clock::Steady(clock) => Some(clock.now()),
            Clock::Sim(clock) => clock.now(),
        }
    }

    /// Returns the arrival of a message that comes now.
    pub fn arrival(&self) -> Arrival {
        let now = self.now();
        Arrival {
            stamp: now.map(|now| now.stamp),
            epoch: now.map_or(Epoch::default(), |now| now.epoch),
        }
    }

    /// Sets a simulator's clock, as [`SimClock::set`] does. Other clocks ignore it.
    pub fn set(&self, stamp: Stamp) -> Option<Epoch> {
        match self {
            Clock::System(_) | Clock::Steady(_) => None,
            Clock::Sim(clock) => clock.set(stamp),
        }
    }

    /// Whether the messages of a simulator set the clock.
    pub fn is_simulated(&self) -> bool {
        matches!(self, Clock::Sim(_))
    }

    /// Returns how long a simulator's clock has not moved; `None` before it runs, and for clocks
    /// that run by themselves.
    pub fn stands(&self) -> Option<Duration> {
        match self {
            Clock::System(_) | Clock::Steady(_) => None,
            Clock::Sim(clock) => clock.stands(),
        }
    }

    /// Waits until `until` may have come, at most for a short time. The caller then reads the clock
    /// again. With `None`, waits for any instant.
    pub fn wait(&self, until: Option<Stamp>) {
        match self {
            Clock::System(_) => sleep(until, system_now()),
            Clock::Steady(clock) => sleep(until, clock.now().stamp),
            Clock::Sim(clock) => clock.wait(until),
        }
    }
}

/// Sleeps until `until`, at most for [`SLICE`].
fn sleep(until: Option<Stamp>, now: Stamp) {
    let left = until.map_or(SLICE, |until| Duration::from_nanos(until.since(now).max(0) as u64));
    std::thread::sleep(SLICE.min(left));
}

fn system_now() -> Stamp {
    // A clock before 1970 is wrong. It counts as zero, which means "not set".
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos());
    Stamp::from_nanos(i64::try_from(nanos).unwrap_or(i64::MAX))
}

/// Logs a jump back. The thread that begins the epoch calls it once.
fn say_jump(from: Stamp, to: Stamp) {
    tracing::warn!("the clock jumped back from {from} to {to}: all streams start again");
}

/// The system's clock, which a user or a service may set.
#[derive(Debug)]
pub struct SystemClock {
    grid: TickGrid,
    state: Mutex<SystemState>,
}

#[derive(Debug, Default)]
struct SystemState {
    /// The latest instant of the epoch that any thread has read.
    newest: Option<Stamp>,
    epoch: Epoch,
}

impl SystemClock {
    /// Reads the clock, and begins an epoch if it jumped back. A step back within the period of a
    /// tick is no jump, because no tick becomes due for a second time.
    fn read(&self, clock: impl FnOnce() -> Stamp) -> Reading {
        // The state is two plain values, and no code panics between the two changes.
        let mut state = lock(&self.state);
        // Read under the lock: if two threads read, the later one gets the later instant.
        let (stamp, since) = (clock(), Instant::now());
        let newest = state.newest.unwrap_or(stamp);
        let back = stamp < self.grid.stamp_of(self.grid.tick_at(newest));
        if back {
            state.epoch = state.epoch.next(Some(newest));
        }
        state.newest = Some(if back { stamp } else { newest.max(stamp) });
        let epoch = state.epoch;
        drop(state);
        if back {
            say_jump(newest, stamp);
        }
        Reading { stamp, since, epoch }
    }
}

/// A clock that runs with the monotonic clock.
#[derive(Debug)]
pub struct SteadyClock {
    stamp: Stamp,
    at: Instant,
}

impl SteadyClock {
    fn now(&self) -> Reading {
        let since = Instant::now();
        let nanos = |d: Duration| i64::try_from(d.as_nanos()).unwrap_or(i64::MAX);
        let after = nanos(since.saturating_duration_since(self.at));
        let before = nanos(self.at.saturating_duration_since(since));
        Reading { stamp: self.stamp.offset(after - before), since, epoch: Epoch::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_systems_clock_begins_an_epoch_if_it_steps_back_by_a_tick() {
        let grid = TickGrid::new(10).unwrap();
        let clock = SystemClock { grid, state: Mutex::default() };
        let at = Stamp::from_nanos;
        let look = |nanos| clock.read(|| at(nanos)).epoch;
        let first = Epoch::default();
        assert_eq!([look(12), look(25), look(21), look(20)], [first; 4]);
        let second = first.next(Some(at(25)));
        assert_eq!([look(19), look(20)], [second; 2]);
        assert_eq!(look(3), second.next(Some(at(20))));
    }

    #[test]
    fn a_steady_clock_is_at_its_stamp_at_its_instant() {
        let at = Instant::now() + Duration::from_secs(1);
        let clock = Clock::steady(Stamp::from_nanos(5_000_000_000), at);
        let now = clock.now().unwrap();
        let before = i64::try_from((at - now.since).as_nanos()).unwrap();
        assert_eq!(now.stamp, Stamp::from_nanos(5_000_000_000 - before));
        assert_eq!(clock.stands(), None);
    }
}
