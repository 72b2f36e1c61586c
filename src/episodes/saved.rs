//! Episodes on disk, one file per column, which the system maps into memory.
//!
//! `index.json` says what there is, with the length and the checksum of every file. A folder gets its name when all
//! of it is written, so that what has the name is complete.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::mapped::Mapped;
use super::{About, Bytes, Column, EpisodeError, Episodes, Means, RawRing, Ring, Span, Stream};
use crate::ops::windows::SpanRows;

/// The version of the files and their meaning.
pub const FORMAT_VERSION: u32 = 1;
/// What the index calls itself.
const KIND: &str = "robocache episodes";
const INDEX: &str = "index.json";

#[derive(Deserialize, Serialize)]
struct Index {
    kind: String,
    format_version: u32,
    configuration: String,
    episodes: Vec<About>,
    spans: Vec<Span>,
    streams: Vec<StreamIndex>,
}

#[derive(Deserialize, Serialize)]
struct StreamIndex {
    means: Means,
    rings: Vec<RingIndex>,
}

#[derive(Deserialize, Serialize)]
struct RingIndex {
    spans: Vec<SpanRows>,
    columns: Vec<ColumnIndex>,
}

#[derive(Deserialize, Serialize)]
struct ColumnIndex {
    name: String,
    file: String,
    bytes: u64,
    crc32c: u32,
}

/// What the index begins with, whatever the version.
#[derive(Deserialize)]
struct Head {
    kind: String,
    format_version: u32,
}

impl Episodes {
    /// Writes the episodes into a new folder.
    ///
    /// # Errors
    /// The folder is there already, or cannot be written.
    pub fn save(&self, folder: &Path) -> Result<(), EpisodeError> {
        let of = |path: &Path| {
            let path = path.to_owned();
            move |source: io::Error| EpisodeError::File { path, source }
        };
        if folder.exists() {
            let there = io::Error::from(io::ErrorKind::AlreadyExists);
            return Err(of(folder)(there));
        }
        let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new("."));
        fs::create_dir_all(parent).map_err(of(parent))?;
        let part = tempfile::Builder::new().prefix(".episodes-").tempdir_in(parent);
        let part = part.map_err(of(parent))?;
        let streams = self.streams.iter().enumerate();
        let streams = streams.map(|(number, stream)| write_stream(part.path(), number, stream));
        let index = Index {
            kind: KIND.to_owned(),
            format_version: FORMAT_VERSION,
            configuration: self.configuration.clone(),
            episodes: self.episodes.clone(),
            spans: self.spans.clone(),
            streams: streams.collect::<Result<_, _>>()?,
        };
        let path = part.path().join(INDEX);
        let text = serde_json::to_vec_pretty(&index).map_err(io::Error::other);
        text.and_then(|text| write(&path, &text)).map_err(of(&path))?;
        // A folder of this kind is for its owner alone until here.
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(part.path(), open).map_err(of(part.path()))?;
        fs::rename(part.path(), folder).map_err(of(folder))?;
        let _ = part.keep();
        File::open(parent).and_then(|parent| parent.sync_all()).map_err(of(parent))
    }

    /// Opens a folder that [`Episodes::save`] wrote. Rows stay on disk until they are used. If `verify` is true, the
    /// checksums of all files are checked; otherwise those of all but the rows and coordinates.
    ///
    /// # Errors
    /// It is no such folder, of another format, or damaged.
    pub fn open(folder: &Path, verify: bool) -> Result<Self, EpisodeError> {
        let path = folder.join(INDEX);
        let wrong = |what: &dyn std::fmt::Display| {
            EpisodeError::Store(format!("{}: {what}", path.display()))
        };
        let text = fs::read(&path).map_err(|error| wrong(&error))?;
        let head: Head = serde_json::from_slice(&text).map_err(|error| wrong(&error))?;
        if head.kind != KIND || head.format_version != FORMAT_VERSION {
            return Err(wrong(&format!(
                "expected \"{KIND}\", format {FORMAT_VERSION}; found \"{}\", format {}",
                head.kind, head.format_version
            )));
        }
        let index: Index = serde_json::from_slice(&text).map_err(|error| wrong(&error))?;
        let Index { configuration, episodes, spans, streams, .. } = index;
        let sorted = spans.is_sorted_by_key(|span| (span.episode, span.epoch))
            && (0..episodes.len()).all(|e| spans.iter().any(|span| span.episode as usize == e))
            && spans.iter().all(|span| (span.episode as usize) < episodes.len());
        if !sorted {
            return Err(wrong(&"epochs that are not those of the episodes"));
        }
        let mut done = Vec::with_capacity(streams.len());
        for StreamIndex { means, rings } in streams {
            let ring = |ring| open_ring(folder, ring, spans.len(), verify);
            let rings = rings.into_iter().map(ring).collect::<Result<Vec<_>, _>>()?;
            done.push(Stream { means, rings });
        }
        Self::checked(configuration, episodes, spans, done)
    }
}

fn write_stream(
    folder: &Path,
    number: usize,
    stream: &Stream,
) -> Result<StreamIndex, EpisodeError> {
    let mut rings = Vec::with_capacity(stream.rings.len());
    for (at, ring) in stream.rings.iter().enumerate() {
        let mut columns = Vec::new();
        for (name, column) in ring.columns() {
            let file = format!("{number}.{at}.{name}");
            let path = folder.join(&file);
            let bytes = column.bytes();
            write(&path, bytes).map_err(|source| EpisodeError::File { path, source })?;
            let crc32c = crc32c::crc32c(bytes);
            columns.push(ColumnIndex {
                name: name.to_owned(),
                file,
                bytes: bytes.len() as u64,
                crc32c,
            });
        }
        rings.push(RingIndex { spans: ring.spans.clone(), columns });
    }
    Ok(StreamIndex { means: stream.means.clone(), rings })
}

/// Writes a file, and waits until it is on the disk.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn open_ring(
    folder: &Path,
    index: RingIndex,
    spans: usize,
    verify: bool,
) -> Result<Ring, EpisodeError> {
    if index.spans.len() != spans {
        return Err(EpisodeError::of("epochs of a group", spans, index.spans.len()));
    }
    let open = |column: &ColumnIndex| open_column(folder, column, verify);
    let mut columns = index
        .columns
        .iter()
        .map(|column| Ok((column.name.as_str(), open(column)?)))
        .collect::<Result<Vec<(&str, Column)>, EpisodeError>>()?;
    let mut some = |name: &str| {
        let at = columns.iter().position(|(found, _)| *found == name)?;
        Some(columns.swap_remove(at).1)
    };
    let (until_next, until_ns) = (some("until_next"), some("until_ns"));
    let (count, coordinates) = (some("count"), some("coordinates"));
    let mut all = |name: &str| {
        let folder = folder.display();
        let lacks = || EpisodeError::Store(format!("{folder}: a group without {name}"));
        some(name).ok_or_else(lacks)
    };
    let raw = RawRing {
        rows: all("rows")?,
        stamp_ns: all("stamp_ns")?,
        received_ns: all("received_ns")?,
        left_ns: all("left_ns")?,
        replaced: all("replaced")?,
        epoch: None,
        until_next,
        until_ns,
        count,
        coordinates,
        ends: Vec::new(),
    };
    Ring::new(raw, index.spans)
}

fn open_column(folder: &Path, column: &ColumnIndex, verify: bool) -> Result<Column, EpisodeError> {
    let path: PathBuf = folder.join(&column.file);
    let wrong = |what: String| EpisodeError::Store(format!("{}: {what}", path.display()));
    if Path::new(&column.file).components().count() != 1 || column.file.starts_with('.') {
        return Err(wrong("expected a file of the folder".to_owned()));
    }
    let mapped = match Mapped::open(&path) {
        Ok(mapped) => mapped,
        Err(source) => return Err(EpisodeError::File { path, source }),
    };
    let found = mapped.bytes().len() as u64;
    if found != column.bytes {
        return Err(wrong(format!("expected {} bytes, found {found}", column.bytes)));
    }
    let large = matches!(column.name.as_str(), "rows" | "coordinates");
    if (verify || !large) && crc32c::crc32c(mapped.bytes()) != column.crc32c {
        return Err(wrong("its checksum is wrong".to_owned()));
    }
    Ok(Arc::new(mapped))
}
