use std::sync::Arc;

use super::*;
use crate::fuse::Fuse;
use crate::outbox::Finished;
use crate::stepped::{Noting, Stepped, at, ms, runtime, tick_loop};
use crate::steps::Found;
use crate::{Threads, TimeSource, Transit, VirtualTime};
use robocache_testing::{Finally, ended, some, until};

#[test]
fn loops_with_grids_of_their_own_step_on_one_virtual_time() {
    let time = VirtualTime::starting_at(at(0));
    let runtime = runtime(Clock::system, time.source());
    let noting = Noting::default();
    let loops = vec![tick_loop(ms(10), Fuse::default()), tick_loop(ms(4), noting.clone())];
    let mut stepped = Stepped::new(&time, &runtime, loops);
    stepped.pass(ms(100));
    // Both serve the tick at the start, and each one after it at its instant.
    let ticks = noting.take();
    assert_eq!(ticks.len(), 25);
    for (k, due) in ticks.iter().enumerate() {
        let instant = at(4 * k as i64);
        let tick = TickGrid::new(4_000_000).unwrap().tick_at(instant);
        assert_eq!(due.tick, DueTick { tick, missed: 0, looked: instant, waited: true });
    }
    assert_eq!(runtime.ticks.unsent.get(), 9);
    let Found::Work(Finished { tick, message, .. }) = runtime.outbox.take() else {
        panic!("no tensor waits")
    };
    assert_eq!(runtime.pipeline.config().grid.stamp_of(tick), at(90));
    runtime.outbox.give_back(message);
    // Nothing runs for 29 ms. Each loop serves its newest tick, and counts the others of its own grid.
    time.advance(ms(28));
    let since = time.source().monotonic();
    time.advance(ms(1));
    stepped.pass(ms(1));
    let overruns = [&*noting.stats, &runtime.ticks.grid].map(|stats| stats.overruns.get());
    assert_eq!(overruns, [7, 2]);
    let ticks = noting.take();
    assert_eq!(ticks.iter().map(|due| due.tick.looked).collect::<Vec<_>>(), [at(129)]);
    assert_eq!(ticks[0].since, since, "the tick at 128 ms");
    stepped.stop();
}

#[test]
fn all_loops_notice_a_clock_that_is_set_ahead_and_it_counts_once() {
    let time = VirtualTime::starting_at(at(0));
    let runtime = runtime(Clock::system, time.source());
    let notes = [Noting::default(), Noting::default()];
    let loops = [ms(10), ms(4)].into_iter().zip(notes.clone());
    let loops = loops.map(|(period, noting)| tick_loop(period, noting)).collect();
    let mut stepped = Stepped::new(&time, &runtime, loops);
    stepped.pass(ms(21));
    assert_eq!(notes.each_ref().map(|noting| noting.take().len()), [3, 6]);
    for (times, hour) in [(1, 3_600_000), (2, 7_200_000)] {
        time.set_system(at(hour));
        stepped.pass(ms(60));
        assert_eq!(runtime.clock.times_set_ahead(), times);
        // Nothing between is an overrun.
        for noting in &notes {
            let ticks = noting.take();
            assert!(ticks[0].tick.looked >= at(hour) && ticks.len() >= 5, "{ticks:?}");
            assert_eq!(noting.stats.overruns.get(), 0);
        }
    }
}

#[test]
fn all_loops_see_each_reading_of_a_simulators_clock_and_its_epochs() {
    let time = VirtualTime::starting_at(at(0));
    let runtime = runtime(Clock::simulated, time.source());
    let notes = [Noting::default(), Noting::default()];
    let loops = [ms(10), ms(4)].into_iter().zip(notes.clone());
    let loops = loops.map(|(period, noting)| tick_loop(period, noting)).collect();
    let mut stepped = Stepped::new(&time, &runtime, loops);
    let served = || notes.each_ref().map(Noting::take);
    let instants = |ticks: &[Due]| -> Vec<_> { ticks.iter().map(|due| due.tick.looked).collect() };
    // At 1 ms nothing is due.
    for stamp in [1, 4, 10, 12, 20] {
        stepped.set_clock(at(stamp));
        stepped.pass(ms(2));
    }
    let [slow, fast] = served();
    assert_eq!(instants(&slow), [at(10), at(20)]);
    assert_eq!(instants(&fast), [at(4), at(10), at(12), at(20)]);
    let [first, again] = [slow[0].epoch, fast[3].epoch];
    assert_eq!(first, again);
    // Both look late. For each, its tick is due since the message that reached its own instant.
    let began = time.source().monotonic();
    for stamp in [24, 28, 30, 31] {
        time.advance(ms(1));
        stepped.set_clock(at(stamp));
    }
    time.advance(ms(5));
    stepped.pass(ms(1));
    let [slow, fast] = served();
    assert_eq!([slow[0].since, fast[0].since], [began + ms(3), began + ms(2)]);
    assert_eq!([&slow[0], &fast[0]].map(|due| due.tick.missed), [0, 1]);
    assert_eq!([slow.len(), fast.len()], [1, 1]);
    // Back by more than a tick of the tensors: an epoch for both, however long their own ticks are.
    stepped.set_clock(at(0));
    stepped.pass(ms(1));
    for ticks in served() {
        assert_eq!(instants(&ticks), [at(0)]);
        assert_eq!(ticks[0].epoch, first.next(Some(at(31))));
    }
    stepped.stop();
}

/// Loops on threads of their own. That a reading wakes them at once is tested at the clock.
#[test]
fn loops_on_threads_serve_each_reading_of_a_simulators_clock_and_end_at_a_stop() {
    let runtime = runtime(Clock::simulated, TimeSource::real());
    let notes = [Noting::default(), Noting::default()];
    std::thread::scope(|scope| {
        let _stops = Finally(|| runtime.stop());
        let threads = [ms(10), ms(4)].into_iter().zip(notes.clone()).map(|(period, noting)| {
            let runtime = &runtime;
            let ticking = tick_loop(period, noting);
            scope.spawn(move || ticking.run(runtime))
        });
        let threads: Vec<_> = threads.collect();
        let mut epochs = Vec::new();
        for stamp in [20, 40, 0] {
            runtime.sim_clock().unwrap().set(at(stamp), Transit::UNKNOWN);
            until("both loops tick", || notes.iter().all(|noting| noting.len() == 1));
            let dues = notes.each_ref().map(|noting| noting.take()[0]);
            assert_eq!(dues.map(|due| due.tick.looked), [at(stamp); 2]);
            assert_eq!(dues[0].epoch, dues[1].epoch);
            epochs.push(dues[0].epoch);
        }
        // The last one may not be counted yet.
        assert!(notes.iter().all(|noting| noting.stats.served.get() >= 2));
        assert!(epochs[0] == epochs[1] && epochs[1].is_before(epochs[2]));
        runtime.stop();
        threads.into_iter().for_each(|thread| ended("a loop", thread).unwrap());
    });
}

/// Work that cannot be done.
struct Broken(fn() -> Result<(), RuntimeError>, GridStats);

impl TickWork for Broken {
    fn tick(&mut self, _: &Runtime, _: &Due) -> Result<(), RuntimeError> {
        self.0()
    }

    fn stats<'a>(&'a self, _: &'a Runtime) -> &'a GridStats {
        &self.1
    }
}

#[test]
fn the_failure_of_a_loop_has_the_name_of_its_thread() {
    type Work = fn() -> Result<(), RuntimeError>;
    let works: [(Work, &str); 2] = [
        (|| panic!("a test of a panic"), "the test thread panicked"),
        (|| Err(RuntimeError::Panicked("other")), "the other thread panicked"),
    ];
    for (work, expected) in works {
        let runtime = Arc::new(runtime(Clock::system, TimeSource::real()));
        let stopped = Arc::clone(&runtime);
        let mut threads = Threads::<RuntimeError>::new(move || stopped.stop());
        let ticking = Arc::clone(&runtime);
        let broken = Broken(work, GridStats::default());
        threads.spawn("test", move || tick_loop(ms(1), broken).run(&ticking)).unwrap();
        let failure = some("the failure of the loop", || threads.failed());
        assert_eq!(failure.to_string(), expected);
        threads.stop().unwrap();
    }
}
