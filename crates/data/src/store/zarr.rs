//! Episodes to one store of Zarr v3.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde_json::{Map, Value, json};

use super::chunk::{Compress, ZSTD_LEVEL};
use super::copy::Shards;
use super::shard::Shard;
use super::{BREAKS, Codec, Column, Element, StorePart, Table};
use crate::file::{OutputError, PartialFolder};
use robocache_ops::image::{Color, ImageLayout};
use robocache_ops::sync::lock;

/// The codec of JPEG: that of the Python package `imagecodecs`.
pub(super) const JPEG_CODEC: &str = "imagecodecs_jpeg";
/// Its word for rows whose channels are blue, green, red.
pub(super) const BLUE_FIRST: &str = "BGR";
/// The order of the dimensions of a chunk of images whose channels come first, when they come last.
pub(super) const CHANNELS_LAST: [usize; 4] = [0, 2, 3, 1];
/// The file that says what a group or an array is.
const METADATA: &str = "zarr.json";

/// Source of an episode's rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// In the folder of a part.
    StorePart(PathBuf),
    /// In the store that is replaced: the numbers of its first rows, and how many there are, by table. `about` is
    /// what the store says of it.
    Store {
        /// By table.
        begin: Vec<u64>,
        /// By table.
        rows: Vec<u64>,
        /// Attributes of the episode in the store.
        about: Value,
    },
}

/// Input of a join: the episodes in their order, and what the store says of itself.
pub struct Joined<'a> {
    /// Sources of their rows.
    pub sources: &'a [Source],
    /// The tables of the store that is replaced; empty if none of its rows are used.
    pub tables: Vec<Table>,
    /// Attributes of the store, in its attribute `robocache`. The list of the episodes is added.
    pub about: Map<String, Value>,
    /// Threads that join.
    pub threads: usize,
    /// When this is set, nothing is joined any more.
    pub stop: &'a AtomicBool,
    /// Told how many of the shards are written, and of how many.
    pub told: &'a (dyn Fn(usize, usize) + Sync),
}

/// A store that has not yet its name.
pub struct Built {
    folder: PartialFolder,
    /// Its tables.
    pub tables: Vec<Table>,
    /// Of each episode: its rows by table, and what the store says of it.
    pub episodes: Vec<(Vec<u64>, Value)>,
    /// Tells it from another store: see [`identity`].
    pub identity: String,
}

impl Built {
    /// Gives the store its name. One that has it is removed.
    ///
    /// # Errors
    /// It cannot be renamed.
    pub fn complete(self) -> Result<(), OutputError> {
        self.folder.complete()
    }
}

/// Tells a store from another one, by what it says of itself; `None` without a store.
pub fn identity(store: &Path) -> Option<String> {
    let text = fs::read(store.join(METADATA)).ok()?;
    Some(format!("{:016x}", twox_hash::XxHash3_64::oneshot(&text)))
}

/// Joins episodes into a store, under another name. Returns `None` if the run was stopped before it was complete.
///
/// # Errors
/// A part has other columns than the first, or a file cannot be read or written.
pub fn assemble(path: &Path, joined: Joined<'_>) -> Result<Option<Built>, OutputError> {
    let folder = PartialFolder::create(path)?;
    let (tables, episodes) = open(path, &joined)?;
    let join = Join::new(folder.partial(), &tables, &episodes);
    let mut nodes = Nodes::default();
    for (at, table) in tables.iter().enumerate() {
        for column in &table.columns {
            nodes.add_array(join.folder, column, join.rows(at))?;
        }
        let begins = table.begins.iter().map(|path| (path, join.begins_of(at)));
        for (path, numbers) in begins.chain([(&table.ends, join.ends_of(at))]) {
            let column = Column::new(path.clone(), Element::Int64, "episode", &[]);
            nodes.add_array(join.folder, &column, numbers.len() as u64)?;
            write_numbers(join.folder, &column, &numbers)?;
        }
    }
    if !join.shards(&joined)? {
        return Ok(None);
    }
    // Names of shards that are links must be on the disk before the other names are removed.
    for column in tables.iter().flat_map(|table| &table.columns).filter(|of| of.has_large_rows()) {
        let path = join.folder.join(&column.path);
        let synced = File::open(&path).and_then(|folder| folder.sync_all());
        synced.map_err(OutputError::of(&path))?;
    }
    let mut about = joined.about.clone();
    about.insert("episodes".into(), episodes.iter().map(|of| of.about().clone()).collect());
    nodes.write_groups(join.folder, json!({"robocache": about}))?;
    let of_episode = |episode: &Episode<'_>| {
        let rows = (0..tables.len()).map(|table| episode.rows(table)).collect();
        (rows, episode.about().clone())
    };
    let all = episodes.iter().map(of_episode).collect();
    let identity = identity(folder.partial()).unwrap_or_default();
    drop(episodes);
    Ok(Some(Built { folder, tables, episodes: all, identity }))
}

/// An episode on its way into a store.
enum Episode<'a> {
    StorePart(StorePart),
    Store { path: &'a Path, begin: &'a [u64], rows: &'a [u64], about: &'a Value },
}

impl Episode<'_> {
    fn rows(&self, table: usize) -> u64 {
        match self {
            Episode::StorePart(part) => part.rows(table),
            Episode::Store { rows, .. } => rows[table],
        }
    }

    fn about(&self) -> &Value {
        match self {
            Episode::StorePart(part) => part.about(),
            Episode::Store { about, .. } => about,
        }
    }

    /// Hands the shards of a column to `take`, with the numbers of these rows of the episode in them. `None` if its rows
    /// are in no shards. `to` is the file that is written.
    fn in_shards<T>(
        &self,
        [table, number]: [usize; 2],
        column: &Column,
        rows: &Range<u64>,
        to: &Path,
        take: impl FnOnce(&Shards<'_>, Range<u64>) -> io::Result<T>,
    ) -> Option<Result<T, OutputError>> {
        let (is_checked, path, first, folder): (_, &dyn Fn(u64) -> PathBuf, _, _) = match self {
            Episode::StorePart(_) if !column.has_large_rows() => return None,
            Episode::StorePart(part) => {
                (true, &|shard| part.shard([table, number], shard), 0, part.folder().to_owned())
            }
            Episode::Store { path, begin, .. } => (
                false,
                &|shard| path_of(path, column, shard),
                begin[table],
                path.join(&column.path),
            ),
        };
        let taken =
            take(&Shards { column, path, is_checked }, first + rows.start..first + rows.end);
        Some(taken.map_err(failed(&folder, to)))
    }

    /// Copies rows of a column, by their numbers in the episode, into the shard that is at `to`.
    fn copy(
        &self,
        at: [usize; 2],
        of: &Column,
        rows: Range<u64>,
        shard: &mut Shard,
        chunks: &mut Chunks,
        to: &Path,
    ) -> Result<(), OutputError> {
        let copied = self.in_shards(at, of, &rows, to, |from, rows| from.copy(rows, shard, chunks));
        match (copied, self) {
            (Some(copied), _) => copied,
            (None, Episode::StorePart(part)) => {
                let file = part.data()?;
                let copied = part.read(&file, at, rows, |bytes| chunks.add(bytes, shard));
                copied.map_err(failed(part.folder(), to))
            }
            (None, Episode::Store { .. }) => Ok(()),
        }
    }
}

/// The error of rows that go from one place to another: it names the source if that is damaged, otherwise the target.
fn failed<'a>(from: &'a Path, to: &'a Path) -> impl FnOnce(io::Error) -> OutputError + 'a {
    use io::ErrorKind::{InvalidData, NotFound, UnexpectedEof};
    |error| {
        let is_damaged = matches!(error.kind(), InvalidData | NotFound | UnexpectedEof);
        OutputError::of(if is_damaged { from } else { to })(error)
    }
}

/// Opens the episodes, which must have the same tables.
fn open<'a>(
    path: &'a Path,
    joined: &'a Joined<'_>,
) -> Result<(Vec<Table>, Vec<Episode<'a>>), OutputError> {
    let mut tables = joined.tables.clone();
    let mut episodes = Vec::with_capacity(joined.sources.len());
    for source in joined.sources {
        episodes.push(match source {
            Source::Store { begin, rows, about } => Episode::Store { path, begin, rows, about },
            Source::StorePart(folder) => {
                let mut part = StorePart::open(folder)?;
                if tables.is_empty() {
                    tables = part.tables().to_vec();
                } else if part.tables() != tables {
                    let what = "it has other arrays than the episodes before: their definitions of a message differ";
                    return Err(OutputError::of(folder)(io::Error::other(what)));
                }
                part.forget_tables();
                Episode::StorePart(part)
            }
        });
    }
    Ok((tables, episodes))
}

/// Episodes on their way into a store.
struct Join<'a> {
    folder: &'a Path,
    tables: &'a [Table],
    episodes: &'a [Episode<'a>],
    /// By table and episode: its rows.
    spans: Vec<Vec<Range<u64>>>,
}

impl<'a> Join<'a> {
    fn new(folder: &'a Path, tables: &'a [Table], episodes: &'a [Episode<'a>]) -> Self {
        let rows = |table: usize| episodes.iter().map(move |episode| episode.rows(table));
        let spans = tables.iter().enumerate().map(|(at, table)| table.spans(rows(at))).collect();
        Join { folder, tables, episodes, spans }
    }

    /// Rows of a table: those of all episodes, and those between them.
    fn rows(&self, table: usize) -> u64 {
        self.spans[table].last().map_or(0, |last| last.end)
    }

    /// The row with which each episode begins.
    fn begins_of(&self, table: usize) -> Vec<i64> {
        self.spans[table].iter().map(|span| span.start as i64).collect()
    }

    /// The number of rows up to the end of each episode. An episode whose ticks do not follow each other ends where
    /// they break, so that no window reaches over the gap.
    fn ends_of(&self, table: usize) -> Vec<i64> {
        let mut ends = Vec::new();
        for (episode, span) in self.episodes.iter().zip(&self.spans[table]) {
            // Rows have instants of their own.
            let of_ticks = self.tables[table].begins.is_none();
            let breaks = of_ticks.then(|| episode.about().get(BREAKS)).flatten();
            let breaks = breaks.and_then(Value::as_array);
            let breaks = breaks.into_iter().flatten().filter_map(Value::as_u64);
            ends.extend(breaks.map(|end| (span.start + end) as i64).chain([span.end as i64]));
        }
        ends
    }

    /// Writes all shards, on several threads. Returns whether they are complete.
    fn shards(&self, joined: &Joined<'_>) -> Result<bool, OutputError> {
        let mut all = Vec::new();
        for (table, Table { columns, .. }) in self.tables.iter().enumerate() {
            for (column, of) in columns.iter().enumerate() {
                let shards = self.rows(table).div_ceil(of.shard_rows());
                all.extend((0..shards).map(|shard| ([table, column], shard)));
            }
        }
        let next = AtomicUsize::new(0);
        let done = AtomicUsize::new(0);
        let failed = Mutex::new(None);
        let stopped = || joined.stop.load(Ordering::Relaxed) || lock(&failed).is_some();
        let work = || {
            while let Some(shard) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                if stopped() {
                    return;
                }
                if let Err(error) = self.shard(shard.0, shard.1) {
                    lock(&failed).get_or_insert(error);
                }
                (joined.told)(done.fetch_add(1, Ordering::Relaxed) + 1, all.len());
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..joined.threads.clamp(1, all.len().max(1)) {
                scope.spawn(work);
            }
            work();
        });
        let failed = lock(&failed).take();
        failed.map_or(Ok(done.into_inner() == all.len()), Err)
    }

    /// Writes a shard of a column.
    fn shard(&self, at: [usize; 2], number: u64) -> Result<(), OutputError> {
        let [table, column] = at;
        let of = &self.tables[table].columns[column];
        let path = path_of(self.folder, of, number);
        let rows = number * of.shard_rows()..(number + 1) * of.shard_rows();
        let pieces = self.pieces(table, &rows);
        if of.has_large_rows()
            && let [(episode, begin, mine)] = &pieces[..]
            && *begin == rows.start
            && let Some(linked) =
                episode.in_shards(at, of, mine, &path, |from, rows| from.link(&rows, &path))
            && linked?
        {
            return Ok(());
        }
        let file = File::create(&path).map_err(OutputError::of(&path))?;
        let mut shard = Shard::new(file);
        let mut chunks = Chunks::new(of).map_err(OutputError::of(&path))?;
        let mut next = rows.start;
        for (episode, begin, mine) in pieces {
            chunks.skip(of, begin - next, &mut shard).map_err(OutputError::of(&path))?;
            next = begin + (mine.end - mine.start);
            episode.copy(at, of, mine, &mut shard, &mut chunks, &path)?;
        }
        // What is behind the last episode of the shard is between two episodes as well.
        let end = rows.end.min(self.rows(table));
        chunks.skip(of, end - next, &mut shard).map_err(OutputError::of(&path))?;
        let ended =
            chunks.finish(&mut shard).and_then(|()| shard.end(of.shard_chunks())?.sync_all());
        ended.map_err(OutputError::of(&path))
    }

    /// The episodes that have rows among these: the first such row, and the numbers of the rows in the episode.
    fn pieces(&self, table: usize, rows: &Range<u64>) -> Vec<(&Episode<'a>, u64, Range<u64>)> {
        let spans = &self.spans[table];
        let first = spans.partition_point(|span| span.end <= rows.start);
        let episodes = self.episodes.iter().zip(spans).skip(first);
        let among = episodes.take_while(|(_, span)| span.start < rows.end);
        let piece = |(episode, span): (_, &Range<u64>)| {
            let mine = rows.start.max(span.start)..rows.end.min(span.end);
            let begin = mine.start;
            (episode, begin, mine.start - span.start..mine.end - span.start)
        };
        among.filter(|(_, span)| !span.is_empty()).map(piece).collect()
    }
}

/// The file of a shard: the other dimensions have one.
pub(super) fn path_of(store: &Path, column: &Column, number: u64) -> PathBuf {
    store.join(&column.path).join(format!("c.{number}{}", ".0".repeat(column.row.len())))
}

/// Writes an array of numbers.
fn write_numbers(store: &Path, column: &Column, numbers: &[i64]) -> Result<(), OutputError> {
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    for (number, bytes) in bytes.chunks(8 * column.shard_rows() as usize).enumerate() {
        let path = path_of(store, column, number as u64);
        let written = File::create(&path).and_then(|file| {
            let mut shard = Shard::new(file);
            let mut chunks = Chunks::new(column)?;
            chunks.add(bytes, &mut shard)?;
            chunks.finish(&mut shard)?;
            shard.end(column.shard_chunks())?.sync_all()
        });
        written.map_err(OutputError::of(&path))?;
    }
    Ok(())
}

/// Fills chunks with small rows.
pub(super) struct Chunks {
    compress: Compress,
    /// The chunk at hand, and its size when it is full.
    chunk: Vec<u8>,
    size: usize,
}

impl Chunks {
    fn new(column: &Column) -> io::Result<Self> {
        let size = column.chunk_rows() * column.row_bytes().max(1);
        Ok(Chunks { compress: Compress::new(ZSTD_LEVEL)?, chunk: Vec::new(), size })
    }

    /// Leaves out rows between two episodes: large ones are missing, others have the column's filler.
    fn skip(&mut self, column: &Column, rows: u64, shard: &mut Shard) -> io::Result<()> {
        if column.has_large_rows() {
            shard.skip(rows as usize);
            return Ok(());
        }
        let filler = vec![column.filler; column.row_bytes()];
        (0..rows).try_for_each(|_| self.add(&filler, shard))
    }

    pub(super) fn add(&mut self, mut bytes: &[u8], shard: &mut Shard) -> io::Result<()> {
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(self.size - self.chunk.len()));
            self.chunk.extend_from_slice(now);
            bytes = later;
            if self.chunk.len() == self.size {
                self.write(shard)?;
            }
        }
        Ok(())
    }

    /// Writes the last chunk. What no row fills is zero.
    fn finish(mut self, shard: &mut Shard) -> io::Result<()> {
        match self.chunk.is_empty() {
            true => Ok(()),
            false => {
                self.chunk.resize(self.size, 0);
                self.write(shard)
            }
        }
    }

    fn write(&mut self, shard: &mut Shard) -> io::Result<()> {
        // Rows of images are chunks of their own, and do not come here.
        shard.add(self.compress.chunk(Codec::Zstd, &self.chunk)?)?;
        self.chunk.clear();
        Ok(())
    }
}

/// Metadata of a store's arrays and groups, by their paths.
#[derive(Default)]
struct Nodes(BTreeMap<String, Value>);

impl Nodes {
    /// Writes what is said of an array, and notes its groups.
    fn add_array(&mut self, store: &Path, column: &Column, rows: u64) -> Result<(), OutputError> {
        for (at, _) in column.path.match_indices('/') {
            let group = json!({"zarr_format": 3, "node_type": "group", "attributes": {}});
            self.0.entry(column.path[..at].to_owned()).or_insert(group);
        }
        let array = array(column, rows);
        write_json(&store.join(&column.path), &array)?;
        self.0.insert(column.path.clone(), array);
        Ok(())
    }

    /// Writes what is said of the groups. Each repeats what is said of all that it holds, so that readers need
    /// not look for it.
    fn write_groups(&self, store: &Path, attributes: Value) -> Result<(), OutputError> {
        let groups = self.0.iter().filter(|(_, node)| node["node_type"] == "group");
        let groups = groups.map(|(path, _)| (path.as_str(), json!({})));
        for (path, attributes) in groups.chain([("", attributes)]) {
            let below = |name: &str| match path {
                "" => Some(name.to_owned()),
                path => Some(name.strip_prefix(path)?.strip_prefix('/')?.to_owned()),
            };
            let nodes = self.0.iter().filter_map(|(name, node)| Some((below(name)?, node.clone())));
            let group = json!({
                "zarr_format": 3,
                "node_type": "group",
                "attributes": attributes,
                "consolidated_metadata": {
                    "kind": "inline",
                    "must_understand": false,
                    "metadata": nodes.collect::<Map<_, _>>(),
                },
            });
            write_json(&store.join(path), &group)?;
        }
        Ok(())
    }
}

/// Metadata of an array.
fn array(column: &Column, rows: u64) -> Value {
    let shape = |rows: u64| -> Vec<u64> {
        std::iter::once(rows).chain(column.row.iter().map(|size| *size as u64)).collect()
    };
    let chunk_rows = column.chunk_rows() as u64;
    let fill = match column.element {
        Element::Bool => json!(false),
        Element::Float16 | Element::Float32 | Element::Float64 => json!(0.0),
        _ => json!(0),
    };
    json!({
        "zarr_format": 3,
        "node_type": "array",
        "shape": shape(rows),
        "data_type": column.element,
        "chunk_grid": {
            "name": "regular",
            "configuration": {"chunk_shape": shape(chunk_rows * column.shard_chunks() as u64)},
        },
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "."}},
        "fill_value": fill,
        "codecs": [{
            "name": "sharding_indexed",
            "configuration": {
                "chunk_shape": shape(chunk_rows),
                "codecs": codecs(column),
                "index_codecs": [
                    {"name": "bytes", "configuration": {"endian": "little"}},
                    {"name": "crc32c"},
                ],
                "index_location": "end",
            },
        }],
        "dimension_names": column.dimensions,
        "attributes": column.attributes,
    })
}

/// The codecs of a chunk.
fn codecs(column: &Column) -> Vec<Value> {
    let mut all = match column.codec {
        Codec::Zstd => vec![
            match column.element.size() {
                1 => json!({"name": "bytes"}),
                _ => json!({"name": "bytes", "configuration": {"endian": "little"}}),
            },
            json!({"name": "zstd", "configuration": {"level": ZSTD_LEVEL, "checksum": false}}),
        ],
        Codec::Jpeg(jpeg) => {
            // The codec takes images whose channels come last. Its subsampling is that of JpegRow.
            let mut about = json!({"level": jpeg.quality, "subsampling": "444"});
            if jpeg.color == Color::Bgr {
                about["colorspace_data"] = json!(BLUE_FIRST);
            }
            let transpose = json!({"name": "transpose", "configuration": {"order": CHANNELS_LAST}});
            let transpose = (jpeg.layout == ImageLayout::Chw).then_some(transpose);
            let jpeg = json!({"name": JPEG_CODEC, "configuration": about});
            transpose.into_iter().chain([jpeg]).collect()
        }
    };
    all.push(json!({"name": "crc32c"}));
    all
}

/// Writes the metadata of a group or an array into its folder.
fn write_json(folder: &Path, value: &Value) -> Result<(), OutputError> {
    let path = folder.join(METADATA);
    let written = fs::create_dir_all(folder).and_then(|()| {
        let mut text = serde_json::to_vec_pretty(value)?;
        text.push(b'\n');
        let mut file = File::create(&path)?;
        io::Write::write_all(&mut file, &text)?;
        file.sync_all()
    });
    written.map_err(OutputError::of(&path))
}
