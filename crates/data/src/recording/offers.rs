//! QoS that the publishers of recorded topics offer, as the graph shows it.

use std::sync::Mutex;

use super::file::RecordingContents;
use crate::output;
use robocache_core::spec::InputId;
use robocache_ops::sync::lock;
use robocache_runtime::OfferedQos;

/// The offers by topic, without repetition. One thread reads the graph, and another one writes the recording.
pub(super) struct Offers {
    known: Mutex<Vec<Vec<OfferedQos>>>,
    /// By input: its topic.
    topic_of: Vec<Option<usize>>,
    /// The topic of a simulator's clock.
    clock: usize,
}

impl Offers {
    /// Knows no offer yet of what a recording has.
    pub(super) fn new(contents: &RecordingContents) -> Self {
        let known = Mutex::new(vec![Vec::new(); contents.all().count()]);
        Offers { known, topic_of: contents.topic_of.clone(), clock: contents.topics.len() + 1 }
    }

    /// Notes what the publishers of an input's topic offer, or those of the clock for `None`.
    pub(super) fn note(&self, input: Option<InputId>, offers: &[OfferedQos]) {
        let topic = match input {
            Some(input) => self.topic_of.get(input.index()).copied().flatten(),
            None => Some(self.clock),
        };
        let mut all = lock(&self.known);
        // A node on the system's clock records no clock.
        let Some(known) = topic.and_then(|topic| all.get_mut(topic)) else { return };
        for offer in offers {
            if !known.contains(offer) {
                known.push(*offer);
            }
        }
    }

    /// True if an offer of a topic is known.
    pub(super) fn has(&self, topic: usize) -> bool {
        lock(&self.known).get(topic).is_some_and(|known| !known.is_empty())
    }

    /// True if an offer of any topic is known.
    pub(super) fn any(&self) -> bool {
        lock(&self.known).iter().any(|known| !known.is_empty())
    }

    /// The offers of a topic as rosbag2 stores them; empty if none is known.
    pub(super) fn text(&self, topic: usize) -> String {
        let known = lock(&self.known);
        let offers = known.get(topic).map_or(&[][..], Vec::as_slice);
        offers.iter().map(|offer| output::offered(*offer)).collect::<Vec<_>>().join("\n")
    }
}
