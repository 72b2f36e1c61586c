//! The spin threads, which take every message from the middleware. One takes images and clouds. The
//! other takes all else, answers the parameter services and reads the graph.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::error::NodeError;
use super::intake::{CLOCK_TOPIC, Intake};
use super::param_services::ParameterServices;
use super::rcl::{GuardCondition, Node, PublisherInfo, Ready, WaitSet, Waitable};
use super::renewal::Renewal;
use crate::runtime::{PublisherSeen, Request, Runtime};
use crate::spec::InputId;
use crate::sync::lock;

/// The longest wait for a message. Between two waits the thread reads the graph.
const IDLE: Duration = Duration::from_millis(50);
/// Time in which the thread reads the publishers of all inputs once if the middleware tells no change.
const GRAPH_PERIOD: Duration = Duration::from_secs(10);
/// Shortest time between two readings of one topic after a change, however many changes there are.
const SWEEP_PERIOD: Duration = Duration::from_millis(100);

/// What the thread of the small messages waits for.
pub struct Spinner {
    waiter: Waiter,
    parameters: ParameterServices,
    graph: GraphWatch,
    renewal: Arc<Renewal>,
    /// The creation of the connection that services and graph use; `None` for the first one.
    connection: Option<Instant>,
}

/// What the thread of the images and clouds waits for.
pub struct LargeSpinner {
    waiter: Waiter,
}

/// Subscriptions, and what a thread needs to wait for them.
struct Waiter {
    /// Ends a wait, so that the thread sees at once that the node stops.
    wake: Arc<GuardCondition>,
    wait_set: WaitSet,
    runtime: Arc<Runtime>,
    intake: Intake,
}

impl Waiter {
    fn new(node: &Node, runtime: Arc<Runtime>, intake: Intake) -> Result<Self, NodeError> {
        let context = node.context();
        let wake = Arc::new(GuardCondition::new(&context)?);
        Ok(Waiter { wake, wait_set: WaitSet::new(&context)?, runtime, intake })
    }

    /// Waits for a message, for one of `services` or for a change of the graph, and takes the
    /// messages. Returns what is ready of `services`, and then of the graph.
    fn round(
        &mut self,
        services: &[Waitable<'_>],
        graph: Option<Waitable<'_>>,
    ) -> Result<Ready<'_>, NodeError> {
        let Waiter { wake, wait_set, runtime, intake } = self;
        let others = services.iter().copied().chain(graph).chain([Waitable::from(&**wake)]);
        let ready = wait_set.wait(others.chain(intake.waitables()), IDLE)?;
        let first = services.len() + usize::from(graph.is_some()) + 1;
        intake.drain(runtime, ready, first)?;
        intake.recover(runtime);
        Ok(ready)
    }
}

impl Spinner {
    /// Subscribes to the inputs of vectors, and to `/clock` if that is the node's clock. `topics`
    /// are the full names of the topics of all inputs, by [`InputId`].
    pub fn new(
        node: Node,
        runtime: Arc<Runtime>,
        parameters: ParameterServices,
        topics: Vec<String>,
        renewal: Arc<Renewal>,
    ) -> Result<Self, NodeError> {
        let intake = Intake::small(&node, &runtime, &renewal)?;
        let graph = GraphWatch::new(node.clone(), topics, &runtime)?;
        let waiter = Waiter::new(&node, runtime, intake)?;
        Ok(Spinner { waiter, parameters, graph, renewal, connection: None })
    }

    /// Ends the wait of [`Spinner::run`] from another thread.
    pub fn waker(&self) -> Arc<GuardCondition> {
        Arc::clone(&self.waiter.wake)
    }

    /// Spins until the node stops. Every round also serves the services and the graph, even if
    /// messages never cease.
    pub fn run(mut self) -> Result<(), NodeError> {
        let runtime = Arc::clone(&self.waiter.runtime);
        while !runtime.stopping() {
            let (services, graph) = (self.parameters.waitables(), self.graph.node.graph_changes());
            let ready = self.waiter.round(&services, graph)?;
            let changed = graph.is_some() && ready.is(services.len());
            self.parameters.serve(|service| ready.is(service));
            self.graph.look(&runtime, changed);
            self.follow();
        }
        Ok(())
    }

    /// Moves services and graph to the newest connection: if an input is cut off, so are they.
    fn follow(&mut self) {
        let Some(newest) = self.renewal.other_than(self.connection) else { return };
        self.connection = Some(newest.created);
        let Some(node) = newest.node else { return };
        if let Err(error) = self.parameters.move_to(&node) {
            tracing::warn!("the parameter services keep their connection: {error}");
        }
        self.graph.move_to(node);
    }
}

impl LargeSpinner {
    /// Subscribes to the inputs of images and clouds; `None` if there are none.
    pub fn new(
        node: &Node,
        runtime: Arc<Runtime>,
        renewal: &Arc<Renewal>,
    ) -> Result<Option<Self>, NodeError> {
        let intake = Intake::large(node, &runtime, renewal)?;
        if intake.is_empty() {
            return Ok(None);
        }
        Ok(Some(LargeSpinner { waiter: Waiter::new(node, runtime, intake)? }))
    }

    /// Ends the wait of [`LargeSpinner::run`] from another thread.
    pub fn waker(&self) -> Arc<GuardCondition> {
        Arc::clone(&self.waiter.wake)
    }

    /// Spins until the node stops.
    pub fn run(mut self) -> Result<(), NodeError> {
        while !self.waiter.runtime.stopping() {
            self.waiter.round(&[], None)?;
        }
        Ok(())
    }
}

/// Reads the publishers of one topic after the other: those of the inputs, then `/clock` if that is
/// the node's clock. One reading takes the middleware a fraction of a millisecond; all at once would
/// delay the messages. The middleware tells when the graph has changed; otherwise the readings are
/// rare.
struct GraphWatch {
    node: Node,
    /// Full names.
    topics: Vec<(String, Watched)>,
    next: usize,
    /// How many topics must be read soon, because the graph has changed.
    changed: usize,
    /// When a topic was read last.
    read: Instant,
    due: Instant,
}

/// Whose topic is watched.
#[derive(Clone, Copy)]
enum Watched {
    Input(InputId),
    Clock,
}

impl GraphWatch {
    fn new(node: Node, topics: Vec<String>, runtime: &Runtime) -> Result<Self, NodeError> {
        let inputs = runtime.inputs().map(Watched::Input);
        let mut topics: Vec<_> = topics.into_iter().zip(inputs).collect();
        if runtime.clock.is_simulated() {
            topics.push((node.resolve_topic(CLOCK_TOPIC)?, Watched::Clock));
        }
        let changed = topics.len();
        let now = Instant::now();
        Ok(GraphWatch { node, topics, next: 0, changed, read: now, due: now })
    }

    /// Reads the graph of another connection from now on.
    fn move_to(&mut self, node: Node) {
        self.node = node;
        (self.changed, self.due) = (self.topics.len(), Instant::now());
    }

    /// Reads the publishers of a topic if that is due. `changed`: the graph has changed since the
    /// last call.
    fn look(&mut self, runtime: &Runtime, changed: bool) {
        let now = Instant::now();
        if changed {
            // What has been read may have changed again.
            self.changed = self.topics.len();
            self.due = self.due.min(self.read + SWEEP_PERIOD / self.topics.len().max(1) as u32);
        }
        let Some((topic, watched)) = self.topics.get(self.next).filter(|_| now >= self.due) else {
            return;
        };
        match self.node.publishers_of(topic) {
            Ok(publishers) => note(runtime, *watched, publishers),
            Err(error) => tracing::debug!("failed to list the publishers of {topic}: {error}"),
        }
        self.next = (self.next + 1) % self.topics.len();
        self.changed = self.changed.saturating_sub(1);
        let period = if self.changed > 0 { SWEEP_PERIOD } else { GRAPH_PERIOD };
        (self.read, self.due) = (now, now + period / self.topics.len() as u32);
    }
}

fn seen(publisher: PublisherInfo) -> PublisherSeen {
    let PublisherInfo { node, ros_type, reliable, transient_local, gid: _ } = publisher;
    PublisherSeen { node, ros_type, offers: Request { reliable, transient_local } }
}

/// Notes the publishers of a topic for the monitor.
fn note(runtime: &Runtime, watched: Watched, publishers: Vec<PublisherInfo>) {
    match watched {
        Watched::Input(input) => {
            let seen = publishers.into_iter().map(seen).collect::<Vec<_>>();
            let state = runtime.input(input);
            // The thread that takes the messages of the input follows this.
            state.wants.set(Request::of(runtime.input_spec(input), &seen));
            *lock(&state.publishers) = Some(seen);
        }
        Watched::Clock => {
            let seen = publishers.into_iter().map(seen);
            *lock(&runtime.clock_publishers) = seen.map(|p| p.name().to_owned()).collect();
        }
    }
}
