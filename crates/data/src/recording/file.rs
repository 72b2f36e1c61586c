//! The files of a recording.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, BufWriter, IntoInnerError, Write};
use std::path::PathBuf;

use mcap::records::MessageHeader;
use mcap::write::NoSeek;
use mcap::{WriteOptions, Writer};

use super::copies::Copies;
use super::disk::{Files, Room, Syncing, UntilError};
use super::event::{EVENT_DEFINITION, EVENT_TYPE, RecordingEvent};
use super::log_time::LogTime;
use super::manifest::Manifest;
use super::metadata::{self, FileCount, TopicCount};
use crate::output;
use robocache_core::cdr;
use robocache_core::spec::InputId;
use robocache_ops::time::Stamp;
use robocache_runtime::{ClockMessage, ReceivedMessage};

/// Uncompressed size of a chunk \[bytes\].
const CHUNK: u64 = 4 << 20;
/// A topic that is recorded.
#[derive(Clone, Debug)]
pub(super) struct RecordedTopic {
    pub name: String,
    pub ros_type: String,
    /// The text of its type's definition.
    pub definition: String,
    /// Whether a later subscriber gets its last messages.
    pub latched: bool,
    /// Whether several inputs take it.
    pub shared: bool,
}

/// What a recording has.
#[derive(Clone, Debug)]
pub(super) struct RecordingContents {
    pub folder: PathBuf,
    pub manifest: Manifest,
    /// The topics of the inputs, without repetition.
    pub topics: Vec<RecordedTopic>,
    /// By input: its topic, as a position in `topics`.
    pub topic_of: Vec<usize>,
    /// The topic of the events.
    pub events: String,
    /// The topic of a simulator's clock and its definition, if it has the node's clock.
    pub clock: Option<RecordedTopic>,
    /// A file that is larger \[bytes\] ends, and the next one begins.
    pub split_bytes: u64,
}

/// Writes the files of a recording.
pub(super) struct RecordingWriter {
    contents: RecordingContents,
    files: Box<dyn Files>,
    open: Open,
    /// The files before.
    done: Vec<FileCount>,
    /// Messages by topic: those of the inputs, the events, the clock.
    counts: Vec<u64>,
    /// By topic with several inputs: the latest messages.
    recent: HashMap<usize, Copies>,
    time: LogTime,
    /// The files before that are not safe on the disk yet.
    syncing: Syncing,
    /// Bytes in all files, as far as messages have them.
    pub bytes: u64,
    pub messages: u64,
}

/// The file that is being written.
struct Open {
    name: String,
    writer: Writer<NoSeek<BufWriter<UntilError>>>,
    channels: Vec<u16>,
    span: Option<(Stamp, Stamp)>,
    messages: u64,
    bytes: u64,
}

impl RecordingWriter {
    /// Creates the first file.
    pub(super) fn create(
        contents: RecordingContents,
        mut files: Box<dyn Files>,
    ) -> io::Result<Self> {
        files.room(&contents.folder).map_or(Ok(()), Room::check)?;
        let open = Open::create(&contents, &mut *files, 0)?;
        let counts = vec![0; open.channels.len()];
        let time = LogTime::new(contents.clock.is_some());
        Ok(RecordingWriter {
            contents,
            files,
            open,
            done: Vec::new(),
            counts,
            recent: HashMap::new(),
            time,
            syncing: Syncing::default(),
            bytes: 0,
            messages: 0,
        })
    }

    /// Writes a message and, in front of it, how the node took it.
    pub(super) fn received(&mut self, number: u64, message: &ReceivedMessage) -> io::Result<()> {
        let ReceivedMessage { input, bytes, arrival, at, published } = message;
        let bytes = (**bytes).as_ref();
        let topic = self.contents.topic_of[input.index()];
        let bytes_of = self.known((topic, *input), number, bytes);
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

    /// Writes an event.
    pub(super) fn event(&mut self, event: &RecordingEvent, at: Stamp) -> io::Result<()> {
        let time = self.time.of(event.epoch(), at);
        self.write(self.contents.topics.len(), [time; 2], &event.write())
    }

    /// Writes an event that comes before all that waits.
    pub(super) fn first(&mut self, event: &RecordingEvent) -> io::Result<()> {
        self.write(self.contents.topics.len(), [self.time.last; 2], &event.write())
    }

    /// Ends the chunk and hands all to the operating system: what is written so far can be read from now on.
    ///
    /// # Errors
    /// That of the operating system, or the disk is full.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.open.writer.flush().map_err(output::io)?;
        self.files.room(&self.contents.folder).map_or(Ok(()), Room::check)
    }

    /// Ends the last file, and writes `metadata.yaml`. Returns the files that are not safe on the disk yet.
    pub(super) fn finish(self) -> io::Result<Syncing> {
        let RecordingWriter { contents, mut files, open, mut done, counts, mut syncing, .. } = self;
        done.push(open.finish(&mut syncing)?);
        let contents = &contents;
        let events = RecordedTopic {
            name: contents.events.clone(),
            ros_type: EVENT_TYPE.into(),
            definition: String::new(),
            latched: false,
            shared: false,
        };
        let topics = contents.topics.iter().chain([&events]).chain(&contents.clock).zip(&counts);
        let count = |(topic, messages): (&RecordedTopic, &u64)| TopicCount {
            name: topic.name.clone(),
            ros_type: topic.ros_type.clone(),
            qos: output::qos(topic.latched),
            messages: *messages,
        };
        let topics: Vec<TopicCount> = topics.map(count).collect();
        let mut file = files.create(&contents.folder.join("metadata.yaml"))?;
        file.write_all(metadata::text(&topics, &done).as_bytes())?;
        file.flush()?;
        syncing.add(file)?;
        Ok(syncing)
    }

    /// The number of the message that has these bytes: this one's, unless another input of the topic took them.
    fn known(&mut self, (topic, input): (usize, InputId), number: u64, bytes: &[u8]) -> u64 {
        match self.contents.topics[topic].shared {
            true => self.recent.entry(topic).or_default().take(input, number, bytes),
            false => number,
        }
    }

    fn write(&mut self, topic: usize, times: [Stamp; 2], bytes: &[u8]) -> io::Result<()> {
        let [log_time, publish_time] = times.map(|stamp| stamp.nanos().max(0) as u64);
        self.counts[topic] += 1;
        let sequence = self.counts[topic] as u32;
        let channel_id = self.open.channels[topic];
        let header = MessageHeader { channel_id, sequence, log_time, publish_time };
        let written = self.open.writer.write_to_known_channel(&header, bytes);
        written.map_err(output::io)?;
        let time = times[0];
        let span = self.open.span.unwrap_or((time, time));
        self.open.span = Some((span.0.min(time), span.1.max(time)));
        self.open.messages += 1;
        self.open.bytes += bytes.len() as u64;
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    /// Begins the next file if this one is large.
    fn split(&mut self) -> io::Result<()> {
        if self.open.bytes < self.contents.split_bytes {
            return Ok(());
        }
        let next = Open::create(&self.contents, &mut *self.files, self.done.len() + 1)?;
        let before = std::mem::replace(&mut self.open, next);
        self.done.push(before.finish(&mut self.syncing)?);
        self.recent.clear();
        Ok(())
    }
}

impl Open {
    /// Creates the file of this number, with the manifest and all topics.
    fn create(
        contents: &RecordingContents,
        files: &mut dyn Files,
        number: usize,
    ) -> io::Result<Self> {
        let stem = contents.folder.file_name().unwrap_or_default().to_string_lossy();
        let name = format!("{stem}_{number}.mcap");
        let disk = UntilError::new(files.create(&contents.folder.join(&name))?);
        let options = WriteOptions::new()
            .compression(None)
            .profile("ros2")
            .library(concat!("robocache ", env!("CARGO_PKG_VERSION")))
            .chunk_size(Some(CHUNK))
            // A chunk is written at once, so that a file without an end is whole up to there.
            .disable_seeking(true);
        let mut writer =
            Writer::with_options(NoSeek::new(BufWriter::new(disk)), options).map_err(output::io)?;
        let mut channels = Vec::new();
        writer.write_metadata(&contents.manifest.record()).map_err(output::io)?;
        let mut add = |topic: &str, ros_type: &str, definition: &str, latched: bool| {
            let schema = writer.add_schema(ros_type, "ros2msg", definition.as_bytes())?;
            let qos = output::qos(latched);
            let qos = BTreeMap::from([("offered_qos_profiles".to_owned(), qos)]);
            channels.push(writer.add_channel(schema, topic, "cdr", &qos)?);
            Ok(())
        };
        let mut all = || -> mcap::McapResult<()> {
            for topic in &contents.topics {
                add(&topic.name, &topic.ros_type, &topic.definition, topic.latched)?;
            }
            add(&contents.events, EVENT_TYPE, EVENT_DEFINITION, false)?;
            match &contents.clock {
                Some(clock) => add(&clock.name, &clock.ros_type, &clock.definition, false),
                None => Ok(()),
            }
        };
        all().map_err(output::io)?;
        Ok(Open { name, writer, channels, span: None, messages: 0, bytes: 0 })
    }

    /// Ends the file.
    fn finish(mut self, syncing: &mut Syncing) -> io::Result<FileCount> {
        self.writer.finish().map_err(output::io)?;
        let disk = self.writer.into_inner().into_inner().into_inner();
        if let Some(disk) = disk.map_err(IntoInnerError::into_error)?.into_disk() {
            syncing.add(disk)?;
        }
        Ok(FileCount { name: self.name, span: self.span, messages: self.messages })
    }
}

/// The inputs of each topic, by position.
pub(super) fn topics_of(topics: &[String]) -> (Vec<String>, Vec<usize>) {
    let mut names: Vec<String> = Vec::new();
    let place = |topic: &String| {
        names.iter().position(|known| known == topic).unwrap_or_else(|| {
            names.push(topic.clone());
            names.len() - 1
        })
    };
    let of = topics.iter().map(place).collect();
    (names, of)
}

/// The first input of a topic.
pub(super) fn first_of(topic_of: &[usize], topic: usize) -> Option<InputId> {
    topic_of.iter().position(|of| *of == topic).map(InputId::new)
}
