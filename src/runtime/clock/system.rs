//! Clocks that run by themselves: the system's, and a steady one.

use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::{JumpLog, Reading, is_jump};
use crate::pipeline::{Arrival, MAX_AHEAD_NS};
use crate::sync::lock;
use crate::time::{Epoch, NANOS_PER_MS, Stamp, TickGrid};

/// After the clock jumps back, a header's stamp may be at most this far ahead \[ns\], or one period
/// if that is longer. This holds until the clock passes the instant from which it jumped. A message
/// further ahead was stamped before the jump, and came late through the middleware. The system's
/// clock always knows the time, so no good message is further ahead.
const MAX_AHEAD_AFTER_JUMP_NS: i64 = 10 * NANOS_PER_MS;

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
    log: JumpLog,
}

impl SystemClock {
    pub(super) fn new(grid: TickGrid) -> Self {
        SystemClock { grid, state: Mutex::default() }
    }

    pub(super) fn now(&self) -> Reading {
        self.read(system_now)
    }

    /// Reads the clock, and begins an epoch if it jumped back.
    fn read(&self, clock: impl FnOnce() -> Stamp) -> Reading {
        // The state is plain values, and no code panics between the changes.
        let mut state = lock(&self.state);
        // Read under the lock: if two threads read, the later one gets the later instant.
        let (stamp, since) = (clock(), Instant::now());
        let newest = state.newest.unwrap_or(stamp);
        let mut jumped = None;
        if is_jump(newest, stamp, self.grid) {
            state.epoch = state.epoch.next(Some(newest));
            state.newest = Some(stamp);
            jumped = state.log.note(since, newest, stamp);
        } else {
            state.newest = Some(newest.max(stamp));
        }
        let epoch = state.epoch;
        drop(state);
        if let Some(jumped) = jumped {
            jumped.say();
        }
        Reading { stamp, since, epoch }
    }

    pub(super) fn arrival(&self) -> Arrival {
        self.arrival_at(self.now())
    }

    /// The arrival of a message at a reading of the clock.
    fn arrival_at(&self, Reading { stamp, epoch, .. }: Reading) -> Arrival {
        let before_the_end = epoch.jumped_from().is_some_and(|from| stamp < from);
        let max_ahead_ns = match before_the_end {
            true => self.grid.period_ns().clamp(MAX_AHEAD_AFTER_JUMP_NS, MAX_AHEAD_NS),
            false => MAX_AHEAD_NS,
        };
        Arrival { stamp: Some(stamp), epoch, max_ahead_ns, ..Arrival::default() }
    }
}

/// The time of the system.
pub fn system_now() -> Stamp {
    // A clock before 1970 is wrong. It counts as zero, which means "not set".
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos());
    Stamp::from_nanos(i64::try_from(nanos).unwrap_or(i64::MAX))
}

/// The system's clock as a recording tells of it: it is where the caller sets it. When it is set back, an
/// epoch begins, as on the machine that was recorded.
#[derive(Debug)]
pub struct RecordedClock {
    clock: SystemClock,
    /// The instant; `None` before the first.
    at: Mutex<Option<Stamp>>,
}

impl RecordedClock {
    pub(super) fn new(grid: TickGrid) -> Self {
        RecordedClock { clock: SystemClock::new(grid), at: Mutex::default() }
    }

    /// Sets the clock.
    pub(super) fn set(&self, stamp: Stamp) {
        *lock(&self.at) = Some(stamp);
    }

    /// Sets the clock in an epoch that the recording tells. It goes back only when an epoch
    /// begins, and what is of an epoch that is over leaves it alone.
    pub(super) fn set_in(&self, epoch: Epoch, stamp: Stamp) {
        let mut at = lock(&self.at);
        let mut state = lock(&self.clock.state);
        if epoch.is_before(state.epoch) {
            return;
        }
        let begins = state.epoch.is_before(epoch);
        let stamp = at.filter(|_| !begins).map_or(stamp, |before| before.max(stamp));
        if begins {
            state.epoch = epoch;
        }
        (*at, state.newest) = (Some(stamp), Some(stamp));
    }

    pub(super) fn now(&self) -> Option<Reading> {
        let at = (*lock(&self.at))?;
        Some(self.clock.read(|| at))
    }

    pub(super) fn arrival(&self) -> Arrival {
        self.now().map_or_else(Arrival::default, |now| self.clock.arrival_at(now))
    }
}

/// A clock that runs with the monotonic clock.
#[derive(Debug)]
pub struct SteadyClock {
    stamp: Stamp,
    at: Instant,
}

impl SteadyClock {
    pub(super) fn new(stamp: Stamp, at: Instant) -> Self {
        SteadyClock { stamp, at }
    }

    pub(super) fn now(&self) -> Reading {
        let since = Instant::now();
        let nanos = |d: Duration| i64::try_from(d.as_nanos()).unwrap_or(i64::MAX);
        let after = nanos(since.saturating_duration_since(self.at));
        let before = nanos(self.at.saturating_duration_since(since));
        Reading { stamp: self.stamp.offset(after - before), since, epoch: Epoch::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Clock;
    use super::*;

    #[test]
    fn the_systems_clock_begins_an_epoch_if_it_steps_back_by_a_tick() {
        let clock = SystemClock::new(TickGrid::new(10).unwrap());
        let at = Stamp::from_nanos;
        let look = |nanos| clock.read(|| at(nanos)).epoch;
        let first = Epoch::default();
        // 19 is before tick 2, at 20. That tick is not served again, so this is no jump either.
        assert_eq!([look(12), look(25), look(21), look(19), look(16)], [first; 5]);
        let second = first.next(Some(at(25)));
        assert_eq!([look(15), look(20)], [second; 2]);
        assert_eq!(look(3), second.next(Some(at(20))));
    }

    #[test]
    fn a_recorded_clock_has_the_epochs_that_it_is_told() {
        let clock = RecordedClock::new(TickGrid::new(10).unwrap());
        let set = |epoch, nanos| {
            clock.set_in(Epoch::numbered(epoch), Stamp::from_nanos(nanos));
            let now = clock.now().unwrap();
            (now.epoch.number(), now.stamp.nanos())
        };
        assert_eq!([set(0, 100), set(0, 50), set(0, 120)], [(0, 100), (0, 100), (0, 120)]);
        // Two epochs later, and ahead of the one before.
        assert_eq!([set(2, 130), set(3, 40), set(2, 200)], [(2, 130), (3, 40), (3, 40)]);
    }

    #[test]
    fn a_slow_grid_does_not_hide_a_jump() {
        let clock = SystemClock::new(TickGrid::from_rate_hz(0.1).unwrap());
        let look = |ms: i64| clock.read(|| Stamp::from_nanos(ms * NANOS_PER_MS)).epoch.number();
        assert_eq!([look(5000), look(4901), look(4900)], [0, 0, 1]);
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
