//! The tick thread: serves the newest tick that is due.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::clock::{Clock, Reading, Sleeper};
use super::outbox::Finished;
use super::priority::Urgency;
use super::schedule::{Schedule, Step};
use super::{DueTick, Event, Runtime, RuntimeError, TickFate, Witness};
use robocache_core::message::TensorMessage;
use robocache_core::pipeline::TickOutcome;
use robocache_ops::sync::lock;

/// What the log calls the work of this thread.
const WORK: &str = "of a tick";

/// Serves ticks until the runtime stops. `priority` is the real-time priority of this thread, 0 for
/// ordinary.
pub(crate) fn run(runtime: &Runtime, priority: u8) -> Result<(), RuntimeError> {
    let grid = runtime.pipeline.config().grid;
    let mut schedule = Schedule::new(grid, matches!(runtime.clock, Clock::System(_)));
    let mut message = None;
    let mut before: Option<Reading> = None;
    let mut urgency = Urgency::new(priority, runtime.time.clone());
    let mut sleeper =
        Sleeper::of_this_thread(Duration::from_nanos(grid.period_ns().unsigned_abs()));
    let mut waited = true;
    runtime.ticks.priority.store(priority, Ordering::Relaxed);
    while !runtime.stopping() {
        runtime.standstills.awake(Witness::Tick);
        let Some(now) = runtime.clock.now() else {
            runtime.clock.wait(None, &mut sleeper);
            continue;
        };
        match schedule.advance(now) {
            Step::Wait(until) => {
                urgency.rests(WORK);
                runtime.ticks.priority.store(urgency.current(), Ordering::Relaxed);
                runtime.clock.wait(Some((now, until)), &mut sleeper);
                waited = true;
            }
            Step::Serve { tick, missed } => {
                let began = runtime.time.monotonic();
                if waited {
                    // It waited for the oldest of these.
                    let first = tick.saturating_sub_unsigned(missed);
                    runtime.ticks.woken.record(runtime.nanos_since_due(first, now));
                }
                runtime.ticks.overruns.add(missed);
                if let (Some(recorder), 1..) = (&runtime.recorder, missed) {
                    recorder.note(Event::Overruns { before: tick, ticks: missed });
                }
                runtime.observer.due(DueTick { tick, missed, looked: now.stamp, waited });
                message = serve(runtime, tick, now, message, urgency.current() > 0)?;
                waited = false;
                urgency.served(began, WORK);
                runtime.ticks.priority.store(urgency.current(), Ordering::Relaxed);
            }
            Step::SetAhead => {
                runtime.ticks.clock_set_ahead.add(1);
                let from = before.unwrap_or(now).stamp;
                tracing::warn!("the clock was set ahead from {from} to {}", now.stamp);
            }
        }
        before = Some(now);
    }
    Ok(())
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
