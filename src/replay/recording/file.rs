//! The files of a recording.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use mcap::records::MessageHeader;
use mcap::{WriteOptions, Writer};

use super::entry::{ENTRY_DEFINITION, ENTRY_TYPE, Entry};
use super::manifest::Manifest;
use super::metadata::{self, FileCount, TopicCount};
use crate::cdr;
use crate::replay::output;
use crate::runtime::ReceivedMessage;
use crate::spec::InputId;
use crate::time::{Epoch, NANOS_PER_S, Stamp};

/// Uncompressed size of a chunk \[bytes\].
const CHUNK: u64 = 4 << 20;
/// Messages of a topic with several inputs that are remembered, so that its bytes are written once.
pub const REMEMBERED: usize = 64;

/// What a file is written to.
pub trait Disk: Write + Seek + Send {}

impl<T: Write + Seek + Send> Disk for T {}

/// Opens the files of a recording.
pub trait Files: Send {
    /// Creates a file that does not exist yet.
    ///
    /// # Errors
    /// That of the operating system.
    fn create(&mut self, path: &Path) -> io::Result<Box<dyn Disk>>;
}

/// Files of the file system.
pub(super) struct OnDisk;

impl Files for OnDisk {
    fn create(&mut self, path: &Path) -> io::Result<Box<dyn Disk>> {
        let file: File = OpenOptions::new().write(true).create_new(true).open(path)?;
        Ok(Box::new(file))
    }
}

/// A disk that writes nothing more after its first error: the end of a file must not follow a hole.
struct UntilError {
    disk: Box<dyn Disk>,
    failed: bool,
}

impl UntilError {
    fn attempt<T>(
        &mut self,
        attempt: impl FnOnce(&mut dyn Disk) -> io::Result<T>,
    ) -> io::Result<T> {
        if self.failed {
            return Err(io::Error::other("an earlier write failed"));
        }
        let result = attempt(&mut *self.disk);
        let interrupted = |error: &io::Error| error.kind() == io::ErrorKind::Interrupted;
        self.failed = result.as_ref().is_err_and(|error| !interrupted(error));
        result
    }
}

impl Write for UntilError {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.attempt(|disk| disk.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.attempt(|disk| disk.flush())
    }
}

impl Seek for UntilError {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.attempt(|disk| disk.seek(to))
    }
}

/// A topic that is recorded.
#[derive(Clone, Debug)]
pub(super) struct TopicPlan {
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
pub(super) struct FilePlan {
    pub folder: PathBuf,
    pub manifest: Manifest,
    /// The topics of the inputs, without repetition.
    pub topics: Vec<TopicPlan>,
    /// By input: its topic, as a position in `topics`.
    pub topic_of: Vec<usize>,
    /// The topic of the events.
    pub entries: String,
    /// The topic of a simulator's clock and its definition, if it has the node's clock.
    pub clock: Option<TopicPlan>,
    /// A file that is larger \[bytes\] ends, and the next one begins.
    pub split_bytes: u64,
}

/// Writes the files of a recording.
pub(super) struct RecordingWriter {
    plan: FilePlan,
    files: Box<dyn Files>,
    open: Open,
    /// The files before.
    done: Vec<FileCount>,
    /// Messages by topic: those of the inputs, the events, the clock.
    counts: Vec<u64>,
    /// By topic with several inputs: the latest messages.
    recent: HashMap<usize, Taken>,
    time: LogTime,
    /// Bytes in all files, as far as messages have them.
    pub bytes: u64,
    pub messages: u64,
}

/// The latest messages of a topic that several inputs take.
#[derive(Default)]
struct Taken(VecDeque<TakenMessage>);

struct TakenMessage {
    hash: u64,
    len: usize,
    number: u64,
    by: Vec<InputId>,
}

impl Taken {
    /// The number of the message with these bytes: the first such that this input has not taken yet, else
    /// this one's. A publisher may send equal bytes twice.
    fn take(&mut self, input: InputId, number: u64, bytes: &[u8]) -> u64 {
        let (hash, len) = (twox_hash::XxHash3_64::oneshot(bytes), bytes.len());
        let is_copy = |known: &&mut TakenMessage| {
            (known.hash, known.len) == (hash, len) && !known.by.contains(&input)
        };
        if let Some(known) = self.0.iter_mut().find(is_copy) {
            known.by.push(input);
            return known.number;
        }
        if self.0.len() == REMEMBERED {
            self.0.pop_front();
        }
        self.0.push_back(TakenMessage { hash, len, number, by: vec![input] });
        number
    }
}

/// The time of the log: that of the system's clock, but it never goes back.
#[derive(Default)]
struct LogTime {
    last: Stamp,
    /// How far it is ahead of the system's clock.
    ahead_ns: i64,
    /// The newest epoch.
    epoch: Epoch,
    /// Whether a simulator has the node's clock: then the epochs do not tell of the system's clock.
    simulated: bool,
}

impl LogTime {
    /// The time of the log for an instant of the system's clock, which is of this epoch of the node's.
    fn of(&mut self, epoch: Option<Epoch>, at: Stamp) -> Stamp {
        /// With a simulator's clock: after a longer step back \[ns\] the log goes on from before.
        const STEP_BACK_NS: i64 = NANOS_PER_S;
        let behind_ns = self.last.since(at.offset(self.ahead_ns));
        if !self.simulated {
            let epoch = epoch.unwrap_or(self.epoch);
            if epoch.is_before(self.epoch) {
                // The clock was set back since: what it said then is no time of the log.
                return self.last;
            }
            if self.epoch.is_before(epoch) {
                self.epoch = epoch;
                self.ahead_ns = self.ahead_ns.saturating_add(behind_ns.max(0));
            }
        } else if behind_ns > STEP_BACK_NS {
            self.ahead_ns = self.ahead_ns.saturating_add(behind_ns);
        }
        // MCAP has no instants before zero. What another thread was late to tell has the time of the latest.
        self.last = self.last.max(at.offset(self.ahead_ns));
        self.last
    }
}

/// The file that is being written.
struct Open {
    name: String,
    writer: Writer<BufWriter<UntilError>>,
    channels: Vec<u16>,
    span: Option<(Stamp, Stamp)>,
    messages: u64,
    bytes: u64,
}

impl RecordingWriter {
    /// Creates the first file.
    pub fn create(plan: FilePlan, mut files: Box<dyn Files>) -> io::Result<Self> {
        let open = Open::create(&plan, &mut *files, 0)?;
        let counts = vec![0; open.channels.len()];
        let time = LogTime { simulated: plan.clock.is_some(), ..LogTime::default() };
        Ok(RecordingWriter {
            plan,
            files,
            open,
            done: Vec::new(),
            counts,
            recent: HashMap::new(),
            time,
            bytes: 0,
            messages: 0,
        })
    }

    /// Writes a message and, in front of it, how the node took it.
    pub fn received(&mut self, number: u64, message: &ReceivedMessage) -> io::Result<()> {
        let ReceivedMessage { input, bytes, arrival, at, published } = message;
        let bytes = (**bytes).as_ref();
        let topic = self.plan.topic_of[input.index()];
        let bytes_of = self.known((topic, *input), number, bytes);
        let entry = Entry::Received { number, input: *input, arrival: *arrival, bytes_of };
        let time = self.time.of(Some(arrival.epoch), *at);
        self.write(self.plan.topics.len(), [time; 2], &entry.write())?;
        if bytes_of == number {
            // MCAP repeats the time of the log if the publication is not known.
            self.write(topic, [time, published.unwrap_or(time)], bytes)?;
            self.messages += 1;
        }
        self.split()
    }

    /// Writes a message on `/clock`.
    pub fn clock(&mut self, stamp: Stamp, at: Stamp, published: Option<Stamp>) -> io::Result<()> {
        let mut writer = cdr::Writer::new();
        let (sec, nanosec) = stamp.to_sec_nanosec();
        writer.i32(sec);
        writer.u32(nanosec);
        let time = self.time.of(None, at);
        self.messages += 1;
        let topic = self.plan.topics.len() + 1;
        self.write(topic, [time, published.unwrap_or(time)], &writer.finish())
    }

    /// Writes an event.
    pub fn entry(&mut self, entry: &Entry, at: Stamp) -> io::Result<()> {
        let time = self.time.of(entry.epoch(), at);
        self.write(self.plan.topics.len(), [time; 2], &entry.write())
    }

    /// Writes an event that comes before all that waits.
    pub fn first(&mut self, entry: &Entry) -> io::Result<()> {
        self.write(self.plan.topics.len(), [self.time.last; 2], &entry.write())
    }

    /// Ends the chunk and hands all to the operating system: what is written so far can be read from now on.
    pub fn flush(&mut self) -> io::Result<()> {
        self.open.writer.flush().map_err(output::io)
    }

    /// Ends the last file, and writes `metadata.yaml`.
    pub fn finish(mut self) -> io::Result<()> {
        self.open.writer.finish().map_err(output::io)?;
        self.done.push(self.open.count());
        let plan = &self.plan;
        let events = TopicPlan {
            name: plan.entries.clone(),
            ros_type: ENTRY_TYPE.into(),
            definition: String::new(),
            latched: false,
            shared: false,
        };
        let topics = plan.topics.iter().chain([&events]).chain(&plan.clock).zip(&self.counts);
        let count = |(topic, messages): (&TopicPlan, &u64)| TopicCount {
            name: topic.name.clone(),
            ros_type: topic.ros_type.clone(),
            qos: output::qos(topic.latched),
            messages: *messages,
        };
        let topics: Vec<TopicCount> = topics.map(count).collect();
        let mut file = self.files.create(&plan.folder.join("metadata.yaml"))?;
        file.write_all(metadata::text(&topics, &self.done).as_bytes())?;
        file.flush()
    }

    /// The number of the message that has these bytes: this one's, unless another input of the topic took them.
    fn known(&mut self, (topic, input): (usize, InputId), number: u64, bytes: &[u8]) -> u64 {
        match self.plan.topics[topic].shared {
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
        if self.open.bytes < self.plan.split_bytes {
            return Ok(());
        }
        let next = Open::create(&self.plan, &mut *self.files, self.done.len() + 1)?;
        let mut before = std::mem::replace(&mut self.open, next);
        before.writer.finish().map_err(output::io)?;
        self.done.push(before.count());
        self.recent.clear();
        Ok(())
    }
}

impl Open {
    /// Creates the file of this number, with the manifest and all topics.
    fn create(plan: &FilePlan, files: &mut dyn Files, number: usize) -> io::Result<Self> {
        let stem = plan.folder.file_name().unwrap_or_default().to_string_lossy();
        let name = format!("{stem}_{number}.mcap");
        let disk = UntilError { disk: files.create(&plan.folder.join(&name))?, failed: false };
        let options = WriteOptions::new()
            .compression(None)
            .profile("ros2")
            .library(concat!("robocache ", env!("CARGO_PKG_VERSION")))
            .chunk_size(Some(CHUNK))
            // A chunk is written at once, so that a file without an end is whole up to there.
            .disable_seeking(true);
        let mut writer = Writer::with_options(BufWriter::new(disk), options).map_err(output::io)?;
        let mut channels = Vec::new();
        writer.write_metadata(&plan.manifest.record()).map_err(output::io)?;
        let mut add = |topic: &str, ros_type: &str, definition: &str, latched: bool| {
            let schema = writer.add_schema(ros_type, "ros2msg", definition.as_bytes())?;
            let qos = output::qos(latched);
            let qos = BTreeMap::from([("offered_qos_profiles".to_owned(), qos)]);
            channels.push(writer.add_channel(schema, topic, "cdr", &qos)?);
            Ok(())
        };
        let mut all = || -> mcap::McapResult<()> {
            for topic in &plan.topics {
                add(&topic.name, &topic.ros_type, &topic.definition, topic.latched)?;
            }
            add(&plan.entries, ENTRY_TYPE, ENTRY_DEFINITION, false)?;
            match &plan.clock {
                Some(clock) => add(&clock.name, &clock.ros_type, &clock.definition, false),
                None => Ok(()),
            }
        };
        all().map_err(output::io)?;
        Ok(Open { name, writer, channels, span: None, messages: 0, bytes: 0 })
    }

    fn count(&self) -> FileCount {
        FileCount { name: self.name.clone(), span: self.span, messages: self.messages }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::NANOS_PER_MS;

    #[test]
    fn equal_messages_of_a_topic_are_each_written_once() {
        let (a, b) = (InputId::new(0), InputId::new(1));
        let mut taken = Taken::default();
        // The publisher sends the same bytes twice; then the other input gets both.
        assert_eq!([taken.take(a, 1, b"x"), taken.take(a, 2, b"x")], [1, 2]);
        assert_eq!([taken.take(b, 3, b"x"), taken.take(b, 4, b"x")], [1, 2]);
        assert_eq!([taken.take(b, 5, b"x"), taken.take(a, 6, b"x")], [5, 5]);
        assert_eq!([taken.take(a, 7, b"y"), taken.take(b, 8, b"yy")], [7, 8]);
    }

    #[test]
    fn the_log_goes_on_when_an_epoch_begins_and_only_then() {
        let at = |ms: i64| Stamp::from_nanos(ms * NANOS_PER_MS);
        for step in [10, 50, 150, 500, 1500] {
            let mut time = LogTime::default();
            let mut of = |epoch, ms: i64| time.of(Some(Epoch::numbered(epoch)), at(ms));
            assert_eq!(of(0, 9000), at(9000));
            // Late by two seconds: the log does not go ahead for the rest of the run.
            assert_eq!(of(0, 7000), at(9000));
            assert_eq!(of(0, 9001), at(9001));
            assert_eq!(of(1, 9001 - step), at(9001), "{step}");
            assert_eq!(of(0, 9002), at(9001), "{step}");
            assert_eq!(of(1, 9004 - step), at(9004), "{step}");
        }
    }

    #[test]
    fn under_a_simulators_clock_epochs_are_no_steps_of_the_log() {
        let at = |ms: i64| Stamp::from_nanos(ms * NANOS_PER_MS);
        let mut time = LogTime { simulated: true, ..LogTime::default() };
        let mut of = |epoch, ms: i64| time.of(Some(Epoch::numbered(epoch)), at(ms));
        assert_eq!([of(0, 9000), of(1, 9001), of(0, 9002)], [at(9000), at(9001), at(9002)]);
        assert_eq!([of(1, 5000), of(1, 5001)], [at(9002), at(9003)]);
    }
}
