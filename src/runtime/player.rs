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
//! The result depends on the messages alone, also if threads encode ([`Player::with_threads`]).

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::clock::{Clock, Reading, Transit};
use super::crew::Crew;
use super::queue::Message;
use super::schedule::{Schedule, Step};
use super::{Runtime, RuntimeError, ticker};
use crate::pipeline::{Arrival, Pipeline, TensorMessage, TickOutcome};
use crate::spec::InputId;
use crate::time::{Epoch, NANOS_PER_S, Stamp};

/// When a recorded message was received and published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// The arrival, on the recorder's system clock.
    pub at: Stamp,
    /// The publication, on the publisher's system clock; `None` if the recording does not tell.
    pub published: Option<Stamp>,
}

impl Received {
    /// A message whose publication is not known.
    pub fn at(at: Stamp) -> Self {
        Received { at, published: None }
    }

    fn transit(self) -> Transit {
        Transit {
            published_ns: self.published.map(Stamp::nanos),
            arrived_ns: Some(self.at.nanos()),
        }
    }
}

/// What became of a tick.
#[derive(Debug)]
pub enum Served<'a> {
    /// Its tensor, which the receiver may seal.
    Tensor(Tick, &'a mut TensorMessage),
    /// A required stream was not valid.
    HeldBack(Tick),
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
}

/// Runs recorded messages through a pipeline, as the [module](self) says.
pub struct Player {
    /// The threads that encode; `None` if there are none.
    crew: Option<Crew>,
    runtime: Arc<Runtime>,
    message: TensorMessage,
    progress: Progress,
    /// The receive stamp of the first message, and the instant that stands for it on the monotonic clock.
    start: Option<(Stamp, Instant)>,
    /// Whether tensors are made.
    ticks: bool,
    /// The epoch of the newest message.
    epoch: Epoch,
}

/// After a longer time without a message \[ns\], the recorder's clock counts as set ahead: there are no
/// ticks in between. One wrong stamp would otherwise give ticks for years.
const MAX_SILENCE_NS: i64 = 600 * NANOS_PER_S;

/// The next tick.
#[derive(Clone, Copy)]
enum Progress {
    /// The recorder's clock: the epoch, and the next tick in it. `None` before the first message.
    Recorded(Option<(Epoch, i64)>),
    /// A simulator's clock.
    Simulated(Schedule),
}

impl Player {
    /// A player for a pipeline. `simulated`: whether messages on `/clock` set its clock.
    pub fn new(pipeline: Pipeline, simulated: bool) -> Self {
        let grid = pipeline.config().grid;
        let (clock, progress) = match simulated {
            true => (Clock::simulated(grid), Progress::Simulated(Schedule::new(grid, false))),
            false => (Clock::recorded(grid), Progress::Recorded(None)),
        };
        let message = pipeline.new_message();
        let runtime = Runtime { has_workers: false, ..Runtime::new(pipeline, clock) };
        Player {
            crew: None,
            runtime: Arc::new(runtime),
            message,
            progress,
            start: None,
            ticks: true,
            epoch: Epoch::default(),
        }
    }

    /// The same without tensors: for those who want the rows alone.
    pub fn without_ticks(self) -> Self {
        Player { ticks: false, ..self }
    }

    /// The same with at most this many threads that encode images and clouds.
    ///
    /// # Errors
    /// The system starts no thread.
    pub fn with_threads(self, threads: usize) -> Result<Self, RuntimeError> {
        Ok(Player { crew: Crew::start(&self.runtime, threads)?, ..self })
    }

    /// Waits until all messages so far are rows.
    ///
    /// # Errors
    /// The backend failed.
    pub fn settle(&self) -> Result<(), RuntimeError> {
        self.crew.as_ref().map_or(Ok(()), Crew::wait)
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
        self.serve_before(received.at, serve)?;
        let at = self.instant_of(received.at);
        let arrival = self.runtime.clock.arrival_at(received.transit(), at);
        if arrival.epoch != self.epoch {
            self.settle()?;
            self.epoch = arrival.epoch;
        }
        match &self.crew {
            Some(crew) if crew.takes(input) => {
                let bytes = Box::new(bytes);
                Ok(crew.put(Message { input, publisher: None, number: 0, bytes, arrival })?)
            }
            _ => Ok(self.runtime.receive(input, bytes, arrival)?),
        }
    }

    /// Takes the next message of an input, with the arrival that a live node used. Serves no tick: those
    /// of the recorder's clock are asked for with [`Player::serve_recorded`].
    ///
    /// # Errors
    /// The backend failed.
    pub fn receive_as(
        &mut self,
        input: InputId,
        bytes: impl AsRef<[u8]> + Send + Sync + 'static,
        received: Received,
        arrival: Arrival,
    ) -> Result<(), RuntimeError> {
        if self.runtime.clock.is_simulated() {
            // A simulator's clock takes notice of arrivals.
            let at = self.instant_of(received.at);
            self.runtime.clock.arrival_at(received.transit(), at);
        } else {
            self.enter(arrival.epoch, received.at);
        }
        self.runtime.receive(input, bytes, arrival)
    }

    /// Serves a tick that a live node served, if the clock is the recorder's.
    ///
    /// # Errors
    /// As for [`Player::receive`].
    pub fn serve_recorded<E: From<RuntimeError>>(
        &mut self,
        (epoch, number): (Epoch, i64),
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

    /// Moves the recorder's clock to an instant of an epoch, as a live node told them: so the numbers of
    /// epochs do not depend on which messages show a step of the clock.
    fn enter(&mut self, epoch: Epoch, stamp: Stamp) {
        self.runtime.clock.move_in(epoch, stamp);
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
        self.runtime.set_clock_at(stamp, received.transit(), at);
        let (Some(now), Progress::Simulated(schedule)) =
            (self.runtime.clock.now(), &mut self.progress)
        else {
            return Ok(());
        };
        // The first look at a clock only says where the ticks begin.
        let step = match schedule.advance(now) {
            Step::Wait(until) if until <= now.stamp => schedule.advance(now),
            step => step,
        };
        let Step::Serve { tick, missed } = step else { return Ok(()) };
        self.runtime.ticks.overruns.add(missed);
        self.serve(tick, now, received.at, serve)
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
        let Progress::Recorded(progress) = self.progress else { return Ok(()) };
        let grid = self.runtime.pipeline.config().grid;
        // The last tick before the end. One exactly at the end comes after the message.
        let last = grid.tick_at(end.offset(-1));
        let before = self.runtime.clock.now().map(|now| now.stamp);
        let set_ahead = before.is_some_and(|before| end.since(before) > MAX_SILENCE_NS);
        if set_ahead {
            self.runtime.ticks.clock_set_ahead.add(1);
        } else if let Some((_, next)) = progress {
            for tick in next..=last {
                let Some(due) = self.runtime.clock.move_to(grid.stamp_of(tick)) else { break };
                self.serve(tick, due, due.stamp, serve)?;
            }
        }
        let Some(now) = self.runtime.clock.move_to(end) else { return Ok(()) };
        let next = last.saturating_add(1);
        self.progress = Progress::Recorded(Some(match progress {
            Some((epoch, before)) if !epoch.is_before(now.epoch) => (epoch, next.max(before)),
            Some(_) => {
                self.settle()?;
                self.runtime.begin(now.epoch);
                (now.epoch, next)
            }
            None => (now.epoch, next),
        }));
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
        let tick = Tick { number, epoch: due.epoch, at };
        match ticker::fuse(&self.runtime, number, due, &mut self.message)? {
            TickOutcome::Ready => {
                self.runtime.ticks.published.add(1);
                serve(Served::Tensor(tick, &mut self.message))
            }
            TickOutcome::HeldBack { .. } => serve(Served::HeldBack(tick)),
            TickOutcome::Past => Ok(()),
        }
    }

    /// The instant that stands for a receive stamp on the monotonic clock.
    fn instant_of(&mut self, received: Stamp) -> Instant {
        let (first, instant) = *self.start.get_or_insert_with(|| (received, Instant::now()));
        instant + Duration::from_nanos(received.since(first).max(0) as u64)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::backend::cpu::CpuBackend;
    use crate::cdr::Writer;
    use crate::layout::Layout;
    use crate::spec::SegmentId;
    use crate::time::NANOS_PER_MS;

    const CONFIG: &str = "
rate_hz: 100
streams:
  w: {type: geometry_msgs/WrenchStamped, topic: /w, max_age_ms: 50, strategy: hold, dtype: f32}
";
    const W: InputId = InputId::new(0);

    fn player(simulated: bool) -> Player {
        let config = crate::config::parse(CONFIG, "test.yaml").unwrap();
        let backend = Arc::new(CpuBackend::new(&config, &Layout::new(&config)).unwrap());
        Player::new(Pipeline::new(config, backend).unwrap(), simulated)
    }

    fn ms(ms: i64) -> Stamp {
        Stamp::from_nanos(ms * NANOS_PER_MS)
    }

    fn wrench(stamp: Stamp, value: f64) -> Vec<u8> {
        let mut writer = Writer::new();
        writer.header(stamp, "tool");
        writer.f64_array(&[value; 6]);
        writer.finish()
    }

    /// Per tick: its number, its epoch, and its value if it is valid.
    type Ticks = Vec<(i64, u64, Option<f32>)>;

    fn noted(ticks: &mut Ticks) -> impl FnMut(Served<'_>) -> Result<(), RuntimeError> {
        |served| {
            if let Served::Tensor(Tick { number, epoch, .. }, message) = served {
                let value = f32::from_le_bytes(*message.data().first_chunk().unwrap());
                let valid = message.steps(SegmentId::new(0))[0].valid;
                ticks.push((number, epoch.number(), valid.then_some(value)));
            }
            Ok(())
        }
    }

    #[test]
    fn a_tick_sees_what_was_received_before_it_or_at_its_instant() {
        let (mut player, mut ticks) = (player(false), Ticks::new());
        let mut serve = noted(&mut ticks);
        // Stamped and received: the second comes at the instant of tick 101, the third a moment later.
        for (stamp, received_ns, value) in
            [(1000, 1_002_000_000, 1.0), (1005, 1_010_000_000, 2.0), (1009, 1_010_000_001, 3.0)]
        {
            let received = Received::at(Stamp::from_nanos(received_ns));
            player.receive(W, wrench(ms(stamp), value), received, &mut serve).unwrap();
        }
        player.end(ms(1030), &mut serve).unwrap();
        drop(serve);
        // The first message is at 1002 ms, so tick 100, at 1000 ms, is not served.
        assert_eq!(ticks, [(101, 0, Some(2.0)), (102, 0, Some(3.0)), (103, 0, Some(3.0))]);
        assert_eq!(player.runtime().ticks.published.get(), 3);
    }

    #[test]
    fn a_tick_at_the_first_instant_is_served() {
        let (mut player, mut ticks) = (player(false), Ticks::new());
        let mut serve = noted(&mut ticks);
        player.start(ms(1000), &mut serve).unwrap();
        player.receive(W, wrench(ms(1000), 1.0), Received::at(ms(1000)), &mut serve).unwrap();
        player.end(ms(1000), &mut serve).unwrap();
        drop(serve);
        assert_eq!(ticks, [(100, 0, Some(1.0))]);
    }

    #[test]
    fn a_recorders_clock_that_jumps_back_begins_an_epoch() {
        let (mut player, mut ticks) = (player(false), Ticks::new());
        let mut serve = noted(&mut ticks);
        for (at, value) in [(1000, 1.0), (1015, 2.0), (505, 3.0), (515, 4.0)] {
            player.receive(W, wrench(ms(at), value), Received::at(ms(at)), &mut serve).unwrap();
        }
        player.end(ms(525), &mut serve).unwrap();
        drop(serve);
        let expected =
            [(100, 0, Some(1.0)), (101, 0, Some(1.0)), (51, 1, Some(3.0)), (52, 1, Some(4.0))];
        assert_eq!(ticks, expected);
        assert_eq!(player.runtime().pipeline.clock_jumps(), 1);
    }

    #[test]
    fn recorded_epochs_and_ticks_drive_the_player() {
        let (mut player, mut ticks) = (player(false), Ticks::new());
        let mut serve = noted(&mut ticks);
        let epoch = Epoch::numbered;
        let receive = |player: &mut Player, number, at: i64, value| {
            let arrival =
                Arrival { stamp: Some(ms(at)), epoch: epoch(number), ..Arrival::default() };
            let received = Received::at(ms(at));
            player.receive_as(W, wrench(ms(at), value), received, arrival).unwrap();
        };
        receive(&mut player, 0, 1000, 1.0);
        player.serve_recorded((epoch(0), 101), &mut serve).unwrap();
        // The clock is set back by 150 ms, and the first message comes 200 ms later: no arrival goes back.
        player.serve_recorded((epoch(1), 90), &mut serve).unwrap();
        receive(&mut player, 1, 1050, 2.0);
        player.serve_recorded((epoch(1), 105), &mut serve).unwrap();
        // After an hour without a message.
        player.serve_recorded((epoch(1), 360_000), &mut serve).unwrap();
        // Two steps: one epoch has no message.
        receive(&mut player, 3, 1055, 3.0);
        player.serve_recorded((epoch(3), 106), &mut serve).unwrap();
        // It belongs to an epoch that is over.
        player.serve_recorded((epoch(1), 107), &mut serve).unwrap();
        drop(serve);
        let expected = [
            (101, 0, Some(1.0)),
            (90, 1, None),
            (105, 1, Some(2.0)),
            (360_000, 1, None),
            (106, 3, Some(3.0)),
        ];
        assert_eq!(ticks, expected);
    }

    #[test]
    fn there_are_no_ticks_in_a_long_silence() {
        let (mut player, mut ticks) = (player(false), Ticks::new());
        let mut serve = noted(&mut ticks);
        let year = ms(365 * 24 * 3_600_000);
        for at in [ms(1000), year] {
            player.receive(W, wrench(at, 1.0), Received::at(at), &mut serve).unwrap();
        }
        player.end(year, &mut serve).unwrap();
        drop(serve);
        assert_eq!(ticks.iter().map(|(tick, ..)| *tick).collect::<Vec<_>>(), [3_153_600_000]);
        assert_eq!(player.runtime().ticks.clock_set_ahead.get(), 1);
    }

    #[test]
    fn a_simulators_clock_serves_its_newest_tick() {
        let (mut player, mut ticks) = (player(true), Ticks::new());
        let mut serve = noted(&mut ticks);
        for (at, simulated) in [(0, 1005), (50, 1011), (100, 1034), (150, 5), (200, 11)] {
            player.set_clock(ms(simulated), Received::at(ms(at)), &mut serve).unwrap();
            let received = Received::at(ms(at + 1));
            let message = wrench(ms(simulated), simulated as f64);
            player.receive(W, message, received, &mut serve).unwrap();
        }
        player.end(ms(1_000_000), &mut serve).unwrap();
        drop(serve);
        assert_eq!(ticks, [(101, 1, Some(1005.0)), (103, 1, Some(1011.0)), (1, 2, Some(5.0))]);
        assert_eq!(player.runtime().ticks.overruns.get(), 1);
    }
}
