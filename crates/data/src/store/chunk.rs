//! A chunk as it is stored: compressed, with a checksum behind it (Zarr's codecs `zstd` and `crc32c`).

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::stream::damaged;
use zstd::zstd_safe::CParameter;

/// The effort of zstd. More effort takes longer, and makes images almost no smaller.
pub(super) const ZSTD_LEVEL: i32 = 1;
/// The table of matches has 2 to this power of entries, so that it fits into the first-level cache. On rows of images
/// that takes a tenth less time than the level's own 14, for 3 % more bytes.
const ZSTD_HASH_LOG: u32 = 12;

/// Makes chunks.
pub(super) struct Compress {
    compressor: zstd::bulk::Compressor<'static>,
    chunk: Vec<u8>,
}

impl Compress {
    pub fn new(level: i32) -> io::Result<Self> {
        let mut compressor = zstd::bulk::Compressor::new(level)?;
        if level == ZSTD_LEVEL {
            compressor.set_parameter(CParameter::HashLog(ZSTD_HASH_LOG))?;
        }
        Ok(Compress { compressor, chunk: Vec::new() })
    }

    /// Makes a chunk of these bytes.
    pub fn chunk(&mut self, bytes: &[u8]) -> io::Result<&[u8]> {
        let Compress { compressor, chunk } = self;
        chunk.clear();
        chunk.reserve(zstd::zstd_safe::compress_bound(bytes.len()) + 4);
        compressor.compress_to_buffer(bytes, chunk)?;
        let checksum = crc32c::crc32c(chunk);
        chunk.extend_from_slice(&checksum.to_le_bytes());
        Ok(chunk)
    }
}

/// Unpacks chunks.
pub(crate) struct Unpack(zstd::bulk::Decompressor<'static>);

impl Unpack {
    pub fn new() -> io::Result<Self> {
        Ok(Unpack(zstd::bulk::Decompressor::new()?))
    }

    /// Writes what a chunk was made of to `out`, which has its size.
    ///
    /// # Errors
    /// The chunk is damaged.
    pub fn chunk(&mut self, chunk: &[u8], out: &mut [u8]) -> io::Result<()> {
        let found = self.0.decompress_to_buffer(checked(chunk)?, out)?;
        match found == out.len() {
            true => Ok(()),
            false => Err(other_size(out.len(), found)),
        }
    }
}

fn other_size(expected: usize, found: usize) -> io::Error {
    damaged(&format!("expected a chunk of {expected} bytes, found {found}"))
}

/// Reads a chunk as it is stored, at this place and of this length.
pub(super) fn read(file: &File, [at, len]: [u64; 2], bytes: &mut Vec<u8>) -> io::Result<()> {
    let end = file.metadata()?.len();
    if at.checked_add(len).is_none_or(|to| to > end) {
        return Err(damaged("the place of a chunk is not in the file"));
    }
    bytes.resize(len as usize, 0);
    file.read_exact_at(bytes, at)
}

/// What a chunk has before its checksum, which must be right.
pub(super) fn checked(chunk: &[u8]) -> io::Result<&[u8]> {
    let right =
        |(packed, checksum): &(&[u8], &[u8; 4])| crc32c::crc32c(packed).to_le_bytes() == **checksum;
    let checked = chunk.split_last_chunk().filter(right);
    checked.map(|(packed, _)| packed).ok_or_else(|| damaged("the checksum of a chunk is wrong"))
}

/// The `size` bytes that a chunk was made of.
pub(super) fn unpacked(chunk: &[u8], size: usize) -> io::Result<Vec<u8>> {
    let bytes = zstd::bulk::decompress(checked(chunk)?, size)?;
    match bytes.len() == size {
        true => Ok(bytes),
        false => Err(other_size(size, bytes.len())),
    }
}
