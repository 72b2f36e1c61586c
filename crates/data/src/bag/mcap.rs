//! MCAP files. An unfinished or damaged one is read as far as it goes, chunk by chunk.
//!
//! The records outside of chunks are walked through once, without their contents: that gives the
//! place and the times of each chunk, also without the index at the end of the file. A chunk is
//! decompressed when the time has come for its first message. Its checksum is compared first.

mod chunk;
mod index;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use mcap::records::{MessageHeader, Record, op};
use mcap::sans_io::linear_reader::{LinearReadEvent, LinearReader, LinearReaderOptions};

use self::index::{Index, McapPart};
use super::compressed::{self, Plain};
use super::memory::FreeBuffers;
use super::order::{FilePosition, Order};
use super::{BagError, Problem, Problems, Reading, Recorded, Sorted, Storage, Topic};
use robocache_ops::time::Stamp;

/// Largest chunk that is decompressed \[bytes\], and largest record. rosbag2's chunks have 0.8 MB.
const MOST_BYTES: usize = 512 << 20;
/// Most bytes that messages keep in memory while they wait until those of other chunks have come.
const MOST_WAITING_BYTES: usize = if cfg!(test) { 4 << 10 } else { 1 << 30 };

/// An MCAP file.
#[derive(Debug)]
pub(super) struct File {
    /// Name of the file in the bag.
    path: PathBuf,
    plain: Arc<Plain>,
    index: Arc<Index>,
}

impl File {
    /// Opens a file and reads its index. `plain` is the file that is read.
    pub(super) fn open(
        path: &Path,
        plain: Plain,
        problems: &mut Vec<Problem>,
    ) -> Result<Self, BagError> {
        let file = fs::File::open(&plain.path).map_err(BagError::io(path))?;
        let mut tell = |what: String| problems.push(Problem::damage(path, what));
        let index = Index::read(&file, path, &mut tell)?;
        Ok(File { path: path.to_owned(), plain: Arc::new(plain), index: Arc::new(index) })
    }
}

impl Storage for File {
    fn topics(&self) -> &[Topic] {
        &self.index.topics
    }

    fn span(&self) -> Option<(Stamp, Stamp)> {
        let first = self.index.parts.first()?.first;
        let last = self.index.parts.iter().map(|part| part.last).max()?;
        Some((first, last))
    }

    fn read(&self, wanted: &[Option<usize>], sorted: Sorted) -> Result<Box<dyn Reading>, BagError> {
        let mut sequence: Vec<usize> = (0..self.index.parts.len()).collect();
        if sorted == Sorted::AsWritten {
            sequence.sort_by_key(|at| self.index.parts[*at].offset);
        }
        let channels = self.index.channels.iter();
        let wanted = channels.filter_map(|(id, topic)| Some((*id, (*wanted.get(*topic)?)?)));
        Ok(Box::new(Reader {
            file: fs::File::open(&self.plain.path).map_err(BagError::io(&self.path))?,
            path: self.path.clone(),
            _plain: Arc::clone(&self.plain),
            index: Arc::clone(&self.index),
            sequence,
            memory: FreeBuffers::default(),
            next: 0,
            waiting: Waiting {
                wanted: wanted.collect(),
                sorted,
                ready: BinaryHeap::new(),
                held: 0,
            },
            order: Order::default(),
        }))
    }
}

/// The messages of a file.
struct Reader {
    file: fs::File,
    path: PathBuf,
    /// Keeps the file while it is read.
    _plain: Arc<Plain>,
    index: Arc<Index>,
    /// The parts, in the order of reading.
    sequence: Vec<usize>,
    memory: FreeBuffers,
    /// The part to read next, by its place in the sequence.
    next: usize,
    waiting: Waiting,
    order: Order,
}

/// Messages of the parts that have been read.
struct Waiting {
    /// The topic of the bag, by channel.
    wanted: HashMap<u16, usize>,
    sorted: Sorted,
    /// No earlier message will come.
    ready: BinaryHeap<Reverse<Ready>>,
    /// Bytes that these messages keep in memory, at most.
    held: usize,
}

/// A message of a part that has been read. The order is that of time, then that of the file.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Ready {
    /// Stamp that the order sorts by first.
    key: Stamp,
    /// Offset of its part, and its number there.
    place: FilePosition,
    topic: usize,
    received: Stamp,
    published: Option<Stamp>,
    /// Bytes that it keeps in memory.
    held: usize,
    bytes: Bytes,
}

impl Reading for Reader {
    fn next(&mut self, problems: &mut Problems) -> Option<Recorded> {
        loop {
            let Waiting { wanted, sorted, ready, .. } = &self.waiting;
            let soonest = ready.peek().map(|Reverse(ready)| ready.key);
            let index = Arc::clone(&self.index);
            let is_due = |part: &McapPart| match sorted {
                Sorted::ByStamp(_) => soonest.is_none_or(|soonest| part.first <= soonest),
                Sorted::AsWritten => soonest.is_none(),
            };
            match self.sequence.get(self.next).map(|at| &index.parts[*at]) {
                Some(part) if is_due(part) => {
                    self.next += 1;
                    if sorted.may_have(part.last) && part.may_have(wanted) {
                        self.read_part(part, problems);
                    }
                }
                _ => break,
            }
        }
        let Reverse(Ready { received, published, topic, held, bytes, place, .. }) =
            self.waiting.ready.pop()?;
        self.waiting.held -= held;
        self.order.note(topic, place, received, &self.path, problems);
        Some(Recorded { topic, received, published, bytes })
    }
}

/// Contents of a part that were found.
struct Found {
    /// Number of messages, also of topics that are not read.
    messages: u64,
    /// Receive stamps of the first and the last one.
    times: [Stamp; 2],
    /// Messages that have no stamp, and those without a readable body.
    timeless: u64,
    unreadable: u64,
}

impl Waiting {
    /// Takes a message of a part if it is wanted. `body` gives its body, and how many bytes that keeps in memory.
    fn take(
        &mut self,
        part: &McapPart,
        found: &mut Found,
        header: &MessageHeader,
        body: impl FnOnce() -> (Bytes, usize),
    ) {
        found.messages += 1;
        let received = stamp(header.log_time);
        found.times = received.map_or(found.times, |received| {
            [found.times[0].min(received), found.times[1].max(received)]
        });
        let Some(topic) = self.wanted.get(&header.channel_id) else { return };
        let Some(received) = received else {
            found.timeless += 1;
            return;
        };
        if !self.sorted.may_have(received) || self.held > MOST_WAITING_BYTES {
            return;
        }
        let (bytes, held) = body();
        match compressed::message(bytes) {
            Ok(bytes) => {
                let place = (part.offset, found.messages);
                // A writer that knows no publication repeats the time of the log, says MCAP.
                let published = stamp(header.publish_time).filter(|at| *at != received);
                let held = held.max(bytes.len());
                self.held += held;
                let key = self.sorted.key(received);
                let new = Ready { key, place, topic: *topic, received, published, held, bytes };
                self.ready.push(Reverse(new));
            }
            Err(_) => found.unreadable += 1,
        }
    }
}

impl Reader {
    /// Reads the messages of a part. If it is damaged, those before the damage are read, or none if
    /// there is a checksum, as it does not tell where the damage is.
    fn read_part(&mut self, part: &McapPart, problems: &mut Problems) {
        let mut found =
            Found { messages: 0, times: [Stamp::MAX, Stamp::ZERO], timeless: 0, unreadable: 0 };
        let waiting = &mut self.waiting;
        let file = &self.file;
        let memory = &self.memory;
        let result = match chunk::whole(file, part, memory) {
            Ok(Some(whole)) => chunk::each_message(&whole, |header, data| {
                waiting.take(part, &mut found, &header, || chunk::share(&whole, data, memory));
            }),
            Ok(None) => records(file, part.offset, part.length, |record| {
                if let Record::Message { header, data } = record {
                    let body = || (Bytes::copy_from_slice(&data), data.len());
                    waiting.take(part, &mut found, &header, body);
                }
            }),
            Err(error) => Err(error),
        };
        let place = format!("the part at byte {} ({} bytes)", part.offset, part.length);
        if self.waiting.held > MOST_WAITING_BYTES {
            let what = format!(
                "{place}: its messages and those of chunks of the same time keep more than {MOST_WAITING_BYTES} \
                 bytes in memory; expected chunks that follow each other, as `ros2 bag convert` writes them"
            );
            // The rest is not damaged, so what was read must not pass for all.
            problems.push(Problem { unreadable: true, ..Problem::damage(&self.path, what) });
            self.waiting.ready.clear();
            (self.waiting.held, self.next) = (0, self.sequence.len());
            return;
        }
        let Found { messages, times, timeless, unreadable } = found;
        // Then it was read sooner or later than its messages belong.
        if messages > 0 && result.is_ok() && times != [part.first, part.last] {
            let [first, last] = times;
            let what = format!(
                "{place}: expected messages from {} to {}, found {first} to {last}; they may be out of order",
                part.first, part.last
            );
            problems.push(Problem::damage(&self.path, what));
        }
        if let Err(why) = result {
            let McapPart { first, last, .. } = part;
            let what = format!(
                "{place}, {first} to {last}, is damaged: {why}; {messages} of its messages are read"
            );
            let unreadable = matches!(why, Broken::Unreadable(_));
            problems.push(Problem { unreadable, ..Problem::damage(&self.path, what) });
        }
        for (messages, what) in
            [(timeless, "no time before 2262"), (unreadable, "no readable body")]
        {
            if messages > 0 {
                let what = format!("{place}: {messages} messages have {what} and are not read");
                problems.push(Problem::damage(&self.path, what));
            }
        }
    }
}

/// A time of MCAP as a stamp; `None` if it is out of range.
fn stamp(nanos: u64) -> Option<Stamp> {
    i64::try_from(nanos).ok().map(Stamp::from_nanos)
}

/// Why records cannot be read.
#[derive(Debug, thiserror::Error)]
enum Broken {
    /// The operating system says no.
    #[error("{0}")]
    Unreadable(std::io::Error),
    /// They are not what they should be.
    #[error("{0}")]
    Damaged(String),
}

impl Broken {
    fn damaged(error: impl std::fmt::Display) -> Self {
        Broken::Damaged(error.to_string())
    }
}

/// Gives the records at a place of a file: a record outside of chunks, or those of a chunk.
///
/// # Errors
/// What is wrong. The records before that have been given, unless a chunk contradicts itself.
fn records(
    file: &fs::File,
    offset: u64,
    length: u64,
    mut take: impl FnMut(Record<'_>),
) -> Result<(), Broken> {
    let chunk::Bounds { longest, chunk } = chunk::bounds(file, offset, length)?;
    let length = chunk.map_or(length, |chunk| chunk.min(length));
    let options = LinearReaderOptions::default()
        .with_skip_start_magic(true)
        .with_skip_end_magic(true)
        .with_prevalidate_chunk_crcs(true)
        .with_record_length_limit(longest)
        .with_emit_chunks(chunk.is_none());
    let mut reader = LinearReader::new_with_options(options);
    let mut read = 0;
    while let Some(event) = reader.next_event() {
        match event.map_err(Broken::damaged)? {
            LinearReadEvent::ReadRequest(need) => {
                let need = need.min(usize::try_from(length - read).unwrap_or(usize::MAX));
                let place = reader.insert(need);
                let got = file.read_at(place, offset + read).map_err(Broken::Unreadable)?;
                reader.notify_read(got);
                read += got as u64;
            }
            LinearReadEvent::Record { opcode, data } => {
                if matches!(
                    opcode,
                    op::MESSAGE
                        | op::CHANNEL
                        | op::SCHEMA
                        | op::STATISTICS
                        | op::CHUNK_INDEX
                        | op::FOOTER
                        | op::MESSAGE_INDEX
                ) {
                    take(mcap::parse_record(opcode, data).map_err(Broken::damaged)?);
                }
            }
        }
    }
    Ok(())
}
