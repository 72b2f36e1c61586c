//! Queue for the disk, between the threads of the node and the one that writes.
//!
//! Threads of real-time priority tell the recorder, so nothing here waits for another thread, not even for one
//! that was interrupted in the middle of its work. The channel is larger than what may be in it: so no sender
//! meets a place that the receiver is about to leave. What has no room is counted in atomic numbers.

use std::path::PathBuf;

use super::event::Gap;
use super::lost::{Lost, LostEvents};
use super::request::Request;
use super::sync::{
    AtomicBool, AtomicU64, AtomicUsize, Mutex, Ordering, Receiver, SyncSender, TrySendError, lock,
    sync_channel,
};
use robocache_core::spec::{Config, InputId};
use robocache_ops::time::Stamp;
use robocache_runtime::{
    ChunkRecord, ClockMessage, Event, ReceivedMessage, RecorderStatus, SharedBytes, TimeSource,
};

/// Most events that wait, for each message that may wait. They have the outcomes of messages and ticks.
const EVENTS: usize = 2;
/// Places of the channel that stay empty.
const EMPTY: usize = 1 << 10;
/// A larger message \[bytes\] is the first to be refused.
const LARGE_BYTES: usize = 1 << 16;
/// This part of the room is not for large messages.
const SMALL_PART: usize = 8;
/// This part is for messages that become no rows: if a transform is missing, no later tick can be judged.
const FRAMES_PART: usize = 16;

/// An item that waits for the disk.
pub(super) enum Item {
    Received(u64, ReceivedMessage),
    Clock(ClockMessage),
    Chunk(ChunkRecord, SharedBytes),
    Event(Event),
    /// Something that a user asks for.
    Request(Request),
}

/// Room for items that wait for the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct QueueRoom {
    /// Most messages. There is room for twice as many events.
    pub messages: usize,
    /// Most bytes of these messages.
    pub bytes: usize,
}

/// The end for the threads of the node, and the state that both ends share.
pub(super) struct Queue {
    /// Of the recording; empty between two episodes.
    pub folder: Mutex<PathBuf>,
    sender: SyncSender<(Item, Stamp)>,
    most: QueueRoom,
    /// By input: whether it is recorded, and whether its messages become rows.
    recorded: Vec<bool>,
    has_rows: Vec<bool>,
    /// Number of the newest message.
    numbers: AtomicU64,
    messages: AtomicUsize,
    bytes: AtomicUsize,
    events: AtomicUsize,
    /// True if something was lost since the writer looked.
    has_lost: AtomicBool,
    /// By input.
    lost: Vec<Lost>,
    lost_events: LostEvents,
    lost_in_all: [AtomicU64; 2],
    /// Messages and bytes in the recording, and messages in files that were deleted.
    pub written: [AtomicU64; 3],
    /// Seconds until the disk is full, if that is soon; the greatest number if it is not.
    pub full_in_s: AtomicU64,
    pub failed: Mutex<Option<String>>,
    /// True if nothing more is taken.
    pub ended: AtomicBool,
    /// True if the recording is complete, even if the disk may still lose it.
    pub complete: AtomicBool,
    pub stop: AtomicBool,
    time: TimeSource,
}

/// The end for the thread that writes.
pub(super) struct Waiting(Receiver<(Item, Stamp)>);

impl Queue {
    /// Makes the queue of a recording in this folder, which has the messages of the inputs that `recorded` says.
    pub(super) fn new(
        folder: PathBuf,
        config: &Config,
        recorded: Vec<bool>,
        most: QueueRoom,
        time: TimeSource,
    ) -> (Self, Waiting) {
        let (sender, receiver) = sync_channel((1 + EVENTS) * most.messages + EMPTY);
        let has_rows = |id: InputId| !config.input(id).feeds.is_empty();
        let queue = Queue {
            folder: Mutex::new(folder),
            sender,
            most,
            recorded,
            has_rows: config.input_ids().map(has_rows).collect(),
            numbers: AtomicU64::new(0),
            messages: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            events: AtomicUsize::new(0),
            has_lost: AtomicBool::new(false),
            lost: config.input_ids().map(|_| Lost::default()).collect(),
            lost_events: LostEvents::default(),
            lost_in_all: Default::default(),
            written: Default::default(),
            full_in_s: AtomicU64::new(u64::MAX),
            failed: Mutex::default(),
            ended: AtomicBool::new(false),
            complete: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            time,
        };
        (queue, Waiting(receiver))
    }

    /// Queues a message. Returns its number, or 0 if there is no room or its input is not recorded.
    pub(super) fn receive(&self, message: ReceivedMessage) -> u64 {
        if self.ended.load(Ordering::Relaxed) || !self.recorded[message.input.index()] {
            return 0;
        }
        let number = self.numbers.fetch_add(1, Ordering::Relaxed) + 1;
        let input = message.input;
        let arrival = message.arrival;
        let at = message.at;
        let bytes = (*message.bytes).as_ref().len();
        let part = match (self.has_rows[input.index()], bytes > LARGE_BYTES) {
            (true, true) => SMALL_PART,
            (true, false) => FRAMES_PART,
            (false, _) => usize::MAX,
        };
        let [places, room] = [self.most.messages, self.most.bytes].map(|most| most - most / part);
        let fits = add(&self.messages, 1, places)
            && (add(&self.bytes, bytes, room) || take(&self.messages, 1));
        if fits {
            match self.sender.try_send((Item::Received(number, message), at)) {
                Ok(()) => return number,
                // The writer has ended.
                Err(TrySendError::Disconnected(_)) => return 0,
                Err(TrySendError::Full((item, _))) => self.left(&item),
            }
        }
        self.lost_in_all[0].fetch_add(1, Ordering::Relaxed);
        self.lost[input.index()].add(number, arrival);
        self.has_lost.store(true, Ordering::Release);
        0
    }

    /// Queues something small, or counts it as lost.
    pub(super) fn tell(&self, item: Item) {
        if self.ended.load(Ordering::Relaxed) {
            return;
        }
        let now = self.time.system();
        if add(&self.events, 1, EVENTS * self.most.messages) {
            match self.sender.try_send((item, now)) {
                Ok(()) | Err(TrySendError::Disconnected(_)) => return,
                Err(TrySendError::Full((item, _))) => self.left(&item),
            }
        }
        self.lost_in_all[1].fetch_add(1, Ordering::Relaxed);
        self.lost_events.add(now);
        self.has_lost.store(true, Ordering::Release);
    }

    /// An item is in the queue no more.
    pub(super) fn left(&self, item: &Item) {
        match item {
            Item::Received(_, message) => {
                self.bytes.fetch_sub((*message.bytes).as_ref().len(), Ordering::Relaxed);
                self.messages.fetch_sub(1, Ordering::Relaxed);
            }
            Item::Clock(_) | Item::Chunk(..) | Item::Event(_) | Item::Request(_) => {
                self.events.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    /// True if something was lost since the last call.
    pub(super) fn has_lost(&self) -> bool {
        self.has_lost.load(Ordering::Relaxed) && self.has_lost.swap(false, Ordering::Acquire)
    }

    /// Takes out the messages that were lost. Only the thread that writes may call it.
    pub(super) fn lost_messages(&self) -> impl Iterator<Item = Gap> {
        self.lost.iter().enumerate().filter_map(|(at, lost)| lost.take(InputId::new(at)))
    }

    /// Takes out how many events were lost, and when the first was. Only the thread that writes may call it.
    pub(super) fn lost_events(&self) -> Option<(u64, Option<Stamp>)> {
        self.lost_events.take()
    }

    /// Notes events that the writer left out.
    pub(super) fn leave_out_event(&self, at: Stamp) {
        self.lost_in_all[1].fetch_add(1, Ordering::Relaxed);
        self.lost_events.add(at);
    }

    /// Notes a message that the writer left out.
    pub(super) fn leave_out(&self, number: u64, message: &ReceivedMessage) {
        self.lost_in_all[0].fetch_add(1, Ordering::Relaxed);
        self.lost[message.input.index()].add(number, message.arrival);
    }

    /// The folder of the recording; empty between two episodes.
    pub(super) fn folder(&self) -> PathBuf {
        lock(&self.folder).clone()
    }

    /// A recording in this folder begins, or none.
    pub(super) fn begins(&self, folder: PathBuf) {
        let counts = self.written.iter().chain(&self.lost_in_all);
        counts.for_each(|count| count.store(0, Ordering::Relaxed));
        self.full_in_s.store(u64::MAX, Ordering::Relaxed);
        *lock(&self.folder) = folder;
        *lock(&self.failed) = None;
    }

    /// How the recording goes.
    pub(super) fn status(&self) -> RecorderStatus {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let [messages, bytes, deleted] = self.written.each_ref().map(read);
        let [lost, lost_events] = self.lost_in_all.each_ref().map(read);
        let full_in_s = Some(read(&self.full_in_s)).filter(|seconds| *seconds != u64::MAX);
        let folder = self.folder();
        let failed = lock(&self.failed).clone();
        RecorderStatus { folder, messages, bytes, deleted, lost, lost_events, full_in_s, failed }
    }
}

impl Waiting {
    /// The next item; `None` if none waits.
    pub(super) fn next(&self) -> Option<(Item, Stamp)> {
        self.0.try_recv().ok()
    }
}

/// Adds to a count unless it would be more than `most`.
fn add(count: &AtomicUsize, more: usize, most: usize) -> bool {
    let fits = count.fetch_add(more, Ordering::Relaxed).saturating_add(more) <= most;
    fits || take(count, more)
}

/// Takes from a count. Returns false.
fn take(count: &AtomicUsize, less: usize) -> bool {
    count.fetch_sub(less, Ordering::Relaxed);
    false
}

#[cfg(test)]
mod tests;
