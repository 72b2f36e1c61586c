//! The spin threads, which take every message from the middleware. One takes images and clouds. The
//! other takes all else, answers the parameter services and reads the graph.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::error::NodeError;
use super::intake::{CLOCK_TOPIC, Intake};
use super::param_services::ParameterServices;
use super::rcl::{GuardCondition, Node, PublisherInfo, Ready, WaitSet, Waitable};
use super::renewal::Renewal;
use crate::runtime::Runtime;
use crate::runtime::health::PublisherSeen;
use crate::spec::InputId;
use crate::sync::lock;

/// The longest wait for a message. Between two waits the thread reads the graph.
const IDLE: Duration = Duration::from_millis(50);
/// Time in which the thread reads the publishers of all inputs once.
const GRAPH_PERIOD: Duration = Duration::from_secs(1);

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

    /// Waits for a message, or for one of `services`, and takes the messages. Returns what is ready
    /// of `services`.
    fn round(&mut self, services: &[Waitable<'_>]) -> Result<Ready<'_>, NodeError> {
        let Waiter { wake, wait_set, runtime, intake } = self;
        let wake = std::iter::once(Waitable::from(&**wake));
        let waitables = services.iter().copied().chain(wake).chain(intake.waitables());
        let ready = wait_set.wait(waitables, IDLE)?;
        intake.drain(runtime, ready, services.len() + 1)?;
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
            let ready = self.waiter.round(&self.parameters.waitables())?;
            self.parameters.serve(|service| ready.is(service));
            self.graph.look(&runtime);
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
        self.graph.node = node;
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
            self.waiter.round(&[])?;
        }
        Ok(())
    }
}

/// Reads the publishers of one topic after the other: those of the inputs, then `/clock` if that is
/// the node's clock. One reading takes the middleware a fraction of a millisecond; all at once would
/// delay the messages.
struct GraphWatch {
    node: Node,
    /// Full names.
    topics: Vec<(String, Watched)>,
    next: usize,
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
        Ok(GraphWatch { node, topics, next: 0, due: Instant::now() })
    }

    fn look(&mut self, runtime: &Runtime) {
        let now = Instant::now();
        let Some((topic, watched)) = self.topics.get(self.next).filter(|_| now >= self.due) else {
            return;
        };
        match self.node.publishers_of(topic) {
            Ok(publishers) => note(runtime, *watched, publishers),
            Err(error) => tracing::debug!("failed to list the publishers of {topic}: {error}"),
        }
        self.next = (self.next + 1) % self.topics.len();
        self.due = now + GRAPH_PERIOD / self.topics.len() as u32;
    }
}

/// Notes the publishers of a topic for the monitor.
fn note(runtime: &Runtime, watched: Watched, publishers: Vec<PublisherInfo>) {
    match watched {
        Watched::Input(input) => {
            let seen = publishers.into_iter().map(|p| PublisherSeen {
                node: p.node,
                ros_type: p.ros_type,
                reliable: p.reliable,
            });
            *lock(&runtime.input(input).publishers) = Some(seen.collect());
        }
        Watched::Clock => {
            let nodes = publishers.into_iter().map(|p| p.node);
            *lock(&runtime.clock_publishers) = nodes.collect();
        }
    }
}
