//! The tick thread: serves the newest tick that is due.

use std::sync::atomic::Ordering;
use std::time::Instant;

use super::clock::{Clock, Reading};
use super::outbox::Finished;
use super::priority::{self, Change, Overload};
use super::schedule::{Schedule, Step};
use super::{DueTick, Runtime, RuntimeError};
use crate::pipeline::{TensorMessage, TickOutcome};
use crate::time::Epoch;

/// Serves ticks until the runtime stops. `priority` is the real-time priority of this thread, 0 for
/// ordinary.
pub fn run(runtime: &Runtime, priority: u8) -> Result<(), RuntimeError> {
    let grid = runtime.pipeline.config().grid;
    let mut schedule = Schedule::new(grid, matches!(runtime.clock, Clock::System(_)));
    let mut message = None;
    let mut before: Option<Reading> = None;
    let mut overload = Overload::default();
    let mut waited = true;
    runtime.ticks.priority.store(priority, Ordering::Relaxed);
    while !runtime.stopping() {
        let Some(now) = runtime.clock.now() else {
            runtime.clock.wait(None);
            continue;
        };
        let epoch = before.map_or(Epoch::default(), |before| before.epoch);
        if epoch.is_before(now.epoch) {
            runtime.begin(now.epoch);
        }
        match schedule.advance(now) {
            Step::Wait(until) => {
                change(runtime, priority, overload.rests(Instant::now()));
                runtime.clock.wait(Some(until));
                waited = true;
            }
            Step::Serve { tick, missed } => {
                let began = Instant::now();
                runtime.ticks.overruns.add(missed);
                runtime.observer.due(DueTick { tick, missed, looked: now.stamp, waited });
                message = serve(runtime, tick, now, message)?;
                waited = false;
                change(runtime, priority, overload.served(began, Instant::now()));
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

/// Gives up the real-time priority of a tick thread that never waits, and takes it again when the
/// work fits into the period. Otherwise the thread would take a processor from the whole machine,
/// including the encode workers and the sensors' drivers.
fn change(runtime: &Runtime, priority: u8, change: Option<Change>) {
    let current = &runtime.ticks.priority;
    match change {
        Some(Change::Lower) if current.load(Ordering::Relaxed) > 0 && priority::lower() => {
            current.store(0, Ordering::Relaxed);
            tracing::warn!(
                "the work of a tick does not fit into its period: ticks go on at ordinary \
                 priority, so that other threads can run; lower rate_hz or the size of the tensor"
            );
        }
        Some(Change::Raise) if priority > 0 && current.load(Ordering::Relaxed) == 0 => {
            if priority::set_realtime(priority).is_ok() {
                current.store(priority, Ordering::Relaxed);
                tracing::info!("the work of a tick fits again: ticks run at priority {priority}");
            }
        }
        _ => {}
    }
}

/// Fuses a tick and hands it to the publishing thread, unless it is past or held back. `message` is
/// memory for it, if the last tick left some; returns the memory if this tick leaves it.
fn serve(
    runtime: &Runtime,
    tick: i64,
    due: Reading,
    message: Option<TensorMessage>,
) -> Result<Option<TensorMessage>, RuntimeError> {
    let ticks = &runtime.ticks;
    let message = message.or_else(|| runtime.outbox.free());
    let mut message = message.unwrap_or_else(|| runtime.pipeline.new_message());
    let outcome = runtime.fuse(tick, due, &mut message)?;
    if outcome == TickOutcome::Past {
        return Ok(Some(message));
    }
    ticks.newest.store(tick, Ordering::Relaxed);
    for stream in runtime.streams() {
        let mut segments = runtime.pipeline.layout().segments_of(stream);
        if let Some(newest) = segments.find_map(|id| message.steps(id).last()) {
            runtime.stream(stream).age_ns.store(newest.age_ns, Ordering::Relaxed);
        }
    }
    if let TickOutcome::HeldBack { stream } = outcome {
        if ticks.held_back.get() == 0 {
            tracing::warn!(
                "tick {tick} is held back: stream '{}' is required and not valid; no tensor is \
                 published until it is",
                runtime.stream_spec(stream).name
            );
        }
        ticks.held_back_by.store(stream.index(), Ordering::Relaxed);
        ticks.held_back.add(1);
        return Ok(Some(message));
    }
    runtime.observer.fused(tick, message.message());
    let overwritten = runtime.outbox.put(Finished { message, tick, due });
    ticks.unsent.add(u64::from(overwritten));
    Ok(None)
}
