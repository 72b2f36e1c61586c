//! A runtime without threads: the caller has the clock, gives messages and asks for ticks, from any thread.

use super::health::holding;
use super::intake::MessageOrigin;
use super::queue::Message;
use super::{Clock, Reading, Runtime, RuntimeError, TimeSource, fuse};
use robocache_core::message::TensorMessage;
use robocache_core::pipeline::{Accepted, ArraySample, Arrival, NotTaken, Pipeline, TickOutcome};
use robocache_core::rejected::{DropReason, Rejected};
use robocache_core::sample::Header;
use robocache_core::spec::InputId;
use robocache_ops::time::Epoch;

impl Runtime {
    /// Makes a runtime for a caller that has a clock and threads of its own.
    pub fn direct(pipeline: Pipeline, time: TimeSource) -> Self {
        let clock = Clock::recorded(pipeline.config().grid, time);
        Runtime::new(pipeline, clock).without_workers()
    }

    /// Takes a message and returns its outcome. The calling thread encodes it, also if it is large.
    ///
    /// # Errors
    /// [`NotTaken::Waits`] if the runtime keeps the message until a transform comes; otherwise as
    /// [`Pipeline::push`].
    pub fn give(
        &self,
        input: InputId,
        bytes: &[u8],
        arrival: Arrival,
    ) -> Result<Accepted, NotTaken<RuntimeError>> {
        let from = MessageOrigin::from(input);
        let pushed = match self.input_spec(input).feeds_tree() {
            true => self.receive_transforms(from, bytes, arrival),
            false => self.push(from, bytes, arrival),
        };
        if let Err(NotTaken::Waits(need)) = &pushed {
            let bytes = Box::new(bytes.to_vec());
            let need = (**need).clone();
            let message =
                Message { input, publisher: None, number: 0, again: false, bytes, arrival };
            self.wait(message, need).map_err(NotTaken::Failed)?;
        }
        pushed
    }

    /// Takes a sample that comes from no message, as [`Runtime::give`] takes a message. It waits for no transform:
    /// if one that it needs has not come, it is dropped.
    ///
    /// # Errors
    /// [`NotTaken::Dropped`] or [`NotTaken::Failed`], as [`Pipeline::push`].
    pub fn give_sample(
        &self,
        input: InputId,
        header: &Header<'_>,
        sample: &ArraySample<'_>,
        arrival: Arrival,
    ) -> Result<Accepted, NotTaken<RuntimeError>> {
        let pushed = self.pipeline.push_sample(input, header, sample, arrival);
        match self.note_pushed(MessageOrigin::from(input), arrival, pushed) {
            Err(NotTaken::Waits(_)) => {
                self.pipeline.drop_unseen(input, DropReason::NoTransform);
                let detail = "a transform that the sample needs has not come yet";
                Err(Rejected::new(DropReason::NoTransform, detail).into())
            }
            pushed => pushed,
        }
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
        let due = Reading { stamp, epoch, since: self.time.monotonic() };
        self.give_up(due);
        let outcome = fuse::fuse(self, number, epoch, message)?;
        holding::log(self);
        self.ticks.published.add(u64::from(outcome == TickOutcome::Ready));
        Ok(outcome)
    }
}
