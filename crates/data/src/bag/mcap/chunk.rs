//! A whole part of an MCAP file at once: its records without a copy of their contents.

use std::borrow::Cow;
use std::fs;
use std::io::Read;
use std::os::unix::fs::FileExt;

use bytes::Bytes;
use mcap::records::{ChunkHeader, MessageHeader, Record, op};

use super::super::memory::FreeBuffers;
use super::index::{McapPart, RECORD_HEADER, u64_at};
use super::{Broken, MOST_BYTES};

/// Bytes of a record before its content.
const HEADER: usize = RECORD_HEADER as usize;
/// A message may keep records in memory that are this many times as large.
const MOST_TIMES: usize = 4;
/// Smaller messages keep none \[bytes\].
const LARGE: usize = 1 << 16;
/// Bytes of a chunk's header, without the name of its compression.
const CHUNK_HEADER: usize = 40;
/// LZ4 makes at most this many bytes of one (a byte of a length stands for 255). zstd has no such bound: if a chunk
/// claims more, its contents are counted.
const LZ4_TIMES: u64 = 255;

/// Reads a part. Returns the records in it, one after the other, if all of it is as it must be: its kind, its
/// lengths, its compression, and its checksum if it has one. `None` says that something is not, or that this
/// function does not know it; [`super::records`] tells what.
///
/// # Errors
/// The operating system cannot read it.
pub(super) fn whole(
    file: &fs::File,
    part: &McapPart,
    memory: &FreeBuffers,
) -> Result<Option<Bytes>, Broken> {
    let Some(length) = usize::try_from(part.length).ok().filter(|length| *length <= MOST_BYTES)
    else {
        return Ok(None);
    };
    let mut buffer = memory.buffer(length);
    match file.read_exact_at(buffer.bytes_mut(), part.offset) {
        Ok(()) => {}
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(Broken::Unreadable(error)),
    }
    let part = buffer.share();
    let Some((kind, body)) = split_first(&part).filter(|(_, body)| body.len() == length - HEADER)
    else {
        return Ok(None);
    };
    Ok(match kind {
        op::MESSAGE => Some(part.clone()),
        op::CHUNK => records_of_chunk(&part, body, memory),
        _ => None,
    })
}

/// The kind and the content of the first record of some, if it is there as a whole.
fn split_first(records: &[u8]) -> Option<(u8, &[u8])> {
    let (header, rest) = records.split_at_checked(HEADER)?;
    let length = usize::try_from(u64_at(header, 1)).ok()?;
    Some((header[0], rest.get(..length)?))
}

/// The records of a chunk, decompressed.
fn records_of_chunk(part: &Bytes, body: &[u8], memory: &FreeBuffers) -> Option<Bytes> {
    let Ok(Record::Chunk { header, data }) = mcap::parse_record(op::CHUNK, body) else {
        return None;
    };
    if data.len() + CHUNK_HEADER + header.compression.len() != body.len() {
        return None;
    }
    let size = usize::try_from(header.uncompressed_size).ok().filter(|size| *size <= MOST_BYTES)?;
    let records = match header.compression.as_str() {
        // `data` is borrowed from the part.
        "" => part.slice_ref(&data),
        _ => decompressed(&header, &data, size, memory)?,
    };
    let is_right =
        header.uncompressed_crc == 0 || crc32fast::hash(&records) == header.uncompressed_crc;
    (records.len() == size && is_right).then_some(records)
}

/// Decompresses a chunk of this size; `None` if it is damaged, or compressed in another way.
fn decompressed(
    header: &ChunkHeader,
    data: &[u8],
    size: usize,
    memory: &FreeBuffers,
) -> Option<Bytes> {
    if header.compression == "zstd" {
        // Of a size that is not true, nothing is reserved.
        let told = zstd::zstd_safe::get_frame_content_size(data).ok()?;
        if told.is_some_and(|told| told != size as u64) {
            return None;
        }
    }
    let mut buffer = memory.buffer(size);
    let found = match header.compression.as_str() {
        "zstd" => zstd::bulk::decompress_to_buffer(data, buffer.bytes_mut()).ok()?,
        "lz4" => {
            let mut decoder = lz4::Decoder::new(data).ok()?;
            decoder.read_exact(buffer.bytes_mut()).ok()?;
            // There must be no more.
            let more = decoder.read(&mut [0]).ok()?;
            size + more
        }
        _ => return None,
    };
    (found == size).then(|| buffer.share())
}

/// Bounds of the crate's reader in a part.
pub(super) struct Bounds {
    /// The most bytes that a record of it can have: the reader reserves as many as a record claims.
    pub longest: usize,
    /// Bytes of the chunk that it begins with. Only that chunk is read: behind it, and in an index, there is none.
    pub chunk: Option<u64>,
}

/// Finds the bounds of a part.
///
/// If bytes follow the contents of a chunk without compression, its records must end in it. The crate's reader would go
/// on behind the contents, and count below zero.
///
/// # Errors
/// A record goes past the end of the contents, or the operating system cannot read it.
pub(super) fn bounds(file: &fs::File, offset: u64, length: u64) -> Result<Bounds, Broken> {
    // If the file ends before, the crate's reader says so.
    let read = |bytes: &mut [u8], at: u64| match file.read_exact_at(bytes, at) {
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Ok(false),
        read => read.map(|()| true).map_err(Broken::Unreadable),
    };
    let bounded = |bytes: u64| usize::try_from(bytes).map_or(MOST_BYTES, |b| b.min(MOST_BYTES));
    let mut start = [0; HEADER + CHUNK_HEADER];
    if length < start.len() as u64 || !read(&mut start, offset)? || start[0] != op::CHUNK {
        return Ok(Bounds { longest: bounded(length), chunk: None });
    }
    let told = u64_at(&start, HEADER + 16);
    let usual = length.saturating_mul(LZ4_TIMES);
    let claimed = match &start[HEADER + 28..] {
        name if name.starts_with(b"\x03\0\0\0lz4") => told.min(usual),
        name if name.starts_with(b"\x04\0\0\0zstd") && told > usual => {
            let header = (start.len() + b"zstd".len()) as u64;
            let contents = Span { file, at: offset + header, end: offset + length };
            counted(contents, told.min(MOST_BYTES as u64))?
        }
        _ => told,
    };
    let longest = bounded(length.max(claimed));
    let bounds = Bounds { longest, chunk: u64_at(&start, 1).checked_add(RECORD_HEADER) };
    let is_compressed = start[HEADER + 28..HEADER + 32] != [0; 4];
    let mut at = start.len() as u64;
    let end = at.checked_add(u64_at(&start, HEADER + 32)).filter(|end| *end < length);
    let Some(end) = end.filter(|_| !is_compressed) else { return Ok(bounds) };
    while at < end {
        let mut header = [0; HEADER];
        if !read(&mut header, offset + at)? {
            return Ok(bounds);
        }
        let next = u64_at(&header, 1).checked_add(at + RECORD_HEADER).filter(|next| *next <= end);
        let past = "expected a whole record, found one that goes past the end of its chunk";
        at = next.ok_or_else(|| Broken::damaged(past))?;
    }
    Ok(bounds)
}

/// A part of a file to read, whatever the file's position.
struct Span<'a> {
    file: &'a fs::File,
    at: u64,
    end: u64,
}

impl Read for Span<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        let left = usize::try_from(self.end.saturating_sub(self.at)).unwrap_or(usize::MAX);
        let len = bytes.len().min(left);
        let got = self.file.read_at(&mut bytes[..len], self.at)?;
        self.at += got as u64;
        Ok(got)
    }
}

/// Counts the bytes that zstd makes of some contents, at most `most`, and keeps none. Of damaged ones, those before
/// the damage count, and a buffer more: what the decoder made in the call that found the damage is not known.
///
/// # Errors
/// The operating system cannot read them.
fn counted(contents: impl Read, most: u64) -> Result<u64, Broken> {
    let decoder = zstd::Decoder::new(contents).map_err(Broken::Unreadable)?;
    let mut records = decoder.take(most);
    let mut buffer = [0; 1 << 14];
    let mut count = 0;
    loop {
        match records.read(&mut buffer) {
            Ok(0) => return Ok(count),
            Ok(got) => count += got as u64,
            Err(error) if error.raw_os_error().is_some() => return Err(Broken::Unreadable(error)),
            Err(_) => return Ok(most.min(count + buffer.len() as u64)),
        }
    }
}

/// Hands the messages among some records to `take`: header and body.
///
/// # Errors
/// A record is not as it must be. The messages before it have been taken.
pub(super) fn each_message(
    records: &Bytes,
    mut take: impl FnMut(MessageHeader, &[u8]),
) -> Result<(), Broken> {
    let mut rest = &records[..];
    while !rest.is_empty() {
        let Some((kind, body)) = split_first(rest) else {
            return Err(Broken::damaged(
                "expected a whole record, found one that goes past the end",
            ));
        };
        if kind == op::MESSAGE {
            match mcap::parse_record(kind, body).map_err(Broken::damaged)? {
                // The body is borrowed from the records.
                Record::Message { header, data: Cow::Borrowed(data) } => take(header, data),
                _ => return Err(Broken::damaged("expected a message, found another record")),
            }
        }
        rest = &rest[HEADER + body.len()..];
    }
    Ok(())
}

/// A message among some records as bytes of its own, and how many bytes these keep in memory. A large one is a slice
/// of the records. A small one is copied: one that waits long must not keep a chunk in memory.
pub(super) fn share(records: &Bytes, message: &[u8], memory: &FreeBuffers) -> (Bytes, usize) {
    match message.len() {
        len if len < LARGE => (Bytes::copy_from_slice(message), len),
        len if len >= records.len() / MOST_TIMES => (records.slice_ref(message), records.len()),
        len => (memory.copy(message), len),
    }
}

#[cfg(test)]
mod tests;
