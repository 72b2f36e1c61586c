//! Gives a [`Pipeline`] a clock and threads. It needs no ROS: the user gives it messages and a
//! [`Publisher`].
//!
//! There are several threads, so that work with a deadline never waits for work without one:
//!
//! - *tick* ([`ticker`]) sleeps until the next tick, fuses, and leaves the tensor in the [`outbox`].
//! - *publish* ([`publishing`]) gives the newest tensor to the publisher, which may take long.
//! - *encode* ([`workers`]), one or several, push the large messages that wait in the [`queue`]. The
//!   first also drops the messages whose wait for a transform is over.
//! - The user receives messages on its own threads, which [`Threads::spawn`] starts, and calls
//!   [`Runtime::receive`]. Small messages go straight into their rings, large ones into the queue.
//!
//! When the [`clock`] jumps back, an [`Epoch`](robocache_ops::time::Epoch) begins. Each message and each
//! tick carries the epoch in which it was stamped or due. The first thread that brings a newer
//! epoch clears the rings. The rings then refuse messages of earlier epochs, so no thread has to
//! wait for another.
//!
//! [`Runtime::give`] and [`Runtime::tick`] are for a caller that has a clock and threads of its own.
//!
//! A [`Player`] does the same with recorded messages, in their order and without a clock of its own.
//!
//! [`health`] counts and judges what happens, and reports it in words.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

pub mod clock;
mod companion;
mod direct;
mod encode_threads;
mod error;
pub mod health;
mod intake;
mod latched;
mod offered_qos;
mod outbox;
mod player;
mod ports;
mod priority;
mod publisher;
mod publishing;
mod queue;
mod recorder;
mod schedule;
mod sim_clock;
mod standstill;
mod state;
#[cfg(test)]
mod tests;
mod threads;
mod ticker;
mod waiting;
mod workers;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

pub use clock::{Clock, Reading, Transit, decode_clock, system_now};
pub use encode_threads::{LookAhead, ROWS_AHEAD, Ticket};
pub use error::RuntimeError;
pub use offered_qos::{OfferedQos, PublisherSeen, SharedQos, is_adapted};
pub use player::{Player, Received, Served, Tick};
pub use ports::{DueTick, Observer, Publisher, Refused};
pub use priority::{LockMemoryError, LockedMemory, Placement, lock_memory};
pub use publisher::{Origin, PublisherId};
pub use queue::Message;
pub use recorder::{
    ClockMessage, Event, MessageOutcome, ReceivedMessage, Recorder, RecorderStatus, SharedBytes,
    TickFate, TickRecord,
};
pub use sim_clock::RuntimeSimClock;
pub use standstill::{STILL, Standstills, Witness, since_boot_ns};
pub use state::{InputState, StreamState, TickStats};
pub use threads::{ThreadOptions, Threads};
use waiting::Waiting;

use companion::Companion;
use health::NodeTime;
use outbox::Outbox;
use queue::Queue;
use robocache_core::message::TensorMessage;
use robocache_core::pipeline::{InputStats, Pipeline, StreamStats, TickOutcome};
use robocache_core::spec::{InputId, InputSpec, StreamId, StreamSpec};
use robocache_ops::sync::lock;
use schedule::elapsed_ns;

/// Messages of one large input that may wait for an encode worker. Four are about a tenth of a
/// second of a camera, for moments in which the processor is busy.
pub const QUEUED_MESSAGES: usize = 4;

/// Everything that several threads use. Its mutexes guard only diagnostics, so no tensor depends on
/// data that a panic could leave half changed. A panic also ends the runtime.
pub struct Runtime {
    /// The streams and the tensor.
    pub pipeline: Pipeline,
    /// The clock.
    pub clock: Clock,
    /// The counters of the tick thread.
    pub ticks: TickStats,
    /// Whether each tensor is sealed with a digest before it is published; true at first.
    pub digest: bool,
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
    inputs: Vec<InputState>,
    /// By [`StreamId`].
    streams: Vec<StreamState>,
    /// Whether encode workers push large messages. If not, the receiving thread does.
    has_workers: bool,
    /// Large messages on their way to the workers.
    queue: Queue,
    /// Messages that wait for a transform; `None` if no message needs one.
    waiting: Option<Mutex<Waiting>>,
    /// The number of the newest epoch that has begun.
    epoch: AtomicU64,
    /// Tensors on their way to the publishing thread.
    outbox: Outbox,
    /// Where the publishing thread runs.
    companion: Companion,
    observer: Arc<dyn Observer>,
    /// Set when the threads must end.
    stop: AtomicBool,
}

impl Runtime {
    /// Makes a runtime. [`Threads::start`] starts its threads.
    pub fn new(pipeline: Pipeline, clock: Clock) -> Self {
        Self::observed(pipeline, clock, Arc::new(()))
    }

    /// Makes a runtime as [`Runtime::new`] does, with an observer.
    pub fn observed(pipeline: Pipeline, clock: Clock, observer: Arc<dyn Observer>) -> Self {
        let config = pipeline.config();
        Runtime {
            ticks: TickStats::default(),
            digest: true,
            recorder: None,
            clock_publishers: Mutex::default(),
            topics: Mutex::default(),
            standstills: Arc::default(),
            node_time: NodeTime::new(clock.is_simulated()),
            inputs: config.inputs.iter().map(InputState::new).collect(),
            streams: config.streams.iter().map(|_| StreamState::default()).collect(),
            has_workers: true,
            queue: Queue::of(config, QUEUED_MESSAGES),
            waiting: config.tf.map(|_| Mutex::new(Waiting::new(config))),
            epoch: AtomicU64::default(),
            outbox: Outbox::new(|| pipeline.new_message()),
            companion: Companion::default(),
            observer,
            stop: AtomicBool::new(false),
            pipeline,
            clock,
        }
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

    /// Returns the nanoseconds from a tick's instant to now, as [`TickStats::latency`] defines them.
    fn nanos_since_due(&self, tick: i64, due: Reading) -> i64 {
        let late = match self.clock.is_simulated() {
            false => due.stamp.since(self.pipeline.config().grid.stamp_of(tick)),
            true => 0,
        };
        late.saturating_add(elapsed_ns(due.since, Instant::now()))
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

    /// Whether the threads must end.
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

    /// Fuses the tick that became due at the reading `due`.
    fn fuse(
        &self,
        tick: i64,
        due: Reading,
        message: &mut TensorMessage,
    ) -> Result<TickOutcome, RuntimeError> {
        self.pipeline.tick(tick, due.epoch, message).map_err(|source| {
            let operation = format!("fuse tick {tick}");
            RuntimeError::Backend { operation, source }
        })
    }
}
