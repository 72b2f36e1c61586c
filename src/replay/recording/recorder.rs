//! Takes what a node receives and does, and hands it to a thread that writes it.
//!
//! The queue between them is bounded, in events and in bytes. The writing thread looks into it every few
//! milliseconds: so a thread that tells something never wakes another one, and never waits.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::disk::{Files, OnDisk};
use super::event::{Gap, RecordingEvent};
use super::file::RecordingWriter;
use super::manifest::Manifest;
use super::plan::{new_folder, plan};
use crate::runtime::{ClockMessage, Event, ReceivedMessage, Recorder, RecorderStatus, system_now};
use crate::schema::Definitions;
use crate::spec::Config;
use crate::sync::lock;
use crate::time::Stamp;

/// Messages and events that wait for the disk.
const QUEUED: usize = 1 << 15;
/// Messages are refused when so many wait: an event is small, and tells what became of a message.
const QUEUED_MESSAGES: usize = QUEUED / 2;
/// The last part of the bytes is for messages that are not large: a lost transform costs more than an image.
const SMALL_BYTES: usize = 1 << 16;
const RESERVED: usize = 8;
/// Time between two looks into the queue.
const LOOK: Duration = Duration::from_millis(5);
/// Time after which what was written is handed to the operating system.
const FLUSH: Duration = Duration::from_millis(250);

/// What a recorder needs to know.
pub struct RecordOptions {
    /// The folder in which each run has one of its own.
    pub folder: PathBuf,
    /// How the node runs.
    pub manifest: Manifest,
    /// The topic of the events.
    pub events: String,
    /// Most bytes of messages that wait for the disk.
    pub queue_bytes: usize,
    /// A file that is larger \[bytes\] ends, and the next one begins.
    pub split_bytes: u64,
    /// What opens files; `None` for those of the file system.
    pub files: Option<Box<dyn Files>>,
}

impl RecordOptions {
    /// The usual options.
    pub fn new(folder: &Path, manifest: Manifest) -> Self {
        RecordOptions {
            folder: folder.to_owned(),
            manifest,
            events: "/fusion_node/recording".to_owned(),
            queue_bytes: 256 << 20,
            split_bytes: 4 << 30,
            files: None,
        }
    }
}

/// Why a recording does not begin.
#[derive(Debug, thiserror::Error)]
#[error("record_to: {}: {source}", path.display())]
pub struct RecordError {
    /// The folder or the file.
    pub path: PathBuf,
    /// Why.
    pub source: io::Error,
}

/// Records a node in MCAP. A drop ends the recording.
pub struct McapRecorder {
    shared: Arc<Shared>,
    sender: SyncSender<(Item, Stamp)>,
    queue_bytes: usize,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// What waits for the disk.
enum Item {
    Received(u64, ReceivedMessage),
    Clock(ClockMessage),
    Event(Event),
}

#[derive(Default)]
struct Shared {
    folder: PathBuf,
    /// Number of the newest message.
    numbers: AtomicU64,
    /// Messages and events that wait, and the bytes of the messages.
    waiting: AtomicUsize,
    waiting_bytes: AtomicUsize,
    /// Messages that were lost since the writer has looked, by input.
    lost: Mutex<Vec<Gap>>,
    has_lost: AtomicBool,
    lost_events: AtomicU64,
    /// For the status.
    lost_in_all: AtomicU64,
    messages: AtomicU64,
    bytes: AtomicU64,
    failed: Mutex<Option<String>>,
    /// Whether nothing more is taken.
    ended: AtomicBool,
    stop: AtomicBool,
}

impl McapRecorder {
    /// Begins a recording of a node with this configuration, in a new folder. `now` is the node's clock.
    ///
    /// # Errors
    /// The folder or the first file cannot be created.
    pub fn start(
        options: RecordOptions,
        config: &Config,
        definitions: &dyn Definitions,
        now: Option<Stamp>,
    ) -> Result<Self, RecordError> {
        let RecordOptions { folder, manifest, events, queue_bytes, split_bytes, files } = options;
        let folder = new_folder(&folder)?;
        let failed = |source| RecordError { path: folder.clone(), source };
        let plan = plan(&folder, manifest, (events, split_bytes), config, definitions);
        let files = files.unwrap_or_else(|| Box::new(OnDisk));
        let mut writer = RecordingWriter::create(plan, files).map_err(failed)?;
        writer.event(&RecordingEvent::Start { at: now }, system_now()).map_err(failed)?;
        let shared = Arc::new(Shared { folder: folder.clone(), ..Shared::default() });
        let (sender, receiver) = sync_channel(QUEUED);
        let writing = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("record".into())
            .spawn(move || {
                let _ended = EndsIfItPanics(Arc::clone(&writing));
                Writing { shared: writing, receiver, writer }.run();
            })
            .map_err(failed)?;
        tracing::info!("recording to {}", folder.display());
        Ok(McapRecorder { shared, sender, queue_bytes, thread: Mutex::new(Some(thread)) })
    }

    /// The folder of this recording.
    pub fn folder(&self) -> &Path {
        &self.shared.folder
    }

    /// Writes what waits, and ends the recording.
    pub fn finish(&self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = lock(&self.thread).take() {
            // A panic is in the log.
            let _ = thread.join();
        }
    }

    /// Whether there is no room for a message of this size.
    fn is_full(&self, bytes: usize) -> bool {
        let shared = &self.shared;
        let most = match bytes > SMALL_BYTES {
            true => self.queue_bytes - self.queue_bytes / RESERVED,
            false => self.queue_bytes,
        };
        shared.waiting.load(Ordering::Relaxed) >= QUEUED_MESSAGES
            || shared.waiting_bytes.load(Ordering::Relaxed).saturating_add(bytes) > most
    }

    /// Queues a small item, or counts it as lost.
    fn put(&self, item: Item) {
        let shared = &self.shared;
        if shared.ended.load(Ordering::Relaxed) {
            return;
        }
        shared.waiting.fetch_add(1, Ordering::Relaxed);
        if self.sender.try_send((item, system_now())).is_err() {
            shared.waiting.fetch_sub(1, Ordering::Relaxed);
            shared.lost_events.fetch_add(1, Ordering::Relaxed);
            shared.lost_in_all.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Recorder for McapRecorder {
    fn received(&self, message: ReceivedMessage) -> u64 {
        let shared = &self.shared;
        if shared.ended.load(Ordering::Relaxed) {
            return 0;
        }
        let number = shared.numbers.fetch_add(1, Ordering::Relaxed) + 1;
        let (bytes, at) = ((*message.bytes).as_ref().len(), message.at);
        let (input, arrival) = (message.input, message.arrival);
        if !self.is_full(bytes) {
            shared.waiting.fetch_add(1, Ordering::Relaxed);
            shared.waiting_bytes.fetch_add(bytes, Ordering::Relaxed);
            if self.sender.try_send((Item::Received(number, message), at)).is_ok() {
                return number;
            }
            shared.waiting.fetch_sub(1, Ordering::Relaxed);
            shared.waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
        let (from, epoch) = (arrival.stamp, arrival.epoch);
        let gap = Gap { input, messages: 1, first: number, last: number, from, epoch };
        shared.lose(gap);
        0
    }

    fn clock_set(&self, message: ClockMessage) {
        self.put(Item::Clock(message));
    }

    fn note(&self, event: Event) {
        self.put(Item::Event(event));
    }

    fn status(&self) -> RecorderStatus {
        let shared = &self.shared;
        RecorderStatus {
            folder: shared.folder.clone(),
            messages: shared.messages.load(Ordering::Relaxed),
            bytes: shared.bytes.load(Ordering::Relaxed),
            lost: shared.lost_in_all.load(Ordering::Relaxed),
            failed: lock(&shared.failed).clone(),
        }
    }
}

impl Drop for McapRecorder {
    fn drop(&mut self) {
        self.finish();
    }
}

impl Shared {
    /// Notes a message for which there was no room.
    fn lose(&self, gap: Gap) {
        if self.lost_in_all.fetch_add(1, Ordering::Relaxed) == 0 {
            tracing::warn!(
                "recording: the disk is too slow, and messages are missing in {}",
                self.folder.display()
            );
        }
        let mut lost = lock(&self.lost);
        let same = |known: &&mut Gap| known.input == gap.input && known.epoch == gap.epoch;
        match lost.iter_mut().find(same) {
            Some(known) => {
                known.messages += 1;
                known.last = known.last.max(gap.last);
                known.first = known.first.min(gap.first);
            }
            None => lost.push(gap),
        }
        self.has_lost.store(true, Ordering::Relaxed);
    }
}

/// If the thread that writes panics, the recording has ended: the disk is not to blame.
struct EndsIfItPanics(Arc<Shared>);

impl Drop for EndsIfItPanics {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.ended.store(true, Ordering::Relaxed);
            *lock(&self.0.failed) = Some("the thread that writes it panicked".to_owned());
        }
    }
}

/// The thread that writes.
struct Writing {
    shared: Arc<Shared>,
    receiver: Receiver<(Item, Stamp)>,
    writer: RecordingWriter,
}

impl Writing {
    fn run(mut self) {
        let outcome = self.write_all();
        let finished = match outcome {
            Ok(()) => self.writer.finish(),
            Err(error) => Err(error),
        };
        self.shared.ended.store(true, Ordering::Relaxed);
        if let Err(error) = finished {
            let folder = self.shared.folder.display();
            tracing::error!("the recording {folder} ended: {error}; the node goes on");
            *lock(&self.shared.failed) = Some(error.to_string());
        }
        // What waits still holds the buffers of messages.
        while self.receiver.try_recv().is_ok() {}
    }

    fn write_all(&mut self) -> io::Result<()> {
        let mut flushed = Instant::now();
        loop {
            // First: what comes after the stop is no part of the recording.
            let stopping = self.shared.stop.load(Ordering::Relaxed);
            match self.receiver.try_recv() {
                Ok((item, at)) => {
                    self.shared.waiting.fetch_sub(1, Ordering::Relaxed);
                    self.write(item, at)?;
                }
                Err(TryRecvError::Empty) if !stopping => std::thread::sleep(LOOK),
                Err(_) => {
                    self.write_gaps()?;
                    return self.writer.event(&RecordingEvent::End, system_now());
                }
            }
            self.write_gaps()?;
            if flushed.elapsed() > FLUSH {
                self.writer.flush()?;
                flushed = Instant::now();
            }
        }
    }

    fn write(&mut self, item: Item, at: Stamp) -> io::Result<()> {
        match item {
            Item::Received(number, message) => {
                let written = self.writer.received(number, &message);
                let bytes = (*message.bytes).as_ref().len();
                self.shared.waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
                self.count();
                written
            }
            Item::Clock(message) => {
                self.writer.clock(message)?;
                self.count();
                Ok(())
            }
            Item::Event(event) => self.writer.event(&RecordingEvent::Node(event), at),
        }
    }

    fn count(&self) {
        self.shared.messages.store(self.writer.messages, Ordering::Relaxed);
        self.shared.bytes.store(self.writer.bytes, Ordering::Relaxed);
    }

    /// Writes what was lost since the last look.
    fn write_gaps(&mut self) -> io::Result<()> {
        if self.shared.has_lost.swap(false, Ordering::Relaxed) {
            let lost = std::mem::take(&mut *lock(&self.shared.lost));
            for gap in lost {
                self.writer.first(&RecordingEvent::Gap(gap))?;
            }
        }
        match self.shared.lost_events.swap(0, Ordering::Relaxed) {
            0 => Ok(()),
            events => self.writer.first(&RecordingEvent::GapOfEvents(events)),
        }
    }
}
