//! The spin threads, which take every message from the middleware. One takes images and clouds. The
//! other takes all else, answers the parameter services and reads the graph.

use std::sync::Arc;
use std::time::Duration;

use super::connection::{Small, Subscriptions};
use super::error::NodeError;
use super::fastdds::{Connector, Handed};
use super::graph::GraphWatch;
use super::intake::Intake;
use super::param_services::ParameterServices;
use robocache_rcl::{Ready, WaitSet, Waitable};
use robocache_runtime::Runtime;

/// The longest wait for a message. Between two waits the thread reads the graph.
const IDLE: Duration = Duration::from_millis(50);

/// What the thread of the small messages waits for.
pub struct Spinner {
    waiter: Waiter,
    services: ParameterServices,
    graph: GraphWatch,
    parts: Handed<Small>,
}

/// What the thread of the images and clouds waits for.
pub struct LargeSpinner {
    waiter: Waiter,
    parts: Handed<Subscriptions>,
}

/// Subscriptions, and what a thread needs to wait for them.
struct Waiter {
    wait_set: WaitSet,
    runtime: Arc<Runtime>,
    intake: Intake,
    /// Ends what is replaced.
    connector: Connector,
}

impl Waiter {
    /// Waits for a message, for one of `services` or for a change of the graph, and takes the
    /// messages. Returns what is ready of `services`, and then of the graph.
    fn round(
        &mut self,
        services: &[Waitable<'_>],
        graph: Option<Waitable<'_>>,
    ) -> Result<Ready<'_>, NodeError> {
        let Waiter { wait_set, runtime, intake, .. } = self;
        let others = services.iter().copied().chain(graph);
        let ready = wait_set.wait(others.chain(intake.waitables()), IDLE)?;
        let first = services.len() + usize::from(graph.is_some());
        intake.drain(runtime, ready, first)?;
        intake.adapt(runtime);
        Ok(ready)
    }
}

impl Spinner {
    /// Takes the messages of a connection, and of each one that `parts` has from then on. `topics` are
    /// the full names of the topics of all inputs, by `InputId`.
    pub fn new(
        first: Small,
        parts: Handed<Small>,
        topics: Vec<String>,
        runtime: Arc<Runtime>,
        connector: Connector,
    ) -> Result<Self, NodeError> {
        let Small { node, services, clock, subscriptions } = first;
        let Subscriptions { wait_set, inputs } = subscriptions;
        let intake = Intake::new(&runtime, false, (clock, inputs), connector.clone());
        let graph = GraphWatch::new(node, topics, &runtime)?;
        let waiter = Waiter { wait_set, runtime, intake, connector };
        Ok(Spinner { waiter, services, graph, parts })
    }

    /// Spins until the node stops. Every round also serves the services and the graph, even if
    /// messages never cease.
    pub fn run(mut self) -> Result<(), NodeError> {
        let runtime = Arc::clone(&self.waiter.runtime);
        while !runtime.stopping() {
            let (services, graph) = (self.services.waitables(), self.graph.changes());
            let ready = self.waiter.round(&services, graph)?;
            let changed = graph.is_some() && ready.is(services.len());
            self.services.serve(|service| ready.is(service));
            self.graph.look(&runtime, changed);
            if let Some(part) = self.parts.take() {
                self.move_to(part);
            }
        }
        Ok(())
    }

    /// Goes over to a new connection.
    fn move_to(&mut self, Small { node, services, clock, subscriptions }: Small) {
        let Waiter { wait_set, runtime, intake, connector } = &mut self.waiter;
        let Subscriptions { wait_set: new, inputs } = subscriptions;
        intake.move_to(runtime, (clock, inputs));
        connector.end(std::mem::replace(wait_set, new));
        connector.end(std::mem::replace(&mut self.services, services));
        connector.end(self.graph.move_to(node));
    }
}

impl LargeSpinner {
    /// Takes the messages of these subscriptions, and of those that `parts` has from then on.
    pub fn new(
        first: Subscriptions,
        parts: Handed<Subscriptions>,
        runtime: Arc<Runtime>,
        connector: Connector,
    ) -> Self {
        let Subscriptions { wait_set, inputs } = first;
        let intake = Intake::new(&runtime, true, (None, inputs), connector.clone());
        LargeSpinner { waiter: Waiter { wait_set, runtime, intake, connector }, parts }
    }

    /// Spins until the node stops.
    pub fn run(mut self) -> Result<(), NodeError> {
        while !self.waiter.runtime.stopping() {
            self.waiter.round(&[], None)?;
            if let Some(Subscriptions { wait_set, inputs }) = self.parts.take() {
                let Waiter { wait_set: before, runtime, intake, connector } = &mut self.waiter;
                intake.move_to(runtime, (None, inputs));
                connector.end(std::mem::replace(before, wait_set));
            }
        }
        Ok(())
    }
}
