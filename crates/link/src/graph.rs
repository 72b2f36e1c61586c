//! The loop *graph*: reads the publishers of all inputs from the graph. If the middleware fails to tell of changes, the
//! thread reads at times: that is slower, and no reason to end a node that receives.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::connector::{Connector, Handed};
use super::error::LinkError;
use super::middleware::Graph;
use robocache_core::spec::InputId;
use robocache_ops::sync::lock;
use robocache_runtime::{Next, PublisherId, PublisherSeen, Runtime, Steps};

/// Time between two readings if the middleware tells no change.
const GRAPH_PERIOD: Duration = Duration::from_secs(10);
/// Time between two looks for a change, and so the shortest time between two readings.
const LOOK: Duration = Duration::from_millis(100);
/// A new connection has found the publishers within this time.
const DISCOVERY: Duration = Duration::from_secs(10);

/// Reads the publishers of the inputs, and those of `/clock` if that is the node's clock. One reading takes the middleware a
/// fraction of a millisecond, so no thread with a deadline does it. The middleware tells when the graph has changed;
/// otherwise the readings are rare.
pub struct GraphWatch<G: Graph> {
    node: G,
    /// Node of the newest connection, until this thread takes it.
    parts: Handed<G>,
    changes: G::Changes,
    /// True if the last question for changes failed.
    is_deaf: bool,
    topics: Vec<Topic>,
    /// When they must be read even if nothing changes.
    due: Instant,
    /// Until when the graph of a new connection may lack publishers.
    incomplete_until: Option<Instant>,
    runtime: Arc<Runtime>,
    /// Ends what is replaced.
    connector: Connector,
}

struct Topic {
    /// The full name.
    name: String,
    watched: Watched,
    /// The publishers at the last reading, and those that a new connection has not found yet.
    publishers: Vec<(PublisherId, PublisherSeen)>,
}

/// Whose topic is watched.
#[derive(Clone, Copy)]
enum Watched {
    Input(InputId),
    Clock,
}

impl<G: Graph> Steps for GraphWatch<G> {
    type Error = Infallible;

    /// Reads what is due: the graph of this connection, and that of each one that comes after it.
    fn step(&mut self) -> Result<Next, Infallible> {
        if self.runtime.stopping() {
            return Ok(Next::Done);
        }
        let now = self.runtime.time.monotonic();
        if let Some(node) = self.parts.take() {
            let ended = self.move_to(node, now);
            self.connector.end(ended);
        }
        if self.is_due(now) {
            self.due = now + GRAPH_PERIOD;
            self.read();
        }
        // After the reading, which may take long while many publishers are found.
        Ok(Next::At(self.runtime.time.monotonic() + LOOK))
    }
}

impl<G: Graph> GraphWatch<G> {
    /// Reads the graph of `node`, and that of each one that `parts` has from then on. `topics` are the full names of the
    /// topics of all inputs, by [`InputId`], and `clock` is that of `/clock` if it is the node's clock.
    ///
    /// # Errors
    /// The graph cannot be watched.
    pub fn new(
        node: G,
        parts: Handed<G>,
        topics: Vec<String>,
        clock: Option<String>,
        runtime: Arc<Runtime>,
        connector: Connector,
    ) -> Result<Self, LinkError> {
        let topic = |(name, watched)| Topic { name, watched, publishers: Vec::new() };
        let inputs = topics.into_iter().zip(runtime.inputs().map(Watched::Input));
        let clock = clock.map(|name| (name, Watched::Clock));
        let topics = inputs.chain(clock).map(topic).collect();
        let changes = node.watch()?;
        let due = runtime.time.monotonic();
        Ok(GraphWatch {
            node,
            parts,
            changes,
            is_deaf: false,
            topics,
            due,
            incomplete_until: None,
            runtime,
            connector,
        })
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

    /// True if the publishers must be read now.
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

    fn read(&mut self) {
        let runtime = &self.runtime;
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
    fn note(
        &mut self,
        runtime: &Runtime,
        found: Vec<(PublisherId, PublisherSeen)>,
        incomplete: bool,
    ) {
        let known = std::mem::take(&mut self.publishers);
        let before = known.len();
        self.publishers = if incomplete { with_known(found, known) } else { found };
        if self.publishers.len() != before {
            let each = |(_, found): &(PublisherId, PublisherSeen)| {
                let PublisherSeen { node, ros_type, offers } = found;
                let node = node.as_deref().unwrap_or("a node that is not known yet");
                format!("{node} ({ros_type}, {offers})")
            };
            let found: Vec<_> = self.publishers.iter().map(each).collect();
            tracing::debug!("publishers of {}: {before} before, now {found:?}", self.name);
        }
        let seen: Vec<_> = self.publishers.iter().map(|(_, seen)| seen.clone()).collect();
        match self.watched {
            Watched::Input(input) => {
                let state = runtime.input(input);
                let spec = runtime.input_spec(input);
                state.wants.set(state.wants.get().next(spec, &seen));
                record(runtime, Some(input), seen.iter().filter(|p| p.ros_type == spec.ros_type));
                *lock(&state.publishers) = Some(seen);
            }
            Watched::Clock => {
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
fn with_known(
    found: Vec<(PublisherId, PublisherSeen)>,
    known: Vec<(PublisherId, PublisherSeen)>,
) -> Vec<(PublisherId, PublisherSeen)> {
    let mut all = found;
    for (id, known) in known {
        match all.iter_mut().find(|(found, _)| *found == id) {
            // A publisher is found a moment before its node.
            Some((_, found)) => found.node = found.node.take().or(known.node),
            None => all.push((id, known)),
        }
    }
    all
}

#[cfg(test)]
mod tests;
