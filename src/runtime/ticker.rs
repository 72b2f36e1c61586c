//! The tick thread: serves the newest tick that is due and publishes its tensor.

use std::sync::atomic::Ordering;
use std::time::Instant;

use super::clock::{Clock, Reading};
use super::priority::{self, Overload};
use super::schedule::{Schedule, Step, elapsed_ns};
use super::{DueTick, Publisher, Refused, Runtime, RuntimeError};
use crate::pipeline::{TensorMessage, TickOutcome};
use crate::time::Epoch;

/// Serves ticks until the runtime stops.
pub fn run(runtime: &Runtime, publisher: &dyn Publisher) -> Result<(), RuntimeError> {
    let grid = runtime.pipeline.config().grid;
    let mut schedule = Schedule::new(grid, matches!(runtime.clock, Clock::System(_)));
    let mut message = runtime.pipeline.new_message();
    let mut before: Option<Reading> = None;
    let mut overload = Overload::default();
    let mut waited = true;
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
                overload.rested();
                runtime.clock.wait(Some(until));
                waited = true;
            }
            Step::Serve { tick, missed } => {
                runtime.ticks.overruns.add(missed);
                runtime.observer.due(DueTick { tick, missed, looked: now.stamp, waited });
                serve(runtime, publisher, tick, now, &mut message)?;
                waited = false;
                if overload.served() {
                    step_down(runtime);
                }
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

/// Gives up the real-time priority of a tick thread that never waits. Else it would take a
/// processor from the whole machine, including the encode worker and the sensors' drivers.
fn step_down(runtime: &Runtime) {
    if runtime.ticks.priority.load(Ordering::Relaxed) > 0 && priority::lower() {
        runtime.ticks.priority.store(0, Ordering::Relaxed);
        tracing::warn!(
            "the work of a tick does not fit into its period: ticks go on at ordinary priority, so \
             that other threads can run; lower rate_hz or the size of the tensor"
        );
    }
}

/// Fuses a tick and publishes it, unless it is past or held back.
fn serve(
    runtime: &Runtime,
    publisher: &dyn Publisher,
    tick: i64,
    due: Reading,
    message: &mut TensorMessage,
) -> Result<(), RuntimeError> {
    let ticks = &runtime.ticks;
    match runtime.fuse(tick, due, message)? {
        TickOutcome::Past => return Ok(()),
        TickOutcome::Ready => {
            if runtime.digest {
                message.seal();
            }
            match publisher.publish(message.message()) {
                Ok(()) => {
                    ticks.published.add(1);
                    ticks.latency.record(latency(runtime, tick, due));
                }
                // The middleware may be ending as well.
                Err(_) if runtime.stopping() => return Ok(()),
                Err(error) => refused(runtime, tick, &error),
            }
        }
        TickOutcome::HeldBack { stream } => {
            if ticks.held_back.get() == 0 {
                tracing::warn!(
                    "tick {tick} is held back: stream '{}' is required and not valid; no tensor is \
                     published until it is",
                    runtime.stream_spec(stream).name
                );
            }
            ticks.held_back_by.store(stream.index(), Ordering::Relaxed);
            ticks.held_back.add(1);
        }
    }
    ticks.newest.store(tick, Ordering::Relaxed);
    for stream in runtime.streams() {
        let mut segments = runtime.pipeline.layout().segments_of(stream);
        if let Some(newest) = segments.find_map(|id| message.steps(id).last()) {
            runtime.stream(stream).age_ns.store(newest.age_ns, Ordering::Relaxed);
        }
    }
    Ok(())
}

/// Counts a tensor that the middleware refused, and logs the first one.
fn refused(runtime: &Runtime, tick: i64, error: &Refused) {
    if runtime.ticks.publish_failed.get() == 0 {
        tracing::error!("the middleware refused the tensor of tick {tick}: {error}");
    }
    runtime.ticks.publish_failed.add(1);
}

/// Returns the nanoseconds from the tick's instant to now, as [`TickStats::latency`] defines them.
///
/// [`TickStats::latency`]: super::TickStats::latency
fn latency(runtime: &Runtime, tick: i64, due: Reading) -> i64 {
    let late = match runtime.clock.is_simulated() {
        false => due.stamp.since(runtime.pipeline.config().grid.stamp_of(tick)),
        true => 0,
    };
    late.saturating_add(elapsed_ns(due.since, Instant::now()))
}
