//! MCAP files. An unfinished or damaged one is read as far as it goes, chunk by chunk.
//!
//! The records outside of chunks are walked through once, without their contents: that gives the
//! place and the times of each chunk, also without the index at the end of the file. A chunk is
//! decompressed when the time has come for its first message. Its checksum is compared first.

mod index;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mcap::records::{Record, op};
use mcap::sans_io::linear_reader::{LinearReadEvent, LinearReader, LinearReaderOptions};

use self::index::{Index, Part};
use super::compressed::{self, Plain};
use super::order::{Order, Place};
use super::{BagError, Problem, Problems, Reading, Recorded, Sorted, Storage, Topic};
use crate::time::Stamp;

/// Largest chunk that is decompressed \[bytes\], and largest record. rosbag2's chunks have 0.8 MB.
const MOST_BYTES: usize = 512 << 20;
/// Most bytes of messages that wait until those of other chunks have come.
const MOST_WAITING_BYTES: usize = if cfg!(test) { 4 << 10 } else { 1 << 30 };

/// An MCAP file.
#[derive(Debug)]
pub(super) struct File {
    /// What the bag calls it.
    path: PathBuf,
    plain: Arc<Plain>,
    index: Arc<Index>,
}

impl File {
    /// Opens a file and reads its index. `plain` is the file that is read.
    pub fn open(path: &Path, plain: Plain, problems: &mut Vec<Problem>) -> Result<Self, BagError> {
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
            wanted: wanted.collect(),
            sorted,
            next: 0,
            ready: BinaryHeap::new(),
            waiting_bytes: 0,
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
    /// The topic of the bag, by channel.
    wanted: HashMap<u16, usize>,
    sorted: Sorted,
    /// The part to read next, by its place in the sequence.
    next: usize,
    /// Messages of the parts that have been read. No earlier message will come.
    ready: BinaryHeap<Reverse<Ready>>,
    /// Bytes of these messages.
    waiting_bytes: usize,
    order: Order,
}

/// A message of a part that has been read. The order is that of time, then that of the file.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Ready {
    /// What the order sorts by first.
    key: Stamp,
    /// Offset of its part, and its number there.
    place: Place,
    topic: usize,
    received: Stamp,
    published: Option<Stamp>,
    bytes: Vec<u8>,
}

impl Reading for Reader {
    fn next(&mut self, problems: &mut Problems) -> Option<Recorded> {
        loop {
            let soonest = self.ready.peek().map(|Reverse(ready)| ready.key);
            let index = Arc::clone(&self.index);
            let is_due = |part: &Part| match self.sorted {
                Sorted::ByStamp(_) => soonest.is_none_or(|soonest| part.first <= soonest),
                Sorted::AsWritten => soonest.is_none(),
            };
            match self.sequence.get(self.next).map(|at| &index.parts[*at]) {
                Some(part) if is_due(part) => {
                    self.next += 1;
                    if self.sorted.may_have(part.last) && part.may_have(&self.wanted) {
                        self.read_part(part, problems);
                    }
                }
                _ => break,
            }
        }
        let Reverse(Ready { received, published, topic, bytes, place, .. }) = self.ready.pop()?;
        self.waiting_bytes -= bytes.len();
        self.order.note(topic, place, received, &self.path, problems);
        Some(Recorded { topic, received, published, bytes })
    }
}

impl Reader {
    /// Reads the messages of a part. If it is damaged, those before the damage are read, or none if
    /// there is a checksum, as it does not tell where the damage is.
    fn read_part(&mut self, part: &Part, problems: &mut Problems) {
        let mut number = 0;
        let (mut timeless, mut unreadable) = (0_u64, 0_u64);
        let mut times = [Stamp::MAX, Stamp::ZERO];
        let (wanted, sorted, ready) = (&self.wanted, self.sorted, &mut self.ready);
        let waiting_bytes = &mut self.waiting_bytes;
        let result = records(&self.file, part.offset, part.length, |record| {
            let Record::Message { header, data } = record else { return };
            number += 1;
            let at = stamp(header.log_time);
            times = at.map_or(times, |at| [times[0].min(at), times[1].max(at)]);
            let Some(topic) = wanted.get(&header.channel_id) else { return };
            let Some(received) = stamp(header.log_time) else {
                timeless += 1;
                return;
            };
            if !sorted.may_have(received) || *waiting_bytes > MOST_WAITING_BYTES {
                return;
            }
            match compressed::message(data.into_owned()) {
                Ok(bytes) => {
                    let place = (part.offset, number);
                    let topic = *topic;
                    // A writer that knows no publication repeats the time of the log, says MCAP.
                    let published = stamp(header.publish_time).filter(|at| *at != received);
                    *waiting_bytes += bytes.len();
                    let key = sorted.key(received);
                    let new = Ready { key, place, topic, received, published, bytes };
                    ready.push(Reverse(new));
                }
                Err(_) => unreadable += 1,
            }
        });
        let place = format!("the part at byte {} ({} bytes)", part.offset, part.length);
        if self.waiting_bytes > MOST_WAITING_BYTES {
            let what = format!(
                "{place}: its messages and those of chunks of the same time have more than {MOST_WAITING_BYTES} \
                 bytes; expected chunks that follow each other, as `ros2 bag convert` writes them"
            );
            // The rest is not damaged, so what was read must not pass for all.
            problems.push(Problem { unreadable: true, ..Problem::damage(&self.path, what) });
            self.ready.clear();
            (self.waiting_bytes, self.next) = (0, self.sequence.len());
            return;
        }
        // Then it was read sooner or later than its messages belong.
        if number > 0 && result.is_ok() && times != [part.first, part.last] {
            let [first, last] = times;
            let what = format!(
                "{place}: expected messages from {} to {}, found {first} to {last}; they may be out of order",
                part.first, part.last
            );
            problems.push(Problem::damage(&self.path, what));
        }
        if let Err(why) = result {
            let Part { first, last, .. } = part;
            let what = format!(
                "{place}, {first} to {last}, is damaged: {why}; {number} of its messages are read"
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
/// What is wrong. The records before that have been given.
fn records(
    file: &fs::File,
    offset: u64,
    length: u64,
    mut take: impl FnMut(Record<'_>),
) -> Result<(), Broken> {
    let options = LinearReaderOptions::default()
        .with_skip_start_magic(true)
        .with_skip_end_magic(true)
        .with_prevalidate_chunk_crcs(true)
        .with_record_length_limit(MOST_BYTES);
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
