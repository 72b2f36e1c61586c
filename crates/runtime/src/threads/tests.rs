use std::ptr;

use super::*;
use crate::{Clock, CommandPublisher, TimeSource};
use robocache_core::backend::cpu::CpuBackend;
use robocache_core::config;
use robocache_core::layout::Layout;
use robocache_core::pipeline::Pipeline;

/// A configuration for which each loop runs.
const TEXT: &str = "
rate_hz: 100
streams:
  joints: {type: sensor_msgs/JointState, topic: /joints, joints: [a], max_age_ms: 50}
commands:
  rate_hz: 250
  groups:
    arm:
      joints: [a]
      rows: {steps: 2, step_ms: 20}
      start_from: joints
      watchdog_ms: 500
      on_stall: hold
      on_end: hold
      limits: none
      output: {topic: /commands, type: std_msgs/msg/Float64MultiArray}
";

/// Sends nothing.
struct Unsent;

impl CommandPublisher for Unsent {
    fn send(&mut self, _: usize, _: &[u8]) {}

    fn tell(&mut self, _: usize, _: &[u8]) {}

    fn audience(&mut self, _: usize) -> Option<usize> {
        None
    }
}

fn runtime() -> Runtime {
    let config = config::parse(TEXT, "test.yaml").unwrap_or_else(|error| panic!("{error}"));
    let clock = Clock::simulated(config.grid, TimeSource::real());
    let backend = CpuBackend::new(&config, &Layout::new(&config)).unwrap();
    Runtime::new(Pipeline::new(config, Arc::new(backend)).unwrap(), clock)
}

/// The diagnostics list the loops that have a thread, with the same grids and counters.
#[track_caller]
fn assert_same_loops(runtime: &Runtime, names: &[&str]) {
    let ends = CommandEnds { publisher: Box::new(Unsent), source: None };
    let started = loops(runtime, Some(ends), &ThreadOptions::default());
    let listed: Vec<_> = runtime.loops().collect();
    assert_eq!(started.iter().map(|of| of.name).collect::<Vec<_>>(), names);
    assert_eq!(listed.iter().map(|(name, ..)| *name).collect::<Vec<_>>(), names);
    for (started, (name, grid, stats)) in started.iter().zip(listed) {
        assert_eq!(started.grid, grid, "{name}");
        assert!(ptr::eq(started.does.stats(runtime), stats), "{name}: other counters");
    }
}

#[test]
fn the_loops_that_run_are_those_that_are_listed() {
    assert_same_loops(&runtime(), &["tick"]);
    assert_same_loops(&runtime().with_commands(), &["tick", "command"]);
}
