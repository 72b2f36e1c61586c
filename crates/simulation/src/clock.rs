//! Time of the simulated world.

use std::time::{Duration, Instant};

use robocache_ops::time::{NANOS_PER_S, Stamp};
use robocache_runtime::{TimeSource, VirtualTime};

/// Instant of the system's clock at the start of each run. Ticks of all whole rates are due at it.
pub(crate) const START: Stamp = Stamp::from_nanos(1_764_000_000 * NANOS_PER_S);

/// The clocks of the machine that the node runs on. Instants are nanoseconds since the start.
#[derive(Clone)]
pub(crate) struct WorldClock {
    time: VirtualTime,
    source: TimeSource,
    start: Instant,
}

impl WorldClock {
    pub(crate) fn new() -> Self {
        let time = VirtualTime::starting_at(START);
        let source = time.source();
        let start = source.monotonic();
        WorldClock { time, source, start }
    }

    /// Source for the node.
    pub(crate) fn source(&self) -> &TimeSource {
        &self.source
    }

    /// Nanoseconds since the start by the monotonic clock.
    pub(crate) fn now_ns(&self) -> u64 {
        self.ns_of(self.source.monotonic())
    }

    pub(crate) fn ns_of(&self, instant: Instant) -> u64 {
        instant.saturating_duration_since(self.start).as_nanos() as u64
    }

    /// The system's clock.
    pub(crate) fn system(&self) -> Stamp {
        self.source.system()
    }

    /// Moves to an instant, unless it has passed.
    pub(crate) fn advance_to(&self, at_ns: u64) {
        self.spend(at_ns.saturating_sub(self.now_ns()));
    }

    /// Lets time pass, as work does.
    pub(crate) fn spend(&self, ns: u64) {
        self.time.advance(Duration::from_nanos(ns));
    }

    /// Suspends the machine: all clocks but the monotonic one go on.
    pub(crate) fn suspend(&self, ns: u64) {
        self.time.suspend(Duration::from_nanos(ns));
    }

    /// Sets the system's clock.
    pub(crate) fn set_by(&self, offset_ns: i64) {
        self.time.set_system(self.system().offset(offset_ns));
    }
}
