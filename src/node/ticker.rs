//! The tick thread: serves the newest tick that is due and publishes its tensor.

use std::sync::atomic::Ordering;
use std::time::Instant;

use r2r::PublisherUntyped;

use super::clock::{NodeClock, Reading};
use super::error::NodeError;
use super::schedule::{Schedule, Step, elapsed_ns};
use super::shared::Shared;
use crate::message::Frame;
use crate::pipeline::TickOutcome;
use crate::priority::{self, Overload};
use crate::time::Stamp;

/// Ticks and publishes until the node stops.
pub fn run(shared: &Shared, publisher: &PublisherUntyped) -> Result<(), NodeError> {
    let grid = shared.pipeline.config().grid;
    let real_time = matches!(shared.clock, NodeClock::System);
    let mut schedule = Schedule::new(grid, real_time);
    let mut frame = shared.pipeline.new_frame();
    let mut before = Stamp::ZERO;
    let mut overload = Overload::default();
    while !shared.stopping() {
        let Some(now) = shared.clock.now() else {
            shared.clock.wait(None);
            continue;
        };
        match schedule.advance(now) {
            Step::Wait(until) => {
                overload.rested();
                shared.clock.wait(Some(until));
            }
            Step::Serve { tick, missed } => {
                shared.ticks.overruns.add(missed);
                serve(shared, publisher, tick, now, &mut frame)?;
                if overload.served() {
                    step_down(shared);
                }
            }
            // A simulator's clock has been dealt with where its message arrived.
            Step::Jumped { back: true } if real_time => shared.reset(before, now.stamp),
            Step::Jumped { .. } if real_time => {
                shared.ticks.clock_set_ahead.add(1);
                tracing::warn!("the clock was set ahead from {before} to {}", now.stamp);
            }
            Step::Jumped { .. } => {}
        }
        before = now.stamp;
    }
    Ok(())
}

/// Gives up the real-time priority of a tick thread that never rests: it would take a processor
/// from the whole machine, the encoder and the sensors' drivers among it.
fn step_down(shared: &Shared) {
    if shared.ticks.priority.load(Ordering::Relaxed) > 0 && priority::lower() {
        shared.ticks.priority.store(0, Ordering::Relaxed);
        tracing::warn!(
            "the work of a tick does not fit into its period: ticks go on at ordinary priority, so \
             that the rest of the machine is not starved; lower rate_hz or the size of the tensor"
        );
    }
}

fn serve(
    shared: &Shared,
    publisher: &PublisherUntyped,
    tick: i64,
    due: Reading,
    frame: &mut Frame,
) -> Result<(), NodeError> {
    let ticks = &shared.ticks;
    let Some(outcome) = shared.fuse(tick, due, frame)? else { return Ok(()) };
    match outcome {
        TickOutcome::Ready => match publisher.publish_raw(frame.message()) {
            Ok(()) => {
                ticks.published.add(1);
                ticks.latency.record(latency(shared, tick, due));
            }
            Err(_) if shared.stopping() => return Ok(()),
            Err(error) => {
                if ticks.publish_failed.get() == 0 {
                    tracing::error!("the middleware refused the tensor of tick {tick}: {error}");
                }
                ticks.publish_failed.add(1);
            }
        },
        TickOutcome::HeldBack { stream } => {
            if ticks.held_back.get() == 0 {
                tracing::warn!(
                    "tick {tick} is held back: stream '{}' is required and not valid; no tensor is \
                     published until it is",
                    shared.spec(stream).name
                );
            }
            ticks.held_back_by.store(stream, Ordering::Relaxed);
            ticks.held_back.add(1);
        }
    }
    ticks.newest.store(tick, Ordering::Relaxed);
    for (stream, state) in shared.streams.iter().enumerate() {
        if let Some(newest) = frame.steps(stream).last() {
            state.age_ns.store(newest.age_ns, Ordering::Relaxed);
        }
    }
    Ok(())
}

/// Nanoseconds from the tick's instant to now, as [`TickStats::latency`] has it.
///
/// [`TickStats::latency`]: super::shared::TickStats::latency
fn latency(shared: &Shared, tick: i64, due: Reading) -> i64 {
    let late = match shared.clock {
        NodeClock::System => due.stamp.since(shared.pipeline.config().grid.stamp_of(tick)),
        NodeClock::Sim(_) => 0,
    };
    late.saturating_add(elapsed_ns(due.since, Instant::now()))
}
