//! The tick thread: serves the newest tick that is due.

use std::sync::atomic::Ordering;

use super::clock::{Clock, Reading, Sleeper};
use super::outbox::Finished;
use super::priority::Urgency;
use super::schedule::{Schedule, Step};
use super::steps::{Next, Steps};
use super::{DueTick, Event, Runtime, RuntimeError, TickFate, Witness};
use robocache_core::message::TensorMessage;
use robocache_core::pipeline::TickOutcome;
use robocache_ops::sync::lock;
use robocache_ops::time::Stamp;

/// The work of this thread, in the log.
const WORK: &str = "of a tick";

/// The tick thread: serves ticks until the runtime stops.
pub(crate) struct Ticker<'a> {
    runtime: &'a Runtime,
    schedule: Schedule,
    /// Memory for the next tick, if the last one left some.
    message: Option<TensorMessage>,
    /// The reading before the newest one.
    before: Option<Reading>,
    urgency: Urgency,
    /// True if the thread waited before this step.
    waited: bool,
    /// True if the thread waits after this step. Otherwise the next one is due at once.
    rests: bool,
    /// The reading and the instant that the thread waits from and until; `None` if it waits for the first reading.
    target: Option<(Reading, Stamp)>,
}

impl<'a> Ticker<'a> {
    /// Serves the ticks of a runtime on the calling thread, which has this real-time `priority`, 0 for ordinary.
    pub(crate) fn new(runtime: &'a Runtime, priority: u8) -> Self {
        let grid = runtime.pipeline.config().grid;
        runtime.ticks.priority.store(priority, Ordering::Relaxed);
        Ticker {
            runtime,
            schedule: Schedule::new(grid, matches!(runtime.clock, Clock::System(_))),
            message: None,
            before: None,
            urgency: Urgency::new(priority, runtime.time.clone()),
            waited: true,
            rests: false,
            target: None,
        }
    }

    /// Waits until the next step may be due. `sleeper` is that of the calling thread.
    pub(crate) fn wait(&mut self, sleeper: &mut Sleeper) {
        if self.rests {
            self.runtime.clock.wait(self.target, sleeper);
        }
    }

    /// Lets the thread wait after this step.
    fn rest(&mut self, target: Option<(Reading, Stamp)>) -> Next {
        (self.rests, self.target) = (true, target);
        Next::At(self.runtime.clock.look_again(target))
    }

    /// Serves a tick that a reading of the clock made due, and counts those before it that were missed.
    fn serve(&mut self, tick: i64, missed: u64, now: Reading) -> Result<(), RuntimeError> {
        let runtime = self.runtime;
        let began = runtime.time.monotonic();
        if self.waited {
            // It waited for the oldest of these.
            let first = tick.saturating_sub_unsigned(missed);
            runtime.ticks.woken.record(runtime.nanos_since_due(first, now));
        }
        runtime.ticks.overruns.add(missed);
        if let (Some(recorder), 1..) = (&runtime.recorder, missed) {
            recorder.note(Event::Overruns { before: tick, ticks: missed });
        }
        let waited = std::mem::take(&mut self.waited);
        runtime.observer.due(DueTick { tick, missed, looked: now.stamp, waited });
        let is_urgent = self.urgency.current() > 0;
        self.message = serve(runtime, tick, now, self.message.take(), is_urgent)?;
        self.urgency.served(began, WORK);
        runtime.ticks.priority.store(self.urgency.current(), Ordering::Relaxed);
        Ok(())
    }
}

impl Steps for Ticker<'_> {
    type Error = RuntimeError;

    /// Serves the newest tick that is due.
    fn step(&mut self) -> Result<Next, RuntimeError> {
        let runtime = self.runtime;
        if runtime.stopping() {
            return Ok(Next::Done);
        }
        self.rests = false;
        runtime.standstills.awake(Witness::Tick);
        let Some(now) = runtime.clock.now() else { return Ok(self.rest(None)) };
        let next = match self.schedule.advance(now) {
            Step::Wait(until) => {
                self.urgency.rests(WORK);
                runtime.ticks.priority.store(self.urgency.current(), Ordering::Relaxed);
                self.waited = true;
                self.rest(Some((now, until)))
            }
            Step::Serve { tick, missed } => {
                self.serve(tick, missed, now)?;
                Next::At(now.since)
            }
            Step::SetAhead => {
                runtime.ticks.clock_set_ahead.add(1);
                let from = self.before.unwrap_or(now).stamp;
                tracing::warn!("the clock was set ahead from {from} to {}", now.stamp);
                Next::At(now.since)
            }
        };
        self.before = Some(now);
        Ok(next)
    }
}

/// Fuses a tick and hands it to the publishing thread, unless it is past or held back. `message` is
/// memory for it, if the last tick left some; returns the memory if this tick leaves it. `is_urgent` says whether
/// this thread has real-time priority.
fn serve(
    runtime: &Runtime,
    tick: i64,
    due: Reading,
    message: Option<TensorMessage>,
    is_urgent: bool,
) -> Result<Option<TensorMessage>, RuntimeError> {
    let message = message.or_else(|| runtime.outbox.free());
    let mut message = message.unwrap_or_else(|| runtime.pipeline.new_message());
    if fuse(runtime, tick, due, &mut message)? != TickOutcome::Ready {
        return Ok(Some(message));
    }
    runtime.ticks.fused.record(runtime.nanos_since_due(tick, due));
    runtime.observer.fused(tick, message.message());
    runtime.companion.call(is_urgent);
    let overwritten = runtime.outbox.put(Finished { message, tick, due });
    if let Some(Finished { message, tick, due }) = &overwritten {
        runtime.record_tick(*tick, due.epoch, message.changes(), TickFate::Unsent);
    }
    runtime.ticks.unsent.add(u64::from(overwritten.is_some()));
    if let Some(overwritten) = overwritten {
        runtime.outbox.give_back(overwritten.message);
    }
    Ok(None)
}

/// Fuses a tick and counts its outcome. It notes when ticks begin to be held back or to be published again, and leaves
/// the log lines about that to its caller or to the thread that reports.
pub(super) fn fuse(
    runtime: &Runtime,
    tick: i64,
    due: Reading,
    message: &mut TensorMessage,
) -> Result<TickOutcome, RuntimeError> {
    let ticks = &runtime.ticks;
    let outcome = runtime.fuse(tick, due, message)?;
    if outcome == TickOutcome::Past {
        return Ok(outcome);
    }
    ticks.newest.store(tick, Ordering::Relaxed);
    for stream in runtime.streams() {
        let mut segments = runtime.pipeline.layout().segments_of(stream);
        if let Some(newest) = segments.find_map(|id| message.steps(id).last()) {
            runtime.stream(stream).age_ns.store(newest.age_ns, Ordering::Relaxed);
        }
    }
    let by = match outcome {
        TickOutcome::HeldBack { stream } => Some(stream),
        _ => None,
    };
    lock(&ticks.holding).note(runtime.node_time.now(), tick, by);
    if let TickOutcome::HeldBack { stream } = outcome {
        ticks.held_back_by.store(stream.index(), Ordering::Relaxed);
        ticks.held_back.add(1);
        runtime.record_tick(tick, due.epoch, message.changes(), TickFate::HeldBack(stream));
    }
    Ok(outcome)
}
