//! The simulator's clock of a runtime: to set it also begins epochs.

use std::time::Instant;

use super::clock::{Clock, SimClock, Transit};
use super::{ClockMessage, Runtime};
use robocache_ops::time::Stamp;

/// The handle that sets the simulator's clock of a runtime.
#[derive(Clone, Copy)]
pub struct RuntimeSimClock<'a> {
    runtime: &'a Runtime,
    clock: &'a SimClock,
}

impl Runtime {
    /// Returns the handle that sets the simulator's clock; `None` if the runtime has another clock.
    pub fn sim_clock(&self) -> Option<RuntimeSimClock<'_>> {
        match &self.clock {
            Clock::Sim(clock) => Some(RuntimeSimClock { runtime: self, clock }),
            Clock::System(_) | Clock::Steady(_) | Clock::Recorded(_) => None,
        }
    }
}

impl RuntimeSimClock<'_> {
    /// Sets the clock from a message on `/clock` that came now. If the clock jumps back, or if this is its first
    /// reading, this clears all earlier messages before it returns.
    pub fn set(self, stamp: Stamp, transit: Transit) {
        self.set_at(stamp, transit, self.runtime.time.monotonic());
    }

    /// As [`RuntimeSimClock::set`], from a message that came at `at` by the monotonic clock.
    pub(super) fn set_at(self, stamp: Stamp, transit: Transit, at: Instant) {
        let RuntimeSimClock { runtime, clock } = self;
        // Told first: a tick that this message makes due is recorded after it, so a recording that is cut off between
        // them has no tick whose instant it never reached.
        if let Some(recorder) = &runtime.recorder {
            let at = runtime.time.system();
            let published = transit.published_at();
            recorder.clock_set(ClockMessage { stamp, at, published });
        }
        let began = clock.set_at(stamp, transit, at);
        if let Some(now) = clock.now() {
            runtime.node_time.set(now.epoch, now.stamp);
        }
        if let Some(epoch) = began {
            runtime.begin(epoch);
        }
    }
}

#[cfg(test)]
mod tests;
