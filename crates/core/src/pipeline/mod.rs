//! Messages in, fused tensors out: [`Pipeline::push`] and [`Pipeline::tick`].
//!
//! The pipeline has no ROS, no clock and no thread. All methods take `&self`, so that a live node
//! can push on one thread and tick on another. A tick locks the rings. A push reads and encodes its
//! message outside of that lock, and takes the lock only to lease a slot and to insert the row. If a
//! tick waits for a preempted holder of a lock, the holder inherits its priority ([`PiMutex`]).

mod admit;
mod ahead;
mod arrays;
mod arrival;
mod cameras;
mod frames;
mod measured;
mod merge;
mod not_taken;
mod push;
mod rows;
mod shapes;
mod spacings;
mod stats;
mod sweep;
mod tick;
mod trajectory;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

pub use crate::input::ArraySample;
pub use ahead::EncodedAhead;
pub use arrival::{Arrival, MAX_AHEAD_NS, SENSOR_AHEAD_NS};
pub use frames::{AwaitedTransforms, Tree};
pub use not_taken::NotTaken;
pub use push::Accepted;
pub use rows::{LeftRow, RowSink};
pub use spacings::Spacings;
pub use stats::{Counter, InputStats, StreamStats};
pub use tick::TickOutcome;

use crate::backend::{Backend, BackendError, Encodes, GpuUse};
use crate::input::{self, Input};
use crate::layout::{Layout, RingPlace};
use crate::message::{Envelope, Publication, SegmentInfo, TensorInfo, TensorMessage};
use crate::ring::Ring;
use crate::spec::{Config, InputId, InputSpec, MAX_INPUTS, RingId, StreamId, StreamSpec};
use cameras::Cameras;
use frames::Frames;
use measured::Measured;
use merge::Merge;
use robocache_ops::align::Slot;
use robocache_ops::device::{HostBuffer, MessagePool, Output};
use robocache_ops::operators::Group;
use robocache_ops::sync::{PiGuard, PiMutex};
use robocache_ops::time::{Epoch, Stamp};
use rows::Tap;
use tick::Ticker;

/// The id of the next pipeline. A [`TensorMessage`] keeps the id of the pipeline that it is for.
static PIPELINES: AtomicU64 = AtomicU64::new(1);

/// An impossible specification. No configuration file leads to it: the program that made it is
/// wrong.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("specification: {0}")]
pub struct SpecError(String);

/// How far the rows of a ring are replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turnover {
    /// The epoch of the rows.
    pub epoch: Epoch,
    /// True if the next row makes the oldest one leave.
    pub full: bool,
    /// The smallest serial of a row in the ring.
    pub oldest: Option<u64>,
    /// How many rows ever entered it: the serial of the newest.
    pub newest: u64,
}

/// All streams of a configuration, from their messages to the fused tensor.
pub struct Pipeline {
    id: u64,
    config: Config,
    layout: Layout,
    /// Of its messages.
    envelope: Arc<Envelope>,
    backend: Arc<dyn Backend>,
    inputs: Vec<PipelineInput>,
    streams: Vec<PipelineStream>,
    rings: PiMutex<Rings>,
    /// The tree of frames, if something asks for it.
    frames: Option<Frames>,
    /// The cameras whose images are undistorted.
    cameras: Cameras,
    /// Per ring: locked while a sample is encoded into it, because a ring has one spare slot and
    /// its encoder one state. If encoding panics, the ring takes no other sample of any input.
    encoding: Vec<Mutex<()>>,
    ticker: PiMutex<Ticker>,
    epochs: Epochs,
    measured: Measured,
}

struct PipelineInput {
    /// Position of the input among those of its stream: its bit in a step's `inputs_valid`.
    place: u8,
    /// Locked while a message is read and encoded, so that the messages of an input enter their
    /// rings one by one. If reading panics, the input takes no other message.
    input: Mutex<Box<dyn Input>>,
    stats: InputStats,
}

#[derive(Default)]
struct PipelineStream {
    stats: StreamStats,
    held_back: Counter,
    /// True if a step depends on the other steps, so that it may change when its row does not.
    unwraps: bool,
    /// The clouds that rows are made of, if rows hold clouds of several inputs. Locked while a sample
    /// is encoded. After a panic the ring takes no other sample, so that nothing reads what it left.
    merge: Option<Mutex<Merge>>,
}

/// The epochs of the rings, for those who do not hold their lock.
#[derive(Default)]
struct Epochs {
    /// The number of the epoch of all rows.
    newest: AtomicU64,
    /// How many began because the clock jumped back.
    jumps: Counter,
}

impl Epochs {
    /// True if `epoch` is that of the rows. A later one may begin at any time.
    fn is_newest(&self, epoch: Epoch) -> bool {
        self.newest.load(Ordering::Acquire) == epoch.number()
    }

    /// Notes that the rings have begun an epoch. The caller holds their lock.
    fn begin(&self, epoch: Epoch) {
        self.newest.store(epoch.number(), Ordering::Release);
        self.jumps.add(u64::from(epoch.jumped_from().is_some()));
    }
}

/// All rings under one lock, so that a tick sees one state of the robot. Code that could panic only
/// reads them, so that a panic leaves them whole.
struct Rings {
    rings: Vec<Ring>,
    /// Per ring: the newest row's arrival minus its stamp \[ns\]; `None` if unknown.
    delays: Vec<Option<i64>>,
    /// The epoch of all rows.
    epoch: Epoch,
    /// How often a row has entered a ring, or a plan its rings.
    changes: u64,
    /// The slots that the tick under way reads. The tick does not hold this lock meanwhile, because
    /// a backend may wait for a GPU.
    read_by_tick: Vec<(RingId, Slot)>,
    /// Receiver of rows that have left; `None` if they are not kept.
    tap: Option<Arc<Tap>>,
}

impl Rings {
    /// Begins `epoch` if it is later than that of the rows: the rings forget all rows.
    fn begin(&mut self, epoch: Epoch, epochs: &Epochs) {
        if self.epoch.is_before(epoch) {
            self.leave_all();
            self.epoch = epoch;
            self.rings.iter_mut().for_each(|ring| ring.begin(epoch));
            self.delays.fill(None);
            epochs.begin(epoch);
        }
    }

    fn ring(&mut self, id: RingId) -> &mut Ring {
        &mut self.rings[id.index()]
    }
}

impl Pipeline {
    /// A pipeline with empty rings. The backend must have been made for the same configuration.
    ///
    /// # Errors
    /// [`SpecError`] if an input does not fit the rings that it feeds. With a parsed configuration
    /// this does not happen.
    pub fn new(config: Config, backend: Arc<dyn Backend>) -> Result<Self, SpecError> {
        let layout = Layout::new(&config);
        check_dtypes(&config).map_err(SpecError)?;
        let inputs: Result<Vec<_>, _> =
            config.input_ids().map(|id| PipelineInput::new(id, &config, &layout)).collect();
        let spec = |place: &RingPlace| config.stream(place.stream);
        let steps = layout.rings().iter().map(|place| spec(place).steps()).sum::<usize>();
        let ring = |spec: &StreamSpec| {
            let ring = Ring::with_slots(spec.ring_rows, spec.ring_slots());
            match &spec.merge {
                Some(merge) => ring.merging(merge.clone()),
                None => ring,
            }
        };
        let rings: Vec<_> = layout.rings().iter().map(|place| ring(spec(place))).collect();
        let state = |spec: &StreamSpec| PipelineStream {
            unwraps: spec.encoder.unwraps(),
            merge: Merge::of(spec).map(Mutex::new),
            ..PipelineStream::default()
        };
        let streams = config.streams.iter().map(state).collect();
        let measured = Measured::new(&config, &layout);
        Ok(Pipeline {
            id: PIPELINES.fetch_add(1, Ordering::Relaxed),
            inputs: inputs?,
            frames: config.tf.as_ref().map(|tf| Frames::new(tf, &config.inputs)),
            cameras: Cameras::new(&config).map_err(SpecError)?,
            envelope: Arc::new(Envelope::fused_tensor(&layout, &config.base_frame)),
            config,
            layout,
            backend,
            streams,
            encoding: rings.iter().map(|_| Mutex::default()).collect(),
            rings: PiMutex::new(Rings {
                delays: vec![None; rings.len()],
                rings,
                epoch: Epoch::default(),
                changes: 0,
                read_by_tick: Vec::with_capacity(2 * steps),
                tap: None,
            }),
            ticker: PiMutex::default(),
            epochs: Epochs::default(),
            measured,
        })
    }

    /// Makes messages name this run of a node; before the first message. Without a run they name
    /// run 0, which no node has.
    pub fn with_run(mut self, run: u64) -> Self {
        Arc::make_mut(&mut self.envelope).set_run(run);
        self
    }

    /// The run that its messages name; 0 if no node makes them.
    pub fn run(&self) -> u64 {
        self.envelope.run()
    }

    /// The configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Places of the segments in the tensor.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The name of the backend.
    pub fn backend_name(&self) -> &'static str {
        self.backend.name()
    }

    /// The backend's use of a GPU, or why it no longer uses one.
    pub fn gpu(&self) -> GpuUse {
        self.backend.gpu()
    }

    /// How the samples of a stream were encoded; `None` unless either processor may encode them.
    pub fn encodes(&self, stream: StreamId) -> Option<Encodes> {
        self.layout.rings_of(stream).find_map(|ring| self.backend.encodes(ring))
    }

    /// Memory for messages of an input whose samples a GPU reads where they are. `None` if no GPU does.
    pub fn messages(&self, input: InputId) -> Option<Arc<MessagePool>> {
        let rings = &self.config.input(input).feeds;
        rings.iter().find_map(|ring| self.backend.messages(*ring))
    }

    /// Counters of an input.
    pub fn input_stats(&self, input: InputId) -> &InputStats {
        &self.inputs[input.index()].stats
    }

    /// Counters of a stream.
    pub fn stats(&self, stream: StreamId) -> &StreamStats {
        &self.streams[stream.index()].stats
    }

    /// Ticks that a required stream held back.
    pub fn held_back(&self, stream: StreamId) -> u64 {
        self.streams[stream.index()].held_back.get()
    }

    /// How often the clock jumped back. The first reading of a simulator's clock begins an epoch
    /// too, and is no jump.
    pub fn clock_jumps(&self) -> u64 {
        self.epochs.jumps.get()
    }

    /// Begins an epoch: the rings forget all rows, whose stamps may now be in the future. Does
    /// nothing unless `epoch` is later than that of the rows. A message or a tick of a later epoch
    /// begins it, too.
    pub fn begin(&self, epoch: Epoch) {
        self.lock_rings().begin(epoch, &self.epochs);
        if let Some(frames) = &self.frames {
            frames.begin(epoch);
        }
    }

    /// A new message, with memory for the tensor. If the backend leaves tensors on a device whose memory
    /// does not suffice, this one's is on the host.
    pub fn new_message(&self) -> TensorMessage {
        let device = self.backend.data_on_device(self.layout.byte_len());
        let device = device.unwrap_or_else(|error| {
            tracing::error!("an output on the host, as the device has no memory for it: {error}");
            None
        });
        TensorMessage::new(&self.layout, &self.envelope, self.id, device, |len| {
            self.backend.output_memory(len).unwrap_or_else(|error| {
                tracing::warn!("an output in ordinary memory, which makes ticks slower: {error}");
                Output::Host(HostBuffer::new(len))
            })
        })
    }

    /// As [`Pipeline::new_message`], in zeroed memory of another owner of at least [`Pipeline::message_memory_len`]
    /// bytes. The data is on the host.
    pub fn new_message_in(&self, memory: HostBuffer) -> TensorMessage {
        let memory = self.backend.adopt_memory(memory);
        TensorMessage::new(&self.layout, &self.envelope, self.id, None, |_| memory)
    }

    /// Bytes of memory of a message with its data.
    pub fn message_memory_len(&self) -> usize {
        self.envelope.memory_len()
    }

    /// Meaning of the tensors, as a serialized `robocache_ros/msg/FusedTensorInfo`.
    pub fn info(&self, publication: &Publication<'_>) -> Vec<u8> {
        TensorInfo::new(&self.config, &self.layout, publication).to_cdr()
    }

    /// Meanings of the segments, in their order. `topics` is as in [`Publication`].
    pub fn segment_infos(&self, topics: &[String]) -> Vec<SegmentInfo> {
        SegmentInfo::all(&self.config, &self.layout, topics)
    }

    /// The groups of a stream, by the names of their channels, whose ring is empty while the ring
    /// of another group is not. Until each has a row, no step of the stream is valid.
    pub fn groups_without_rows(&self, stream: StreamId) -> Vec<Vec<&str>> {
        let Some(vector) = self.config.stream(stream).encoder.as_vector() else {
            return Vec::new();
        };
        // Its memory is reserved first, because a tick waits for the lock.
        let mut empty = Vec::with_capacity(vector.groups.len());
        let rings = self.lock_rings();
        empty.extend(self.layout.rings_of(stream).map(|id| rings.rings[id.index()].is_empty()));
        drop(rings);
        if empty.iter().all(|empty| *empty) {
            return Vec::new();
        }
        let name = |channel: &usize| vector.channels[*channel].name.as_str();
        let names = |group: &Group| group.channels.iter().map(name).collect();
        let groups = vector.groups.iter().zip(empty);
        groups.filter(|(_, empty)| *empty).map(|(group, _)| names(group)).collect()
    }

    /// How far the rows of each of a stream's rings are replaced.
    pub fn turnover(&self, stream: StreamId) -> Vec<Turnover> {
        let rings = self.lock_rings();
        let of = |ring: RingId| {
            let ring = &rings.rings[ring.index()];
            let oldest = ring.entries().map(|row| row.serial).min();
            Turnover { epoch: ring.epoch(), full: ring.is_full(), oldest, newest: ring.serial() }
        };
        self.layout.rings_of(stream).map(of).collect()
    }

    /// The stamp of the row before the one at `stamp`, the earliest of all rings of the stream that have one there;
    /// `None` if that is their first.
    pub fn row_before(&self, stream: StreamId, stamp: Stamp) -> Option<Stamp> {
        let rings = self.lock_rings();
        let before = |ring: RingId| rings.rings[ring.index()].before(stamp);
        self.layout.rings_of(stream).filter_map(before).min()
    }

    fn lock_rings(&self) -> PiGuard<'_, Rings> {
        self.rings.lock()
    }

    /// The error after a panic while a message of `name`, an input or a stream, was encoded. The
    /// panic may have left input, encoder and slot half changed, so that the next row could be
    /// wrong.
    fn panicked(&self, name: &str) -> BackendError {
        BackendError::Failed {
            backend: self.backend.name(),
            operation: "encode a message",
            detail: format!("an earlier message of '{name}' made it panic"),
        }
    }
}

impl PipelineInput {
    fn new(id: InputId, config: &Config, layout: &Layout) -> Result<Self, SpecError> {
        let spec = config.input(id);
        check_feeds(spec, config, layout).map_err(SpecError)?;
        let earlier = &config.inputs[..id.index()];
        let place = earlier.iter().filter(|input| input.stream == spec.stream).count();
        if spec.stream.is_some() && place >= MAX_INPUTS {
            let name = &spec.name;
            return Err(SpecError(format!(
                "input '{name}': expected at most {MAX_INPUTS} inputs of a stream"
            )));
        }
        let input = input::open(spec).map_err(SpecError)?;
        let input = Mutex::new(input);
        // An input of no stream feeds no ring, so its place does not count.
        Ok(PipelineInput {
            place: place.min(MAX_INPUTS) as u8,
            input,
            stats: InputStats::default(),
        })
    }
}

/// Checks that the encoder of every stream writes rows of the stream's element type.
fn check_dtypes(config: &Config) -> Result<(), String> {
    let wrong = |stream: &&StreamSpec| !stream.encoder.dtypes().contains(&stream.dtype);
    match config.streams.iter().find(wrong) {
        None => Ok(()),
        Some(stream) => {
            let name = &stream.name;
            let found = stream.dtype.name();
            Err(format!("stream '{name}': its encoder writes no rows of {found}"))
        }
    }
}

/// Checks that every part of the input has a ring, and that the ring's stream takes such samples.
fn check_feeds(spec: &InputSpec, config: &Config, layout: &Layout) -> Result<(), String> {
    let parts = spec.selection.parts();
    if !spec.feeds.is_empty() && spec.feeds.len() != parts {
        let name = &spec.name;
        let found = spec.feeds.len();
        return Err(format!("input '{name}': expected {parts} rings to feed, found {found}"));
    }
    for ring in &spec.feeds {
        let Some(place) = layout.rings().get(ring.index()) else {
            let count = layout.rings().len();
            let found = ring.index();
            return Err(format!(
                "input '{}': expected a ring below {count}, found {found}",
                spec.name
            ));
        };
        let stream = config.stream(place.stream);
        if spec.stream != Some(place.stream) {
            let name = &spec.name;
            let of = &stream.name;
            return Err(format!(
                "input '{name}': expected rings of its own stream, found one of '{of}'"
            ));
        }
        let fits = spec.gives() == Some(stream.encoder.takes()) && spec.is_plan() == stream.plans;
        if !fits {
            return Err(format!(
                "input '{}' ({}): stream '{}' has an encoder that does not take its samples",
                spec.name, spec.ros_type, stream.name
            ));
        }
    }
    Ok(())
}
