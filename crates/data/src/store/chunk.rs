//! A chunk as it is stored: compressed, with a checksum behind it (Zarr's codecs `zstd` and `crc32c`, or
//! `imagecodecs_jpeg` and `crc32c`).

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::Codec;
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
    /// An image on its way into a chunk, and what comes out of it.
    pixels: Vec<u8>,
    again: Vec<u8>,
}

impl Compress {
    pub(super) fn new(level: i32) -> io::Result<Self> {
        let mut compressor = zstd::bulk::Compressor::new(level)?;
        if level == ZSTD_LEVEL {
            compressor.set_parameter(CParameter::HashLog(ZSTD_HASH_LOG))?;
        }
        Ok(Compress { compressor, chunk: Vec::new(), pixels: Vec::new(), again: Vec::new() })
    }

    /// Makes a chunk of these bytes.
    pub(super) fn chunk(&mut self, codec: Codec, bytes: &[u8]) -> io::Result<&[u8]> {
        let Compress { compressor, chunk, pixels, .. } = self;
        match codec {
            Codec::Zstd => {
                chunk.clear();
                chunk.reserve(zstd::zstd_safe::compress_bound(bytes.len()) + 4);
                compressor.compress_to_buffer(bytes, chunk)?;
            }
            Codec::Jpeg(jpeg) => jpeg.encode(bytes, pixels, chunk).map_err(io::Error::other)?,
        }
        let checksum = crc32c::crc32c(chunk);
        chunk.extend_from_slice(&checksum.to_le_bytes());
        Ok(chunk)
    }

    /// How far the newest chunk, which was made of these bytes, is from them; `None` if the codec keeps them.
    pub(super) fn loss(&mut self, codec: Codec, bytes: &[u8]) -> io::Result<Option<Loss>> {
        let Codec::Jpeg(jpeg) = codec else { return Ok(None) };
        let Compress { chunk, pixels, again, .. } = self;
        let file = &chunk[..chunk.len() - 4];
        again.resize(bytes.len(), 0);
        jpeg.decode(file, pixels, again).map_err(io::Error::other)?;
        let square = |(before, after): (&u8, &u8)| u64::from(before.abs_diff(*after)).pow(2);
        Ok(Some(Loss {
            images: 1,
            values: bytes.len() as u64,
            bytes: chunk.len() as u64,
            squared_error: bytes.iter().zip(&*again).map(square).sum(),
        }))
    }
}

/// Loss of rows by JPEG.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loss {
    /// Rows that were encoded: those that repeat the row before are not.
    pub images: u64,
    /// Their elements, each a byte.
    pub values: u64,
    /// Their chunks \[bytes\].
    pub bytes: u64,
    /// The squared differences between the elements before and after.
    pub squared_error: u64,
}

impl Loss {
    /// The loss of both.
    pub(super) fn add(&mut self, other: Loss) {
        self.images += other.images;
        self.values += other.values;
        self.bytes += other.bytes;
        self.squared_error += other.squared_error;
    }
}

/// Unpacks chunks.
pub(crate) struct Unpack {
    decompressor: zstd::bulk::Decompressor<'static>,
    pixels: Vec<u8>,
}

impl Unpack {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Unpack { decompressor: zstd::bulk::Decompressor::new()?, pixels: Vec::new() })
    }

    /// Writes what a chunk was made of to `out`, which has its size.
    ///
    /// # Errors
    /// The chunk is damaged.
    pub(crate) fn chunk(&mut self, codec: Codec, chunk: &[u8], out: &mut [u8]) -> io::Result<()> {
        let packed = checked(chunk)?;
        match codec {
            Codec::Zstd => {
                let found = self.decompressor.decompress_to_buffer(packed, out)?;
                match found == out.len() {
                    true => Ok(()),
                    false => Err(other_size(out.len(), found)),
                }
            }
            Codec::Jpeg(jpeg) => {
                let decoded = jpeg.decode(packed, &mut self.pixels, out);
                decoded.map_err(|wrong| damaged(&wrong))
            }
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

/// Content of a chunk before its checksum, which must be right.
pub(super) fn checked(chunk: &[u8]) -> io::Result<&[u8]> {
    let right =
        |(packed, checksum): &(&[u8], &[u8; 4])| crc32c::crc32c(packed).to_le_bytes() == **checksum;
    let checked = chunk.split_last_chunk().filter(right);
    checked.map(|(packed, _)| packed).ok_or_else(|| damaged("the checksum of a chunk is wrong"))
}

/// The `size` bytes that a chunk of zstd was made of.
pub(super) fn unpacked(chunk: &[u8], size: usize) -> io::Result<Vec<u8>> {
    let bytes = zstd::bulk::decompress(checked(chunk)?, size)?;
    match bytes.len() == size {
        true => Ok(bytes),
        false => Err(other_size(size, bytes.len())),
    }
}
