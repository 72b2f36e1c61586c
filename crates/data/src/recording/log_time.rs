//! The time of the log, by which every reader sorts.

use robocache_ops::time::{Epoch, NANOS_PER_S, Stamp};

/// The time of the log: that of the system's clock, but it never goes back.
#[derive(Default)]
pub(super) struct LogTime {
    pub last: Stamp,
    /// How far it is ahead of the system's clock.
    ahead_ns: i64,
    /// The newest epoch.
    epoch: Epoch,
    /// True if the node's clock is a simulator's: then the epochs do not show jumps of the system's clock.
    simulated: bool,
}

impl LogTime {
    /// The time of a log that begins. `simulated`: whether a simulator has the node's clock.
    pub(super) fn new(simulated: bool) -> Self {
        LogTime { simulated, ..LogTime::default() }
    }

    /// The time of the log for an instant of the system's clock, which is of this epoch of the node's.
    pub(super) fn of(&mut self, epoch: Option<Epoch>, at: Stamp) -> Stamp {
        /// With a simulator's clock: after a longer step back \[ns\] the log goes on from before.
        const STEP_BACK_NS: i64 = NANOS_PER_S;
        let behind_ns = self.last.since(at.offset(self.ahead_ns));
        if !self.simulated {
            let epoch = epoch.unwrap_or(self.epoch);
            if epoch.is_before(self.epoch) {
                // The clock was set back since: what it said then is no time of the log.
                return self.last;
            }
            if self.epoch.is_before(epoch) {
                self.epoch = epoch;
                self.ahead_ns = self.ahead_ns.saturating_add(behind_ns.max(0));
            }
        } else if behind_ns > STEP_BACK_NS {
            self.ahead_ns = self.ahead_ns.saturating_add(behind_ns);
        }
        // MCAP has no instants before zero. What another thread was late to tell has the time of the latest.
        self.last = self.last.max(at.offset(self.ahead_ns));
        self.last
    }
}

#[cfg(test)]
mod tests;
