//! Rows of a store that is there, on their way into the one that replaces it.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::Column;
use super::shard::{MISSING, Shard};
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
        let file = File::open(path_of(store, column, number))?;
        let mine = at - first..end - first;
        match column.has_large_rows() {
            true => {
                before = copy_large((column, &file), mine, before, shard)?;
                shard.end_source(&file)?;
            }
            false => copy_small((column, &file), mine, shard, chunks)?,
        }
        at = end;
    }
    Ok(())
}

/// Copies the chunks of large rows. `before` is the chunk of the row before, if that is of the same episode and in
/// another shard: a row that repeats it is a copy there. Returns the last chunk.
fn copy_large(
    (column, file): (&Column, &File),
    rows: Range<u64>,
    before: Option<Vec<u8>>,
    shard: &mut Shard,
) -> io::Result<Option<Vec<u8>>> {
    let index = index(file, column.shard_chunks())?;
    let mut bytes = Vec::new();
    let mut copied = [u64::MAX; 2];
    for row in rows.clone() {
        let place = chunk(&index, row)?;
        if row == rows.start && before.is_some() {
            read(file, place, &mut bytes)?;
            if before.as_ref() == Some(&bytes) && shard.repeat() {
                copied = place;
                continue;
            }
        }
        match place == copied {
            true => _ = shard.repeat(),
            false => shard.add_from(file, place)?,
        }
    }
    let last = rows.end.checked_sub(1).map(|row| chunk(&index, row)).transpose()?;
    let ends_shard = rows.end == shard_rows(column);
    Ok(match last.filter(|_| ends_shard) {
        Some(place) => {
            read(file, place, &mut bytes)?;
            Some(bytes)
        }
        None => None,
    })
}

/// Copies small rows out of their chunks.
fn copy_small(
    (column, file): (&Column, &File),
    rows: Range<u64>,
    shard: &mut Shard,
    chunks: &mut Chunks,
) -> io::Result<()> {
    let index = index(file, column.shard_chunks())?;
    let (per_chunk, size) = (column.chunk_rows() as u64, column.row_bytes() as u64);
    let mut bytes = Vec::new();
    let mut at = rows.start;
    while at < rows.end {
        let number = at / per_chunk;
        let first = number * per_chunk;
        let end = rows.end.min(first + per_chunk);
        read(file, chunk(&index, number)?, &mut bytes)?;
        let compressed = whole(&bytes)?;
        let all = zstd::bulk::decompress(compressed, (per_chunk * size) as usize)?;
        let mine = ((at - first) * size) as usize..((end - first) * size) as usize;
        chunks.add(all.get(mine).ok_or_else(|| damaged("a chunk is too short"))?, shard)?;
        at = end;
    }
    Ok(())
}

/// Place and length of each chunk of a shard.
fn index(file: &File, chunks: usize) -> io::Result<Vec<[u64; 2]>> {
    let mut bytes = vec![0; 16 * chunks + 4];
    let at = file.metadata()?.len().checked_sub(bytes.len() as u64);
    file.read_exact_at(&mut bytes, at.ok_or_else(|| damaged("a shard is too short"))?)?;
    let checksum = bytes.split_off(16 * chunks);
    if checksum != crc32c::crc32c(&bytes).to_le_bytes() {
        return Err(damaged("the index of a shard is not what was written"));
    }
    let number = |bytes: &[u8]| u64::from_le_bytes(*bytes.first_chunk().unwrap_or(&[0; 8]));
    let place = |entry: &[u8]| [number(entry), number(&entry[8..])];
    Ok(bytes.chunks_exact(16).map(place).collect())
}

fn chunk(index: &[[u64; 2]], number: u64) -> io::Result<[u64; 2]> {
    let place = index.get(number as usize).filter(|place| **place != MISSING);
    place.copied().ok_or_else(|| damaged("a chunk is missing"))
}

/// What a chunk has before its checksum, which must be right.
pub(super) fn whole(chunk: &[u8]) -> io::Result<&[u8]> {
    let is_whole =
        |(chunk, checksum): &(&[u8], &[u8; 4])| crc32c::crc32c(chunk).to_le_bytes() == **checksum;
    let whole = chunk.split_last_chunk().filter(is_whole);
    let (compressed, _) = whole.ok_or_else(|| damaged("a chunk is not what was written"))?;
    Ok(compressed)
}

/// Reads a chunk.
pub(super) fn read(file: &File, [at, len]: [u64; 2], bytes: &mut Vec<u8>) -> io::Result<()> {
    if len > file.metadata()?.len() {
        return Err(damaged("a chunk is longer than its file"));
    }
    bytes.resize(len as usize, 0);
    file.read_exact_at(bytes, at)
}
