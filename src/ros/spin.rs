//! The spin threads, which take every message from the middleware. One takes images and clouds. The
//! other takes all else, answers the parameter services and reads the graph.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::error::NodeError;
use super::intake::Intake;
use super::param_services::ParameterServices;
use super::rcl::{GuardCondition, Node, Ready, WaitSet, Waitable};
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
        let waiter = Waiter::new(&node, runtime, intake)?;
        let graph = GraphWatch::new(node, topics);
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

/// Reads the publishers of one input after the other. One reading takes the middleware a fraction
/// of a millisecond; all at once would delay the messages.
struct GraphWatch {
    node: Node,
    topics: Vec<String>,
    input: usize,
    due: Instant,
}

impl GraphWatch {
    fn new(node: Node, topics: Vec<String>) -> Self {
        GraphWatch { node, topics, input: 0, due: Instant::now() }
    }

    fn look(&mut self, runtime: &Runtime) {
        let now = Instant::now();
        let Some(topic) = self.topics.get(self.input).filter(|_| now >= self.due) else { return };
        match self.node.publishers_of(topic) {
            Ok(publishers) => {
                let seen = publishers.into_iter().map(|p| PublisherSeen {
                    node: p.node,
                    ros_type: p.ros_type,
                    reliable: p.reliable,
                });
                let input = runtime.input(InputId::new(self.input));
                *lock(&input.publishers) = Some(seen.collect());
            }
            Err(error) => tracing::debug!("failed to list the publishers of {topic}: {error}"),
        }
        self.input = (self.input + 1) % self.topics.len();
        self.due = now + GRAPH_PERIOD / self.topics.len() as u32;
    }
}
