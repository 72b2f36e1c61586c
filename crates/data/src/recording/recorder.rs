//! Records a node: takes what it receives and does, and hands it to a thread that writes it.
//!
//! The queue between them is bounded, in messages, events and bytes. The writing thread looks into it every few
//! milliseconds: so a thread that tells something never wakes another one, and never waits.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use super::compression::ChunkCompression;
use super::contents::{FileRules, contents, new_folder};
use super::disk::{Files, OnDisk};
use super::episodes::Episodes;
use super::event::RecordingEvent;
use super::file::{RecordLimits, RecordingWriter, Ring};
use super::lead::Lead;
use super::manifest::Manifest;
use super::offers::Offers;
use super::queue::{Item, Queue, QueueRoom};
use super::request::{Answer, EpisodeRequest, MarkRequest, NotRecorded, Request};
use super::writing::{Target, Writing};
use robocache_core::schema::Definitions;
use robocache_core::spec::{Config, InputId};
use robocache_ops::sync::lock;
use robocache_ops::time::Stamp;
use robocache_runtime::{
    ChunkRecord, ClockMessage, Event, OfferedQos, ReceivedMessage, Recorder, RecorderStatus,
    SharedBytes, TimeSource,
};

/// Time between two looks at the thread.
const LOOK: Duration = Duration::from_millis(5);
/// Usual limit of the end of a recording.
const END: Duration = Duration::from_secs(4);
/// Longest wait for the answer to a request, as a part of the limit of the end. The thread that asks answers others, too.
const ANSWER: u32 = 2;

/// Options of a recorder.
pub struct RecordOptions {
    /// The folder in which each run has one of its own.
    pub folder: PathBuf,
    /// How the node runs.
    pub manifest: Manifest,
    /// The topic of the events.
    pub events: String,
    /// Most bytes of messages that wait for the disk.
    pub queue_bytes: usize,
    /// Most of these messages; there may be twice as many events. Their places are memory from the start on.
    pub queue_messages: usize,
    /// A file that is larger \[bytes\] ends, and the next one begins.
    pub split_bytes: u64,
    /// Opener of files; `None` for those of the file system.
    pub files: Option<Box<dyn Files>>,
    /// Limit of the end of the recording. What waits is written for three quarters of it. In the rest, the last file gets
    /// its end.
    pub end: Duration,
    /// True if [`Recorder::offered`] tells what publishers offer. The first message of a topic waits for that, for a second
    /// at most. If nothing at all is offered meanwhile, no other topic waits.
    pub has_graph: bool,
    /// True if nothing is recorded but episodes, between [`McapRecorder::begin`] and [`McapRecorder::end`].
    pub episodes: bool,
    /// The compression of chunks.
    pub compression: ChunkCompression,
    /// How much of a recording of the whole run is kept.
    pub limits: RecordLimits,
    /// Most bytes of the messages that an episode or a ring of files begins with, which are in memory; see
    /// [`lead`](super::lead).
    pub lead_bytes: usize,
    /// Source of the time of the node.
    pub time: TimeSource,
}

impl RecordOptions {
    /// The usual options.
    pub fn new(folder: &Path, manifest: Manifest, time: TimeSource) -> Self {
        RecordOptions {
            folder: folder.to_owned(),
            manifest,
            events: "/fusion_node/recording".to_owned(),
            queue_bytes: 256 << 20,
            queue_messages: 1 << 16,
            split_bytes: 4 << 30,
            files: None,
            end: END,
            has_graph: false,
            episodes: false,
            compression: ChunkCompression::default(),
            limits: RecordLimits::default(),
            lead_bytes: 512 << 20,
            time,
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

impl RecordError {
    /// An error of this folder or file.
    pub(super) fn of(path: &Path) -> impl FnOnce(io::Error) -> Self + use<'_> {
        move |source| RecordError { path: path.to_owned(), source }
    }
}

/// Records a node in MCAP. A drop ends the recording.
pub struct McapRecorder {
    queue: Arc<Queue>,
    offers: Arc<Offers>,
    thread: Mutex<Option<JoinHandle<()>>>,
    end: Duration,
    time: TimeSource,
}

impl McapRecorder {
    /// Begins a recording of a node with this configuration, in a new folder. `now` is the node's clock. A recorder of
    /// episodes waits for the first request.
    ///
    /// # Errors
    /// The folder or the first file cannot be created, or the disk is full.
    pub fn start(
        options: RecordOptions,
        config: &Config,
        definitions: &dyn Definitions,
        now: Option<Stamp>,
    ) -> Result<Self, RecordError> {
        let asked = options.folder.clone();
        let episodes = options.episodes;
        let (recorder, writing) = Self::without_thread(options, config, definitions, now)?;
        let own = if episodes { asked } else { recorder.folder() };
        let thread = std::thread::Builder::new().name("record".into());
        let thread = thread.spawn(move || writing.run()).map_err(RecordError::of(&own))?;
        match episodes {
            true => tracing::info!("episodes are recorded to {} on request", own.display()),
            false => tracing::info!("recording to {}", own.display()),
        }
        *lock(&recorder.thread) = Some(thread);
        Ok(recorder)
    }

    /// Starts a recorder without a thread that writes: the caller steps the loop, and ends it ([`Writing::end`]). So
    /// [`McapRecorder::finish`] only asks it to end.
    ///
    /// # Errors
    /// As for [`McapRecorder::start`].
    pub fn without_thread(
        options: RecordOptions,
        config: &Config,
        definitions: &dyn Definitions,
        now: Option<Stamp>,
    ) -> Result<(Self, Writing), RecordError> {
        let RecordOptions { folder, manifest, events, split_bytes, .. } = options;
        let room = QueueRoom { messages: options.queue_messages, bytes: options.queue_bytes };
        let RecordOptions { files, end, has_graph, episodes, lead_bytes, time, .. } = options;
        let RecordOptions { compression, limits, .. } = options;
        let recorded = manifest.recorded_inputs(config);
        let ring = Ring::new(limits, config, split_bytes, lead_bytes).filter(|_| !episodes);
        // The ring says when a file ends.
        let split_bytes = if ring.is_some() { u64::MAX } else { split_bytes };
        let files = files.unwrap_or_else(|| Box::new(OnDisk));
        if episodes {
            std::fs::create_dir_all(&folder).map_err(RecordError::of(&folder))?;
        }
        let own = match episodes {
            true => folder,
            false => new_folder(&folder, None, time.system())?,
        };
        let rules = FileRules { events, split_bytes, compression };
        let contents = contents(&own, manifest, rules, config, definitions);
        let offers = Arc::new(Offers::new(&contents));
        let target = match episodes {
            true => {
                let lead = Lead::new(config, lead_bytes);
                Target::Episodes(Box::new(Episodes::new(contents, files, lead, config.grid)))
            }
            false => {
                let writer = RecordingWriter::create(contents, Arc::clone(&offers), files);
                let mut writer = writer.map_err(|(error, _)| {
                    // A folder without a file is no recording.
                    let _ = std::fs::remove_dir(&own);
                    RecordError::of(&own)(error)
                })?;
                let start = writer.event(&RecordingEvent::Start { at: now }, time.system());
                start.map_err(RecordError::of(&own))?;
                Target::Run(Box::new(writer), ring.map(Box::new))
            }
        };
        let of_queue = if episodes { PathBuf::new() } else { own };
        let (queue, waiting) = Queue::new(of_queue, config, recorded, room, time.clone());
        let queue = Arc::new(queue);
        let writing = Writing::new(
            Arc::clone(&queue),
            waiting,
            target,
            Arc::clone(&offers),
            has_graph,
            end,
            time.clone(),
        );
        Ok((McapRecorder { queue, offers, thread: Mutex::new(None), end, time }, writing))
    }

    /// The folder of this recording; empty between two episodes.
    pub fn folder(&self) -> PathBuf {
        self.queue.folder()
    }

    /// Begins an episode: what is received from now on, and the messages whose rows the rings hold. Returns its folder.
    ///
    /// # Errors
    /// [`NotRecorded`]
    pub fn begin(&self, episode: EpisodeRequest) -> Result<PathBuf, NotRecorded> {
        episode.check()?;
        self.ask(|answer| Request::Begin(episode, answer))
    }

    /// Ends the episode. Returns its folder. Its files are complete then.
    ///
    /// # Errors
    /// [`NotRecorded`]
    pub fn end(&self) -> Result<PathBuf, NotRecorded> {
        self.ask(Request::End)
    }

    /// Notes something in the recording. Returns its folder.
    ///
    /// # Errors
    /// [`NotRecorded`]
    pub fn mark(&self, mark: MarkRequest) -> Result<PathBuf, NotRecorded> {
        mark.check()?;
        self.ask(|answer| Request::Mark(mark, answer))
    }

    /// Hands a request to the thread that writes, behind all that was told before, and waits for the answer.
    fn ask(&self, request: impl FnOnce(Answer) -> Request) -> Result<PathBuf, NotRecorded> {
        let (answer, answered) = sync_channel(1);
        self.queue.tell(Item::Request(request(answer)));
        answered.recv_timeout(self.end / ANSWER).unwrap_or(Err(NotRecorded::Silent))
    }

    /// Writes what waits, as far as the limit allows, and ends the recording. If the disk does not answer,
    /// this leaves the thread behind. If another thread does this already, the caller waits for it.
    pub fn finish(&self) {
        self.queue.stop.store(true, Ordering::Relaxed);
        let mut ending = lock(&self.thread);
        let Some(thread) = ending.take() else { return };
        let stopped = self.time.monotonic();
        while !thread.is_finished() {
            if self.time.since(stopped) > self.end {
                return self.leave_behind();
            }
            std::thread::sleep(LOOK);
        }
        // A panic is in the log.
        let _ = thread.join();
    }

    /// Ends without the thread that writes.
    fn leave_behind(&self) {
        let Queue { complete, ended, failed, .. } = &*self.queue;
        let folder = self.queue.folder();
        let seconds = self.end.as_secs_f64();
        let folder = folder.display();
        if complete.load(Ordering::Relaxed) {
            tracing::warn!(
                "the recording {folder} is complete, but after {seconds} s the disk has not stored all of it"
            );
            return;
        }
        ended.store(true, Ordering::Relaxed);
        let why = format!("the disk did not answer for {seconds} s, so it has no end");
        tracing::error!("the recording {folder}: {why}");
        *lock(failed) = Some(why);
    }
}

impl Recorder for McapRecorder {
    fn received(&self, message: ReceivedMessage) -> u64 {
        self.queue.receive(message)
    }

    fn clock_set(&self, message: ClockMessage) {
        self.queue.tell(Item::Clock(message));
    }

    fn offered(&self, input: Option<InputId>, offers: Vec<OfferedQos>) {
        self.offers.note(input, &offers);
    }

    fn chunk(&self, found: ChunkRecord, message: SharedBytes) {
        self.queue.tell(Item::Chunk(found, message));
    }

    fn note(&self, event: Event) {
        self.queue.tell(Item::Event(event));
    }

    fn status(&self) -> RecorderStatus {
        self.queue.status()
    }
}

impl Drop for McapRecorder {
    fn drop(&mut self) {
        self.finish();
    }
}

#[cfg(test)]
mod tests;
