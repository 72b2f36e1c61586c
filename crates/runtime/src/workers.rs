//! The encode workers: push large messages. Each takes milliseconds.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use super::intake::MessageOrigin;
use super::queue::Taken;
use super::steps::{Found, Next, Steps};
use super::{Runtime, RuntimeError, queue};
use robocache_core::pipeline::NotTaken;
use robocache_core::spec::Config;

/// Time between two looks at the clock and at the messages that wait for a transform.
const LOOK: Duration = Duration::from_millis(50);

/// An encode worker: pushes the messages in the queue, until it is closed. Several workers share the queue.
pub(crate) struct Worker<'a> {
    runtime: &'a Runtime,
    /// When the worker looks again at what needs no message; `None` if another one does.
    look: Option<Instant>,
}

impl<'a> Worker<'a> {
    /// Pushes the messages of a runtime. If it `looks`, it also drops the messages that have waited for too long, and
    /// notices a jump of the clock if no message shows it.
    pub(crate) fn new(runtime: &'a Runtime, looks: bool) -> Self {
        Worker { runtime, look: looks.then(|| runtime.time.monotonic()) }
    }

    /// Waits for a message, at most until an instant.
    pub(crate) fn wait(&mut self, until: Option<Instant>) {
        // After a message the next step is due at once: no thread that puts messages waits for the queue's lock.
        if until.is_some_and(|instant| instant <= self.runtime.time.monotonic()) {
            return;
        }
        self.runtime.queue.wait(until);
    }
}

impl Steps for Worker<'_> {
    type Error = RuntimeError;

    /// Pushes a message.
    fn step(&mut self) -> Result<Next, RuntimeError> {
        let runtime = self.runtime;
        if let Some(at) = self.look
            && at <= runtime.time.monotonic()
        {
            give_up(runtime);
            self.look = Some(runtime.time.monotonic() + LOOK);
        }
        match runtime.queue.take() {
            Found::Work(taken) => {
                let began = runtime.time.monotonic();
                push(runtime, taken, began)?;
                Ok(Next::At(began))
            }
            Found::Nothing => Ok(self.look.map_or(Next::Woken, Next::At)),
            Found::Closed => Ok(Next::Done),
        }
    }
}

/// Pushes a message that a worker took at `since`.
fn push(runtime: &Runtime, taken: Taken<'_>, since: Instant) -> Result<(), RuntimeError> {
    let message = &taken.message;
    match runtime.push(MessageOrigin::of(message), (*message.bytes).as_ref(), message.arrival) {
        Ok(taken) => runtime.observer.pushed(message, taken.stamp, since),
        Err(NotTaken::Dropped(_)) => runtime.observer.pushed(message, None, since),
        Err(NotTaken::Waits(need)) => runtime.wait(taken.into_message(), *need)?,
        Err(NotTaken::Failed(error)) => return Err(error),
    }
    Ok(())
}

/// Drops the messages that have waited for too long, and those from before a jump of the clock.
fn give_up(runtime: &Runtime) {
    if let Some(now) = runtime.clock.now() {
        runtime.meet(now.epoch);
        runtime.give_up(now);
    }
}

/// Returns how many workers a configuration can use on a machine with this many processors: one
/// for each stream of large messages. One processor is left for ticks and small messages.
pub(crate) fn usual_count(config: &Config, cores: usize) -> usize {
    let lanes = queue::lanes(config);
    let large = config.input_ids().filter(|id| config.input(*id).is_large());
    let busy: HashSet<usize> = large.map(|id| lanes[id.index()]).collect();
    busy.len().clamp(1, cores.saturating_sub(1).max(1))
}

#[cfg(test)]
mod tests;
