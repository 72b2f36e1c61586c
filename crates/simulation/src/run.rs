//! A run of a seed, from its plan to its verdict.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::backend::FaultyBackend;
use crate::checks::{Seen, SharedSeen, Tap, TickCheck, all_are_heard, harm, losses_add_up};
use crate::clock::WorldClock;
use crate::disk::SimFiles;
use crate::faults::Fault;
use crate::life::Life;
use crate::net::{CHUNKS, Net, SharedNet};
use crate::node::{self, Surroundings, Tensors};
use crate::passes::Passes;
use crate::plan::{LAST_NS, Plan};
use crate::robot;
use crate::world::{Turn, World};
use robocache_core::backend::Choice;
use robocache_core::backend::cpu::CpuBackend;
use robocache_core::config;
use robocache_core::layout::Layout;
use robocache_core::pipeline::Pipeline;
use robocache_core::schema::Prefixes;
use robocache_data::recording::{Manifest, McapRecorder, RecordOptions, Writing};
use robocache_link::Middleware;
use robocache_ops::sync::lock;
use robocache_ops::time::Stamp;
use robocache_runtime::{Clock, Recorder, Runtime};
use robocache_tools::verify::{VerifyReport, verify};

/// Messages that wait for the disk: more than come in the longest time that it hangs. Their places are memory, which each
/// run begins with.
const QUEUE: usize = 1 << 12;

/// How a run went.
#[derive(Debug, Default)]
pub struct Outcome {
    /// First broken invariant.
    pub violation: Option<String>,
    /// Number of all that happened.
    pub trace: u64,
    /// The last events, a line each.
    pub last: Vec<String>,
    /// The faults that the run had, by their bits.
    pub faults: u64,
    /// Choices of the scheduler.
    pub choices: u64,
    /// Times that the process stood still for so long that it can notice it.
    pub standstills: u64,
    /// Simulated time \[s\].
    pub seconds: f64,
    /// New connections of the node.
    pub renewed: u64,
    /// Lives of the node.
    pub lives: u64,
    /// Tensors that were published.
    pub tensors: u64,
    /// Valid values in the tensors.
    pub valid: u64,
    /// Commands that were sent.
    pub commands: u64,
    /// Ticks that a replay of the recordings gave again, bit for bit.
    pub equal: u64,
    /// The newest recording, if the caller keeps it.
    pub recording: PathBuf,
}

/// Runs a seed. Faults that `mask` lacks do not happen, and none happens after `seconds`. The recordings go below `folder`.
/// If the node made a new connection, the seed runs once more without healing: what that node gets, the other must get too.
///
/// # Errors
/// The run does not begin.
pub fn run(seed: u64, mask: u64, seconds: u64, folder: &Path) -> Result<Outcome, String> {
    let plan = Plan::draw(seed, mask, seconds);
    let (mut outcome, net) = Stage::new(&plan, true, None, folder).run()?;
    if outcome.violation.is_none() && outcome.renewed > 0 {
        let ends_ns = lock(&net).clock.now_ns();
        let (other, unhealed) = Stage::new(&plan, false, Some(ends_ns), folder).run()?;
        outcome.choices += other.choices;
        outcome.standstills += other.standstills;
        outcome.seconds += other.seconds;
        outcome.violation = other.violation.map(|why| format!("without healing: {why}"));
        // When a backend fails depends on the work of the node.
        if outcome.violation.is_none() && !plan.has(Fault::BadBackend) {
            outcome.violation = harm(&lock(&net), &lock(&unhealed), ends_ns - LAST_NS);
        }
    }
    Ok(outcome)
}

/// All that the lives of the node in a run share.
struct Stage<'a> {
    plan: &'a Plan,
    clock: WorldClock,
    net: SharedNet,
    /// True while the disk of the recording is full, and while the backend fails.
    is_full: Arc<AtomicBool>,
    is_broken: Arc<AtomicBool>,
    middleware: Middleware,
    /// When the run ends; `None` if the plan says it.
    ends_ns: Option<u64>,
    folder: &'a Path,
    outcome: Outcome,
}

impl<'a> Stage<'a> {
    fn new(plan: &'a Plan, heals: bool, ends_ns: Option<u64>, folder: &'a Path) -> Self {
        let clock = WorldClock::new();
        let net = Net::new(plan.seed, clock.clone(), plan.rules.clone());
        let numbers = plan.rules.numbers;
        Stage {
            plan,
            net: Arc::new(Mutex::new(net)),
            clock,
            is_full: Arc::default(),
            is_broken: Arc::default(),
            middleware: Middleware {
                name: if numbers { "rmw_fastrtps_cpp" } else { "rmw_other" }.to_owned(),
                numbers_messages: numbers,
                cuts_off: numbers && heals,
            },
            ends_ns,
            folder,
            outcome: Outcome { faults: plan.faults, ..Outcome::default() },
        }
    }

    fn run(mut self) -> Result<(Outcome, SharedNet), String> {
        let first = self.runtime()?;
        let passes = Passes::new(self.plan.simulated);
        let surroundings = self.surroundings(&first, passes.bases.clone());
        let is_full = Arc::clone(&self.is_full);
        let is_broken = Arc::clone(&self.is_broken);
        let mut world =
            World::new(self.plan, &surroundings, passes, self.ends_ns, is_full, is_broken);
        let mut turn = Turn::NodeBegins;
        let mut next = Some(first);
        while turn != Turn::RunEnds {
            turn = match turn {
                Turn::NodeBegins => {
                    let runtime = next.take().map_or_else(|| self.runtime(), Ok)?;
                    self.live(runtime, &mut world, &surroundings)?
                }
                _ => world.go(None),
            };
        }
        let seen = &mut *lock(&surroundings.seen);
        let mut net = lock(&self.net);
        net.begin_life();
        if net.unfounded > 0 {
            let Net { renewed, unfounded, .. } = *net;
            seen.fail(format!(
                "{unfounded} of {renewed} new connections were made although the one before was heard"
            ));
        }
        let outcome = Outcome {
            violation: seen.violation().cloned(),
            trace: world.trace.hash(),
            last: world.trace.lines(),
            choices: world.choices,
            standstills: world.standstills,
            seconds: self.clock.now_ns() as f64 / 1e9,
            renewed: net.renewed,
            tensors: seen.published,
            valid: seen.valid,
            commands: surroundings.sent.load(Ordering::Relaxed),
            ..self.outcome
        };
        drop(net);
        Ok((outcome, self.net))
    }

    fn surroundings(&self, runtime: &Runtime, bases: Vec<Stamp>) -> Surroundings {
        let mut seen = Seen::new(runtime, self.clock.clone(), bases);
        let tells_not = [Fault::OtherMachine, Fault::SetClock, Fault::Suspend];
        seen.tells_publications =
            self.plan.simulated && !tells_not.iter().any(|of| self.plan.has(*of));
        Surroundings {
            net: Arc::clone(&self.net),
            clock: self.clock.clone(),
            seen: Arc::new(Mutex::new(seen)),
            tensors: Tensors::default(),
            middleware: self.middleware.clone(),
            sent: Arc::new(AtomicU64::new(0)),
        }
    }

    /// Lets a node live, and looks at what it leaves.
    fn live(
        &mut self,
        mut runtime: Runtime,
        world: &mut World<'_>,
        surroundings: &Surroundings,
    ) -> Result<Turn, String> {
        let seen = &surroundings.seen;
        lock(seen).begin_life(&runtime);
        lock(&self.net).begin_life();
        self.is_full.store(false, Ordering::Relaxed);
        self.is_broken.store(false, Ordering::Relaxed);
        let (recorder, writing) = self.record(&runtime)?;
        let recorder = Arc::new(recorder);
        let topics = runtime.inputs().map(|id| runtime.input_spec(id).topic.clone()).collect();
        let tap = Tap {
            inner: Arc::clone(&recorder),
            seen: Arc::clone(seen),
            net: Arc::clone(&self.net),
            topics,
        };
        runtime.recorder = Some(Arc::new(tap) as Arc<dyn Recorder>);
        let check = TickCheck(Arc::clone(seen), self.clock.clone(), self.plan.simulated);
        runtime.set_observer(Arc::new(check));
        let runtime = Arc::new(runtime);
        let loops = node::loops(&runtime, surroundings, writing)?;
        let mut life = Life::new(&runtime, loops, surroundings);
        world.enter_node(&mut life);
        let turn = world.go(Some(&mut life));
        if turn == Turn::RunEnds {
            self.look_at_the_end(&runtime, world);
        }
        life.end(&recorder, &self.clock);
        drop(life);
        self.outcome.lives += 1;
        self.outcome.recording = recorder.folder();
        self.replay(turn, seen);
        Ok(turn)
    }

    /// Looks at the network at the end of the run.
    fn look_at_the_end(&self, runtime: &Runtime, world: &World<'_>) {
        let seen = &mut *lock(&world.seen);
        let net = &*lock(&self.net);
        if seen.violation().is_some() {
            return;
        }
        if world.heals
            && let Err(why) = all_are_heard(seen, net, &world.sources)
        {
            seen.fail(why);
        }
        losses_add_up(seen, net, runtime);
    }

    /// Replays the recording, unless an invariant is broken already.
    fn replay(&mut self, turn: Turn, seen: &SharedSeen) {
        let seen = &mut *lock(seen);
        if seen.violation().is_some() {
            return;
        }
        let is_cut = self.plan.has(Fault::FullDisk) || turn == Turn::NodeEnds(true);
        match verify(&self.outcome.recording, Choice::Cpu, 0) {
            Ok(report) => {
                compare(&report, is_cut, seen);
                self.outcome.equal += report.equal;
            }
            // The disk may have been full before the first message.
            Err(error) if is_cut => drop(error),
            Err(error) => seen.fail(format!("the recording cannot be verified: {error}")),
        }
    }

    fn runtime(&self) -> Result<Runtime, String> {
        let plan = self.plan;
        let text = robot::config(plan.rate_hz, plan.lag_ms);
        let config = config::parse(&text, "robot.yaml").map_err(|error| error.to_string())?;
        let backend = CpuBackend::new(&config, &Layout::new(&config));
        let backend = backend.map_err(|error| error.to_string())?;
        let backend = FaultyBackend::new(backend, plan, &self.clock, &self.is_broken);
        let grid = config.grid;
        let pipeline = Pipeline::new(config, Arc::new(backend));
        let pipeline = pipeline.map_err(|error| error.to_string())?;
        let time = self.clock.source().clone();
        let clock = match plan.simulated {
            true => Clock::simulated(grid, time.clone()),
            false => Clock::system(grid, time.clone()),
        };
        Ok(Runtime::new(pipeline.with_run(time.draw_run()), clock).with_commands())
    }

    fn record(&self, runtime: &Runtime) -> Result<(McapRecorder, Writing), String> {
        let config = runtime.pipeline.config();
        let manifest = Manifest {
            chunks: Some(CHUNKS.to_owned()),
            run: runtime.pipeline.run(),
            ..Manifest::of(config, runtime.clock.is_simulated(), true, "cpu")
        };
        let options = RecordOptions {
            files: Some(Box::new(SimFiles(Arc::clone(&self.is_full)))),
            has_graph: true,
            queue_messages: QUEUE,
            ..RecordOptions::new(self.folder, manifest, self.clock.source().clone())
        };
        let now = runtime.clock.now().map(|now| now.stamp);
        McapRecorder::without_thread(options, config, &Prefixes::default(), now)
            .map_err(|error| error.to_string())
    }
}

/// Checks that a replay of the recording gives what the node published. A recording that was cut lacks its end.
fn compare(report: &VerifyReport, is_cut: bool, seen: &mut Seen) {
    if report.unexplained > 0 {
        seen.fail(format!("replayed ticks differ without a cause: {:?}", report.different));
    }
    if let Some(commands) = &report.commands
        && commands.differing > 0
    {
        seen.fail(format!("replayed commands differ: {commands:?}"));
    }
    if is_cut {
        return;
    }
    if !report.complete || !report.problems.is_empty() || report.missing > 0 {
        seen.fail(format!(
            "the recording lacks {} messages, complete: {}, problems: {:?}",
            report.missing, report.complete, report.problems
        ));
    }
}
