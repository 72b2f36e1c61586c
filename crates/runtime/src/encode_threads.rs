//! Threads that encode large messages for a [`Player`](super::Player).
//!
//! A message that depends on no other one is encoded before its turn ([`LookAhead`]), and becomes a row at its turn. So a
//! tick waits only for the messages before it, which were begun long ago. Clouds that are merged depend on each other:
//! they are pushed by the threads, and the player waits for all of them before a tick or an epoch. Streams that need frames
//! or a CameraInfo do not use these threads. In each case the messages of a stream are encoded in their order, one at a
//! time. So the result equals that of one thread.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use super::queue;
use super::{Message, Runtime, RuntimeError};
use crate::intake::MessageOrigin;
use robocache_core::pipeline::{ArraySample, EncodedAhead, NotTaken, Pipeline};
use robocache_core::sample::Header;
use robocache_core::spec::{Config, InputId};
use robocache_ops::sync::lock;

/// Rows of a stream that are worth encoding before their turn, beside the next one ([`Config::with_rows_ahead`]). A cloud
/// takes as long as several images.
pub const ROWS_AHEAD: usize = 3;

/// Merged clouds that may wait, for each thread. A cloud has a megabyte.
const WAITING: usize = 4;

/// The threads, and the messages on their way to them.
pub(super) struct EncodeThreads {
    shared: Arc<SharedQueue>,
    threads: Vec<JoinHandle<()>>,
    /// Messages that may wait to be pushed.
    most: usize,
}

struct SharedQueue {
    runtime: Arc<Runtime>,
    /// By input: what becomes of its messages.
    ways: Vec<Way>,
    /// By input: its lane, whose messages are encoded one at a time.
    lanes: Vec<usize>,
    /// By lane: messages that may be encoded before they are pushed.
    depths: Vec<usize>,
    state: Mutex<EncodeState>,
    /// Something of the state changed.
    changed: Condvar,
}

/// Way of an input's messages into the rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// The player pushes them.
    Player,
    /// A thread pushes them.
    Thread,
    /// A thread encodes them before their turn.
    Ahead,
}

#[derive(Default)]
struct EncodeState {
    jobs: VecDeque<Job>,
    /// By lane: whether a thread has a message of it, and how many are encoded and not pushed, or about to be.
    lanes: Vec<Lane>,
    /// The number of the next message that is encoded before its turn.
    next: u64,
    encoded: HashMap<u64, EncodedAhead>,
    /// Messages that threads push, and that are not done.
    pending: usize,
    /// The first error.
    error: Option<RuntimeError>,
    closed: bool,
}

#[derive(Clone, Copy, Default)]
struct Lane {
    busy: bool,
    ahead: usize,
}

enum Job {
    Push(Message),
    Ahead(Ticket, Encode),
}

/// Encodes a message of an input before its turn.
type Encode = Box<dyn FnOnce(&Pipeline, InputId) -> EncodedAhead + Send>;

/// A message that a thread encodes before its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    input: InputId,
    number: u64,
}

impl Ticket {
    /// The input that takes the message.
    pub fn input(self) -> InputId {
        self.input
    }
}

/// An array that a recording has in place of a message.
pub trait RecordedArray: Send + 'static {
    /// Its header and its sample.
    fn read(&self) -> (Header<'_>, ArraySample<'_>);
}

/// Takes messages before their turn.
#[derive(Clone)]
pub struct LookAhead(Arc<SharedQueue>);

impl LookAhead {
    /// Begins to encode a message of an input, unless its row depends on others. The caller gives the messages in their
    /// order, and each ticket to [`Player::receive_ahead`](super::Player::receive_ahead) at its turn.
    pub fn begin(
        &self,
        input: InputId,
        bytes: impl AsRef<[u8]> + Send + 'static,
    ) -> Option<Ticket> {
        self.begin_by(input, || Box::new(move |of, input| of.encode_ahead(input, bytes.as_ref())))
    }

    /// Begins to encode an array in place of a message, as [`LookAhead::begin`]. `array` hands over its header and its
    /// sample.
    pub fn begin_array(&self, input: InputId, array: impl RecordedArray) -> Option<Ticket> {
        self.begin_by(input, || {
            Box::new(move |of, input| {
                let (header, sample) = array.read();
                of.encode_sample_ahead(input, &header, &sample)
            })
        })
    }

    /// Begins what `encode` returns, unless the row depends on others.
    fn begin_by(&self, input: InputId, encode: impl FnOnce() -> Encode) -> Option<Ticket> {
        if self.0.ways[input.index()] != Way::Ahead {
            return None;
        }
        let mut state = lock(&self.0.state);
        let ticket = Ticket { input, number: state.next };
        state.next += 1;
        state.jobs.push_back(Job::Ahead(ticket, encode()));
        drop(state);
        self.0.changed.notify_all();
        Some(ticket)
    }
}

impl Job {
    fn input(&self) -> InputId {
        match self {
            Job::Push(message) => message.input,
            Job::Ahead(ticket, _) => ticket.input,
        }
    }
}

/// Frees a lane when it is dropped. After a panic, notes it, so that no thread waits for ever.
struct Done<'a> {
    shared: &'a SharedQueue,
    lane: usize,
    pushes: bool,
}

impl Drop for Done<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.shared.state);
        state.lanes[self.lane].busy = false;
        state.pending -= usize::from(self.pushes);
        if std::thread::panicking() {
            state.error.get_or_insert(RuntimeError::Panicked("encode"));
        }
        drop(state);
        self.shared.changed.notify_all();
    }
}

impl EncodeThreads {
    /// Starts at most this many threads, one per stream of large messages; `None` if no stream may use one.
    ///
    /// # Errors
    /// The system starts no thread.
    pub(crate) fn start(
        runtime: &Arc<Runtime>,
        threads: usize,
    ) -> Result<Option<Self>, RuntimeError> {
        let config = runtime.pipeline.config();
        let mut ways = ways(config);
        let lanes = queue::lanes(config);
        // The runtime keeps the bytes of a latched message. Messages of a lane are pushed in their order, so all others of it
        // are the player's, too.
        for latched in config.input_ids().filter(|input| runtime.is_latched(*input)) {
            let lane = lanes[latched.index()];
            let same = config.input_ids().filter(|input| lanes[input.index()] == lane);
            same.for_each(|input| ways[input.index()] = Way::Player);
        }
        let used = ways.iter().zip(&lanes).filter(|(way, _)| **way != Way::Player);
        let used: HashSet<usize> = used.map(|(_, lane)| *lane).collect();
        let count = threads.min(used.len());
        if count == 0 {
            return Ok(None);
        }
        let of_lane = |lane: usize| config.streams.get(lane).map_or(0, |of| of.rows_ahead) + 1;
        let depths: Vec<usize> =
            (0..=lanes.iter().copied().max().unwrap_or(0)).map(of_lane).collect();
        let state =
            EncodeState { lanes: vec![Lane::default(); depths.len()], ..EncodeState::default() };
        let shared = Arc::new(SharedQueue {
            runtime: Arc::clone(runtime),
            ways,
            lanes,
            depths,
            state: Mutex::new(state),
            changed: Condvar::new(),
        });
        let mut started = EncodeThreads { shared, threads: Vec::new(), most: WAITING * count };
        for _ in 0..count {
            let shared = Arc::clone(&started.shared);
            let thread = std::thread::Builder::new().name("encode".into());
            let thread = thread.spawn(move || shared.work());
            let failed = |source| RuntimeError::Thread { name: "encode", source };
            started.threads.push(thread.map_err(failed)?);
        }
        Ok(Some(started))
    }

    /// Returns a handle that takes messages before their turn.
    pub(crate) fn look_ahead(&self) -> LookAhead {
        LookAhead(Arc::clone(&self.shared))
    }

    /// True if threads push the messages of an input.
    pub(crate) fn pushes(&self, input: InputId) -> bool {
        self.shared.ways[input.index()] == Way::Thread
    }

    /// Gives a message to a thread that pushes it. Waits while too many are on their way.
    ///
    /// # Errors
    /// That of an earlier message.
    pub(crate) fn put(&self, message: Message) -> Result<(), RuntimeError> {
        let mut state = self.wait_for(|state| state.pending < self.most)?;
        state.pending += 1;
        state.jobs.push_back(Job::Push(message));
        drop(state);
        self.shared.changed.notify_all();
        Ok(())
    }

    /// Waits until all messages that threads push are pushed.
    ///
    /// # Errors
    /// That of one of them.
    pub(crate) fn wait(&self) -> Result<(), RuntimeError> {
        self.wait_for(|state| state.pending == 0).map(drop)
    }

    /// Waits until a message is encoded.
    ///
    /// # Errors
    /// A thread panicked.
    pub(crate) fn encoded(&self, ticket: Ticket) -> Result<EncodedAhead, RuntimeError> {
        let mut state = self.wait_for(|state| state.encoded.contains_key(&ticket.number))?;
        let lost = RuntimeError::Panicked("encode");
        state.encoded.remove(&ticket.number).ok_or(lost)
    }

    /// Notes that an encoded message was pushed: a row has become spare.
    pub(crate) fn pushed(&self, ticket: Ticket) {
        let lane = self.shared.lanes[ticket.input.index()];
        lock(&self.shared.state).lanes[lane].ahead -= 1;
        self.shared.changed.notify_all();
    }

    fn wait_for(
        &self,
        done: impl Fn(&EncodeState) -> bool,
    ) -> Result<MutexGuard<'_, EncodeState>, RuntimeError> {
        let mut state = lock(&self.shared.state);
        while !done(&state) && state.error.is_none() {
            state = self.shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        match state.error.take() {
            Some(error) => Err(error),
            None => Ok(state),
        }
    }
}

impl Drop for EncodeThreads {
    fn drop(&mut self) {
        lock(&self.shared.state).closed = true;
        self.shared.changed.notify_all();
        for thread in self.threads.drain(..) {
            // A panic was reported when its message was waited for.
            let _ = thread.join();
        }
    }
}

impl SharedQueue {
    fn work(&self) {
        while let Some(job) = self.take() {
            let lane = self.lanes[job.input().index()];
            let done = Done { shared: self, lane, pushes: matches!(job, Job::Push(_)) };
            match job {
                Job::Push(message) => self.push(&message),
                Job::Ahead(ticket, encode) => {
                    let encoded = encode(&self.runtime.pipeline, ticket.input);
                    lock(&self.state).encoded.insert(ticket.number, encoded);
                }
            }
            // The lane must be free before the player goes on.
            drop(done);
        }
    }

    fn push(&self, message: &Message) {
        // None of these inputs can wait for a transform.
        let bytes = (*message.bytes).as_ref();
        let pushed = self.runtime.push(MessageOrigin::of(message), bytes, message.arrival);
        if let Err(NotTaken::Failed(error)) = pushed {
            lock(&self.state).error.get_or_insert(error);
        }
    }

    /// Waits for the first job whose lane is free and has a spare row; `None` at the end.
    fn take(&self) -> Option<Job> {
        let mut state = lock(&self.state);
        while !state.closed {
            let lane_of = |job: &Job| self.lanes[job.input().index()];
            let EncodeState { jobs, lanes, .. } = &mut *state;
            let is_free = |job: &Job| {
                let lane = lane_of(job);
                !lanes[lane].busy && lanes[lane].ahead < self.depths[lane]
            };
            if let Some(job) = jobs.iter().position(is_free).and_then(|at| jobs.remove(at)) {
                let lane = &mut lanes[lane_of(&job)];
                lane.busy = true;
                lane.ahead += usize::from(matches!(job, Job::Ahead(..)));
                return Some(job);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        None
    }
}

/// By input: what becomes of its messages.
fn ways(config: &Config) -> Vec<Way> {
    let way = |id: InputId| match (config.encodes_ahead(id), config.stands_alone(id)) {
        (true, _) => Way::Ahead,
        (false, true) => Way::Thread,
        (false, false) => Way::Player,
    };
    config.input_ids().map(way).collect()
}

#[cfg(test)]
mod tests;
