//! How long messages waited for a node that recorded itself.
//!
//! Under `timeline: receive` a row is at the instant at which the middleware received its message. The time
//! of the log is later: the message waited for the node, and then for the recorder. The events tell both.

use super::recording::RecordingEvent;
use crate::time::{Epoch, Stamp};

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
    pub fn note(&mut self, at: Stamp, event: &[u8]) {
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
    pub fn of(&mut self, at: Stamp) -> i64 {
        self.next.take().filter(|(of, _)| *of == at).map_or(0, |(_, waited_ns)| waited_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::Arrival;
    use crate::spec::InputId;

    fn event(epoch: u64, [taken, received]: [i64; 2], bytes_of: u64) -> Vec<u8> {
        let [stamp, received] = [taken, received].map(|ns| Some(Stamp::from_nanos(ns)));
        let epoch = Epoch::numbered(epoch);
        let arrival = Arrival { stamp, received, epoch, ..Arrival::default() };
        let (number, input) = (7, InputId::new(0));
        RecordingEvent::Received { number, input, arrival, bytes_of }.write()
    }

    #[test]
    fn a_message_has_waited_since_its_receive_stamp_in_the_time_of_the_log() {
        let mut waits = Waits::default();
        let mut of = |at: i64, epoch, [taken, received]: [i64; 2]| {
            waits.note(Stamp::from_nanos(at), &event(epoch, [taken, received], 7));
            at - waits.of(Stamp::from_nanos(at))
        };
        assert_eq!(of(1000, 0, [1000, 990]), 990);
        // The recorder was told late.
        assert_eq!(of(1020, 0, [1015, 1015]), 1015);
        // The clock was set back by 800, and the log goes on.
        assert_eq!(of(1100, 1, [300, 250]), 1050);
        assert_eq!(of(1130, 1, [320, 310]), 1110);
    }

    #[test]
    fn only_the_message_behind_the_event_has_waited() {
        let (mut waits, at) = (Waits::default(), Stamp::from_nanos);
        assert_eq!(waits.of(at(5)), 0, "no event");
        waits.note(at(1000), &event(0, [1000, 900], 7));
        assert_eq!(waits.of(at(1001)), 0, "the bytes are missing");
        waits.note(at(1000), &event(0, [1000, 900], 6));
        assert_eq!(waits.of(at(1000)), 0, "an earlier message has the bytes");
        waits.note(at(1000), &event(0, [1000, 900], 7));
        waits.note(at(1000), &RecordingEvent::End.write());
        assert_eq!(waits.of(at(1000)), 0);
    }
}
