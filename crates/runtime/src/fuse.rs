//! The loop *fuse*: fuses each tick, and hands its tensor to the publishing thread.

use std::sync::atomic::Ordering;

use super::outbox::Finished;
use super::state::GridStats;
use super::ticker::{Due, TickWork};
use super::{DueTick, Event, Runtime, RuntimeError, TickFate};
use robocache_core::message::TensorMessage;
use robocache_core::pipeline::TickOutcome;
use robocache_ops::sync::lock;
use robocache_ops::time::Epoch;

/// Fuses ticks.
#[derive(Default)]
pub(crate) struct Fuse {
    /// Memory for the next tick, if the last one left some.
    message: Option<TensorMessage>,
}

impl TickWork for Fuse {
    fn tick(&mut self, runtime: &Runtime, due: &Due) -> Result<(), RuntimeError> {
        let DueTick { tick, missed, .. } = due.tick;
        if let (Some(recorder), 1..) = (&runtime.recorder, missed) {
            recorder.note(Event::Overruns { before: tick, ticks: missed });
        }
        self.message = serve(runtime, due, self.message.take())?;
        Ok(())
    }

    fn stats<'a>(&'a self, runtime: &'a Runtime) -> &'a GridStats {
        &runtime.ticks.grid
    }
}

/// Fuses a tick and hands it to the publishing thread, unless it is past or held back. `message` is
/// memory for it, if the last tick left some; returns the memory if this tick leaves it.
fn serve(
    runtime: &Runtime,
    due: &Due,
    message: Option<TensorMessage>,
) -> Result<Option<TensorMessage>, RuntimeError> {
    let Due { tick: DueTick { tick, .. }, epoch, since, is_urgent } = *due;
    let message = message.or_else(|| runtime.outbox.free());
    let mut message = message.unwrap_or_else(|| runtime.pipeline.new_message());
    if fuse(runtime, tick, epoch, &mut message)? != TickOutcome::Ready {
        return Ok(Some(message));
    }
    runtime.ticks.fused.record(runtime.nanos_since(since));
    runtime.observer.fused(tick, message.message());
    runtime.companion.call(is_urgent);
    let overwritten = runtime.outbox.put(Finished { message, tick, epoch, since });
    if let Some(Finished { message, tick, epoch, .. }) = &overwritten {
        runtime.record_tick(*tick, *epoch, message.changes(), TickFate::Unsent);
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
    epoch: Epoch,
    message: &mut TensorMessage,
) -> Result<TickOutcome, RuntimeError> {
    let ticks = &runtime.ticks;
    let outcome = runtime.fuse(tick, epoch, message)?;
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
        runtime.record_tick(tick, epoch, message.changes(), TickFate::HeldBack(stream));
    }
    Ok(outcome)
}
