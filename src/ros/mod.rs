//! The ROS 2 edge: subscriptions, publishers, parameters, logs. It gives received messages to the
//! [`runtime`](crate::runtime), and publishes the runtime's tensors and reports.
//!
//! All of it uses [`rcl`], a safe wrapper of ROS's own C library. It adds three threads to those of
//! the runtime:
//!
//! - *spin* ([`spin`], [`intake`]) takes small messages from the middleware, and serves parameters.
//! - *spin large* takes images and clouds.
//! - *main* ([`diagnostics`], [`rosout`], [`renewal`]) runs tokio: signals, diagnostics, logs, and a
//!   new connection if the middleware cut the node off.
//!
//! With the parameter `visualize_hz`, a thread *show* ([`show`]) publishes images and grids for
//! people.

mod adaptation;
mod args;
mod buffers;
mod console;
mod diagnostics;
mod error;
mod intake;
mod losses;
mod param_services;
mod params;
mod profile;
#[allow(unsafe_code)] // calls rcl, a C library; every block says why it is sound
#[allow(clippy::wildcard_imports)] // of r2r_rcl, whose names all begin with rcl, rmw or rcutils
pub mod rcl;
mod recovery;
mod renewal;
mod rosout;
mod show;
mod slow_start;
mod spin;

use std::future::Future;
use std::path::Path;
use std::sync::Arc;

pub use args::{HELP, Invocation, RosArgs, log_filter, parse as parse_args};
pub use console::Console;
pub use error::NodeError;
pub use profile::{
    Written as WrittenProfile, ensure as ensure_profile, warning as segment_warning,
    write as write_profile,
};
pub use rosout::{Records, RosoutLayer, layer as rosout_layer};

use crate::backend::{self, Backend};
use crate::check;
use crate::config::{self, ConfigError};
use crate::layout::Layout;
use crate::pipeline::{Pipeline, Publication, TensorMessage};
use crate::replay::recording::{Manifest, McapRecorder, RecordOptions};
use crate::runtime::health::{Monitor, Names};
use crate::runtime::{Clock, Placement, Publisher, Recorder, Refused, Runtime, Threads};
use crate::schema::Prefixes;
use crate::spec::Config;
use crate::time::Stamp;
use crate::visual::Tap;
use diagnostics::Diagnostics;
use param_services::ParameterServices;
use params::{Declared, Settings};
use rcl::{Context, GuardCondition, Node, Qos};
use renewal::Renewal;
use rosout::Rosout;
use show::Show;
use spin::{LargeSpinner, Spinner};

/// Message type of the output.
const FUSED_TENSOR: &str = "robocache_ros/msg/FusedTensor";
/// Message type of what the output means.
const FUSED_TENSOR_INFO: &str = "robocache_ros/msg/FusedTensorInfo";
/// Tensors that the middleware keeps for a subscriber that has not taken them yet. A policy wants
/// the newest one. With `keep_last`, a slow policy loses tensors but never blocks the tick.
const OUTPUT_DEPTH: usize = 1;
/// Name of the node before remapping.
const NODE_NAME: &str = "fusion_node";

/// Runs the node until `shutdown` is ready or something fails. The result of `shutdown` says why
/// the node stops. A failure is logged before this returns, on stderr and, if the node exists, on
/// `/rosout`.
///
/// # Errors
/// Says why the node did not start, or why it stopped.
pub async fn run(
    records: Records,
    shutdown: impl Future<Output = &'static str>,
) -> Result<(), NodeError> {
    let mut running = start(records).inspect_err(|error| tracing::error!("{error}"))?;
    let outcome = running.supervise(shutdown).await;
    match &outcome {
        Ok(why) => tracing::info!("{why}: shutting down"),
        Err(error) => tracing::error!("{error}"),
    }
    running.rosout.flush();
    outcome.map(|_| ())
}

/// The running node.
struct Running {
    monitor: Monitor,
    diagnostics: Diagnostics,
    rosout: Rosout,
    renewal: Arc<Renewal>,
    /// The size of a tensor message \[bytes\].
    message_bytes: usize,
    info: Info,
    period: tokio::time::Interval,
    /// Dropped before `threads`, so that the threads end at once.
    _wake: Wake,
    /// The drop joins the threads.
    threads: Threads<NodeError>,
    /// Dropped last: it has what the threads did.
    _recording: Recording,
}

/// Ends a recording when it is dropped. The runtime has it, too.
struct Recording(Option<Arc<McapRecorder>>);

impl Drop for Recording {
    fn drop(&mut self) {
        self.0.iter().for_each(|recorder| recorder.finish());
    }
}

/// When dropped, stops the runtime and ends the waits of the spin threads.
struct Wake {
    runtime: Arc<Runtime>,
    guards: Vec<Arc<GuardCondition>>,
    tap: Option<Arc<Tap>>,
}

impl Drop for Wake {
    fn drop(&mut self) {
        self.runtime.stop();
        self.tap.iter().for_each(|tap| tap.close());
        for guard in &self.guards {
            // If this fails, the spin thread sees the stop at the end of its wait.
            let _ = guard.trigger();
        }
    }
}

fn start(records: Records) -> Result<Running, NodeError> {
    let context = Context::new().map_err(|error| NodeError::RosArguments(error.detail))?;
    // Read before the node begins, because the middleware then takes its shared memory. Errors wait
    // for the node, so that they are also on /rosout.
    let parameters = read_parameters(&context);
    let config = parameters.as_ref().ok().and_then(|parameters| parameters.config.as_ref().ok());
    let message_bytes = config.map_or(0, check::shared_memory::message_bytes);
    let node = create_node(&context, message_bytes)?;
    let rosout = Rosout::new(&node, records)?;
    let Parameters { settings, declared, unknown, config } = parameters?;
    if !unknown.is_empty() {
        tracing::warn!("not parameters of this node, ignored: {}", unknown.join(", "));
    }
    let parameters = declared;
    let mut runtime = build(&settings, config?)?;
    let config = runtime.pipeline.config();
    let topics = config.inputs.iter().map(|input| node.resolve_topic(&input.topic));
    let topics = topics.collect::<rcl::Result<Vec<String>>>()?;
    let recording = match &settings.record_to {
        Some(folder) => Some(record(folder, &node, &runtime, &topics, &parameters)?),
        None => None,
    };
    runtime.recorder = recording.clone().map(|recording| recording as Arc<dyn Recorder>);
    let parameters = ParameterServices::new(&node, parameters)?;
    let runtime = Arc::new(runtime);
    let config = runtime.pipeline.config();
    let diagnostics = Diagnostics::new(&node)?;
    let names = Names { topics: topics.clone(), remedy: diagnostics::remedy() };
    let monitor = Monitor::new(Arc::clone(&runtime), names);
    let output = node.advertise(&config.output_topic, FUSED_TENSOR, Qos::reliable(OUTPUT_DEPTH))?;
    let info = Info::new(&node, format!("{}/info", output.topic()), topics.clone(), &runtime)?;
    if let Some(warning) = profile::warning("the tensor message", message_bytes) {
        tracing::warn!("{warning}");
    }
    let show =
        settings.visualize_period.map(|period| Show::new(&node, config, &output.topic(), period));
    let tap = show.as_ref().map(Show::tap);
    let renewal = Arc::new(Renewal::default());
    let large = LargeSpinner::new(&node, Arc::clone(&runtime), &renewal)?;
    let spinner =
        Spinner::new(node, Arc::clone(&runtime), parameters, topics, Arc::clone(&renewal))?;
    let guards = large.iter().map(LargeSpinner::waker).chain([spinner.waker()]).collect();
    let wake = Wake { runtime: Arc::clone(&runtime), guards, tap: tap.clone() };

    let output = Output { publisher: output, tap };
    let mut threads = Threads::start(&runtime, output, settings.threads)?;
    if let Some(show) = show {
        threads.spawn("show", move || {
            show.run();
            Ok(())
        })?;
    }
    let placement = settings.intake;
    if let Some(large) = large {
        // At ordinary priority: a burst of images must not take a processor from everything else.
        let large_placement = Placement { priority: 0, ..placement.clone() };
        threads.spawn("spin large", move || {
            large_placement.apply("images and clouds are received");
            large.run()
        })?;
    }
    // This thread owns the node and is the last to end.
    threads.spawn("spin", move || {
        placement.apply("small messages are received");
        spinner.run()
    })?;
    if settings.lock_memory {
        lock_memory();
    }
    // The first report is one period from now.
    let first = tokio::time::Instant::now() + settings.diagnostics_period;
    let mut period = tokio::time::interval_at(first, settings.diagnostics_period);
    period.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    Ok(Running {
        monitor,
        diagnostics,
        rosout,
        renewal,
        message_bytes,
        info,
        period,
        _wake: wake,
        threads,
        _recording: Recording(recording),
    })
}

impl Running {
    /// Publishes logs and diagnostics until the shutdown or a failure of a thread.
    async fn supervise(
        &mut self,
        shutdown: impl Future<Output = &'static str>,
    ) -> Result<&'static str, NodeError> {
        tokio::pin!(shutdown);
        loop {
            tokio::select! {
                why = &mut shutdown => return Ok(why),
                error = self.threads.failure() => return Err(error),
                Some(log) = self.rosout.records.recv() => self.rosout.publish(log),
                () = self.renewal.ordered() => {
                    if let Some(node) = self.renewal.make(|| connect_again(self.message_bytes)) {
                        self.info.move_to(&node);
                    }
                }
                _ = self.period.tick() => self.diagnostics.publish(self.monitor.report()),
            }
        }
    }
}

/// Keeps the memory of the process from being swapped out, so that no thread waits for a disk. If
/// the system does not permit it, this logs the reason.
fn lock_memory() {
    match crate::runtime::lock_memory() {
        Ok(()) => tracing::info!("the memory of the process is locked"),
        Err(error) => tracing::warn!("the memory of the process is not locked: {error}"),
    }
}

/// Publishes what the tensors mean, beside their topic.
struct Info {
    topic: String,
    /// The full names of the inputs' topics.
    inputs: Vec<String>,
    runtime: Arc<Runtime>,
    /// It keeps the message for later subscribers.
    _publisher: rcl::Publisher,
}

impl Info {
    fn new(
        node: &Node,
        topic: String,
        inputs: Vec<String>,
        runtime: &Arc<Runtime>,
    ) -> rcl::Result<Self> {
        let qos = Qos { transient_local: true, ..Qos::reliable(1) };
        let publisher = node.advertise(&topic, FUSED_TENSOR_INFO, qos)?;
        let stamp = runtime.clock.now().map_or(Stamp::ZERO, |now| now.stamp);
        let publication = Publication {
            stamp,
            topics: &inputs,
            digest: runtime.digest,
            backend: runtime.pipeline.backend_name(),
        };
        publisher.publish(&runtime.pipeline.info(&publication))?;
        Ok(Info { topic, inputs, runtime: Arc::clone(runtime), _publisher: publisher })
    }

    /// Publishes it again through another node. A later subscriber asks for the message, and a node
    /// that is cut off does not hear that.
    fn move_to(&mut self, node: &Node) {
        match Info::new(node, self.topic.clone(), self.inputs.clone(), &self.runtime) {
            Ok(info) => *self = info,
            Err(error) => tracing::warn!("{}: not published again: {error}", self.topic),
        }
    }
}

/// Publishes the tensors.
struct Output {
    publisher: rcl::Publisher,
    /// Where they are left for people to see; `None` if they are not shown.
    tap: Option<Arc<Tap>>,
}

impl Publisher for Output {
    fn publish(&self, message: &mut TensorMessage) -> Result<(), Refused> {
        let message = message.message();
        let published = self.publisher.publish(message);
        self.tap.iter().for_each(|tap| tap.offer(message));
        published.map_err(|error| Refused(error.to_string()))
    }
}

/// Makes a node with a connection of its own to the middleware.
fn connect_again(message_bytes: usize) -> Result<Node, NodeError> {
    let context = Context::new().map_err(|error| NodeError::RosArguments(error.detail))?;
    create_node(&context, message_bytes)
}

/// Creates the node, with shared memory for tensor messages of this size \[bytes\].
fn create_node(context: &Context, message_bytes: usize) -> Result<Node, NodeError> {
    let profile = profile::write(message_bytes);
    let begun = slow_start::watch();
    let node = Node::new(context, NODE_NAME, "")?;
    drop(begun);
    console::name_logger(node.logger_name());
    if let Err(error) = &profile {
        tracing::warn!("failed to write a profile for Fast DDS, its default is used: {error}");
    }
    Ok(node)
}

/// What the command line and parameter files say.
struct Parameters {
    settings: Settings,
    /// The configuration that they name.
    config: Result<Config, ConfigError>,
    declared: Vec<Declared>,
    /// Names that are not parameters of this node.
    unknown: Vec<String>,
}

fn read_parameters(context: &Context) -> Result<Parameters, NodeError> {
    let mut declared = params::declared();
    let given = context.parameter_overrides(NODE_NAME)?;
    let given = given.iter().map(|(name, value)| (name, value));
    let unknown = params::override_declared(&mut declared, given)?;
    let settings = params::settings(&declared)?;
    let config = config::load_at_rate(&settings.config_file, settings.rate_hz);
    Ok(Parameters { settings, config, declared, unknown })
}

/// Begins a recording in a folder of its own below `folder`.
fn record(
    folder: &Path,
    node: &Node,
    runtime: &Runtime,
    topics: &[String],
    parameters: &[Declared],
) -> Result<Arc<McapRecorder>, NodeError> {
    let config = runtime.pipeline.config();
    let simulated = runtime.clock.is_simulated();
    let backend = runtime.pipeline.backend_name();
    let in_words =
        |declared: &Declared| (declared.name.to_owned(), param_services::in_words(&declared.value));
    let manifest = Manifest {
        topics: topics.to_vec(),
        parameters: parameters.iter().map(in_words).collect(),
        ..Manifest::of(config, simulated, runtime.digest, backend)
    };
    let events = format!("{}/recording", node.fully_qualified_name());
    let options = RecordOptions { events, ..RecordOptions::new(folder, manifest) };
    let now = runtime.clock.now().map(|now| now.stamp);
    let definitions = Prefixes::of_environment();
    Ok(Arc::new(McapRecorder::start(options, config, &definitions, now)?))
}

/// Makes the pipeline for the configuration.
fn build(settings: &Settings, config: Config) -> Result<Runtime, NodeError> {
    let backend = choose_backend(settings, &config)?;
    tracing::info!(
        "{}: {} streams at {} Hz on the {} backend",
        settings.config_file.display(),
        config.streams.len(),
        config.rate_hz,
        backend.name(),
    );
    let clock = match settings.use_sim_time {
        true => Clock::simulated(config.grid),
        false => Clock::system(config.grid),
    };
    let mut runtime = Runtime::new(Pipeline::new(config, backend)?, clock);
    runtime.digest = settings.digest;
    Ok(runtime)
}

fn choose_backend(settings: &Settings, config: &Config) -> Result<Arc<dyn Backend>, NodeError> {
    let device = settings.device as usize;
    backend::create(settings.backend, device, config, &Layout::new(config))
        .map_err(NodeError::Backend)
}
