//! The thread of a loop allocates nothing in its ticks. In a program of its own, because an allocator is that of the whole program.

#![allow(unsafe_code)] // an allocator; its blocks say why they are sound

use std::alloc::{GlobalAlloc, Layout as Block, System};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use robocache_core::backend::cpu::CpuBackend;
use robocache_core::command::SentChunk;
use robocache_core::config;
use robocache_core::layout::Layout;
use robocache_core::message::TensorMessage;
use robocache_core::pipeline::Pipeline;
use robocache_ops::time::Stamp;
use robocache_runtime::{
    Clock, CommandEnds, CommandPublisher, DueTick, Observer, Publisher, Refused, Runtime,
    RuntimeError, SharedBytes, ThreadOptions, Threads, TimeSource, Transit,
};
use robocache_sim::{Robot, SimOptions};
use robocache_testing::until;

const START: Stamp = Stamp::from_nanos(1_795_000_000_000_000_000);
/// In the first ticks, memory for later ones may be taken.
const FIRST: u64 = 20;
const TICKS: u64 = 100;
/// Most ticks until each loop has served its first ones: its period may be a second.
const MOST_TICKS: u64 = 3000;

/// Allocations of the threads of loops, after their first ticks.
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// True in the thread of a loop, after its first ticks.
    static COUNTS: Cell<bool> = const { Cell::new(false) };
    /// Ticks of the loop of this thread.
    static BEGUN: Cell<u64> = const { Cell::new(0) };
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

struct Counting;

// SAFETY: each call is passed to the system's allocator as it is. `realloc` and `alloc_zeroed` call `alloc`.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, block: Block) -> *mut u8 {
        // A thread that ends has no such value any more. It serves no tick.
        if COUNTS.try_with(Cell::get).unwrap_or(false) {
            ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        }
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(block) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, block: Block) {
        // SAFETY: `memory` is of `alloc`, with this block.
        unsafe { System.dealloc(memory, block) }
    }
}

#[derive(Default)]
struct Ticks {
    /// Loops that count, each after an allocation that is counted.
    counted: AtomicU64,
    published: AtomicU64,
}

impl Observer for Ticks {
    /// The thread of each loop calls it.
    fn due(&self, _: &'static str, _: DueTick) {
        BEGUN.set(BEGUN.get() + 1);
        if BEGUN.get() == FIRST + 1 {
            COUNTS.set(true);
            drop(std::hint::black_box(Box::new(FIRST)));
            self.counted.fetch_add(1, Ordering::Relaxed);
        }
    }
}

struct Counter(Arc<Ticks>);

impl Publisher for Counter {
    fn publish(&self, _: &mut TensorMessage) -> Result<(), Refused> {
        self.0.published.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

/// Sends nothing.
struct Unsent;

impl CommandPublisher for Unsent {
    fn send(&mut self, _: usize, _: &[u8]) {}

    fn tell(&mut self, _: usize, _: &[u8]) {}

    fn audience(&mut self, _: usize) -> Option<usize> {
        None
    }
}

/// A group of two joints of the simulated robot, at the rate of the tensors.
const COMMANDS: &str = "
commands:
  rate_hz: 100
  groups:
    arm:
      joints: [joint_0, joint_1]
      rows: {steps: 50, step_ms: 20}
      interpolate: cubic
      start_from: joints
      watchdog_ms: 500
      limits:
        joints:
          joint_0: {position: [-9, 9], velocity: 2, acceleration: 10}
          joint_1: {position: [-9, 9], velocity: 2, acceleration: 10}
      output: {topic: /trajectory, type: trajectory_msgs/msg/JointTrajectory, points_ms: 20}
";

/// A chunk that answers a tick.
fn chunk(epoch: u64, stamp: Stamp, tick: i64) -> SharedBytes {
    let names = ["joint_0", "joint_1"].map(str::to_owned);
    let values: Vec<f32> = (0..100u8).map(|at| 0.001 * f32::from(at)).collect();
    let sent = SentChunk {
        run: 0,
        epoch,
        stamp,
        tick,
        sequence: tick.unsigned_abs(),
        group: "arm",
        names: &names,
        values: &values,
        reference: &[],
    };
    Arc::new(sent.to_cdr(Vec::new()))
}

#[test]
fn the_threads_of_loops_allocate_nothing() {
    // Streams that interpolate and that hold; images, a cloud.
    let text = [include_str!("../../../config/robocache.yaml"), COMMANDS].concat();
    let config = config::parse(&text, "robocache.yaml").unwrap();
    let grid = config.grid;
    let inputs: Vec<_> =
        config.input_ids().map(|id| (id, config.input(id).topic.clone())).collect();
    let backend = Arc::new(CpuBackend::new(&config, &Layout::new(&config)).unwrap());
    let ticks = Arc::new(Ticks::default());
    let observer = Arc::clone(&ticks) as Arc<dyn Observer>;
    let pipeline = Pipeline::new(config, backend).unwrap();
    let runtime = Arc::new(
        Runtime::observed(pipeline, Clock::simulated(grid, TimeSource::real()), observer)
            .with_commands(),
    );
    let commander = Some(CommandEnds { publisher: Box::new(Unsent), source: None });
    let threads: Threads<RuntimeError> =
        Threads::start(&runtime, Counter(Arc::clone(&ticks)), commander, ThreadOptions::default())
            .unwrap();
    let robot = Robot::new(SimOptions::default()).unwrap();
    let mut events = robot.schedule(START).peekable();
    let first = grid.tick_at(START) + 1;
    let mut sent = 0;
    let loops = runtime.loops().count() as u64;
    let counted = || ticks.counted.load(Ordering::Relaxed);
    for tick in (0..MOST_TICKS).take_while(|tick| *tick < TICKS || counted() < loops) {
        let now = grid.stamp_of(first + tick as i64);
        runtime.sim_clock().unwrap().set(now, Transit::UNKNOWN);
        until("the tick", || ticks.published.load(Ordering::Relaxed) > tick);
        // A policy answers each tensor.
        let commands = runtime.commands.as_ref().unwrap();
        commands.arm().unwrap();
        let epoch = runtime.clock.now().unwrap().epoch.number();
        commands.give(chunk(epoch, now, first + tick as i64), 1);
        while let Some(event) = events.next_if(|event| START.offset(event.due_ns) <= now) {
            for (input, _) in inputs.iter().filter(|(_, topic)| topic == event.stream.topic()) {
                let arrival = runtime.clock.arrival(Transit::UNKNOWN);
                runtime.receive(*input, robot.message(&event, Vec::new()), arrival).unwrap();
                sent += 1;
            }
        }
        let accepted = |input| runtime.input_stats(input).accepted.get();
        until("rows of all messages", || runtime.inputs().map(accepted).sum::<u64>() == sent);
    }
    for stream in runtime.streams() {
        let name = &runtime.stream_spec(stream).name;
        assert!(runtime.stream_stats(stream).steps_valid.get() > TICKS / 2, "{name} had no rows");
    }
    let group = runtime.commands.as_ref().unwrap().groups[0].seen();
    assert!(group.counts.chunks > TICKS / 2, "{group:?}");
    threads.stop().unwrap();
    assert_eq!(counted(), loops, "each loop has served ticks");
    assert_eq!(ALLOCATIONS.load(Ordering::Relaxed), loops, "those of the observer alone");
}
