//! The files of a recording.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fs::File;
use std::io::{self, BufWriter, IntoInnerError, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use mcap::records::MessageHeader;
use mcap::write::NoSeek;
use mcap::{Compression, WriteOptions, Writer};
use nix::fcntl::Flock;

use super::copies::Copies;
use super::disk::{Files, Room, Syncing, UntilError};
use super::ending;
use super::event::{EVENT_TYPE, RecordingEvent};
use super::log_time::LogTime;
use super::manifest::Manifest;
use super::metadata::{self, FileCount, TopicCount};
use super::offers::Offers;
use crate::output;
use robocache_core::cdr;
use robocache_core::spec::InputId;
use robocache_ops::time::Stamp;
use robocache_runtime::{ChunkRecord, ClockMessage, ReceivedMessage};

mod ring;

pub use ring::RecordLimits;
pub(super) use ring::Ring;

/// Uncompressed size of a chunk \[bytes\].
const CHUNK: u64 = 4 << 20;
/// How chunks are compressed: the fastest level, as the robot needs its processors, on so many threads of ordinary priority.
const LEVEL: u32 = 1;
const COMPRESS_THREADS: u32 = 2;
/// A topic that is recorded.
#[derive(Clone, Debug)]
pub(super) struct RecordedTopic {
    pub name: String,
    pub ros_type: String,
    /// The text of its type's definition.
    pub definition: String,
    /// True if a later subscriber gets the topic's last messages.
    pub latched: bool,
    /// True if several inputs take the topic.
    pub shared: bool,
}

impl RecordedTopic {
    /// The quality of service of its publishers, as rosbag2 stores it: what they offer, if that is known. If it is not, a topic
    /// whose last messages matter is latched, so that a player gives them to later subscribers. The events have no publisher.
    fn qos(&self, offers: String) -> String {
        match offers.is_empty() && (self.latched || self.ros_type == EVENT_TYPE) {
            true => output::qos(self.latched),
            false => offers,
        }
    }
}

/// Contents of a recording.
#[derive(Clone, Debug)]
pub(super) struct RecordingContents {
    pub folder: PathBuf,
    pub manifest: Manifest,
    /// The topics of the inputs, without repetition.
    pub topics: Vec<RecordedTopic>,
    /// By input: its topic, as a position in `topics`; `None` if it is not recorded.
    pub topic_of: Vec<Option<usize>>,
    /// The topic of the events.
    pub events: RecordedTopic,
    /// The topic of a simulator's clock and its definition, if it has the node's clock.
    pub clock: Option<RecordedTopic>,
    /// The topic of chunks of actions, if the node makes commands of them.
    pub chunks: Option<RecordedTopic>,
    /// A file that is larger \[bytes\] ends, and the next one begins.
    pub split_bytes: u64,
    /// True if chunks are compressed.
    pub is_compressed: bool,
}

impl RecordingContents {
    /// The name of the file of this number, with this ending.
    fn file_name(&self, number: usize, ending: &str) -> String {
        let stem = self.folder.file_name().unwrap_or_default().to_string_lossy();
        format!("{stem}_{number}.{ending}")
    }

    /// All topics: those of the inputs, the events, the clock, the chunks.
    pub(super) fn all(&self) -> impl Iterator<Item = &RecordedTopic> {
        self.topics.iter().chain([&self.events]).chain(&self.clock).chain(&self.chunks)
    }
}

/// Writes the files of a recording.
pub(super) struct RecordingWriter {
    contents: RecordingContents,
    /// Others see that the folder is being written.
    _held: Option<Flock<File>>,
    files: Box<dyn Files>,
    open: Open,
    /// Number of the file that is being written.
    number: usize,
    /// The files before that are still there.
    done: VecDeque<FileCount>,
    /// The file with what the oldest file begins with, if there were files before it.
    begin: Option<FileCount>,
    /// Messages by topic: those of the inputs, the events, the clock.
    counts: Vec<u64>,
    offers: Arc<Offers>,
    /// By topic with several inputs: the latest messages.
    recent: HashMap<usize, Copies>,
    time: LogTime,
    /// The files before that are not safe on the disk yet.
    syncing: Syncing,
    /// Bytes in all files, as far as messages have them.
    pub bytes: u64,
    pub messages: u64,
    /// Messages in files that were deleted.
    pub deleted: u64,
    /// True if a file has no end, because its disk failed.
    broken: bool,
}

/// The file that is being written.
struct Open {
    name: String,
    writer: Writer<NoSeek<BufWriter<UntilError>>>,
    /// By topic: its channel, which is made for its first message. One is enough for all: some readers of bags expect that.
    channels: Vec<Option<u16>>,
    span: Option<(Stamp, Stamp)>,
    /// Messages by topic.
    counts: Vec<u64>,
    bytes: u64,
    /// Bytes that the disk got.
    stored: Arc<AtomicU64>,
    /// Messages that it begins with if all files before it are deleted.
    lead: Option<Box<FileCount>>,
}

impl RecordingWriter {
    /// Creates the first file.
    ///
    /// # Errors
    /// It cannot be created, or the disk is full. The files come back for another try.
    pub(super) fn create(
        contents: RecordingContents,
        offers: Arc<Offers>,
        files: Box<dyn Files>,
    ) -> Result<Self, (io::Error, Box<dyn Files>)> {
        let name = contents.file_name(0, "mcap");
        Self::create_file(contents, offers, files, name)
    }

    /// Creates a file of this name.
    fn create_file(
        contents: RecordingContents,
        offers: Arc<Offers>,
        mut files: Box<dyn Files>,
        name: String,
    ) -> Result<Self, (io::Error, Box<dyn Files>)> {
        let room = files.room(&contents.folder).map_or(Ok(()), Room::check);
        let held = ending::hold(&contents.folder);
        let open = match room.and_then(|()| Open::create(&contents, &mut *files, name)) {
            Ok(open) => open,
            Err(error) => return Err((error, files)),
        };
        let counts = vec![0; open.channels.len()];
        let time = LogTime::new(contents.clock.is_some());
        Ok(RecordingWriter {
            contents,
            _held: held,
            files,
            open,
            number: 0,
            done: VecDeque::new(),
            begin: None,
            counts,
            offers,
            recent: HashMap::new(),
            time,
            syncing: Syncing::default(),
            bytes: 0,
            messages: 0,
            deleted: 0,
            broken: false,
        })
    }

    /// Writes a message and, in front of it, how the node took it.
    pub(super) fn received(&mut self, number: u64, message: &ReceivedMessage) -> io::Result<()> {
        let ReceivedMessage { input, bytes, arrival, at, published } = message;
        let bytes = (**bytes).as_ref();
        let Some(topic) = self.contents.topic_of[input.index()] else { return Ok(()) };
        let bytes_of = self.known(topic, *input, number, bytes);
        let event = RecordingEvent::Received { number, input: *input, arrival: *arrival, bytes_of };
        let time = self.time.of(Some(arrival.epoch), *at);
        self.write(self.contents.topics.len(), [time; 2], &event.write())?;
        if bytes_of == number {
            // MCAP repeats the time of the log if the publication time is unknown.
            self.write(topic, [time, published.unwrap_or(time)], bytes)?;
            self.messages += 1;
        }
        self.split()
    }

    /// Writes a message on `/clock`.
    pub(super) fn clock(&mut self, message: ClockMessage) -> io::Result<()> {
        let ClockMessage { stamp, at, published } = message;
        let mut writer = cdr::Writer::new();
        let (sec, nanosec) = stamp.to_sec_nanosec();
        writer.i32(sec);
        writer.u32(nanosec);
        let time = self.time.of(None, at);
        self.messages += 1;
        let topic = self.contents.topics.len() + 1;
        self.write(topic, [time, published.unwrap_or(time)], &writer.finish())
    }

    /// Writes a chunk of actions and, in front of it, how a command tick found it.
    pub(super) fn chunk(
        &mut self,
        found: ChunkRecord,
        message: &[u8],
        at: Stamp,
    ) -> io::Result<()> {
        let time = self.time.of(Some(found.epoch), at);
        let events = self.contents.topics.len();
        self.write(events, [time; 2], &RecordingEvent::Chunk(found).write())?;
        self.messages += 1;
        self.write(events + 1 + usize::from(self.contents.clock.is_some()), [time; 2], message)
    }

    /// QoS that the publishers of its topics offer.
    pub(super) fn offers(&self) -> &Offers {
        &self.offers
    }

    /// The number of an input's topic, or of the clock's for `None`. An input that is not recorded has none.
    pub(super) fn topic(&self, input: Option<InputId>) -> Option<usize> {
        match input {
            Some(input) => self.contents.topic_of[input.index()],
            None => Some(self.contents.topics.len() + 1),
        }
    }

    /// True if the next message of a topic is the first one in its file, and no offer of its publisher is known.
    pub(super) fn lacks_offers(&self, topic: usize) -> bool {
        self.open.channels[topic].is_none() && !self.offers.has(topic)
    }

    /// Writes an event.
    pub(super) fn event(&mut self, event: &RecordingEvent, at: Stamp) -> io::Result<()> {
        let time = self.time.of(event.epoch(), at);
        self.write(self.contents.topics.len(), [time; 2], &event.write())
    }

    /// Writes an event that comes before all that waits.
    pub(super) fn first(&mut self, event: &RecordingEvent) -> io::Result<()> {
        self.write(self.contents.topics.len(), [self.time.last; 2], &event.write())
    }

    /// Ends the chunk and hands all to the operating system: what is written so far can be read from now on. Returns the
    /// room on the disk, if that is known.
    ///
    /// # Errors
    /// That of the operating system, or the disk is full.
    pub(super) fn flush(&mut self) -> io::Result<Option<Room>> {
        self.open.writer.flush().map_err(output::io)?;
        let room = self.files.room(&self.contents.folder);
        room.map_or(Ok(()), Room::check)?;
        Ok(room)
    }

    /// Ends the last file, and writes `metadata.yaml` if all files have their ends: readers take those alone that it names.
    /// Returns the files that are not safe on the disk yet, and what opens those of the next recording.
    pub(super) fn finish(mut self) -> (io::Result<Syncing>, Box<dyn Files>) {
        self.remove_leads();
        let RecordingWriter { contents, mut files, open, done, begin, offers, .. } = self;
        let broken = self.broken;
        let mut syncing = self.syncing;
        let mut done: Vec<FileCount> = begin.into_iter().chain(done).collect();
        let finished =
            open.finish(&contents, &offers, &mut syncing).and_then(|last| match broken {
                true => Err(io::Error::other("a file before could not be ended")),
                false => {
                    done.push(last);
                    write_metadata(&contents, &offers, &done, syncing, &mut *files)
                }
            });
        (finished, files)
    }

    /// The number of the message that has these bytes: this one's, unless another input of the topic took them.
    fn known(&mut self, topic: usize, input: InputId, number: u64, bytes: &[u8]) -> u64 {
        match self.contents.topics[topic].shared {
            true => self.recent.entry(topic).or_default().take(input, number, bytes),
            false => number,
        }
    }

    fn write(&mut self, topic: usize, times: [Stamp; 2], bytes: &[u8]) -> io::Result<()> {
        let [log_time, publish_time] = times.map(|stamp| stamp.nanos().max(0) as u64);
        self.counts[topic] += 1;
        self.open.counts[topic] += 1;
        let sequence = self.counts[topic] as u32;
        let channel_id = self.open.channel(&self.contents, &self.offers, topic)?;
        let header = MessageHeader { channel_id, sequence, log_time, publish_time };
        let written = self.open.writer.write_to_known_channel(&header, bytes);
        written.map_err(output::io)?;
        let time = times[0];
        let span = self.open.span.unwrap_or((time, time));
        self.open.span = Some((span.0.min(time), span.1.max(time)));
        self.open.bytes += bytes.len() as u64;
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    /// Begins the next file if this one is large.
    fn split(&mut self) -> io::Result<()> {
        if self.open.bytes < self.contents.split_bytes {
            return Ok(());
        }
        self.begin_next()
    }

    /// Ends the file, and begins the next one.
    fn begin_next(&mut self) -> io::Result<()> {
        self.number += 1;
        let name = self.contents.file_name(self.number, "mcap");
        let next = Open::create(&self.contents, &mut *self.files, name)?;
        let before = std::mem::replace(&mut self.open, next);
        let ended = before.finish(&self.contents, &self.offers, &mut self.syncing);
        self.broken |= ended.is_err();
        self.done.push_back(ended?);
        self.recent.clear();
        Ok(())
    }
}

impl Open {
    /// Creates the file of this name, with the manifest.
    fn create(
        contents: &RecordingContents,
        files: &mut dyn Files,
        name: String,
    ) -> io::Result<Self> {
        let stored = Arc::new(AtomicU64::new(0));
        let disk = files.create(&contents.folder.join(&name))?;
        let disk = UntilError::new(disk, Arc::clone(&stored));
        let options = WriteOptions::new()
            .compression(contents.is_compressed.then_some(Compression::Zstd))
            .compression_level(LEVEL)
            .compression_threads(COMPRESS_THREADS)
            .profile("ros2")
            .library(concat!("robocache ", env!("CARGO_PKG_VERSION")))
            .chunk_size(Some(CHUNK))
            // A chunk is written at once, so that a file without an end is whole up to there.
            .disable_seeking(true);
        let mut writer =
            Writer::with_options(NoSeek::new(BufWriter::new(disk)), options).map_err(output::io)?;
        writer.write_metadata(&contents.manifest.record()).map_err(output::io)?;
        let topics = contents.all().count();
        let channels = vec![None; topics];
        let counts = vec![0; topics];
        Ok(Open { name, writer, channels, span: None, counts, bytes: 0, stored, lead: None })
    }

    /// The channel of a topic. If the file has none yet, it gets one, with the offers that are known now.
    fn channel(
        &mut self,
        contents: &RecordingContents,
        offers: &Offers,
        topic: usize,
    ) -> io::Result<u16> {
        if let Some(channel) = self.channels[topic] {
            return Ok(channel);
        }
        let Some(of) = contents.all().nth(topic) else {
            return Err(io::Error::other("a message of an unknown topic"));
        };
        let qos = of.qos(offers.text(topic));
        let qos = BTreeMap::from([("offered_qos_profiles".to_owned(), qos)]);
        let schema = self.writer.add_schema(&of.ros_type, "ros2msg", of.definition.as_bytes());
        let channel = schema.and_then(|id| self.writer.add_channel(id, &of.name, "cdr", &qos));
        let channel = channel.map_err(output::io)?;
        self.channels[topic] = Some(channel);
        Ok(channel)
    }

    /// Ends the file. Topics without a message are in it, too.
    fn finish(
        mut self,
        contents: &RecordingContents,
        offers: &Offers,
        syncing: &mut Syncing,
    ) -> io::Result<FileCount> {
        for topic in 0..self.channels.len() {
            self.channel(contents, offers, topic)?;
        }
        self.writer.finish().map_err(output::io)?;
        let Open { writer, .. } = self;
        let disk = writer.into_inner().into_inner().into_inner();
        if let Some(disk) = disk.map_err(IntoInnerError::into_error)?.into_disk() {
            syncing.add(disk)?;
        }
        let Open { name, span, counts, stored, lead, .. } = self;
        Ok(FileCount { name, span, counts, stored: stored.load(Ordering::Relaxed), lead })
    }
}

/// Writes `metadata.yaml` of these files.
fn write_metadata(
    contents: &RecordingContents,
    offers: &Offers,
    done: &[FileCount],
    mut syncing: Syncing,
    files: &mut dyn Files,
) -> io::Result<Syncing> {
    let count = |(at, topic): (usize, &RecordedTopic)| TopicCount {
        name: topic.name.clone(),
        ros_type: topic.ros_type.clone(),
        qos: topic.qos(offers.text(at)),
        messages: done.iter().map(|file| file.counts[at]).sum(),
    };
    let topics: Vec<TopicCount> = contents.all().enumerate().map(count).collect();
    // On a full disk, and for those who look meanwhile, there is none rather than a part of it.
    let [partial, path] =
        ["metadata.partial", "metadata.yaml"].map(|name| contents.folder.join(name));
    let mut file = files.create(&partial)?;
    file.write_all(metadata::text(&topics, done).as_bytes())?;
    file.flush()?;
    files.replace(&path, &partial)?;
    syncing.add(file)?;
    Ok(syncing)
}

/// The topics of inputs, and by input the position of its topic. An input that is not recorded has none.
pub(super) fn topics_of(topics: &[String], recorded: &[bool]) -> (Vec<String>, Vec<Option<usize>>) {
    let mut names: Vec<String> = Vec::new();
    let place = |(topic, recorded): (&String, &bool)| {
        let known = names.iter().position(|known| known == topic).filter(|_| *recorded);
        known.or_else(|| {
            recorded.then(|| {
                names.push(topic.clone());
                names.len() - 1
            })
        })
    };
    let of = topics.iter().zip(recorded).map(place).collect();
    (names, of)
}

/// The first input of a topic.
pub(super) fn first_of(topic_of: &[Option<usize>], topic: usize) -> Option<InputId> {
    topic_of.iter().position(|of| *of == Some(topic)).map(InputId::new)
}
