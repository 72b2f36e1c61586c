//! Bags of rosbag2: MCAP and sqlite3, one file or several, compressed or not.
//!
//! A [`Bag`] gives the messages of the topics that are wanted in the order of their receive stamps,
//! as `ros2 bag play` does. Messages of equal stamps keep the order in which they were written. What
//! cannot be read is left out and told ([`Problem`]); the rest is read.
//!
//! An episode of a dataset of another kind is a [`Bag`] too, if its reader is a [`Storage`].
//!
//! Memory does not grow with a bag's length: one chunk of each file that is being read is in memory,
//! and those chunks whose times overlap. If these are too large, reading ends with an error.

mod array;
mod compressed;
mod error;
mod mcap;
mod memory;
mod metadata;
mod open;
mod order;
mod qos;
mod sqlite;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::PathBuf;
use std::sync::Arc;

pub(crate) use array::ReceivedArray;
pub use array::TopicArray;
use bytes::Bytes;
pub use error::{BagError, Problem, Problems};
pub(crate) use open::by_number;
pub use qos::Offer;

use robocache_ops::time::Stamp;

/// A recording.
#[derive(Debug)]
pub struct Bag {
    /// A folder or a file.
    pub path: PathBuf,
    /// All topics, in the order of their names.
    pub topics: Vec<Topic>,
    /// Problems of reading when it was opened.
    pub problems: Vec<Problem>,
    files: Vec<Box<dyn Storage>>,
}

/// A topic of a bag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topic {
    /// Its name.
    pub name: String,
    /// The type of its messages, as `package/msg/Type`.
    pub ros_type: String,
    /// How messages are serialized: `cdr`, or a format that this program does not read.
    pub format: String,
    /// The definition of its type; `None` if the bag has none.
    pub definition: Option<Definition>,
    /// Number of messages, as the bag says; `None` if it does not.
    pub messages: Option<u64>,
    /// QoS that its publishers offered: the YAML list that rosbag2 stores, or empty.
    pub offered_qos: String,
    /// The meaning of its bytes, if they are arrays in place of messages.
    pub array: Option<Arc<TopicArray>>,
}

impl Topic {
    /// QoS that its publishers offered, each once; empty if the bag does not tell.
    pub fn offers(&self) -> Vec<Offer> {
        qos::read(&self.offered_qos)
    }

    /// True if the topic's messages are latched: all of its publishers gave the last ones to those who subscribed
    /// later.
    pub fn is_latched(&self) -> bool {
        let offers = self.offers();
        !offers.is_empty() && offers.iter().all(Offer::is_latched)
    }

    /// True if this program reads its bytes.
    pub fn is_read(&self) -> bool {
        self.array.is_some() || self.format == CDR
    }
}

/// The definition of a message type, with those of all types that it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    /// `ros2msg` or `ros2idl`.
    pub encoding: String,
    /// The text.
    pub text: String,
}

/// A message as it was received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// Position of its topic in [`Bag::topics`].
    pub topic: usize,
    /// When it was received, on the clock of the recorder.
    pub received: Stamp,
    /// When it was published, on the clock of its publisher; `None` if the bag does not tell.
    pub published: Option<Stamp>,
    /// The serialized message, or what [`Topic::array`] says. A large one may be a slice of a chunk, in a buffer up to 8
    /// times as large.
    pub bytes: Bytes,
}

/// In which order messages are given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sorted {
    /// By their receive stamps, from this one on.
    ByStamp(Stamp),
    /// As they were written, file by file. If the recorder's clock was set, the stamps tell it.
    AsWritten,
}

/// A file of a bag, or another source of recorded messages, such as an episode of a dataset.
pub trait Storage: std::fmt::Debug + Send + Sync {
    /// The topics, in any order; the file's messages name them by their positions.
    fn topics(&self) -> &[Topic];

    /// The receive stamps of the first and the last message, as the file's index says; `None`
    /// without messages.
    fn span(&self) -> Option<(Stamp, Stamp)>;

    /// Reads the messages in this order. `wanted`, by the file's topics, says as what topic of the bag
    /// they are given; messages of other topics are skipped.
    ///
    /// # Errors
    /// If it can no longer be opened.
    fn read(&self, wanted: &[Option<usize>], sorted: Sorted) -> Result<Box<dyn Reading>, BagError>;
}

/// The messages of a file that are yet to come.
pub trait Reading: Send {
    /// The next message; `None` at the end. A problem is added to `problems`, and reading goes on
    /// after it where that is possible.
    fn next(&mut self, problems: &mut Problems) -> Option<Recorded>;
}

impl Bag {
    /// The messages of a source that is no file of rosbag2. `path` names it in errors and results.
    pub fn of(path: PathBuf, source: Box<dyn Storage>) -> Bag {
        let mut topics = source.topics().to_vec();
        topics.sort_by(|a, b| a.name.cmp(&b.name));
        Bag { path, topics, problems: Vec::new(), files: vec![source] }
    }

    /// The position of a topic.
    pub fn topic(&self, name: &str) -> Option<usize> {
        self.topics.iter().position(|topic| topic.name == name)
    }

    /// The array that a topic has in place of a message; `None` of a message.
    pub(crate) fn array(&self, recorded: &Recorded) -> Option<ReceivedArray> {
        let Recorded { topic, received, bytes, .. } = recorded;
        let array = Arc::clone(self.topics[*topic].array.as_ref()?);
        Some(ReceivedArray { array, received: *received, bytes: bytes.clone() })
    }

    /// The receive stamps of the first and the last message of any topic; `None` without messages.
    pub fn span(&self) -> Option<(Stamp, Stamp)> {
        let spans = self.files.iter().filter_map(|file| file.span());
        spans.reduce(|(first, last), (from, to)| (first.min(from), last.max(to)))
    }

    /// Number of files.
    pub fn files(&self) -> usize {
        self.files.len()
    }

    /// Reads the messages of some topics in the order of their receive stamps. `wanted` has an entry
    /// for each of [`Bag::topics`].
    ///
    /// # Errors
    /// If a file can no longer be opened.
    pub fn messages(&self, wanted: &[bool]) -> Result<Messages<'_>, BagError> {
        self.messages_sorted(wanted, Sorted::ByStamp(Stamp::MIN))
    }

    /// As [`Bag::messages`], without those that were received before an instant. Their chunks are not
    /// decompressed.
    ///
    /// # Errors
    /// If a file can no longer be opened.
    pub fn messages_from(&self, wanted: &[bool], from: Stamp) -> Result<Messages<'_>, BagError> {
        self.messages_sorted(wanted, Sorted::ByStamp(from))
    }

    /// As [`Bag::messages`], in another order.
    ///
    /// # Errors
    /// If a file can no longer be opened.
    pub fn messages_sorted(
        &self,
        wanted: &[bool],
        sorted: Sorted,
    ) -> Result<Messages<'_>, BagError> {
        let mut pending = BinaryHeap::new();
        for (file, storage) in self.files.iter().enumerate() {
            if let Some((first, last)) = storage.span()
                && sorted.may_have(last)
            {
                pending.push(Reverse((sorted.key(first), file, Next::Closed)));
            }
        }
        let wanted = wanted.to_vec();
        let problems = Problems::default();
        Ok(Messages { bag: self, wanted, sorted, pending, problems })
    }

    /// The topics of a file that are wanted, as topics of the bag.
    fn wanted_of(&self, file: usize, wanted: &[bool]) -> Vec<Option<usize>> {
        let place = |topic: &Topic| {
            let place = self.topic(&topic.name)?;
            let same = self.topics[place].ros_type == topic.ros_type;
            (wanted[place] && same && topic.is_read()).then_some(place)
        };
        self.files[file].topics().iter().map(place).collect()
    }
}

impl Sorted {
    /// First key by which messages are sorted, before their place in the file.
    fn key(self, received: Stamp) -> Stamp {
        match self {
            Sorted::ByStamp(from) => received.max(from),
            Sorted::AsWritten => Stamp::ZERO,
        }
    }

    /// True if a message of this stamp is given.
    pub fn may_have(self, received: Stamp) -> bool {
        match self {
            Sorted::ByStamp(from) => received >= from,
            Sorted::AsWritten => true,
        }
    }
}

/// The format of messages that this program reads.
pub const CDR: &str = "cdr";

/// The messages of a bag.
pub struct Messages<'a> {
    bag: &'a Bag,
    wanted: Vec<bool>,
    sorted: Sorted,
    /// By the stamp of the next message, then by file.
    pending: BinaryHeap<Reverse<(Stamp, usize, Next)>>,
    /// Problems of reading so far. The caller may take them out.
    pub problems: Problems,
}

/// The next message of a file.
enum Next {
    /// The file is not yet being read: the stamp is its first one.
    Closed,
    Message(Recorded, Box<dyn Reading>),
}

// The order is that of stamp and file. A file is in the heap once, so `Next` is never compared.
impl PartialEq for Next {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
impl Eq for Next {}
impl PartialOrd for Next {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Next {
    fn cmp(&self, _: &Self) -> std::cmp::Ordering {
        std::cmp::Ordering::Equal
    }
}

impl Iterator for Messages<'_> {
    type Item = Recorded;

    fn next(&mut self) -> Option<Recorded> {
        loop {
            let Reverse((_, file, next)) = self.pending.pop()?;
            let (message, mut reading) = match next {
                Next::Message(message, reading) => (Some(message), reading),
                Next::Closed => {
                    let wanted = self.bag.wanted_of(file, &self.wanted);
                    match self.bag.files[file].read(&wanted, self.sorted) {
                        Ok(reading) => (None, reading),
                        Err(error) => {
                            self.problems.push(error.into());
                            continue;
                        }
                    }
                }
            };
            if let Some(next) = reading.next(&mut self.problems) {
                let stamp = self.sorted.key(next.received);
                self.pending.push(Reverse((stamp, file, Next::Message(next, reading))));
            }
            if message.is_some() {
                return message;
            }
        }
    }
}
