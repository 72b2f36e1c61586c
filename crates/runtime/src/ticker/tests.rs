use std::sync::{Arc, Mutex};
use std::time::Instant;

use super::*;
use crate::fuse::Fuse;
use crate::outbox::Finished;
use crate::steps::Found;
use crate::{TimeSource, VirtualTime};
use robocache_core::backend::cpu::CpuBackend;
use robocache_core::config;
use robocache_core::layout::Layout;
use robocache_core::pipeline::Pipeline;
use robocache_ops::sync::lock;
use robocache_ops::time::NANOS_PER_MS;

/// An instant at which ticks of all grids here are due.
const START: Stamp = Stamp::from_nanos(1_795_000_000_000_000_000);

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn at(ms: i64) -> Stamp {
    START.offset(ms * NANOS_PER_MS)
}

/// Notes its ticks.
#[derive(Clone, Default)]
struct Counting {
    ticks: Arc<Mutex<Vec<DueTick>>>,
    stats: Arc<GridStats>,
}

impl TickWork for Counting {
    fn tick(&mut self, _: &Runtime, due: &Due) -> Result<(), RuntimeError> {
        lock(&self.ticks).push(due.tick);
        Ok(())
    }

    fn stats<'a>(&'a self, _: &'a Runtime) -> &'a GridStats {
        &self.stats
    }
}

fn tick_loop(grid: TickGrid, does: Box<dyn TickWork>) -> TickLoop {
    let placement = Placement::default();
    TickLoop { name: "test", runs: "ticks run", work: "of a tick", grid, placement, does }
}

fn runtime(time: TimeSource) -> Runtime {
    let text = "rate_hz: 100\nstreams: {w: {type: geometry_msgs/WrenchStamped, topic: /w, max_age_ms: 50}}";
    let config = config::parse(text, "test.yaml").unwrap();
    let backend = Arc::new(CpuBackend::new(&config, &Layout::new(&config)).unwrap());
    let clock = Clock::system(config.grid, time);
    Runtime::new(Pipeline::new(config, backend).unwrap(), clock)
}

/// Loops, each with the instant of its next step.
struct Stepped<'a> {
    time: VirtualTime,
    loops: Vec<(Ticker<'a>, Instant)>,
}

impl<'a> Stepped<'a> {
    fn new(time: &VirtualTime, runtime: &'a Runtime, loops: Vec<TickLoop>) -> Self {
        let now = time.source().monotonic();
        let loops = loops.into_iter().map(|it| (Ticker::new(it, runtime, 0), now)).collect();
        Stepped { time: time.clone(), loops }
    }

    /// Steps whichever loop is due next, until nothing is due before an instant.
    fn until(&mut self, end: Instant) {
        let source = self.time.source();
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
}

#[test]
fn loops_with_grids_of_their_own_step_on_one_virtual_time() {
    let time = VirtualTime::starting_at(at(0));
    let runtime = runtime(time.source());
    let (counting, grid) = (Counting::default(), TickGrid::new(4 * NANOS_PER_MS).unwrap());
    let fuse = tick_loop(runtime.pipeline.config().grid, Box::<Fuse>::default());
    let loops = vec![fuse, tick_loop(grid, Box::new(counting.clone()))];
    let mut stepped = Stepped::new(&time, &runtime, loops);
    let start = time.source().monotonic();
    stepped.until(start + ms(100));
    // Both serve the tick at the start, and each one after it at its instant.
    let ticks = std::mem::take(&mut *lock(&counting.ticks));
    assert_eq!(ticks.len(), 25);
    for (k, due) in ticks.iter().enumerate() {
        let instant = at(4 * k as i64);
        let tick = grid.tick_at(instant);
        assert_eq!(*due, DueTick { tick, missed: 0, looked: instant, waited: true });
    }
    assert_eq!(runtime.ticks.unsent.get(), 9);
    let Found::Work(Finished { tick, message, .. }) = runtime.outbox.take() else {
        panic!("no tensor waits")
    };
    assert_eq!(runtime.pipeline.config().grid.stamp_of(tick), at(90));
    runtime.outbox.give_back(message);
    // Nothing runs for 29 ms. Each loop serves its newest tick, and counts the others of its own grid.
    time.advance(ms(29));
    stepped.until(start + ms(130));
    let overruns = [&*counting.stats, &runtime.ticks.grid].map(|stats| stats.overruns.get());
    assert_eq!(overruns, [7, 2]);
    assert_eq!(lock(&counting.ticks).iter().map(|due| due.looked).collect::<Vec<_>>(), [at(129)]);
    runtime.stop();
    for (ticker, _) in &mut stepped.loops {
        assert_eq!(ticker.step().unwrap(), Next::Done);
    }
}
