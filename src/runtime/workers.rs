//! The encode worker: pushes large messages. Each takes milliseconds.

use std::time::Instant;

use super::{Runtime, RuntimeError};

/// Pushes the messages in the queue until the runtime stops.
pub fn run(runtime: &Runtime) -> Result<(), RuntimeError> {
    while let Some(message) = runtime.queue.take() {
        let since = Instant::now();
        let from = (message.input, message.publisher);
        let row = runtime.push(from, (*message.bytes).as_ref(), message.arrival)?;
        runtime.observer.pushed(&message, row, since);
    }
    Ok(())
}
