//! The connections to the middleware: a node with its services, publishers and subscriptions. Each part is used by one
//! thread. [`fastdds`](super::fastdds) says when another connection replaces one.
//!
//! What a connection has depends on what the node does. Services, logs and diagnostics are always there; with a
//! configuration there are publishers; while the node works there are subscriptions.

use std::sync::{Arc, Mutex};

use super::args::{self, NODE_NAME};
use super::commander::{CommandPublishers, CommandSwitch, EnableService};
use super::console;
use super::diagnostics::Diagnostics;
use super::episodes::{EpisodeServices, EpisodeSwitch};
use super::error::NodeError;
use super::fastdds;
use super::info::Info;
use super::lifecycle::{Lifecycle, LifecycleServices};
use super::link::{self, Flow, NodeGraph, WakingSubscription};
use super::param_services::ParameterServices;
use super::param_store::ParameterStore;
use super::params::OutputType;
use super::requests::Offerer;
use super::rosout::Rosout;
use super::show::{self, Shown};
use robocache_core::spec::Config;
use robocache_link::{Handed, Subscriptions};
use robocache_ops::sync::lock;
use robocache_rcl::{self, Context, Node, Publisher, Qos, Wake};
use robocache_runtime::{Runtime, TimeSource};

/// Tensors that the middleware keeps for a subscriber that has not taken them yet. A policy wants
/// the newest one. With `keep_last`, a slow policy loses tensors but never blocks the tick.
const OUTPUT_DEPTH: usize = 1;

/// Specification of a connection's parts in every state of the node.
pub(crate) struct NodeSpec {
    /// The parameters.
    pub store: Arc<ParameterStore>,
    /// The state of a managed node; `None` if the node is not managed.
    pub lifecycle: Option<Arc<Lifecycle>>,
    /// Begins and ends episodes; `None` if nothing is ever recorded.
    pub episodes: Option<EpisodeSwitch>,
    /// Switches commands; `None` if there never are any.
    pub commands: Option<CommandSwitch>,
    /// The size of a tensor message \[bytes\], as far as it was known at the start.
    pub message_bytes: usize,
    pub time: TimeSource,
}

/// Specification of a connection's publishers while the node has a configuration.
pub(crate) struct PublisherSpec {
    /// The configuration.
    pub config: Config,
    /// The full names of the inputs' topics, by `InputId`.
    pub topics: Vec<String>,
    /// The message type of the tensors.
    pub output_type: OutputType,
    /// True if images and grids are shown.
    pub shows: bool,
    /// The size of a tensor message \[bytes\].
    pub message_bytes: usize,
    /// Meaning of the tensors, as a serialized message.
    pub info: Vec<u8>,
}

/// Services of a connection, for the thread that answers requests.
pub(crate) struct Services {
    pub parameters: ParameterServices,
    /// `None` if the node is not managed.
    pub lifecycle: Option<LifecycleServices>,
    /// `None` if the node never makes commands.
    pub enable: Option<EnableService>,
    /// `None` if nothing is ever recorded.
    pub episodes: Option<EpisodeServices>,
}

/// Publishers of a connection for the thread that reports.
pub(crate) struct Reports {
    pub rosout: Rosout,
    pub diagnostics: Diagnostics,
}

impl Reports {
    /// How many subscribers to the logs, and to the diagnostics, have been found.
    pub(crate) fn subscribers(&self) -> [usize; 2] {
        [self.rosout.subscribers(), self.diagnostics.subscribers()]
    }
}

/// Publishers of a connection for the publishing thread.
pub(crate) struct Published {
    pub tensors: Publisher,
    /// Keeps its message for later subscribers.
    pub _info: Info,
}

/// Subscriptions and graph of a connection, for the threads that take messages and read the graph.
pub(crate) struct Received {
    pub small: Subscriptions<WakingSubscription>,
    pub large: Subscriptions<WakingSubscription>,
    pub graph: NodeGraph,
}

/// The parts of the newest connection that no thread uses. A thread takes those of each newer connection. Publishers are
/// here while nothing is published.
#[derive(Clone, Default)]
pub(crate) struct ConnectionParts {
    pub services: Handed<Services>,
    pub reports: Handed<Reports>,
    pub published: Handed<Published>,
    pub shown: Handed<Shown>,
    pub commanding: Handed<CommandPublishers>,
    pub small: Handed<Subscriptions<WakingSubscription>>,
    pub large: Handed<Subscriptions<WakingSubscription>>,
    pub graph: Handed<NodeGraph>,
}

/// The connection of the node, and those that replace it.
pub(crate) struct Connections {
    spec: NodeSpec,
    pub parts: ConnectionParts,
    /// Ends the wait of the thread that answers requests.
    pub requests: Arc<Wake>,
    /// Held while a part begins or ends, so that all parts in use belong to one connection.
    current: Mutex<Current>,
}

/// The newest connection, and what the node does.
struct Current {
    node: Node,
    /// With a configuration.
    publishes: Option<Arc<PublisherSpec>>,
    /// While the node works: what is received, and what ends the waits of its threads.
    subscribes: Option<(Arc<Runtime>, Wakes)>,
}

/// Ends the waits of the threads that take messages and read the graph. Its clones share it.
#[derive(Clone, Default)]
pub(crate) struct Wakes {
    pub small: Arc<Wake>,
    pub large: Arc<Wake>,
    pub graph: Arc<Wake>,
}

impl Wakes {
    /// Ends the waits.
    pub(crate) fn wake(&self) {
        [&self.small, &self.large, &self.graph].into_iter().for_each(|wake| wake.wake());
    }
}

impl Connections {
    /// Makes the first connection of a node, without a configuration. Also returns the parts for its threads.
    ///
    /// # Errors
    /// The middleware refused one of them.
    pub(crate) fn new(
        node: Node,
        spec: NodeSpec,
    ) -> Result<(Self, Services, Diagnostics), NodeError> {
        let requests = Arc::new(Wake::default());
        let services = Services::new(Offerer { node: &node, wake: &requests }, &spec)?;
        let diagnostics = Diagnostics::new(&node)?;
        let current = Mutex::new(Current { node, publishes: None, subscribes: None });
        let connections =
            Connections { spec, parts: ConnectionParts::default(), requests, current };
        Ok((connections, services, diagnostics))
    }

    /// The full names of topics.
    ///
    /// # Errors
    /// The middleware does not resolve one.
    pub(crate) fn resolve<'a>(
        &self,
        topics: impl Iterator<Item = &'a String>,
    ) -> Result<Vec<String>, NodeError> {
        let current = lock(&self.current);
        Ok(topics
            .map(|topic| current.node.resolve_topic(topic))
            .collect::<robocache_rcl::Result<_>>()?)
    }

    /// The full name of the node.
    pub(crate) fn node_name(&self) -> String {
        lock(&self.current).node.fully_qualified_name()
    }

    /// Makes the publishers of a configuration.
    ///
    /// # Errors
    /// The middleware refused one of them.
    pub(crate) fn publish(&self, spec: &Arc<PublisherSpec>) -> Result<(), NodeError> {
        let mut current = lock(&self.current);
        self.leave_publishers(spec.publishers(&current.node)?);
        current.publishes = Some(Arc::clone(spec));
        Ok(())
    }

    /// Ends the publishers. The threads that used them must have ended.
    pub(crate) fn end_publishers(&self) {
        let mut current = lock(&self.current);
        current.publishes = None;
        let parts = &self.parts;
        drop((parts.published.remove(), parts.shown.remove(), parts.commanding.remove()));
    }

    /// Subscribes to the inputs. Also returns what ends the waits for them.
    ///
    /// # Errors
    /// The middleware refused one of them.
    pub(crate) fn subscribe(&self, runtime: &Arc<Runtime>) -> Result<(Received, Wakes), NodeError> {
        let mut current = lock(&self.current);
        let wakes = Wakes::default();
        let received = Received::new(&current.node, runtime, self.spec.flow(), &wakes)?;
        current.subscribes = Some((Arc::clone(runtime), wakes.clone()));
        Ok((received, wakes))
    }

    /// Ends the subscriptions. The threads that used them must have ended.
    pub(crate) fn end_subscriptions(&self) {
        let mut current = lock(&self.current);
        current.subscribes = None;
        let parts = &self.parts;
        drop((parts.small.remove(), parts.large.remove(), parts.graph.remove()));
    }

    /// Makes another connection, with a context and a node of its own, and leaves its parts for the threads.
    pub(crate) fn renew(&self) {
        let mut current = lock(&self.current);
        let begun = self.spec.time.monotonic();
        match self.make_another(&mut current) {
            Ok(()) => {
                let ms = self.spec.time.since(begun).as_millis();
                tracing::debug!("made a new connection to the middleware in {ms} ms");
            }
            Err(error) => {
                tracing::warn!("failed to make a new connection to the middleware: {error}");
            }
        }
    }

    /// Leaves publishers for the threads. Those that no thread has taken end here.
    fn leave_publishers(&self, publishers: Publishers) {
        let (published, shown, commanding) = publishers;
        let parts = &self.parts;
        drop((parts.published.leave(published), parts.shown.leave(shown)));
        drop(commanding.map(|commanding| parts.commanding.leave(commanding)));
    }

    fn make_another(&self, current: &mut Current) -> Result<(), NodeError> {
        let Current { publishes, subscribes, .. } = &*current;
        let args = args::without_files(std::env::args_os());
        let context = Context::from_args(args, None)
            .map_err(|error| NodeError::RosArguments(error.detail))?;
        let message_bytes =
            publishes.as_ref().map_or(self.spec.message_bytes, |spec| spec.message_bytes);
        let node = create_node(&context, message_bytes)?;
        let rosout = Rosout::new(&node)?;
        let services = Services::new(Offerer { node: &node, wake: &self.requests }, &self.spec)?;
        let diagnostics = Diagnostics::new(&node)?;
        let publishers = publishes.as_ref().map(|spec| spec.publishers(&node)).transpose()?;
        let flow = self.spec.flow();
        let receive =
            |(runtime, wakes): &(Arc<Runtime>, Wakes)| Received::new(&node, runtime, flow, wakes);
        let received = subscribes.as_ref().map(receive).transpose()?;
        let parts = &self.parts;
        // A part that no thread has ends here: of two connections, only the newer one is needed.
        drop(parts.services.leave(services));
        drop(parts.reports.leave(Reports { rosout, diagnostics }));
        publishers.into_iter().for_each(|publishers| self.leave_publishers(publishers));
        if let Some(Received { small, large, graph }) = received {
            drop((parts.small.leave(small), parts.large.leave(large), parts.graph.leave(graph)));
        }
        current.node = node;
        Ok(())
    }
}

/// The publishers of a configuration.
type Publishers = (Published, Shown, Option<CommandPublishers>);

impl NodeSpec {
    /// Who receives large messages. Fast DDS keeps a thread, a port and shared memory of each flow until its connection
    /// ends. So a managed node, which subscribes again and again, asks for none.
    fn flow(&self) -> Flow {
        match self.lifecycle {
            Some(_) => Flow::Shared,
            None => Flow::Own,
        }
    }
}

impl Services {
    fn new(offerer: Offerer<'_>, spec: &NodeSpec) -> Result<Self, NodeError> {
        let lifecycle = |it: &Arc<Lifecycle>| LifecycleServices::new(offerer, Arc::clone(it));
        let episodes = spec.episodes.clone();
        let episodes = episodes.map(|switch| EpisodeServices::new(offerer, switch));
        let enable = spec.commands.clone().map(|switch| EnableService::new(offerer, switch));
        Ok(Services {
            parameters: ParameterServices::new(
                offerer,
                Arc::clone(&spec.store),
                spec.time.clone(),
            )?,
            lifecycle: spec.lifecycle.as_ref().map(lifecycle).transpose()?,
            enable: enable.transpose()?,
            episodes: episodes.transpose()?,
        })
    }
}

impl PublisherSpec {
    fn publishers(&self, node: &Node) -> Result<Publishers, NodeError> {
        let output = Qos::reliable(OUTPUT_DEPTH);
        let topic = &self.config.output_topic;
        let ros_type = self.output_type.ros_type();
        let tensors = node.advertise(topic, ros_type, output)?;
        let info = Info::new(node, &tensors.topic(), &self.info)?;
        let shown = match self.shows {
            true => show::advertise(node, &self.config, &tensors.topic()),
            false => Vec::new(),
        };
        let commanding = self.config.commands.as_ref();
        let commanding = commanding.map(|commands| CommandPublishers::new(node, commands));
        Ok((Published { tensors, _info: info }, shown, commanding.transpose()?))
    }
}

impl Received {
    /// Subscribes to the inputs.
    fn new(
        node: &Node,
        runtime: &Runtime,
        flow: Flow,
        wakes: &Wakes,
    ) -> robocache_rcl::Result<Self> {
        let subscribe = |large, wake| {
            Subscriptions::new(runtime, large, |wanted| link::subscribe(node, wake, &wanted, flow))
        };
        let large = subscribe(true, &wakes.large)?;
        let small = subscribe(false, &wakes.small)?;
        Ok(Received { small, large, graph: NodeGraph(node.clone()) })
    }
}

/// Creates the node, with shared memory for tensor messages of this size \[bytes\].
///
/// # Errors
/// The middleware does not begin.
pub(crate) fn create_node(context: &Context, message_bytes: usize) -> Result<Node, NodeError> {
    let (node, warning) = fastdds::begin_node(context, NODE_NAME, message_bytes)?;
    console::name_logger(node.logger_name());
    if let Some(warning) = warning {
        tracing::warn!("{warning}");
    }
    Ok(node)
}
