//! The encode workers: push large messages. Each takes milliseconds.

use std::collections::HashSet;
use std::time::Duration;

use super::intake::MessageOrigin;
use super::queue::{Next, Taken};
use super::{Runtime, RuntimeError, queue};
use robocache_core::pipeline::NotTaken;
use robocache_core::spec::Config;

/// Time between two looks at the clock and at the messages that wait for a transform.
const LOOK: Duration = Duration::from_millis(50);

/// Pushes the messages in the queue until the runtime stops. Several workers share the queue. One of
/// them, which `looks`, also drops the messages that have waited for too long, and notices a jump of the clock if no message
/// shows it.
pub(crate) fn run(runtime: &Runtime, looks: bool) -> Result<(), RuntimeError> {
    let time = &runtime.time;
    let mut look = looks.then(|| time.monotonic());
    loop {
        if let Some(at) = look
            && at <= time.monotonic()
        {
            give_up(runtime);
            look = Some(time.monotonic() + LOOK);
        }
        match runtime.queue.take_until(look) {
            Next::Message(taken) => push(runtime, taken)?,
            Next::Nothing => {}
            Next::Closed => return Ok(()),
        }
    }
}

fn push(runtime: &Runtime, taken: Taken<'_>) -> Result<(), RuntimeError> {
    let (since, message) = (runtime.time.monotonic(), &taken.message);
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
