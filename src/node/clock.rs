//! The node's clock: the system's, or a simulator's through `/clock`.

use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::cdr::{CdrError, Reader};
use crate::sync::lock;
use crate::time::{Stamp, TickGrid};

/// The longest uninterrupted sleep: a step of the system clock is noticed within this time.
const SLICE: Duration = Duration::from_millis(50);

/// A look at the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The instant.
    pub stamp: Stamp,
    /// On the monotonic clock: now for the system's clock, the arrival of the message that made the
    /// newest tick due for a simulator's.
    pub since: Instant,
    /// Raised each time a simulator's clock jumps back; always 0 for the system's clock, whose
    /// steps the reader sees by comparing with `since`.
    pub epoch: u64,
}

/// The clock that stamps arrivals and by which ticks stand.
#[derive(Debug)]
pub enum NodeClock {
    /// The system's clock: nanoseconds since 1970.
    System,
    /// What `/clock` says.
    Sim(SimClock),
}

impl NodeClock {
    /// The instant; `None` before the first message on `/clock`.
    pub fn now(&self) -> Option<Reading> {
        match self {
            NodeClock::System => Some(system_now()),
            NodeClock::Sim(clock) => clock.lock().reading,
        }
    }

    /// For how long a simulator's clock has stood still; `None` before it runs, and for the
    /// system's clock.
    pub fn stands(&self) -> Option<Duration> {
        match self {
            NodeClock::System => None,
            NodeClock::Sim(clock) => clock.lock().moved.map(|moved| moved.elapsed()),
        }
    }

    /// Returns when `until` (any instant where `None`) may have come, at the latest after a short
    /// while: the caller looks at the clock again.
    pub fn wait(&self, until: Option<Stamp>) {
        match (self, until) {
            (NodeClock::System, Some(until)) => {
                let left = until.since(system_now().stamp).max(0);
                std::thread::sleep(SLICE.min(Duration::from_nanos(left as u64)));
            }
            (NodeClock::System, None) => std::thread::sleep(SLICE),
            (NodeClock::Sim(clock), until) => clock.wait(until),
        }
    }
}

fn system_now() -> Reading {
    // A clock before 1970 is a broken clock: zero is "not set", and stays behind every tick.
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos());
    let stamp = Stamp::from_nanos(i64::try_from(nanos).unwrap_or(i64::MAX));
    Reading { stamp, since: Instant::now(), epoch: 0 }
}

/// A clock that stands still between the messages of `/clock`. The spin thread sets it, the tick
/// thread waits on it.
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
}

/// What a message on `/clock` did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advance {
    /// The first one: the clock runs.
    Started,
    /// Forward by that many nanoseconds, possibly none.
    Forward(i64),
    /// Back by that many nanoseconds.
    Back(i64),
}

impl SimClock {
    /// A clock that does not run yet, for ticks on `grid`.
    pub fn new(grid: TickGrid) -> Self {
        SimClock { grid, state: Mutex::default(), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, SimState> {
        // The state is one plain value: a panic elsewhere cannot have left it half written.
        lock(&self.state)
    }

    /// What setting the clock to `stamp` would be.
    pub fn compare(&self, stamp: Stamp) -> Advance {
        match self.lock().reading {
            None => Advance::Started,
            Some(now) if stamp < now.stamp => Advance::Back(now.stamp.since(stamp)),
            Some(now) => Advance::Forward(stamp.since(now.stamp)),
        }
    }

    /// Sets the clock and wakes whoever waits.
    pub fn set(&self, stamp: Stamp) {
        let now = Instant::now();
        let mut state = self.lock();
        let tick = |stamp| self.grid.tick_at(stamp);
        let (epoch, since) = match state.reading {
            Some(before) if stamp < before.stamp => (before.epoch + 1, now),
            Some(before) if tick(stamp) == tick(before.stamp) => (before.epoch, before.since),
            Some(before) => (before.epoch, now),
            None => (0, now),
        };
        if state.reading.is_none_or(|before| before.stamp != stamp) {
            state.moved = Some(now);
        }
        state.reading = Some(Reading { stamp, since, epoch });
        drop(state);
        self.changed.notify_all();
    }

    /// Waits for the clock to reach `until` or to change its epoch.
    fn wait(&self, until: Option<Stamp>) {
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

/// The instant in a serialized `rosgraph_msgs/msg/Clock`; `None` where its nanosecond part is a
/// second or more.
pub fn decode_clock(message: &[u8]) -> Result<Option<Stamp>, CdrError> {
    let mut reader = Reader::new(message)?;
    let (sec, nanosec) = (reader.i32()?, reader.u32()?);
    Ok(Stamp::from_sec_nanosec(sec, nanosec))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cdr::Writer;
    use std::sync::Arc;

    fn sim_clock() -> SimClock {
        SimClock::new(TickGrid::new(10).unwrap())
    }

    #[test]
    fn a_tick_is_due_since_the_first_message_at_or_after_it() {
        let clock = NodeClock::Sim(sim_clock());
        let NodeClock::Sim(sim) = &clock else { unreachable!() };
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
        assert!(since(11) > second, "a jump back starts anew");
    }

    #[test]
    fn a_clock_whose_messages_repeat_an_instant_stands() {
        let clock = NodeClock::Sim(sim_clock());
        let NodeClock::Sim(sim) = &clock else { unreachable!() };
        assert_eq!(clock.stands(), None);
        let pause = Duration::from_millis(20);
        sim.set(Stamp::from_nanos(5));
        std::thread::sleep(pause);
        sim.set(Stamp::from_nanos(5));
        assert!(clock.stands().unwrap() >= pause);
        sim.set(Stamp::from_nanos(6));
        assert!(clock.stands().unwrap() < pause);
        assert_eq!(NodeClock::System.stands(), None);
    }

    #[test]
    fn a_simulators_clock_starts_advances_and_jumps() {
        let clock = sim_clock();
        let at = Stamp::from_nanos;
        assert_eq!(clock.compare(at(5)), Advance::Started);
        clock.set(at(5));
        assert_eq!(clock.compare(at(5)), Advance::Forward(0));
        assert_eq!(clock.compare(at(9)), Advance::Forward(4));
        assert_eq!(clock.compare(at(2)), Advance::Back(3));
        clock.set(at(2));
        let clock = NodeClock::Sim(clock);
        assert_eq!(clock.now().map(|r| (r.stamp, r.epoch)), Some((at(2), 1)));
    }

    #[test]
    fn a_waiter_wakes_when_the_clock_reaches_its_instant_or_jumps_back() {
        for (set, waited_for) in [(20, 20), (3, 20)] {
            let clock = Arc::new(NodeClock::Sim(sim_clock()));
            let NodeClock::Sim(sim) = clock.as_ref() else { unreachable!() };
            sim.set(Stamp::from_nanos(10));
            let waiter = Arc::clone(&clock);
            let thread = std::thread::spawn(move || {
                let started = Instant::now();
                waiter.wait(Some(Stamp::from_nanos(waited_for)));
                started.elapsed()
            });
            std::thread::sleep(Duration::from_millis(5));
            sim.set(Stamp::from_nanos(set));
            assert!(thread.join().unwrap() < SLICE);
        }
    }

    #[test]
    fn a_clock_message_is_its_two_fields() {
        let mut writer = Writer::new();
        writer.i32(7);
        writer.u32(500_000_000);
        let bytes = writer.finish();
        assert_eq!(decode_clock(&bytes), Ok(Some(Stamp::from_nanos(7_500_000_000))));
        assert!(decode_clock(&bytes[..8]).is_err());
    }
}
