//! The subscription to the clock of a simulator.

use super::buffers::MessageMemory;
use super::handover::{LONGEST, Switch};
use super::middleware::{MiddlewareError, Subscription};
use super::takes::Takes;
use super::wanted::CLOCK_DEPTH;
use robocache_runtime::{Runtime, decode_clock};
use std::time::{Duration, Instant};

/// Sets the clock of a runtime from the messages on `/clock`.
pub(crate) struct ClockIntake<S> {
    subscription: Switch<S>,
    takes: Takes,
}

impl<S: Subscription> ClockIntake<S> {
    pub(crate) fn new(subscription: S) -> Self {
        ClockIntake { subscription: Switch::new(subscription), takes: Takes::default() }
    }

    /// True if a message may wait.
    pub(crate) fn may_have(&self) -> bool {
        self.subscription.current.may_have()
    }

    /// Takes the subscription of a new connection. Returns one that is no longer needed.
    #[must_use = "ending a subscription takes time"]
    pub(crate) fn begin(&mut self, next: S, now: Instant) -> Option<S> {
        self.subscription.begin(next, now)
    }

    /// Goes over to the subscription of a new connection when that has given a message. Returns the one before.
    ///
    /// Two at once would set the clock back: the same instants come from both, and the second queue is
    /// emptied after the first.
    #[must_use = "ending a subscription takes time"]
    pub(crate) fn follow(&mut self, runtime: &Runtime, now: Instant) -> Option<S> {
        let publishers = |subscription: &S| subscription.publisher_count().unwrap_or(0);
        // A publisher may find the new one seconds after that one has found it. Until then the clock would stand.
        let is_connected =
            |next: &S, before: &S| next.may_have() && publishers(next) >= publishers(before);
        // At once: if the old connection is cut off, its clock stands.
        let before = self.subscription.over(now, Duration::ZERO, LONGEST, is_connected)?;
        // Most of these instants came from the one before, too. The newest counts if it is ahead.
        let mut message = MessageMemory::default();
        let mut newest = None;
        while let Ok(Some(info)) = self.subscription.current.take(&mut message) {
            newest = Some((decode_clock(&message), info.transit));
        }
        if let Some((Ok(Some(stamp)), transit)) = newest
            && runtime.clock.now().is_none_or(|now| stamp > now.stamp)
            && let Some(clock) = runtime.sim_clock()
        {
            clock.set(stamp, transit);
        }
        Some(before)
    }

    /// Sets the clock from each waiting message.
    ///
    /// # Errors
    /// The middleware failed too often in a row.
    pub(crate) fn drain(&mut self, runtime: &Runtime) -> Result<(), MiddlewareError> {
        let mut message = MessageMemory::default();
        for _ in 0..CLOCK_DEPTH {
            let taken = self.subscription.current.take(&mut message);
            let Some(info) = self.takes.note(taken)? else { break };
            match (decode_clock(&message), runtime.sim_clock()) {
                (Ok(Some(stamp)), Some(clock)) => clock.set(stamp, info.transit),
                _ => tracing::warn!("ignored a malformed message on /clock"),
            }
        }
        Ok(())
    }
}
