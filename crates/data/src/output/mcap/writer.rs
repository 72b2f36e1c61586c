//! A file of MCAP whose chunks are compressed on threads.
//!
//! A tensor repeats most of the one before: each image until the next one comes. So a chunk has several tensors, and zstd
//! finds what repeats in all of it. The crate `mcap` has neither setting of zstd, and compresses while the caller waits.
//!
//! The bytes of a chunk depend only on the messages in it, and the chunks are written in their order. So the file does
//! not depend on the threads.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use mcap::MAGIC;
use mcap::records::op;

use super::chunk::{COMPRESSION, Chunk, Indexed, Packer, id_of};
use super::records::{list, numbers, record, text, texts};
use crate::compressing::{CompressThreads, Compressing, Failure};
use crate::file::OutputError;
use robocache_ops::pool::Pool;
use robocache_ops::sync::lock;

/// A chunk with this many bytes before it is compressed is full. docs/experiments.md compares these settings.
const CHUNK: usize = 8 << 20;

/// A topic of the file.
pub(super) struct Topic<'a> {
    pub name: &'a str,
    pub ros_type: &'a str,
    pub definition: String,
    pub metadata: BTreeMap<String, String>,
}

/// Beginning of a file.
pub(super) struct Head<'a> {
    pub library: &'a str,
    /// Messages name them by their position.
    pub topics: Vec<Topic<'a>>,
}

/// Writes a file.
pub(super) struct McapWriter {
    /// The records of schemas and of channels, for the end.
    definitions: [Vec<u8>; 2],
    /// Messages by topic, and the span of their log times.
    counts: Vec<u64>,
    span: Option<[u64; 2]>,
    /// The chunk that is being filled.
    chunk: Chunk,
    threads: CompressThreads<Shared>,
}

/// State that the threads share.
struct Shared {
    written: Mutex<Written>,
    /// A chunk was written, or a thread failed.
    changed: Condvar,
    failure: Failure,
    /// Memory of chunks that have been written.
    spare: Pool<Vec<u8>>,
}

/// The file.
struct Written {
    file: File,
    len: u64,
    crc: crc32fast::Hasher,
    /// How many chunks it has: the number of the next one.
    chunks: u64,
    chunk_indexes: Vec<u8>,
}

impl McapWriter {
    /// Writes the beginning of a file. `path` is its name in errors.
    ///
    /// # Errors
    /// It cannot be written, or the system starts no thread.
    pub(super) fn create(
        file: File,
        path: &Path,
        head: &Head<'_>,
        threads: usize,
    ) -> Result<Self, OutputError> {
        let mut start = MAGIC.to_vec();
        record(&mut start, op::HEADER, |out| {
            text(out, "ros2");
            text(out, head.library);
        });
        let definitions = definitions(&head.topics);
        definitions.iter().for_each(|records| start.extend_from_slice(records));
        let len = 0;
        let crc = crc32fast::Hasher::new();
        let mut written = Written { file, len, crc, chunks: 0, chunk_indexes: Vec::new() };
        written.put(&start).map_err(OutputError::of(path))?;
        let threads = threads.max(1);
        let shared = Arc::new(Shared {
            written: Mutex::new(written),
            changed: Condvar::new(),
            failure: Failure::none(path),
            spare: Pool::new((threads + 1) * 2 * CHUNK),
        });
        Ok(McapWriter {
            definitions,
            counts: vec![0; head.topics.len()],
            span: None,
            chunk: Chunk::default(),
            threads: CompressThreads::start(shared, threads, 1)?,
        })
    }

    /// Adds a message of a topic. `times`: of the log, and of its publication.
    ///
    /// # Errors
    /// This message or one before could not be written.
    pub(super) fn write(
        &mut self,
        topic: u16,
        sequence: u32,
        times: [u64; 2],
        message: &[u8],
    ) -> Result<(), OutputError> {
        let Chunk { records, messages, .. } = &mut self.chunk;
        let log_time = times[0];
        let at = records.len() as u64;
        messages.push(Indexed { topic, log_time, at });
        record(records, op::MESSAGE, |out| {
            out.extend_from_slice(&id_of(topic).to_le_bytes());
            out.extend_from_slice(&sequence.to_le_bytes());
            numbers(out, times);
            out.extend_from_slice(message);
        });
        self.counts[usize::from(topic)] += 1;
        let [first, last] = self.span.unwrap_or([log_time; 2]);
        self.span = Some([first.min(log_time), last.max(log_time)]);
        match self.chunk.records.len() >= CHUNK {
            true => self.end_chunk(),
            false => Ok(()),
        }
    }

    /// Gives the chunk to the threads, and begins the next one.
    fn end_chunk(&mut self) -> Result<(), OutputError> {
        let number = self.chunk.number + 1;
        let records = self.threads.shared().spare.take(|_| true).unwrap_or_default();
        let next = Chunk { number, records, messages: Vec::new() };
        self.threads.put(std::mem::replace(&mut self.chunk, next))
    }

    /// Writes the end of the file, with this metadata of this name. The caller brings it to the disk.
    ///
    /// # Errors
    /// It or a message before could not be written.
    pub(super) fn finish(
        mut self,
        name: &str,
        metadata: &BTreeMap<String, String>,
    ) -> Result<(), OutputError> {
        if !self.chunk.messages.is_empty() {
            self.end_chunk()?;
        }
        self.threads.finish()?;
        let shared = self.threads.shared();
        let mut written = lock(&shared.written);
        let mut end = Vec::new();
        record(&mut end, op::METADATA, |out| {
            text(out, name);
            texts(out, metadata);
        });
        let mut metadata_index = Vec::new();
        record(&mut metadata_index, op::METADATA_INDEX, |out| {
            numbers(out, [written.len, end.len() as u64]);
            text(out, name);
        });
        let mut crc = written.crc.clone();
        crc.update(&end);
        record(&mut end, op::DATA_END, |out| out.extend_from_slice(&crc.finalize().to_le_bytes()));
        let summary_at = written.len + end.len() as u64;
        end.extend_from_slice(&self.summary(summary_at, &written, &metadata_index));
        end.extend_from_slice(MAGIC);
        written.put(&end).map_err(|error| shared.failure.of(error))
    }

    /// The summary, which begins at this place of the file, and the footer.
    fn summary(&self, summary_at: u64, written: &Written, metadata_index: &Vec<u8>) -> Vec<u8> {
        let [schemas, channels] = &self.definitions;
        let statistics = self.statistics(written.chunks as u32);
        let groups = [
            (op::SCHEMA, schemas),
            (op::CHANNEL, channels),
            (op::STATISTICS, &statistics),
            (op::CHUNK_INDEX, &written.chunk_indexes),
            (op::METADATA_INDEX, metadata_index),
        ];
        let mut out = Vec::new();
        let mut offsets = Vec::new();
        for (kind, records) in groups.into_iter().filter(|(_, records)| !records.is_empty()) {
            record(&mut offsets, op::SUMMARY_OFFSET, |offset| {
                offset.push(kind);
                numbers(offset, [summary_at + out.len() as u64, records.len() as u64]);
            });
            out.extend_from_slice(records);
        }
        let offsets_at = summary_at + out.len() as u64;
        out.extend_from_slice(&offsets);
        record(&mut out, op::FOOTER, |out| {
            numbers(out, [summary_at, offsets_at]);
            out.extend_from_slice(&[0; 4]);
        });
        // The checksum is that of all before it, also of the footer's own fields.
        let crc_at = out.len() - 4;
        let crc = crc32fast::hash(&out[..crc_at]);
        out[crc_at..].copy_from_slice(&crc.to_le_bytes());
        out
    }

    fn statistics(&self, chunks: u32) -> Vec<u8> {
        let topics = self.counts.len();
        let mut out = Vec::new();
        record(&mut out, op::STATISTICS, |out| {
            numbers(out, [self.counts.iter().sum()]);
            out.extend_from_slice(&(topics as u16).to_le_bytes());
            // Channels, attachments, metadata, chunks.
            for count in [topics as u32, 0, 1, chunks] {
                out.extend_from_slice(&count.to_le_bytes());
            }
            numbers(out, self.span.unwrap_or_default());
            list(out, |out| {
                for (topic, count) in (0..).zip(&self.counts).filter(|(_, count)| **count > 0) {
                    out.extend_from_slice(&id_of(topic).to_le_bytes());
                    numbers(out, [*count]);
                }
            });
        });
        out
    }
}

/// The records of the topics' schemas, and those of their channels.
fn definitions(topics: &[Topic<'_>]) -> [Vec<u8>; 2] {
    let mut schemas = Vec::new();
    let mut channels = Vec::new();
    for (at, topic) in (0..).zip(topics) {
        let id = id_of(at).to_le_bytes();
        record(&mut schemas, op::SCHEMA, |out| {
            out.extend_from_slice(&id);
            text(out, topic.ros_type);
            text(out, "ros2msg");
            text(out, &topic.definition);
        });
        record(&mut channels, op::CHANNEL, |out| {
            out.extend_from_slice(&id);
            out.extend_from_slice(&id);
            text(out, topic.name);
            text(out, "cdr");
            texts(out, &topic.metadata);
        });
    }
    [schemas, channels]
}

impl Written {
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.crc.update(bytes);
        self.len += bytes.len() as u64;
        Ok(())
    }

    fn put_chunk(&mut self, packer: &Packer) -> io::Result<()> {
        let Packer { compressed, header, indexes, index_of, span, size, .. } = packer;
        let at = self.len;
        self.put(header)?;
        self.put(compressed)?;
        let indexes_at = self.len;
        self.put(indexes)?;
        self.chunks += 1;
        record(&mut self.chunk_indexes, op::CHUNK_INDEX, |out| {
            numbers(out, *span);
            numbers(out, [at, indexes_at - at]);
            list(out, |out| {
                for (topic, place) in index_of {
                    out.extend_from_slice(&id_of(*topic).to_le_bytes());
                    numbers(out, [indexes_at + place]);
                }
            });
            numbers(out, [indexes.len() as u64]);
            text(out, COMPRESSION);
            numbers(out, [compressed.len() as u64, *size]);
        });
        Ok(())
    }
}

impl Compressing for Shared {
    type Job = Chunk;
    type Tools = Packer;

    fn tools(&self) -> io::Result<Packer> {
        Packer::new()
    }

    fn compress(&self, packer: &mut Packer, chunk: Chunk) -> io::Result<()> {
        packer.pack(&chunk)?;
        self.write(chunk.number, packer)?;
        let mut records = chunk.records;
        records.clear();
        let len = records.capacity();
        self.spare.put(records, len);
        Ok(())
    }

    fn wake(&self) {
        // A thread that saw no failure is waiting by now.
        drop(lock(&self.written));
        self.changed.notify_all();
    }

    fn failure(&self) -> &Failure {
        &self.failure
    }
}

impl Shared {
    /// Writes a chunk behind all before it. Waits for these, unless a thread fails: a thread took each of them before.
    fn write(&self, number: u64, packer: &Packer) -> io::Result<()> {
        let mut written = lock(&self.written);
        while written.chunks != number && !self.failure.is_noted() {
            written = self.changed.wait(written).unwrap_or_else(PoisonError::into_inner);
        }
        if written.chunks == number {
            written.put_chunk(packer)?;
        }
        self.changed.notify_all();
        Ok(())
    }
}

#[cfg(test)]
mod tests;
