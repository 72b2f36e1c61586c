//! The spin thread: takes every message from the middleware, answers the parameter services and
//! reads the graph.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::error::NodeError;
use super::intake::Intake;
use super::param_services::ParameterServices;
use super::rcl::{GuardCondition, Node, WaitSet, Waitable};
use crate::runtime::Runtime;
use crate::runtime::health::PublisherSeen;
use crate::spec::InputId;
use crate::sync::lock;

/// The longest wait for a message. Between two waits the thread reads the graph.
const IDLE: Duration = Duration::from_millis(50);
/// Time in which the thread reads the publishers of all inputs once.
const GRAPH_PERIOD: Duration = Duration::from_secs(1);

/// The node, with all that the spin thread waits for.
pub struct Spinner {
    /// Ends a wait, so that the thread sees at once that the node stops.
    wake: Arc<GuardCondition>,
    wait_set: WaitSet,
    runtime: Arc<Runtime>,
    parameters: ParameterServices,
    intake: Intake,
    graph: GraphWatch,
}

impl Spinner {
    /// Subscribes to all inputs, and to `/clock` if that is the node's clock. `topics` are the full
    /// names of the topics, by [`InputId`].
    pub fn new(
        node: Node,
        runtime: Arc<Runtime>,
        parameters: ParameterServices,
        topics: Vec<String>,
    ) -> Result<Self, NodeError> {
        let context = node.context();
        let wake = Arc::new(GuardCondition::new(&context)?);
        let wait_set = WaitSet::new(&context)?;
        let intake = Intake::new(&node, &runtime)?;
        let graph = GraphWatch::new(node, topics);
        Ok(Spinner { wake, wait_set, runtime, parameters, intake, graph })
    }

    /// Ends the wait of [`Spinner::run`] from another thread.
    pub fn waker(&self) -> Arc<GuardCondition> {
        Arc::clone(&self.wake)
    }

    /// Spins until the node stops. Every round also serves the services and the graph, even if
    /// messages never cease.
    pub fn run(mut self) -> Result<(), NodeError> {
        while !self.runtime.stopping() {
            let wake = std::iter::once(Waitable::from(&*self.wake));
            let services = self.parameters.waitables();
            let subscriptions = 1 + services.len();
            let waitables = wake.chain(services).chain(self.intake.waitables());
            let ready = self.wait_set.wait(waitables, IDLE)?;
            self.intake.drain(&self.runtime, ready, subscriptions)?;
            self.parameters.serve(|service| ready.is(1 + service));
            self.graph.look(&self.runtime);
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
