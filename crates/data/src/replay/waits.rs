//! How long messages waited for a node that recorded itself.
//!
//! Under `timeline: receive` a row is at the instant at which the middleware received its message. The time
//! of the log is later: the message waited for the node, and then for the recorder. The events tell both.

use crate::recording::RecordingEvent;
use robocache_ops::time::{Epoch, Stamp};

/// Reads the events of a recording beside its messages. Without events, no message has waited.
#[derive(Default)]
pub(super) struct Waits {
    epoch: Epoch,
    /// How far the log is ahead of the node's clock in this epoch \[ns\]: the log goes on when the clock is set
    /// back. A single message may be in the log a moment later still, so the least distance counts.
    ahead_ns: Option<i64>,
    /// The time of the log of the message that comes next, and how long it waited \[ns\].
    next: Option<(Stamp, i64)>,
}

impl Waits {
    /// An event comes at this time of the log.
    pub(super) fn note(&mut self, at: Stamp, event: &[u8]) {
        self.next = None;
        let Ok(RecordingEvent::Received { number, arrival, bytes_of, .. }) =
            RecordingEvent::read(event)
        else {
            return;
        };
        let (Some(taken), Some(received)) = (arrival.stamp, arrival.received) else { return };
        if arrival.epoch != self.epoch {
            (self.epoch, self.ahead_ns) = (arrival.epoch, None);
        }
        let late_ns = at.since(taken);
        let ahead_ns = self.ahead_ns.map_or(late_ns, |ahead_ns| ahead_ns.min(late_ns));
        self.ahead_ns = Some(ahead_ns);
        // If another message of the topic has the bytes, its own event came before it.
        if number == bytes_of {
            self.next = Some((at, at.since(received.offset(ahead_ns))));
        }
    }

    /// How long the message that comes now waited \[ns\]. Its event is right in front of it.
    pub(super) fn of(&mut self, at: Stamp) -> i64 {
        self.next.take().filter(|(of, _)| *of == at).map_or(0, |(_, waited_ns)| waited_ns)
    }
}

#[cfg(test)]
mod tests;
