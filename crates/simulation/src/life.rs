//! A life of the node, from its start to its end: its loops, and which of them wake others.

use crate::checks::SharedSeen;
use crate::clock::WorldClock;
use crate::net::{MS, Wakes};
use crate::node::{NodeLoop, Surroundings, Tensors};
use robocache_data::recording::McapRecorder;
use robocache_runtime::{Next, Runtime};

/// Steps of the loop that records at the end of the node.
const LAST_STEPS: u64 = 3_000_000;

/// The node while it runs.
pub(crate) struct Life<'a> {
    pub runtime: &'a Runtime,
    pub loops: Vec<NodeLoop<'a>>,
    pub seen: SharedSeen,
    pub tensors: Tensors,
    /// By loop: those that may find work after a step of it.
    woken: Vec<Vec<usize>>,
    spin: Vec<usize>,
    spin_large: Vec<usize>,
    /// The loops on a grid, which a simulator's clock wakes.
    ticks: Vec<usize>,
}

impl<'a> Life<'a> {
    pub(crate) fn new(runtime: &'a Runtime, loops: Vec<NodeLoop<'a>>, of: &Surroundings) -> Self {
        let named = |names: &[&str]| -> Vec<usize> {
            let is_named = |at: &usize| {
                let name = loops[*at].name;
                names.contains(&name) || names.contains(&"encode") && name.starts_with("encode")
            };
            (0..loops.len()).filter(is_named).collect()
        };
        let woken = loops.iter().map(|of| named(woken_by(of.name))).collect();
        let [spin, spin_large] = ["spin", "spin large"].map(|name| named(&[name]));
        let ticks = named(&["tick", "command"]);
        let seen = of.seen.clone();
        let tensors = of.tensors.clone();
        Life { runtime, loops, seen, tensors, woken, spin, spin_large, ticks }
    }

    /// Loops that may find work after a step of this one, and after a simulator's clock moved in it.
    pub(crate) fn woken(&self, of: usize, moved: bool) -> impl Iterator<Item = usize> + use<'a> {
        let ticks = if moved { self.ticks.clone() } else { Vec::new() };
        self.woken[of].clone().into_iter().chain(ticks)
    }

    /// Loops that a message wakes.
    pub(crate) fn takers(&self, of: Wakes) -> Vec<usize> {
        match of {
            Wakes::Small => self.spin.clone(),
            Wakes::Large => self.spin_large.clone(),
        }
    }

    /// Ends the node: ticks and their outcomes are on their way, and the recording gets its end.
    pub(crate) fn end(&mut self, recorder: &McapRecorder, clock: &WorldClock) {
        self.runtime.stop();
        recorder.finish();
        for of in &mut self.loops {
            for _ in 0..if of.name == "record" { LAST_STEPS } else { 1 } {
                clock.spend(MS / 100);
                match (of.step)() {
                    Ok(Next::Done) | Err(_) => break,
                    Ok(_) => {}
                }
            }
        }
    }
}

/// Names of the loops that may find work after a step of another one.
fn woken_by(name: &str) -> &'static [&'static str] {
    match name {
        "tick" => &["publish"],
        "spin" | "spin large" => &["encode", "connect"],
        "report" | "graph" | "publish" | "command" => &["connect"],
        _ => &[],
    }
}
