//! Starts, watches and ends the threads.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::{Publisher, Runtime, RuntimeError, priority, ticker, workers};

/// The running threads. A drop ends and joins them. `E` is the error of a thread.
pub struct Threads<E> {
    runtime: Arc<Runtime>,
    handles: Vec<JoinHandle<()>>,
    failures: UnboundedSender<E>,
    failed: UnboundedReceiver<E>,
}

impl<E: From<RuntimeError> + Send + 'static> Threads<E> {
    /// Starts the runtime's own threads. If the system permits it, the tick thread gets this
    /// real-time priority; 0 is ordinary.
    ///
    /// # Errors
    /// [`RuntimeError::Thread`]
    pub fn start(
        runtime: &Arc<Runtime>,
        publisher: impl Publisher + 'static,
        realtime_priority: u8,
    ) -> Result<Self, E> {
        let (failures, failed) = unbounded_channel();
        let mut threads =
            Threads { runtime: Arc::clone(runtime), handles: vec![], failures, failed };
        let ticking = Arc::clone(runtime);
        threads.spawn("tick", move || {
            let raised = priority::raise(realtime_priority);
            ticking.ticks.priority.store(raised, Ordering::Relaxed);
            ticker::run(&ticking, &publisher).map_err(E::from)
        })?;
        let encoding = Arc::clone(runtime);
        threads.spawn("encode", move || workers::run(&encoding).map_err(E::from))?;
        Ok(threads)
    }

    /// Starts a thread, which must end when [`Runtime::stopping`] is true. Its error or panic is a
    /// failure. Threads are joined in the order in which they started.
    ///
    /// # Errors
    /// [`RuntimeError::Thread`]
    pub fn spawn(
        &mut self,
        name: &'static str,
        body: impl FnOnce() -> Result<(), E> + Send + 'static,
    ) -> Result<(), E> {
        let failures = self.failures.clone();
        let guarded = move || {
            let outcome = catch_unwind(AssertUnwindSafe(body));
            if let Err(error) = outcome.unwrap_or_else(|_| Err(RuntimeError::Panicked(name).into()))
            {
                // The receiver is dropped only when the threads are already ending.
                let _ = failures.send(error);
            }
        };
        let handle = std::thread::Builder::new().name(name.to_owned()).spawn(guarded);
        self.handles.push(handle.map_err(|source| RuntimeError::Thread { name, source })?);
        Ok(())
    }

    /// Waits for a thread to fail. The others go on until they are stopped. The caller may cancel
    /// the wait.
    pub async fn failure(&mut self) -> E {
        match self.failed.recv().await {
            Some(error) => error,
            // This never happens, because `failures` is a sender of the same channel.
            None => std::future::pending().await,
        }
    }

    /// Returns the failure of a thread, if one has failed.
    pub fn failed(&mut self) -> Option<E> {
        self.failed.try_recv().ok()
    }

    /// Ends and joins the threads.
    ///
    /// # Errors
    /// The first failure that the caller has not taken yet.
    pub fn stop(mut self) -> Result<(), E> {
        self.join();
        self.failed().map_or(Ok(()), Err)
    }
}

impl<E> Threads<E> {
    fn join(&mut self) {
        self.runtime.stop();
        for handle in self.handles.drain(..) {
            // A panic was caught inside the thread and has been reported.
            let _ = handle.join();
        }
    }
}

impl<E> Drop for Threads<E> {
    fn drop(&mut self) {
        self.join();
    }
}
