//! A run of a seed, from its plan to its verdict.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::checks::{Seen, SharedSeen, Tap, TickCheck};
use crate::clock::{START, WorldClock};
use crate::disk::SimFiles;
use crate::faults::{Fault, Plan};
use crate::net::{CHUNKS, Net, Shared};
use crate::node::{self, Surroundings, Tensors};
use crate::robot;
use crate::slow::Slow;
use crate::world::{LAST_NS, SIM_START, World};
use robocache_core::backend::Choice;
use robocache_core::backend::cpu::CpuBackend;
use robocache_core::config;
use robocache_core::layout::Layout;
use robocache_core::pipeline::Pipeline;
use robocache_core::schema::Prefixes;
use robocache_data::recording::{Manifest, McapRecorder, RecordOptions, Writing};
use robocache_link::{CLOCK_TOPIC, Middleware};
use robocache_ops::sync::lock;
use robocache_runtime::{Clock, Recorder, Runtime};
use robocache_tools::verify::{Report, verify};

/// Readings of a simulator's clock that one run may miss at its new connections.
const CLOCK_GAP: usize = 20;

/// How a run went.
#[derive(Debug)]
pub struct Outcome {
    /// First broken invariant.
    pub violation: Option<String>,
    /// Number of all that happened.
    pub trace: u64,
    /// The last events, a line each.
    pub last: Vec<String>,
    /// The faults that the run had, by their bits.
    pub faults: u64,
    /// Choices of the scheduler, standstills, and simulated time [s].
    pub choices: u64,
    /// Times that the process stood still.
    pub standstills: u64,
    /// Simulated time \[s\].
    pub seconds: f64,
    /// New connections of the node.
    pub renewed: u64,
    /// Tensors that were published, valid values in them, and commands.
    pub tensors: u64,
    /// Valid values in the tensors.
    pub valid: u64,
    /// Commands that were sent.
    pub commands: u64,
    /// Ticks that a replay of the recording gave again, bit for bit.
    pub equal: u64,
    /// The recording, if the caller keeps it.
    pub recording: PathBuf,
}

/// Runs a seed. Faults that `mask` lacks do not happen, and none happens after `seconds`. The recording goes below `folder`.
/// If the node made a new connection, the seed runs once more without healing: what that node gets, the other must get too.
///
/// # Errors
/// The run does not begin.
pub fn run(seed: u64, mask: u64, seconds: u64, folder: &Path) -> Result<Outcome, String> {
    let plan = Plan::draw(seed, mask, seconds);
    let (mut outcome, net) = run_once(&plan, true, folder)?;
    if outcome.violation.is_none() && outcome.renewed > 0 {
        let (other, unhealed) = run_once(&plan, false, folder)?;
        outcome.choices += other.choices;
        outcome.standstills += other.standstills;
        outcome.seconds += other.seconds;
        outcome.violation = other.violation.map(|why| format!("without healing: {why}"));
        let calm_ns = plan.end_ns - LAST_NS;
        outcome.violation = outcome.violation.or(harm(&lock(&net), &lock(&unhealed), calm_ns));
    }
    Ok(outcome)
}

fn run_once(plan: &Plan, heals: bool, folder: &Path) -> Result<(Outcome, Shared), String> {
    let seed = plan.seed;
    let clock = WorldClock::new();
    let net: Shared = Arc::new(Mutex::new(Net::new(seed, clock.clone(), plan.rules.clone())));
    let is_full = Arc::new(AtomicBool::new(false));
    let mut runtime = runtime(plan, &clock)?;
    let seen: SharedSeen = Arc::new(Mutex::new(Seen::new(
        &runtime,
        clock.clone(),
        if plan.simulated { SIM_START } else { START },
    )));
    let tells_not = [Fault::OtherMachine, Fault::SetClock, Fault::Suspend];
    lock(&seen).tells_publications = plan.simulated && !tells_not.iter().any(|of| plan.has(*of));
    let (recorder, writing) = record(&runtime, folder, &clock, SimFiles(Arc::clone(&is_full)))?;
    let recorder = Arc::new(recorder);
    let topics = runtime.inputs().map(|id| runtime.input_spec(id).topic.clone()).collect();
    let tap = Tap {
        inner: Arc::clone(&recorder),
        seen: Arc::clone(&seen),
        net: Arc::clone(&net),
        topics,
    };
    runtime.recorder = Some(Arc::new(tap) as Arc<dyn Recorder>);
    runtime.set_observer(Arc::new(TickCheck(Arc::clone(&seen), clock.clone(), plan.simulated)));
    let runtime = Arc::new(runtime);
    let surroundings = Surroundings {
        net: Arc::clone(&net),
        clock: clock.clone(),
        seen: Arc::clone(&seen),
        tensors: Tensors::default(),
        middleware: Middleware {
            name: if plan.rules.numbers { "rmw_fastrtps_cpp" } else { "rmw_other" }.to_owned(),
            numbers_messages: plan.rules.numbers,
            cuts_off: plan.rules.numbers && heals,
        },
        sent: Arc::new(AtomicU64::new(0)),
    };
    let loops = node::loops(&runtime, &surroundings, writing)?;
    let mut world = World::new(plan, &runtime, &surroundings, (loops, is_full));
    world.begin();
    world.go();
    world.end(&recorder);
    let World { trace, choices, standstills, loops, .. } = world;
    drop(loops);
    let recording = recorder.folder();
    let equal = replay(plan, &recording, &seen);
    let mut seen = lock(&seen);
    let (renewed, unfounded) = {
        let net = lock(&net);
        (net.renewed, net.unfounded)
    };
    if unfounded > 0 {
        seen.fail(format!(
            "{unfounded} of {renewed} new connections were made although none was cut off"
        ));
    }
    let outcome = Outcome {
        violation: seen.violation().cloned(),
        trace: trace.hash(),
        last: trace.lines(),
        faults: plan.faults,
        choices,
        standstills,
        seconds: clock.now_ns() as f64 / 1e9,
        renewed,
        tensors: seen.published,
        valid: seen.valid,
        commands: surroundings.sent.load(Ordering::Relaxed),
        equal,
        recording,
    };
    drop(seen);
    Ok((outcome, net))
}

/// What the node with healing did not get, although the node without it did: `None` if there is nothing. What was published
/// after `calm_ns` does not count, as it may be on its way.
fn harm(healed: &Net, unhealed: &Net, calm_ns: u64) -> Option<String> {
    for (publisher, without) in &unhealed.fates {
        let of = &unhealed.publishers[*publisher];
        let Some(with) = healed.fates.get(publisher).filter(|_| of.topic != CHUNKS) else {
            continue;
        };
        let excused = |number: &u64| {
            with.taken.contains(number)
                || with.drawn.contains(number)
                || with.overwritten.contains(number)
                || of.last_ns > calm_ns && *number + 60 > of.number
        };
        let harmed: Vec<_> = without.taken.iter().filter(|number| !excused(number)).collect();
        // Of a clock the newest reading counts: a few may be missing where one subscription ends.
        let most = if of.topic == CLOCK_TOPIC { CLOCK_GAP } else { 0 };
        if harmed.len() > most {
            let topic = of.topic;
            return Some(format!(
                "{topic}: healing has lost the messages {harmed:?} of publisher {publisher}"
            ));
        }
    }
    None
}

/// Replays the recording, unless an invariant is broken already. Returns how many ticks are the same.
fn replay(plan: &Plan, recording: &Path, seen: &SharedSeen) -> u64 {
    let seen = &mut *lock(seen);
    if seen.violation().is_some() {
        return 0;
    }
    match verify(recording, Choice::Cpu, 0) {
        Ok(report) => {
            compare(plan, &report, seen);
            return report.equal;
        }
        // The disk may have been full before the first message.
        Err(error) if plan.has(Fault::FullDisk) => drop(error),
        Err(error) => seen.fail(format!("the recording cannot be verified: {error}")),
    }
    0
}

/// What a replay of the recording gives is what the node published.
fn compare(plan: &Plan, report: &Report, seen: &mut Seen) {
    if report.unexplained > 0 {
        seen.fail(format!("replayed ticks differ without a cause: {:?}", report.different));
    }
    if let Some(commands) = &report.commands
        && commands.differing > 0
    {
        seen.fail(format!("replayed commands differ: {commands:?}"));
    }
    if plan.has(Fault::FullDisk) {
        return;
    }
    if !report.complete || !report.problems.is_empty() || report.missing > 0 {
        seen.fail(format!(
            "the recording lacks {} messages, complete: {}, problems: {:?}",
            report.missing, report.complete, report.problems
        ));
    }
}

fn runtime(plan: &Plan, clock: &WorldClock) -> Result<Runtime, String> {
    let text = robot::config(plan.rate_hz, plan.lag_ms);
    let config = config::parse(&text, "robot.yaml").map_err(|error| error.to_string())?;
    let backend = CpuBackend::new(&config, &Layout::new(&config));
    let backend = backend.map_err(|error| error.to_string())?;
    let slow = plan.has(Fault::SlowEncoder).then(|| clock.clone());
    let backend = Arc::new(Slow::new(backend, slow, plan.seed));
    let grid = config.grid;
    let pipeline = Pipeline::new(config, backend).map_err(|error| error.to_string())?;
    let time = clock.source().clone();
    let clock = match plan.simulated {
        true => Clock::simulated(grid, time.clone()),
        false => Clock::system(grid, time.clone()),
    };
    Ok(Runtime::new(pipeline.with_run(time.draw_run()), clock).with_commands())
}

fn record(
    runtime: &Runtime,
    folder: &Path,
    clock: &WorldClock,
    files: SimFiles,
) -> Result<(McapRecorder, Writing), String> {
    let config = runtime.pipeline.config();
    let manifest = Manifest {
        chunks: Some(CHUNKS.to_owned()),
        run: runtime.pipeline.run(),
        ..Manifest::of(config, runtime.clock.is_simulated(), true, "cpu")
    };
    let options = RecordOptions {
        files: Some(Box::new(files)),
        has_graph: true,
        ..RecordOptions::new(folder, manifest, clock.source().clone())
    };
    let now = runtime.clock.now().map(|now| now.stamp);
    McapRecorder::without_thread(options, config, &Prefixes::default(), now)
        .map_err(|error| error.to_string())
}
