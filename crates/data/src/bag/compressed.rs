//! Compression as rosbag2 does it: each message by itself, or each file. MCAP's own compression of
//! chunks is in `mcap`.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use tempfile::NamedTempFile;

use super::{BagError, Problem};

/// First bytes of a frame of zstd. A serialized message cannot begin so: its first byte is 0.
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// Largest message that is decompressed \[bytes\].
const MOST_MESSAGE_BYTES: u64 = 256 << 20;

/// Decompresses a message if it is compressed.
///
/// # Errors
/// What is wrong with it.
pub(super) fn message(bytes: Bytes) -> Result<Bytes, String> {
    if !bytes.starts_with(&ZSTD_MAGIC) {
        return Ok(bytes);
    }
    let decoder = zstd::Decoder::with_buffer(&bytes[..]).map_err(|error| error.to_string())?;
    let mut plain = Vec::new();
    // One byte more than allowed tells that there is more.
    let mut bounded = decoder.take(MOST_MESSAGE_BYTES + 1);
    bounded.read_to_end(&mut plain).map_err(|error| format!("zstd: {error}"))?;
    match plain.len() as u64 > MOST_MESSAGE_BYTES {
        true => Err(format!("zstd: expected at most {MOST_MESSAGE_BYTES} bytes, found more")),
        false => Ok(plain.into()),
    }
}

/// A file of a bag that can be read at any place.
#[derive(Debug)]
pub(super) struct Plain {
    /// The file that is read.
    pub path: PathBuf,
    /// Guard that removes the file in the end, if it is a copy.
    _copy: Option<NamedTempFile>,
}

/// Finds a file's plain form: itself, or a decompressed copy among the temporary files, which is removed at the end. If
/// a file breaks off, it is read up to the break, which is reported.
///
/// # Errors
/// If the file cannot be decompressed, or its copy cannot be written.
pub(super) fn file(path: &Path, problems: &mut Vec<Problem>) -> Result<Plain, BagError> {
    if !is_compressed(path) {
        return Ok(Plain { path: path.to_owned(), _copy: None });
    }
    let source = File::open(path).map_err(BagError::io(path))?;
    let mut copy = NamedTempFile::new().map_err(BagError::io(&std::env::temp_dir()))?;
    let decoder = zstd::Decoder::new(BufReader::new(source)).map_err(BagError::io(path))?;
    let mut decoder = Telling { inner: decoder, failed: false };
    if let Err(error) = std::io::copy(&mut decoder, &mut copy) {
        // A full disk is not the bag's fault.
        if !decoder.failed {
            return Err(BagError::io(copy.path())(error));
        }
        if copy.as_file().metadata().is_ok_and(|copy| copy.len() == 0) {
            return Err(BagError::damaged(path, format!("zstd: {error}")));
        }
        let what = format!("zstd: {error}: what comes after that is not read");
        // The decoder has no other kind for what the system could not read.
        let unreadable = error.raw_os_error().is_some();
        problems.push(Problem { unreadable, ..Problem::damage(path, what) });
    }
    Ok(Plain { path: copy.path().to_owned(), _copy: Some(copy) })
}

/// True if rosbag2 has compressed the file.
pub(super) fn is_compressed(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "zstd" || extension == "zst")
}

/// Remembers whether it was the source that failed.
struct Telling<R> {
    inner: R,
    failed: bool,
}

impl<R: Read> Read for Telling<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.inner.read(buffer).inspect_err(|error| {
            self.failed = error.kind() != std::io::ErrorKind::Interrupted;
        })
    }
}
