//! Threads that push large messages for a [`Player`](super::Player).
//!
//! The messages of a stream are pushed in their order, one at a time, and the player waits for all of them before a
//! tick or an epoch. So the result equals that of one thread. Streams that need frames or a CameraInfo do not use these
//! threads, because they depend on earlier messages.

use std::collections::HashSet;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

use super::intake::MessageOrigin;
use super::queue::{self, Message, Queue};
use super::{Runtime, RuntimeError};
use robocache_core::pipeline::NotTaken;
use robocache_core::spec::{Config, InputId};
use robocache_ops::sync::lock;

/// Messages that may wait, for each thread. A cloud or an image has a megabyte.
const WAITING: usize = 4;

/// The threads, and the messages on their way to them.
pub(super) struct EncodeThreads {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    most: usize,
    /// By input: whether its messages go to the threads.
    takes: Vec<bool>,
}

struct Shared {
    runtime: Arc<Runtime>,
    queue: Queue,
    state: Mutex<EncodeState>,
    /// A message is done.
    done: Condvar,
}

#[derive(Default)]
struct EncodeState {
    /// Messages that are not done.
    pending: usize,
    /// The first error.
    error: Option<RuntimeError>,
}

/// Counts a message as done when it is dropped, so that after a panic no thread waits for ever.
struct Done<'a>(&'a Shared);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.0.state);
        state.pending -= 1;
        if std::thread::panicking() {
            state.error.get_or_insert(RuntimeError::Panicked("encode"));
        }
        drop(state);
        self.0.done.notify_all();
    }
}

impl EncodeThreads {
    /// Starts at most this many threads, one per stream of large messages; `None` if no stream may use one.
    ///
    /// # Errors
    /// The system starts no thread.
    pub fn start(runtime: &Arc<Runtime>, threads: usize) -> Result<Option<Self>, RuntimeError> {
        let config = runtime.pipeline.config();
        let takes = takes(config);
        let lanes = queue::lanes(config);
        let used = takes.iter().zip(&lanes).filter(|(takes, _)| **takes);
        let used: HashSet<usize> = used.map(|(_, lane)| *lane).collect();
        let count = threads.min(used.len());
        if count == 0 {
            return Ok(None);
        }
        let shared = Arc::new(Shared {
            runtime: Arc::clone(runtime),
            // Its bound is that of `put`.
            queue: Queue::new(usize::MAX, lanes),
            state: Mutex::default(),
            done: Condvar::new(),
        });
        let mut started =
            EncodeThreads { shared, threads: Vec::new(), most: WAITING * count, takes };
        for _ in 0..count {
            let shared = Arc::clone(&started.shared);
            let thread = std::thread::Builder::new().name("encode".into());
            let thread = thread.spawn(move || shared.work());
            let failed = |source| RuntimeError::Thread { name: "encode", source };
            started.threads.push(thread.map_err(failed)?);
        }
        Ok(Some(started))
    }

    /// Whether messages of an input go to the threads.
    pub fn takes(&self, input: InputId) -> bool {
        self.takes[input.index()]
    }

    /// Gives a message to the threads. Waits while too many are on their way.
    ///
    /// # Errors
    /// That of an earlier message.
    pub fn put(&self, message: Message) -> Result<(), RuntimeError> {
        self.wait_for(self.most - 1)?;
        lock(&self.shared.state).pending += 1;
        self.shared.queue.put(message);
        Ok(())
    }

    /// Waits until all messages are pushed.
    ///
    /// # Errors
    /// That of one of them.
    pub fn wait(&self) -> Result<(), RuntimeError> {
        self.wait_for(0)
    }

    fn wait_for(&self, most: usize) -> Result<(), RuntimeError> {
        let mut state = lock(&self.shared.state);
        while state.pending > most && state.error.is_none() {
            state = self.shared.done.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.error.take().map_or(Ok(()), Err)
    }
}

impl Drop for EncodeThreads {
    fn drop(&mut self) {
        self.shared.queue.close();
        for thread in self.threads.drain(..) {
            // A panic was reported when its message was waited for.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn work(&self) {
        while let Some(taken) = self.queue.take() {
            let _done = Done(self);
            let message = &taken.message;
            // None of these inputs can wait for a transform.
            let bytes = (*message.bytes).as_ref();
            let pushed = self.runtime.push(MessageOrigin::of(message), bytes, message.arrival);
            if let Err(NotTaken::Failed(error)) = pushed {
                lock(&self.state).error.get_or_insert(error);
            }
            // The lane must be free before the player goes on.
            drop(taken);
        }
    }
}

/// By input: whether its rows depend on the messages of its own stream alone.
fn takes(config: &Config) -> Vec<bool> {
    let alone = |id: InputId| {
        let spec = config.input(id);
        spec.is_large() && !spec.asks_for_frames(&config.streams)
    };
    let takes = |id: InputId| match config.input(id).stream {
        Some(stream) => config.camera_of(stream).is_none() && config.inputs_of(stream).all(alone),
        None => false,
    };
    config.input_ids().map(takes).collect()
}

#[cfg(test)]
mod tests;
