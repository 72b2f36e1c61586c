//! Takes received messages into the pipeline, and handles jumps of the clock.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::measure::Arrivals;
use super::queue::Message;
use super::{Event, MessageOutcome, Origin, PublisherId, Reading, Runtime, RuntimeError, Transit};
use robocache_core::config::suggestion;
use robocache_core::pipeline::{Accepted, Arrival, AwaitedTransforms, EncodedAhead, NotTaken};
use robocache_core::rejected::{DropReason, Rejected};
use robocache_core::spec::{InputId, InputSpec, Timeline};
use robocache_ops::sync::lock;
use robocache_ops::time::{Epoch, NANOS_PER_MS, Stamp};

/// How much longer a message waits if only the clock says that its wait is over \[ns\]. A transform that
/// arrived in time may be on its way from its receiving thread to the tree.
const GRACE_NS: i64 = 50 * NANOS_PER_MS;

/// The outcome of a message that was given to the pipeline.
pub(super) type Pushed = Result<Accepted, NotTaken<RuntimeError>>;

/// A message on its way into the pipeline.
#[derive(Clone, Copy)]
pub(super) struct MessageOrigin {
    pub input: InputId,
    pub publisher: Option<PublisherId>,
    /// Its number in a recording; 0 if it is in none.
    pub number: u64,
    /// True if it is a latched one that is taken again, because an epoch has begun.
    pub again: bool,
}

impl MessageOrigin {
    /// A message that was kept.
    pub(crate) fn of(message: &Message) -> Self {
        let Message { input, publisher, number, again, .. } = *message;
        MessageOrigin { input, publisher, number, again }
    }
}

impl From<InputId> for MessageOrigin {
    /// A message with a known input and nothing else.
    fn from(input: InputId) -> Self {
        MessageOrigin { input, publisher: None, number: 0, again: false }
    }
}

impl From<(Origin, InputId)> for MessageOrigin {
    /// A message of an input that is in no recording yet.
    fn from(origin: (Origin, InputId)) -> Self {
        MessageOrigin { publisher: origin.0.publisher, ..MessageOrigin::from(origin.1) }
    }
}

impl Runtime {
    /// Returns the arrival of a message that an input takes now. The caller asks for each message once, in
    /// the order of taking.
    pub fn arrival(&self, input: InputId, transit: Transit) -> Arrival {
        self.arrival_at(input, transit, self.time.monotonic())
    }

    /// As [`Runtime::arrival`], of a message that came at `at` by the monotonic clock.
    pub(super) fn arrival_at(&self, input: InputId, transit: Transit, at: Instant) -> Arrival {
        let spec = self.input_spec(input);
        let is_by_header = spec.timeline == Timeline::Header;
        // A plan may start when it arrives.
        let arrival = self.clock.arrival_at(transit, at, is_by_header && !spec.is_plan());
        if is_by_header {
            return Arrival { received: None, ..arrival };
        }
        let next = |received| self.input(input).next_received(arrival.epoch, received);
        Arrival { received: arrival.received.map(next), ..arrival }
    }

    /// Takes a received message whose publisher is unknown; see [`Runtime::receive_from`].
    ///
    /// # Errors
    /// The backend failed.
    pub fn receive(
        &self,
        input: InputId,
        bytes: impl AsRef<[u8]> + Send + Sync + 'static,
        arrival: Arrival,
    ) -> Result<(), RuntimeError> {
        self.receive_from(Origin::default(), input, bytes, arrival)
    }

    /// Takes a received message of this origin. A small one goes straight to the pipeline. A
    /// large one goes to the encode worker, because it takes milliseconds and the calling thread
    /// must not wait for it.
    ///
    /// # Errors
    /// The backend failed.
    pub fn receive_from(
        &self,
        origin: Origin,
        input: InputId,
        bytes: impl AsRef<[u8]> + Send + Sync + 'static,
        arrival: Arrival,
    ) -> Result<(), RuntimeError> {
        if self.is_latched(input) {
            return self.receive_latched(origin, input, Arc::new(bytes), arrival);
        }
        self.forget_latched(input);
        self.meet(arrival.epoch);
        self.accept(MessageOrigin::from((origin, input)), origin.published, bytes, arrival)
    }

    /// Drops a message that waited while the process stood still: under `timeline: receive` it would count as fresh.
    pub fn drop_waited(&self, input: InputId, publisher: Option<PublisherId>) {
        let reason = DropReason::Cleared;
        self.pipeline.drop_unseen(input, reason);
        let epoch = Epoch::numbered(self.epoch.load(Ordering::Relaxed));
        self.note(input, publisher, |arrivals, now| arrivals.note_dropped(now, epoch, reason));
        let detail =
            "the message waited while the process stood still, and was received after that";
        self.explain(input, "message", &Rejected::new(reason, detail));
    }

    /// Gives a message to the recorder and takes it.
    pub(super) fn accept(
        &self,
        from: MessageOrigin,
        published: Option<Stamp>,
        bytes: impl AsRef<[u8]> + Send + Sync + 'static,
        arrival: Arrival,
    ) -> Result<(), RuntimeError> {
        match &self.recorder {
            None => self.take(from, bytes, arrival),
            Some(recorder) => {
                let bytes = Arc::new(bytes);
                let (number, bytes) =
                    self.record(recorder.as_ref(), from.input, published, bytes, arrival);
                self.take(MessageOrigin { number, ..from }, bytes, arrival)
            }
        }
    }

    /// Takes a message, which has this number in a recording.
    fn take(
        &self,
        origin: MessageOrigin,
        bytes: impl AsRef<[u8]> + Send + 'static,
        arrival: Arrival,
    ) -> Result<(), RuntimeError> {
        let MessageOrigin { input, publisher, number, again } = origin;
        let spec = self.input_spec(input);
        if spec.feeds_tree() {
            return match self.receive_transforms(origin, bytes.as_ref(), arrival) {
                Err(NotTaken::Failed(error)) => Err(error),
                _ => Ok(()),
            };
        }
        if !self.is_queued(input) {
            return match self.push(origin, bytes.as_ref(), arrival) {
                Ok(_) | Err(NotTaken::Dropped(_)) => Ok(()),
                Err(NotTaken::Waits(need)) => {
                    let bytes = Box::new(bytes);
                    let message = Message { input, publisher, number, again, bytes, arrival };
                    self.wait(message, *need)
                }
                Err(NotTaken::Failed(error)) => Err(error),
            };
        }
        let bytes = Box::new(bytes);
        let message = Message { input, publisher, number, again, bytes, arrival };
        if let Some(overwritten) = self.queue.put(message) {
            self.lose(&overwritten);
        }
        Ok(())
    }

    /// Counts a message that was dropped from the full queue.
    fn lose(&self, message: &Message) {
        let Message { input, publisher, arrival, .. } = *message;
        self.pipeline.drop_unseen(input, DropReason::Overload);
        self.note(input, publisher, |arrivals, now| {
            arrivals.note_dropped(now, arrival.epoch, DropReason::Overload);
        });
        let detail = "the encoder could not keep up, so the oldest message was dropped";
        let rejected = Rejected::new(DropReason::Overload, detail);
        self.explain(input, "message", &rejected);
        self.note_taken_again(MessageOrigin::of(message), arrival.epoch, Some(&rejected));
        self.record_outcome(message.number, input, MessageOutcome::Dropped(DropReason::Overload));
        self.observer.overwritten(message);
    }

    /// Notes a message among the arrivals of its input.
    fn note(
        &self,
        input: InputId,
        publisher: Option<PublisherId>,
        note: impl FnOnce(&mut Arrivals, Duration),
    ) {
        let mut arrivals = lock(&self.input(input).arrivals);
        arrivals.next_is_from(publisher);
        note(&mut arrivals, self.node_time.now());
    }

    /// Takes transforms, and the messages that waited for them.
    pub(super) fn receive_transforms(
        &self,
        from: MessageOrigin,
        bytes: &[u8],
        arrival: Arrival,
    ) -> Pushed {
        // A wait that ended before this arrival is over, whether or not a worker has noticed.
        if let (Some(waiting), Some(now)) = (&self.waiting, arrival.stamp) {
            let expired = lock(waiting).expired(arrival.epoch, now);
            self.drop_all(expired);
        }
        let pushed = self.push(from, bytes, arrival);
        if !matches!(pushed, Err(NotTaken::Failed(_))) {
            self.push_settled(arrival.seen_from).map_err(NotTaken::Failed)?;
        }
        pushed
    }

    /// Keeps a message until its transform comes, or until it has waited for too long.
    pub(super) fn wait(
        &self,
        message: Message,
        need: AwaitedTransforms,
    ) -> Result<(), RuntimeError> {
        let Some(waiting) = &self.waiting else { return Ok(()) };
        let seen_from = message.arrival.seen_from;
        let crowded_out = lock(waiting).put(message, need);
        self.drop_all(crowded_out);
        // The transform may have come since the push looked for it.
        self.push_settled(seen_from)
    }

    /// Pushes the messages whose wait has an end, in the order of arrival. If ticks see them from another instant
    /// on than from their arrival, it is `seen_from`.
    fn push_settled(&self, seen_from: Option<Stamp>) -> Result<(), RuntimeError> {
        let Some(waiting) = &self.waiting else { return Ok(()) };
        loop {
            let settled = lock(waiting).settled(&self.pipeline);
            if settled.is_empty() {
                return Ok(());
            }
            let is_queued = |message: &Message| self.is_queued(message.input);
            let (queued, direct): (Vec<_>, Vec<_>) = settled.into_iter().partition(is_queued);
            if !queued.is_empty() {
                self.queue.put_back(queued);
            }
            for mut message in direct {
                message.arrival.seen_from = seen_from.or(message.arrival.seen_from);
                let bytes = (*message.bytes).as_ref();
                match self.push(MessageOrigin::of(&message), bytes, message.arrival) {
                    Ok(_) | Err(NotTaken::Dropped(_)) => {}
                    Err(NotTaken::Waits(need)) => {
                        // It needs another one, too.
                        let crowded_out = lock(waiting).put(message, *need);
                        self.drop_all(crowded_out);
                    }
                    Err(NotTaken::Failed(error)) => return Err(error),
                }
            }
        }
    }

    /// Drops the messages that have waited for too long by this reading of the clock. An encode worker
    /// calls it now and then; the tick thread does not, because this formats text and frees memory.
    /// The arrival of a transform ends a wait exactly, and so does the look-up: see
    /// [`Waiting::expired`](super::waiting::Waiting::expired).
    pub(super) fn give_up(&self, now: Reading) {
        self.retry_latched(now);
        if let Some(waiting) = &self.waiting {
            let expired = lock(waiting).expired(now.epoch, now.stamp.offset(-GRACE_NS));
            self.drop_all(expired);
        }
    }

    /// Returns how many messages of an input wait for a transform.
    pub fn waiting(&self, input: InputId) -> usize {
        self.waiting.as_ref().map_or(0, |waiting| lock(waiting).of(input))
    }

    fn drop_all(&self, dropped: Vec<(Message, Rejected)>) {
        for (message, rejected) in dropped {
            let Message { input, publisher, number, arrival, .. } = message;
            self.record_outcome(number, input, MessageOutcome::Dropped(rejected.reason));
            self.pipeline.drop_unseen(input, rejected.reason);
            self.note(input, publisher, |arrivals, now| {
                arrivals.note_dropped(now, arrival.epoch, rejected.reason);
            });
            self.explain(input, "message", &rejected);
            self.note_taken_again(MessageOrigin::of(&message), arrival.epoch, Some(&rejected));
        }
    }

    /// Gives a message of an input and a publisher to the pipeline.
    pub(super) fn push(&self, origin: MessageOrigin, bytes: &[u8], arrival: Arrival) -> Pushed {
        let pushed = self.pipeline.push(origin.input, bytes, arrival);
        self.note_pushed(origin, arrival, pushed)
    }

    /// Gives a message of an input that has been encoded to the pipeline.
    ///
    /// # Errors
    /// The backend failed.
    pub(super) fn push_ahead(
        &self,
        input: InputId,
        encoded: EncodedAhead,
        arrival: Arrival,
    ) -> Result<(), RuntimeError> {
        let pushed = self.pipeline.push_ahead(input, encoded, arrival);
        match self.note_pushed(input.into(), arrival, pushed) {
            Err(NotTaken::Failed(error)) => Err(error),
            _ => Ok(()),
        }
    }

    /// Counts the outcome of a message or a sample, and explains the first drop.
    pub(super) fn note_pushed(
        &self,
        origin: MessageOrigin,
        arrival: Arrival,
        pushed: Result<Accepted, NotTaken>,
    ) -> Pushed {
        let MessageOrigin { input, publisher, number, again } = origin;
        if let (1.., Some(outcome)) = (number, outcome_of(&pushed)) {
            self.record_outcome(number, input, outcome);
        }
        match pushed {
            Ok(accepted) => {
                self.note_taken_again(origin, arrival.epoch, None);
                let stamp = accepted.stamp;
                let note = |arrivals: &mut Arrivals, now| match stamp {
                    Some(stamp) => arrivals.note(now, arrival.epoch, stamp),
                    None => arrivals.note_without_stamp(now),
                };
                // What is taken again has not come again.
                if !again {
                    self.note(input, publisher, note);
                }
                self.note_ready(input, stamp, arrival.epoch);
                if let Some(rejected) = &accepted.part {
                    self.explain(input, "a part of a message", rejected);
                }
                Ok(accepted)
            }
            Err(NotTaken::Waits(need)) => Err(NotTaken::Waits(need)),
            Err(NotTaken::Dropped(rejected)) => {
                if !again {
                    self.note(input, publisher, |arrivals, now| {
                        arrivals.note_dropped(now, arrival.epoch, rejected.reason);
                    });
                    self.explain(input, "message", &rejected);
                }
                self.note_taken_again(origin, arrival.epoch, Some(&rejected));
                self.tell_wrong_clock(input, &rejected);
                Err(NotTaken::Dropped(rejected))
            }
            Err(NotTaken::Failed(source)) => {
                let name = &self.input_spec(input).name;
                let operation = format!("encode a message of stream '{name}'");
                Err(NotTaken::Failed(RuntimeError::Backend { operation, source }))
            }
        }
    }

    /// Notes when the row of a large message was in its ring: a row of this stamp and epoch now is.
    fn note_ready(&self, input: InputId, stamp: Option<Stamp>, epoch: Epoch) {
        let spec = self.input_spec(input);
        if !spec.is_large() || spec.timeline == Timeline::Receive {
            return;
        }
        let now = self.clock.now().filter(|now| now.epoch == epoch);
        if let (Some(stamp), Some(now)) = (stamp, now) {
            self.input(input).ready.record(now.stamp.since(stamp));
        }
    }

    /// Logs the first drop of each input and reason, and again if the detail changes; `what` was dropped. The monitor
    /// sums up the others, which are lines for debugging.
    fn explain(&self, input: InputId, what: &str, rejected: &Rejected) {
        let suggest = || {
            let unknown = rejected.unknown_frame.as_deref()?;
            let known = self.pipeline.frame_names();
            let known: Vec<&str> = known.iter().map(String::as_str).collect();
            suggestion(unknown, &known, "known frames")
        };
        let mut details = lock(&self.input(input).drop_details);
        let words = details.note(self.node_time.now(), rejected, suggest);
        drop(details);
        let (InputSpec { name, topic, .. }, reason) =
            (self.input_spec(input), rejected.reason.name());
        match words {
            Some(words) => {
                tracing::warn!("stream '{name}' ({topic}): {what} dropped, {reason}: {words}");
            }
            None => {
                let detail = &rejected.detail;
                tracing::debug!("stream '{name}' ({topic}): {what} dropped, {reason}: {detail}");
            }
        }
    }

    /// Logs an error if all of an input's first messages are ahead: its sensor has another clock, and no value of it will be
    /// valid.
    fn tell_wrong_clock(&self, input: InputId, Rejected { reason, detail, .. }: &Rejected) {
        const FIRST: u64 = 100;
        let stats = self.pipeline.input_stats(input);
        let ahead = stats.dropped(DropReason::Ahead);
        if (*reason, stats.received.get(), ahead) == (DropReason::Ahead, FIRST, FIRST) {
            let InputSpec { name, topic, .. } = self.input_spec(input);
            tracing::error!(
                "stream '{name}' ({topic}): all of the first {FIRST} messages were dropped, ahead: {detail}"
            );
        }
    }

    /// Begins the epoch of a message or of a reading of the clock, unless it has begun.
    pub(super) fn meet(&self, epoch: Epoch) {
        if self.epoch.load(Ordering::Relaxed) < epoch.number() {
            self.begin(epoch);
        }
    }

    /// Begins an epoch of the clock: clears all messages of earlier epochs. Any thread may call it,
    /// in any order and more than once. The tick thread does not: a tick of a later epoch begins it
    /// for the rings alone.
    pub fn begin(&self, epoch: Epoch) {
        let before = self.epoch.fetch_max(epoch.number(), Ordering::Relaxed);
        self.pipeline.begin(epoch);
        let waiting = self.waiting.as_ref().map(|waiting| lock(waiting).before(epoch));
        for message in
            self.queue.remove_before(epoch).into_iter().chain(waiting.into_iter().flatten())
        {
            self.pipeline.drop_unseen(message.input, DropReason::Cleared);
            let outcome = MessageOutcome::Dropped(DropReason::Cleared);
            self.record_outcome(message.number, message.input, outcome);
        }
        if let (Some(recorder), true) = (&self.recorder, before < epoch.number()) {
            recorder.note(Event::Epoch(epoch));
        }
        let now = self.node_time.now();
        self.inputs.iter().for_each(|input| lock(&input.arrivals).begin(now, epoch));
        if before < epoch.number() {
            self.take_latched_again(epoch);
        }
    }
}

/// Outcome of a push for a recorder; `None` if the backend failed.
fn outcome_of(pushed: &Result<Accepted, NotTaken>) -> Option<MessageOutcome> {
    Some(match pushed {
        Ok(accepted) => MessageOutcome::from(accepted),
        Err(NotTaken::Dropped(rejected)) => MessageOutcome::Dropped(rejected.reason),
        Err(NotTaken::Waits(_)) => MessageOutcome::Waits,
        Err(NotTaken::Failed(_)) => return None,
    })
}

#[cfg(test)]
mod tests;
