//! The clock of a simulator, by the stamps of its messages: for bags without `/clock`.
//!
//! A message's stamp is a reading of the clock, as a message on `/clock` would be. The clock is at the newest stamp
//! so far.
//!
//! - Messages of different sensors are out of order, by as much as their delays differ. So the clock never goes back
//!   because another topic is behind.
//! - The stamps of one topic are in order. If those of a topic go back by [`RESET_NS`], the simulator was reset: an
//!   epoch begins, and the clock is at that stamp.
//! - Then messages from before the reset may still come. For [`IN_FLIGHT_NS`], a topic sets the clock only after its
//!   own stamps have gone back, or if it had no message before.
//!
//! A single topic, which the user names, has the same rules: several publishers of it may be out of order, too.

use robocache_core::cdr::Reader;
use robocache_core::input;
use robocache_ops::time::{NANOS_PER_S, Stamp};

/// If the stamps of a topic go back by this \[ns\], the simulator was reset. Less may be the order in which several
/// publishers of the topic send.
const RESET_NS: i64 = NANOS_PER_S;
/// After a reset, messages from before it come for at most this time \[ns\], by their receive stamps.
const IN_FLIGHT_NS: i64 = 5 * NANOS_PER_S;

/// The stamp in the header of a message. `None` if it is not set, or the message cannot be read.
pub(super) fn stamp_in_header(message: &[u8]) -> Option<Stamp> {
    let mut reader = Reader::new(message).ok()?;
    input::header(&mut reader).ok()?.stamp.ok()
}

/// The newest stamp of several topics.
#[derive(Clone, Debug, Default)]
pub struct StampClock {
    topics: Vec<Option<TopicStamps>>,
    now: Option<Stamp>,
    resets: u64,
    /// When the message came that showed the newest reset.
    reset_at: Option<Stamp>,
}

/// The stamps of a topic.
#[derive(Clone, Copy, Debug)]
struct TopicStamps {
    newest: Stamp,
    /// The resets that its stamps are after.
    resets: u64,
}

impl StampClock {
    /// Takes the stamp of a message that came at `received`. Returns the reading of the clock, if the stamp changes
    /// it.
    pub fn take(&mut self, topic: usize, stamp: Stamp, received: Stamp) -> Option<Stamp> {
        if self.topics.len() <= topic {
            self.topics.resize(topic + 1, None);
        }
        let first = TopicStamps { newest: stamp, resets: self.resets };
        let of_topic = self.topics[topic].get_or_insert(first);
        let goes_back = of_topic.newest.since(stamp) >= RESET_NS;
        of_topic.newest = if goes_back { stamp } else { of_topic.newest.max(stamp) };
        if goes_back && of_topic.resets == self.resets {
            self.resets += 1;
            (self.now, self.reset_at) = (None, Some(received));
        }
        let may_be_old = self.reset_at.is_some_and(|at| received.since(at) < IN_FLIGHT_NS);
        if !goes_back && of_topic.resets < self.resets && may_be_old {
            return None;
        }
        of_topic.resets = self.resets;
        let is_newer = self.now.is_none_or(|now| stamp > now);
        is_newer.then(|| *self.now.insert(stamp))
    }

    /// The newest stamp.
    pub fn now(&self) -> Option<Stamp> {
        self.now
    }
}

#[cfg(test)]
mod tests;
