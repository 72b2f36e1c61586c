//! A simulator's clock, which the messages on `/clock` set.

use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use super::{Reading, SLICE, say_jump};
use crate::cdr::{CdrError, Reader};
use crate::sync::lock;
use crate::time::{Epoch, Stamp, TickGrid};

/// After this many steps in a row that are longer than a tick, the clock counts as coarse. A single
/// long step may be a short delay of the simulator.
const COARSE: u32 = 5;

/// A clock that does not move between the messages on `/clock`. The spin thread sets it, and the
/// tick thread waits for it.
#[derive(Debug)]
pub struct SimClock {
    grid: TickGrid,
    state: Mutex<SimState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct SimState {
    reading: Option<Reading>,
    /// When the instant last changed.
    moved: Option<Instant>,
    /// Steps in a row that were longer than a tick; stays at [`COARSE`] when it is reached.
    coarse: u32,
}

impl SimClock {
    /// Makes a clock that does not run yet, for ticks on `grid`.
    pub(super) fn new(grid: TickGrid) -> Self {
        SimClock { grid, state: Mutex::default(), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, SimState> {
        // The state is plain values; a panic of another thread does not leave them half written.
        lock(&self.state)
    }

    /// Returns the newest reading; `None` before the first message.
    pub(super) fn now(&self) -> Option<Reading> {
        self.lock().reading
    }

    /// Returns how long the clock has not moved; `None` before it runs.
    pub(super) fn stands(&self) -> Option<Duration> {
        self.lock().moved.map(|moved| moved.elapsed())
    }

    /// Sets the clock and wakes the waiting threads. If this is a jump back, returns the epoch that
    /// it begins.
    pub fn set(&self, stamp: Stamp) -> Option<Epoch> {
        let now = Instant::now();
        let mut state = self.lock();
        let before = state.reading;
        let reading = self.next(before, stamp, now);
        if before.is_none_or(|before| before.stamp != stamp) {
            state.moved = Some(now);
        }
        state.reading = Some(reading);
        let step_ns = before.map(|before| stamp.since(before.stamp));
        let coarse = step_ns.is_some_and(|step_ns| state.is_coarse(step_ns, self.grid));
        drop(state);
        self.changed.notify_all();
        match before {
            None => tracing::info!("/clock runs, from {stamp}"),
            Some(before) if stamp < before.stamp => say_jump(before.stamp, stamp),
            Some(before) if coarse => warn_of_coarse_clock(stamp.since(before.stamp), self.grid),
            Some(_) => {}
        }
        let epoch = before.map_or(reading.epoch, |before| before.epoch);
        epoch.is_before(reading.epoch).then_some(reading.epoch)
    }

    /// Returns the reading after a message with this stamp, which arrived at `now`.
    fn next(&self, before: Option<Reading>, stamp: Stamp, now: Instant) -> Reading {
        let tick = |stamp| self.grid.tick_at(stamp);
        let (epoch, since) = match before {
            Some(before) if stamp < before.stamp => (before.epoch.next(Some(before.stamp)), now),
            Some(before) if tick(stamp) == tick(before.stamp) => (before.epoch, before.since),
            Some(before) => (before.epoch, now),
            None => (Epoch::default(), now),
        };
        Reading { stamp, since, epoch }
    }

    /// Waits until the clock reaches `until` or jumps back, at most for [`SLICE`].
    pub(super) fn wait(&self, until: Option<Stamp>) {
        let state = self.lock();
        let epoch = state.reading.map(|r| r.epoch);
        let not_yet = |state: &mut SimState| match (state.reading, until) {
            (Some(now), Some(until)) => now.stamp < until && Some(now.epoch) == epoch,
            (Some(_), None) => false,
            (None, _) => true,
        };
        drop(self.changed.wait_timeout_while(state, SLICE, not_yet));
    }
}

impl SimState {
    /// Notes a step. Returns true once, when [`COARSE`] steps in a row were longer than a tick.
    fn is_coarse(&mut self, step_ns: i64, grid: TickGrid) -> bool {
        if step_ns < 0 || self.coarse >= COARSE {
            return false;
        }
        self.coarse = if step_ns > grid.period_ns() { self.coarse + 1 } else { 0 };
        self.coarse == COARSE
    }
}

fn warn_of_coarse_clock(step_ns: i64, grid: TickGrid) {
    tracing::warn!(
        "/clock is too coarse for the rate of the ticks: it advances by {} ms at a time, but the \
         period of the ticks is {} ms; only the newest tick of each step is served",
        step_ns as f64 / 1e6,
        grid.period_ns() as f64 / 1e6,
    );
}

/// Returns the instant in a serialized `rosgraph_msgs/msg/Clock`; `None` if its nanosecond part is
/// a second or more.
pub fn decode_clock(message: &[u8]) -> Result<Option<Stamp>, CdrError> {
    let mut reader = Reader::new(message)?;
    let (sec, nanosec) = (reader.i32()?, reader.u32()?);
    Ok(Stamp::from_sec_nanosec(sec, nanosec))
}

#[cfg(test)]
mod tests {
    use super::super::Clock;
    use super::*;
    use crate::cdr::Writer;
    use crate::pipeline::Arrival;
    use std::sync::Arc;

    fn sim_clock() -> SimClock {
        SimClock::new(TickGrid::new(10).unwrap())
    }

    #[test]
    fn a_tick_is_due_since_the_first_message_at_or_after_it() {
        let clock = Clock::Sim(sim_clock());
        let Clock::Sim(sim) = &clock else { unreachable!() };
        let since = |nanos| {
            std::thread::sleep(Duration::from_millis(2));
            sim.set(Stamp::from_nanos(nanos));
            clock.now().unwrap().since
        };
        let first = since(12);
        assert_eq!((since(15), since(19)), (first, first));
        let second = since(20);
        assert!(second > first);
        assert_eq!(since(20), second);
        assert!(since(11) > second, "a jump back starts again");
    }

    #[test]
    fn a_clock_whose_messages_repeat_an_instant_does_not_move() {
        let clock = Clock::Sim(sim_clock());
        let Clock::Sim(sim) = &clock else { unreachable!() };
        assert_eq!(clock.stands(), None);
        let pause = Duration::from_millis(20);
        sim.set(Stamp::from_nanos(5));
        std::thread::sleep(pause);
        sim.set(Stamp::from_nanos(5));
        assert!(clock.stands().unwrap() >= pause);
        sim.set(Stamp::from_nanos(6));
        assert!(clock.stands().unwrap() < pause);
        assert_eq!(Clock::system(TickGrid::new(10).unwrap()).stands(), None);
    }

    #[test]
    fn a_simulators_clock_starts_advances_and_jumps() {
        let clock = sim_clock();
        let at = Stamp::from_nanos;
        let first = Epoch::default();
        assert_eq!(clock.set(at(5)), None);
        assert_eq!(clock.set(at(5)), None);
        assert_eq!(clock.set(at(9)), None);
        assert_eq!(clock.lock().reading.map(|r| (r.stamp, r.epoch)), Some((at(9), first)));
        let second = first.next(Some(at(9)));
        assert_eq!(clock.set(at(2)), Some(second));
        let clock = Clock::Sim(clock);
        assert_eq!(clock.now().map(|r| (r.stamp, r.epoch)), Some((at(2), second)));
        assert_eq!(clock.arrival(), Arrival { stamp: Some(at(2)), epoch: second });
    }

    #[test]
    fn messages_have_no_arrival_stamp_before_a_simulators_clock_runs() {
        assert_eq!(Clock::Sim(sim_clock()).arrival(), Arrival::default());
    }

    #[test]
    fn a_clock_with_steps_longer_than_a_tick_is_reported_as_coarse_once() {
        let (mut state, grid) = (SimState::default(), TickGrid::new(10).unwrap());
        let mut steps = |steps: &[i64]| -> Vec<bool> {
            steps.iter().map(|step_ns| state.is_coarse(*step_ns, grid)).collect()
        };
        assert_eq!(steps(&[11, 11, 11, 11, 10]), [false; 5]);
        assert_eq!(steps(&[11, 11, -50, 11, 11, 11]), [false, false, false, false, false, true]);
        assert_eq!(steps(&[11; 20]), [false; 20]);
    }

    /// Whether a waiting thread wakes early when the clock is set.
    fn wakes(set: i64, waited_for: i64) -> bool {
        let clock = Arc::new(Clock::Sim(sim_clock()));
        clock.set(Stamp::from_nanos(10));
        let waiter = Arc::clone(&clock);
        let thread = std::thread::spawn(move || {
            let started = Instant::now();
            waiter.wait(Some(Stamp::from_nanos(waited_for)));
            started.elapsed()
        });
        std::thread::sleep(Duration::from_millis(5));
        clock.set(Stamp::from_nanos(set));
        thread.join().unwrap() < SLICE
    }

    #[test]
    fn a_waiter_wakes_when_the_clock_reaches_its_instant_or_jumps_back() {
        for (set, waited_for) in [(20, 20), (3, 20)] {
            // On a busy machine the thread may begin to wait after the clock is set.
            assert!((0..20).any(|_| wakes(set, waited_for)));
        }
    }

    #[test]
    fn a_clock_message_has_seconds_and_nanoseconds() {
        let mut writer = Writer::new();
        writer.i32(7);
        writer.u32(500_000_000);
        let bytes = writer.finish();
        assert_eq!(decode_clock(&bytes), Ok(Some(Stamp::from_nanos(7_500_000_000))));
        assert!(decode_clock(&bytes[..8]).is_err());
    }
}
