//! A chunk as it is stored: compressed, with a checksum behind it (Zarr's codecs `zstd` and `crc32c`).

use std::io;

use zstd::zstd_safe::CParameter;

/// The effort of zstd. More makes images hardly smaller, and takes longer.
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
