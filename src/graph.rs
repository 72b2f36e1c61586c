//! Reads the publishers of all inputs from the graph.

use std::time::{Duration, Instant};

use super::error::NodeError;
use super::intake::CLOCK_TOPIC;
use robocache_core::spec::InputId;
use robocache_ops::sync::lock;
use robocache_rcl::{Node, PublisherInfo, Waitable};
use robocache_runtime::{OfferedQos, PublisherSeen, Runtime};

/// Time in which the publishers of all inputs are read once if the middleware tells no change.
const GRAPH_PERIOD: Duration = Duration::from_secs(10);
/// Shortest time between two readings of one topic after a change, however many changes there are.
const SWEEP_PERIOD: Duration = Duration::from_millis(100);
/// A new connection has found the publishers within this time.
const DISCOVERY: Duration = Duration::from_secs(10);

/// Reads the publishers of one topic after the other: those of the inputs, then `/clock` if that is
/// the node's clock. One reading takes the middleware a fraction of a millisecond; all at once would
/// delay the messages. The middleware tells when the graph has changed; otherwise the readings are
/// rare.
pub struct GraphWatch {
    node: Node,
    topics: Vec<Topic>,
    next: usize,
    /// How many topics must be read soon, because the graph has changed.
    changed: usize,
    /// When a topic was read last.
    read: Instant,
    due: Instant,
    /// Until when the graph of a new connection may lack publishers.
    incomplete_until: Option<Instant>,
}

struct Topic {
    /// The full name.
    name: String,
    watched: Watched,
    /// The publishers at the last reading, and those that a new connection has not found yet.
    publishers: Vec<PublisherInfo>,
}

/// Whose topic is watched.
#[derive(Clone, Copy)]
enum Watched {
    Input(InputId),
    Clock,
}

impl GraphWatch {
    /// Reads the graph of a node. `topics` are the full names of the topics of all inputs, by [`InputId`].
    ///
    /// # Errors
    /// The middleware does not resolve the name of the clock's topic.
    pub fn new(node: Node, topics: Vec<String>, runtime: &Runtime) -> Result<Self, NodeError> {
        let topic = |(name, watched)| Topic { name, watched, publishers: Vec::new() };
        let inputs = runtime.inputs().map(Watched::Input);
        let mut topics: Vec<_> = topics.into_iter().zip(inputs).map(topic).collect();
        if runtime.clock.is_simulated() {
            topics.push(topic((node.resolve_topic(CLOCK_TOPIC)?, Watched::Clock)));
        }
        let (changed, now) = (topics.len(), Instant::now());
        Ok(GraphWatch {
            node,
            topics,
            next: 0,
            changed,
            read: now,
            due: now,
            incomplete_until: None,
        })
    }

    /// Something to wait for: it is ready when the graph has changed.
    pub fn changes(&self) -> Option<Waitable<'_>> {
        self.node.graph_changes()
    }

    /// Reads the graph of another connection from now on. Returns the node before.
    ///
    /// A new graph is empty at first. So the known publishers count as present until they are found, or until
    /// [`DISCOVERY`] is over. Otherwise the inputs would ask for less for a moment.
    pub fn move_to(&mut self, node: Node) -> Node {
        let now = Instant::now();
        (self.changed, self.due) = (self.topics.len(), now);
        self.incomplete_until = Some(now + DISCOVERY);
        std::mem::replace(&mut self.node, node)
    }

    /// Reads the publishers of a topic if that is due. `changed`: the graph has changed since the
    /// last call.
    pub fn look(&mut self, runtime: &Runtime, changed: bool) {
        let now = Instant::now();
        let is_complete = self.incomplete_until.take_if(|until| now >= *until).is_some();
        if changed || is_complete {
            // What has been read may have changed again.
            self.changed = self.topics.len();
            self.due = self.due.min(self.read + SWEEP_PERIOD / self.topics.len().max(1) as u32);
        }
        let Some(topic) = self.topics.get_mut(self.next).filter(|_| now >= self.due) else {
            return;
        };
        match self.node.publishers_of(&topic.name) {
            Ok(found) => topic.note(runtime, found, self.incomplete_until.is_some()),
            Err(error) => {
                tracing::debug!("failed to list the publishers of {}: {error}", topic.name);
            }
        }
        self.next = (self.next + 1) % self.topics.len();
        self.changed = self.changed.saturating_sub(1);
        let period = if self.changed > 0 { SWEEP_PERIOD } else { GRAPH_PERIOD };
        (self.read, self.due) = (now, now + period / self.topics.len() as u32);
    }
}

impl Topic {
    /// Notes the publishers for the monitor, and for the thread that takes the messages of the input.
    fn note(&mut self, runtime: &Runtime, found: Vec<PublisherInfo>, incomplete: bool) {
        let known = std::mem::take(&mut self.publishers);
        self.publishers = if incomplete { with_known(found, known) } else { found };
        let seen = self.publishers.iter().map(seen);
        match self.watched {
            Watched::Input(input) => {
                let seen = seen.collect::<Vec<_>>();
                let state = runtime.input(input);
                state.wants.set(state.wants.get().next(runtime.input_spec(input), &seen));
                *lock(&state.publishers) = Some(seen);
            }
            Watched::Clock => {
                *lock(&runtime.clock_publishers) = seen.map(|p| p.name().to_owned()).collect();
            }
        }
    }
}

/// The publishers of an incomplete graph with those that were known before.
fn with_known(found: Vec<PublisherInfo>, known: Vec<PublisherInfo>) -> Vec<PublisherInfo> {
    let mut all = found;
    for known in known {
        match all.iter_mut().find(|found| found.gid == known.gid) {
            // A publisher is found a moment before its node.
            Some(found) => found.node = found.node.take().or(known.node),
            None => all.push(known),
        }
    }
    all
}

fn seen(publisher: &PublisherInfo) -> PublisherSeen {
    let PublisherInfo { node, ros_type, reliable, transient_local, gid: _ } = publisher.clone();
    PublisherSeen { node, ros_type, offers: OfferedQos { reliable, transient_local } }
}

#[cfg(test)]
mod tests;
