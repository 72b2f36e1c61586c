//! The subscription to chunks of actions.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::buffers::MessageMemory;
use super::handover::{LONGEST, Switch};
use super::middleware::{MiddlewareError, Subscription};
use super::takes::Takes;
use super::wanted::CHUNK_DEPTH;
use robocache_runtime::Runtime;

/// Gives chunks to the command thread.
pub(crate) struct ChunkIntake<S> {
    subscription: Switch<S>,
    takes: Takes,
}

impl<S: Subscription> ChunkIntake<S> {
    pub(crate) fn new(subscription: S) -> Self {
        ChunkIntake { subscription: Switch::new(subscription), takes: Takes::default() }
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

    /// Goes over to the subscription of a new connection when it is connected. Returns the one before.
    ///
    /// It does so at once: from two subscriptions each chunk would come twice, and the second one be refused.
    #[must_use = "ending a subscription takes time"]
    pub(crate) fn follow(&mut self, now: Instant) -> Option<S> {
        let publishers = |subscription: &S| subscription.publisher_count().unwrap_or(0);
        let is_connected = |next: &_, before: &_| publishers(next) >= publishers(before);
        self.subscription.over(now, Duration::ZERO, LONGEST, is_connected)
    }

    /// Gives each waiting chunk to the next command tick.
    ///
    /// # Errors
    /// The middleware failed too often in a row.
    pub(crate) fn drain(&mut self, runtime: &Runtime) -> Result<(), MiddlewareError> {
        let mut message = MessageMemory::default();
        for _ in 0..CHUNK_DEPTH {
            let taken = self.subscription.current.take(&mut message);
            let Some(info) = self.takes.note(taken)? else { break };
            if let Some(commands) = &runtime.commands {
                commands.give(Arc::new(message.to_vec()), info.publisher.number());
            }
        }
        Ok(())
    }
}
