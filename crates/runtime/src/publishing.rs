//! The publishing thread: gives finished tensors to the publisher.
//!
//! The middleware may take long, for example if a subscriber on the same machine is stopped. So the
//! tick thread leaves each tensor in the [`Outbox`](super::outbox::Outbox) and goes on.

use std::convert::Infallible;
use std::time::{Duration, Instant};

use super::outbox::Finished;
use super::priority::{Urgency, WorkWords};
use super::steps::{Found, Next, Steps};
use super::{Publisher, Refused, Runtime, TickFate};

/// A publication is quick if it takes at most this part of the period: one in four.
const QUICK: u32 = 4;

/// The work of the publishing thread, in the log.
const WORK: WorkWords =
    WorkWords { name: "to publish tensors", relief: "lower rate_hz or the size of the tensor" };

/// The publishing thread: publishes tensors until the runtime stops. It gives its priority up while publishing takes all
/// its time, as the tick thread does.
pub(crate) struct Publishing<'a, P> {
    runtime: &'a Runtime,
    publisher: P,
    urgency: Urgency,
    /// True if the last publication took little of the period.
    is_quick: bool,
}

impl<'a, P: Publisher> Publishing<'a, P> {
    /// Publishes the tensors of a runtime on the calling thread, which has this real-time `priority`, 0 for ordinary.
    pub(crate) fn new(runtime: &'a Runtime, publisher: P, priority: u8) -> Self {
        let urgency = Urgency::new(priority, WORK, runtime.time.clone());
        let mut publishing = Publishing { runtime, publisher, urgency, is_quick: true };
        publishing.rest();
        publishing
    }

    /// Gives the publisher up.
    pub(crate) fn end(self) {
        self.publisher.end();
    }

    /// Notes that the thread may wait.
    fn rest(&mut self) {
        if self.runtime.outbox.is_empty() {
            self.urgency.rests();
        }
        self.runtime.companion.waits(self.urgency.current() > 0 && self.is_quick);
    }

    /// Publishes a tensor that was taken at `began`.
    fn publish(&mut self, finished: Finished, began: Instant) {
        let Publishing { runtime, publisher, .. } = self;
        let Finished { mut message, tick, epoch, since } = finished;
        if !publisher.is_read() && runtime.recorder.is_none() {
            runtime.ticks.unread.add(1);
            self.is_quick = true;
            runtime.outbox.give_back(message);
            return;
        }
        if runtime.digest {
            message.seal();
        }
        let of_segments = runtime.recorded_segments.as_ref().filter(|_| runtime.digest);
        let digest = of_segments.map_or(message.digest(), |of| message.digest_of(of));
        let fate = TickFate::Published { digest };
        runtime.record_tick(tick, epoch, message.changes(), fate);
        // Whoever gets the tensor may answer at once.
        runtime.note_served(epoch, tick, &message);
        match publisher.publish(&mut message) {
            Ok(()) => {
                runtime.ticks.published.add(1);
                runtime.ticks.latency.record(runtime.nanos_since(since));
            }
            // The middleware may be ending as well.
            Err(_) if runtime.stopping() => {}
            Err(error) => refused(runtime, tick, &error),
        }
        runtime.outbox.give_back(message);
        let period = runtime.pipeline.config().grid.period_ns().unsigned_abs();
        self.is_quick = QUICK * runtime.time.since(began) <= Duration::from_nanos(period);
    }
}

impl<P: Publisher> Steps for Publishing<'_, P> {
    type Error = Infallible;

    /// Publishes the tensor that waits.
    fn step(&mut self) -> Result<Next, Infallible> {
        let runtime = self.runtime;
        let finished = match runtime.outbox.take() {
            Found::Work(finished) => finished,
            Found::Nothing => return Ok(Next::Woken),
            Found::Closed => {
                runtime.companion.works();
                return Ok(Next::Done);
            }
        };
        runtime.companion.works();
        let began = runtime.time.monotonic();
        self.publish(finished, began);
        self.urgency.served(began);
        self.rest();
        Ok(Next::At(began))
    }
}

/// Counts a tensor that the middleware refused, and logs the first one.
fn refused(runtime: &Runtime, tick: i64, error: &Refused) {
    if runtime.ticks.publish_failed.get() == 0 {
        tracing::error!("the middleware refused the tensor of tick {tick}: {error}");
    }
    runtime.ticks.publish_failed.add(1);
}
