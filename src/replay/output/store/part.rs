//! The columns of one episode, in a folder until all episodes are joined.
//!
//! `columns.json` says which there are. Column `k` has `k.data`: its rows, one after the other. If its rows are
//! large, each is compressed, and `k.index` has the place and the length of each row in `k.data`. A row that is
//! equal to the one before has the same place.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::super::{OutputError, PartialFolder};
use super::Column;
use crate::sync::lock;

/// The file of a [`List`].
const LIST: &str = "columns.json";
/// The effort of zstd. More makes images hardly smaller, and takes longer.
pub(super) const ZSTD_LEVEL: i32 = 1;
/// Large rows that may wait for each thread.
const WAITING: usize = 4;

/// What a part holds.
#[derive(Debug, Serialize, Deserialize)]
struct List {
    columns: Vec<Column>,
    about: Value,
}

/// Writes the columns of one episode.
pub struct PartWriter {
    folder: Option<PartialFolder>,
    columns: Vec<Column>,
    rows: Vec<Rows>,
    shared: Arc<Shared>,
    /// To the threads that compress; `None` at the end.
    jobs: Option<SyncSender<Job>>,
    threads: Vec<JoinHandle<()>>,
}

/// The rows of a column, on the writer's side.
enum Rows {
    Small(BufWriter<File>),
    Large {
        /// Number of rows so far.
        count: u64,
        /// The newest row, and others whose memory may be free.
        memory: Vec<Arc<Vec<u8>>>,
        newest: Option<usize>,
    },
}

/// A large row to compress.
struct Job {
    column: usize,
    number: u64,
    row: Arc<Vec<u8>>,
}

/// What the threads share.
struct Shared {
    /// By column: where large rows are written.
    large: Vec<Option<Mutex<Large>>>,
    /// The first error.
    error: Mutex<Option<OutputError>>,
    failed: AtomicBool,
    path: PathBuf,
}

/// The files of a column of large rows. Rows are written in their order, whichever thread compressed them.
struct Large {
    data: File,
    index: BufWriter<File>,
    /// The number of the next row.
    next: u64,
    /// Rows that came before their turn; `None` if the row repeats the one before.
    early: BTreeMap<u64, Option<Vec<u8>>>,
    /// Place and length of the newest row.
    newest: [u64; 2],
}

impl PartWriter {
    /// Creates the folder, under another name until it is complete. `threads` compress large rows.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn create(path: &Path, columns: Vec<Column>, threads: usize) -> Result<Self, OutputError> {
        let folder = PartialFolder::create(path)?;
        let create = |at: usize, kind: &str| {
            let path = folder.partial().join(format!("{at}.{kind}"));
            File::create(&path).map_err(OutputError::of(&path))
        };
        let (mut rows, mut large) = (Vec::new(), Vec::new());
        for (at, column) in columns.iter().enumerate() {
            let data = create(at, "data")?;
            if column.has_large_rows() {
                rows.push(Rows::Large { count: 0, memory: Vec::new(), newest: None });
                let index = BufWriter::new(create(at, "index")?);
                let early = BTreeMap::new();
                let files = Large { data, index, next: 0, early, newest: [0; 2] };
                large.push(Some(Mutex::new(files)));
            } else {
                rows.push(Rows::Small(BufWriter::new(data)));
                large.push(None);
            }
        }
        let shared = Arc::new(Shared {
            large,
            error: Mutex::default(),
            failed: AtomicBool::new(false),
            path: path.to_owned(),
        });
        let threads = threads.max(1);
        let (sender, receiver) = sync_channel(WAITING * threads);
        let receiver = Arc::new(Mutex::new(receiver));
        let mut writer = PartWriter {
            folder: Some(folder),
            columns,
            rows,
            shared,
            jobs: Some(sender),
            threads: Vec::new(),
        };
        if writer.shared.large.iter().any(Option::is_some) {
            for _ in 0..threads {
                let (shared, receiver) = (Arc::clone(&writer.shared), Arc::clone(&receiver));
                let thread = std::thread::Builder::new().name("compress".into());
                let thread = thread.spawn(move || shared.compress(&receiver));
                writer.threads.push(thread.map_err(OutputError::of(path))?);
            }
        }
        Ok(writer)
    }

    /// The place of a column in the store.
    pub fn path_of(&self, column: usize) -> String {
        self.columns[column].path.clone()
    }

    /// Adds a row to a column. It has the size that the column says.
    ///
    /// # Errors
    /// This row or one before could not be written.
    ///
    /// # Panics
    /// If there is no such column, or the row has another size.
    pub fn push(&mut self, column: usize, row: &[u8]) -> Result<(), OutputError> {
        assert_eq!(row.len(), self.columns[column].row_bytes(), "{}", self.columns[column].path);
        let (count, memory, newest) = match &mut self.rows[column] {
            Rows::Small(file) => return file.write_all(row).map_err(self.shared.failure()),
            Rows::Large { count, memory, newest } => (count, memory, newest),
        };
        if self.shared.failed.load(Ordering::Relaxed) {
            return Err(self.shared.take_error());
        }
        let number = *count;
        *count += 1;
        if newest.is_some_and(|at| *memory[at] == row) {
            return self.shared.write(column, number, None);
        }
        let free = memory.iter_mut().position(|row| Arc::get_mut(row).is_some());
        let at = free.unwrap_or_else(|| {
            memory.push(Arc::default());
            memory.len() - 1
        });
        if let Some(memory) = Arc::get_mut(&mut memory[at]) {
            memory.clear();
            memory.extend_from_slice(row);
        }
        *newest = Some(at);
        let job = Job { column, number, row: Arc::clone(&memory[at]) };
        // The threads take jobs until the sender is dropped, unless one has panicked.
        match self.jobs.as_ref().map(|jobs| jobs.send(job)) {
            Some(Ok(())) => Ok(()),
            _ => Err(self.shared.take_error()),
        }
    }

    /// Ends the part and gives it its name. `about` goes into the store's list of episodes.
    ///
    /// # Errors
    /// A row could not be written.
    pub fn complete(mut self, about: Value) -> Result<(), OutputError> {
        self.join();
        if self.shared.failed.load(Ordering::Relaxed) {
            return Err(self.shared.take_error());
        }
        for (rows, large) in self.rows.iter_mut().zip(&self.shared.large) {
            let failed = self.shared.failure();
            match (rows, large) {
                (Rows::Small(file), _) => {
                    file.flush().and_then(|()| file.get_ref().sync_all()).map_err(failed)?;
                }
                (Rows::Large { .. }, Some(large)) => {
                    let large = &mut *lock(large);
                    let sync = large.data.sync_all().and_then(|()| large.index.flush());
                    sync.and_then(|()| large.index.get_ref().sync_all()).map_err(failed)?;
                }
                (Rows::Large { .. }, None) => {}
            }
        }
        let Some(folder) = self.folder.take() else { return Ok(()) };
        let path = folder.partial().join(LIST);
        let columns = std::mem::take(&mut self.columns);
        let list = serde_json::to_vec(&List { columns, about }).map_err(std::io::Error::other);
        let written = list.and_then(|list| {
            let mut file = File::create(&path)?;
            file.write_all(&list)?;
            file.sync_all()
        });
        written.map_err(OutputError::of(&path))?;
        folder.complete()
    }

    /// Waits for the threads.
    fn join(&mut self) {
        self.jobs = None;
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                self.shared.fail(OutputError {
                    path: self.shared.path.clone(),
                    source: std::io::Error::other("a thread that compresses has panicked"),
                });
            }
        }
    }
}

impl Drop for PartWriter {
    fn drop(&mut self) {
        // Nobody must write into the folder when it is removed.
        self.join();
    }
}

impl Large {
    /// Writes the next row; `None`: that before once more.
    fn put(&mut self, row: Option<&[u8]>) -> std::io::Result<()> {
        self.next += 1;
        if let Some(row) = row {
            self.data.write_all(row)?;
            self.newest = [self.newest[0] + self.newest[1], row.len() as u64];
        }
        self.newest.iter().try_for_each(|number| self.index.write_all(&number.to_le_bytes()))
    }
}

impl Shared {
    /// Compresses rows until there are no more.
    fn compress(&self, jobs: &Mutex<Receiver<Job>>) {
        let mut compressor = match zstd::bulk::Compressor::new(ZSTD_LEVEL) {
            Ok(compressor) => compressor,
            Err(error) => return self.fail(self.failure()(error)),
        };
        let mut compressed = Vec::new();
        loop {
            let job = lock(jobs).recv();
            let Ok(Job { column, number, row }) = job else { return };
            if self.failed.load(Ordering::Relaxed) {
                continue;
            }
            compressed.clear();
            compressed.reserve(zstd::zstd_safe::compress_bound(row.len()));
            let done = compressor.compress_to_buffer(&row[..], &mut compressed);
            // The writer may use its memory again.
            drop(row);
            let done = done.map_err(self.failure());
            let written = done.and_then(|_| self.write(column, number, Some(&compressed)));
            written.unwrap_or_else(|error| self.fail(error));
        }
    }

    /// Writes a compressed row when its turn comes; `None`: that before once more.
    fn write(&self, column: usize, number: u64, row: Option<&[u8]>) -> Result<(), OutputError> {
        let Some(large) = &self.large[column] else { return Ok(()) };
        let large = &mut *lock(large);
        if number != large.next {
            large.early.insert(number, row.map(<[u8]>::to_vec));
            return Ok(());
        }
        large.put(row).map_err(self.failure())?;
        while let Some(row) = large.early.remove(&large.next) {
            large.put(row.as_deref()).map_err(self.failure())?;
        }
        Ok(())
    }

    fn failure(&self) -> impl FnOnce(std::io::Error) -> OutputError + use<> {
        OutputError::of(&self.path)
    }

    fn fail(&self, error: OutputError) {
        lock(&self.error).get_or_insert(error);
        self.failed.store(true, Ordering::Relaxed);
    }

    fn take_error(&self) -> OutputError {
        let before = || self.failure()(std::io::Error::other("an earlier row was not written"));
        lock(&self.error).take().unwrap_or_else(before)
    }
}

/// The columns of one episode.
#[derive(Debug)]
pub struct Part {
    folder: PathBuf,
    /// What they are.
    pub columns: Vec<Column>,
    /// What the store says of the episode.
    pub about: Value,
}

impl Part {
    /// Opens a part.
    ///
    /// # Errors
    /// It is not complete, or not of this program.
    pub fn open(folder: &Path) -> Result<Self, OutputError> {
        let path = folder.join(LIST);
        let list = fs::read(&path).map_err(OutputError::of(&path))?;
        let list = serde_json::from_slice(&list).map_err(std::io::Error::other);
        let List { columns, about } = list.map_err(OutputError::of(&path))?;
        Ok(Part { folder: folder.to_owned(), columns, about })
    }

    /// Number of rows of a column.
    ///
    /// # Errors
    /// Its file cannot be read, or has a part of a row.
    pub fn rows(&self, column: usize) -> Result<u64, OutputError> {
        let (kind, size) = match self.columns[column].has_large_rows() {
            true => ("index", 16),
            false => ("data", self.columns[column].row_bytes().max(1) as u64),
        };
        let path = self.path(column, kind);
        let bytes = path.metadata().map_err(OutputError::of(&path))?.len();
        match bytes % size {
            0 => Ok(bytes / size),
            _ => {
                let what = format!("expected rows of {size} bytes, found {bytes} bytes");
                Err(OutputError::of(&path)(std::io::Error::other(what)))
            }
        }
    }

    /// The file of the rows of a column.
    pub(super) fn data(&self, column: usize) -> Result<File, OutputError> {
        let path = self.path(column, "data");
        File::open(&path).map_err(OutputError::of(&path))
    }

    /// Hands place and length of each large row of a column to `take`.
    pub(super) fn places(
        &self,
        column: usize,
        mut take: impl FnMut([u64; 2]) -> Result<(), OutputError>,
    ) -> Result<(), OutputError> {
        let path = self.path(column, "index");
        let mut index = BufReader::new(File::open(&path).map_err(OutputError::of(&path))?);
        for _ in 0..self.rows(column)? {
            let mut numbers = [[0; 8]; 2];
            for number in &mut numbers {
                index.read_exact(number).map_err(OutputError::of(&path))?;
            }
            take(numbers.map(u64::from_le_bytes))?;
        }
        Ok(())
    }

    fn path(&self, column: usize, kind: &str) -> PathBuf {
        self.folder.join(format!("{column}.{kind}"))
    }
}
