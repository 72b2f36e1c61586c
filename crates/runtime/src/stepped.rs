//! Steps loops on virtual time, for tests of loops: each loop takes a step when its last answer says so, or when the
//! test sets a simulator's clock.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::clock::{Clock, Transit};
use super::priority::WorkWords;
use super::state::GridStats;
use super::steps::{Next, Steps};
use super::ticker::{Due, TickLoop, TickWork, Ticker};
use super::{Placement, Runtime, RuntimeError, TimeSource, VirtualTime};
use robocache_core::backend::cpu::CpuBackend;
use robocache_core::config;
use robocache_core::layout::Layout;
use robocache_core::pipeline::Pipeline;
use robocache_ops::sync::lock;
use robocache_ops::time::{NANOS_PER_MS, Stamp, TickGrid};

/// An instant at which ticks of all periods of whole milliseconds up to 10 ms are due.
pub(crate) const START: Stamp = Stamp::from_nanos(1_764_000_000_000_000_000);

/// Time of so many milliseconds.
pub(crate) const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Instant so many milliseconds after [`START`].
pub(crate) fn at(ms: i64) -> Stamp {
    START.offset(ms * NANOS_PER_MS)
}

/// Work that notes its ticks. A clone shows them.
#[derive(Clone, Default)]
pub(crate) struct Noting {
    ticks: Arc<Mutex<Vec<Due>>>,
    pub stats: Arc<GridStats>,
}

impl Noting {
    /// Takes the ticks since the last call.
    pub(crate) fn take(&self) -> Vec<Due> {
        std::mem::take(&mut *lock(&self.ticks))
    }

    /// Returns how many ticks wait to be taken.
    pub(crate) fn len(&self) -> usize {
        lock(&self.ticks).len()
    }
}

impl TickWork for Noting {
    fn tick(&mut self, _: &Runtime, due: &Due) -> Result<(), RuntimeError> {
        lock(&self.ticks).push(*due);
        Ok(())
    }

    fn stats<'a>(&'a self, _: &'a Runtime) -> &'a GridStats {
        &self.stats
    }
}

/// A loop with the ticks of a period, on a thread at ordinary priority.
pub(crate) fn tick_loop(period: Duration, does: impl TickWork + 'static) -> TickLoop {
    TickLoop {
        name: "test",
        runs: "ticks run",
        work: WorkWords { name: "of a test", relief: "make the test smaller" },
        grid: TickGrid::new(period.as_nanos() as i64).unwrap(),
        placement: Placement::default(),
        does: Box::new(does),
    }
}

/// A runtime with one stream and ticks each 10 ms, on such a clock.
pub(crate) fn runtime(clock: fn(TickGrid, TimeSource) -> Clock, time: TimeSource) -> Runtime {
    let text = "rate_hz: 100\nstreams: {w: {type: geometry_msgs/WrenchStamped, topic: /w, max_age_ms: 50}}";
    let config = config::parse(text, "test.yaml").unwrap();
    let backend = Arc::new(CpuBackend::new(&config, &Layout::new(&config)).unwrap());
    let clock = clock(config.grid, time);
    Runtime::new(Pipeline::new(config, backend).unwrap(), clock)
}

/// Loops of a runtime, each with the instant of its next step.
pub(crate) struct Stepped<'a> {
    time: VirtualTime,
    runtime: &'a Runtime,
    loops: Vec<(Ticker<'a>, Instant)>,
}

impl<'a> Stepped<'a> {
    pub(crate) fn new(time: &VirtualTime, runtime: &'a Runtime, loops: Vec<TickLoop>) -> Self {
        let now = time.source().monotonic();
        let loops = loops.into_iter().map(|it| (Ticker::new(it, runtime, 0), now)).collect();
        Stepped { time: time.clone(), runtime, loops }
    }

    /// Lets a time pass: steps whichever loop is due next, until nothing is due before its end.
    pub(crate) fn pass(&mut self, time: Duration) {
        let source = self.time.source();
        let end = source.monotonic() + time;
        while let Some((ticker, due)) = self.loops.iter_mut().min_by_key(|(_, due)| *due)
            && *due < end
        {
            self.time.advance(source.until(*due));
            match ticker.step().unwrap() {
                Next::At(next) => *due = next,
                other => panic!("expected an instant, found {other:?}"),
            }
        }
        self.time.advance(source.until(end));
    }

    /// Sets the simulator's clock, which wakes all loops. They look at it when time passes.
    pub(crate) fn set_clock(&mut self, stamp: Stamp) {
        self.runtime.sim_clock().unwrap().set(stamp, Transit::UNKNOWN);
        let now = self.time.source().monotonic();
        self.loops.iter_mut().for_each(|(_, due)| *due = now);
    }

    /// Stops the runtime, and checks that each loop ends with its next step.
    pub(crate) fn stop(&mut self) {
        self.runtime.stop();
        for (ticker, _) in &mut self.loops {
            assert_eq!(ticker.step().unwrap(), Next::Done);
        }
    }
}
