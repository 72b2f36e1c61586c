//! The time of the log, by which every reader sorts.

use crate::time::{Epoch, NANOS_PER_S, Stamp};

/// The time of the log: that of the system's clock, but it never goes back.
#[derive(Default)]
pub(super) struct LogTime {
    pub last: Stamp,
    /// How far it is ahead of the system's clock.
    ahead_ns: i64,
    /// The newest epoch.
    epoch: Epoch,
    /// Whether a simulator has the node's clock: then the epochs do not tell of the system's clock.
    simulated: bool,
}

impl LogTime {
    /// The time of a log that begins. `simulated`: whether a simulator has the node's clock.
    pub fn new(simulated: bool) -> Self {
        LogTime { simulated, ..LogTime::default() }
    }

    /// The time of the log for an instant of the system's clock, which is of this epoch of the node's.
    pub fn of(&mut self, epoch: Option<Epoch>, at: Stamp) -> Stamp {
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
mod tests {
    use super::*;
    use crate::time::NANOS_PER_MS;

    #[test]
    fn the_log_goes_on_when_an_epoch_begins_and_only_then() {
        let at = |ms: i64| Stamp::from_nanos(ms * NANOS_PER_MS);
        for step in [10, 50, 150, 500, 1500] {
            let mut time = LogTime::default();
            let mut of = |epoch, ms: i64| time.of(Some(Epoch::numbered(epoch)), at(ms));
            assert_eq!(of(0, 9000), at(9000));
            // Late by two seconds: the log does not go ahead for the rest of the run.
            assert_eq!(of(0, 7000), at(9000));
            assert_eq!(of(0, 9001), at(9001));
            assert_eq!(of(1, 9001 - step), at(9001), "{step}");
            assert_eq!(of(0, 9002), at(9001), "{step}");
            assert_eq!(of(1, 9004 - step), at(9004), "{step}");
        }
    }

    #[test]
    fn under_a_simulators_clock_epochs_are_no_steps_of_the_log() {
        let at = |ms: i64| Stamp::from_nanos(ms * NANOS_PER_MS);
        let mut time = LogTime::new(true);
        let mut of = |epoch, ms: i64| time.of(Some(Epoch::numbered(epoch)), at(ms));
        assert_eq!([of(0, 9000), of(1, 9001), of(0, 9002)], [at(9000), at(9001), at(9002)]);
        assert_eq!([of(1, 5000), of(1, 5001)], [at(9002), at(9003)]);
    }
}
