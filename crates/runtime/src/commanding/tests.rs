//! The loop on virtual time, from chunks that wait to messages that are sent.

mod whole;

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use super::*;
use crate::commands::MOST_WAITING;
use crate::stepped::{START, Stepped, at, ms, tick_loop};
use crate::{Clock, SharedBytes, VirtualTime};
use robocache_core::backend::cpu::CpuBackend;
use robocache_core::cdr::Reader;
use robocache_core::cdr::messages::JointState;
use robocache_core::command::SentChunk;
use robocache_core::config;
use robocache_core::layout::Layout;
use robocache_core::pipeline::{Arrival, Pipeline};
use robocache_core::spec::{
    CommandForm, CommandOutputSpec, CommandsSpec, End, GroupSpec, InputId, Interface, Interpolate,
    JointLimits, JointSpec, Late, StartSpec, StreamId,
};
use robocache_ops::sync::lock;
use robocache_ops::time::{Epoch, NANOS_PER_MS, Stamp, TickGrid};

const RUN: u64 = 9;
const TEXT: &str = "rate_hz: 100\nstreams: {joints: {type: sensor_msgs/JointState, topic: /joints, \
                    joints: [b, a], max_age_ms: 50}}";

/// Notes what is sent: the values of each command, and each status.
#[derive(Clone, Default)]
struct Sent {
    commands: Arc<Mutex<Vec<Vec<f64>>>>,
    statuses: Arc<Mutex<Vec<Vec<u8>>>>,
    audience: Arc<Mutex<usize>>,
}

impl CommandPublisher for Sent {
    fn send(&mut self, _: usize, message: &[u8]) {
        let mut reader = Reader::new(message).unwrap();
        reader.u32().unwrap();
        reader.u32().unwrap();
        let values = reader.f64_sequence().unwrap();
        let values = (0..values.len()).filter_map(|at| values.get(at)).collect();
        lock(&self.commands).push(values);
    }

    fn tell(&mut self, _: usize, message: &[u8]) {
        lock(&self.statuses).push(message.to_vec());
    }

    fn audience(&mut self, _: usize) -> Option<usize> {
        Some(*lock(&self.audience))
    }
}

/// Chunks that are somewhere else until a tick takes them.
#[derive(Clone, Default)]
struct Elsewhere {
    chunks: Arc<Mutex<Vec<(SharedBytes, u64)>>>,
    lost: Arc<AtomicU64>,
}

impl ChunkSource for Elsewhere {
    fn take(&mut self, give: &mut dyn FnMut(&[u8], u64)) -> u64 {
        for (message, writer) in lock(&self.chunks).drain(..) {
            give((*message).as_ref(), writer);
        }
        self.lost.swap(0, Ordering::Relaxed)
    }
}

impl Sent {
    fn ends(&self) -> CommandEnds {
        CommandEnds { publisher: Box::new(self.clone()), source: None }
    }

    fn take(&self) -> Vec<Vec<f64>> {
        std::mem::take(&mut *lock(&self.commands))
    }
}

fn joint(name: &str) -> JointSpec {
    JointSpec {
        name: name.to_owned(),
        interpolate: Interpolate::Linear,
        relative: false,
        angular: false,
        operators: Vec::new(),
        limits: JointLimits::default(),
    }
}

fn commands() -> CommandsSpec {
    let group = GroupSpec {
        contract: None,
        name: "arm".to_owned(),
        joints: vec![joint("a"), joint("b")],
        interface: Interface::Position,
        offsets_ns: (0..50).map(|row| row * 20 * NANOS_PER_MS).collect(),
        lead_ns: 0,
        blend_ns: 0,
        start_from: StartSpec { stream: StreamId::new(0), channels: vec![1, 0] },
        reference: None,
        watchdog_ns: 200 * NANOS_PER_MS,
        on_stall: End::Hold,
        on_end: End::Hold,
        on_late: Late::Ignore,
        rearm: false,
        output: CommandOutputSpec {
            topic: "/commands".to_owned(),
            ros_type: "std_msgs/msg/Float64MultiArray",
            form: CommandForm::EachTick,
        },
    };
    let grid = TickGrid::new(4 * NANOS_PER_MS).unwrap();
    CommandsSpec { rate_hz: 250.0, grid, groups: vec![group] }
}

fn runtime(time: &VirtualTime) -> Runtime {
    runtime_of(time, |_| {})
}

/// A runtime with another group.
fn runtime_of(time: &VirtualTime, change: impl Fn(&mut GroupSpec)) -> Runtime {
    let mut config = config::parse(TEXT, "test.yaml").unwrap();
    let mut commands = commands();
    commands.groups.iter_mut().for_each(change);
    config.commands = Some(commands);
    let backend = Arc::new(CpuBackend::new(&config, &Layout::new(&config)).unwrap());
    let clock = Clock::system(config.grid, time.source());
    Runtime::new(Pipeline::new(config, backend).unwrap().with_run(RUN), clock).with_commands()
}

/// The joints a and b as they are measured at a stamp.
fn measure(runtime: &Runtime, stamp: Stamp, [a, b]: [f64; 2]) {
    let name = ["a", "b"];
    let position = [a, b];
    let none = [];
    let frame_id = "";
    let message = JointState {
        stamp,
        frame_id,
        name: &name,
        position: &position,
        velocity: &none,
        effort: &none,
    };
    let epoch = runtime.clock.now().map_or(Epoch::default(), |now| now.epoch);
    let arrival = Arrival { stamp: Some(stamp), epoch, ..Arrival::default() };
    runtime.receive(InputId::new(0), message.to_cdr(Vec::new()), arrival).unwrap();
}

/// A chunk of equal rows that answers the tensor of an instant.
fn chunk(runtime: &Runtime, stamp: Stamp, sequence: u64, row: [f32; 2]) -> SharedBytes {
    let names = ["a", "b"].map(str::to_owned);
    let sent = SentChunk {
        run: RUN,
        epoch: runtime.clock.now().unwrap().epoch.number(),
        stamp,
        tick: runtime.pipeline.config().grid.tick_at(stamp),
        sequence,
        group: "arm",
        names: &names,
        values: &row.repeat(50),
        reference: &[],
    };
    Arc::new(sent.to_cdr(Vec::new()))
}

fn serve_tensor(runtime: &Runtime, stamp: Stamp) {
    let commands = runtime.commands.as_ref().unwrap();
    let tick = runtime.pipeline.config().grid.tick_at(stamp);
    commands.served.note(runtime.clock.now().unwrap().epoch, tick);
}

#[test]
fn a_chunk_becomes_commands_from_the_measured_values_on() {
    let time = VirtualTime::starting_at(START);
    let runtime = runtime(&time);
    let commands = runtime.commands.as_ref().unwrap();
    let sent = Sent::default();
    let work = Commanding::new(commands, sent.ends());
    let mut stepped = Stepped::new(&time, &runtime, vec![tick_loop(ms(4), work)]);
    let not_measured = runtime.enable_commands().unwrap_err();
    assert_eq!(
        not_measured,
        NotEnabled::NotMeasured { group: "arm".to_owned(), stream: "joints".to_owned() }
    );
    measure(&runtime, at(0), [0.5, -0.5]);
    // Without a service nobody commands.
    serve_tensor(&runtime, at(0));
    commands.give(chunk(&runtime, at(0), 1, [1.0, 2.0]), 7);
    stepped.pass(ms(8));
    assert_eq!((sent.take(), commands.is_at_rest()), (vec![], true));
    runtime.enable_commands().unwrap();
    commands.give(chunk(&runtime, at(0), 2, [1.0, 2.0]), 7);
    stepped.pass(ms(12));
    assert_eq!(sent.take(), [[0.5, -0.5], [1.0, 2.0], [1.0, 2.0]]);
    assert!(!commands.is_at_rest());
    let seen = commands.groups[0].seen();
    assert_eq!((seen.stage, seen.enabled, seen.sequence), (Stage::Following, true, 2));
    assert_eq!(seen.counts.refused.iter().sum::<u64>(), 1, "the one before the service");
    // A tensor that was never sent has no answer.
    commands.give(chunk(&runtime, at(10), 3, [9.0, 9.0]), 7);
    stepped.pass(ms(4));
    assert_eq!(sent.take(), [[1.0, 2.0]]);
    // The measured values are old by now: a stall.
    stepped.pass(ms(100));
    assert_eq!(commands.groups[0].seen().stage, Stage::Stalled);
    // Disabled, it is at rest at once: it does not move.
    commands.disable();
    stepped.pass(ms(8));
    assert!(commands.is_at_rest());
    sent.take();
    stepped.pass(ms(100));
    assert!(sent.take().is_empty());
    assert_eq!(commands.groups[0].seen().stage, Stage::Disabled);
}

#[test]
fn a_chunk_of_a_source_counts_at_the_tick_that_takes_it() {
    let time = VirtualTime::starting_at(START);
    let runtime = runtime(&time);
    let commands = runtime.commands.as_ref().unwrap();
    let sent = Sent::default();
    let elsewhere = Elsewhere::default();
    let ends = CommandEnds { source: Some(Box::new(elsewhere.clone())), ..sent.ends() };
    let work = Commanding::new(commands, ends);
    let mut stepped = Stepped::new(&time, &runtime, vec![tick_loop(ms(4), work)]);
    measure(&runtime, at(0), [0.5, -0.5]);
    serve_tensor(&runtime, at(0));
    let send = |sequence, row, writer| {
        lock(&elsewhere.chunks).push((chunk(&runtime, at(0), sequence, row), writer));
    };
    // The switch waits for the same tick, and goes first.
    runtime.enable_commands().unwrap();
    send(1, [1.0, 2.0], 7);
    stepped.pass(ms(4));
    assert_eq!(sent.take(), [[0.5, -0.5]]);
    assert_eq!(commands.groups[0].seen().sequence, 1);
    // The next one counts at the next tick, and another writer is refused in either way.
    send(2, [3.0, 4.0], 7);
    send(1, [9.0, 9.0], 8);
    commands.give(chunk(&runtime, at(0), 2, [9.0, 9.0]), 8);
    elsewhere.lost.store(5, Ordering::Relaxed);
    stepped.pass(ms(4));
    assert_eq!(sent.take(), [[3.0, 4.0]]);
    let counts = commands.groups[0].seen().counts;
    assert_eq!((counts.chunks, counts.refused.iter().sum::<u64>()), (2, 2));
    assert_eq!(commands.overflowed.get(), 5);
}

#[test]
fn a_status_is_told_with_news_and_ten_times_a_second() {
    let time = VirtualTime::starting_at(START);
    let runtime = runtime(&time);
    let commands = runtime.commands.as_ref().unwrap();
    let sent = Sent::default();
    let work = Commanding::new(commands, sent.ends());
    let mut stepped = Stepped::new(&time, &runtime, vec![tick_loop(ms(4), work)]);
    stepped.pass(ms(1000));
    assert_eq!(lock(&sent.statuses).len(), 10);
    commands.give(Arc::new(vec![1, 2, 3]), 7);
    stepped.pass(ms(8));
    let statuses = std::mem::take(&mut *lock(&sent.statuses));
    assert_eq!(statuses.len(), 11, "one more, of the tick that found the chunk");
    let has = |status: &[u8], word: &[u8]| status.windows(word.len()).any(|part| part == word);
    assert!(statuses.iter().any(|status| has(status, b"malformed")));
}

#[test]
fn a_standstill_and_a_new_epoch_disable() {
    for jumps in [false, true] {
        let time = VirtualTime::starting_at(START);
        let runtime = runtime(&time);
        let commands = runtime.commands.as_ref().unwrap();
        let sent = Sent::default();
        let work = Commanding::new(commands, sent.ends());
        let mut stepped = Stepped::new(&time, &runtime, vec![tick_loop(ms(4), work)]);
        measure(&runtime, at(0), [0.0, 0.0]);
        runtime.enable_commands().unwrap();
        serve_tensor(&runtime, at(0));
        commands.give(chunk(&runtime, at(0), 1, [1.0, 2.0]), 7);
        stepped.pass(ms(20));
        assert_eq!(sent.take().len(), 5);
        match jumps {
            true => time.set_system(at(-60_000)),
            false => time.advance(ms(1000)),
        }
        stepped.pass(ms(200));
        assert!(sent.take().is_empty());
        assert!(commands.is_at_rest() && !commands.groups[0].seen().enabled);
    }
}

#[test]
fn chunks_without_room_are_counted() {
    let time = VirtualTime::starting_at(START);
    let runtime = runtime(&time);
    let commands = runtime.commands.as_ref().unwrap();
    for _ in 0..MOST_WAITING + 3 {
        commands.give(Arc::new(Vec::new()), 1);
    }
    assert_eq!(commands.overflowed.get(), 3);
    assert_eq!(commands.arm(), Err(NotEnabled::Full));
    commands.disable();
    assert!(matches!(commands.take(), Some(Waiting::Disable)), "it needs no room");
}

#[test]
fn disabled_after_an_enabling_that_waits_it_stays_disabled() {
    let time = VirtualTime::starting_at(START);
    let runtime = runtime(&time);
    let commands = runtime.commands.as_ref().unwrap();
    let sent = Sent::default();
    let work = Commanding::new(commands, sent.ends());
    let mut stepped = Stepped::new(&time, &runtime, vec![tick_loop(ms(4), work)]);
    measure(&runtime, at(0), [0.0, 0.0]);
    serve_tensor(&runtime, at(0));
    runtime.enable_commands().unwrap();
    commands.give(chunk(&runtime, at(0), 1, [1.0, 2.0]), 7);
    commands.disable();
    stepped.pass(ms(20));
    assert!(sent.take().is_empty() && commands.is_at_rest());
    // Enabled after that, it is enabled. At the end of the node nothing enables it.
    runtime.enable_commands().unwrap();
    commands.give(chunk(&runtime, at(0), 2, [1.0, 2.0]), 7);
    stepped.pass(ms(8));
    assert!(!commands.is_at_rest());
    commands.end();
    assert_eq!(runtime.enable_commands(), Err(NotEnabled::Ends));
}

#[test]
fn a_chunk_with_another_instant_than_that_of_its_tick_is_refused() {
    let time = VirtualTime::starting_at(START);
    let runtime = runtime(&time);
    let commands = runtime.commands.as_ref().unwrap();
    let work = Commanding::new(commands, Sent::default().ends());
    let mut stepped = Stepped::new(&time, &runtime, vec![tick_loop(ms(4), work)]);
    measure(&runtime, at(0), [0.0, 0.0]);
    runtime.enable_commands().unwrap();
    serve_tensor(&runtime, at(0));
    let mut message = (*chunk(&runtime, at(0), 1, [1.0, 2.0])).as_ref().to_vec();
    // The nanoseconds of the stamp follow run, epoch and seconds.
    message[24..28].copy_from_slice(&300_000_000u32.to_le_bytes());
    commands.give(Arc::new(message), 7);
    stepped.pass(ms(8));
    let refused = commands.groups[0].seen().counts.refused;
    assert_eq!(refused[Refusal::NotServed as usize], 1);
}

#[test]
fn the_end_of_the_thread_leaves_no_velocity_behind() {
    let time = VirtualTime::starting_at(START);
    let runtime = runtime_of(&time, |group| {
        group.interface = Interface::Velocity;
        group.on_end = End::Zeros;
        group.on_stall = End::Zeros;
    });
    let commands = runtime.commands.as_ref().unwrap();
    let sent = Sent::default();
    let work = Commanding::new(commands, sent.ends());
    let mut stepped = Stepped::new(&time, &runtime, vec![tick_loop(ms(4), work)]);
    measure(&runtime, at(0), [0.5, 0.5]);
    runtime.enable_commands().unwrap();
    serve_tensor(&runtime, at(0));
    commands.give(chunk(&runtime, at(0), 1, [1.0, 2.0]), 7);
    stepped.pass(ms(20));
    assert_eq!(sent.take().last(), Some(&vec![1.0, 2.0]));
    drop(stepped);
    assert_eq!(sent.take(), [[0.0, 0.0]]);
}
