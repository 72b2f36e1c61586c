//! Latched messages: the newest one of an input stays true until another one is published.
//!
//! A map is published once, and a simulator is reset many times. When an epoch begins, the rings forget all rows, and no
//! publisher sends a latched message again. So the runtime keeps the newest message of each such input, and takes it
//! again in each epoch:
//!
//! - Under `timeline: receive`, it is received at the first instant of the epoch. If it needs a transform that has not come
//!   yet, it is taken once more later.
//! - Under `timeline: header`, it keeps its own stamp. If that is ahead of the new epoch, the message does not count, and
//!   log and status say so.
//!
//! Some messages are not taken again:
//!
//! - Fixed transforms and cameras, because the pipeline itself keeps them.
//! - A plan: it was for instants of the epoch before, and one whose stamp is zero would start again.
//! - Those of an input whose next one comes soon. Under `timeline: receive`, an old value would be fresh until then.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::clock::Reading;
use super::intake::MessageOrigin;
use super::recorder::SharedMessage;
use super::state::{Latched, Retry};
use super::{Origin, Runtime, RuntimeError, SharedBytes, Transit};
use robocache_core::pipeline::Arrival;
use robocache_core::rejected::{DropReason, Rejected};
use robocache_core::spec::{InputId, InputSpec, Timeline};
use robocache_ops::sync::lock;
use robocache_ops::time::{Epoch, NANOS_PER_MS, Stamp};

/// If messages usually come at such intervals, the next one comes soon.
const SOON: Duration = Duration::from_secs(1);
/// Time until a message is taken once more whose transform has not come \[ns\]. Each further one is twice as long: a
/// recording gets the message each time.
const FIRST_RETRY_NS: i64 = 50 * NANOS_PER_MS;

/// Why the newest message of a latched input does not count in this epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum LeftOut {
    /// It counts.
    No = 0,
    /// Its stamp is of another epoch.
    OtherEpoch,
    /// It was dropped for another reason.
    Dropped,
}

impl Runtime {
    /// True if the messages of an input are latched: its publishers give them to those who subscribe later.
    pub(super) fn is_latched(&self, input: InputId) -> bool {
        let spec = self.input_spec(input);
        let kept_elsewhere = spec.feeds_tree() || spec.is_calibration() || spec.is_plan();
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
        // The one before may have been taken again since this one arrived, or its epoch may be over.
        let is_behind = latched.as_ref().is_some_and(|before| {
            before.epoch == arrival.epoch && before.at.is_some() && at(arrival) <= before.at
        });
        if is_behind || arrival.epoch.number() < self.epoch.load(Ordering::Relaxed) {
            arrival = self.arrival(input, Transit::UNKNOWN);
        }
        self.keep(&mut latched, origin, input, &bytes, arrival);
        drop(latched);
        state.left_out.store(LeftOut::No as u8, Ordering::Relaxed);
        // From now on the message before is not taken again.
        self.meet(arrival.epoch);
        if arrival.stamp.is_none() && self.input_spec(input).timeline == Timeline::Receive {
            // It arrives when the clock begins to run.
            return Ok(());
        }
        let from = MessageOrigin::from((origin, input));
        self.accept(from, origin.published, SharedMessage(bytes), arrival)
    }

    /// Keeps a message, unless it is older than the one that is kept: a publisher may give its history after a newer one.
    fn keep(
        &self,
        latched: &mut Option<Latched>,
        origin: Origin,
        input: InputId,
        bytes: &SharedBytes,
        arrival: Arrival,
    ) {
        let is_older = |kept: &Latched| {
            let published = origin.published.zip(kept.origin.published);
            kept.origin.publisher == origin.publisher
                && published.is_some_and(|(newer, kept)| newer < kept)
        };
        if latched.as_ref().is_some_and(is_older) {
            return;
        }
        let bytes = Arc::clone(bytes);
        let epoch = arrival.epoch;
        let at = at(arrival);
        *latched = Some(Latched { bytes, origin, epoch, at });
        self.input(input).keeps.store(true, Ordering::Relaxed);
    }

    /// Forgets the message that is kept of an input, because a newer one came that is not latched.
    pub(super) fn forget_latched(&self, input: InputId) {
        if self.input(input).keeps.swap(false, Ordering::Relaxed) {
            *lock(&self.input(input).latched) = None;
        }
    }

    /// Keeps a message that has been taken before, and that a publisher has given once more, because the input asks for
    /// latched messages now. It was taken before the publishers were known.
    pub fn keep_repeated(
        &self,
        origin: Origin,
        input: InputId,
        bytes: impl AsRef<[u8]> + Send + Sync + 'static,
        transit: Transit,
    ) {
        if !self.is_latched(input) {
            return;
        }
        let (state, bytes): (_, SharedBytes) = (self.input(input), Arc::new(bytes));
        // Each new connection gives it once more. If this epoch has it, its age goes on.
        let number = self.epoch.load(Ordering::Relaxed);
        let is_here = |kept: &Latched| {
            kept.origin == origin && origin.published.is_some() && kept.epoch.number() == number
        };
        if lock(&state.latched).as_ref().is_some_and(is_here) {
            return;
        }
        let arrival = self.arrival(input, transit);
        let taken = Epoch::numbered(state.taken_in.load(Ordering::Relaxed));
        let arrival = Arrival { epoch: taken, ..arrival };
        self.keep(&mut lock(&state.latched), origin, input, &bytes, arrival);
        let epoch = Epoch::numbered(self.epoch.load(Ordering::Relaxed));
        if taken.is_before(epoch) {
            self.take_latched_again(epoch);
        }
    }

    /// True if the newest message of an input stays true, however long ago it came. If messages come again and again, an
    /// input that stops is silent, whatever quality of service its publishers offer.
    pub(super) fn is_kept(&self, input: InputId) -> bool {
        let state = self.input(input);
        self.is_latched(input)
            && state.keeps.load(Ordering::Relaxed)
            && lock(&state.arrivals).usual_interval().is_none()
    }

    /// True if an old value would seem fresh, and the next message of the input comes soon.
    fn comes_soon(&self, input: InputId) -> bool {
        let InputSpec { timeline, expected_rate_hz, .. } = self.input_spec(input);
        if *timeline == Timeline::Header {
            return false;
        }
        expected_rate_hz.is_some()
            || lock(&self.input(input).arrivals).usual_interval().is_some_and(|usual| usual <= SOON)
    }

    /// Takes the newest message of each latched input in an epoch that has begun, unless it has a newer one.
    pub(super) fn take_latched_again(&self, epoch: Epoch) {
        for input in self.inputs().filter(|input| self.is_latched(*input)) {
            let state = self.input(input);
            *lock(&state.retry) = None;
            state.left_out.store(LeftOut::No as u8, Ordering::Relaxed);
            let is_before = |newest: &Latched| newest.epoch.is_before(epoch);
            if lock(&state.latched).as_ref().is_some_and(is_before) && !self.comes_soon(input) {
                self.take_again(input, is_before);
            }
        }
    }

    /// Takes the messages once more whose transforms had not come, if it is time.
    pub(super) fn retry_latched(&self, now: Reading) {
        for input in self.inputs().filter(|input| self.is_latched(*input)) {
            let is_due = |retry: &Retry| {
                retry.epoch == now.epoch && retry.at.is_some_and(|at| at <= now.stamp)
            };
            let mut retry = lock(&self.input(input).retry);
            if retry.as_ref().is_some_and(is_due) {
                retry.iter_mut().for_each(|retry| retry.at = None);
                drop(retry);
                self.take_again(input, |_| true);
            }
        }
    }

    /// Takes the newest message of a latched input again, if it is still one of these.
    fn take_again(&self, input: InputId, is_meant: impl FnOnce(&Latched) -> bool) {
        // Until it is taken. Otherwise a newer one could come before it, and seem to be the older one.
        let mut latched = lock(&self.input(input).latched);
        let Some(newest) = latched.as_mut().filter(|newest| is_meant(newest)) else { return };
        // Not between this reading of a simulator's clock and the next.
        let Some(now) = self.clock.now() else { return };
        let arrival = self.arrival_at(input, Transit::UNKNOWN, now.since);
        (newest.epoch, newest.at) = (arrival.epoch, at(arrival));
        let origin = newest.origin;
        let from = MessageOrigin { again: true, ..MessageOrigin::from((origin, input)) };
        let bytes = SharedMessage(Arc::clone(&newest.bytes));
        // For a recording it is published now. With its own publication it would be of an earlier epoch.
        if let Err(error) = self.accept(from, None, bytes, arrival) {
            // The next message ends the node with it.
            tracing::error!("{}: its latched message: {error}", self.input_spec(input).topic);
        }
    }

    /// Notes what became of a message: if it is a latched one that was taken again, and was dropped, says so.
    pub(super) fn note_taken_again(
        &self,
        from: MessageOrigin,
        epoch: Epoch,
        dropped: Option<&Rejected>,
    ) {
        let MessageOrigin { input, again, .. } = from;
        let state = self.input(input);
        let Some(Rejected { reason, detail, .. }) = dropped else {
            if again {
                *lock(&state.retry) = None;
                state.left_out.store(LeftOut::No as u8, Ordering::Relaxed);
            } else {
                state.taken_in.fetch_max(epoch.number(), Ordering::Relaxed);
            }
            return;
        };
        if !again || epoch.number() < self.epoch.load(Ordering::Relaxed) {
            return;
        }
        let InputSpec { name, topic, timeline, .. } = self.input_spec(input);
        // What the detail says of a stamp that is ahead is for sensors.
        let (left_out, detail) = match reason {
            DropReason::Ahead | DropReason::Cleared => (LeftOut::OtherEpoch, String::new()),
            _ => (LeftOut::Dropped, format!(", {}: {detail}", reason.name())),
        };
        let before = state.left_out.swap(left_out as u8, Ordering::Relaxed);
        if let (true, Some(words)) = (before != left_out as u8, self.left_out(input)) {
            tracing::warn!("stream '{name}' ({topic}): {words}{detail}");
        }
        // Its stamp is that of the retry, and by then the transforms of the new epoch may have come.
        if *reason == DropReason::NoTransform
            && *timeline == Timeline::Receive
            && let Some(now) = self.clock.now()
        {
            let mut retry = lock(&state.retry);
            let wait_ns = retry.map_or(FIRST_RETRY_NS, |retry| retry.wait_ns.saturating_mul(2));
            *retry = Some(Retry { epoch, at: Some(now.stamp.offset(wait_ns)), wait_ns });
        }
    }

    /// Says that the newest message of an input is latched and does not count in this epoch; `None` if it counts.
    pub(super) fn left_out(&self, input: InputId) -> Option<&'static str> {
        match self.input(input).left_out.load(Ordering::Relaxed) {
            of if of == LeftOut::OtherEpoch as u8 => Some(OTHER_EPOCH),
            of if of == LeftOut::Dropped as u8 => Some(DROPPED),
            _ => None,
        }
    }
}

/// The instant of a row under `timeline: receive`.
fn at(arrival: Arrival) -> Option<Stamp> {
    arrival.received.or(arrival.stamp)
}

/// Explanation for people if the stamp of a latched message is of another epoch.
const OTHER_EPOCH: &str = "its latched message is not of the clock's new epoch, so it does not count: publish it again, \
                           or set timeline: receive";
/// Explanation for people if a latched message was dropped for any other reason in the new epoch.
const DROPPED: &str = "its latched message was dropped in the clock's new epoch";

#[cfg(test)]
mod tests;
