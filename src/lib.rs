//! The ROS 2 edge: subscriptions, publishers, parameters, logs. It gives received messages to the
//! [`runtime`](robocache_runtime), and publishes the runtime's tensors and reports.
//!
//! All of it uses [`robocache_rcl`], a safe wrapper of ROS's own C library. The node has three layers. Each adds to the
//! one before, and gives back what it added:
//!
//! - [`base`]: what the node has in every state, its connection to the middleware.
//! - [`configured`]: what a configuration needs, its memory and its publishers.
//! - [`active`]: a stretch of work, its subscriptions and ticks.
//!
//! [`manager`] adds them: at the start, or at the requests to a managed node ([`lifecycle`]).
//!
//! The threads, beside those of the runtime:
//!
//! - *spin* ([`Spinner`](robocache_link::Spinner)) takes small messages from the middleware.
//! - *spin large* takes images and clouds.
//! - *graph* ([`GraphWatch`](robocache_link::GraphWatch)) reads the publishers of the inputs.
//! - *serve* ([`server`]) answers requests.
//! - *report* ([`report`], [`diagnostics`], [`health_file`], [`rosout`]) publishes diagnostics and logs, and asks for a new
//!   connection if the middleware may have cut the node off.
//! - *connect* ([`connection`]) makes that connection, and ends the one before.
//! - *main* ([`run`]) watches signals and failures, and does nothing that could wait for the middleware. It lets another
//!   thread work on each transition, one at a time.
//!
//! What decides about connections is in [`robocache_link`], which knows no ROS. [`link`] gives it those of rcl.
//!
//! [`fastdds`] has what only Fast DDS needs: shared memory for large messages.
//!
//! With the parameter `visualize_hz`, a thread *show* ([`show`]) publishes images and grids for
//! people.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

mod active;
mod args;
mod base;
mod commander;
mod configured;
mod connection;
mod console;
mod diagnostics;
mod end;
mod episodes;
mod error;
mod fastdds;
mod health_file;
mod info;
mod lifecycle;
mod link;
mod manager;
mod middleware;
mod output;
mod param_services;
mod param_store;
mod params;
mod recording;
mod report;
mod requests;
mod rosout;
mod server;
mod shared;
mod show;
mod signals;

use std::time::Duration;

pub use args::{Invocation, RosArgs, help, log_filter, parse as parse_args};
pub use console::Console;
pub use error::NodeError;
pub use fastdds::{begin_node, ensure_profile, segment_warning};
pub use rosout::{Records, RosoutLayer, layer as rosout_layer};
pub use signals::Signals;

use manager::{Incident, Manager};
use recording::Recording;
use robocache_runtime::TimeSource;
use tokio::task::{JoinHandle, spawn_blocking};

/// Runs the node until a signal comes or something fails. `time` is the source of all its time. A failure is logged before this returns, on stderr
/// and, if the node exists, on `/rosout`.
///
/// The calling thread only watches signals and failures, from the first moment to the last. All that waits for
/// the middleware is done by other threads.
///
/// # Errors
/// Says why the node did not start, or why it stopped. After [`NodeError::Hangs`] the caller must end the
/// process, because a thread does not end.
pub async fn run(
    records: Records,
    signals: &mut Signals,
    time: TimeSource,
) -> Result<(), NodeError> {
    let limit = end::limit().inspect_err(|error| tracing::error!("{error}"))?;
    let recording = Recording::new(limit);
    let of_node = recording.clone();
    let starting = spawn_blocking(move || Manager::start(records, of_node, time));
    let outcome = run_node(starting, &mut Ending { signals, limit }).await;
    // Also if a thread of the node does not end. The process ends either way.
    let _ = spawn_blocking(move || recording.finish()).await;
    outcome
}

/// The signals, and how long the node may take after one.
struct Ending<'a> {
    signals: &'a mut Signals,
    limit: Duration,
}

/// Runs the node as [`run`] does, without the end of the recording.
async fn run_node(
    starting: JoinHandle<Result<Manager, NodeError>>,
    ending: &mut Ending<'_>,
) -> Result<(), NodeError> {
    let (started, must_end) = ending.until_signal(starting, "the node has not begun yet").await?;
    let mut manager = started?;
    if must_end {
        return ending.end(manager).await;
    }
    loop {
        let incident = tokio::select! {
            // A transition that clients have heard of comes first.
            biased;
            incident = manager.next() => incident,
            why = ending.signals.next() => {
                tracing::info!("{why}: shutting down");
                return ending.end(manager).await;
            }
        };
        let changing = match incident {
            Incident::Broken(error) => {
                tracing::error!("{error}");
                ending.end(manager).await?;
                return Err(error);
            }
            Incident::Ordered(order) => spawn_blocking(move || {
                manager.obey(order);
                manager
            }),
            Incident::Fault(error) => spawn_blocking(move || {
                manager.fail(error);
                manager
            }),
        };
        let changed = ending.until_signal(changing, "a transition is under way").await?;
        let must_end;
        (manager, must_end) = changed;
        if must_end {
            return ending.end(manager).await;
        }
    }
}

impl Ending<'_> {
    /// Waits for work on another thread. If a signal comes, says what it interrupts, and waits as [`Self::in_time`] does:
    /// the work must end in order, because shared memory that is left unfinished would stop the next process. Also returns
    /// whether a signal came.
    async fn until_signal<T>(
        &mut self,
        mut work: JoinHandle<T>,
        what: &str,
    ) -> Result<(T, bool), NodeError> {
        tokio::select! {
            done = &mut work => match done {
                Ok(done) => Ok((done, false)),
                Err(_) => {
                    tracing::error!("{}", NodeError::Panicked);
                    Err(NodeError::Panicked)
                }
            },
            why = self.signals.next() => {
                tracing::info!("{why}: shutting down; {what}");
                Ok((self.in_time(work).await?, true))
            }
        }
    }

    /// Ends the node on another thread.
    async fn end(&mut self, manager: Manager) -> Result<(), NodeError> {
        self.in_time(spawn_blocking(move || drop(manager))).await
    }

    /// Waits for work on another thread, until the next signal and at most for the limit.
    async fn in_time<T>(&mut self, work: JoinHandle<T>) -> Result<T, NodeError> {
        tokio::select! {
            done = work => return done.map_err(|_| NodeError::Panicked),
            why = self.signals.next() => tracing::info!("{why} again"),
            () = tokio::time::sleep(self.limit) => {}
        }
        tracing::error!("{}", NodeError::Hangs);
        Err(NodeError::Hangs)
    }
}
