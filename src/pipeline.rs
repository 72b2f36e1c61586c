//! Messages in, fused tensors out: [`Pipeline::push`] and [`Pipeline::tick`].
//!
//! No ROS, no clock and no thread of its own. All methods take `&self`, so that a live node can
//! push from one thread while it ticks on another: a message is decoded and encoded outside of
//! the lock that a tick takes, and enters its ring in a step of constant time.

mod decoder;

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use self::decoder::Decoder;
use crate::align::{AlignRule, Value, align};
use crate::backend::{Backend, BackendError, StepJob};
use crate::config::{Config, StreamSpec, Timeline};
use crate::decode::{DecodeError, Header};
use crate::layout::Layout;
pub use crate::message::Frame;
use crate::message::StepState;
use crate::ring::{Inserted, Lease, Ring};
use crate::stats::{Counter, DropReason, StreamStats};
use crate::sync::lock;
use crate::time::{NANOS_PER_MS, NANOS_PER_S, Stamp};

/// A header's stamp may be this far ahead of the node's clock \[ns\], which is more than clocks that
/// are meant to agree differ. A row further ahead would stand in its ring as the newest until the
/// clock gets there.
const MAX_AHEAD_NS: i64 = NANOS_PER_S;

/// After a jump back of the clock, until it passes the instant it jumped from, a header's stamp may
/// be no further ahead than this, or one tick if that is longer: what is, was stamped before the
/// jump and has only now come through the middleware.
const MAX_AHEAD_AFTER_JUMP_NS: i64 = 10 * NANOS_PER_MS;

/// Tells the frames of one pipeline from those of another.
static PIPELINES: AtomicU64 = AtomicU64::new(1);

/// A message that became a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// Where the row stands in time, offset included.
    pub stamp: Stamp,
}

/// Why a message did not become a row.
#[derive(Debug, thiserror::Error)]
pub enum PushError {
    /// It was dropped, and counted.
    #[error(transparent)]
    Dropped(#[from] DecodeError),
    /// The backend failed; nothing more can be computed.
    #[error(transparent)]
    Backend(BackendError),
}

/// What became of a tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TickOutcome {
    /// The frame holds the tensor of this tick.
    Ready,
    /// A required stream has an invalid step; the frame is not to be published.
    HeldBack {
        /// The first such stream.
        stream: usize,
    },
}

/// A frame whose notes are ahead of its data, which still is that of an earlier tick. Forgets the
/// rows when it goes: where a tick is held back, fails or panics.
struct Unfused<'a>(&'a mut Frame);

impl Unfused<'_> {
    /// The data is what the notes say.
    fn fused(self) {
        std::mem::forget(self);
    }
}

impl Drop for Unfused<'_> {
    fn drop(&mut self) {
        self.0.forget_rows();
    }
}

/// All streams of a configuration, from their messages to the fused tensor.
pub struct Pipeline {
    id: u64,
    config: Config,
    layout: Layout,
    backend: Arc<dyn Backend>,
    streams: Vec<Stream>,
    /// All rings under one lock: a tick sees one state of the robot. Only reads them while anything
    /// that could panic runs, so that a panic leaves them whole.
    rings: Mutex<Vec<Ring>>,
    ticker: Mutex<Ticker>,
    clock_jumps: Counter,
    /// Where the clock last jumped back from \[ns\].
    jumped_from: AtomicI64,
}

struct Stream {
    rule: AlignRule,
    /// Held while a message is decoded and encoded; a panic meanwhile ends the stream.
    decoder: Mutex<Decoder>,
    stats: StreamStats,
    held_back: Counter,
}

/// One plain value and a list that every tick starts by clearing, so that a panic leaves nothing
/// half done.
#[derive(Default)]
struct Ticker {
    last: Option<i64>,
    jobs: Vec<StepJob>,
}

impl Pipeline {
    /// A pipeline with empty rings. The backend must have been made for the same configuration.
    pub fn new(config: Config, backend: Arc<dyn Backend>) -> Self {
        let layout = Layout::new(&config);
        let rings = config.streams.iter().map(|spec| Ring::new(spec.ring_rows)).collect();
        let streams = config
            .streams
            .iter()
            .map(|spec| Stream {
                rule: AlignRule::from(spec),
                decoder: Mutex::new(Decoder::new(spec)),
                stats: StreamStats::default(),
                held_back: Counter::default(),
            })
            .collect();
        Pipeline {
            id: PIPELINES.fetch_add(1, Ordering::Relaxed),
            config,
            layout,
            backend,
            streams,
            rings: Mutex::new(rings),
            ticker: Mutex::default(),
            clock_jumps: Counter::default(),
            jumped_from: AtomicI64::new(i64::MIN),
        }
    }

    /// The configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Where the segments stand in the tensor.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The name of the backend.
    pub fn backend_name(&self) -> &'static str {
        self.backend.name()
    }

    /// Counters of a stream.
    pub fn stats(&self, stream: usize) -> &StreamStats {
        &self.streams[stream].stats
    }

    /// Ticks that a required stream held back.
    pub fn held_back(&self, stream: usize) -> u64 {
        self.streams[stream].held_back.get()
    }

    /// How often the clock jumped back.
    pub fn clock_jumps(&self) -> u64 {
        self.clock_jumps.get()
    }

    /// Memory for one output.
    pub fn new_frame(&self) -> Frame {
        Frame::new(&self.layout, &self.config.base_frame, self.id, |len| {
            self.backend.output_memory(len).unwrap_or_else(|error| {
                tracing::warn!("an output in ordinary memory, which makes ticks slower: {error}");
                Box::new(vec![0; len])
            })
        })
    }

    /// Takes in a serialized message of a stream. `receive` is when it arrived, on the clock in
    /// use, [`Stamp::ZERO`] where that is not known: it is the row's instant under
    /// `timeline: receive`, and otherwise what a header's stamp may not be far ahead of.
    pub fn push(
        &self,
        stream: usize,
        message: &[u8],
        receive: Stamp,
    ) -> Result<Accepted, PushError> {
        let stats = &self.streams[stream].stats;
        stats.received.add(1);
        match self.try_push(stream, message, receive) {
            Ok(accepted) => {
                stats.rows.add(1);
                Ok(accepted)
            }
            Err(BackendError::Sample(dropped)) => {
                stats.drop(dropped.reason);
                Err(PushError::Dropped(dropped))
            }
            Err(fatal) => Err(PushError::Backend(fatal)),
        }
    }

    /// Counts a message that was lost before it could be pushed.
    pub fn drop_unseen(&self, stream: usize, reason: DropReason) {
        self.streams[stream].stats.received.add(1);
        self.streams[stream].stats.drop(reason);
    }

    fn try_push(
        &self,
        stream: usize,
        message: &[u8],
        receive: Stamp,
    ) -> Result<Accepted, BackendError> {
        let spec = &self.config.streams[stream];
        // Held to the end: a stream's messages enter its ring one after the other.
        let mut decoder =
            self.streams[stream].decoder.lock().map_err(|_| self.panicked(&spec.name))?;
        let (header, sample) = decoder.decode(message)?;
        check_frame(spec, &header)?;
        let stamp = self.stamp_of(spec, &header, receive)?;
        let lease = lock(&self.rings)[stream].lease();
        let lease = lease.ok_or_else(|| late("no spare row"))?;
        let report = match self.backend.encode(stream, lease.slot(), sample) {
            Ok(report) => report,
            Err(error) => {
                lock(&self.rings)[stream].give_back(lease);
                return Err(error);
            }
        };
        self.commit(stream, stamp, lease)?;
        let stats = &self.streams[stream].stats;
        stats.points_non_finite.add(report.points_non_finite);
        stats.points_out_of_range.add(report.points_out_of_range);
        stats.points_outside.add(report.points_outside);
        Ok(Accepted { stamp })
    }

    /// A panic may have left decoder, encoder and slot half changed, and the next row wrong.
    fn panicked(&self, stream: &str) -> BackendError {
        BackendError::Failed {
            backend: self.backend.name(),
            operation: "encode a message",
            detail: format!("an earlier message of stream '{stream}' made it panic"),
        }
    }

    fn commit(&self, stream: usize, stamp: Stamp, lease: Lease) -> Result<(), DecodeError> {
        let inserted = lock(&self.rings)[stream].insert(stamp, lease);
        let stats = &self.streams[stream].stats;
        match inserted {
            Inserted::Newest => {}
            Inserted::Reordered => stats.reordered.add(1),
            Inserted::Replaced => stats.replaced.add(1),
            Inserted::Late => {
                return Err(late(&format!("stamp {stamp} is older than everything in the ring")));
            }
            Inserted::Cleared => return Err(cleared(stamp)),
        }
        Ok(())
    }

    fn stamp_of(
        &self,
        spec: &StreamSpec,
        header: &Header<'_>,
        receive: Stamp,
    ) -> Result<Stamp, DecodeError> {
        let known = (receive != Stamp::ZERO).then_some(receive);
        if self.config.timeline == Timeline::Receive {
            let stamp = known.ok_or_else(|| {
                let detail = "expected the time of arrival, found no clock yet";
                DecodeError::new(DropReason::ZeroStamp, detail)
            })?;
            return Ok(stamp.offset(spec.stamp_offset_ns));
        }
        let stamp = header.stamp?.offset(spec.stamp_offset_ns);
        match known {
            Some(now) => self.check_ahead(stamp, now).map(|()| stamp),
            None => Ok(stamp),
        }
    }

    fn check_ahead(&self, stamp: Stamp, now: Stamp) -> Result<(), DecodeError> {
        let ahead = stamp.since(now);
        if ahead > MAX_AHEAD_NS {
            let seconds = ahead as f64 / NANOS_PER_S as f64;
            let detail = format!(
                "header.stamp: expected at most 1 s ahead of the node's clock ({now}), found \
                 {stamp}, {seconds:.3} s ahead; do sensor and node use the same clock?"
            );
            return Err(DecodeError::new(DropReason::Ahead, detail));
        }
        let jumped_from = Stamp::from_nanos(self.jumped_from.load(Ordering::Relaxed));
        let period_ns = self.config.grid.period_ns();
        if now < jumped_from && ahead > period_ns.max(MAX_AHEAD_AFTER_JUMP_NS) {
            return Err(cleared(stamp));
        }
        Ok(())
    }

    /// Resamples every stream for tick `tick` into `frame`, which becomes this pipeline's if it was
    /// another's. A tick before the last one means that the clock jumped back: all rings are cleared
    /// first.
    pub fn tick(&self, tick: i64, frame: &mut Frame) -> Result<TickOutcome, BackendError> {
        let mut ticker = lock(&self.ticker);
        let stamp = self.config.grid.stamp_of(tick);
        if let Some(last) = ticker.last.filter(|last| tick < *last) {
            self.clear(self.config.grid.stamp_of(last));
        }
        ticker.last = Some(tick);
        ticker.jobs.clear();
        frame.belong_to(self.id, || self.new_frame());
        let unfused = Unfused(frame);
        let frame = &mut *unfused.0;
        frame.set_tick(tick, stamp);
        let mut held_back = None;
        // Held until the rows have been read: none may be overwritten meanwhile.
        let rings = lock(&self.rings);
        for (stream, ring) in rings.iter().enumerate() {
            let all_valid = self.align_stream(stream, ring, stamp, frame, &mut ticker.jobs);
            if !all_valid && self.config.streams[stream].required {
                self.streams[stream].held_back.add(1);
                held_back = held_back.or(Some(stream));
            }
        }
        if let Some(stream) = held_back {
            return Ok(TickOutcome::HeldBack { stream });
        }
        self.backend.fuse(&ticker.jobs, frame.data_mut())?;
        unfused.fused();
        Ok(TickOutcome::Ready)
    }

    /// Aligns all history steps of a stream; returns whether all are valid.
    fn align_stream(
        &self,
        stream: usize,
        ring: &Ring,
        tick: Stamp,
        frame: &mut Frame,
        jobs: &mut Vec<StepJob>,
    ) -> bool {
        let spec = &self.config.streams[stream];
        let state = &self.streams[stream];
        let mut valid_steps = 0;
        for step in 0..spec.history_steps {
            let back = (spec.history_steps - 1 - step) as i64;
            let target =
                tick.offset(-self.config.lag_ns).offset(-back.saturating_mul(spec.history_step_ns));
            let aligned = align(state.rule, ring.len(), |i| ring.entry(i).stamp, target);
            frame.set_step(
                stream,
                step,
                StepState { valid: aligned.valid, age_ns: aligned.age_ns },
            );
            valid_steps += u64::from(aligned.valid);
            let row = match aligned.value {
                Value::Row(i) => Some(ring.entry(i).serial),
                Value::Nothing => Some(0),
                Value::Between { .. } => None,
            };
            let unchanged = frame.replace_row(stream, step, row);
            let value = aligned.map(|i| ring.entry(i).slot).value;
            jobs.push(StepJob { stream, step, value, unchanged });
        }
        state.stats.steps.add(spec.history_steps as u64);
        state.stats.steps_valid.add(valid_steps);
        valid_steps == spec.history_steps as u64
    }

    /// The clock jumped back, from `from`: forgets all rows, whose stamps now lie in the future, and
    /// refuses those that are still on their way until the clock passes `from` again.
    pub fn reset(&self, from: Stamp) {
        let mut ticker = lock(&self.ticker);
        ticker.last = None;
        self.clear(from);
    }

    fn clear(&self, from: Stamp) {
        self.clock_jumps.add(1);
        self.jumped_from.store(from.nanos(), Ordering::Relaxed);
        lock(&self.rings).iter_mut().for_each(Ring::clear);
    }
}

fn check_frame(spec: &StreamSpec, header: &Header<'_>) -> Result<(), DecodeError> {
    match &spec.frame_id {
        Some(expected) if expected != header.frame_id => {
            let detail =
                format!("header.frame_id: expected {expected:?}, found {:?}", header.frame_id);
            Err(DecodeError::new(DropReason::WrongFrame, detail))
        }
        _ => Ok(()),
    }
}

fn cleared(stamp: Stamp) -> DecodeError {
    let detail = format!("stamp {stamp} is from before the clock jumped back");
    DecodeError::new(DropReason::Cleared, detail)
}

fn late(detail: &str) -> DecodeError {
    DecodeError::new(DropReason::Late, detail)
}
