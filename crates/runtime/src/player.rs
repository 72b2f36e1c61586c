//! Runs recorded messages through a runtime, without threads and without waiting.
//!
//! The player does what a live node does with the same messages, at the same instants:
//!
//! - Without `/clock`, the node's clock is that of the recorder. Ticks are at the multiples of their period,
//!   from the first instant to the last. A tick sees every message that was received before it or at its
//!   instant. A live node may see less, if a message came so shortly before the tick that it was not yet a
//!   row. A lag prevents that (`docs/replay.md`).
//! - With `/clock`, its messages set the clock, and each serves the newest tick that it makes due.
//!
//! With commands, command ticks are due in the same way, on their own grid.
//!
//! The result depends on the messages alone, also if threads encode ([`Player::with_threads`]).

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::clock::{Clock, Reading, RecordedClock, Transit};
use super::encode_threads::{EncodeThreads, LookAhead, RecordedArray, Ticket};
use super::health::holding;
use super::queue::Message;
use super::schedule::{Schedule, Step};
use super::{OfferedQos, Recorder, Runtime, RuntimeError, TimeSource, fuse};
use robocache_core::message::TensorMessage;
use robocache_core::pipeline::{Arrival, NotTaken, Pipeline, TickOutcome};
use robocache_core::spec::InputId;
use robocache_ops::time::{Epoch, NANOS_PER_S, Stamp, TickGrid};

/// When a recorded message was received and published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// The arrival, on the recorder's system clock.
    pub at: Stamp,
    /// The publication, on the publisher's system clock; `None` if the recording does not tell.
    pub published: Option<Stamp>,
    /// How long the message had waited for the recorder before that \[ns\]; 0 if the recording does not
    /// tell. Under `timeline: receive` its row is so much earlier, and ticks see it from its arrival on.
    pub waited_ns: i64,
}

impl Received {
    /// A message whose time of publication is unknown.
    pub fn at(at: Stamp) -> Self {
        Received { at, published: None, waited_ns: 0 }
    }

    fn transit(self) -> Transit {
        Transit {
            published_ns: self.published.map(Stamp::nanos),
            arrived_ns: Some(self.at.offset(-self.waited_ns).nanos()),
        }
    }
}

/// The outcome of a tick.
pub enum Served<'a> {
    /// Its tensor, which the receiver may seal.
    Tensor(Tick, &'a mut TensorMessage),
    /// A required stream was not valid.
    HeldBack(Tick),
    /// A command tick, of a player with commands ([`Player::with_commands`]). The runtime has the measured values, and knows
    /// which ticks were served.
    Commands(CommandDue, &'a Runtime),
}

/// A tick of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tick {
    /// Its number.
    pub number: i64,
    /// The epoch of the clock.
    pub epoch: Epoch,
    /// When it was due, on the recorder's clock.
    pub at: Stamp,
    /// How many changes of the rings it saw.
    pub changes: u64,
}

/// A command tick of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandDue {
    /// Its number.
    pub tick: i64,
    /// The epoch of the clock.
    pub epoch: Epoch,
    /// When it was due, on the recorder's clock.
    pub at: Stamp,
}

/// Runs recorded messages through a pipeline, as the [module](self) says.
pub struct Player {
    /// The threads that encode, or `None`.
    encoders: Option<EncodeThreads>,
    runtime: Arc<Runtime>,
    /// Made for the first tick, because its memory may be pinned. Without ticks none is made.
    message: Option<TensorMessage>,
    progress: Progress,
    /// The next command tick; `None` without commands.
    commands: Option<(TickGrid, Progress)>,
    /// The receive stamp of the first message, and its instant on the monotonic clock.
    start: Option<(Stamp, Instant)>,
    /// True if the player makes tensors.
    ticks: bool,
    /// The epoch of the newest message.
    epoch: Epoch,
    /// On the recorder's clock: before that, no tick is served. Messages only fill the rings.
    begins: Stamp,
}

/// After a longer time without a message \[ns\], the recorder's clock counts as set ahead: there are no
/// ticks in between. One wrong stamp would otherwise give ticks for years.
const MAX_SILENCE_NS: i64 = 600 * NANOS_PER_S;

/// The next tick, and the clock that it is due by.
enum Progress {
    /// The recorder's clock, the epoch, and the next tick in it. `None` before the first message.
    Recorded(Arc<RecordedClock>, Option<(Epoch, i64)>),
    /// The simulator's clock of the runtime.
    Simulated(Schedule),
}

impl Progress {
    /// Progress before the first message, by the clock of `self`, for ticks of another grid.
    fn of_other_grid(&self, grid: TickGrid) -> Self {
        match self {
            Progress::Recorded(clock, _) => Progress::Recorded(Arc::clone(clock), None),
            Progress::Simulated(_) => Progress::Simulated(Schedule::new(grid, false)),
        }
    }

    /// Goes on with this tick of an epoch, or a later one if some of the epoch were served. A simulator's clock has its own
    /// schedule.
    fn go_on(&mut self, now: Epoch, tick: i64) {
        let Progress::Recorded(_, next) = self else { return };
        *next = Some(match *next {
            Some((epoch, next)) if !epoch.is_before(now) => (epoch, tick.max(next)),
            _ => (now, tick),
        });
    }
}

/// The tick that a reading of a simulator's clock makes due, and how many were missed before it.
fn due(schedule: &mut Schedule, now: Reading) -> Option<(i64, u64)> {
    // The first look at a clock only says where the ticks begin.
    let step = match schedule.advance(now) {
        Step::Wait(until) if until <= now.stamp => schedule.advance(now),
        step => step,
    };
    match step {
        Step::Serve { tick, missed } => Some((tick, missed)),
        _ => None,
    }
}

impl Player {
    /// A player for a pipeline. `simulated`: whether messages on `/clock` set its clock. `time` is the source of the
    /// runtime's time.
    pub fn new(pipeline: Pipeline, simulated: bool, time: TimeSource) -> Self {
        let grid = pipeline.config().grid;
        let (clock, progress) = match simulated {
            true => (Clock::simulated(grid, time), Progress::Simulated(Schedule::new(grid, false))),
            false => {
                let clock = Arc::new(RecordedClock::new(grid, time));
                (Clock::Recorded(Arc::clone(&clock)), Progress::Recorded(clock, None))
            }
        };
        let runtime = Runtime::new(pipeline, clock).without_workers();
        Player {
            encoders: None,
            runtime: Arc::new(runtime),
            message: None,
            progress,
            commands: None,
            start: None,
            ticks: true,
            epoch: Epoch::default(),
            begins: Stamp::MIN,
        }
    }

    /// Makes the player compute no tensors: for those who want the rows alone.
    pub fn without_ticks(self) -> Self {
        Player { ticks: false, ..self }
    }

    /// Adds the command ticks of the configuration, if it has commands; before any threads.
    #[must_use]
    pub fn with_commands(mut self) -> Self {
        if let Some(runtime) = Arc::get_mut(&mut self.runtime) {
            runtime.add_commands();
            let grid = runtime.commands.as_ref().map(|commands| commands.spec.grid);
            self.commands = grid.map(|grid| (grid, self.progress.of_other_grid(grid)));
        }
        self
    }

    /// Leaves out ticks before an instant of the recorder's clock: earlier messages fill the rings.
    #[must_use]
    pub fn beginning_at(self, begins: Stamp) -> Self {
        Player { begins, ..self }
    }

    /// Adds a recorder of what the player does; before any threads.
    pub fn with_recorder(mut self, recorder: Arc<dyn Recorder>) -> Self {
        if let Some(runtime) = Arc::get_mut(&mut self.runtime) {
            runtime.recorder = Some(recorder);
        }
        self
    }

    /// Adds at most this many threads that encode images and clouds. The messages of [`Player::look_ahead`] are encoded
    /// before their turn.
    ///
    /// # Errors
    /// The system starts no thread.
    pub fn with_threads(self, threads: usize) -> Result<Self, RuntimeError> {
        Ok(Player { encoders: EncodeThreads::start(&self.runtime, threads)?, ..self })
    }

    /// Makes the messages of these inputs latched, as their publishers offered; before any threads.
    pub fn with_latched(self, inputs: &[InputId]) -> Self {
        for input in inputs {
            let asks = &self.runtime.input(*input).asks;
            asks.set(OfferedQos { transient_local: true, ..asks.get() });
        }
        self
    }

    /// From now on no message is latched.
    pub fn end_latched(&self) {
        for input in self.runtime.inputs() {
            let asks = &self.runtime.input(input).asks;
            asks.set(OfferedQos { transient_local: false, ..asks.get() });
            self.runtime.forget_latched(input);
        }
    }

    /// Waits until all messages that were received are rows.
    ///
    /// # Errors
    /// The backend failed.
    pub fn settle(&self) -> Result<(), RuntimeError> {
        self.encoders.as_ref().map_or(Ok(()), EncodeThreads::wait)
    }

    /// The runtime, for its counters.
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// Starts the ticks at this instant, if the clock is the recorder's. Without this they start with the
    /// first message.
    ///
    /// # Errors
    /// As for [`Player::receive`].
    pub fn start<E: From<RuntimeError>>(
        &mut self,
        first: Stamp,
        serve: &mut impl FnMut(Served<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.serve_before(first, serve)
    }

    /// Takes the next message of an input. Messages come in the order in which they were received. First
    /// serves the ticks before it; `serve` may end the run with an error.
    ///
    /// # Errors
    /// That of `serve`, or the backend failed.
    pub fn receive<E: From<RuntimeError>>(
        &mut self,
        input: InputId,
        bytes: impl AsRef<[u8]> + Send + Sync + 'static,
        received: Received,
        serve: &mut impl FnMut(Served<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let arrival = self.arrival(input, received, serve)?;
        match &self.encoders {
            Some(encoders) if encoders.pushes(input) => {
                let bytes = Box::new(bytes);
                Ok(encoders.put(Message {
                    input,
                    publisher: None,
                    number: 0,
                    again: false,
                    bytes,
                    arrival,
                })?)
            }
            _ => Ok(self.runtime.receive(input, bytes, arrival)?),
        }
    }

    /// Receives an array in place of a message, as [`Player::receive`]. It waits for no transform.
    ///
    /// # Errors
    /// As for [`Player::receive`].
    pub fn receive_array<E: From<RuntimeError>>(
        &mut self,
        input: InputId,
        array: &impl RecordedArray,
        received: Received,
        serve: &mut impl FnMut(Served<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let arrival = self.arrival(input, received, serve)?;
        self.runtime.meet(arrival.epoch);
        let (header, sample) = array.read();
        match self.runtime.give_sample(input, &header, &sample, arrival) {
            Err(NotTaken::Failed(error)) => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Receives a message that a thread has begun to encode.
    ///
    /// # Errors
    /// As for [`Player::receive`].
    pub fn receive_ahead<E: From<RuntimeError>>(
        &mut self,
        ticket: Ticket,
        received: Received,
        serve: &mut impl FnMut(Served<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let arrival = self.arrival(ticket.input(), received, serve)?;
        let Some(encoders) = &self.encoders else { return Ok(()) };
        let encoded = encoders.encoded(ticket)?;
        let pushed = self.runtime.push_ahead(ticket.input(), encoded, arrival);
        encoders.pushed(ticket);
        Ok(pushed?)
    }

    /// Takes messages before their turn; `None` without threads.
    pub fn look_ahead(&self) -> Option<LookAhead> {
        self.encoders.as_ref().map(EncodeThreads::look_ahead)
    }

    /// The arrival of the next message. First serves the ticks before it.
    fn arrival<E: From<RuntimeError>>(
        &mut self,
        input: InputId,
        received: Received,
        serve: &mut impl FnMut(Served<'_>) -> Result<(), E>,
    ) -> Result<Arrival, E> {
        self.serve_before(received.at, serve)?;
        let at = self.instant_of(received.at);
        let arrival = self.runtime.arrival_at(input, received.transit(), at);
        let arrival = Arrival { seen_from: Some(self.seen_from(arrival)), ..arrival };
        if arrival.epoch != self.epoch {
            self.settle()?;
            self.epoch = arrival.epoch;
        }
        Ok(arrival)
    }

    /// From when on ticks see what a message becomes: its arrival, but after the newest tick that was served and
    /// not after the next one. They differ where a simulator's clock takes large steps, or the recorder's was set
    /// back a little.
    fn seen_from(&self, arrival: Arrival) -> Stamp {
        let next = match &self.progress {
            Progress::Recorded(_, next) => *next,
            Progress::Simulated(schedule) => schedule.next(),
        };
        // No tick sees it: there is no clock yet.
        let Some((epoch, next)) = next else { return Stamp::MAX };
        let grid = self.runtime.pipeline.config().grid;
        let by = grid.stamp_of(next);
        match arrival.stamp {
            Some(stamp) if epoch == arrival.epoch => {
                stamp.max(grid.stamp_of(next.saturating_sub(1)).offset(1)).min(by)
            }
            // Rows of an epoch that is over are refused. A fixed transform of it counts, and messages of this
            // epoch may have waited for it.
            _ => by,
        }
    }

    /// Takes the next message of an input, with the arrival that a live node used and the instant `at` of the
    /// recorder's clock. Serves no tick: the caller asks for them with [`Player::serve_recorded`].
    ///
    /// # Errors
    /// The backend failed.
    pub fn receive_as(
        &mut self,
        input: InputId,
        bytes: impl AsRef<[u8]> + Send + Sync + 'static,
        at: Stamp,
        arrival: Arrival,
    ) -> Result<(), RuntimeError> {
        if !self.runtime.clock.is_simulated() {
            self.enter(arrival.epoch, at);
        }
        // The live node has recorded each latched message that it took again.
        self.runtime.meet(arrival.epoch);
        self.runtime.accept(input.into(), None, bytes, arrival)
    }

    /// Serves a tick that a live node served, if the clock is the recorder's.
    ///
    /// # Errors
    /// As for [`Player::receive`].
    pub fn serve_recorded<E: From<RuntimeError>>(
        &mut self,
        epoch: Epoch,
        number: i64,
        serve: &mut impl FnMut(Served<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let stamp = self.runtime.pipeline.config().grid.stamp_of(number);
        self.enter(epoch, stamp);
        match self.runtime.clock.now() {
            Some(now) if !self.runtime.clock.is_simulated() => {
                self.serve(number, Reading { stamp, epoch, ..now }, stamp, serve)
            }
            _ => Ok(()),
        }
    }

    /// Moves the recorder's clock to an instant and an epoch that a live node recorded. So the numbers of epochs do not
    /// depend on the messages that show a step of the clock.
    fn enter(&mut self, epoch: Epoch, stamp: Stamp) {
        if let Progress::Recorded(clock, _) = &self.progress {
            clock.set_in(epoch, stamp);
        }
        if self.epoch.is_before(epoch) {
            self.epoch = epoch;
            self.runtime.begin(epoch);
        }
    }

    /// Sets a simulator's clock from a message on `/clock`, and serves the tick that it makes due.
    ///
    /// # Errors
    /// As for [`Player::receive`].
    pub fn set_clock<E: From<RuntimeError>>(
        &mut self,
        stamp: Stamp,
        received: Received,
        serve: &mut impl FnMut(Served<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.settle()?;
        let at = self.instant_of(received.at);
        let (Progress::Simulated(schedule), Some(clock)) =
            (&mut self.progress, self.runtime.sim_clock())
        else {
            return Ok(());
        };
        clock.set_at(stamp, received.transit(), at);
        let Some(now) = self.runtime.clock.now() else { return Ok(()) };
        if received.at < self.begins {
            // Its ticks are none of the recording.
            due(schedule, now);
            if let Some((_, Progress::Simulated(schedule))) = &mut self.commands {
                due(schedule, now);
            }
            return Ok(());
        }
        if let Some((tick, missed)) = due(schedule, now) {
            self.runtime.ticks.grid.overruns.add(missed);
            self.serve(tick, now, received.at, serve)?;
        }
        let Some((_, Progress::Simulated(schedule))) = &mut self.commands else { return Ok(()) };
        match due(schedule, now) {
            Some((tick, _)) => {
                let due = CommandDue { tick, epoch: now.epoch, at: received.at };
                serve(Served::Commands(due, &self.runtime))
            }
            None => Ok(()),
        }
    }

    /// Serves the ticks up to this instant, which is included, if the clock is the recorder's. A
    /// simulator's clock is left where its last message set it.
    ///
    /// # Errors
    /// As for [`Player::receive`].
    pub fn end<E: From<RuntimeError>>(
        &mut self,
        last: Stamp,
        serve: &mut impl FnMut(Served<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.serve_before(last.offset(1), serve)?;
        Ok(self.settle()?)
    }

    /// Serves the ticks from where the clock is to this instant, which is not included, and moves the
    /// recorder's clock there.
    fn serve_before<E: From<RuntimeError>>(
        &mut self,
        end: Stamp,
        serve: &mut impl FnMut(Served<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if end > self.begins && self.begins != Stamp::MIN {
            let begins = std::mem::replace(&mut self.begins, Stamp::MIN);
            self.pass(begins)?;
        } else if end <= self.begins {
            return Ok(self.pass(end)?);
        }
        let Progress::Recorded(clock, progress) = &self.progress else { return Ok(()) };
        let clock = Arc::clone(clock);
        let progress = *progress;
        let grid = self.runtime.pipeline.config().grid;
        // The last tick before the end. One exactly at the end comes after the message.
        let last = grid.tick_at(end.offset(-1));
        let before = clock.now().map(|now| now.stamp);
        let set_ahead = before.is_some_and(|before| end.since(before) > MAX_SILENCE_NS);
        if set_ahead {
            clock.note_set_ahead();
        } else if let Some((_, next)) = progress {
            for tick in next..=last {
                self.serve_commands(&clock, grid.stamp_of(tick), serve)?;
                let due = clock.set(grid.stamp_of(tick));
                self.serve(tick, due, due.stamp, serve)?;
            }
            self.serve_commands(&clock, end, serve)?;
        }
        let now = clock.set(end);
        if progress.is_some_and(|(epoch, _)| epoch.is_before(now.epoch)) {
            self.settle()?;
            self.runtime.begin(now.epoch);
        }
        self.progress.go_on(now.epoch, last.saturating_add(1));
        if let Some((grid, progress)) = &mut self.commands {
            progress.go_on(now.epoch, grid.tick_at(end.offset(-1)).saturating_add(1));
        }
        Ok(())
    }

    /// Moves the recorder's clock to this instant, and serves no tick on the way.
    fn pass(&mut self, to: Stamp) -> Result<(), RuntimeError> {
        let Progress::Recorded(clock, progress) = &self.progress else { return Ok(()) };
        let now = clock.set(to);
        let progress = *progress;
        if progress.is_some_and(|(epoch, _)| epoch.is_before(now.epoch)) {
            self.settle()?;
            self.runtime.begin(now.epoch);
        }
        let next = |grid: TickGrid| grid.tick_at(to.offset(-1)).saturating_add(1);
        self.progress.go_on(now.epoch, next(self.runtime.pipeline.config().grid));
        if let Some((grid, progress)) = &mut self.commands {
            progress.go_on(now.epoch, next(*grid));
        }
        Ok(())
    }

    /// Serves the command ticks before an instant of the recorder's clock. A command tick at the instant of a tick comes
    /// after it.
    fn serve_commands<E>(
        &mut self,
        clock: &RecordedClock,
        end: Stamp,
        serve: &mut impl FnMut(Served<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some((grid, Progress::Recorded(_, Some((_, next))))) = &mut self.commands else {
            return Ok(());
        };
        let last = grid.tick_at(end.offset(-1));
        for tick in *next..=last {
            let Reading { stamp, epoch, .. } = clock.set(grid.stamp_of(tick));
            serve(Served::Commands(CommandDue { tick, epoch, at: stamp }, &self.runtime))?;
        }
        *next = last.saturating_add(1).max(*next);
        Ok(())
    }

    fn serve<E: From<RuntimeError>>(
        &mut self,
        number: i64,
        due: Reading,
        at: Stamp,
        serve: &mut impl FnMut(Served<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.runtime.give_up(due);
        if !self.ticks {
            return Ok(());
        }
        self.settle()?;
        let message = self.message.get_or_insert_with(|| self.runtime.pipeline.new_message());
        let outcome = fuse::fuse(&self.runtime, number, due.epoch, message)?;
        holding::log(&self.runtime);
        let tick = Tick { number, epoch: due.epoch, at, changes: message.changes() };
        match outcome {
            TickOutcome::Ready => {
                self.runtime.ticks.published.add(1);
                self.runtime.note_served(due.epoch, number, message);
                serve(Served::Tensor(tick, message))
            }
            TickOutcome::HeldBack { .. } => serve(Served::HeldBack(tick)),
            TickOutcome::Past => Ok(()),
        }
    }

    /// The instant of a receive stamp on the monotonic clock.
    fn instant_of(&mut self, received: Stamp) -> Instant {
        let (first, instant) =
            *self.start.get_or_insert_with(|| (received, self.runtime.time.monotonic()));
        instant + Duration::from_nanos(received.since(first).max(0) as u64)
    }
}

#[cfg(test)]
mod tests;
