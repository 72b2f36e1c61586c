//! The spin threads, which take every message from the middleware. One takes images and clouds. The
//! other takes all else, and reads the graph.

use std::sync::Arc;
use std::time::Duration;

use super::connection::{Small, Subscriptions};
use super::error::NodeError;
use super::fastdds::{Connector, Handed};
use super::graph::GraphWatch;
use super::intake::Intake;
use robocache_rcl::{Guard, Subscription, WaitSet, Waitable};
use robocache_runtime::Runtime;

/// The longest wait for a message. Between two waits the thread reads the graph.
const IDLE: Duration = Duration::from_millis(50);

/// What the thread of the small messages waits for.
pub struct Spinner {
    waiter: Waiter,
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
    /// Ends a wait.
    wake: Arc<Guard>,
    runtime: Arc<Runtime>,
    intake: Intake,
    /// Ends what is replaced.
    connector: Connector,
}

impl Waiter {
    /// Waits for a message or for a change of the `graph`, and takes the messages. Returns whether the graph has
    /// changed.
    fn round(&mut self, graph: Option<Waitable<'_>>) -> Result<bool, NodeError> {
        let Waiter { wait_set, wake, runtime, intake, .. } = self;
        let others = [Waitable::from(&**wake)].into_iter().chain(graph);
        let ready = wait_set.wait(others.chain(intake.waitables()), IDLE)?;
        let changed = graph.is_some() && ready.is(1);
        intake.drain(runtime, ready, 1 + usize::from(graph.is_some()))?;
        intake.adapt(runtime);
        Ok(changed)
    }

    /// Goes over to the subscriptions of a new connection.
    fn move_to(&mut self, clock: Option<Subscription>, subscriptions: Subscriptions) {
        let Subscriptions { wait_set, wake, inputs } = subscriptions;
        self.intake.move_to(&self.runtime, (clock, inputs));
        let before = (&mut self.wait_set, &mut self.wake);
        let before = (std::mem::replace(before.0, wait_set), std::mem::replace(before.1, wake));
        self.connector.end(before);
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
        let Small { node, clock, subscriptions } = first;
        let Subscriptions { wait_set, wake, inputs } = subscriptions;
        let intake = Intake::new(&runtime, false, (clock, inputs), connector.clone());
        let graph = GraphWatch::new(node, topics, &runtime)?;
        let waiter = Waiter { wait_set, wake, runtime, intake, connector };
        Ok(Spinner { waiter, graph, parts })
    }

    /// Spins until the runtime stops. Every round also reads the graph, even if messages never cease.
    pub fn run(mut self) -> Result<(), NodeError> {
        let runtime = Arc::clone(&self.waiter.runtime);
        while !runtime.stopping() {
            let changed = self.waiter.round(self.graph.changes())?;
            self.graph.look(&runtime, changed);
            if let Some(part) = self.parts.take() {
                self.move_to(part);
            }
        }
        Ok(())
    }

    /// Goes over to a new connection.
    fn move_to(&mut self, Small { node, clock, subscriptions }: Small) {
        self.waiter.move_to(clock, subscriptions);
        let connector = &self.waiter.connector;
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
        let Subscriptions { wait_set, wake, inputs } = first;
        let intake = Intake::new(&runtime, true, (None, inputs), connector.clone());
        LargeSpinner { waiter: Waiter { wait_set, wake, runtime, intake, connector }, parts }
    }

    /// Spins until the runtime stops.
    pub fn run(mut self) -> Result<(), NodeError> {
        while !self.waiter.runtime.stopping() {
            self.waiter.round(None)?;
            if let Some(subscriptions) = self.parts.take() {
                self.waiter.move_to(None, subscriptions);
            }
        }
        Ok(())
    }
}
