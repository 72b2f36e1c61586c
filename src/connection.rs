//! A connection to the middleware: a node with all its subscriptions, publishers and services. Each part
//! is used by one thread. [`fastdds`](super::fastdds) says when another connection replaces it.

use std::sync::Arc;

use super::args::NODE_NAME;
use super::console;
use super::diagnostics::Diagnostics;
use super::error::NodeError;
use super::fastdds::{self, Handed};
use super::info::Info;
use super::intake::{self, Subscribed};
use super::param_services::ParameterServices;
use super::params::{Declared, OutputType};
use super::rosout::Rosout;
use super::show::{self, Shown};
use robocache_rcl::{self, Context, Node, Publisher, Qos, Subscription, WaitSet};
use robocache_runtime::Runtime;

/// Tensors that the middleware keeps for a subscriber that has not taken them yet. A policy wants
/// the newest one. With `keep_last`, a slow policy loses tensors but never blocks the tick.
const OUTPUT_DEPTH: usize = 1;

/// What each connection of the node holds.
pub struct ConnectionSpec {
    /// What is received and sent.
    pub runtime: Arc<Runtime>,
    /// The full names of the inputs' topics, by `InputId`.
    pub topics: Vec<String>,
    /// The parameters of the node.
    pub parameters: Vec<Declared>,
    /// The message type of the tensors.
    pub output_type: OutputType,
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
        let output = node.advertise(&config.output_topic, plan.output_type.ros_type(), output)?;
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
        let node = create_node(&context, plan.message_bytes)?;
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

/// Creates the node, with shared memory for tensor messages of this size \[bytes\].
///
/// # Errors
/// The middleware does not begin.
pub fn create_node(context: &Context, message_bytes: usize) -> Result<Node, NodeError> {
    let (node, warning) = fastdds::begin_node(context, NODE_NAME, message_bytes)?;
    console::name_logger(node.logger_name());
    if let Some(warning) = warning {
        tracing::warn!("{warning}");
    }
    Ok(node)
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

impl Parts {
    /// Makes another connection and leaves its parts for the threads.
    pub fn renew(&self, plan: &ConnectionSpec) {
        match Connection::another(plan) {
            Ok((Connection { small, large, output, shown, diagnostics, info }, rosout)) => {
                let reports = Reports { rosout, diagnostics, _info: info };
                // A part that was not taken ends here: of two connections, only the newer one is needed.
                drop(self.small.leave(small));
                drop(self.large.leave(large));
                drop(self.output.leave(output));
                drop(self.shown.leave(shown));
                drop(self.reports.leave(reports));
            }
            Err(error) => {
                tracing::warn!("failed to make a new connection to the middleware: {error}");
            }
        }
    }
}
