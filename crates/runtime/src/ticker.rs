//! Loops that do their work at the ticks of a grid: at absolute instants, and of several due ticks only the newest.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::clock::{Clock, Reading, Sleeper};
use super::priority::{Urgency, WorkWords};
use super::schedule::{Schedule, Step, elapsed_ns};
use super::state::GridStats;
use super::steps::{Next, Steps, drive};
use super::{DueTick, Placement, Runtime, RuntimeError, Witness};
use robocache_ops::time::{Epoch, Stamp, TickGrid};

/// A loop of a runtime: work at the ticks of a grid, and the thread that does it.
pub(crate) struct TickLoop {
    /// Name of its thread.
    pub name: &'static str,
    /// Its ticks in the log, such as "ticks run".
    pub runs: &'static str,
    /// Its work in the log.
    pub work: WorkWords,
    /// Its ticks.
    pub grid: TickGrid,
    /// Place of its thread.
    pub placement: Placement,
    /// The work at a tick.
    pub does: Box<dyn TickWork>,
}

/// Work of a loop at its ticks.
pub(crate) trait TickWork: Send {
    /// Does the work of a tick, without a wait and without an allocation.
    ///
    /// # Errors
    /// The loop cannot go on.
    fn tick(&mut self, runtime: &Runtime, due: &Due) -> Result<(), RuntimeError>;

    /// Counters of the loop in the runtime.
    fn stats<'a>(&'a self, runtime: &'a Runtime) -> &'a GridStats;
}

/// A tick that a loop must serve now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Due {
    /// The tick, and those before it that were missed.
    pub tick: DueTick,
    /// The epoch of the clock.
    pub epoch: Epoch,
    /// Instant on the monotonic clock at which it became due.
    pub since: Instant,
    /// True if the thread has real-time priority.
    pub is_urgent: bool,
}

/// The steps of a loop.
pub(crate) struct Ticker<'a> {
    runtime: &'a Runtime,
    name: &'static str,
    grid: TickGrid,
    does: Box<dyn TickWork>,
    schedule: Schedule,
    urgency: Urgency,
    /// True if the thread waited before this step.
    waited: bool,
    /// True if the thread waits after this step. Otherwise the next one is due at once.
    rests: bool,
    /// The reading and the instant that the thread waits from and until; `None` if it waits for the first reading.
    target: Option<(Reading, Stamp)>,
}

impl TickLoop {
    /// Runs the loop on the calling thread until the runtime stops.
    ///
    /// # Errors
    /// That of a tick.
    pub(crate) fn run(self, runtime: &Runtime) -> Result<(), RuntimeError> {
        let priority = self.placement.apply(self.runs);
        let period = Duration::from_nanos(self.grid.period_ns().unsigned_abs());
        let mut ticker = Ticker::new(self, runtime, priority);
        let mut sleeper = Sleeper::of_this_thread(period);
        drive(&mut ticker, |ticker, _| ticker.wait(&mut sleeper))
    }
}

impl<'a> Ticker<'a> {
    /// Serves the ticks of a loop on the calling thread, which has this real-time `priority`, 0 for ordinary.
    pub(crate) fn new(of: TickLoop, runtime: &'a Runtime, priority: u8) -> Self {
        let TickLoop { name, grid, work, does, .. } = of;
        does.stats(runtime).priority.store(priority, Ordering::Relaxed);
        runtime.clock.note_loop(name, grid);
        Ticker {
            runtime,
            name,
            grid,
            does,
            schedule: Schedule::new(grid, matches!(runtime.clock, Clock::System(_))),
            urgency: Urgency::new(priority, work, runtime.time.clone()),
            waited: true,
            rests: false,
            target: None,
        }
    }

    /// Waits until the next step may be due. `sleeper` is that of the calling thread.
    pub(crate) fn wait(&self, sleeper: &mut Sleeper) {
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
        let waited = std::mem::take(&mut self.waited);
        let stats = self.does.stats(runtime);
        if waited {
            // It waited for the oldest of these.
            let first = self.grid.stamp_of(tick.saturating_sub_unsigned(missed));
            stats.woken.record(elapsed_ns(runtime.clock.reached(now, first), began));
        }
        stats.overruns.add(missed);
        let since = runtime.clock.reached(now, self.grid.stamp_of(tick));
        let tick = DueTick { tick, missed, looked: now.stamp, waited };
        runtime.observer.due(self.name, tick);
        let is_urgent = self.urgency.current() > 0;
        self.does.tick(runtime, &Due { tick, epoch: now.epoch, since, is_urgent })?;
        self.does.stats(runtime).served.add(1);
        self.urgency.served(began);
        self.note_priority();
        Ok(())
    }

    fn note_priority(&self) {
        let priority = &self.does.stats(self.runtime).priority;
        priority.store(self.urgency.current(), Ordering::Relaxed);
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
        Ok(match self.schedule.advance(now) {
            Step::Wait(until) => {
                self.urgency.rests();
                self.note_priority();
                self.waited = true;
                self.rest(Some((now, until)))
            }
            Step::Serve { tick, missed } => {
                self.serve(tick, missed, now)?;
                Next::At(now.since)
            }
            Step::SetAhead { before } => {
                runtime.clock.note_set_ahead(before, now);
                Next::At(now.since)
            }
        })
    }
}

#[cfg(test)]
mod tests;
