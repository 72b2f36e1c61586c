//! A connection to the middleware, and what replaces it.
//!
//! A [`Connection`] is a node with all its subscriptions, publishers and services. Each part is used by
//! one thread. The thread *connect* makes a new connection when the node needs one, and ends what it
//! replaces. Both take the middleware a while. Each other thread then takes its part of the new
//! connection, without a wait.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::diagnostics::Diagnostics;
use super::error::NodeError;
use super::info::Info;
use super::intake::{self, Subscribed};
use super::param_services::ParameterServices;
use super::params::Declared;
use super::rosout::Rosout;
use super::show::{self, Shown};
use robocache_ops::sync::lock;
use robocache_rcl::{self, Context, Node, Publisher, Qos, Subscription, WaitSet};
use robocache_runtime::Runtime;

/// Message type of the output.
const FUSED_TENSOR: &str = "robocache_ros/msg/FusedTensor";
/// Tensors that the middleware keeps for a subscriber that has not taken them yet. A policy wants
/// the newest one. With `keep_last`, a slow policy loses tensors but never blocks the tick.
const OUTPUT_DEPTH: usize = 1;
/// What was replaced ends this much later: what it sent last may still be on its way.
const LINGER: Duration = Duration::from_secs(1);

/// What each connection of the node holds.
pub struct ConnectionSpec {
    /// What is received and sent.
    pub runtime: Arc<Runtime>,
    /// The full names of the inputs' topics, by `InputId`.
    pub topics: Vec<String>,
    /// The parameters of the node.
    pub parameters: Vec<Declared>,
    /// Whether images and grids are shown.
    pub shows: bool,
    /// The size of a tensor message \[bytes\].
    pub message_bytes: usize,
}

/// A node and all that belongs to it.
pub struct Connection {
    /// For the thread of the small messages.
    pub small: Small,
    /// For the thread of the images and clouds.
    pub large: Subscriptions,
    /// For the publishing thread.
    pub output: Publisher,
    /// For the thread that shows images and grids; empty if nothing is shown.
    pub shown: Shown,
    /// For the thread that reports.
    pub diagnostics: Diagnostics,
    /// For the same thread. It keeps its message for later subscribers.
    pub info: Info,
}

/// What the thread of the small messages uses.
pub struct Small {
    /// Shows the graph.
    pub node: Node,
    pub services: ParameterServices,
    /// The clock of a simulator, if that is the node's clock.
    pub clock: Option<Subscription>,
    pub subscriptions: Subscriptions,
}

/// Subscriptions that one thread waits for.
pub struct Subscriptions {
    pub wait_set: WaitSet,
    /// In the order of the inputs.
    pub inputs: Vec<Subscribed>,
}

/// What the thread that reports uses.
pub struct Reports {
    pub rosout: Rosout,
    pub diagnostics: Diagnostics,
    pub _info: Info,
}

impl Connection {
    /// Makes all that belongs to a node.
    ///
    /// # Errors
    /// The middleware refused one of them.
    pub fn of(node: Node, plan: &ConnectionSpec) -> Result<Self, NodeError> {
        let (runtime, config) = (&*plan.runtime, plan.runtime.pipeline.config());
        let services = ParameterServices::new(&node, plan.parameters.clone())?;
        let diagnostics = Diagnostics::new(&node)?;
        let output = Qos::reliable(OUTPUT_DEPTH);
        let output = node.advertise(&config.output_topic, FUSED_TENSOR, output)?;
        let info = Info::new(&node, &output.topic(), &plan.topics, runtime)?;
        let shown =
            if plan.shows { show::advertise(&node, config, &output.topic()) } else { vec![] };
        let of = |large| subscribe(&node, runtime, large);
        let large = of(true)?;
        let clock = runtime.clock.is_simulated().then(|| intake::subscribe_to_clock(&node));
        let (clock, subscriptions) = (clock.transpose()?, of(false)?);
        let small = Small { node, services, clock, subscriptions };
        Ok(Connection { small, large, output, shown, diagnostics, info })
    }

    /// Makes another connection, with a context and a node of its own.
    fn another(plan: &ConnectionSpec) -> Result<(Self, Rosout), NodeError> {
        let context = Context::new().map_err(|error| NodeError::RosArguments(error.detail))?;
        let node = super::create_node(&context, plan.message_bytes)?;
        let rosout = Rosout::new(&node)?;
        Ok((Connection::of(node, plan)?, rosout))
    }
}

fn subscribe(node: &Node, runtime: &Runtime, large: bool) -> robocache_rcl::Result<Subscriptions> {
    let inputs = runtime.inputs().filter(|id| runtime.input_spec(*id).is_large() == large);
    let inputs = inputs.map(|id| {
        let asks = runtime.input(id).asks.get();
        let subscription = intake::subscribe(node, runtime.input_spec(id), asks)?;
        Ok(Subscribed { subscription, asks })
    });
    let inputs = inputs.collect::<robocache_rcl::Result<Vec<_>>>()?;
    Ok(Subscriptions { wait_set: WaitSet::new(&node.context())?, inputs })
}

/// Asks the thread *connect* for what takes the middleware a while. Its clones share the thread, which ends
/// with the last of them.
#[derive(Clone)]
pub struct Connector {
    orders: Sender<Order>,
    /// Whether a connection is asked for and has not been made.
    pending: Arc<AtomicBool>,
}

enum Order {
    Connect,
    /// To end what was replaced at this instant.
    End(Box<dyn Send>, Instant),
}

impl Connector {
    /// Makes the connector and its thread's work.
    pub fn new(plan: ConnectionSpec, parts: Parts) -> (Self, Connecting) {
        let (orders, taken) = channel();
        let pending = Arc::new(AtomicBool::new(false));
        let connecting = Connecting { plan, parts, orders: taken, pending: Arc::clone(&pending) };
        (Connector { orders, pending }, connecting)
    }

    /// Asks for a new connection, unless one is being made.
    pub fn connect(&self) {
        if !self.pending.swap(true, Ordering::Relaxed) {
            // The thread ends only with the node.
            let _ = self.orders.send(Order::Connect);
        }
    }

    /// Ends what was replaced, a second later and on the thread *connect*.
    pub fn end(&self, replaced: impl Send + 'static) {
        let _ = self.orders.send(Order::End(Box::new(replaced), Instant::now()));
    }
}

/// Where the threads get their parts of a new connection.
#[derive(Clone, Default)]
pub struct Parts {
    pub small: Handed<Small>,
    pub large: Handed<Subscriptions>,
    pub output: Handed<Publisher>,
    pub shown: Handed<Shown>,
    pub reports: Handed<Reports>,
}

/// The newest part of one thread that it has not taken yet. Its clones share it.
pub struct Handed<T>(Arc<Mutex<Option<T>>>);

impl<T> Clone for Handed<T> {
    fn clone(&self) -> Self {
        Handed(Arc::clone(&self.0))
    }
}

impl<T> Default for Handed<T> {
    fn default() -> Self {
        Handed(Arc::default())
    }
}

impl<T> Handed<T> {
    /// Takes the part, if there is one. It does not wait for the thread that leaves one.
    pub fn take(&self) -> Option<T> {
        // A panic leaves no half change: there is one move.
        self.0.try_lock().ok()?.take()
    }

    /// Leaves a part. Returns the one before, which nobody has taken.
    fn leave(&self, part: T) -> Option<T> {
        lock(&self.0).replace(part)
    }
}

/// The work of the thread *connect*.
pub struct Connecting {
    plan: ConnectionSpec,
    parts: Parts,
    orders: Receiver<Order>,
    pending: Arc<AtomicBool>,
}

impl Connecting {
    /// Serves the orders until nobody can give one.
    pub fn run(self) {
        for order in &self.orders {
            match order {
                Order::Connect if self.plan.runtime.stopping() => {}
                Order::Connect => {
                    self.connect();
                    self.pending.store(false, Ordering::Relaxed);
                }
                Order::End(replaced, at) => {
                    if !self.plan.runtime.stopping() {
                        std::thread::sleep((at + LINGER).saturating_duration_since(Instant::now()));
                    }
                    drop(replaced);
                }
            }
        }
    }

    fn connect(&self) {
        match Connection::another(&self.plan) {
            Ok((Connection { small, large, output, shown, diagnostics, info }, rosout)) => {
                let reports = Reports { rosout, diagnostics, _info: info };
                // A part that was not taken ends here: of two connections, only the newer one is needed.
                drop(self.parts.small.leave(small));
                drop(self.parts.large.leave(large));
                drop(self.parts.output.leave(output));
                drop(self.parts.shown.leave(shown));
                drop(self.parts.reports.leave(reports));
            }
            Err(error) => {
                tracing::warn!("failed to make a new connection to the middleware: {error}");
            }
        }
    }
}
