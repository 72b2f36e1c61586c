//! The tables of one episode, in a folder until all episodes are joined.
//!
//! The file `data` has all rows. Small ones are in blocks of a column ([`super::stream`]). Each large one is
//! compressed, and a stream of its column has its place and length. A row that is equal to the one before has the
//! same place. `part.json` says which tables there are, and where the blocks are. So a part has one open file,
//! whatever the number of its columns.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use twox_hash::XxHash3_64;

use super::chunk::{Compress, Loss, ZSTD_LEVEL};
use super::pool::{Row, RowPool};
use super::stream::{Data, Stream, StreamReader, StreamWriter, damaged};
use super::{Codec, Order, Table};
use crate::file::{OutputError, PartialFolder};
use robocache_ops::sync::lock;

/// The file of the rows.
const DATA: &str = "data";
/// The file of a [`List`], after a line with its digest.
const LIST: &str = "part.json";
/// The version of both. Parts of another version are made again.
pub const PART_FORMAT: u32 = 2;
/// Large rows that may wait for each thread.
const WAITING: usize = 4;

/// What a part holds.
#[derive(Debug, Serialize, Deserialize)]
struct List {
    tables: Vec<Table>,
    content: Vec<Content>,
    about: Value,
    /// Size of the file of the rows \[bytes\].
    bytes: u64,
}

/// Where the rows of a table are.
#[derive(Debug, Serialize, Deserialize)]
struct Content {
    rows: u64,
    /// By column: its rows, or the places of its large rows.
    streams: Vec<Stream>,
    /// The numbers of the rows in the order of the store, if it is not that in which they came.
    order: Option<Stream>,
}

/// What a writer may use.
#[derive(Clone, Copy, Debug)]
pub struct WriterLimits {
    /// Threads that compress large rows.
    pub threads: usize,
    /// Memory of the large rows that wait for them \[bytes\]; one row may be larger.
    pub memory: usize,
}

/// Writes the tables of one episode. Threads may write different tables at once.
pub struct PartWriter {
    folder: Option<PartialFolder>,
    tables: Arc<[Table]>,
    rows: Vec<Mutex<Rows>>,
    shared: Arc<Shared>,
    /// To the threads that compress; `None` at the end.
    jobs: Option<SyncSender<Job>>,
    threads: Vec<JoinHandle<()>>,
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

/// What JPEG made of the rows of columns, by table and column.
pub type Losses = BTreeMap<(usize, usize), Loss>;

/// What the threads share.
struct Shared {
    data: Data,
    /// By table and column: where large rows are.
    places: Vec<Vec<Option<Mutex<Places>>>>,
    pool: Arc<RowPool>,
    losses: Mutex<Losses>,
    /// The first error.
    error: Mutex<Option<OutputError>>,
    failed: AtomicBool,
    path: PathBuf,
}

/// Where the large rows of a column are. They are noted in their order, whichever thread compressed them.
struct Places {
    stream: StreamWriter,
    /// Rows that were compressed before their turn, from the next one on. The inner `None` is a row that repeats
    /// the one before.
    early: BTreeMap<u64, Option<[u64; 2]>>,
    /// Place and length of the newest row.
    newest: [u64; 2],
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
        let large = |table: &Table| -> Vec<_> {
            let places = || Mutex::new(Places::new());
            table.columns.iter().map(|column| column.has_large_rows().then(places)).collect()
        };
        let shared = Arc::new(Shared {
            data,
            places: tables.iter().map(large).collect(),
            pool: Arc::new(RowPool::new(limits.memory)),
            losses: Mutex::default(),
            error: Mutex::default(),
            failed: AtomicBool::new(false),
            path: path.to_owned(),
        });
        let threads = limits.threads.max(1);
        let (sender, receiver) = sync_channel(WAITING * threads);
        let receiver = Arc::new(Mutex::new(receiver));
        let mut writer = PartWriter {
            folder: Some(folder),
            rows: tables.iter().map(|table| Mutex::new(Rows::new(table))).collect(),
            tables: tables.into(),
            shared,
            jobs: Some(sender),
            threads: Vec::new(),
        };
        if writer.shared.places.iter().flatten().any(Option::is_some) {
            for _ in 0..threads {
                let (shared, receiver) = (Arc::clone(&writer.shared), Arc::clone(&receiver));
                let thread = std::thread::Builder::new().name("compress".into());
                let thread = thread.spawn(move || shared.compress(&receiver));
                writer.threads.push(thread.map_err(OutputError::of(path))?);
            }
        }
        Ok(writer)
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
        self.join();
        if self.shared.failed.load(Ordering::Relaxed) {
            return Err(self.shared.take_error());
        }
        let content = self.content().map_err(self.shared.failure())?;
        let losses = std::mem::take(&mut *lock(&self.shared.losses));
        let Some(folder) = self.folder.take() else { return Ok(losses) };
        let data = &self.shared.data;
        data.file().sync_all().map_err(self.shared.failure())?;
        let (tables, bytes) = (self.tables.to_vec(), data.len());
        let path = folder.partial().join(LIST);
        let list = serde_json::to_vec(&List { tables, content, about, bytes });
        let written = list.map_err(io::Error::other).and_then(|list| {
            let mut text = format!("{:016x}\n", XxHash3_64::oneshot(&list)).into_bytes();
            text.extend_from_slice(&list);
            let mut file = File::create(&path)?;
            io::Write::write_all(&mut file, &text)?;
            file.sync_all()
        });
        written.map_err(OutputError::of(&path))?;
        folder.complete()?;
        Ok(losses)
    }

    /// Writes what is left of all tables, and says where their rows are.
    fn content(&self) -> io::Result<Vec<Content>> {
        let data = &self.shared.data;
        let of_table = |((table, rows), places): ((&Table, &Mutex<Rows>), &Vec<_>)| {
            let rows = &mut *lock(rows);
            let mut streams = Vec::with_capacity(places.len());
            for (column, places) in rows.columns.iter_mut().zip(places) {
                let places: &Option<Mutex<Places>> = places;
                let mut places = places.as_ref().map(lock);
                let stream = match (column, &mut places) {
                    (ColumnRows::Small(stream), _) => stream,
                    (ColumnRows::Large(_), Some(places)) => &mut places.stream,
                    (ColumnRows::Large(_), None) => return Err(io::Error::other("no places")),
                };
                if stream.records() != rows.count {
                    let found = stream.records();
                    return Err(io::Error::other(format!(
                        "expected {} rows in each column, found {found}",
                        rows.count
                    )));
                }
                stream.flush(data)?;
                streams.push(stream.stream().clone());
            }
            let keys = table.sorted_by.map(|columns| columns.map(|column| &streams[column]));
            let order = rows.order.write(rows.count, keys, data)?;
            Ok(Content { rows: rows.count, streams, order })
        };
        self.tables.iter().zip(&self.rows).zip(&self.shared.places).map(of_table).collect()
    }

    /// Waits for the threads.
    fn join(&mut self) {
        self.jobs = None;
        for thread in self.threads.drain(..) {
            // A panic has been noted.
            let _ = thread.join();
        }
    }
}

impl Drop for PartWriter {
    fn drop(&mut self) {
        // No thread may write into the folder when it is removed.
        self.join();
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
        let shared = &self.writer.shared;
        match &mut self.rows.columns[column] {
            ColumnRows::Small(stream) => stream.push(value, &shared.data).map_err(shared.failure()),
            ColumnRows::Large(newest) if newest.as_ref().is_some_and(|row| ***row == *value) => {
                shared.repeat(self.table, column, self.rows.count)
            }
            ColumnRows::Large(_) => {
                let mut memory = shared.pool.memory(value.len());
                memory.extend_from_slice(value);
                self.compress(column, memory)
            }
        }
    }

    /// The same for a value whose memory may be exchanged, so that a large one is not copied.
    ///
    /// # Errors
    /// As for [`RowWriter::put`].
    ///
    /// # Panics
    /// As for [`RowWriter::put`].
    pub fn put_owned(&mut self, column: usize, value: &mut Vec<u8>) -> Result<(), OutputError> {
        match &self.rows.columns[column] {
            ColumnRows::Large(newest) if newest.as_ref().is_none_or(|row| ***row != **value) => {
                self.check(column, value);
                let memory = self.writer.shared.pool.memory(value.len());
                let value = std::mem::replace(value, memory);
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
    fn compress(&mut self, column: usize, value: Vec<u8>) -> Result<(), OutputError> {
        let PartWriter { shared, jobs, .. } = self.writer;
        let row = Arc::new(Row::new(value, &shared.pool));
        let failed = || shared.failed.load(Ordering::Relaxed);
        shared.pool.begin(row.len(), failed);
        self.rows.columns[column] = ColumnRows::Large(Some(Arc::clone(&row)));
        if failed() {
            return Err(shared.take_error());
        }
        let codec = self.writer.tables[self.table].columns[column].codec;
        let job = Job { table: self.table, column, number: self.rows.count, row, codec };
        // The threads take jobs until the sender is dropped, unless one has panicked.
        match jobs.as_ref().map(|jobs| jobs.send(job)) {
            Some(Ok(())) => Ok(()),
            _ => Err(shared.take_error()),
        }
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

impl Places {
    fn new() -> Self {
        let (stream, early) = (StreamWriter::new(16), BTreeMap::new());
        Places { stream, early, newest: [0; 2] }
    }

    /// Notes where a row is when its turn comes; `None`: where that before is.
    fn note(&mut self, number: u64, place: Option<[u64; 2]>, data: &Data) -> io::Result<()> {
        self.early.insert(number, place);
        while let Some(place) = self.early.remove(&self.stream.records()) {
            self.newest = place.unwrap_or(self.newest);
            let mut record = [0; 16];
            record[..8].copy_from_slice(&self.newest[0].to_le_bytes());
            record[8..].copy_from_slice(&self.newest[1].to_le_bytes());
            self.stream.push(&record, data)?;
        }
        Ok(())
    }
}

/// Notes that a thread panicked, so that no thread waits for it.
struct Panicked<'a>(&'a Shared);

impl Drop for Panicked<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let what = io::Error::other("a thread that compresses has panicked");
            self.0.fail(self.0.failure()(what));
        }
    }
}

impl Shared {
    /// Compresses rows until there are no more.
    fn compress(&self, jobs: &Mutex<Receiver<Job>>) {
        let _panicked = Panicked(self);
        let mut compress = match Compress::new(ZSTD_LEVEL) {
            Ok(compress) => compress,
            Err(error) => return self.fail(self.failure()(error)),
        };
        loop {
            let job = lock(jobs).recv();
            let Ok(Job { table, column, number, row, codec }) = job else { return };
            let len = row.len();
            if !self.failed.load(Ordering::Relaxed) {
                let written = compress.chunk(codec, &row).and_then(|chunk| {
                    let place = [self.data.append(chunk)?, chunk.len() as u64];
                    self.note(table, column, number, Some(place))
                });
                let written = written.and_then(|()| {
                    if let Some(loss) = compress.loss(codec, &row)? {
                        lock(&self.losses).entry((table, column)).or_default().add(loss);
                    }
                    Ok(())
                });
                written.unwrap_or_else(|error| self.fail(self.failure()(error)));
            }
            drop(row);
            self.pool.end(len);
        }
    }

    /// Notes a row that is equal to the one before.
    fn repeat(&self, table: usize, column: usize, number: u64) -> Result<(), OutputError> {
        match self.failed.load(Ordering::Relaxed) {
            true => Err(self.take_error()),
            false => self.note(table, column, number, None).map_err(self.failure()),
        }
    }

    fn note(
        &self,
        table: usize,
        column: usize,
        number: u64,
        place: Option<[u64; 2]>,
    ) -> io::Result<()> {
        match &self.places[table][column] {
            Some(places) => lock(places).note(number, place, &self.data),
            None => Ok(()),
        }
    }

    fn failure(&self) -> impl FnOnce(io::Error) -> OutputError + use<> {
        OutputError::of(&self.path)
    }

    fn fail(&self, error: OutputError) {
        lock(&self.error).get_or_insert(error);
        self.failed.store(true, Ordering::Relaxed);
        self.pool.wake();
    }

    fn take_error(&self) -> OutputError {
        let before = || self.failure()(io::Error::other("an earlier row was not written"));
        lock(&self.error).take().unwrap_or_else(before)
    }
}

/// The tables of one episode.
#[derive(Debug)]
pub struct StorePart {
    folder: PathBuf,
    tables: Vec<Table>,
    content: Vec<Content>,
    /// What the store says of the episode.
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

    /// What the store says of the episode.
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

    /// Opens the file of the rows.
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

    /// Hands the records of a column to `take`, some at a time, in the order of the store: its rows, or place and
    /// length of each large row.
    pub(super) fn read<E: From<io::Error>>(
        &self,
        file: &File,
        (table, column): (usize, usize),
        rows: Range<u64>,
        mut take: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let Content { streams, order, .. } = &self.content[table];
        let mut reader = StreamReader::new(&streams[column], file);
        let Some(order) = order else { return reader.read(rows, take) };
        StreamReader::new(order, file).read(rows, |numbers| {
            for number in numbers.chunks_exact(8) {
                let number = u64::from_le_bytes(*number.first_chunk().unwrap_or(&[0; 8]));
                reader.read(number..number + 1, &mut take)?;
            }
            Ok(())
        })
    }
}
