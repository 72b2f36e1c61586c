//! Pushes and ticks of the shipped configuration, to measure their cost on one thread: 0.3 s of the synthetic robot.
//!
//! Count instructions, which are the same in every run, as `valgrind --tool=callgrind` does:
//!
//! ```text
//! cargo build --release --example push_and_tick
//! valgrind --tool=callgrind --collect-atstart=no --toggle-collect='*Pipeline>::push' PROGRAM [STREAM]
//! valgrind --tool=callgrind --collect-atstart=no --toggle-collect='*Pipeline>::tick' PROGRAM
//! ```
//!
//! With the name of a stream of the robot (`joints`, `wrench`, ...) only its messages are pushed.

use std::sync::Arc;

use robocache_core::backend::cpu::CpuBackend;
use robocache_core::config;
use robocache_core::layout::Layout;
use robocache_core::pipeline::{Arrival, Pipeline};
use robocache_core::spec::InputId;
use robocache_ops::time::{Epoch, NANOS_PER_MS, Stamp};
use robocache_sim::{Robot, Schedule, SimOptions};

const START: Stamp = Stamp::from_nanos(1_795_000_000_000_000_000);
const LENGTH_NS: i64 = 300 * NANOS_PER_MS;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let only = std::env::args().nth(1);
    let config = config::load("config/robocache.yaml".as_ref())?;
    let topics: Vec<String> = config.inputs.iter().map(|input| input.topic.clone()).collect();
    let backend = CpuBackend::new(&config, &Layout::new(&config))?;
    let pipeline = Pipeline::new(config, Arc::new(backend))?;
    let grid = pipeline.config().grid;
    let options = SimOptions { duration: 1.0, ..SimOptions::default() };
    let robot = Robot::new(options.clone())?;
    let mut message = pipeline.new_message();
    let mut tick = grid.tick_at(START) + 1;
    let mut pushes = 0;
    let mut ticks = 0;
    for event in Schedule::new(&options, START) {
        while grid.stamp_of(tick) <= START.offset(event.due_ns.min(LENGTH_NS)) {
            pipeline.tick(tick, Epoch::default(), &mut message)?;
            (tick, ticks) = (tick + 1, ticks + 1);
        }
        if event.due_ns > LENGTH_NS {
            break;
        }
        if only.as_ref().is_some_and(|only| only != event.stream.name()) {
            continue;
        }
        let bytes = robot.message(&event, Vec::new());
        for at in (0..topics.len()).filter(|at| topics[*at] == event.stream.topic()) {
            pipeline.push(InputId::new(at), &bytes, Arrival::default())?;
            pushes += 1;
        }
    }
    println!("{pushes} pushes, {ticks} ticks");
    Ok(())
}
