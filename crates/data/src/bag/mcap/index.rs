//! Which topics and which parts an MCAP file has.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use mcap::MAGIC;
use mcap::records::{Channel, Record, op};

use super::{Broken, MOST_BYTES, records, stamp};
use crate::bag::{BagError, Definition, Topic};
use robocache_ops::time::Stamp;

/// The first kind of record that MCAP does not have yet, and the first for private use.
const UNKNOWN: u8 = 0x10;
const PRIVATE: u8 = 0x80;
/// Under which name rosbag2 stores what the publishers of a channel offered.
const OFFERED_QOS: &str = "offered_qos_profiles";
/// Bytes of a record before its content: the kind and the length.
pub(super) const RECORD_HEADER: u64 = 9;
/// Bytes of the footer's record and of the magic after it.
const FOOTER: u64 = RECORD_HEADER + 20 + 8;

/// Contents of an MCAP file.
#[derive(Debug, Default)]
pub(super) struct Index {
    pub topics: Vec<Topic>,
    /// The position of a channel's topic, by channel.
    pub channels: HashMap<u16, usize>,
    /// The chunks, and the messages outside of them, by the stamp of the first message.
    pub parts: Vec<McapPart>,
}

/// A chunk, or a message outside of chunks.
#[derive(Clone, Debug)]
pub(super) struct McapPart {
    /// Offset of its record in the file.
    pub offset: u64,
    /// Bytes of the record.
    pub length: u64,
    /// Receive stamps of its first and last message, as the file says.
    pub first: Stamp,
    pub last: Stamp,
    /// Its channels, if an index with a checksum names them.
    pub channels: Option<Box<[u16]>>,
}

impl McapPart {
    /// True if the part may have messages of these channels.
    pub(super) fn may_have<T>(&self, wanted: &HashMap<u16, T>) -> bool {
        self.channels.as_ref().is_none_or(|own| own.iter().any(|id| wanted.contains_key(id)))
    }
}

/// Knowledge of the file while it is walked through.
#[derive(Default)]
struct Scan {
    /// Definitions of the records before the index, and of the chunks that had to be read.
    known: Definitions,
    /// Definitions of the index at the end. They count if its checksum is right.
    indexed: Definitions,
    in_index: bool,
    parts: Vec<McapPart>,
    /// The chunks, and which channels each of them has; empty if the file does not say.
    chunks: Vec<(McapPart, Vec<u16>)>,
    offsets: HashSet<u64>,
    /// The channels of a chunk, by its place, as the index at the end says.
    channels_of: HashMap<u64, Box<[u16]>>,
    /// Records of a kind that MCAP does not have.
    unknown: u64,
}

/// Definitions of channels.
#[derive(Default)]
struct Definitions {
    /// Name and definition, by schema.
    schemas: HashMap<u16, (String, Definition)>,
    channels: BTreeMap<u16, Channel>,
    /// Messages per channel, if the file says so.
    counts: Option<BTreeMap<u16, u64>>,
}

impl Definitions {
    /// Notes a schema, a channel, or the counts. The first one stays.
    fn define(&mut self, record: Record<'_>) {
        match record {
            Record::Schema { header, data } => {
                let text = String::from_utf8_lossy(&data).into_owned();
                let definition = Definition { encoding: header.encoding, text };
                self.schemas.entry(header.id).or_insert((header.name, definition));
            }
            Record::Channel(channel) => {
                self.channels.entry(channel.id).or_insert(channel);
            }
            Record::Statistics(statistics) => {
                self.counts = Some(statistics.channel_message_counts);
            }
            _ => {}
        }
    }

    fn join(&mut self, others: Definitions) {
        // What was known before stays.
        let schemas = std::mem::replace(&mut self.schemas, others.schemas);
        self.schemas.extend(schemas);
        let channels = std::mem::replace(&mut self.channels, others.channels);
        self.channels.extend(channels);
        self.counts = self.counts.take().or(others.counts);
    }
}

impl Index {
    /// Reads the index of a file. Damage is reported, and skipped where that is possible.
    ///
    /// # Errors
    /// If it is not an MCAP file, or the system cannot read it.
    pub(super) fn read(
        file: &File,
        path: &Path,
        tell: &mut dyn FnMut(String),
    ) -> Result<Index, BagError> {
        let size = file.metadata().map_err(BagError::io(path))?.len();
        let mut magic = [0; MAGIC.len()];
        let found = file.read_at(&mut magic, 0).map_err(BagError::io(path))?;
        if magic[..found] != *MAGIC {
            let what = match found {
                0 => "expected an MCAP file, found an empty file",
                _ => "expected an MCAP file, found other bytes at its beginning",
            };
            return Err(BagError::damaged(path, what));
        }
        let mut scan = Scan::default();
        let walked = scan.walk(file, MAGIC.len() as u64, size);
        let parts = scan.parts.len();
        if walked.is_err() {
            scan.indexed = Definitions::default();
        }
        // Also after a walk without an error: a chunk whose kind is damaged looks like something unknown.
        scan.read_summary(file, size);
        let more = scan.parts.len() - parts;
        let whole = walked.is_ok();
        match walked {
            Err((_, Broken::Unreadable(error))) => return Err(BagError::io(path)(error)),
            Err((at, why)) => {
                let more = match more {
                    0 => "what is before it is read".to_owned(),
                    more => format!("{more} chunks after it are read by the index at its end"),
                };
                tell(format!("broken at byte {at} of {size}: {why}; {more}"));
            }
            Ok(()) if more > 0 => tell(format!(
                "expected {more} more chunks, as the index at its end says, found other records there"
            )),
            Ok(()) => {}
        }
        if scan.unknown > 0 {
            let unknown = scan.unknown;
            tell(format!("{unknown} records are of no kind that MCAP has; they are left out"));
        }
        match Scan::index_is_right(file, size) {
            true => {
                scan.known.join(std::mem::take(&mut scan.indexed));
                for part in &mut scan.parts {
                    part.channels = scan.channels_of.remove(&part.offset);
                }
            }
            false => tell("the index at its end is damaged: it is not used".into()),
        }
        if let (true, Some((expected, found))) = (whole, scan.lost_messages()) {
            tell(format!("expected {expected} messages, as it says itself, found {found}"));
        }
        scan.learn(file);
        Ok(scan.index())
    }
}

impl Scan {
    /// Walks through the records from `offset` to the footer.
    ///
    /// # Errors
    /// Where the file is broken, and how.
    fn walk(&mut self, file: &File, mut offset: u64, size: u64) -> Result<(), (u64, Broken)> {
        loop {
            let mut header = [0; RECORD_HEADER as usize];
            if size.saturating_sub(offset) < RECORD_HEADER {
                return Err((offset, Broken::damaged("expected a footer, found the end")));
            }
            file.read_exact_at(&mut header, offset).map_err(|e| (offset, Broken::Unreadable(e)))?;
            let kind = header[0];
            let length = u64_at(&header, 1);
            let length =
                length.checked_add(RECORD_HEADER).filter(|length| size - offset >= *length);
            let Some(length) = length else {
                let kind = format!(
                    "expected a whole record, found one of kind {kind} that goes past the end"
                );
                return Err((offset, Broken::damaged(kind)));
            };
            if kind == 0 {
                return Err((offset, Broken::damaged("expected a record, found a byte of zero")));
            }
            if kind == op::FOOTER {
                return Ok(());
            }
            self.note(file, kind, offset, length).map_err(|why| (offset, why))?;
            offset += length;
        }
    }

    /// Notes a record.
    fn note(&mut self, file: &File, kind: u8, offset: u64, length: u64) -> Result<(), Broken> {
        let mut start = [0; RECORD_HEADER as usize + 16];
        match kind {
            op::CHUNK | op::MESSAGE | op::MESSAGE_INDEX => {
                let needed = RECORD_HEADER as usize
                    + match kind {
                        op::CHUNK => 16,
                        op::MESSAGE => 14,
                        _ => 2,
                    };
                if length < needed as u64 {
                    let found = format!("expected {needed} bytes, found a record of {length}");
                    return Err(Broken::Damaged(found));
                }
                let start = &mut start[..needed];
                file.read_exact_at(start, offset).map_err(Broken::Unreadable)?;
                self.note_start(kind, &start[RECORD_HEADER as usize..], offset, length);
                Ok(())
            }
            op::SCHEMA | op::CHANNEL | op::STATISTICS if length <= MOST_BYTES as u64 => {
                let definitions = match self.in_index {
                    true => &mut self.indexed,
                    false => &mut self.known,
                };
                records(file, offset, length, |record| definitions.define(record))
            }
            op::DATA_END => {
                self.in_index = true;
                Ok(())
            }
            // Kinds from 0x80 on are for private use; those between are none yet.
            UNKNOWN..PRIVATE => {
                self.unknown += 1;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// How many messages there should be and are, if these differ, in a file without chunks.
    fn lost_messages(&self) -> Option<(u64, u64)> {
        let counts = self.known.counts.as_ref()?.values();
        let expected = counts.fold(0_u64, |sum, count| sum.saturating_add(*count));
        let found = self.parts.len() as u64;
        (self.chunks.is_empty() && expected != found).then_some((expected, found))
    }

    fn note_start(&mut self, kind: u8, start: &[u8], offset: u64, length: u64) {
        let channel = u16::from_le_bytes([start[0], start[1]]);
        match kind {
            op::CHUNK => {
                let first = u64_at(start, 0);
                let last = u64_at(start, 8);
                self.add_chunk(offset, length, first, last);
            }
            op::MESSAGE => {
                let at = stamp(u64_at(start, 6)).unwrap_or(Stamp::MAX);
                self.parts.push(McapPart { offset, length, first: at, last: at, channels: None });
            }
            _ => {
                if let Some((_, channels)) = self.chunks.last_mut() {
                    channels.push(channel);
                }
            }
        }
    }

    fn add_chunk(&mut self, offset: u64, length: u64, first: u64, last: u64) {
        if self.offsets.insert(offset) {
            let [first, last] = [first, last].map(|at| stamp(at).unwrap_or(Stamp::MAX));
            let part = McapPart { offset, length, first, last, channels: None };
            self.chunks.push((part.clone(), Vec::new()));
            self.parts.push(part);
        }
    }

    /// Reads the footer: where the index begins, and its checksum.
    fn footer(file: &File, size: u64) -> Option<Footer> {
        let at = size.checked_sub(FOOTER)?;
        let mut footer = [0; FOOTER as usize];
        file.read_exact_at(&mut footer, at).ok()?;
        if footer[0] != op::FOOTER || !footer.ends_with(MAGIC) {
            return None;
        }
        let body = &footer[RECORD_HEADER as usize..][..20];
        let Ok(Record::Footer(found)) = mcap::parse_record(op::FOOTER, body) else { return None };
        let start = if found.summary_start == 0 { at } else { found.summary_start };
        let summed = at + RECORD_HEADER + 16;
        let crc = found.summary_crc;
        (start <= at).then_some(Footer { start, end: at, summed, crc })
    }

    /// True if the index at the end is the one that was written. Without a checksum, it is believed.
    fn index_is_right(file: &File, size: u64) -> bool {
        let Some(footer) = Self::footer(file, size) else { return true };
        if footer.crc == 0 || footer.start == footer.end {
            return true;
        }
        let mut hasher = crc32fast::Hasher::new();
        let mut buffer = vec![0; 1 << 16];
        let mut at = footer.start;
        while at < footer.summed {
            let most = buffer.len().min((footer.summed - at) as usize);
            let Ok(read @ 1..) = file.read_at(&mut buffer[..most], at) else { return false };
            hasher.update(&buffer[..read]);
            at += read as u64;
        }
        hasher.finalize() == footer.crc
    }

    /// Reads the index at the end of a broken file. What it cannot read stays unknown.
    fn read_summary(&mut self, file: &File, size: u64) {
        let Some(Footer { start, end, crc, .. }) = Self::footer(file, size) else { return };
        if start == end || !Self::index_is_right(file, size) {
            return;
        }
        let _ = records(file, start, end - start, |record| match record {
            Record::ChunkIndex(chunk) => {
                let end = chunk.chunk_start_offset.checked_add(chunk.chunk_length);
                if end.is_some_and(|end| end <= start) {
                    let first = chunk.message_start_time;
                    let last = chunk.message_end_time;
                    self.add_chunk(chunk.chunk_start_offset, chunk.chunk_length, first, last);
                }
                // A chunk is skipped for what is said here, so that must be certain.
                let channels = chunk.message_index_offsets;
                if crc != 0 && !channels.is_empty() {
                    let channels = channels.into_keys().collect();
                    self.channels_of.insert(chunk.chunk_start_offset, channels);
                }
            }
            // The counts are those of the whole file.
            Record::Statistics(_) => {}
            other => self.indexed.define(other),
        });
    }

    /// Reads the channels that only chunks define. A chunk defines a channel before its first
    /// message.
    fn learn(&mut self, file: &File) {
        for (chunk, channels) in std::mem::take(&mut self.chunks) {
            // A chunk without messages has these times, and would make the bag begin in 1970.
            if chunk.last == Stamp::ZERO {
                let mut messages = 0_u64;
                let count = |record: Record<'_>| {
                    messages += u64::from(matches!(record, Record::Message { .. }));
                };
                if records(file, chunk.offset, chunk.length, count).is_ok() && messages == 0 {
                    self.parts.retain(|part| part.offset != chunk.offset);
                }
            }
            let is_known = |id: &u16| {
                let channel = self.known.channels.get(id);
                // Without a schema its number is 0.
                channel.is_some_and(|channel| {
                    channel.schema_id == 0 || self.known.schemas.contains_key(&channel.schema_id)
                })
            };
            // Without an index of its messages, a chunk may have those of any channel.
            let known = match (&self.known.counts, channels.is_empty()) {
                (_, false) => channels.iter().all(is_known),
                (Some(counts), true) => !counts.is_empty() && counts.keys().all(is_known),
                (None, true) => false,
            };
            if !known {
                // If the chunk is damaged, its reader says so.
                let define = |record: Record<'_>| self.known.define(record);
                let _ = records(file, chunk.offset, chunk.length, define);
            }
        }
    }

    fn index(mut self) -> Index {
        self.parts.sort_by_key(|part| (part.first, part.offset));
        let mut index = Index { parts: self.parts, ..Index::default() };
        let mut places: HashMap<(String, String, String), usize> = HashMap::new();
        for (id, channel) in self.known.channels {
            let messages =
                self.known.counts.as_ref().map(|counts| counts.get(&id).copied().unwrap_or(0));
            let (ros_type, definition) = match self.known.schemas.get(&channel.schema_id) {
                Some((name, definition)) => (name.clone(), Some(definition.clone())),
                None => (String::new(), None),
            };
            let definition = definition.filter(|definition| !definition.text.is_empty());
            let topic = Topic {
                name: channel.topic,
                ros_type,
                format: channel.message_encoding,
                definition,
                messages,
                offered_qos: channel.metadata.get(OFFERED_QOS).cloned().unwrap_or_default(),
                array: None,
            };
            // Publishers with different settings have channels of their own.
            let key = (topic.name.clone(), topic.ros_type.clone(), topic.format.clone());
            let place = *places.entry(key).or_insert(index.topics.len());
            match index.topics.get_mut(place) {
                Some(known) => {
                    known.offered_qos.push_str(&topic.offered_qos);
                    known.messages = known.messages.zip(topic.messages).map(|(a, b)| a + b);
                }
                None => index.topics.push(topic),
            }
            index.channels.insert(id, place);
        }
        index
    }
}

/// The footer of a file.
struct Footer {
    /// Offset of the index in the file.
    start: u64,
    /// Offset of the footer's record; `start` if there is no index.
    end: u64,
    /// End of the bytes that the checksum covers.
    summed: u64,
    crc: u32,
}

/// A number of 8 bytes at a place that exists.
pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut number = [0; 8];
    number.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(number)
}
