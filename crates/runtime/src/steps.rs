//! Loops as steps: what a thread does again and again, cut at the one place where it waits.
//!
//! A step waits for no other loop, although a call of the middleware in it may take a while. It reads the time from the
//! node's [`TimeSource`](super::TimeSource), and says when the next one is due. So a thread runs a loop ([`drive`]), and a simulation steps many loops on one virtual time without threads.

use std::time::Instant;

/// Instant or event after which a loop takes its next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// At this instant of the monotonic clock, or earlier if something wakes the loop. It may have passed.
    At(Instant),
    /// When something wakes the loop.
    Woken,
    /// Never: the loop has ended.
    Done,
}

/// A loop as steps. A step that comes too early does no harm.
pub trait Steps {
    /// Error that ends the loop.
    type Error;

    /// Does what is due now, without a wait.
    ///
    /// # Errors
    /// The loop cannot go on.
    fn step(&mut self) -> Result<Next, Self::Error>;
}

/// Result of a look into the place that a loop takes its work from.
#[derive(Debug)]
pub(crate) enum Found<T> {
    /// Work.
    Work(T),
    /// Nothing for now.
    Nothing,
    /// The end: there is nothing now and later.
    Closed,
}

/// Runs a loop on the calling thread until it is done. `wait` waits until an instant, or for ever without one, and ends
/// early if something wakes the loop. It may also end for no reason.
///
/// # Errors
/// That of a step.
pub fn drive<S: Steps>(
    steps: &mut S,
    mut wait: impl FnMut(&mut S, Option<Instant>),
) -> Result<(), S::Error> {
    loop {
        match steps.step()? {
            Next::At(instant) => wait(steps, Some(instant)),
            Next::Woken => wait(steps, None),
            Next::Done => return Ok(()),
        }
    }
}
