//! A stretch of work: the subscriptions, the ticks, the recording, and their threads.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::base::Base;
use super::commander::Commander;
use super::configured::Configured;
use super::connection::{Received, Wakes};
use super::error::NodeError;
use super::middleware;
use super::output::{NodeOutput, Sharing};
use super::params::{CommandsAtStart, Settings};
use super::show::Show;
use robocache_core::schema::Prefixes;
use robocache_core::visual::Tap;
use robocache_data::recording::{Manifest, McapRecorder, RecordOptions};
use robocache_link::{CHUNK_TOPIC, CLOCK_TOPIC, GraphWatch, Handed, Spinner};
use robocache_ops::sync::lock;
use robocache_rcl::Wake;
use robocache_runtime::health::Monitor;
use robocache_runtime::{
    ChunkSource, CommandEnds, LockedMemory, Placement, Runtime, Threads, TimeSource, drive,
};

/// Time that commands have to come to rest when the node ends or is deactivated. Less than the time that the node has to
/// end, see [`end`](super::end).
const REST: Duration = Duration::from_secs(2);
/// If a simulator's clock has not moved for so long, the simulation is paused.
const PAUSED: Duration = Duration::from_secs(1);
/// The wait of a loop that has no instant for its next step. It may end for no reason.
const LONG: Duration = Duration::from_secs(3600);

/// A stretch of work. A drop stops it and joins its threads. The recording goes on.
pub(crate) struct Active {
    /// Dropped before `threads`, so that the threads end at once.
    stop: Stop,
    threads: Threads<NodeError>,
    _memory: Option<LockedMemory>,
}

/// Stops the runtime when it is dropped.
struct Stop {
    runtime: Arc<Runtime>,
    tap: Option<Arc<Tap>>,
    wakes: Wakes,
    ticking: Arc<AtomicBool>,
}

impl Drop for Stop {
    fn drop(&mut self) {
        come_to_rest(&self.runtime);
        self.runtime.stop();
        self.tap.iter().for_each(|tap| tap.close());
        self.wakes.wake();
        self.ticking.store(false, Ordering::Relaxed);
    }
}

impl Active {
    /// Subscribes, and starts the threads.
    ///
    /// # Errors
    /// The middleware refuses a subscription, the recording does not begin, or a thread does not start. [`Active::end`]
    /// gives back what was taken before.
    pub(crate) fn start(base: &Base, configured: &Configured) -> Result<Self, NodeError> {
        let mut runtime = configured.runtime(&base.time)?;
        runtime.standstills = Arc::clone(&base.standstills);
        // It leaves a folder, so it begins when little else may fail.
        let Settings { record_to, episodes_to, .. } = &configured.settings;
        if let Some(folder) = record_to.as_ref().or(episodes_to.as_ref()) {
            let (recorder, segments) = record(folder, base, configured, &runtime)?;
            runtime.recorded_segments = segments;
            runtime.recorder = Some(base.recording.hold(recorder));
        }
        let runtime = Arc::new(runtime);
        // Before the first tensor: a reader needs what the tensors of this run mean.
        lock(&base.watched).shared.iter_mut().for_each(|info| info.serve(runtime.pipeline.run()));
        let (received, wakes) = base.connections.subscribe(&runtime)?;
        let (mut threads, stop) = start_publishing(base, configured, &runtime, wakes)?;
        // If this fails, `stop` is dropped before `threads`.
        start_receiving(base, configured, &runtime, received, &stop.wakes, &mut threads)?;
        let topics = configured.spec.topics.clone();
        let names = middleware::names(&base.middleware, topics);
        let monitor = Monitor::new(Arc::clone(&runtime), names);
        middleware::say_what_it_lacks(&base.middleware);
        base.episodes.set(Some(Arc::clone(&runtime)), configured.settings.record_when.clone());
        base.commands.set(Some(Arc::clone(&runtime)));
        let enables = configured.settings.commands == CommandsAtStart::Enabled;
        match &runtime.commands {
            None if enables => tracing::warn!(
                "the parameter commands is enabled, and the configuration has no `commands`"
            ),
            None => {}
            Some(_) if !enables => tracing::info!(
                "commands are disabled: the service {}/enable_commands enables them",
                base.connections.node_name()
            ),
            Some(commands) => match commands.arm() {
                Ok(()) => tracing::info!(
                    "commands are enabled: they begin with the first chunk of each group"
                ),
                Err(error) => tracing::error!("commands are not enabled: {error}"),
            },
        }
        lock(&base.watched).begin(runtime, monitor);
        base.ticking.store(true, Ordering::Relaxed);
        let memory = configured.settings.lock_memory.then(lock_memory).flatten();
        Ok(Active { stop, threads, _memory: memory })
    }

    /// Waits for a thread to fail. The caller may cancel the wait.
    pub(crate) async fn failure(&mut self) -> NodeError {
        self.threads.failure().await
    }

    /// Stops the work and gives back what it took, also if it did not begin.
    ///
    /// # Errors
    /// A thread had failed.
    pub(crate) fn end(active: Option<Self>, base: &Base) -> Result<(), NodeError> {
        let mut outcome = Ok(());
        base.commands.set(None);
        base.episodes.set(None, None);
        if let Some(Active { stop, threads, _memory }) = active {
            drop(stop);
            outcome = threads.stop();
        }
        // Last: it has what the threads did.
        base.recording.finish();
        lock(&base.watched).end();
        base.connections.end_subscriptions();
        outcome
    }
}

/// Lets each group of commands come to rest before the threads end.
fn come_to_rest(runtime: &Runtime) {
    let Some(commands) = &runtime.commands else { return };
    commands.end();
    let begun = runtime.time.monotonic();
    while !commands.is_at_rest() {
        // While a simulation is paused there are no command ticks, and nothing moves.
        if runtime.clock.stalled_for().is_some_and(|stalled| stalled >= PAUSED) {
            return;
        }
        if runtime.time.since(begun) >= REST {
            tracing::error!(
                "the commands did not come to rest within {} ms: they end as they are",
                REST.as_millis()
            );
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Starts the threads of the runtime, and the one that shows images and grids. Each gets its part of the connection, and
/// the way by which it gets those of later ones.
fn start_publishing(
    base: &Base,
    configured: &Configured,
    runtime: &Arc<Runtime>,
    wakes: Wakes,
) -> Result<(Threads<NodeError>, Stop), NodeError> {
    let settings = &configured.settings;
    let parts = &base.connections.parts;
    let show = settings.visualize_period.map(|period| {
        let views = parts.shown.remove().unwrap_or_default();
        let config = runtime.pipeline.config();
        Show::new(config, views, parts.shown.clone(), period, base.connector.clone())
    });
    let tap = show.as_ref().map(Show::tap);
    let sharing = configured.tensors.remove();
    let sharing = sharing
        .map(|tensors| Sharing::new(tensors, configured.tensors.clone(), Arc::clone(runtime)));
    let published = parts.published.remove().ok_or(NodeError::Panicked)?;
    let output = NodeOutput::new(
        published,
        parts.published.clone(),
        base.connector.clone(),
        tap.clone(),
        configured.list.clone(),
        sharing,
    );
    let commander = match &runtime.commands {
        None => None,
        Some(_) => {
            let current = parts.commanding.remove().ok_or(NodeError::Panicked)?;
            let parts = parts.commanding.clone();
            let connector = base.connector.clone();
            let actions = &configured.actions;
            let shared = actions.statuses(runtime.pipeline.run());
            let source =
                actions.chunks().map(|chunks| -> Box<dyn ChunkSource> { Box::new(chunks) });
            let publisher = Box::new(Commander::new(current, parts, connector, shared));
            Some(CommandEnds { publisher, source })
        }
    };
    let mut threads = Threads::start(runtime, output, commander, settings.threads.clone())?;
    // Dropped before the threads, also if one of them does not start.
    let of_stop = Arc::clone(runtime);
    let ticking = Arc::clone(&base.ticking);
    let stop = Stop { runtime: of_stop, tap, wakes, ticking };
    if let Some(show) = show {
        threads.spawn("show", move || {
            show.run();
            Ok(())
        })?;
    }
    Ok((threads, stop))
}

/// Starts the threads that take messages and read the graph, in the same way.
fn start_receiving(
    base: &Base,
    configured: &Configured,
    runtime: &Arc<Runtime>,
    received: Received,
    wakes: &Wakes,
    threads: &mut Threads<NodeError>,
) -> Result<(), NodeError> {
    let Received { small, large, graph } = received;
    let parts = &base.connections.parts;
    let connector = &base.connector;
    let clock = runtime.clock.is_simulated().then(|| graph.0.resolve_topic(CLOCK_TOPIC));
    let clock = clock.transpose()?;
    let topics = configured.spec.topics.clone();
    let newer = parts.graph.clone();
    let mut watch =
        GraphWatch::new(graph, newer, topics, clock, Arc::clone(runtime), connector.clone())?;
    let wait = by(Arc::clone(&wakes.graph), &base.time);
    threads.spawn("graph", move || {
        let Ok(()) = drive(&mut watch, wait);
        Ok(())
    })?;
    let spinner = |is_large, first, parts: &Handed<_>| {
        let runtime = Arc::clone(runtime);
        Spinner::new(is_large, first, parts.clone(), runtime, &base.middleware, connector.clone())
    };
    let placement = configured.settings.intake.clone();
    if runtime.inputs().any(|id| runtime.input_spec(id).is_large()) {
        // At ordinary priority: a burst of images must not take a processor from everything else.
        let large_placement = Placement { priority: 0, ..placement.clone() };
        let mut large = spinner(true, large, &parts.large);
        let wait = by(Arc::clone(&wakes.large), &base.time);
        threads.spawn("spin large", move || {
            large_placement.apply("images and clouds are received");
            Ok(drive(&mut large, wait)?)
        })?;
    }
    let mut small = spinner(false, small, &parts.small);
    let wait = by(Arc::clone(&wakes.small), &base.time);
    threads.spawn("spin", move || {
        placement.apply("small messages are received");
        Ok(drive(&mut small, wait)?)
    })
}

/// Lets a loop wait for its next step, until `wake` ends the wait.
fn by<S>(wake: Arc<Wake>, time: &TimeSource) -> impl FnMut(&mut S, Option<Instant>) + use<S> {
    let time = time.clone();
    move |_, until| _ = wake.wait(until.map_or(LONG, |instant| time.until(instant)))
}

/// Keeps the memory of the process from being swapped out, so that no thread waits for a disk. If
/// the system does not permit it, this logs the reason.
fn lock_memory() -> Option<LockedMemory> {
    match robocache_runtime::lock_memory() {
        Ok(locked) => {
            tracing::info!("the memory of the process is locked");
            Some(locked)
        }
        Err(error) => {
            tracing::warn!("the memory of the process is not locked: {error}");
            None
        }
    }
}

/// Begins a recording in a folder of its own below `folder`, or waits for episodes. Also returns of which segments its digests
/// are, if not of all.
fn record(
    folder: &Path,
    base: &Base,
    configured: &Configured,
    runtime: &Runtime,
) -> Result<(McapRecorder, Option<Vec<bool>>), NodeError> {
    let settings = &configured.settings;
    let config = runtime.pipeline.config();
    let simulated = runtime.clock.is_simulated();
    let backend = runtime.pipeline.backend_name();
    let chunks = config.commands.as_ref().map(|_| CHUNK_TOPIC.to_owned());
    let chunks = base.connections.resolve(chunks.iter())?.pop();
    let manifest = Manifest {
        chunks,
        run: runtime.pipeline.run(),
        topics: configured.spec.topics.clone(),
        parameters: configured.parameters.clone(),
        streams: (!settings.record_streams.is_empty()).then(|| settings.record_streams.clone()),
        ..Manifest::of(config, simulated, runtime.digest, backend)
    };
    let segments = manifest.recorded_segments(config, runtime.pipeline.layout());
    let events = format!("{}/recording", base.connections.node_name());
    let end = base.recording.end;
    let has_graph = true;
    let options = RecordOptions {
        events,
        end,
        has_graph,
        episodes: settings.episodes_to.is_some(),
        compression: settings.record_compression,
        limits: settings.record_limits,
        ..RecordOptions::new(folder, manifest, base.time.clone())
    };
    let now = runtime.clock.now().map(|now| now.stamp);
    let definitions = Prefixes::of_environment();
    Ok((McapRecorder::start(options, config, &definitions, now)?, segments))
}
