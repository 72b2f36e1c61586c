//! The ROS 2 edge: subscriptions, publisher, clock, parameters, diagnostics.
//!
//! Four threads, so that nothing with a deadline waits for anything without one:
//!
//! - *spin* ([`spin`]) owns the node and takes every message off the middleware; vectors go
//!   straight into their rings, images and clouds into the inbox.
//! - *encode* ([`shared`]) empties the inbox into the pipeline.
//! - *tick* ([`ticker`]) sleeps to the next tick, fuses and publishes.
//! - *main* ([`monitor`], [`rosout`]) runs tokio: signals, diagnostics, logs.

mod args;
mod arrivals;
mod clock;
mod error;
mod health;
mod inbox;
mod latency;
mod monitor;
mod notices;
mod param_services;
mod params;
mod profile;
mod publishers;
mod rosout;
mod schedule;
mod shared;
mod spin;
mod ticker;
mod totals;

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

use r2r::{Node, PublisherUntyped, QosProfile};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

pub use args::{HELP, Invocation, RosArgs, log_filter, parse as parse_args};
pub use error::NodeError;
pub use profile::ensure as ensure_profile;
pub use rosout::{Records, RosoutLayer, layer as rosout_layer};

use crate::backend::{self, Backend};
use crate::config::{self, Config};
use crate::layout::Layout;
use crate::pipeline::Pipeline;
use crate::priority;
use crate::sync::lock;
use clock::{NodeClock, SimClock};
use error::RosContext;
use monitor::{Monitor, Names};
use param_services::ParameterServices;
use params::Settings;
use rosout::Rosout;
use shared::Shared;
use spin::Spinner;

/// Type of the output.
const FUSED_TENSOR: &str = "robocache_ros/msg/FusedTensor";
/// Tensors that the middleware keeps for a subscriber that has not got them yet. A policy wants
/// the newest; with `keep_last` a slow one costs its own tensors and never blocks the tick.
const OUTPUT_DEPTH: usize = 1;
/// Name of the node before remapping.
const NODE_NAME: &str = "fusion_node";

/// Runs the node until `shutdown` is ready, which says why, or until something fails. A failure has
/// been logged when this returns: on stderr, and once the node runs on `/rosout`.
pub async fn run(
    args: &RosArgs,
    records: Records,
    shutdown: impl Future<Output = &'static str>,
) -> Result<(), NodeError> {
    let mut running = start(args, records).inspect_err(|error| tracing::error!("{error}"))?;
    let outcome = running.supervise(shutdown).await;
    match &outcome {
        Ok(why) => tracing::info!("{why}: shutting down"),
        Err(error) => tracing::error!("{error}"),
    }
    running.rosout.flush();
    outcome.map(|_| ())
}

/// The node at work.
struct Running {
    monitor: Monitor,
    rosout: Rosout,
    period: tokio::time::Interval,
    failed: UnboundedReceiver<NodeError>,
    /// Dropped last of all, which ends the threads.
    _threads: Threads,
}

fn start(args: &RosArgs, records: Records) -> Result<Running, NodeError> {
    let mut node = create_node()?;
    let rosout = Rosout::new(&mut node, records)?;
    let (settings, parameters) = read_parameters(&mut node)?;
    let shared = Arc::new(build(&settings)?);
    let (monitor, topics) = build_monitor(&mut node, args, &shared)?;
    let output = advertise(&mut node, shared.pipeline.config())?;
    profile::warn_of(shared.pipeline.layout().byte_len());
    let spinner = Spinner::new(node, Arc::clone(&shared), parameters, topics)?;

    let (failures, failed) = unbounded_channel();
    let priority = settings.realtime_priority;
    let threads = Threads::start(&shared, spinner, (output, priority), failures)?;
    // The first window ends a period from now.
    let first = tokio::time::Instant::now() + settings.diagnostics_period;
    let mut period = tokio::time::interval_at(first, settings.diagnostics_period);
    period.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    Ok(Running { monitor, rosout, period, failed, _threads: threads })
}

impl Running {
    /// What the main thread does while the others work.
    async fn supervise(
        &mut self,
        shutdown: impl Future<Output = &'static str>,
    ) -> Result<&'static str, NodeError> {
        tokio::pin!(shutdown);
        loop {
            tokio::select! {
                why = &mut shutdown => return Ok(why),
                Some(error) = self.failed.recv() => return Err(error),
                Some(log) = self.rosout.records.recv() => self.rosout.publish(log),
                _ = self.period.tick() => self.monitor.report(),
            }
        }
    }
}

fn create_node() -> Result<Node, NodeError> {
    // r2r panics on ROS arguments that rcl cannot read; the hook would print that as a crash.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let context = catch_unwind(r2r::Context::create);
    std::panic::set_hook(hook);
    let context = context.map_err(|payload| {
        let text = payload.downcast_ref::<String>().map_or("unreadable", String::as_str);
        NodeError::RosArguments(text.to_owned())
    })?;
    let context = context.during(|| "start ROS".to_owned())?;
    Node::create(context, NODE_NAME, "").during(|| format!("create the node {NODE_NAME}"))
}

/// Reads the parameters and offers their services.
fn read_parameters(node: &mut Node) -> Result<(Settings, ParameterServices), NodeError> {
    let mut declared = params::declared();
    {
        // Written by r2r alone, when it made the node.
        let given = lock(&node.params);
        let given = given.iter().map(|(name, parameter)| (name, &parameter.value));
        let unknown = params::override_declared(&mut declared, given)?;
        if !unknown.is_empty() {
            tracing::warn!("not parameters of this node, passed over: {}", unknown.join(", "));
        }
    }
    let settings = params::settings(&declared)?;
    Ok((settings, ParameterServices::new(node, declared)?))
}

/// Loads the configuration and makes the pipeline for it.
fn build(settings: &Settings) -> Result<Shared, NodeError> {
    let config = config::load_at_rate(&settings.config_file, settings.rate_hz)?;
    let backend = choose_backend(settings, &config)?;
    tracing::info!(
        "{}: {} streams at {} Hz on the {} backend",
        settings.config_file.display(),
        config.streams.len(),
        config.rate_hz,
        backend.name(),
    );
    let clock = match settings.use_sim_time {
        true => NodeClock::Sim(SimClock::new(config.grid)),
        false => NodeClock::System,
    };
    let pipeline = Pipeline::new(config, backend);
    Ok(Shared::new(pipeline, clock))
}

fn choose_backend(settings: &Settings, config: &Config) -> Result<Arc<dyn Backend>, NodeError> {
    let device = settings.device as usize;
    backend::create(settings.backend, device, config, &Layout::new(config))
        .map_err(|source| NodeError::Backend { operation: "start the backend".to_owned(), source })
}

/// Makes the monitor; returns the streams' full topic names beside it.
fn build_monitor(
    node: &mut Node,
    args: &RosArgs,
    shared: &Arc<Shared>,
) -> Result<(Monitor, Vec<String>), NodeError> {
    let name = node.fully_qualified_name().during(|| "ask for the node's name".to_owned())?;
    let namespace = node.namespace().during(|| "ask for the node's namespace".to_owned())?;
    let streams = &shared.pipeline.config().streams;
    let resolve = |topic: &String| args::resolve_topic(topic, &args.remaps, &namespace, &name);
    let topics: Vec<String> = streams.iter().map(|s| resolve(&s.topic)).collect();
    let diagnostics = node
        .create_publisher("/diagnostics", QosProfile::default().keep_last(10))
        .during(|| "publish /diagnostics".to_owned())?;
    let backend = shared.pipeline.backend_name();
    let names = Names { node: name, topics: topics.clone(), backend };
    Ok((Monitor::new(Arc::clone(shared), names, diagnostics), topics))
}

fn advertise(node: &mut Node, config: &Config) -> Result<PublisherUntyped, NodeError> {
    let qos = QosProfile::default().keep_last(OUTPUT_DEPTH).reliable().volatile();
    let topic = &config.output_topic;
    node.create_publisher_untyped(topic, FUSED_TENSOR, qos)
        .during(|| format!("publish {topic} ({FUSED_TENSOR})"))
}

/// The running threads; dropping it ends and joins them.
struct Threads {
    shared: Arc<Shared>,
    handles: Vec<JoinHandle<()>>,
}

impl Threads {
    fn start(
        shared: &Arc<Shared>,
        spinner: Spinner,
        (output, priority): (PublisherUntyped, u8),
        failures: UnboundedSender<NodeError>,
    ) -> Result<Self, NodeError> {
        let mut threads = Threads { shared: Arc::clone(shared), handles: vec![] };
        // In the order in which they are joined: the node, on the spin thread, goes last.
        let ticking = Arc::clone(shared);
        threads.spawn("tick", &failures, move || {
            ticking.ticks.priority.store(priority::raise(priority), Ordering::Relaxed);
            ticker::run(&ticking, &output)
        })?;
        let encoding = Arc::clone(shared);
        threads.spawn("encode", &failures, move || encoding.encode())?;
        threads.spawn("spin", &failures, move || spinner.run())?;
        Ok(threads)
    }

    /// Starts a thread whose error, or panic, ends the node.
    fn spawn(
        &mut self,
        name: &'static str,
        failures: &UnboundedSender<NodeError>,
        body: impl FnOnce() -> Result<(), NodeError> + Send + 'static,
    ) -> Result<(), NodeError> {
        let failures = failures.clone();
        let guarded = move || {
            let outcome = catch_unwind(AssertUnwindSafe(body));
            if let Err(error) = outcome.unwrap_or(Err(NodeError::Panicked(name))) {
                // The receiver is gone only when the node is ending already.
                let _ = failures.send(error);
            }
        };
        let handle = std::thread::Builder::new().name(name.to_owned()).spawn(guarded);
        self.handles.push(handle.map_err(|source| NodeError::Thread { name, source })?);
        Ok(())
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.shared.stop();
        for handle in self.handles.drain(..) {
            // A panic was caught inside and has been reported.
            let _ = handle.join();
        }
    }
}
