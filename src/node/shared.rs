//! What the threads of the node share.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicUsize, Ordering};
use std::time::Instant;

use super::arrivals::Arrivals;
use super::clock::{Advance, NodeClock, Reading, SimClock};
use super::error::NodeError;
use super::inbox::{Inbox, Message};
use super::latency::Latency;
use super::publishers::PublisherSeen;
use crate::align::NO_AGE;
use crate::config::{Source, StreamSpec};
use crate::decode::DecodeError;
use crate::message::Frame;
use crate::pipeline::{Pipeline, PushError, TickOutcome};
use crate::stats::{Counter, DropReason};
use crate::sync::lock;
use crate::time::Stamp;

/// Messages of a large stream that wait for the encoder: a tenth of a second of a camera, for the
/// moments in which the processor is elsewhere.
const INBOX_MESSAGES: usize = 4;

/// Everything that more than one thread touches. Of the mutexes, two hold nothing and the others
/// what diagnostics show: no tensor depends on what a panic could leave there, and it ends the node.
pub struct Shared {
    /// The streams and the tensor.
    pub pipeline: Pipeline,
    /// The node's clock.
    pub clock: NodeClock,
    /// Large messages on their way to the encoder.
    pub inbox: Inbox,
    /// What the tick thread counts.
    pub ticks: TickStats,
    /// By stream index: what the pipeline does not count.
    pub streams: Vec<StreamState>,
    /// Set when the threads are to end.
    stop: AtomicBool,
    /// Held while a message of the inbox is encoded, and while everything is cleared.
    encoding: Mutex<()>,
    /// Held while a simulator's clock jumps back and everything is cleared, and while a tick is
    /// fused: a tick of before the jump must not meet rings of after it.
    jumping: Mutex<()>,
}

/// Counters of the ticks.
#[derive(Debug)]
pub struct TickStats {
    /// Tensors published.
    pub published: Counter,
    /// Ticks without a tensor because a required stream was invalid.
    pub held_back: Counter,
    /// The stream that held back the newest of those.
    pub held_back_by: AtomicUsize,
    /// Ticks that were due and not served.
    pub overruns: Counter,
    /// Times the system's clock was set ahead; jumps back are counted by the pipeline.
    pub clock_set_ahead: Counter,
    /// Tensors that the middleware refused.
    pub publish_failed: Counter,
    /// The newest tick served.
    pub newest: AtomicI64,
    /// From a tick's instant to the return of its publication. A simulator's clock stands still in
    /// between: there it begins with the arrival of the message on `/clock` that made the tick due.
    pub latency: Latency,
    /// Real-time priority of the tick thread as it is in effect, 0 for ordinary.
    pub priority: AtomicU8,
}

/// State of one stream outside the pipeline.
#[derive(Debug)]
pub struct StreamState {
    /// How messages arrive.
    pub arrivals: Mutex<Arrivals>,
    /// Times the middleware's queue was found full, so that it may have dropped messages. What it
    /// loses while a publisher sends lost messages anew may show in [`Arrivals::missing`] alone, and
    /// so nowhere if the stamps have no period.
    pub queue_full: Counter,
    /// Publishers seen at the last look at the graph; `None` before the first.
    pub publishers: Mutex<Option<Vec<PublisherSeen>>>,
    /// Age of the newest step of the last tick \[ns\].
    pub age_ns: AtomicI64,
    /// By drop reason: whether it has been logged in detail.
    explained: [AtomicBool; DropReason::ALL.len()],
}

impl Shared {
    /// The state at the start.
    pub fn new(pipeline: Pipeline, clock: NodeClock) -> Self {
        let start = Instant::now();
        let state = |_| StreamState {
            arrivals: Mutex::new(Arrivals::new(start)),
            queue_full: Counter::default(),
            publishers: Mutex::new(None),
            age_ns: AtomicI64::new(NO_AGE),
            explained: std::array::from_fn(|_| AtomicBool::new(false)),
        };
        let streams = pipeline.config().streams.iter().map(state).collect();
        let ticks = TickStats {
            published: Counter::default(),
            held_back: Counter::default(),
            held_back_by: AtomicUsize::new(0),
            overruns: Counter::default(),
            clock_set_ahead: Counter::default(),
            priority: AtomicU8::new(0),
            publish_failed: Counter::default(),
            newest: AtomicI64::new(0),
            latency: Latency::default(),
        };
        let stop = AtomicBool::new(false);
        let (encoding, jumping) = (Mutex::new(()), Mutex::new(()));
        let inbox = Inbox::new(INBOX_MESSAGES);
        Shared { pipeline, clock, inbox, ticks, streams, stop, encoding, jumping }
    }

    /// A stream's configuration.
    pub fn spec(&self, stream: usize) -> &StreamSpec {
        &self.pipeline.config().streams[stream]
    }

    /// Whether the threads are to end.
    pub fn stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Asks the threads to end; each looks at least every 50 ms.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.inbox.close();
    }

    /// Hands a message on: small ones to the pipeline, large ones to the encoder thread, which
    /// has milliseconds for them that the spin thread has not.
    pub fn receive(&self, message: Message) -> Result<(), NodeError> {
        match self.spec(message.stream).source {
            Source::Vector(_) => self.push(&message),
            Source::Image(_) | Source::Cloud(_) => {
                if let Some(overwritten) = self.inbox.put(message) {
                    self.pipeline.drop_unseen(overwritten.stream, DropReason::Overload);
                    lock(&self.streams[overwritten.stream].arrivals)
                        .note_dropped(Instant::now(), DropReason::Overload);
                    let detail = "the encoder could not keep up; the oldest message went";
                    self.explain(overwritten.stream, DropReason::Overload, detail);
                }
                Ok(())
            }
        }
    }

    /// Encodes what comes into the inbox until the node stops.
    pub fn encode(&self) -> Result<(), NodeError> {
        while self.inbox.wait() {
            let _encoding = lock(&self.encoding);
            // Taken under the lock, so that a message from before a jump of the clock cannot be
            // pushed after the rings were cleared.
            if let Some(message) = self.inbox.take() {
                self.push(&message)?;
            }
        }
        Ok(())
    }

    fn push(&self, message: &Message) -> Result<(), NodeError> {
        let Message { stream, bytes, receive } = message;
        let outcome = self.pipeline.push(*stream, bytes, *receive);
        let arrivals = || lock(&self.streams[*stream].arrivals);
        match outcome {
            Ok(accepted) => arrivals().note(Instant::now(), accepted.stamp),
            Err(PushError::Dropped(DecodeError { reason, detail })) => {
                arrivals().note_dropped(Instant::now(), reason);
                self.explain(*stream, reason, &detail);
            }
            Err(PushError::Backend(source)) => {
                let name = &self.spec(*stream).name;
                let operation = format!("encode a message of stream '{name}'");
                return Err(NodeError::Backend { operation, source });
            }
        }
        Ok(())
    }

    /// Logs the first drop of each stream and reason; the others are summed up by the monitor.
    fn explain(&self, stream: usize, reason: DropReason, detail: &str) {
        if !self.streams[stream].explained[reason as usize].swap(true, Ordering::Relaxed) {
            let StreamSpec { name, topic, .. } = self.spec(stream);
            tracing::warn!(
                "stream '{name}' ({topic}): message dropped, {}: {detail}",
                reason.name()
            );
        }
    }

    /// Sets a simulator's clock. After a jump back everything is cleared here, before any later
    /// message of a stream is taken.
    pub fn set_clock(&self, clock: &SimClock, stamp: Stamp) -> Advance {
        let advance = clock.compare(stamp);
        // Only a jump waits for the tick that is being fused.
        let _jumping = if let Advance::Back(by) = advance {
            let jumping = lock(&self.jumping);
            self.reset(stamp.offset(by), stamp);
            Some(jumping)
        } else {
            None
        };
        clock.set(stamp);
        advance
    }

    /// Fuses the tick that the clock made due at the reading `due`; `None` where the clock has
    /// jumped back since, so that the tick is no more.
    pub fn fuse(
        &self,
        tick: i64,
        due: Reading,
        frame: &mut Frame,
    ) -> Result<Option<TickOutcome>, NodeError> {
        let _jumping = lock(&self.jumping);
        if self.clock.now().is_none_or(|now| now.epoch != due.epoch) {
            return Ok(None);
        }
        self.pipeline.tick(tick, frame).map(Some).map_err(|source| {
            let operation = format!("fuse tick {tick}");
            NodeError::Backend { operation, source }
        })
    }

    /// Clears everything that came before the clock jumped back.
    pub fn reset(&self, from: Stamp, to: Stamp) {
        let _encoding = lock(&self.encoding);
        while let Some(message) = self.inbox.take() {
            self.pipeline.drop_unseen(message.stream, DropReason::Cleared);
        }
        self.pipeline.reset(from);
        self.streams.iter().for_each(|stream| lock(&stream.arrivals).restart());
        tracing::warn!("the clock jumped back from {from} to {to}: all streams start anew");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::cpu::CpuBackend;
    use crate::backend::{Backend, BackendError, EncodeReport, Sample, Slot, StepJob};
    use crate::cdr::Writer;
    use crate::config::Config;
    use crate::layout::Layout;
    use std::path::Path;
    use std::sync::Arc;

    /// A backend whose memory is gone.
    struct Failing;

    impl Failing {
        fn error() -> BackendError {
            BackendError::Unavailable { backend: "failing", detail: "out of memory".into() }
        }
    }

    impl Backend for Failing {
        fn name(&self) -> &'static str {
            "failing"
        }

        fn encode(&self, _: usize, _: Slot, _: Sample<'_>) -> Result<EncodeReport, BackendError> {
            Err(Failing::error())
        }

        fn fuse(&self, _: &[StepJob], _: &mut [u8]) -> Result<(), BackendError> {
            Err(Failing::error())
        }
    }

    fn shared() -> Shared {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/robocache.yaml");
        shared_on(&std::fs::read_to_string(file).unwrap(), |_| Arc::new(Failing))
    }

    fn shared_on(config: &str, backend: impl Fn(&Config) -> Arc<dyn Backend>) -> Shared {
        let config = crate::config::parse(config, "test.yaml").unwrap();
        let (grid, backend) = (config.grid, backend(&config));
        Shared::new(Pipeline::new(config, backend), NodeClock::Sim(SimClock::new(grid)))
    }

    #[test]
    fn a_tick_of_before_a_jump_is_not_served_after_it() {
        let config = "rate_hz: 100\nstreams: {w: {type: geometry_msgs/WrenchStamped, topic: /w, \
                      max_age_ms: 50}}";
        let backend = |config: &Config| -> Arc<dyn Backend> {
            Arc::new(CpuBackend::new(config, &Layout::new(config)).unwrap())
        };
        let shared = shared_on(config, backend);
        let NodeClock::Sim(clock) = &shared.clock else { unreachable!() };
        let mut frame = shared.pipeline.new_frame();
        let at = |tick: i64| shared.pipeline.config().grid.stamp_of(tick);
        assert_eq!(shared.set_clock(clock, at(500)), Advance::Started);
        let old = shared.clock.now().unwrap();
        assert!(shared.fuse(500, old, &mut frame).unwrap().is_some());
        // The tick thread has read the clock, then the spin thread sets it back.
        assert!(matches!(shared.set_clock(clock, at(100)), Advance::Back(_)));
        assert_eq!(shared.fuse(501, old, &mut frame).unwrap(), None);
        let mut writer = Writer::new();
        writer.header(at(100), "tool");
        writer.f64_array(&[1.0; 6]);
        shared.receive(message(0, writer.finish())).unwrap();
        let new = shared.clock.now().unwrap();
        assert_eq!(shared.fuse(100, new, &mut frame).unwrap(), Some(TickOutcome::Ready));
        assert!(frame.steps(0)[0].valid, "the row of after the jump is still there");
        assert_eq!(shared.pipeline.clock_jumps(), 1);
    }

    fn stream(shared: &Shared, name: &str) -> usize {
        shared.pipeline.config().streams.iter().position(|s| s.name == name).unwrap()
    }

    fn message(stream: usize, bytes: Vec<u8>) -> Message {
        Message { stream, bytes, receive: Stamp::ZERO }
    }

    #[test]
    fn a_failing_backend_ends_the_node_and_the_error_says_what_failed() {
        let shared = shared();
        let wrench = stream(&shared, "wrench");
        let mut writer = Writer::new();
        writer.header(Stamp::from_nanos(5), "tool");
        writer.f64_array(&[0.0; 6]);
        let error = shared.receive(message(wrench, writer.finish())).unwrap_err().to_string();
        assert_eq!(error, "encode a message of stream 'wrench': backend failing: out of memory");
    }

    #[test]
    fn a_malformed_message_is_dropped_and_counted_and_still_an_arrival() {
        let shared = shared();
        let wrench = stream(&shared, "wrench");
        shared.receive(message(wrench, vec![0, 1, 0, 0, 9])).unwrap();
        let stats = shared.pipeline.stats(wrench);
        assert_eq!((stats.received.get(), stats.dropped(DropReason::Malformed)), (1, 1));
        assert!(lock(&shared.streams[wrench].arrivals).silence(Instant::now()).0);
    }

    #[test]
    fn images_that_wait_too_long_or_from_before_a_jump_are_counted() {
        let shared = shared();
        let camera = stream(&shared, "camera_front");
        for _ in 0..INBOX_MESSAGES + 3 {
            shared.receive(message(camera, vec![])).unwrap();
        }
        shared.reset(Stamp::from_nanos(9), Stamp::from_nanos(2));
        let stats = shared.pipeline.stats(camera);
        assert_eq!(stats.dropped(DropReason::Overload), 3);
        assert_eq!(stats.dropped(DropReason::Cleared), INBOX_MESSAGES as u64);
        assert_eq!(stats.received.get(), stats.dropped_total());
        assert_eq!(shared.pipeline.clock_jumps(), 1);
        assert!(shared.inbox.take().is_none());
    }
}
