//! The whole on virtual time: tensors go to a policy that knows the future, its chunks come back late, lost, doubled and out
//! of order, and an arm follows the commands. Each bound follows from numbers, and each count from a ledger of what was
//! delivered.

use std::collections::BTreeMap;
use std::f64::consts::TAU;

use super::*;
use crate::fuse::Fuse;
use crate::publishing::Publishing;
use crate::steps::{Next, Steps};
use crate::{Publisher, Refused};
use robocache_core::command::GroupCounts;
use robocache_core::message::TensorRead;
use robocache_ops::random::Random;
use robocache_ops::time::NANOS_PER_S;
use robocache_sim::{
    FOLLOWER_STEP_NS, Followed, Follower, FollowerModel, JOINT_NAMES, JOINTS, Truth,
};

/// Between two command ticks \[ms\].
const COMMAND_MS: i64 = 4;
/// Between two tensors \[ms\].
const TENSOR_MS: i64 = 10;
/// Between two measured values of the joints \[ms\].
const MEASURED_MS: i64 = 2;
/// Rows of a chunk.
const ROWS: i64 = 50;
/// Between two rows \[ms\].
const STEP_MS: i64 = 20;
const WATCHDOG_MS: i64 = 1200;
/// A command is so far ahead \[ms\]: by the arm's mean delay, 2 / (50 rad/s) + 10 ms.
const LEAD_MS: i64 = 50;
/// The path goes through the robot's signals so much slower. So an arm with common limits can be on it.
const SLOWER: i64 = 4;
/// Greatest velocity of the path \[rad/s\]: of two sines with the greatest frequencies that the robot draws.
const VELOCITY: f64 = (0.8 * TAU * 0.6 + 0.1 * TAU * 3.0) / SLOWER as f64;
const ARM: FollowerModel = FollowerModel::ARM;

/// The true path of the joints.
struct Path(Truth);

impl Path {
    fn at(&self, stamp: Stamp) -> [f64; JOINTS] {
        self.0.joints(START.offset(stamp.since(START) / SLOWER)).position
    }

    /// Greatest acceleration of all joints \[rad/s^2\].
    fn acceleration(&self) -> f64 {
        let all = self.0.curvature().joints.position;
        all.into_iter().fold(0.0, f64::max) / (SLOWER * SLOWER) as f64
    }

    /// Limits with which a joint that is on the path stays there: the greatest velocity and acceleration.
    ///
    /// With slopes that are central differences, a curve through rows h apart has at most 3 times the path's acceleration M.
    /// Where two plans meet, their slopes differ by 2 M h at most; the blend of h adds M h / 2. Both happen in one period.
    fn limits(&self) -> [f64; 2] {
        let seam = 2.5 * STEP_MS as f64 / COMMAND_MS as f64;
        [2.0 * VELOCITY, self.acceleration() * (3.0 + seam)]
    }

    /// Greatest distance of a plan from the path: M h^2 / 8 of a line, as much again of its slopes, and half of the last digit
    /// of a row of less than 2 rad as f32.
    fn of_plan(&self) -> f64 {
        let step_s = STEP_MS as f64 / 1e3;
        self.acceleration() * step_s * step_s / 4.0 + f64::from(f32::EPSILON)
    }

    /// Greatest distance of the arm from the path, if the commands have been on the plan for long: its response has the
    /// variance 2 (1 + a) / frequency^2, with a as the frequency times a step. A command may be a period and a step old.
    fn of_arm(&self) -> f64 {
        let step_s = FOLLOWER_STEP_NS as f64 / NANOS_PER_S as f64;
        let variance = 2.0 * (1.0 + ARM.frequency * step_s) / (ARM.frequency * ARM.frequency);
        let old_s = COMMAND_MS as f64 / 1e3 + step_s;
        let of_shape = self.acceleration() / 2.0 * (variance + old_s * old_s);
        // What was before is forgotten, but for this share of a turn.
        self.of_plan() + VELOCITY * old_s + of_shape + 1e-6
    }

    /// Time in which a joint that is away by `gap` is on the path again \[ms\]. It needs v / a to its velocity and back, each
    /// time from the wrong direction; meanwhile the path moves on with V. The rest is caught up with v - V.
    fn catch_up_ms(&self, gap: f64) -> i64 {
        let [v, a] = self.limits();
        let turns_s = 4.0 * v / a;
        let all_s = turns_s + (gap + VELOCITY * turns_s) / (v - VELOCITY);
        (all_s * 1e3).ceil() as i64 + 10 * COMMAND_MS
    }
}

fn whole(time: &VirtualTime, path: &Path) -> Runtime {
    let names = JOINT_NAMES.join(", ");
    let [velocity, acceleration] = path.limits();
    let limit = |joint| {
        format!(
            "{joint}: {{position: [-3, 3], velocity: {velocity}, acceleration: {acceleration}}}"
        )
    };
    let text = format!(
        "rate_hz: {tensors}\nstreams: {{joints: {{type: sensor_msgs/JointState, topic: /joints, joints: [{names}], \
         max_age_ms: 50}}}}\ncommands: {{rate_hz: {commands}, groups: {{arm: {{joints: [{names}], rows: {{steps: {ROWS}, \
         step_ms: {STEP_MS}}}, interpolate: cubic, start_from: joints, watchdog_ms: {WATCHDOG_MS}, lead_ms: {LEAD_MS}, limits: \
         {{joints: {{{limits}}}}}, output: {{topic: /commands, type: std_msgs/msg/Float64MultiArray}}}}}}}}",
        tensors = 1000 / TENSOR_MS,
        commands = 1000 / COMMAND_MS,
        limits = JOINT_NAMES.map(limit).join(", "),
    );
    let config = config::parse(&text, "whole.yaml").unwrap();
    let backend = Arc::new(CpuBackend::new(&config, &Layout::new(&config)).unwrap());
    let clock = Clock::system(config.grid, time.source());
    Runtime::new(Pipeline::new(config, backend).unwrap().with_run(RUN), clock).with_commands()
}

/// The newest tensor that was published.
#[derive(Clone, Default)]
struct Tensors(Arc<Mutex<Option<Vec<u8>>>>);

impl Publisher for Tensors {
    fn publish(&self, message: &mut TensorMessage) -> Result<(), Refused> {
        *lock(&self.0) = Some(message.message().to_vec());
        Ok(())
    }
}

/// Messages of commands.
#[derive(Clone, Default)]
struct Messages(Arc<Mutex<Vec<Vec<u8>>>>);

impl CommandPublisher for Messages {
    fn send(&mut self, _: usize, message: &[u8]) {
        lock(&self.0).push(message.to_vec());
    }

    fn tell(&mut self, _: usize, _: &[u8]) {}

    fn audience(&mut self, _: usize) -> Option<usize> {
        None
    }
}

/// A chunk on its way.
#[derive(Clone)]
struct Answer {
    sequence: u64,
    /// The instant of the answered tensor.
    answers: Stamp,
    message: SharedBytes,
}

/// A policy that answers the newest tensor when it has answered the one before.
struct Policy {
    random: Random,
    /// Time from a tensor to its chunk, within 30 % \[ms\].
    latency_ms: i64,
    /// Chunks so far.
    chunks: u64,
    /// The answer that it computes, and when it sends the chunk \[ms\].
    busy: Option<(i64, Answer)>,
    /// Chunks by the time at which they come \[ms\].
    on_the_way: BTreeMap<i64, Vec<Answer>>,
    /// Number of chunks that are lost, doubled and overtaken.
    faults: [u64; 3],
}

impl Policy {
    fn new(latency_ms: i64) -> Self {
        let random = Random::new(latency_ms as u64);
        let on_the_way = BTreeMap::new();
        Policy { random, latency_ms, chunks: 0, busy: None, on_the_way, faults: [0; 3] }
    }

    /// Its latency for the tensor of an instant \[ms\]: the first inference is slow, and one takes two seconds.
    fn draw_latency(&mut self, now_ms: i64, stalls: &mut bool) -> i64 {
        if self.chunks == 1 {
            return 800;
        }
        if now_ms >= 6000 && std::mem::take(stalls) {
            return 2000;
        }
        (self.latency_ms as f64 * self.random.between(0.7, 1.3)) as i64
    }

    /// Answers a tensor with rows of the path.
    fn answer(&mut self, path: &Path, tensor: &[u8], epoch: u64) -> Answer {
        let tensor = TensorRead::read(tensor).unwrap();
        self.chunks += 1;
        let row = |row| path.at(tensor.stamp.offset(row * STEP_MS * NANOS_PER_MS));
        let values: Vec<f32> = (0..ROWS).flat_map(row).map(|value| value as f32).collect();
        let names = JOINT_NAMES.map(str::to_owned);
        let chunk = SentChunk {
            run: RUN,
            epoch,
            stamp: tensor.stamp,
            tick: tensor.tick as i64,
            sequence: self.chunks,
            group: "arm",
            names: &names,
            values: &values,
            reference: &[],
        };
        let message = Arc::new(chunk.to_cdr(Vec::new()));
        Answer { sequence: self.chunks, answers: tensor.stamp, message }
    }

    /// Sends a chunk. Of eleven, one is lost, one comes twice, and one comes after its successor.
    fn send(&mut self, now_ms: i64, sent: Answer) {
        let mut comes = |ms| self.on_the_way.entry(ms).or_default().push(sent.clone());
        match sent.sequence % 11 {
            5 => self.faults[0] += 1,
            7 => {
                self.faults[1] += 1;
                [0, 12].into_iter().for_each(|after| comes(now_ms + after));
            }
            9 => {
                self.faults[2] += 1;
                comes(now_ms + 2 * self.latency_ms);
            }
            _ => comes(now_ms),
        }
    }
}

/// Expected numbers of the group, by what was delivered.
#[derive(Default)]
struct Ledger {
    sequence: u64,
    counts: GroupCounts,
    /// The last row of the plan, and the tick that found it \[ms\].
    plan: Option<(i64, i64)>,
    has_ended: bool,
    is_stalled: bool,
}

impl Ledger {
    /// A chunk that the tick of an instant finds.
    fn find(&mut self, tick_ms: i64, sent: &Answer) {
        if sent.sequence <= self.sequence {
            self.counts.refused[Refusal::Sequence as usize] += 1;
            return;
        }
        self.sequence = sent.sequence;
        let first_ms = sent.answers.since(START) / NANOS_PER_MS;
        let late = (0..ROWS).filter(|row| first_ms + row * STEP_MS < tick_ms + LEAD_MS).count();
        self.counts.rows_late += late as u64;
        if late as i64 == ROWS {
            self.counts.chunks_late += 1;
            return;
        }
        self.counts.chunks += 1;
        self.counts.starts = 1;
        self.plan = Some((first_ms + (ROWS - 1) * STEP_MS, tick_ms));
        (self.has_ended, self.is_stalled) = (false, false);
    }

    /// A tick. Returns true if it follows a plan.
    fn tick(&mut self, tick_ms: i64) -> bool {
        let Some((last_ms, found_ms)) = self.plan else { return false };
        let stalled = tick_ms - found_ms > WATCHDOG_MS;
        let ended = tick_ms + LEAD_MS > last_ms;
        self.counts.stalls += u64::from(stalled && !self.is_stalled);
        self.counts.ends += u64::from(ended && !stalled && !self.has_ended);
        (self.is_stalled, self.has_ended) = (stalled, ended);
        !(stalled || ended)
    }
}

/// Commands of a run, one per tick from the first one on, and where the verdict is by then.
#[derive(Default)]
struct Verdict {
    commands: Vec<Vec<f64>>,
    /// Since when a plan is followed, and when the joints are on the path by then \[ms\].
    on_path_from: Option<i64>,
    /// Ticks at which commands were compared with the path, and steps at which the arm was.
    compared: [u64; 2],
}

impl Verdict {
    /// Judges a command, and what its tick follows.
    fn command(&mut self, path: &Path, ms: i64, follows: bool, command: Vec<f64>) {
        let truth = path.at(at(ms + LEAD_MS));
        let away = |values: &[f64]| {
            values.iter().zip(truth).map(|(value, truth)| (value - truth).abs()).fold(0.0, f64::max)
        };
        match (follows, self.on_path_from) {
            (false, _) => self.on_path_from = None,
            (true, None) => {
                self.on_path_from = Some(ms + path.catch_up_ms(away(&command)));
            }
            (true, Some(from_ms)) if ms >= from_ms => {
                assert!(away(&command) <= path.of_plan(), "{ms} ms: {}", away(&command));
                self.compared[0] += 1;
            }
            (true, Some(_)) => {}
        }
        self.commands.push(command);
        let [v, a] = path.limits();
        let period_s = COMMAND_MS as f64 / 1e3;
        if let [.., before, last, now] = &self.commands[..] {
            for ((before, last), now) in before.iter().zip(last).zip(now) {
                let moved = now - last;
                let bent = now - 2.0 * last + before;
                assert!(moved.abs() <= v * period_s + 1e-12, "{ms} ms: a jump of {moved}");
                assert!(bent.abs() <= a * period_s * period_s + 1e-12, "{ms} ms: {bent}");
            }
        }
    }

    /// Judges the arm, 0.4 s after the commands are on the path: then it has forgotten what was before.
    fn arm(&mut self, path: &Path, ms: i64, positions: &[f64; JOINTS]) {
        if self.on_path_from.is_some_and(|from_ms| ms >= from_ms + 400) {
            for (position, truth) in positions.iter().zip(path.at(at(ms))) {
                assert!((position - truth).abs() <= path.of_arm(), "{ms} ms: {position} {truth}");
            }
            self.compared[1] += 1;
        }
    }
}

/// Runs the whole for a while \[ms\].
fn run(latency_ms: i64, for_ms: i64) -> (Verdict, Ledger, GroupCounts, [u64; 3]) {
    let time = VirtualTime::starting_at(START);
    let path = Path(Truth::new(3));
    let runtime = whole(&time, &path);
    let commands = runtime.commands.as_ref().unwrap();
    let messages = Messages::default();
    let tensors = Tensors::default();
    let ends = CommandEnds { publisher: Box::new(messages.clone()), source: None };
    let command = tick_loop(ms(COMMAND_MS as u64), Commanding::new(commands, ends));
    let fuse = tick_loop(ms(TENSOR_MS as u64), Fuse::default());
    let mut stepped = Stepped::new(&time, &runtime, vec![fuse, command]);
    let mut publishing = Publishing::new(&runtime, tensors.clone(), 0);
    let mut arm = Follower::new(ARM, Followed::Values);
    let mut policy = Policy::new(latency_ms);
    let mut ledger = Ledger::default();
    let mut verdict = Verdict::default();
    let mut stalls = true;
    let mut waiting = Vec::new();
    for now_ms in 0..for_ms {
        arm.advance(now_ms * NANOS_PER_MS);
        verdict.arm(&path, now_ms, arm.positions());
        if now_ms % MEASURED_MS == 0 {
            let epoch = runtime.clock.now().map_or(Epoch::default(), |now| now.epoch);
            let stamp = at(now_ms);
            let arrival = Arrival { stamp: Some(stamp), epoch, ..Arrival::default() };
            runtime.receive(InputId::new(0), arm.message(stamp, Vec::new()), arrival).unwrap();
        }
        if now_ms == 0 {
            runtime.enable_commands().unwrap();
        }
        for sent in policy.on_the_way.remove(&now_ms).unwrap_or_default() {
            commands.give(Arc::clone(&sent.message), 7);
            waiting.push(sent);
        }
        stepped.pass(ms(1));
        if now_ms % COMMAND_MS == 0 {
            waiting.drain(..).for_each(|sent| ledger.find(now_ms, &sent));
            let follows = ledger.tick(now_ms);
            let sent = std::mem::take(&mut *lock(&messages.0));
            assert_eq!(sent.len(), usize::from(ledger.plan.is_some()), "{now_ms} ms");
            for message in sent {
                assert!(arm.take(now_ms * NANOS_PER_MS, &message));
                verdict.command(&path, now_ms, follows, values(&message));
            }
        }
        if matches!(publishing.step(), Ok(Next::At(_)))
            && policy.busy.is_none()
            && let Some(tensor) = lock(&tensors.0).take()
        {
            let epoch = runtime.clock.now().unwrap().epoch.number();
            let sent = policy.answer(&path, &tensor, epoch);
            let latency_ms = policy.draw_latency(now_ms, &mut stalls);
            policy.busy = Some((now_ms + latency_ms, sent));
        }
        if let Some((_, sent)) = policy.busy.take_if(|(due_ms, _)| *due_ms <= now_ms + 1) {
            policy.send(now_ms + 1, sent);
        }
    }
    // Whatever changes these numbers, but for the limits', is news for a status of the same tick.
    (verdict, ledger, commands.groups[0].seen().counts, policy.faults)
}

/// The values of a Float64MultiArray.
fn values(message: &[u8]) -> Vec<f64> {
    let mut reader = Reader::new(message).unwrap();
    reader.u32().unwrap();
    reader.u32().unwrap();
    let values = reader.f64_sequence().unwrap();
    (0..values.len()).filter_map(|at| values.get(at)).collect()
}

/// Runs the whole with a latency, and compares all counts with the ledger.
fn a_policy_is_followed(latency_ms: i64, least: [u64; 2]) {
    let (verdict, mut ledger, counts, faults) = run(latency_ms, 16_000);
    assert!(faults.into_iter().all(|number| number > 0), "{faults:?}");
    // How often a limit held commands back during a start is no count of what came.
    ledger.counts.clipped.clone_from(&counts.clipped);
    ledger.counts.limited = counts.limited;
    assert_eq!(counts.limited.iter().sum::<u64>(), counts.clipped.iter().sum::<u64>());
    // The last status is up to 100 ms old, and each tick has a command.
    ledger.counts.commands = counts.commands;
    assert!(counts.commands > 3000, "{counts:?}");
    assert_eq!(counts, ledger.counts);
    assert!(counts.chunks_late >= 1 && counts.stalls == 1, "{counts:?}");
    let [commands, steps] = verdict.compared;
    assert!(commands >= least[0] && steps >= least[1], "{:?}", verdict.compared);
}

#[test]
fn a_policy_that_takes_50_ms_is_followed() {
    a_policy_is_followed(50, [1000, 3000]);
}

#[test]
fn a_policy_that_takes_150_ms_is_followed() {
    a_policy_is_followed(150, [1000, 3000]);
}

#[test]
fn a_policy_that_takes_300_ms_is_followed() {
    a_policy_is_followed(300, [200, 500]);
}

#[test]
fn the_same_policy_gives_the_same_commands_bit_for_bit() {
    // strands#725: there, seeded runs never repeat.
    let commands = || run(150, 3000).0.commands;
    assert_eq!(commands(), commands());
}
