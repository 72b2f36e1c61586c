//! The ROS 2 edge: subscriptions, publishers, parameters, logs. It gives received messages to the
//! [`runtime`](robocache_runtime), and publishes the runtime's tensors and reports.
//!
//! All of it uses [`robocache_rcl`], a safe wrapper of ROS's own C library. Its threads, beside those of the
//! runtime:
//!
//! - *spin* ([`spin`], [`intake`], [`graph`]) takes small messages from the middleware, serves
//!   parameters and reads the graph.
//! - *spin large* takes images and clouds.
//! - *report* ([`report`], [`diagnostics`], [`rosout`]) publishes diagnostics and logs, and asks for a new
//!   connection if the middleware may have cut the node off.
//! - *connect* ([`connection`]) makes that connection, and ends the one before.
//! - *main* ([`run`]) watches signals and failures, and does nothing that could wait for the middleware.
//!
//! [`fastdds`] has what only Fast DDS needs: shared memory for large messages, and when a new connection
//! must be made.
//!
//! With the parameter `visualize_hz`, a thread *show* ([`show`]) publishes images and grids for
//! people.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

mod args;
mod buffers;
mod connection;
mod console;
mod diagnostics;
mod error;
mod fastdds;
mod graph;
mod handover;
mod info;
mod intake;
mod losses;
mod output;
mod param_services;
mod params;
mod report;
mod rosout;
mod shared;
mod show;
mod signals;
mod spin;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

pub use args::{HELP, Invocation, RosArgs, log_filter, parse as parse_args};
pub use console::Console;
pub use error::NodeError;
pub use fastdds::{begin_node, ensure_profile, segment_warning};
pub use rosout::{Records, RosoutLayer, layer as rosout_layer};
pub use signals::Signals;

use args::NODE_NAME;
use connection::{Connection, ConnectionSpec, Parts, Reports};
use fastdds::Connector;
use output::{Output, Sharing};
use params::OutputType;
use params::{Declared, Settings};
use report::Reporter;
use robocache_core::backend::{self, Backend};
use robocache_core::config::describe;
use robocache_core::config::{self, ConfigError};
use robocache_core::contract::Contract;
use robocache_core::layout::Layout;
use robocache_core::message::Envelope;
use robocache_core::pipeline::Pipeline;
use robocache_core::schema::Prefixes;
use robocache_core::spec::Config;
use robocache_core::visual::Tap;
use robocache_data::recording::{Manifest, McapRecorder, RecordOptions};
use robocache_rcl::{Context, Node};
use robocache_runtime::health::{Monitor, Names};
use robocache_runtime::{Clock, Placement, Recorder, Runtime, Threads};
use rosout::Rosout;
use shared::Shared;
use show::Show;
use spin::{LargeSpinner, Spinner};

/// How long the node may take to start or to end after the request to end. After this time, the middleware hangs.
const END: Duration = Duration::from_secs(4);

/// Runs the node until a signal comes or something fails. A failure is logged before this returns, on stderr
/// and, if the node exists, on `/rosout`.
///
/// The calling thread only watches signals and failures, from the first moment to the last. All that waits for
/// the middleware is done by other threads.
///
/// # Errors
/// Says why the node did not start, or why it stopped. After [`NodeError::Hangs`] the caller must end the
/// process, because a thread does not end.
pub async fn run(records: Records, signals: &mut Signals) -> Result<(), NodeError> {
    let mut starting = tokio::task::spawn_blocking(|| start(records));
    let mut running = tokio::select! {
        started = &mut starting => started.unwrap_or_else(|_| {
            tracing::error!("{}", NodeError::Panicked);
            Err(NodeError::Panicked)
        })?,
        why = signals.next() => {
            tracing::info!("{why}: shutting down; the node has not begun yet");
            // It begins and ends in order if it can. Shared memory that is left unfinished would stop the
            // next process.
            let started = in_time(starting, signals).await?;
            return end(started?, signals).await;
        }
    };
    let outcome = tokio::select! {
        why = signals.next() => Ok(why),
        error = running.threads.failure() => Err(error),
    };
    match &outcome {
        Ok(why) => tracing::info!("{why}: shutting down"),
        Err(error) => tracing::error!("{error}"),
    }
    end(running, signals).await?;
    outcome.map(|_| ())
}

/// Ends the node on another thread. The recording is ended also if a thread does not end; it bounds itself.
async fn end(running: Running, signals: &mut Signals) -> Result<(), NodeError> {
    let Running { stop, threads, recording } = running;
    let threads = tokio::task::spawn_blocking(move || {
        drop(stop);
        drop(threads);
    });
    let ended = in_time(threads, signals).await;
    // The node ends either way.
    let _ = tokio::task::spawn_blocking(move || drop(recording)).await;
    ended
}

/// Waits for work on another thread, until the next signal and at most for [`END`].
async fn in_time<T>(
    work: tokio::task::JoinHandle<T>,
    signals: &mut Signals,
) -> Result<T, NodeError> {
    tokio::select! {
        done = work => return done.map_err(|_| NodeError::Panicked),
        why = signals.next() => tracing::info!("{why} again"),
        () = tokio::time::sleep(END) => {}
    }
    tracing::error!("{}", NodeError::Hangs);
    Err(NodeError::Hangs)
}

/// The running node.
struct Running {
    /// Dropped before `threads`, so that the threads end at once.
    stop: Stop,
    /// The drop joins the threads.
    threads: Threads<NodeError>,
    /// Dropped last: it has what the threads did.
    recording: Recording,
}

/// Ends a recording when it is dropped. The runtime has it, too.
struct Recording(Option<Arc<McapRecorder>>);

impl Drop for Recording {
    fn drop(&mut self) {
        self.0.iter().for_each(|recorder| recorder.finish());
    }
}

/// Stops the runtime when it is dropped.
struct Stop {
    runtime: Arc<Runtime>,
    tap: Option<Arc<Tap>>,
}

impl Drop for Stop {
    fn drop(&mut self) {
        self.runtime.stop();
        self.tap.iter().for_each(|tap| tap.close());
    }
}

fn start(records: Records) -> Result<Running, NodeError> {
    let failed = |error: NodeError| {
        tracing::error!("{error}");
        error
    };
    let context = Context::new().map_err(|error| failed(NodeError::RosArguments(error.detail)))?;
    // Read before the node begins, because the middleware then takes its shared memory. Errors wait
    // for the node, so that they are also on /rosout.
    let parameters = read_parameters(&context);
    let config = parameters.as_ref().ok().and_then(|parameters| parameters.config.as_ref().ok());
    let message_bytes = config.map_or(0, describe::shared_memory::message_bytes);
    let node = connection::create_node(&context, message_bytes).map_err(failed)?;
    let rosout = Rosout::new(&node).map_err(failed)?;
    let prepared = parameters.and_then(|parameters| {
        let prepared = prepare(&node, parameters, message_bytes)?;
        Ok((Connection::of(node, &prepared.plan)?, prepared))
    });
    match prepared {
        Ok((connection, prepared)) => {
            start_threads(connection, prepared, (rosout, records)).map_err(failed)
        }
        Err(error) => {
            let error = failed(error);
            rosout.flush(&records);
            Err(error)
        }
    }
}

/// All that needs no connection.
struct Prepared {
    settings: Settings,
    plan: ConnectionSpec,
    recording: Recording,
    /// The form of the messages, if it is not that of the tensors themselves.
    list: Option<Envelope>,
    shared: Option<Shared>,
}

/// Makes all that needs no connection: the runtime, the recording, and the shared memory.
fn prepare(
    node: &Node,
    parameters: Parameters,
    message_bytes: usize,
) -> Result<Prepared, NodeError> {
    let Parameters { settings, declared: parameters, unknown, config } = parameters;
    if !unknown.is_empty() {
        tracing::warn!("not parameters of this node, ignored: {}", unknown.join(", "));
    }
    let config = config?;
    check_contract(&settings, &config)?;
    let mut runtime = build(&settings, config)?;
    let inputs = &runtime.pipeline.config().inputs;
    let topics = inputs.iter().map(|input| node.resolve_topic(&input.topic));
    let topics = topics.collect::<robocache_rcl::Result<Vec<String>>>()?;
    let list = list_form(&settings, &runtime)?;
    let shared = settings.shared_output.as_ref();
    let shared = shared.map(|service| Shared::new(service, &runtime, &topics)).transpose()?;
    // The last that may fail: it leaves a folder.
    let recording = match &settings.record_to {
        Some(folder) => Some(record(folder, node, &runtime, &topics, &parameters)?),
        None => None,
    };
    runtime.recorder = recording.clone().map(|recording| recording as Arc<dyn Recorder>);
    let (runtime, shows) = (Arc::new(runtime), settings.visualize_period.is_some());
    let output_type = settings.output_type;
    let plan = ConnectionSpec { runtime, topics, parameters, output_type, shows, message_bytes };
    Ok(Prepared { settings, plan, recording: Recording(recording), list, shared })
}

/// The form of the messages, if it is not that of the tensors themselves.
fn list_form(settings: &Settings, runtime: &Runtime) -> Result<Option<Envelope>, NodeError> {
    let (layout, config) = (runtime.pipeline.layout(), runtime.pipeline.config());
    match settings.output_type {
        OutputType::FusedTensor => Ok(None),
        OutputType::IsaacTensorList => {
            Ok(Some(Envelope::isaac_tensor_list(layout, &config.base_frame)?))
        }
    }
}

/// Gives each thread its part of the first connection, and the way by which it gets those of later ones.
fn start_threads(
    connection: Connection,
    prepared: Prepared,
    (rosout, records): (Rosout, Records),
) -> Result<Running, NodeError> {
    let Prepared { settings, plan, recording, list, shared } = prepared;
    let (tensors, shared_info) = shared.map(|Shared { tensors, info }| (tensors, info)).unzip();
    if let Some(warning) = segment_warning("the tensor message", plan.message_bytes) {
        tracing::warn!("{warning}");
    }
    let (runtime, topics) = (Arc::clone(&plan.runtime), plan.topics.clone());
    let Connection { small, large, output, shown, diagnostics, info } = connection;
    let reports = Reports { rosout, diagnostics, _info: info };
    let parts = Parts::default();
    let Parts {
        small: new_small,
        large: new_large,
        output: new_output,
        shown: new_shown,
        reports: new_reports,
    } = parts.clone();
    let (connector, connecting) = Connector::new();
    let config = runtime.pipeline.config();
    let show = settings
        .visualize_period
        .map(|period| Show::new(config, shown, new_shown, (period, connector.clone())));
    let tap = show.as_ref().map(Show::tap);
    let spinner =
        Spinner::new(small, new_small, topics.clone(), Arc::clone(&runtime), connector.clone())?;
    let sharing = tensors.map(|tensors| Sharing::new(tensors, Arc::clone(&runtime)));
    let forms = (list, sharing);
    let output = Output::new(output, new_output, connector.clone(), tap.clone(), forms);
    let mut threads = Threads::start(&runtime, output, settings.threads)?;
    // Dropped before the threads, also if one of them does not start.
    let stop = Stop { runtime: Arc::clone(&runtime), tap };
    if let Some(show) = show {
        threads.spawn("show", move || {
            show.run();
            Ok(())
        })?;
    }
    let placement = settings.intake;
    if !large.inputs.is_empty() {
        // At ordinary priority: a burst of images must not take a processor from everything else.
        let large_placement = Placement { priority: 0, ..placement.clone() };
        let large = LargeSpinner::new(large, new_large, Arc::clone(&runtime), connector.clone());
        threads.spawn("spin large", move || {
            large_placement.apply("images and clouds are received");
            large.run()
        })?;
    }
    let names = Names { topics, remedy: fastdds::remedy() };
    let monitor = Monitor::new(Arc::clone(&runtime), names);
    threads.spawn("spin", move || {
        placement.apply("small messages are received");
        spinner.run()
    })?;
    let monitor = (monitor, settings.diagnostics_period);
    let reports = (reports, new_reports);
    let reporter = Reporter::new(runtime, monitor, records, reports, connector, shared_info);
    threads.spawn("report", move || {
        reporter.run();
        Ok(())
    })?;
    // It ends when all others have.
    threads.spawn("connect", move || {
        connecting.run(|| plan.runtime.stopping(), || parts.renew(&plan));
        Ok(())
    })?;
    if settings.lock_memory {
        lock_memory();
    }
    Ok(Running { stop, threads, recording })
}

/// Keeps the memory of the process from being swapped out, so that no thread waits for a disk. If
/// the system does not permit it, this logs the reason.
fn lock_memory() {
    match robocache_runtime::lock_memory() {
        Ok(()) => tracing::info!("the memory of the process is locked"),
        Err(error) => tracing::warn!("the memory of the process is not locked: {error}"),
    }
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

/// Checks that the configuration makes what the policy was trained with, if the policy's contract is given.
fn check_contract(settings: &Settings, config: &Config) -> Result<(), NodeError> {
    let Some(folder) = &settings.contract else { return Ok(()) };
    let trained = Contract::load(folder)?;
    let differences = trained.differences(&Contract::of(config));
    if !differences.is_empty() {
        return Err(NodeError::Contract { folder: folder.clone(), differences });
    }
    tracing::info!("the contract {} of {} is kept", trained.digest(), folder.display());
    Ok(())
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
