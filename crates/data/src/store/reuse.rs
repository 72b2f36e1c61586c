//! Rows of a store that is there, on their way into the one that replaces it.

use std::io;
use std::ops::Range;
use std::path::Path;

use super::Column;
use super::chunk;
use super::shard::{Shard, ShardReader};
use super::stream::damaged;
use super::zarr::{Chunks, path_of, shard_rows};

/// Copies rows of a column, by their numbers in the store.
pub(super) fn copy(
    store: &Path,
    column: &Column,
    rows: Range<u64>,
    shard: &mut Shard,
    chunks: &mut Chunks,
) -> io::Result<()> {
    let (mut at, mut before) = (rows.start, None);
    while at < rows.end {
        let number = at / shard_rows(column);
        let first = number * shard_rows(column);
        let end = rows.end.min(first + shard_rows(column));
        let from = ShardReader::open(&path_of(store, column, number), column.shard_chunks())?;
        let mine = at - first..end - first;
        match column.has_large_rows() {
            true => {
                let ends_shard = mine.end == shard_rows(column);
                before = copy_large(&from, mine, ends_shard, before, shard)?;
                shard.end_source(from.file())?;
            }
            false => copy_small((column, &from), mine, shard, chunks)?,
        }
        at = end;
    }
    Ok(())
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
    (column, from): (&Column, &ShardReader),
    rows: Range<u64>,
    shard: &mut Shard,
    chunks: &mut Chunks,
) -> io::Result<()> {
    let (per_chunk, size) = (column.chunk_rows() as u64, column.row_bytes() as u64);
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
