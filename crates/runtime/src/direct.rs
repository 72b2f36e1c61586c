//! A runtime without threads: the caller has the clock, gives messages and asks for ticks, from any thread.

use std::time::Instant;

use super::intake::{MessageOrigin, Pushed};
use super::queue::Message;
use super::{Clock, Reading, Runtime, RuntimeError, ticker};
use robocache_core::message::TensorMessage;
use robocache_core::pipeline::{Accepted, ArraySample, Arrival, Pipeline, TickOutcome};
use robocache_core::rejected::{DropReason, Rejected};
use robocache_core::sample::Header;
use robocache_core::spec::{InputId, Selection};
use robocache_ops::time::Epoch;

/// What became of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Given {
    /// It was taken.
    Taken(Accepted),
    /// It was dropped, and counted.
    Dropped(Rejected),
    /// It waits for a transform that may still come.
    Waits,
}

impl Runtime {
    /// Makes a runtime for a caller that has a clock and threads of its own.
    pub fn direct(pipeline: Pipeline) -> Self {
        let clock = Clock::recorded(pipeline.config().grid);
        Runtime { has_workers: false, ..Runtime::new(pipeline, clock) }
    }

    /// Takes a message and tells what became of it. The calling thread encodes it, also if it is large.
    ///
    /// # Errors
    /// The backend failed.
    pub fn give(
        &self,
        input: InputId,
        bytes: &[u8],
        arrival: Arrival,
    ) -> Result<Given, RuntimeError> {
        let from = MessageOrigin::from(input);
        let pushed = match self.input_spec(input).selection {
            Selection::Transforms { .. } => self.receive_transforms(from, bytes, arrival)?,
            _ => self.push(from, bytes, arrival)?,
        };
        Ok(match pushed {
            Pushed::Taken(accepted) => Given::Taken(accepted),
            Pushed::Dropped(rejected) => Given::Dropped(rejected),
            Pushed::Waits(need) => {
                let bytes = Box::new(bytes.to_vec());
                let message = Message { input, publisher: None, number: 0, bytes, arrival };
                self.wait(message, *need)?;
                Given::Waits
            }
        })
    }

    /// Takes a sample that comes from no message, as [`Runtime::give`] takes a message. It waits for no transform:
    /// if one that it needs has not come, it is dropped.
    ///
    /// # Errors
    /// The backend failed.
    pub fn give_sample(
        &self,
        input: InputId,
        header: &Header<'_>,
        sample: &ArraySample<'_>,
        arrival: Arrival,
    ) -> Result<Given, RuntimeError> {
        let pushed = self.pipeline.push_sample(input, header, sample, arrival);
        Ok(match self.note_pushed(MessageOrigin::from(input), arrival, pushed)? {
            Pushed::Taken(accepted) => Given::Taken(accepted),
            Pushed::Dropped(rejected) => Given::Dropped(rejected),
            Pushed::Waits(_) => {
                self.pipeline.drop_unseen(input, DropReason::NoTransform);
                let detail = "a transform that the sample needs has not come yet";
                Given::Dropped(Rejected::new(DropReason::NoTransform, detail))
            }
        })
    }

    /// Fuses a tick of an epoch into `message`, and counts it.
    ///
    /// # Errors
    /// The backend failed.
    pub fn tick(
        &self,
        number: i64,
        epoch: Epoch,
        message: &mut TensorMessage,
    ) -> Result<TickOutcome, RuntimeError> {
        let stamp = self.pipeline.config().grid.stamp_of(number);
        let due = Reading { stamp, epoch, since: Instant::now() };
        self.give_up(due);
        let outcome = ticker::fuse(self, number, due, message)?;
        self.ticks.published.add(u64::from(outcome == TickOutcome::Ready));
        Ok(outcome)
    }
}
