//! The publishing thread: gives finished tensors to the publisher.
//!
//! The middleware may take long, for example if a subscriber on the same machine is stopped. So the
//! tick thread leaves each tensor in the [`Outbox`](super::outbox::Outbox) and goes on.

use std::time::Duration;

use super::outbox::Finished;
use super::priority::Urgency;
use super::{Publisher, Refused, Runtime, TickFate};

/// A publication is quick if it takes at most this part of the period: one in four.
const QUICK: u32 = 4;

/// Publishes tensors until the runtime stops. `priority` is the real-time priority of this thread, 0
/// for ordinary. It gives it up while publishing takes all its time, as the tick thread does.
pub(crate) fn run(runtime: &Runtime, publisher: &dyn Publisher, priority: u8) {
    let mut urgency = Urgency::new(priority, runtime.time.clone());
    let period = Duration::from_nanos(runtime.pipeline.config().grid.period_ns().unsigned_abs());
    let mut is_quick = true;
    loop {
        if runtime.outbox.is_empty() {
            urgency.rests("to publish tensors");
        }
        runtime.companion.waits(urgency.current() > 0 && is_quick);
        let taken = runtime.outbox.take();
        runtime.companion.works();
        let Some(finished) = taken else { break };
        let began = runtime.time.monotonic();
        let Finished { mut message, tick, due } = finished;
        if !publisher.is_read() && runtime.recorder.is_none() {
            runtime.ticks.unread.add(1);
            is_quick = true;
            runtime.outbox.give_back(message);
            urgency.served(began, "to publish tensors");
            continue;
        }
        if runtime.digest {
            message.seal();
        }
        let fate = TickFate::Published { digest: message.digest() };
        runtime.record_tick(tick, due.epoch, message.changes(), fate);
        match publisher.publish(&mut message) {
            Ok(()) => {
                runtime.ticks.published.add(1);
                runtime.ticks.latency.record(runtime.nanos_since_due(tick, due));
            }
            // The middleware may be ending as well.
            Err(_) if runtime.stopping() => {}
            Err(error) => refused(runtime, tick, &error),
        }
        runtime.outbox.give_back(message);
        is_quick = QUICK * runtime.time.since(began) <= period;
        urgency.served(began, "to publish tensors");
    }
}

/// Counts a tensor that the middleware refused, and logs the first one.
fn refused(runtime: &Runtime, tick: i64, error: &Refused) {
    if runtime.ticks.publish_failed.get() == 0 {
        tracing::error!("the middleware refused the tensor of tick {tick}: {error}");
    }
    runtime.ticks.publish_failed.add(1);
}
