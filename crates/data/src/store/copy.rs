//! Rows of shards on their way into a store: those of a part, or of the store that is replaced.

use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::Column;
use super::chunk;
use super::shard::{Shard, ShardReader};
use super::stream::damaged;
use super::zarr::Chunks;

/// The shards of a column.
pub(super) struct Shards<'a> {
    /// The column.
    pub column: &'a Column,
    /// The file of a shard.
    pub path: &'a dyn Fn(u64) -> PathBuf,
    /// True if chunks are checked before they are taken. In a store, readers do so.
    pub is_checked: bool,
}

impl Shards<'_> {
    fn open(&self, number: u64) -> io::Result<ShardReader> {
        let from = ShardReader::open(&(self.path)(number), self.column.shard_chunks())?;
        if self.is_checked {
            from.check()?;
        }
        Ok(from)
    }

    /// Gives the file of a shard another name, if it has these rows and no others. Returns whether it has.
    pub(super) fn link(&self, rows: &Range<u64>, to: &Path) -> io::Result<bool> {
        let all = self.column.shard_rows();
        let number = rows.start / all;
        if !rows.start.is_multiple_of(all) || rows.end - rows.start > all {
            return Ok(false);
        }
        // A large row is a chunk.
        let from = self.open(number)?;
        if from.chunks() as u64 != rows.end - rows.start {
            return Ok(false);
        }
        let path = (self.path)(number);
        // Some file systems have no second names.
        if let Err(error) = fs::hard_link(&path, to) {
            // On NFS the name may be there in spite of the error: a copy onto itself would empty both (link(2), BUGS).
            if error.kind() == io::ErrorKind::AlreadyExists {
                fs::remove_file(to)?;
            }
            fs::copy(&path, to)?;
            fs::File::open(to)?.sync_all()?;
        }
        Ok(true)
    }

    /// Copies rows, by their numbers.
    pub(super) fn copy(
        &self,
        rows: Range<u64>,
        shard: &mut Shard,
        chunks: &mut Chunks,
    ) -> io::Result<()> {
        let mut at = rows.start;
        let mut before = None;
        let all = self.column.shard_rows();
        while at < rows.end {
            let number = at / all;
            let first = number * all;
            let end = rows.end.min(first + all);
            let from = self.open(number)?;
            let mine = at - first..end - first;
            match self.column.has_large_rows() {
                true => {
                    before = copy_large(&from, mine.clone(), mine.end == all, before, shard)?;
                    shard.end_source(from.file())?;
                }
                false => copy_small(self.column, &from, mine, shard, chunks)?,
            }
            at = end;
        }
        Ok(())
    }
}

/// Copies the chunks of large rows. `before` is the chunk of the row before, if that is of the same episode and in
/// another shard: a row that repeats it is a copy there. Returns the last chunk if the shard ends with it.
fn copy_large(
    from: &ShardReader,
    rows: Range<u64>,
    ends_shard: bool,
    before: Option<Vec<u8>>,
    shard: &mut Shard,
) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    let mut copied = None;
    for row in rows.clone() {
        let place = from.place(row).ok_or_else(|| damaged("a chunk is missing"))?;
        if row == rows.start && before.is_some() {
            from.read(row, &mut bytes)?;
            if before.as_ref() == Some(&bytes) && shard.repeat() {
                copied = Some(place);
                continue;
            }
        }
        match copied == Some(place) {
            true => _ = shard.repeat(),
            false => shard.add_from(from.file(), place)?,
        }
    }
    if rows.is_empty() || !ends_shard {
        return Ok(None);
    }
    from.read(rows.end - 1, &mut bytes)?;
    Ok(Some(bytes))
}

/// Copies small rows out of their chunks.
fn copy_small(
    column: &Column,
    from: &ShardReader,
    rows: Range<u64>,
    shard: &mut Shard,
    chunks: &mut Chunks,
) -> io::Result<()> {
    let per_chunk = column.chunk_rows() as u64;
    let size = column.row_bytes() as u64;
    let mut bytes = Vec::new();
    let mut at = rows.start;
    while at < rows.end {
        let number = at / per_chunk;
        let first = number * per_chunk;
        let end = rows.end.min(first + per_chunk);
        from.read(number, &mut bytes)?;
        let all = chunk::unpacked(&bytes, (per_chunk * size) as usize)?;
        chunks.add(&all[((at - first) * size) as usize..((end - first) * size) as usize], shard)?;
        at = end;
    }
    Ok(())
}
