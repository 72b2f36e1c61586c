//! A part of an MCAP file at once: its records without a copy of their contents.

use std::borrow::Cow;
use std::fs;
use std::io::Read;
use std::os::unix::fs::FileExt;

use bytes::Bytes;
use mcap::records::{MessageHeader, Record, op};

use super::super::memory::FreeBuffers;
use super::index::{RECORD_HEADER, u64_at};
use super::{Broken, MOST_BYTES};

/// Bytes of a record before its content.
const HEADER: usize = RECORD_HEADER as usize;
/// A message may keep records in memory that are this many times as large.
const MOST_TIMES: usize = 4;
/// Smaller messages keep none \[bytes\].
const LARGE: usize = 1 << 16;

/// Reads the records at a place of a file: one or several outside of chunks, or those of a chunk. They follow one another.
///
/// # Errors
/// The operating system cannot read them, or they are not as they must be: lengths, compression, and the checksum of a
/// chunk if it has one.
pub(super) fn read(
    file: &fs::File,
    offset: u64,
    length: u64,
    memory: &FreeBuffers,
) -> Result<Bytes, Broken> {
    let length = within(length)?;
    let mut buffer = memory.buffer(length);
    file.read_exact_at(buffer.bytes_mut(), offset).map_err(|error| match error.kind() {
        std::io::ErrorKind::UnexpectedEof => Broken::damaged("expected all of it, found the end"),
        _ => Broken::Unreadable(error),
    })?;
    let records = buffer.share();
    match split_first(&records) {
        Some((op::CHUNK, body)) => records_of_chunk(&records, body, memory),
        _ => Ok(records),
    }
}

/// A number of bytes that may be reserved.
fn within(bytes: u64) -> Result<usize, Broken> {
    let within = usize::try_from(bytes).ok().filter(|bytes| *bytes <= MOST_BYTES);
    within.ok_or_else(|| {
        Broken::Damaged(format!("expected at most {MOST_BYTES} bytes, found {bytes}"))
    })
}

/// The kind and the content of the first record of some, if it is there as a whole.
fn split_first(records: &[u8]) -> Option<(u8, &[u8])> {
    let (header, rest) = records.split_at_checked(HEADER)?;
    let length = usize::try_from(u64_at(header, 1)).ok()?;
    Some((header[0], rest.get(..length)?))
}

/// The records of a chunk, decompressed.
fn records_of_chunk(part: &Bytes, body: &[u8], memory: &FreeBuffers) -> Result<Bytes, Broken> {
    let chunk = mcap::parse_record(op::CHUNK, body).map_err(Broken::damaged)?;
    let Record::Chunk { header, data } = chunk else { return Err(Broken::damaged("no chunk")) };
    let size = within(header.uncompressed_size)?;
    let records = match header.compression.as_str() {
        "" => part.slice_ref(&data),
        name => decompressed(name, &data, size, memory)
            .map_err(|error| Broken::Damaged(format!("{name}: {error}")))?,
    };
    if records.len() != size {
        let found = records.len();
        return Err(Broken::Damaged(format!("expected {size} bytes of records, found {found}")));
    }
    let crc = header.uncompressed_crc;
    match crc == 0 || crc32fast::hash(&records) == crc {
        true => Ok(records),
        false => Err(Broken::damaged("the checksum of the chunk is wrong")),
    }
}

/// Decompresses the records of a chunk, which have this size.
fn decompressed(
    compression: &str,
    data: &[u8],
    size: usize,
    memory: &FreeBuffers,
) -> std::io::Result<Bytes> {
    let other = |what: &str| Err(std::io::Error::other(what));
    let mut buffer = memory.buffer(size);
    let found = match compression {
        // The bound is for a header that claims much more than there is: nothing of that is reserved.
        "zstd" => match zstd::zstd_safe::get_frame_content_size(data) {
            Ok(told) if told.is_none_or(|told| told <= size as u64) => {
                zstd::bulk::decompress_to_buffer(data, buffer.bytes_mut())?
            }
            _ => return other("another size"),
        },
        "lz4" => {
            let mut decoder = lz4::Decoder::new(data)?;
            decoder.read_exact(buffer.bytes_mut())?;
            // All of it must have been needed.
            size + decoder.read(&mut [0])?
        }
        _ => return other("expected lz4 or zstd, found another compression"),
    };
    if found == size { Ok(buffer.share()) } else { other("another size") }
}

/// Hands each of some records to `take`: its kind and its content.
///
/// # Errors
/// Those of `take`, or a record goes past the end. Those before it have been taken.
pub(super) fn each(
    records: &[u8],
    mut take: impl FnMut(u8, &[u8]) -> Result<(), Broken>,
) -> Result<(), Broken> {
    let mut rest = records;
    while !rest.is_empty() {
        let past = "expected a whole record, found one that goes past the end";
        let (kind, body) = split_first(rest).ok_or_else(|| Broken::damaged(past))?;
        take(kind, body)?;
        rest = &rest[HEADER + body.len()..];
    }
    Ok(())
}

/// Reads a message.
///
/// # Errors
/// It is not as it must be.
pub(super) fn message(body: &[u8]) -> Result<(MessageHeader, &[u8]), Broken> {
    match mcap::parse_record(op::MESSAGE, body).map_err(Broken::damaged)? {
        Record::Message { header, data: Cow::Borrowed(data) } => Ok((header, data)),
        _ => Err(Broken::damaged("expected a message, found another record")),
    }
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
