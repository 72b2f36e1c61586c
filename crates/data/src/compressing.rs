//! The threads of a writer, which compress what it gives them.
//!
//! The first error is kept, also that a thread panicked. So the writer's caller hears of it at its next call, and no thread
//! waits for one that has failed.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use crate::file::OutputError;
use robocache_ops::sync::lock;

/// State that the threads of a writer share.
pub(crate) trait Compressing: Send + Sync + 'static {
    /// Job of a thread.
    type Job: Send + 'static;
    /// Tools that each thread keeps from one job to the next.
    type Tools;

    /// Makes the tools of a thread.
    ///
    /// # Errors
    /// Those of the library that compresses.
    fn tools(&self) -> io::Result<Self::Tools>;

    /// Compresses one job and writes it.
    ///
    /// # Errors
    /// It cannot be compressed or written.
    fn compress(&self, tools: &mut Self::Tools, job: Self::Job) -> io::Result<()>;

    /// Wakes all that wait for a job to be done: a thread has failed.
    fn wake(&self);

    /// Place where failures are noted.
    fn failure(&self) -> &Failure;
}

/// The first error of a writer's threads.
pub(crate) struct Failure {
    path: PathBuf,
    noted: AtomicBool,
    error: Mutex<Option<io::Error>>,
}

impl Failure {
    /// None yet. `path` is the name of what is written.
    pub(crate) fn none(path: &Path) -> Self {
        Failure { path: path.to_owned(), noted: AtomicBool::new(false), error: Mutex::default() }
    }

    /// True if an error is noted.
    pub(crate) fn is_noted(&self) -> bool {
        self.noted.load(Ordering::Relaxed)
    }

    /// An error that names what is written.
    pub(crate) fn of(&self, error: io::Error) -> OutputError {
        OutputError::of(&self.path)(error)
    }

    /// The first error. If a caller has taken it before, this says that there was one.
    pub(crate) fn take(&self) -> OutputError {
        let before = || io::Error::other("what came before was not written");
        self.of(lock(&self.error).take().unwrap_or_else(before))
    }

    /// Fails if there is one.
    ///
    /// # Errors
    /// [`Failure::take`].
    pub(crate) fn check(&self) -> Result<(), OutputError> {
        if self.is_noted() { Err(self.take()) } else { Ok(()) }
    }

    fn note(&self, error: io::Error) {
        lock(&self.error).get_or_insert(error);
        self.noted.store(true, Ordering::Relaxed);
    }
}

/// The threads. A drop waits for them: no thread may write when the caller removes what is written.
pub(crate) struct CompressThreads<C: Compressing> {
    shared: Arc<C>,
    /// `None` at the end.
    jobs: Option<SyncSender<C::Job>>,
    threads: Vec<JoinHandle<()>>,
}

impl<C: Compressing> CompressThreads<C> {
    /// Starts as many threads, for which at most `waiting` jobs wait.
    ///
    /// # Errors
    /// The system starts no thread.
    pub(crate) fn start(
        shared: Arc<C>,
        threads: usize,
        waiting: usize,
    ) -> Result<Self, OutputError> {
        let (sender, receiver) = sync_channel(waiting);
        let receiver = Arc::new(Mutex::new(receiver));
        let mut started = CompressThreads { shared, jobs: Some(sender), threads: Vec::new() };
        for _ in 0..threads {
            let shared = Arc::clone(&started.shared);
            let receiver = Arc::clone(&receiver);
            let thread = std::thread::Builder::new().name("compress".into());
            let thread = thread.spawn(move || work(&*shared, &receiver));
            started.threads.push(thread.map_err(|error| started.shared.failure().of(error))?);
        }
        Ok(started)
    }

    /// State that the threads share.
    pub(crate) fn shared(&self) -> &Arc<C> {
        &self.shared
    }

    /// Gives a job to the threads. Waits while too many wait.
    ///
    /// # Errors
    /// A thread has failed.
    pub(crate) fn put(&self, job: C::Job) -> Result<(), OutputError> {
        // The threads take jobs until the sender is dropped, unless all have panicked.
        let sent = self.jobs.as_ref().is_some_and(|jobs| jobs.send(job).is_ok());
        match sent {
            true => self.shared.failure().check(),
            false => Err(self.shared.failure().take()),
        }
    }

    /// Waits until all jobs are done.
    ///
    /// # Errors
    /// A thread has failed.
    pub(crate) fn finish(&mut self) -> Result<(), OutputError> {
        self.join();
        self.shared.failure().check()
    }

    fn join(&mut self) {
        self.jobs = None;
        for thread in self.threads.drain(..) {
            // A panic has been noted.
            let _ = thread.join();
        }
    }
}

impl<C: Compressing> Drop for CompressThreads<C> {
    fn drop(&mut self) {
        self.join();
    }
}

/// Does jobs until there are no more.
fn work<C: Compressing>(shared: &C, jobs: &Mutex<Receiver<C::Job>>) {
    let _panicked = Panicked(shared);
    let mut tools = shared.tools();
    loop {
        let Ok(job) = lock(jobs).recv() else { return };
        // The others are not written, so that the caller is not kept waiting.
        if shared.failure().is_noted() {
            continue;
        }
        let done = match &mut tools {
            Ok(tools) => shared.compress(tools, job),
            Err(error) => Err(io::Error::new(error.kind(), error.to_string())),
        };
        if let Err(error) = done {
            fail(shared, error);
        }
    }
}

fn fail<C: Compressing>(shared: &C, error: io::Error) {
    shared.failure().note(error);
    shared.wake();
}

/// Notes that a thread panicked, so that no thread waits for it.
struct Panicked<'a, C: Compressing>(&'a C);

impl<C: Compressing> Drop for Panicked<'_, C> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            fail(self.0, io::Error::other("a thread that compresses has panicked"));
        }
    }
}
