//! Episodes on disk, one file per column, which the system maps into memory.
//!
//! `index.json` lists all files, each with its length and checksum. A folder gets its name when all of it is written.
//! So a folder with this name is complete.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::mapped::Mapped;
use super::store::{Reading, Written, chosen, period_of};
use super::{
    About, Bytes, Column, EpisodeError, Episodes, RawRing, Ring, RowColumn, RowMeaning, Span,
    Stream,
};
use robocache_ops::windows::SpanRows;

/// The version of the files and their meaning.
pub(super) const FORMAT_VERSION: u32 = 3;
/// Kind of the index, in its own words.
const KIND: &str = "robocache episodes";
const INDEX: &str = "index.json";
/// The checksum of the index: eight hexadecimal digits.
const CHECKSUM: &str = "index.crc32c";

#[derive(Deserialize, Serialize)]
struct Index {
    kind: String,
    format_version: u32,
    configuration: String,
    #[serde(default)]
    contract: Option<serde_json::Value>,
    #[serde(default)]
    period_ns: Option<i64>,
    episodes: Vec<About>,
    /// Of all episodes that these were chosen of. Folders of older versions have none.
    #[serde(default)]
    tasks: Option<Vec<String>>,
    spans: Vec<Span>,
    streams: Vec<StreamIndex>,
}

#[derive(Deserialize, Serialize)]
struct StreamIndex {
    means: RowMeaning,
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

/// Begin of the index, whatever the version.
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
        let part = part_of(folder)?;
        self.write_into(part, folder, &[])
    }

    /// Writes what is read of a store into a new folder, and opens it. Rows and coordinates are never all in memory; the
    /// other columns of the store are.
    ///
    /// # Errors
    /// As for [`Episodes::of_store`] and [`Episodes::save`].
    pub fn convert(
        store: &Path,
        folder: &Path,
        reading: Reading<'_>,
    ) -> Result<Self, EpisodeError> {
        let part = part_of(folder)?;
        let (episodes, written) = Self::read_store(store, reading, Some(part.path()))?;
        episodes.write_into(part, folder, &written)?;
        drop(episodes);
        Self::open(folder, None, None, false)
    }

    /// Writes the columns that were not written, and the index; then the folder gets its name.
    fn write_into(
        &self,
        part: tempfile::TempDir,
        folder: &Path,
        written: &[Written],
    ) -> Result<(), EpisodeError> {
        let of = |path: &Path| {
            let path = path.to_owned();
            move |source: io::Error| EpisodeError::File { path, source }
        };
        let streams = self.streams.iter().enumerate();
        let streams =
            streams.map(|(number, stream)| write_stream(part.path(), number, stream, written));
        let index = Index {
            kind: KIND.to_owned(),
            format_version: FORMAT_VERSION,
            configuration: self.configuration.clone(),
            contract: self.contract.clone(),
            period_ns: self.period_ns,
            episodes: self.episodes.clone(),
            tasks: Some(self.tasks.clone()),
            spans: self.spans.clone(),
            streams: streams.collect::<Result<_, _>>()?,
        };
        let path = part.path().join(INDEX);
        let text =
            serde_json::to_vec_pretty(&index).map_err(io::Error::other).map_err(of(&path))?;
        write(&path, &text).map_err(of(&path))?;
        let checksum = format!("{:08x}\n", crc32c::crc32c(&text));
        let path = part.path().join(CHECKSUM);
        write(&path, checksum.as_bytes()).map_err(of(&path))?;
        // A folder of this kind is for its owner alone until here.
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(part.path(), open).map_err(of(part.path()))?;
        fs::rename(part.path(), folder).map_err(of(folder))?;
        let _ = part.keep();
        let parent = parent_of(folder);
        File::open(parent).and_then(|parent| parent.sync_all()).map_err(of(parent))
    }

    /// The names of the episodes of a folder that [`Episodes::save`] wrote.
    ///
    /// # Errors
    /// As for [`Episodes::open`].
    pub fn names_of_folder(folder: &Path) -> Result<Vec<String>, EpisodeError> {
        Ok(read_index(folder)?.episodes.into_iter().map(|about| about.name).collect())
    }

    /// Opens a folder that [`Episodes::save`] wrote: all episodes, or those of these numbers, chosen of `of`. Rows stay on
    /// disk until they are used. If `verify` is true, the checksums of all files are checked; otherwise those of all but the rows and
    /// coordinates. Rows are finite: [`Episodes::save`] is given no others.
    ///
    /// # Errors
    /// It is no such folder, of another format, or damaged; there is no such episode.
    pub fn open(
        folder: &Path,
        episodes: Option<&[usize]>,
        of: Option<usize>,
        verify: bool,
    ) -> Result<Self, EpisodeError> {
        let index = read_index(folder)?;
        let Index {
            configuration, contract, period_ns, episodes: all, tasks, spans, streams, ..
        } = index;
        // A folder of before this number has it in its contract.
        let period_ns = period_ns.or_else(|| contract.as_ref().and_then(period_of));
        let of_episodes = spans.chunk_by(|a, b| a.episode == b.episode);
        let each_in_turn = of_episodes.map(|own| own[0].episode as usize).eq(0..all.len());
        if !each_in_turn || !spans.is_sorted_by_key(|span| (span.episode, span.epoch)) {
            let index = folder.join(INDEX);
            let what = "epochs that are not those of the episodes";
            return Err(EpisodeError::Store(format!("{}: {what}", index.display())));
        }
        let numbers = chosen(episodes, of, all.len())?;
        let mut done = Vec::with_capacity(streams.len());
        for StreamIndex { means, rings } in streams {
            let ring = |ring| open_ring(folder, ring, spans.len(), verify);
            let rings = rings.into_iter().map(ring).collect::<Result<Vec<_>, _>>()?;
            done.push(Stream::new(means, rings));
        }
        // All of it is checked, and then what was not asked for is left out.
        let checked = Self::checked(configuration, all, spans, done)?;
        let tasks = tasks.unwrap_or_else(|| checked.tasks.clone());
        let all = Episodes { contract, period_ns, tasks, ..checked };
        Ok(if episodes.is_some() { all.only(&numbers) } else { all })
    }

    /// Keeps the episodes of these numbers. The columns stay as they are.
    fn only(mut self, numbers: &[usize]) -> Self {
        let first = |episode| self.spans.partition_point(|span| (span.episode as usize) < episode);
        let kept: Vec<_> = numbers.iter().map(|number| first(*number)..first(number + 1)).collect();
        let spans = kept.iter().enumerate().flat_map(|(episode, range)| {
            let spans = self.spans[range.clone()].iter();
            spans.map(move |span| Span { episode: episode as u32, ..*span })
        });
        let spans = spans.collect();
        for ring in self.streams.iter_mut().flat_map(|stream| &mut stream.rings) {
            ring.spans =
                kept.iter().flat_map(|range| &ring.spans[range.clone()]).copied().collect();
        }
        self.spans = spans;
        self.episodes = numbers.iter().map(|number| self.episodes[*number].clone()).collect();
        self
    }
}

/// Reads the index of a folder, and checks its checksum.
fn read_index(folder: &Path) -> Result<Index, EpisodeError> {
    let path = folder.join(INDEX);
    let wrong =
        |what: &dyn std::fmt::Display| EpisodeError::Store(format!("{}: {what}", path.display()));
    let text = fs::read(&path).map_err(|error| wrong(&error))?;
    let head: Head = serde_json::from_slice(&text).map_err(|error| wrong(&error))?;
    if head.kind != KIND || head.format_version != FORMAT_VERSION {
        return Err(wrong(&format!(
            "expected \"{KIND}\", format {FORMAT_VERSION}; found \"{}\", format {}",
            head.kind, head.format_version
        )));
    }
    let checksum = fs::read_to_string(folder.join(CHECKSUM));
    let checksum = checksum.map_err(|error| wrong(&format!("its checksum: {error}")))?;
    if u32::from_str_radix(checksum.trim(), 16) != Ok(crc32c::crc32c(&text)) {
        return Err(wrong(&"its checksum is wrong"));
    }
    serde_json::from_slice(&text).map_err(|error| wrong(&error))
}

fn parent_of(folder: &Path) -> &Path {
    let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}

/// A temporary folder beside `folder`. It is renamed when it is complete.
fn part_of(folder: &Path) -> Result<tempfile::TempDir, EpisodeError> {
    let of = |path: &Path| {
        let path = path.to_owned();
        move |source: io::Error| EpisodeError::File { path, source }
    };
    if folder.exists() {
        let there = io::Error::from(io::ErrorKind::AlreadyExists);
        return Err(of(folder)(there));
    }
    let parent = parent_of(folder);
    fs::create_dir_all(parent).map_err(of(parent))?;
    let part = tempfile::Builder::new().prefix(".episodes-").tempdir_in(parent);
    part.map_err(of(parent))
}

fn write_stream(
    folder: &Path,
    number: usize,
    stream: &Stream,
    written: &[Written],
) -> Result<StreamIndex, EpisodeError> {
    let mut rings = Vec::with_capacity(stream.rings.len());
    for (at, ring) in stream.rings.iter().enumerate() {
        let mut columns = Vec::new();
        let rows = ("rows", &ring.rows);
        let others = ring.columns().into_iter().map(|(name, column)| (name, column.clone().into()));
        let others: Vec<(&str, RowColumn)> = others.collect();
        let all = std::iter::once(rows).chain(others.iter().map(|(name, column)| (*name, column)));
        for (name, column) in all {
            let there = written.iter().find(|(stream_name, ring, column, ..)| {
                (stream_name.as_str(), *ring, *column) == (stream.means.name.as_str(), at, name)
            });
            let (file, crc32c) = match there {
                Some((_, _, _, file, crc32c)) => (file.clone(), *crc32c),
                None => {
                    let file = format!("{number}.{at}.{name}");
                    let path = folder.join(&file);
                    let crc32c = write_column(&path, column);
                    (file, crc32c.map_err(|source| EpisodeError::File { path, source })?)
                }
            };
            columns.push(ColumnIndex {
                name: name.to_owned(),
                file,
                bytes: column.byte_len() as u64,
                crc32c,
            });
        }
        rings.push(RingIndex { spans: ring.spans.clone(), columns });
    }
    Ok(StreamIndex { means: stream.means.clone(), rings })
}

/// Writes a column, and returns its checksum.
fn write_column(path: &Path, column: &RowColumn) -> io::Result<u32> {
    let mut file = io::BufWriter::with_capacity(1 << 20, File::create(path)?);
    let mut crc32c = 0;
    let written = column.for_each(|bytes| -> Result<(), Unwritten> {
        crc32c = crc32c::crc32c_append(crc32c, bytes);
        file.write_all(bytes).map_err(Unwritten)
    });
    written.map_err(|Unwritten(error)| error)?;
    file.into_inner()?.sync_all()?;
    Ok(crc32c)
}

/// Why a column was not written.
struct Unwritten(io::Error);

impl From<String> for Unwritten {
    fn from(damaged: String) -> Self {
        Unwritten(io::Error::new(io::ErrorKind::InvalidData, damaged))
    }
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
    let until_next = some("until_next");
    let until_ns = some("until_ns");
    let count = some("count");
    let coordinates = some("coordinates");
    let mut all = |name: &str| {
        let folder = folder.display();
        let lacks = || EpisodeError::Store(format!("{folder}: a group without {name}"));
        some(name).ok_or_else(lacks)
    };
    let raw = RawRing {
        rows: all("rows")?.into(),
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
