//! A shard of an array: a file of chunks with an index at its end (Zarr's codec `sharding_indexed`).

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::chunk;
use super::stream::damaged;

/// Place and length of a missing chunk.
const MISSING: [u64; 2] = [u64::MAX; 2];

/// Writes a shard, chunk by chunk.
pub(super) struct Shard {
    file: File,
    /// Its bytes, with those of the run.
    len: u64,
    /// Per chunk: place and length.
    index: Vec<[u64; 2]>,
    /// Bytes of the source that come next: place and length. They are copied at once.
    run: [u64; 2],
    /// The newest chunk: its place in the source and in the shard.
    newest: Option<[u64; 2]>,
}

impl Shard {
    /// An empty shard.
    pub(super) fn new(file: File) -> Self {
        Shard { file, len: 0, index: Vec::new(), run: [0; 2], newest: None }
    }

    /// Adds a chunk.
    pub(super) fn add(&mut self, chunk: &[u8]) -> io::Result<()> {
        self.file.write_all(chunk)?;
        self.index.push([self.len, chunk.len() as u64]);
        self.len += chunk.len() as u64;
        Ok(())
    }

    /// Adds a chunk that is at this place of a file. [`Shard::end_source`] must follow the last one.
    pub(super) fn add_from(&mut self, source: &File, [at, len]: [u64; 2]) -> io::Result<()> {
        let again = self.newest.filter(|[before, _]| *before == at);
        let place = match again {
            Some([_, place]) => place,
            None => {
                if self.run[0] + self.run[1] != at {
                    self.copy(source)?;
                    self.run = [at, 0];
                }
                self.run[1] += len;
                self.len += len;
                self.len - len
            }
        };
        self.newest = Some([at, place]);
        self.index.push([place, len]);
        Ok(())
    }

    /// Adds the newest chunk once more; returns whether there is one.
    pub(super) fn repeat(&mut self) -> bool {
        let newest = self.index.last().copied();
        self.index.extend(newest);
        newest.is_some()
    }

    /// Says that no chunk comes from this file any more.
    pub(super) fn end_source(&mut self, source: &File) -> io::Result<()> {
        self.copy(source)?;
        (self.run, self.newest) = ([0; 2], None);
        Ok(())
    }

    /// Copies the run.
    fn copy(&mut self, mut source: &File) -> io::Result<()> {
        let [at, len] = std::mem::take(&mut self.run);
        if len == 0 {
            return Ok(());
        }
        source.seek(SeekFrom::Start(at))?;
        // The kernel copies from file to file.
        let copied = io::copy(&mut source.take(len), &mut self.file)?;
        if copied != len {
            let what = format!("expected {len} bytes at {at} of its source, found {copied}");
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, what));
        }
        Ok(())
    }

    /// Leaves out chunks: readers find the array's fill value there.
    pub(super) fn skip(&mut self, chunks: usize) {
        self.index.resize(self.index.len() + chunks, MISSING);
    }

    /// Writes the index of a shard that has room for `chunks` chunks. Returns the file, which the caller syncs.
    pub(super) fn end(mut self, chunks: usize) -> io::Result<File> {
        self.index.resize(chunks, MISSING);
        let mut index: Vec<u8> =
            self.index.iter().flatten().flat_map(|n| n.to_le_bytes()).collect();
        let checksum = crc32c::crc32c(&index);
        index.extend_from_slice(&checksum.to_le_bytes());
        self.file.write_all(&index)?;
        Ok(self.file)
    }
}

/// Reads a shard, chunk by chunk.
pub(super) struct ShardReader {
    file: File,
    /// Per chunk: place and length.
    index: Vec<[u64; 2]>,
}

impl ShardReader {
    /// Opens a shard that has room for `chunks` chunks.
    ///
    /// # Errors
    /// It cannot be read, or its index is damaged.
    pub(super) fn open(path: &Path, chunks: usize) -> io::Result<Self> {
        let file = File::open(path)?;
        let mut bytes = vec![0; 16 * chunks + 4];
        let at = file.metadata()?.len().checked_sub(bytes.len() as u64);
        file.read_exact_at(&mut bytes, at.ok_or_else(|| damaged("shorter than its index"))?)?;
        let checksum = bytes.split_off(16 * chunks);
        if checksum != crc32c::crc32c(&bytes).to_le_bytes() {
            return Err(damaged("the checksum of its index is wrong"));
        }
        let words = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
        let words: Vec<u64> = words.collect();
        Ok(ShardReader { file, index: words.as_chunks::<2>().0.to_vec() })
    }

    /// The file.
    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Number of its chunks, if those behind them are missing.
    pub(super) fn chunks(&self) -> usize {
        self.index.iter().rposition(|place| *place != MISSING).map_or(0, |last| last + 1)
    }

    /// Checks each chunk.
    ///
    /// # Errors
    /// One is missing, cannot be read, or is damaged.
    pub(super) fn check(&self) -> io::Result<()> {
        let mut bytes = Vec::new();
        let mut checked = None;
        for place in &self.index[..self.chunks()] {
            if checked != Some(place) {
                chunk::read(&self.file, *place, &mut bytes)?;
                chunk::checked(&bytes)?;
                checked = Some(place);
            }
        }
        Ok(())
    }

    /// Place and length of a chunk; `None` if it is missing.
    pub(super) fn place(&self, number: u64) -> Option<[u64; 2]> {
        self.index.get(number as usize).copied().filter(|place| *place != MISSING)
    }

    /// Reads a chunk into `bytes` as it is stored; returns its place.
    ///
    /// # Errors
    /// It is missing or cannot be read.
    pub(super) fn read(&self, number: u64, bytes: &mut Vec<u8>) -> io::Result<[u64; 2]> {
        let place = self.place(number).ok_or_else(|| damaged("a chunk is missing"))?;
        chunk::read(&self.file, place, bytes)?;
        Ok(place)
    }
}
