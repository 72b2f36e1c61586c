//! Latched messages: the newest one of an input stays true until another one is published.
//!
//! A map is published once, and a simulator is reset many times. When an epoch begins, the rings forget all rows, and no
//! publisher sends a latched message again. So the runtime keeps the newest message of each such input, and takes it
//! again in each epoch:
//!
//! - Under `timeline: receive`, it is received at the first instant of the epoch.
//! - Under `timeline: header`, it keeps its own stamp. If that is ahead of the new epoch, the message does not count, and
//!   log and status say so.
//!
//! Fixed transforms and cameras are kept by the pipeline itself. A plan is not taken again: it was for instants of the
//! epoch before, and one whose stamp is zero would start again.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::recorder::SharedMessage;
use super::{Origin, Runtime, RuntimeError, SharedBytes, Transit};
use robocache_core::pipeline::Arrival;
use robocache_core::rejected::Rejected;
use robocache_core::spec::{InputId, InputSpec, Selection};
use robocache_ops::sync::lock;
use robocache_ops::time::Epoch;

/// The newest message of a latched input.
pub(super) struct Latched {
    bytes: SharedBytes,
    origin: Origin,
    /// The epoch in which it was taken last.
    epoch: Epoch,
}

impl std::fmt::Debug for Latched {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes of {:?}", (*self.bytes).as_ref().len(), self.epoch)
    }
}

impl Runtime {
    /// Whether the messages of an input are latched: its publishers give them to those who subscribe later.
    pub(super) fn is_latched(&self, input: InputId) -> bool {
        let kept_elsewhere = matches!(
            self.input_spec(input).selection,
            Selection::Transforms { .. }
                | Selection::CameraInfo { .. }
                | Selection::Trajectory { .. }
        );
        !kept_elsewhere && self.input(input).asks.get().transient_local
    }

    /// Takes a message of a latched input, and keeps it.
    pub(super) fn receive_latched(
        &self,
        origin: Origin,
        input: InputId,
        bytes: SharedBytes,
        mut arrival: Arrival,
    ) -> Result<(), RuntimeError> {
        let state = self.input(input);
        let mut latched = lock(&state.latched);
        // From before a jump that another thread has noticed: it counts afterwards as well.
        if arrival.epoch.number() < self.epoch.load(Ordering::Relaxed) {
            arrival = self.arrival(input, Transit::UNKNOWN);
        }
        let (kept, epoch) = (Arc::clone(&bytes), arrival.epoch);
        *latched = Some(Latched { bytes: kept, origin, epoch });
        drop(latched);
        state.is_left_out.store(false, Ordering::Relaxed);
        self.accept(origin, input, SharedMessage(bytes), arrival)
    }

    /// Takes the newest message of each latched input in an epoch that has begun, unless it has a newer one.
    pub(super) fn take_latched_again(&self, epoch: Epoch) {
        for input in self.inputs().filter(|input| self.is_latched(*input)) {
            // Until it is taken. Otherwise a newer one could come before it, and seem to be the older one.
            let mut latched = lock(&self.input(input).latched);
            let Some(newest) = latched.as_mut().filter(|newest| newest.epoch.is_before(epoch))
            else {
                continue;
            };
            // Not between this reading of a simulator's clock and the next.
            let Some(now) = self.clock.now() else { continue };
            let arrival = self.arrival_at(input, Transit::UNKNOWN, now.since);
            newest.epoch = arrival.epoch;
            self.input(input).takes_again.store(true, Ordering::Relaxed);
            let bytes = SharedMessage(Arc::clone(&newest.bytes));
            if let Err(error) = self.accept(newest.origin, input, bytes, arrival) {
                // The next message ends the node with it.
                tracing::error!("{}: its latched message: {error}", self.input_spec(input).topic);
            }
        }
    }

    /// Says that the newest message of an input is latched and does not count in this epoch; `None` if it counts.
    pub(super) fn left_out(&self, input: InputId) -> Option<&'static str> {
        self.input(input).is_left_out.load(Ordering::Relaxed).then_some(LEFT_OUT)
    }

    /// Notes what became of a message of an input: if it was a latched one that was taken again, and was dropped, says so.
    pub(super) fn note_taken_again(&self, input: InputId, dropped: Option<&Rejected>) {
        let state = self.input(input);
        if !state.takes_again.swap(false, Ordering::Relaxed) {
            return;
        }
        state.is_left_out.store(dropped.is_some(), Ordering::Relaxed);
        if let Some(Rejected { detail, .. }) = dropped {
            let InputSpec { name, topic, .. } = self.input_spec(input);
            tracing::warn!("stream '{name}' ({topic}): {LEFT_OUT} ({detail})");
        }
    }
}

/// What people read if a latched message does not count.
const LEFT_OUT: &str = "its latched message is not of the clock's new epoch, so it does not count: publish it \
                                   again, or set timeline: receive";

#[cfg(test)]
mod tests;
