//! State of ticks, inputs and streams beyond the pipeline's counters.

use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use super::measure::{Arrivals, DropDetails, Holding, Latency};
use super::offered_qos::{OfferedQos, PublisherSeen, SharedQos};
use super::publisher::Origin;
use super::recorder::SharedBytes;
use robocache_core::histogram::Histogram;
use robocache_core::pipeline::Counter;
use robocache_core::spec::InputSpec;
use robocache_ops::align::NO_AGE;
use robocache_ops::sync::lock;
use robocache_ops::time::{Epoch, Stamp};

/// Counters of the ticks.
#[derive(Debug, Default)]
pub struct TickStats {
    /// Tensors published.
    pub published: Counter,
    /// Tensors that were not published, because nobody took them.
    pub unread: Counter,
    /// Ticks without a tensor because a required stream was invalid.
    pub held_back: Counter,
    /// The stream that held back the newest of them.
    pub held_back_by: AtomicUsize,
    /// State of the log about held back ticks. The thread that serves ticks notes it, and the one that reports logs it.
    pub(super) holding: Mutex<Holding>,
    /// Tensors that a newer one replaced before the publishing thread sent them.
    pub unsent: Counter,
    /// Tensors that the middleware refused.
    pub publish_failed: Counter,
    /// Tensors that were not sent through shared memory, because it failed.
    pub share_failed: Counter,
    /// Readers of shared memory that the newest tensor went to; 0 without shared memory.
    pub shared_readers: AtomicUsize,
    /// The newest tick served.
    pub newest: AtomicI64,
    /// Time from a tick's instant until its publication returns. A simulator's clock does not move
    /// in between. There the time begins at the arrival of the `/clock` message that made the tick
    /// due.
    pub latency: Latency,
    /// Time from a tick's instant until its tensor is finished, before it waits for the publishing thread.
    pub fused: Latency,
    /// Counters of the loop itself.
    pub grid: GridStats,
}

/// Counters of a loop that works at the ticks of a grid.
#[derive(Debug, Default)]
pub struct GridStats {
    /// Ticks that were served.
    pub served: Counter,
    /// Ticks that were due and not served.
    pub overruns: Counter,
    /// Time from a tick's instant until the thread runs, for the ticks that it waited for: how late the system wakes it.
    pub woken: Latency,
    /// Real-time priority in effect for the thread, 0 for ordinary.
    pub priority: AtomicU8,
}

impl TickStats {
    /// Name of the thread that serves these ticks.
    pub const THREAD: &'static str = "tick";
}

/// State of one input outside the pipeline.
#[derive(Debug)]
pub struct InputState {
    /// The recent arrivals.
    pub arrivals: Mutex<Arrivals>,
    /// From the stamp of an image or a cloud until its row is in the ring, on the node's clock
    /// \[ns\]. Empty under `timeline: receive`.
    pub ready: Histogram,
    /// Messages that the middleware's full queue dropped; it drops the oldest first. It counts only if
    /// [`tells_lost`](InputState::tells_lost) is set.
    pub queue_full: Counter,
    /// Messages that were lost between the publisher and that queue. It counts only if
    /// [`tells_lost`](InputState::tells_lost) is set. [`Arrivals::missing`] guesses them from the
    /// stamps, together with messages that were never sent.
    pub lost: Counter,
    /// True if the middleware tells which messages were lost: then its messages have numbers.
    pub tells_lost: AtomicBool,
    /// How often the middleware failed to give a message that waited.
    pub take_failed: Counter,
    /// How often the input was subscribed to again through a new connection, after the process stood still.
    pub resubscribed: Counter,
    /// How often the input was subscribed to again, because its publishers offer another quality of
    /// service than before.
    pub adapted: Counter,
    /// Messages that a publisher sent once more to a new subscription.
    pub repeated: Counter,
    /// Quality of service that the subscription asks for.
    pub asks: SharedQos,
    /// Quality of service that the subscription must ask for, by the last reading of the graph.
    pub wants: SharedQos,
    /// Publishers that the middleware did not connect, because their quality of service does not
    /// fit. It counts all since the subscription began.
    pub incompatible: AtomicU64,
    /// Publishers at the last reading of the graph; `None` before the first.
    pub publishers: Mutex<Option<Vec<PublisherSeen>>>,
    /// The epoch and the receive stamp of the newest message; `None` before the first. The receiving thread
    /// alone uses it.
    received: Mutex<Option<(Epoch, Stamp)>>,
    /// The newest message, if messages are latched and may be needed again.
    pub(super) latched: Mutex<Option<Latched>>,
    /// True if the newest latched message is kept.
    pub(super) keeps: AtomicBool,
    /// When it is taken once more.
    pub(super) retry: Mutex<Option<Retry>>,
    /// The number of the newest epoch in which a message was taken.
    pub(super) taken_in: AtomicU64,
    /// Why the newest message does not count in this epoch, if it is latched.
    pub(super) left_out: AtomicU8,
    /// The details of its newest drops.
    pub(super) drop_details: Mutex<DropDetails>,
}

impl InputState {
    /// The state of an input that begins with the node's time.
    pub(super) fn new(spec: &InputSpec) -> Self {
        let request = OfferedQos::at_first(spec);
        InputState {
            arrivals: Mutex::new(Arrivals::new(Duration::ZERO)),
            ready: Histogram::default(),
            queue_full: Counter::default(),
            lost: Counter::default(),
            tells_lost: AtomicBool::new(false),
            take_failed: Counter::default(),
            resubscribed: Counter::default(),
            adapted: Counter::default(),
            repeated: Counter::default(),
            asks: SharedQos::new(request),
            wants: SharedQos::new(request),
            incompatible: AtomicU64::new(0),
            publishers: Mutex::new(None),
            received: Mutex::new(None),
            latched: Mutex::new(None),
            keeps: AtomicBool::new(false),
            retry: Mutex::new(None),
            taken_in: AtomicU64::new(0),
            left_out: AtomicU8::new(0),
            drop_details: Mutex::default(),
        }
    }

    /// The receive stamp of a message of this epoch, but later than that of every message of the input
    /// before it. Otherwise two messages of one receive stamp would replace each other.
    pub(super) fn next_received(&self, epoch: Epoch, received: Stamp) -> Stamp {
        let mut newest = lock(&self.received);
        let before = newest.filter(|(of, _)| *of == epoch);
        let received = before.map_or(received, |(_, before)| received.max(before.offset(1)));
        *newest = Some((epoch, received));
        received
    }

    /// Returns how many messages were lost on the way; `None` if the middleware does not tell.
    pub fn lost_on_the_way(&self) -> Option<u64> {
        self.tells_lost.load(Ordering::Relaxed).then(|| self.lost.get())
    }
}

/// The newest message of a latched input.
pub(super) struct Latched {
    pub bytes: SharedBytes,
    pub origin: Origin,
    /// The epoch in which it was taken last.
    pub epoch: Epoch,
    /// The instant of its arrival then.
    pub at: Option<Stamp>,
}

impl fmt::Debug for Latched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes of {:?}", (*self.bytes).as_ref().len(), self.epoch)
    }
}

/// When a latched message is taken once more, because a transform had not come.
#[derive(Clone, Copy, Debug)]
pub(super) struct Retry {
    pub epoch: Epoch,
    /// `None` while it is on its way.
    pub at: Option<Stamp>,
    pub wait_ns: i64,
}

/// State of one stream outside the pipeline.
#[derive(Debug)]
pub struct StreamState {
    /// Age of the newest step of the last tick \[ns\].
    pub age_ns: AtomicI64,
}

impl Default for StreamState {
    fn default() -> Self {
        StreamState { age_ns: AtomicI64::new(NO_AGE) }
    }
}
