//! The state that all threads share.
//!
//! Other modules add methods to it beside their own work: `intake`, `latched`, `direct` and `sim_clock`.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use super::clock::Clock;
use super::commands::Commands;
use super::companion::Companion;
use super::error::RuntimeError;
use super::measure::NodeTime;
use super::outbox::Outbox;
use super::ports::Observer;
use super::queue::{self, QUEUED_MESSAGES, Queue};
use super::recorder::{
    Event, MessageOutcome, ReceivedMessage, Recorder, SharedBytes, SharedMessage, TickFate,
    TickRecord,
};
use super::schedule::elapsed_ns;
use super::standstill::Standstills;
use super::state::{GridStats, InputState, StreamState, TickStats};
use super::time_source::TimeSource;
use super::waiting::Waiting;
use robocache_core::message::TensorMessage;
use robocache_core::pipeline::{Arrival, InputStats, Pipeline, StreamStats, TickOutcome};
use robocache_core::spec::{InputId, InputSpec, StreamId, StreamSpec};
use robocache_ops::sync::lock;
use robocache_ops::time::{Epoch, Stamp, TickGrid};

/// Everything that several threads use. Its mutexes guard only diagnostics, so no tensor depends on
/// data that a panic could leave half changed. A panic also ends the runtime.
pub struct Runtime {
    /// The streams and the tensor.
    pub pipeline: Pipeline,
    /// The clock.
    pub clock: Clock,
    /// Source of all time, which is that of the clock.
    pub time: TimeSource,
    /// The counters of the tick thread.
    pub ticks: TickStats,
    /// The commands that chunks of actions become; `None` at first, and if the configuration has none.
    ///
    /// In memory of its own, because it is aligned to cache lines: Python's objects, which hold a runtime, are not.
    pub commands: Option<Box<Commands>>,
    /// True if each tensor is sealed with a digest before it is published; true at first.
    pub digest: bool,
    /// By segment: true if the recorder takes what it is made of. The digests of its ticks are of these segments; `None` at
    /// first: of the whole tensor.
    pub recorded_segments: Option<Vec<bool>>,
    /// Takes what is received and done; `None` at first.
    pub recorder: Option<Arc<dyn Recorder>>,
    /// Time by the clock, for rates and patience.
    pub node_time: NodeTime,
    /// The nodes of all publishers of `/clock` at the last reading of the graph. Empty before the
    /// first, and if the node's clock is another one.
    pub clock_publishers: Mutex<Vec<String>>,
    /// The topics of the graph, each with a type of its messages. The graph thread keeps them only while an input has no
    /// publisher.
    pub topics: Mutex<Vec<(String, String)>>,
    /// The wake-ups that tell when the process stood still; its own at first.
    pub standstills: Arc<Standstills>,
    /// By [`InputId`].
    pub(super) inputs: Vec<InputState>,
    /// By [`StreamId`].
    streams: Vec<StreamState>,
    /// True if encode workers push large messages. If not, the receiving thread does.
    has_workers: bool,
    /// Large messages on their way to the workers.
    pub(super) queue: Queue,
    /// Messages that wait for a transform; `None` if no message needs one.
    pub(super) waiting: Option<Mutex<Waiting>>,
    /// The number of the newest epoch that has begun.
    pub(super) epoch: AtomicU64,
    /// Tensors on their way to the publishing thread.
    pub(super) outbox: Outbox,
    /// The publishing thread, as the tick thread sees it.
    pub(super) companion: Companion,
    pub(super) observer: Arc<dyn Observer>,
    /// Set when the threads must end.
    stop: AtomicBool,
}

impl Runtime {
    /// Makes a runtime. [`Threads::start`](super::Threads::start) starts its threads.
    pub fn new(pipeline: Pipeline, clock: Clock) -> Self {
        Self::observed(pipeline, clock, Arc::new(()))
    }

    /// Makes a runtime as [`Runtime::new`] does, with an observer.
    pub fn observed(pipeline: Pipeline, clock: Clock, observer: Arc<dyn Observer>) -> Self {
        let config = pipeline.config();
        let time = clock.time().clone();
        Runtime {
            ticks: TickStats::default(),
            commands: None,
            digest: true,
            recorded_segments: None,
            recorder: None,
            clock_publishers: Mutex::default(),
            topics: Mutex::default(),
            standstills: Arc::new(Standstills::new(time.clone())),
            node_time: NodeTime::new(clock.is_simulated(), time.clone()),
            inputs: config.inputs.iter().map(InputState::new).collect(),
            streams: config.streams.iter().map(|_| StreamState::default()).collect(),
            has_workers: true,
            queue: Queue::new(QUEUED_MESSAGES, queue::lanes(config), time.clone()),
            waiting: config.tf.map(|_| Mutex::new(Waiting::new(config))),
            epoch: AtomicU64::default(),
            outbox: Outbox::new(|| pipeline.new_message()),
            companion: Companion::default(),
            observer,
            stop: AtomicBool::new(false),
            pipeline,
            clock,
            time,
        }
    }

    /// Observes the threads by another observer.
    pub fn set_observer(&mut self, observer: Arc<dyn Observer>) {
        self.observer = observer;
    }

    /// Adds the commands of the configuration. The user must give a publisher of commands to
    /// [`Threads::start`](super::Threads::start).
    #[must_use]
    pub fn with_commands(mut self) -> Self {
        self.add_commands();
        self
    }

    /// Adds the commands of the configuration.
    pub(super) fn add_commands(&mut self) {
        let spec = self.pipeline.config().commands.as_ref();
        self.commands = spec.map(|spec| Box::new(Commands::new(spec)));
    }

    /// Removes the encode workers: the caller's thread pushes large messages, too.
    pub(super) fn without_workers(self) -> Self {
        Runtime { has_workers: false, ..self }
    }

    /// True if messages of an input go to the encode workers.
    pub(super) fn is_queued(&self, input: InputId) -> bool {
        self.has_workers && self.input_spec(input).is_large()
    }

    /// The loops on a grid, *fuse* first: the name of the thread of each, its ticks and its counters.
    pub fn loops(&self) -> impl Iterator<Item = (&'static str, TickGrid, &GridStats)> {
        let fuse = (TickStats::THREAD, self.pipeline.config().grid, &self.ticks.grid);
        let commands = self.commands.iter();
        let commands = commands.map(|of| (Commands::THREAD, of.spec.grid, &of.grid));
        std::iter::once(fuse).chain(commands)
    }

    /// All inputs.
    pub fn inputs(&self) -> impl Iterator<Item = InputId> + use<> {
        self.pipeline.config().input_ids()
    }

    /// The inputs of a stream; for `None`, the inputs that belong to no stream.
    pub fn inputs_of(&self, stream: Option<StreamId>) -> impl Iterator<Item = InputId> {
        self.inputs().filter(move |input| self.input_spec(*input).stream == stream)
    }

    /// All streams.
    pub fn streams(&self) -> impl Iterator<Item = StreamId> + use<> {
        self.pipeline.config().stream_ids()
    }

    /// An input's configuration.
    pub fn input_spec(&self, input: InputId) -> &InputSpec {
        self.pipeline.config().input(input)
    }

    /// Returns the nanoseconds from an instant to now.
    pub(super) fn nanos_since(&self, instant: Instant) -> i64 {
        elapsed_ns(instant, self.time.monotonic())
    }

    /// A stream's configuration.
    pub fn stream_spec(&self, stream: StreamId) -> &StreamSpec {
        self.pipeline.config().stream(stream)
    }

    /// The pipeline's counters of an input's messages.
    pub fn input_stats(&self, input: InputId) -> &InputStats {
        self.pipeline.input_stats(input)
    }

    /// The pipeline's counters of a stream's rows and steps.
    pub fn stream_stats(&self, stream: StreamId) -> &StreamStats {
        self.pipeline.stats(stream)
    }

    /// The runtime's own state of an input.
    pub fn input(&self, input: InputId) -> &InputState {
        &self.inputs[input.index()]
    }

    /// The runtime's own state of a stream.
    pub fn stream(&self, stream: StreamId) -> &StreamState {
        &self.streams[stream.index()]
    }

    /// True if the threads must end.
    pub fn stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Counts the silence of each input from now on: the process stood still, so the silence before says
    /// nothing about the sensors.
    pub fn excuse_silence(&self) {
        let now = self.node_time.now();
        self.inputs.iter().for_each(|input| lock(&input.arrivals).excuse(now));
    }

    /// Asks the threads to end. Each checks this at least every 50 ms.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.queue.close();
        self.outbox.close();
    }

    /// Fuses a tick of an epoch.
    pub(super) fn fuse(
        &self,
        tick: i64,
        epoch: Epoch,
        message: &mut TensorMessage,
    ) -> Result<TickOutcome, RuntimeError> {
        self.pipeline.tick(tick, epoch, message).map_err(|source| {
            let operation = format!("fuse tick {tick}");
            RuntimeError::Backend { operation, source }
        })
    }

    /// Reports the outcome of a message to the recorder, if there is one and the message is in the recording.
    pub(super) fn record_outcome(&self, number: u64, input: InputId, outcome: MessageOutcome) {
        let Some(recorder) = self.recorder.as_ref().filter(|_| number != 0) else { return };
        let at = self.clock.now().map(|now| now.stamp);
        recorder.note(Event::MessageOutcome { number, input, outcome, at });
    }

    /// Reports the outcome of a tick to the recorder.
    pub(super) fn record_tick(&self, tick: i64, epoch: Epoch, changes: u64, fate: TickFate) {
        if let Some(recorder) = &self.recorder {
            recorder.note(Event::Tick(TickRecord { tick, epoch, changes, fate }));
        }
    }

    /// Gives a message to the recorder. Returns its number, and its bytes for the pipeline.
    pub(super) fn record(
        &self,
        recorder: &dyn Recorder,
        input: InputId,
        published: Option<Stamp>,
        bytes: SharedBytes,
        arrival: Arrival,
    ) -> (u64, SharedMessage) {
        let shared = SharedMessage(Arc::clone(&bytes));
        let at = match arrival.stamp {
            Some(stamp) if !self.clock.is_simulated() => stamp,
            _ => self.time.system(),
        };
        (recorder.received(ReceivedMessage { input, bytes, arrival, at, published }), shared)
    }
}
