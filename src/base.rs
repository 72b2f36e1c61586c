//! Parts of the node in every state: a connection to the middleware, and the threads *serve*, *report* and *connect*.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use super::args::NODE_NAME;
use super::commander::CommandSwitch;
use super::connection::{self, Connections, NodeSpec, Reports, Services};
use super::diagnostics::Diagnostics;
use super::episodes::EpisodeSwitch;
use super::error::NodeError;
use super::lifecycle::Lifecycle;
use super::link;
use super::param_store::ParameterStore;
use super::params::{self, Declared, Settings};
use super::recording::Recording;
use super::report::{Reporter, Watched};
use super::rosout::{Records, Rosout};
use super::server::Server;
use robocache_core::config::describe;
use robocache_core::spec::Config;
use robocache_link::{Connecting, Connector, Middleware, Orders, Overlap, Recovery, Switch};
use robocache_rcl::{Context, Node};
use robocache_runtime::{Standstills, Threads, TimeSource, drive};
use tracing::subscriber::{NoSubscriber, with_default};

/// The node without a configuration.
pub(crate) struct Base {
    pub connections: Arc<Connections>,
    pub connector: Connector,
    pub middleware: Middleware,
    pub store: Arc<ParameterStore>,
    /// The state of a managed node; `None` if the node is not managed.
    pub lifecycle: Option<Arc<Lifecycle>>,
    pub watched: Arc<Mutex<Watched>>,
    pub standstills: Arc<Standstills>,
    /// True while ticks run.
    pub ticking: Arc<AtomicBool>,
    pub recording: Recording,
    /// Begins and ends episodes of the runtime that works.
    pub episodes: EpisodeSwitch,
    /// Switches the commands of the runtime that works.
    pub commands: CommandSwitch,
    pub time: TimeSource,
}

/// Parts with which the threads of the node in every state begin.
struct Beginnings {
    orders: Orders,
    services: Services,
    diagnostics: Diagnostics,
}

/// The threads of the node in every state. A drop ends and joins them. The thread *connect* ends only when no
/// [`Connector`] is left: the owner drops the [`Base`] before.
pub(crate) type BaseThreads = Threads<NodeError>;

/// Parameters from the command line and parameter files.
pub(crate) struct Parameters {
    pub settings: Settings,
    /// The configuration that they name.
    pub config: Result<Config, NodeError>,
    /// True if requests configure and activate the node.
    pub is_managed: bool,
    declared: Vec<Declared>,
    /// Names that are not parameters of this node.
    unknown: Vec<String>,
}

impl Parameters {
    /// Reads them.
    ///
    /// # Errors
    /// A parameter cannot be used.
    pub(crate) fn read(context: &Context) -> Result<Self, NodeError> {
        let mut declared = params::declared();
        let given = context.parameter_overrides(NODE_NAME)?;
        let given = given.iter().map(|(name, value)| (name, value));
        let unknown = params::override_declared(&mut declared, given)?;
        let settings = params::settings(&declared)?;
        let is_managed = params::is_managed(&declared);
        // A managed node reads it again, and says then what is wrong.
        let config = match is_managed {
            true => with_default(NoSubscriber::new(), || settings.load()),
            false => settings.load(),
        };
        Ok(Parameters { settings, config, is_managed, declared, unknown })
    }

    /// True if the node may make commands: of a managed node it is not known yet.
    fn may_command(&self) -> bool {
        self.is_managed || self.config.as_ref().is_ok_and(|config| config.commands.is_some())
    }

    /// True if the node may record: of a managed node it is not known yet.
    fn may_record(&self) -> bool {
        let Settings { record_to, episodes_to, .. } = &self.settings;
        self.is_managed || record_to.is_some() || episodes_to.is_some()
    }

    /// The size of a tensor message of the configuration \[bytes\]; 0 without one.
    fn message_bytes(&self) -> usize {
        self.config.as_ref().map_or(0, describe::shared_memory::message_bytes)
    }
}

impl Base {
    /// Begins the node. If `lifecycle` is given, requests change its state. Errors are logged on stderr and, if the node
    /// exists, on `/rosout`.
    ///
    /// # Errors
    /// The parameters cannot be used, or the middleware does not begin.
    pub(crate) fn start(
        context: &Context,
        parameters: Result<Parameters, NodeError>,
        lifecycle: Option<Arc<Lifecycle>>,
        records: Records,
        recording: Recording,
        time: TimeSource,
    ) -> Result<(Self, BaseThreads, Parameters), NodeError> {
        let message_bytes = parameters.as_ref().map_or(0, Parameters::message_bytes);
        let begun = connection::create_node(context, message_bytes)
            .and_then(|node| Ok((Rosout::new(&node)?, node)));
        let (rosout, node) = begun.map_err(logged)?;
        let connected = parameters.and_then(|parameters| {
            let (base, beginnings) =
                Self::connect(node, &parameters, lifecycle, recording, time.clone())?;
            Ok((base, beginnings, parameters))
        });
        let (base, Beginnings { orders, services, diagnostics }, parameters) = match connected {
            Ok(connected) => connected,
            Err(error) => {
                let error = logged(error);
                rosout.flush_at_start(&records, &time);
                return Err(error);
            }
        };
        let reports = Reports { rosout, diagnostics };
        let threads = base.start_threads(orders, services, reports, records)?;
        Ok((base, threads, parameters))
    }

    /// Makes what the node has in every state. Its threads do not run yet.
    fn connect(
        node: Node,
        parameters: &Parameters,
        lifecycle: Option<Arc<Lifecycle>>,
        recording: Recording,
        time: TimeSource,
    ) -> Result<(Self, Beginnings), NodeError> {
        let message_bytes = parameters.message_bytes();
        let Parameters { declared, unknown, settings, .. } = parameters;
        if !unknown.is_empty() {
            tracing::warn!("not parameters of this node, ignored: {}", unknown.join(", "));
        }
        let store = Arc::new(ParameterStore::new(declared.clone(), lifecycle.clone()));
        let commands = CommandSwitch::default();
        let episodes = EpisodeSwitch::new(recording.clone());
        let spec = NodeSpec {
            store: Arc::clone(&store),
            lifecycle: lifecycle.clone(),
            episodes: parameters.may_record().then(|| episodes.clone()),
            commands: parameters.may_command().then(|| commands.clone()),
            message_bytes,
            time: time.clone(),
        };
        let middleware = link::in_use();
        let period = settings.diagnostics_period;
        let watched = Watched::new(period, lifecycle.clone(), time.clone());
        let (connections, services, diagnostics) = Connections::new(node, spec)?;
        let (connector, orders) = Connector::new(time.clone());
        let base = Base {
            connections: Arc::new(connections),
            connector,
            middleware,
            store,
            lifecycle,
            watched: Arc::new(Mutex::new(watched)),
            standstills: Arc::new(Standstills::new(time.clone())),
            ticking: Arc::default(),
            recording,
            episodes,
            commands,
            time,
        };
        Ok((base, Beginnings { orders, services, diagnostics }))
    }

    /// Starts the threads. Errors are logged.
    fn start_threads(
        &self,
        orders: Orders,
        services: Services,
        reports: Reports,
        records: Records,
    ) -> Result<BaseThreads, NodeError> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopping = Arc::clone(&stop);
        let stopped = Arc::clone(&stop);
        let requests = &self.connections.requests;
        let wake = Arc::clone(&self.connections.requests);
        let mut threads = Threads::new(move || {
            stopping.store(true, Ordering::Relaxed);
            wake.wake();
        });
        let parts = &self.connections.parts;
        let server = Server {
            services,
            overlap: Overlap::default(),
            wake: Arc::clone(requests),
            parts: parts.services.clone(),
            connector: self.connector.clone(),
            standstills: Arc::clone(&self.standstills),
            ticking: Arc::clone(&self.ticking),
            stop: Arc::clone(&stop),
            time: self.time.clone(),
        };
        let now = self.time.monotonic();
        let mut reporter = Reporter {
            watched: Arc::clone(&self.watched),
            records,
            reports: Switch::new(reports),
            parts: parts.reports.clone(),
            connector: self.connector.clone(),
            standstills: Arc::clone(&self.standstills),
            recovery: self.middleware.cuts_off.then(Recovery::default),
            stop,
            time: self.time.clone(),
            record: None,
            look: now,
            follow: now,
        };
        // First: it still reports why another one does not start.
        let mut spawned = threads.spawn("report", move || {
            let Ok(()) = drive(&mut reporter, Reporter::wait);
            Ok(())
        });
        let serve = move || {
            server.run();
            Ok(())
        };
        spawned = spawned.and_then(|()| threads.spawn("serve", serve));
        let connections = Arc::clone(&self.connections);
        // It ends when all others have.
        let connect = move || {
            let stopping = || stopped.load(Ordering::Relaxed);
            let mut connecting = Connecting::new(orders, stopping, || connections.renew());
            let Ok(()) = drive(&mut connecting, Connecting::wait);
            Ok(())
        };
        spawned.and_then(|()| threads.spawn("connect", connect)).map_err(logged)?;
        Ok(threads)
    }
}

/// Logs the error that ends the start.
pub(crate) fn logged(error: NodeError) -> NodeError {
    tracing::error!("{error}");
    error
}
