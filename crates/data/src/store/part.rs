//! The tables of one episode, in a folder until all episodes are joined.
//!
//! The file `data` has the small rows, in blocks of a column ([`super::stream`]). Large rows are in shards
//! ([`super::large`]), as the store has them. `part.json` says which tables there are, and where the blocks are. So a
//! part has one open file, and one for each column of large rows.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use twox_hash::XxHash3_64;

use super::chunk::{Compress, Loss, ZSTD_LEVEL};
use super::large::{LargeWriter, shard_path};
use super::pool::{Row, RowPool};
use super::stream::{Data, Stream, StreamReader, StreamWriter, damaged};
use super::{Codec, Column, Order, Table};
use crate::compressing::{CompressThreads, Compressing, Failure};
use crate::file::{OutputError, PartialFolder};
use robocache_ops::device::RowMemory;
use robocache_ops::sync::lock;

/// The file of the small rows.
const DATA: &str = "data";
/// The file of a [`List`], after a line with its digest.
const LIST: &str = "part.json";
/// The version of both. Parts of another version are made again.
pub const PART_FORMAT: u32 = 3;
/// Large rows that may wait for each thread.
const WAITING: usize = 4;

/// Contents of a part.
#[derive(Debug, Serialize, Deserialize)]
struct List {
    tables: Vec<Table>,
    content: Vec<Content>,
    about: Value,
    /// Size of the file of the small rows \[bytes\].
    bytes: u64,
}

/// Place of the rows of a table.
#[derive(Debug, Serialize, Deserialize)]
struct Content {
    rows: u64,
    /// By column: its rows. `None` if they are in shards.
    streams: Vec<Option<Stream>>,
    /// The numbers of the rows in the order of the store, if it is not that in which they came.
    order: Option<Stream>,
}

/// Limits of a writer.
#[derive(Clone, Copy, Debug)]
pub struct WriterLimits {
    /// Threads that compress large rows.
    pub threads: usize,
    /// Memory of the large rows that wait for them \[bytes\]; one row may be larger.
    pub memory: usize,
}

/// Writes the tables of one episode. Threads may write different tables at once.
pub struct PartWriter {
    /// Threads that compress. They are dropped first: they write into the folder.
    threads: CompressThreads<Shared>,
    folder: PartialFolder,
    tables: Arc<[Table]>,
    rows: Vec<Mutex<Rows>>,
}

/// The rows of a table, on the writer's side.
struct Rows {
    count: u64,
    columns: Vec<ColumnRows>,
    order: Order,
}

/// The rows of a column, on the writer's side.
enum ColumnRows {
    Small(StreamWriter),
    /// The newest row.
    Large(Option<Arc<Row>>),
}

/// A large row to compress.
struct Job {
    table: usize,
    column: usize,
    number: u64,
    row: Arc<Row>,
    codec: Codec,
}

/// Losses of rows by JPEG, by table and column.
pub type Losses = BTreeMap<(usize, usize), Loss>;

/// State that the threads share.
struct Shared {
    data: Data,
    /// By table and column: where large rows go.
    large: Vec<Vec<Option<Mutex<LargeWriter>>>>,
    pool: Arc<RowPool>,
    losses: Mutex<Losses>,
    failure: Failure,
}

impl PartWriter {
    /// Creates the folder, under another name until it is complete.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn create(
        path: &Path,
        tables: Vec<Table>,
        limits: WriterLimits,
    ) -> Result<Self, OutputError> {
        let folder = PartialFolder::create(path)?;
        let data = folder.partial().join(DATA);
        let data = Data::create(&data).map_err(OutputError::of(&data))?;
        let large = |(at, table): (usize, &Table)| -> Vec<_> {
            let writer = |(number, column): (usize, &Column)| {
                let new = || LargeWriter::new(folder.partial(), [at, number], column);
                column.has_large_rows().then(|| Mutex::new(new()))
            };
            table.columns.iter().enumerate().map(writer).collect()
        };
        let shared = Arc::new(Shared {
            data,
            large: tables.iter().enumerate().map(large).collect(),
            pool: Arc::new(RowPool::new(limits.memory)),
            losses: Mutex::default(),
            failure: Failure::none(path),
        });
        // Small rows are not compressed.
        let has_large = shared.large.iter().flatten().any(Option::is_some);
        let threads = if has_large { limits.threads.max(1) } else { 0 };
        Ok(PartWriter {
            threads: CompressThreads::start(shared, threads, WAITING * threads)?,
            folder,
            rows: tables.iter().map(|table| Mutex::new(Rows::new(table))).collect(),
            tables: tables.into(),
        })
    }

    fn shared(&self) -> &Shared {
        self.threads.shared()
    }

    /// Begins a row of a table.
    ///
    /// # Panics
    /// If there is no such table.
    pub fn row(&self, table: usize) -> RowWriter<'_> {
        RowWriter { writer: self, table, rows: lock(&self.rows[table]) }
    }

    /// Ends the part and gives it its name. `about` goes into the store's list of episodes. Returns what JPEG made of
    /// rows.
    ///
    /// # Errors
    /// A row could not be written.
    pub fn complete(mut self, about: Value) -> Result<Losses, OutputError> {
        self.threads.finish()?;
        let shared = self.threads.shared();
        let failed = |error| shared.failure.of(error);
        let content = self.content().map_err(failed)?;
        let losses = std::mem::take(&mut *lock(&shared.losses));
        let data = &shared.data;
        data.file().sync_all().map_err(failed)?;
        let tables = self.tables.to_vec();
        let bytes = data.len();
        let path = self.folder.partial().join(LIST);
        let list = serde_json::to_vec(&List { tables, content, about, bytes });
        let written = list.map_err(io::Error::other).and_then(|list| {
            let mut text = format!("{:016x}\n", XxHash3_64::oneshot(&list)).into_bytes();
            text.extend_from_slice(&list);
            let mut file = File::create(&path)?;
            io::Write::write_all(&mut file, &text)?;
            file.sync_all()
        });
        written.map_err(OutputError::of(&path))?;
        self.folder.complete()?;
        Ok(losses)
    }

    /// Writes what is left of all tables, and says where their rows are.
    fn content(&self) -> io::Result<Vec<Content>> {
        let tables = self.tables.iter().zip(&self.rows).zip(&self.shared().large);
        tables
            .map(|((table, rows), large)| self.content_of(table, &mut lock(rows), large))
            .collect()
    }

    fn content_of(
        &self,
        table: &Table,
        rows: &mut Rows,
        large: &[Option<Mutex<LargeWriter>>],
    ) -> io::Result<Content> {
        let data = &self.shared().data;
        let mut streams = Vec::with_capacity(large.len());
        for (column, large) in rows.columns.iter_mut().zip(large) {
            let (found, stream) = match (column, large) {
                (ColumnRows::Small(stream), _) => {
                    stream.flush(data)?;
                    (stream.records(), Some(stream.stream().clone()))
                }
                (ColumnRows::Large(_), large) => {
                    (large.as_ref().map_or(0, |large| lock(large).rows()), None)
                }
            };
            if found != rows.count {
                let count = rows.count;
                return Err(io::Error::other(format!(
                    "expected {count} rows in each column, found {found}"
                )));
            }
            streams.push(stream);
        }
        let order = match table.sorted_by.map(|columns| columns.map(|at| streams[at].as_ref())) {
            Some([Some(first), Some(second), Some(third)]) => {
                rows.order.write(rows.count, [first, second, third], data)?
            }
            _ => None,
        };
        for large in large.iter().flatten() {
            lock(large).end(order.as_ref(), data.file())?;
        }
        Ok(Content { rows: rows.count, streams, order })
    }
}

impl Rows {
    fn new(table: &Table) -> Self {
        let columns = table.columns.iter().map(|column| match column.has_large_rows() {
            true => ColumnRows::Large(None),
            false => ColumnRows::Small(StreamWriter::new(column.row_bytes())),
        });
        Rows { count: 0, columns: columns.collect(), order: Order::default() }
    }
}

/// Writes a row of a table: a value for each column, and then [`RowWriter::end`].
pub struct RowWriter<'a> {
    writer: &'a PartWriter,
    table: usize,
    rows: MutexGuard<'a, Rows>,
}

impl RowWriter<'_> {
    /// Puts the value of a column. It has the size that the column says.
    ///
    /// # Errors
    /// This value or one before could not be written.
    ///
    /// # Panics
    /// If there is no such column, or the value has another size.
    pub fn put(&mut self, column: usize, value: &[u8]) -> Result<(), OutputError> {
        self.check(column, value);
        let shared = self.writer.threads.shared();
        match &mut self.rows.columns[column] {
            ColumnRows::Small(stream) => {
                stream.push(value, &shared.data).map_err(|error| shared.failure.of(error))
            }
            ColumnRows::Large(newest) if newest.as_ref().is_some_and(|row| ***row == *value) => {
                shared.repeat(self.table, column, self.rows.count)
            }
            ColumnRows::Large(_) => {
                let mut memory = shared.pool.memory(value.len());
                memory.extend_from_slice(value);
                self.compress(column, RowMemory::Own(memory))
            }
        }
    }

    /// Puts the value of the row before, which is not looked at. Returns false if the column has no large rows, or this is
    /// its first: then the caller puts the value.
    ///
    /// # Errors
    /// As for [`RowWriter::put`].
    ///
    /// # Panics
    /// If there is no such column.
    pub fn repeat(&mut self, column: usize) -> Result<bool, OutputError> {
        match &self.rows.columns[column] {
            ColumnRows::Large(Some(_)) => {
                self.writer.shared().repeat(self.table, column, self.rows.count).map(|()| true)
            }
            _ => Ok(false),
        }
    }

    /// Puts a value whose memory may be exchanged, so that a large one is not copied.
    ///
    /// # Errors
    /// As for [`RowWriter::put`].
    ///
    /// # Panics
    /// As for [`RowWriter::put`].
    pub fn put_owned(&mut self, column: usize, value: &mut RowMemory) -> Result<(), OutputError> {
        match &self.rows.columns[column] {
            ColumnRows::Large(newest) if newest.as_ref().is_none_or(|row| ***row != **value) => {
                self.check(column, value);
                let value = value.take(|len| self.writer.shared().pool.memory(len));
                self.compress(column, value)
            }
            _ => self.put(column, value),
        }
    }

    fn check(&self, column: usize, value: &[u8]) {
        let column = &self.writer.tables[self.table].columns[column];
        assert_eq!(value.len(), column.row_bytes(), "{}", column.path);
    }

    /// Gives a large row to the threads.
    fn compress(&mut self, column: usize, value: RowMemory) -> Result<(), OutputError> {
        let PartWriter { threads, tables, .. } = self.writer;
        let shared = threads.shared();
        let row = Arc::new(Row::new(value, &shared.pool));
        shared.pool.begin(row.len(), || shared.failure.is_noted());
        self.rows.columns[column] = ColumnRows::Large(Some(Arc::clone(&row)));
        let codec = tables[self.table].columns[column].codec;
        threads.put(Job { table: self.table, column, number: self.rows.count, row, codec })
    }

    /// Ends the row.
    pub fn end(self) {
        let mut rows = self.rows;
        rows.count += 1;
    }

    /// Ends a row of a table that is sorted. `key` has its values of the columns by which it is. `aside`: it came
    /// before rows that are less.
    pub fn end_sorted(self, key: [i64; 3], aside: bool) {
        let mut rows = self.rows;
        let number = rows.count;
        rows.order.note(number, key, aside);
        rows.count += 1;
    }
}

impl Compressing for Shared {
    type Job = Job;
    type Tools = Compress;

    fn tools(&self) -> io::Result<Compress> {
        Compress::new(ZSTD_LEVEL)
    }

    fn compress(&self, compress: &mut Compress, job: Job) -> io::Result<()> {
        let Job { table, column, number, row, codec } = job;
        let chunk = compress.chunk(codec, &row)?;
        self.take(table, column, number, Some(chunk))?;
        if let Some(loss) = compress.loss(codec, &row)? {
            lock(&self.losses).entry((table, column)).or_default().add(loss);
        }
        Ok(())
    }

    fn wake(&self) {
        self.pool.wake();
    }

    fn failure(&self) -> &Failure {
        &self.failure
    }
}

impl Shared {
    /// Notes a row that is equal to the one before.
    fn repeat(&self, table: usize, column: usize, number: u64) -> Result<(), OutputError> {
        self.failure.check()?;
        self.take(table, column, number, None).map_err(|error| self.failure.of(error))
    }

    /// Takes a row: its chunk, or `None` if it repeats the one before. Rows that wait for their turn are still in work, so
    /// that their memory is bounded.
    fn take(
        &self,
        table: usize,
        column: usize,
        number: u64,
        chunk: Option<&[u8]>,
    ) -> io::Result<()> {
        if let Some(large) = &self.large[table][column] {
            let written = lock(large).take(number, chunk)?;
            self.pool.end(written);
        }
        Ok(())
    }
}

/// The tables of one episode.
#[derive(Debug)]
pub struct StorePart {
    folder: PathBuf,
    tables: Vec<Table>,
    content: Vec<Content>,
    /// Attributes of the episode in the store.
    about: Value,
}

impl StorePart {
    /// Opens a part.
    ///
    /// # Errors
    /// It is not complete, not of this program, or damaged.
    pub fn open(folder: &Path) -> Result<Self, OutputError> {
        let path = folder.join(LIST);
        let read = fs::read(&path).and_then(|text| {
            let digest = text.get(..16).and_then(|hex| std::str::from_utf8(hex).ok());
            let digest = digest.and_then(|hex| u64::from_str_radix(hex, 16).ok());
            let list = text.get(17..).unwrap_or_default();
            match digest == Some(XxHash3_64::oneshot(list)) {
                true => serde_json::from_slice(list).map_err(io::Error::other),
                false => Err(damaged("part.json is not what was written")),
            }
        });
        let List { tables, content, about, bytes } = read.map_err(OutputError::of(&path))?;
        let data = folder.join(DATA);
        let found = data.metadata().map_err(OutputError::of(&data))?.len();
        if found != bytes {
            let what = damaged(&format!("expected {bytes} bytes, found {found}"));
            return Err(OutputError::of(&data)(what));
        }
        Ok(StorePart { folder: folder.to_owned(), tables, content, about })
    }

    /// Which tables it has.
    pub fn tables(&self) -> &[Table] {
        &self.tables
    }

    /// Attributes of the episode in the store.
    pub fn about(&self) -> &Value {
        &self.about
    }

    /// Forgets which tables there are: they are those of another part.
    pub fn forget_tables(&mut self) {
        self.tables = Vec::new();
    }

    /// Number of rows of a table.
    pub fn rows(&self, table: usize) -> u64 {
        self.content[table].rows
    }

    /// Opens the file of the small rows.
    ///
    /// # Errors
    /// It cannot be opened.
    pub(super) fn data(&self) -> Result<File, OutputError> {
        let path = self.folder.join(DATA);
        File::open(&path).map_err(OutputError::of(&path))
    }

    /// The folder of the part.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The file of a shard of a column of large rows.
    pub(super) fn shard(&self, column: [usize; 2], number: u64) -> PathBuf {
        shard_path(&self.folder, column, number)
    }

    /// Hands the rows of a column of small rows to `take`, some at a time, in the order of the store.
    pub(super) fn read<E: From<io::Error>>(
        &self,
        file: &File,
        [table, column]: [usize; 2],
        rows: Range<u64>,
        mut take: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let Content { streams, order, .. } = &self.content[table];
        let stream = streams.get(column).and_then(Option::as_ref);
        let stream = stream.ok_or_else(|| damaged("a column of small rows is missing"))?;
        let mut reader = StreamReader::new(stream, file);
        let Some(order) = order else { return reader.read(rows, take) };
        StreamReader::new(order, file).read(rows, |numbers| {
            for number in numbers.as_chunks::<8>().0 {
                let number = u64::from_le_bytes(*number);
                reader.read(number..number + 1, &mut take)?;
            }
            Ok(())
        })
    }
}
