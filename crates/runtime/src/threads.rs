//! Starts, watches and ends the threads.

use std::convert::Infallible;
use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::commanding::Commanding;
use super::commands::{CommandEnds, Commands};
use super::fuse::Fuse;
use super::priority::WorkWords;
use super::publishing::Publishing;
use super::state::TickStats;
use super::steps::{Next, Steps, drive};
use super::ticker::{TickLoop, Ticker};
use super::workers::{self, Worker};
use super::{Placement, Publisher, Runtime, RuntimeError};

/// How the runtime's own threads run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadOptions {
    /// The command thread.
    pub command: Placement,
    /// The tick thread. The publishing thread has the next lower real-time priority.
    pub tick: Placement,
    /// The processors of the publishing thread; empty for all. If neither this thread nor the tick thread has
    /// any, and both have real-time priority, it runs where the tick thread does.
    pub publish_cpus: Vec<usize>,
    /// The encode workers.
    pub encode: Placement,
    /// Number of the encode workers; `None`: as many as the configuration can use and the machine
    /// has processors for.
    pub encode_threads: Option<usize>,
}

/// The names of the encode workers' threads; further ones have the last name.
const ENCODE: [&str; 8] =
    ["encode", "encode 1", "encode 2", "encode 3", "encode 4", "encode 5", "encode 6", "encode 7"];

/// The loops of a runtime, each with its grid and its thread.
fn loops(
    runtime: &Runtime,
    commander: Option<CommandEnds>,
    options: &ThreadOptions,
) -> Vec<TickLoop> {
    let fuse = TickLoop {
        name: TickStats::THREAD,
        runs: "ticks run",
        work: WorkWords { name: "of a tick", relief: "lower rate_hz or the size of the tensor" },
        grid: runtime.pipeline.config().grid,
        placement: options.tick.clone(),
        does: Box::<Fuse>::default(),
    };
    let command = |(commands, ends): (&Commands, _)| TickLoop {
        name: Commands::THREAD,
        runs: "command ticks run",
        work: WorkWords { name: "of a command tick", relief: "lower commands.rate_hz" },
        grid: commands.spec.grid,
        placement: options.command.clone(),
        does: Box::new(Commanding::new(commands, ends)),
    };
    let commands = runtime.commands.as_deref().zip(commander).map(command);
    std::iter::once(fuse).chain(commands).collect()
}

/// A loop of a runtime without its thread. Its user steps it.
pub struct SteppedLoop<'a> {
    /// Name of the thread that it would have.
    pub name: &'static str,
    /// The loop.
    pub steps: Box<dyn Steps<Error = RuntimeError> + 'a>,
}

/// Returns the loops of a runtime that [`Threads::start`] would start, for a user that steps them on virtual time. There
/// are `encode_workers` of large messages.
///
/// The outbox, the queue and a simulator's clock wake threads. So the user also steps each loop a moment after another
/// one that may have left work for it: a step that comes too early does no harm.
pub fn stepped_loops<'a>(
    runtime: &'a Runtime,
    publisher: impl Publisher + 'a,
    commander: Option<CommandEnds>,
    encode_workers: usize,
) -> Vec<SteppedLoop<'a>> {
    let ticks = loops(runtime, commander, &ThreadOptions::default());
    let mut all: Vec<_> = ticks
        .into_iter()
        .map(|of| SteppedLoop { name: of.name, steps: Box::new(Ticker::new(of, runtime, 0)) })
        .collect();
    let publishing = Unfailing(Publishing::new(runtime, publisher, 0));
    all.push(SteppedLoop { name: "publish", steps: Box::new(publishing) });
    for k in 0..encode_workers.max(1) {
        let worker = Worker::new(runtime, k == 0);
        all.push(SteppedLoop { name: ENCODE[k.min(ENCODE.len() - 1)], steps: Box::new(worker) });
    }
    all
}

/// A loop that does not fail, among others that may.
struct Unfailing<S>(S);

impl<S: Steps<Error = Infallible>> Steps for Unfailing<S> {
    type Error = RuntimeError;

    fn step(&mut self) -> Result<Next, RuntimeError> {
        let Ok(next) = self.0.step();
        Ok(next)
    }
}

/// The running threads. A drop ends and joins them. `E` is the error of a thread.
pub struct Threads<E> {
    stop: Box<dyn Fn() + Send + Sync>,
    handles: Vec<JoinHandle<()>>,
    failures: UnboundedSender<E>,
    failed: UnboundedReceiver<E>,
}

impl<E: From<RuntimeError> + Send + 'static> Threads<E> {
    /// No threads so far. `stop` asks those that [`Threads::spawn`] starts to end.
    pub fn new(stop: impl Fn() + Send + Sync + 'static) -> Self {
        let (failures, failed) = unbounded_channel();
        Threads { stop: Box::new(stop), handles: Vec::new(), failures, failed }
    }

    /// Starts the runtime's own threads. [`Runtime::stop`] ends them. `commander` sends the commands; without it there are
    /// none.
    ///
    /// # Errors
    /// [`RuntimeError::Thread`]
    pub fn start(
        runtime: &Arc<Runtime>,
        publisher: impl Publisher + 'static,
        commander: Option<CommandEnds>,
        options: ThreadOptions,
    ) -> Result<Self, E> {
        let stopped = Arc::clone(runtime);
        let mut threads = Threads::new(move || stopped.stop());
        let tick_loops = loops(runtime, commander, &options);
        let ThreadOptions { tick, publish_cpus, encode, encode_threads, command: _ } = options;
        // Below the tick thread, so that a tick never waits for a publication. A priority of 1 has
        // none below.
        let priority = tick.priority.saturating_sub(1).max(tick.priority.min(1));
        let follows = tick.cpus.is_empty() && publish_cpus.is_empty();
        let publish = Placement { priority, cpus: publish_cpus };
        for tick_loop in tick_loops {
            let ticking = Arc::clone(runtime);
            threads.spawn(tick_loop.name, move || tick_loop.run(&ticking).map_err(E::from))?;
        }
        let publishing = Arc::clone(runtime);
        threads.spawn("publish", move || {
            let priority = publish.apply("tensors are published");
            if follows {
                publishing.companion.follow();
            }
            let mut publishing = Publishing::new(&publishing, publisher, priority);
            let Ok(()) = drive(&mut publishing, |_, until| {
                // With an instant, the next step is due at once.
                if until.is_none() {
                    std::thread::park();
                }
            });
            publishing.end();
            Ok(())
        })?;
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        let usual = workers::usual_count(runtime.pipeline.config(), cores);
        for k in 0..encode_threads.unwrap_or(usual).max(1) {
            let encoding = Arc::clone(runtime);
            let encode = encode.clone();
            threads.spawn(ENCODE[k.min(ENCODE.len() - 1)], move || {
                encode.apply("images and clouds are encoded");
                let mut worker = Worker::new(&encoding, k == 0);
                drive(&mut worker, Worker::wait).map_err(E::from)
            })?;
        }
        Ok(threads)
    }

    /// Starts a thread, which must end when it was asked to ([`Runtime::stopping`]). Its error or panic is a
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
            robocache_ops::device::own_thread();
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
        (self.stop)();
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

#[cfg(test)]
mod tests;
