//! A chunk of messages, and the records that it becomes.

use std::collections::BTreeMap;
use std::io;

use mcap::records::op;
use zstd::zstd_safe::CParameter;

use super::records::{list, numbers, record, text};

const LEVEL: i32 = 1;
/// zstd looks back as far as 2 to this power of bytes: over a chunk, with the message that makes it full. The level's own
/// 512 KiB are less than a tensor.
const WINDOW_LOG: u32 = 24;
/// The table of matches has 2 to this power of entries, so that an image is still in it when it comes again.
const HASH_LOG: u32 = 18;
pub(super) const COMPRESSION: &str = "zstd";

/// Messages before they are compressed.
#[derive(Default)]
pub(super) struct Chunk {
    pub number: u64,
    pub records: Vec<u8>,
    pub messages: Vec<Indexed>,
}

/// Place of a message in a chunk.
pub(super) struct Indexed {
    pub topic: u16,
    pub log_time: u64,
    pub at: u64,
}

/// The number of a topic's channel, and of its schema.
pub(super) const fn id_of(topic: u16) -> u16 {
    topic + 1
}

/// Makes the records of chunks. Its memory serves again.
pub(super) struct Packer {
    compressor: zstd::bulk::Compressor<'static>,
    pub compressed: Vec<u8>,
    /// Bytes in front of the compressed ones.
    pub header: Vec<u8>,
    /// The records behind the chunk: where its messages are.
    pub indexes: Vec<u8>,
    /// By topic: where its record is in `indexes`.
    pub index_of: BTreeMap<u16, u64>,
    /// The log times of its messages.
    pub span: [u64; 2],
    /// Bytes before they were compressed.
    pub size: u64,
}

impl Packer {
    pub(super) fn new() -> io::Result<Self> {
        let mut compressor = zstd::bulk::Compressor::new(LEVEL)?;
        compressor.set_parameter(CParameter::WindowLog(WINDOW_LOG))?;
        compressor.set_parameter(CParameter::HashLog(HASH_LOG))?;
        Ok(Packer {
            compressor,
            compressed: Vec::new(),
            header: Vec::new(),
            indexes: Vec::new(),
            index_of: BTreeMap::new(),
            span: [0; 2],
            size: 0,
        })
    }

    pub(super) fn pack(&mut self, Chunk { records, messages, .. }: &Chunk) -> io::Result<()> {
        self.compressed.clear();
        self.compressed.reserve(zstd::zstd_safe::compress_bound(records.len()));
        self.compressor.compress_to_buffer(records, &mut self.compressed)?;
        let times = || messages.iter().map(|message| message.log_time);
        self.span = [times().min().unwrap_or(0), times().max().unwrap_or(0)];
        self.size = records.len() as u64;
        self.header.clear();
        record(&mut self.header, op::CHUNK, |out| {
            numbers(out, self.span);
            numbers(out, [self.size]);
            out.extend_from_slice(&crc32fast::hash(records).to_le_bytes());
            text(out, COMPRESSION);
            numbers(out, [self.compressed.len() as u64]);
        });
        // The record has the compressed bytes, too.
        let len = (self.header.len() - 9 + self.compressed.len()) as u64;
        self.header[1..9].copy_from_slice(&len.to_le_bytes());
        self.index(messages);
        Ok(())
    }

    fn index(&mut self, messages: &[Indexed]) {
        let Packer { indexes, index_of, .. } = self;
        indexes.clear();
        index_of.clear();
        let mut topics: Vec<u16> = messages.iter().map(|message| message.topic).collect();
        topics.sort_unstable();
        topics.dedup();
        for topic in topics {
            index_of.insert(topic, indexes.len() as u64);
            record(indexes, op::MESSAGE_INDEX, |out| {
                out.extend_from_slice(&id_of(topic).to_le_bytes());
                list(out, |out| {
                    let of_topic = messages.iter().filter(|message| message.topic == topic);
                    of_topic.for_each(|message| numbers(out, [message.log_time, message.at]));
                });
            });
        }
    }
}
