//! The thread *graph*: reads the publishers of all inputs from the graph. If the middleware fails to tell of changes, the
//! thread reads at times: that is slower, and no reason to end a node that receives.

use std::time::{Duration, Instant};

use super::error::NodeError;
use super::fastdds::{Connector, Handed};
use super::intake::CLOCK_TOPIC;
use robocache_core::spec::InputId;
use robocache_ops::sync::lock;
use robocache_rcl::{GraphChanges, Node, PublisherInfo, Wake};
use robocache_runtime::{OfferedQos, PublisherSeen, Runtime};

/// Time between two readings if the middleware tells no change.
const GRAPH_PERIOD: Duration = Duration::from_secs(10);
/// Time between two looks for a change, and so the shortest time between two readings.
const LOOK: Duration = Duration::from_millis(100);
/// A new connection has found the publishers within this time.
const DISCOVERY: Duration = Duration::from_secs(10);

/// The graph as a connection shows it. A test may have one that fails.
pub(crate) trait Graph: Send + 'static {
    /// What tells of changes.
    type Changes: Send + 'static;

    /// Watches the graph from now on.
    fn watch(&self) -> robocache_rcl::Result<Self::Changes>;

    /// True if the graph has changed since the last call.
    fn has_changed(changes: &mut Self::Changes) -> robocache_rcl::Result<bool>;

    /// The publishers of the topic of this full name.
    fn publishers_of(&self, topic: &str) -> robocache_rcl::Result<Vec<PublisherInfo>>;

    /// All topics, each with the types of its messages.
    fn topics(&self) -> robocache_rcl::Result<Vec<(String, String)>>;
}

impl Graph for Node {
    type Changes = GraphChanges;

    fn watch(&self) -> robocache_rcl::Result<GraphChanges> {
        self.graph_changes()
    }

    fn has_changed(changes: &mut GraphChanges) -> robocache_rcl::Result<bool> {
        changes.any()
    }

    fn publishers_of(&self, topic: &str) -> robocache_rcl::Result<Vec<PublisherInfo>> {
        Node::publishers_of(self, topic)
    }

    fn topics(&self) -> robocache_rcl::Result<Vec<(String, String)>> {
        Node::topics(self)
    }
}

/// Reads the publishers of the inputs, and those of `/clock` if that is the node's clock. One reading takes the middleware a
/// fraction of a millisecond, so no thread with a deadline does it. The middleware tells when the graph has changed;
/// otherwise the readings are rare.
pub(crate) struct GraphWatch<G: Graph = Node> {
    node: G,
    changes: G::Changes,
    /// True if the last question for changes failed.
    is_deaf: bool,
    topics: Vec<Topic>,
    /// When they must be read even if nothing changes.
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

impl GraphWatch<Node> {
    /// Reads the graph of a node. `topics` are the full names of the topics of all inputs, by [`InputId`].
    ///
    /// # Errors
    /// The middleware does not resolve the name of the clock's topic.
    pub(crate) fn new(
        node: Node,
        topics: Vec<String>,
        runtime: &Runtime,
    ) -> Result<Self, NodeError> {
        let topic = |(name, watched)| Topic { name, watched, publishers: Vec::new() };
        let inputs = runtime.inputs().map(Watched::Input);
        let mut topics: Vec<_> = topics.into_iter().zip(inputs).map(topic).collect();
        if runtime.clock.is_simulated() {
            topics.push(topic((node.resolve_topic(CLOCK_TOPIC)?, Watched::Clock)));
        }
        Ok(Self::of(node, topics, runtime.time.monotonic())?)
    }

    /// Reads until the runtime stops: the graph of this connection, and that of each one that `parts` has from then on.
    pub(crate) fn run(
        mut self,
        (wake, runtime): (&Wake, &Runtime),
        (parts, connector): (&Handed<Node>, &Connector),
    ) {
        while !runtime.stopping() {
            let now = runtime.time.monotonic();
            if let Some(node) = parts.take() {
                connector.end(self.move_to(node, now));
            }
            if self.is_due(now) {
                self.due = now + GRAPH_PERIOD;
                self.read(runtime);
            }
            wake.wait(LOOK);
        }
    }
}

impl<G: Graph> GraphWatch<G> {
    /// Watches a graph, which is read at `due` for the first time.
    fn of(node: G, topics: Vec<Topic>, due: Instant) -> robocache_rcl::Result<Self> {
        let changes = node.watch()?;
        Ok(GraphWatch { node, changes, is_deaf: false, topics, due, incomplete_until: None })
    }

    /// Reads the graph of another connection from now on. Returns what it had of the one before, and what it does not need
    /// of the other one: if that cannot be watched, it reads the same graph as before.
    ///
    /// A new graph is empty at first. So the known publishers count as present until they are found, or until
    /// [`DISCOVERY`] is over. Otherwise the inputs would ask for less for a moment.
    fn move_to(&mut self, node: G, now: Instant) -> (G, Option<G::Changes>) {
        let changes = match node.watch() {
            Ok(changes) => changes,
            Err(error) => {
                tracing::warn!(
                    "failed to watch the graph of the new connection: {error}; the one before is watched"
                );
                return (node, None);
            }
        };
        let changes = std::mem::replace(&mut self.changes, changes);
        (self.due, self.incomplete_until) = (now, Some(now + DISCOVERY));
        (std::mem::replace(&mut self.node, node), Some(changes))
    }

    /// Whether the publishers must be read now.
    fn is_due(&mut self, now: Instant) -> bool {
        let is_complete = self.incomplete_until.take_if(|until| now >= *until).is_some();
        let changed = G::has_changed(&mut self.changes);
        let was_deaf = std::mem::replace(&mut self.is_deaf, changed.is_err());
        if let (Err(error), false) = (&changed, was_deaf) {
            let period_s = GRAPH_PERIOD.as_secs();
            tracing::warn!(
                "the middleware does not tell of changes of the graph: {error}; it is read every {period_s} s"
            );
        }
        changed.unwrap_or(false) || is_complete || now >= self.due
    }

    fn read(&mut self, runtime: &Runtime) {
        for topic in &mut self.topics {
            match self.node.publishers_of(&topic.name) {
                Ok(found) => topic.note(runtime, found, self.incomplete_until.is_some()),
                Err(error) => {
                    tracing::debug!("failed to list the publishers of {}: {error}", topic.name);
                }
            }
        }
        // If nobody publishes a topic, the log names similar ones.
        if self.topics.iter().all(|topic| !topic.publishers.is_empty()) {
            lock(&runtime.topics).clear();
            return;
        }
        match self.node.topics() {
            Ok(topics) => *lock(&runtime.topics) = topics,
            Err(error) => tracing::debug!("failed to list the topics: {error}"),
        }
    }
}

impl Topic {
    /// Notes the publishers for the monitor, and for the thread that takes the messages of the input.
    fn note(&mut self, runtime: &Runtime, found: Vec<PublisherInfo>, incomplete: bool) {
        let known = std::mem::take(&mut self.publishers);
        let before = known.len();
        self.publishers = if incomplete { with_known(found, known) } else { found };
        if self.publishers.len() != before {
            let each = |found: &PublisherInfo| {
                let PublisherSeen { node, ros_type, offers } = seen(found);
                let node = node.as_deref().unwrap_or("a node that is not known yet");
                format!("{node} ({ros_type}, {offers})")
            };
            let found: Vec<_> = self.publishers.iter().map(each).collect();
            tracing::debug!("publishers of {}: {before} before, now {found:?}", self.name);
        }
        let seen = self.publishers.iter().map(seen);
        match self.watched {
            Watched::Input(input) => {
                let seen = seen.collect::<Vec<_>>();
                let (state, spec) = (runtime.input(input), runtime.input_spec(input));
                state.wants.set(state.wants.get().next(spec, &seen));
                record(runtime, Some(input), seen.iter().filter(|p| p.ros_type == spec.ros_type));
                *lock(&state.publishers) = Some(seen);
            }
            Watched::Clock => {
                let seen = seen.collect::<Vec<_>>();
                record(runtime, None, seen.iter());
                *lock(&runtime.clock_publishers) =
                    seen.iter().map(|p| p.name().to_owned()).collect();
            }
        }
    }
}

/// Tells the recorder what publishers offer, if there are any.
fn record<'a>(
    runtime: &Runtime,
    input: Option<InputId>,
    publishers: impl Iterator<Item = &'a PublisherSeen>,
) {
    let offers: Vec<_> = publishers.map(|publisher| publisher.offers).collect();
    if let (Some(recorder), false) = (&runtime.recorder, offers.is_empty()) {
        recorder.offered(input, offers);
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
