//! The node's clock: the system's, or a simulator's through `/clock`.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::cdr::{CdrError, Reader};
use crate::time::Stamp;

/// The longest uninterrupted sleep: a step of the system clock is noticed within this time.
const SLICE: Duration = Duration::from_millis(50);

/// A look at the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The instant.
    pub stamp: Stamp,
    /// When it became that instant, on the monotonic clock: now for the system's clock, the
    /// arrival of the message for a simulator's.
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
#[derive(Debug, Default)]
pub struct SimClock {
    state: Mutex<SimState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct SimState {
    reading: Option<Reading>,
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
    fn lock(&self) -> MutexGuard<'_, SimState> {
        // The state is one plain value: a panic elsewhere cannot have left it half written.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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
        let mut state = self.lock();
        let epoch = match state.reading {
            Some(now) if stamp < now.stamp => now.epoch + 1,
            Some(now) => now.epoch,
            None => 0,
        };
        state.reading = Some(Reading { stamp, since: Instant::now(), epoch });
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

    #[test]
    fn a_simulators_clock_starts_advances_and_jumps() {
        let clock = SimClock::default();
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
            let clock = Arc::new(NodeClock::Sim(SimClock::default()));
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
