//! Large rows of a part: compressed by threads, and written into shards as a store has them.
//!
//! The rows of a column are written in their order, whichever thread compressed them. So the bytes of a shard do not
//! depend on the number of threads. A row that is equal to the one before has the same place, except at the begin of a
//! shard.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::Column;
use super::shard::{Shard, ShardReader};
use super::stream::{Stream, StreamReader};

/// Writes the large rows of a column.
pub(super) struct LargeWriter {
    /// Name of the shards without their numbers.
    path: PathBuf,
    /// Chunks of a shard.
    per_shard: u64,
    row_bytes: usize,
    shard: Option<Shard>,
    /// Rows that were written.
    rows: u64,
    /// Rows that were compressed before their turn. `None` is a row that repeats the one before.
    early: BTreeMap<u64, Option<Vec<u8>>>,
    /// The newest row.
    newest: Vec<u8>,
}

/// The file of a shard of a part: of this table and column.
pub(super) fn shard_path(folder: &Path, [table, column]: [usize; 2], number: u64) -> PathBuf {
    numbered(&folder.join(format!("{table}.{column}")), number)
}

fn numbered(path: &Path, number: u64) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{number}"));
    name.into()
}

impl LargeWriter {
    pub(super) fn new(folder: &Path, [table, number]: [usize; 2], column: &Column) -> Self {
        LargeWriter {
            path: folder.join(format!("{table}.{number}")),
            per_shard: column.shard_chunks() as u64,
            row_bytes: column.row_bytes(),
            shard: None,
            rows: 0,
            early: BTreeMap::new(),
            newest: Vec::new(),
        }
    }

    /// Rows that were written.
    pub(super) fn rows(&self) -> u64 {
        self.rows
    }

    /// Takes the chunk of a row, or `None` if the row repeats the one before. It is written when its turn comes. Returns
    /// the size of the compressed rows that were written, before they were compressed \[bytes\].
    pub(super) fn take(&mut self, number: u64, chunk: Option<&[u8]>) -> io::Result<usize> {
        if number != self.rows {
            self.early.insert(number, chunk.map(<[u8]>::to_vec));
            return Ok(0);
        }
        self.write(chunk)?;
        let mut written = usize::from(chunk.is_some());
        while let Some(chunk) = self.early.remove(&self.rows) {
            self.write(chunk.as_deref())?;
            written += usize::from(chunk.is_some());
        }
        Ok(written * self.row_bytes)
    }

    fn write(&mut self, chunk: Option<&[u8]>) -> io::Result<()> {
        if let Some(chunk) = chunk {
            self.newest.clear();
            self.newest.extend_from_slice(chunk);
        }
        let mut shard = match self.shard.take() {
            Some(shard) => shard,
            None => Shard::new(File::create(numbered(&self.path, self.rows / self.per_shard))?),
        };
        if chunk.is_some() || !shard.repeat() {
            shard.add(&self.newest)?;
        }
        self.rows += 1;
        match self.rows.is_multiple_of(self.per_shard) {
            true => _ = shard.end(self.per_shard as usize)?,
            false => self.shard = Some(shard),
        }
        Ok(())
    }

    /// Ends the shards, and syncs them. `order` has the numbers of the rows in the order of the store, if the rows did
    /// not come in it.
    pub(super) fn end(&mut self, order: Option<&Stream>, data: &File) -> io::Result<()> {
        if let Some(shard) = self.shard.take() {
            shard.end(self.per_shard as usize)?;
        }
        if let Some(order) = order {
            self.sort(&mut StreamReader::new(order, data))?;
        }
        (0..self.shards()).try_for_each(|shard| File::open(self.of(shard))?.sync_all())
    }

    fn shards(&self) -> u64 {
        self.rows.div_ceil(self.per_shard)
    }

    fn of(&self, shard: u64) -> PathBuf {
        numbered(&self.path, shard)
    }

    /// Writes the shards again whose rows did not come in their order.
    fn sort(&self, order: &mut StreamReader<'_>) -> io::Result<()> {
        let mut sorted = Vec::new();
        for shard in 0..self.shards() {
            let rows = shard * self.per_shard..self.rows.min((shard + 1) * self.per_shard);
            let mut numbers = Vec::new();
            order.read(rows.clone(), |bytes| -> io::Result<()> {
                numbers.extend(bytes.as_chunks::<8>().0.iter().map(|n| u64::from_le_bytes(*n)));
                Ok(())
            })?;
            if !numbers.iter().copied().eq(rows) {
                let mut path = self.of(shard).into_os_string();
                path.push(".sorted");
                let path = PathBuf::from(path);
                self.write_sorted(&numbers, &path)?;
                sorted.push((path, shard));
            }
        }
        // Until here, rows were read from all of them.
        sorted.into_iter().try_for_each(|(path, shard)| fs::rename(path, self.of(shard)))
    }

    fn write_sorted(&self, numbers: &[u64], path: &Path) -> io::Result<()> {
        let mut shard = Shard::new(File::create(path)?);
        // Rows that came out of order are mostly close to their place.
        let mut from: Option<(u64, ShardReader)> = None;
        let [mut bytes, mut before] = [Vec::new(), Vec::new()];
        for number in numbers {
            let wanted = number / self.per_shard;
            let reader = match from.take().filter(|(open, _)| *open == wanted) {
                Some((_, reader)) => reader,
                None => ShardReader::open(&self.of(wanted), self.per_shard as usize)?,
            };
            reader.read(number % self.per_shard, &mut bytes)?;
            if bytes != before || !shard.repeat() {
                shard.add(&bytes)?;
            }
            std::mem::swap(&mut bytes, &mut before);
            from = Some((wanted, reader));
        }
        shard.end(self.per_shard as usize)?;
        Ok(())
    }
}
