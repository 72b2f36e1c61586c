//! The shards of an array: files of chunks, each with an index at its end (Zarr's codec `sharding_indexed`).

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::super::OutputError;
use super::Column;

/// Place and length of a chunk that is not there.
const MISSING: [u64; 2] = [u64::MAX; 2];

/// Writes the shards of an array, chunk by chunk.
pub(super) struct Shards {
    /// What the names of the shards begin with, without the shard's number.
    folder: PathBuf,
    /// What their names end with: the other dimensions have one shard.
    suffix: String,
    /// Chunks of a shard.
    chunks: usize,
    number: u64,
    shard: Option<Shard>,
}

/// The shard that is being written.
struct Shard {
    path: PathBuf,
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

impl Shards {
    /// The shards of a column, in the folder of its array.
    pub fn new(folder: &Path, column: &Column) -> Self {
        Shards {
            folder: folder.to_owned(),
            suffix: ".0".repeat(column.row.len()),
            chunks: column.shard_chunks(),
            number: 0,
            shard: None,
        }
    }

    /// Adds a chunk.
    pub fn add(&mut self, chunk: &[u8]) -> Result<(), OutputError> {
        let shard = self.shard()?;
        shard.file.write_all(chunk).map_err(OutputError::of(&shard.path))?;
        shard.index.push([shard.len, chunk.len() as u64]);
        shard.len += chunk.len() as u64;
        self.end_if_full(None)
    }

    /// Adds a chunk that is at this place of a file. [`Shards::end_source`] must follow the last one.
    pub fn add_from(&mut self, source: &File, [at, len]: [u64; 2]) -> Result<(), OutputError> {
        let shard = self.shard()?;
        let again = shard.newest.filter(|[before, _]| *before == at);
        let place = match again {
            Some([_, place]) => place,
            None => {
                if shard.run[0] + shard.run[1] != at {
                    shard.copy(source)?;
                    shard.run = [at, 0];
                }
                shard.run[1] += len;
                shard.len += len;
                shard.len - len
            }
        };
        shard.newest = Some([at, place]);
        shard.index.push([place, len]);
        self.end_if_full(Some(source))
    }

    /// Says that no chunk comes from this file any more.
    pub fn end_source(&mut self, source: &File) -> Result<(), OutputError> {
        let Some(shard) = &mut self.shard else { return Ok(()) };
        shard.copy(source)?;
        (shard.run, shard.newest) = ([0; 2], None);
        Ok(())
    }

    /// Ends the last shard.
    pub fn finish(mut self) -> Result<(), OutputError> {
        self.shard.take().map_or(Ok(()), |shard| shard.end(self.chunks))
    }

    fn shard(&mut self) -> Result<&mut Shard, OutputError> {
        let shard = match self.shard.take() {
            Some(shard) => shard,
            None => {
                let path = self.folder.join(format!("c.{}{}", self.number, self.suffix));
                self.number += 1;
                let file = File::create(&path).map_err(OutputError::of(&path))?;
                let index = Vec::with_capacity(self.chunks);
                Shard { path, file, len: 0, index, run: [0; 2], newest: None }
            }
        };
        Ok(self.shard.insert(shard))
    }

    fn end_if_full(&mut self, source: Option<&File>) -> Result<(), OutputError> {
        match self.shard.take_if(|shard| shard.index.len() == self.chunks) {
            Some(mut shard) => {
                source.map_or(Ok(()), |source| shard.copy(source))?;
                shard.end(self.chunks)
            }
            None => Ok(()),
        }
    }
}

impl Shard {
    /// Copies the run.
    fn copy(&mut self, source: &File) -> Result<(), OutputError> {
        let [at, len] = std::mem::take(&mut self.run);
        if len == 0 {
            return Ok(());
        }
        let mut from = source;
        let copied = from.seek(SeekFrom::Start(at));
        // The kernel copies from file to file.
        let copied = copied.and_then(|_| std::io::copy(&mut from.take(len), &mut self.file));
        match copied {
            Ok(copied) if copied == len => Ok(()),
            Ok(copied) => {
                let what = format!("expected {len} bytes at {at} of a part, found {copied}");
                Err(OutputError::of(&self.path)(std::io::Error::other(what)))
            }
            Err(error) => Err(OutputError::of(&self.path)(error)),
        }
    }

    /// Writes the index.
    fn end(mut self, chunks: usize) -> Result<(), OutputError> {
        self.index.resize(chunks, MISSING);
        let mut index: Vec<u8> =
            self.index.iter().flatten().flat_map(|n| n.to_le_bytes()).collect();
        let checksum = crc32c::crc32c(&index);
        index.extend_from_slice(&checksum.to_le_bytes());
        let written = self.file.write_all(&index).and_then(|()| self.file.sync_all());
        written.map_err(OutputError::of(&self.path))
    }
}
