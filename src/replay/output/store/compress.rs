//! A chunk as it is stored: compressed, with a checksum behind it (Zarr's codecs `zstd` and `crc32c`).

use std::io;

/// The effort of zstd. More makes images hardly smaller, and takes longer.
pub(super) const ZSTD_LEVEL: i32 = 1;

/// Makes chunks.
pub(super) struct Compress {
    compressor: zstd::bulk::Compressor<'static>,
    chunk: Vec<u8>,
}

impl Compress {
    pub fn new(level: i32) -> io::Result<Self> {
        Ok(Compress { compressor: zstd::bulk::Compressor::new(level)?, chunk: Vec::new() })
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
