//! Many streams of records in one file: blocks of records, in the order in which they are full.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};
use twox_hash::XxHash3_64;

/// Size of a block, unless a record is larger \[bytes\].
const BLOCK: usize = 64 << 10;
/// Blocks that a reader keeps: rows that came out of order are mostly close to their place.
const KEPT: usize = 8;

/// A file that threads append to.
pub(super) struct Data {
    file: File,
    len: AtomicU64,
}

impl Data {
    /// Creates the file. One that is there is replaced.
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        let file = File::options().read(true).write(true).create(true).truncate(true).open(path)?;
        Ok(Data { file, len: AtomicU64::new(0) })
    }

    /// Appends bytes, and returns where they are.
    pub(super) fn append(&self, bytes: &[u8]) -> io::Result<u64> {
        let at = self.len.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        self.file.write_all_at(bytes, at)?;
        Ok(at)
    }

    /// How much was appended.
    pub(super) fn len(&self) -> u64 {
        self.len.load(Ordering::Relaxed)
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }
}

/// Places of a stream's records.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Stream {
    /// Size of a record \[bytes\].
    record: usize,
    /// All blocks but the last are full. Of each: its place, its size and its digest.
    blocks: Vec<(u64, u64, u64)>,
}

impl Stream {
    fn per_block(&self) -> u64 {
        (BLOCK / self.record).max(1) as u64
    }
}

/// Writes the records of a stream.
pub(super) struct StreamWriter {
    stream: Stream,
    buffer: Vec<u8>,
    records: u64,
}

impl StreamWriter {
    /// A stream of records of this size \[bytes\], at least 1.
    pub(super) fn new(record: usize) -> Self {
        let stream = Stream { record: record.max(1), blocks: Vec::new() };
        StreamWriter { stream, buffer: Vec::new(), records: 0 }
    }

    /// Adds a record.
    pub(super) fn push(&mut self, record: &[u8], data: &Data) -> io::Result<()> {
        self.buffer.extend_from_slice(record);
        self.records += 1;
        match self.buffer.len() as u64 >= self.stream.per_block() * self.stream.record as u64 {
            true => self.flush(data),
            false => Ok(()),
        }
    }

    /// Number of records so far.
    pub(super) fn records(&self) -> u64 {
        self.records
    }

    /// Writes what is left.
    pub(super) fn flush(&mut self, data: &Data) -> io::Result<()> {
        if !self.buffer.is_empty() {
            let at = data.append(&self.buffer)?;
            let digest = XxHash3_64::oneshot(&self.buffer);
            self.stream.blocks.push((at, self.buffer.len() as u64, digest));
            self.buffer.clear();
        }
        Ok(())
    }

    /// Places of the records that were written.
    pub(super) fn stream(&self) -> &Stream {
        &self.stream
    }
}

/// Reads the records of a stream.
pub(super) struct StreamReader<'a> {
    stream: &'a Stream,
    file: &'a File,
    /// Blocks by their number, the newest first.
    kept: VecDeque<(usize, Vec<u8>)>,
}

impl<'a> StreamReader<'a> {
    pub(super) fn new(stream: &'a Stream, file: &'a File) -> Self {
        StreamReader { stream, file, kept: VecDeque::new() }
    }

    /// Hands records to `take`, some at a time.
    ///
    /// # Errors
    /// That of `take`; a block cannot be read, or it is not what was written.
    pub(super) fn read<E: From<io::Error>>(
        &mut self,
        records: Range<u64>,
        mut take: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let record = self.stream.record as u64;
        let per_block = self.stream.per_block();
        let mut from = records.start;
        while from < records.end {
            let number = from / per_block;
            let first = number * per_block;
            let to = records.end.min(first + per_block);
            let block = self.block(number as usize)?;
            let bytes = ((from - first) * record) as usize..((to - first) * record) as usize;
            let bytes = block.get(bytes).ok_or_else(|| damaged("a block is too short"))?;
            take(bytes)?;
            from = to;
        }
        Ok(())
    }

    fn block(&mut self, number: usize) -> io::Result<&[u8]> {
        let at = match self.kept.iter().position(|(kept, _)| *kept == number) {
            Some(at) => at,
            None => {
                let mut bytes = match self.kept.len() < KEPT {
                    true => Vec::new(),
                    false => self.kept.pop_back().map_or_else(Vec::new, |(_, bytes)| bytes),
                };
                let block = self.stream.blocks.get(number);
                let (at, len, digest) = *block.ok_or_else(|| damaged("a block is missing"))?;
                bytes.resize(len as usize, 0);
                self.file.read_exact_at(&mut bytes, at)?;
                if XxHash3_64::oneshot(&bytes) != digest {
                    return Err(damaged("a block is not what was written"));
                }
                self.kept.push_front((number, bytes));
                0
            }
        };
        Ok(&self.kept[at].1)
    }
}

/// The error for a file that is not as it was written.
pub(super) fn damaged(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("damaged: {what}"))
}
