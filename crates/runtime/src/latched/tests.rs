use std::sync::Mutex;

use super::*;
use crate::clock::RecordedClock;
use crate::health::{Level, Monitor, Names};
use crate::{
    ChunkRecord, Clock, ClockMessage, Event, OfferedQos, ReceivedMessage, Recorder, RecorderStatus,
    SharedBytes, TimeSource,
};
use robocache_core::backend::cpu::CpuBackend;
use robocache_core::cdr::Writer;
use robocache_core::layout::Layout;
use robocache_core::pipeline::{Pipeline, TickOutcome};
use robocache_core::rejected::DropReason;
use robocache_core::spec::{SegmentId, StreamId};
use robocache_ops::time::{NANOS_PER_MS, Stamp};

const W: InputId = InputId::new(0);

/// A runtime with a latched input, and a simulator's clock.
fn runtime(timeline: &str) -> Runtime {
    let keys = "strategy: hold, max_age_ms: 100000, dtype: f32, qos: {durability: transient_local}";
    let config = format!(
        "rate_hz: 100\nstreams: {{w: {{type: geometry_msgs/WrenchStamped, topic: /w, timeline: {timeline}, {keys}}}}}"
    );
    let config = robocache_core::config::parse(&config, "test.yaml").unwrap();
    let grid = config.grid;
    let backend = CpuBackend::new(&config, &Layout::new(&config)).unwrap();
    Runtime::new(
        Pipeline::new(config, Arc::new(backend)).unwrap(),
        Clock::simulated(grid, TimeSource::real()),
    )
}

fn at(ms: i64) -> Stamp {
    Stamp::from_nanos(ms * NANOS_PER_MS)
}

fn set_clock(runtime: &Runtime, ms: i64) {
    runtime.sim_clock().unwrap().set(at(ms), Transit::UNKNOWN);
}

fn send(runtime: &Runtime, stamp: Stamp, value: f64) {
    let mut writer = Writer::new();
    writer.header(stamp, "tool");
    writer.f64_array(&[value; 6]);
    runtime.receive(W, writer.finish(), runtime.arrival(W, Transit::UNKNOWN)).unwrap();
}

/// The value at the newest tick and its age \[ms\]; `None` if it is not valid.
fn served(runtime: &Runtime) -> Option<(f32, i64)> {
    let mut message = runtime.pipeline.new_message();
    let now = runtime.clock.now().unwrap();
    let tick = runtime.pipeline.config().grid.tick_at(now.stamp);
    assert_eq!(runtime.fuse(tick, now.epoch, &mut message).unwrap(), TickOutcome::Ready);
    let step = message.steps(SegmentId::new(0))[0];
    let value = f32::from_le_bytes(*message.data().first_chunk().unwrap());
    step.valid.then_some((value, step.age_ns / NANOS_PER_MS))
}

#[test]
fn a_latched_message_enters_each_epoch_at_its_first_instant() {
    let runtime = runtime("receive");
    // It comes before the first message on /clock, as from a map server that is there first.
    send(&runtime, Stamp::ZERO, 1.0);
    set_clock(&runtime, 5000);
    assert_eq!(served(&runtime), Some((1.0, 0)));
    // Two resets of the simulator.
    for _ in 0..2 {
        set_clock(&runtime, 7000);
        set_clock(&runtime, 1000);
        set_clock(&runtime, 1200);
        assert_eq!(served(&runtime), Some((1.0, 200)));
    }
    // A newer one takes its place.
    send(&runtime, Stamp::ZERO, 2.0);
    set_clock(&runtime, 500);
    assert_eq!(served(&runtime), Some((2.0, 0)));
    assert_eq!(runtime.left_out(W), None);
}

#[test]
fn its_own_stamp_counts_under_header_and_one_that_is_ahead_is_told() {
    let runtime = Arc::new(runtime("header"));
    let is_left_out = || runtime.left_out(W).is_some();
    set_clock(&runtime, 5000);
    send(&runtime, at(1500), 1.0);
    set_clock(&runtime, 2000);
    assert_eq!((served(&runtime), is_left_out()), (Some((1.0, 500)), false));
    set_clock(&runtime, 1000);
    assert_eq!((served(&runtime), is_left_out()), (None, true));
    let why = crate::health::holding::why_not_valid(&runtime, StreamId::new(0)).unwrap();
    assert!(
        why.starts_with("/w: its latched message") && why.ends_with("timeline: receive"),
        "{why}"
    );
    let names =
        Names { topics: vec!["/w".into()], middleware: String::new(), remedy: String::new() };
    let status = Monitor::new(Arc::clone(&runtime), names).report().parts.swap_remove(1);
    assert!(status.level == Level::Warn && status.message.contains(OTHER_EPOCH), "{status:?}");
    // Published again.
    send(&runtime, at(900), 2.0);
    assert_eq!((served(&runtime), is_left_out()), (Some((2.0, 100)), false));
    set_clock(&runtime, 950);
    assert_eq!((served(&runtime), is_left_out()), (Some((2.0, 50)), false));
}

#[test]
fn a_message_that_is_newer_than_the_epoch_is_not_followed_by_the_one_before() {
    let runtime = runtime("receive");
    set_clock(&runtime, 5000);
    send(&runtime, Stamp::ZERO, 1.0);
    // Another thread notices the jump first, and takes a message before the epoch begins for this one.
    let Clock::Sim(clock) = &runtime.clock else { panic!() };
    let epoch = clock.set(at(1000), Transit::UNKNOWN).unwrap();
    send(&runtime, Stamp::ZERO, 2.0);
    runtime.take_latched_again(epoch);
    assert_eq!(served(&runtime), Some((2.0, 0)));
    assert_eq!(runtime.input_stats(W).dropped(DropReason::Cleared), 0);
    set_clock(&runtime, 1200);
    assert_eq!(served(&runtime), Some((2.0, 200)));
}

#[test]
fn a_message_from_before_a_jump_that_comes_after_it_counts_in_the_new_epoch() {
    let runtime = runtime("receive");
    set_clock(&runtime, 5000);
    let old = runtime.arrival(W, Transit::UNKNOWN);
    set_clock(&runtime, 1000);
    let mut writer = Writer::new();
    writer.header(Stamp::ZERO, "tool");
    writer.f64_array(&[3.0; 6]);
    runtime.receive(W, writer.finish(), old).unwrap();
    assert_eq!(served(&runtime), Some((3.0, 0)));
}

#[test]
fn only_latched_messages_are_taken_again() {
    let runtime = runtime("receive");
    runtime.input(W).asks.set(OfferedQos::default());
    set_clock(&runtime, 5000);
    send(&runtime, Stamp::ZERO, 1.0);
    set_clock(&runtime, 1000);
    assert_eq!((served(&runtime), runtime.input_stats(W).received.get()), (None, 1));
}

/// Reports that a recorder got: by message its number, its epoch and its bytes, and the outcomes.
#[derive(Default)]
struct Recorded(Mutex<(Messages, Vec<Event>)>);

type Messages = Vec<(u64, u64, usize)>;

impl Recorder for Recorded {
    fn chunk(&self, _: ChunkRecord, _: SharedBytes) {}

    fn received(&self, message: ReceivedMessage) -> u64 {
        let ReceivedMessage { bytes, arrival, published, .. } = message;
        // Published in an earlier epoch, a replay would refuse it.
        assert_eq!(published, None);
        let (messages, _) = &mut *lock(&self.0);
        let number = messages.len() as u64 + 1;
        messages.push((number, arrival.epoch.number(), (*bytes).as_ref().len()));
        number
    }

    fn clock_set(&self, _message: ClockMessage) {}

    fn offered(&self, _input: Option<InputId>, _offers: Vec<OfferedQos>) {}

    fn note(&self, event: Event) {
        lock(&self.0).1.push(event);
    }

    fn status(&self) -> RecorderStatus {
        RecorderStatus::default()
    }
}

#[test]
fn a_recorder_gets_it_as_a_message_of_each_epoch() {
    let recorder = Arc::new(Recorded::default());
    let mut runtime = runtime("receive");
    runtime.recorder = Some(recorder.clone());
    set_clock(&runtime, 5000);
    send(&runtime, Stamp::ZERO, 1.0);
    set_clock(&runtime, 1000);
    let (messages, events) = &*lock(&recorder.0);
    let [(1, 1, len), (2, 2, again)] = messages[..] else { panic!("{messages:?}") };
    assert_eq!(len, again);
    let taken = |event: &&Event| matches!(event, Event::MessageOutcome { number: 2, .. });
    assert_eq!(events.iter().filter(taken).count(), 1);
}

#[test]
fn the_message_that_shows_a_jump_is_not_followed_by_the_one_before() {
    for timeline in ["receive", "header"] {
        let mut runtime = runtime(timeline);
        let clock =
            Arc::new(RecordedClock::new(runtime.pipeline.config().grid, TimeSource::real()));
        runtime.clock = Clock::Recorded(Arc::clone(&clock));
        clock.set(at(10_000));
        send(&runtime, at(10_000), 1.0);
        clock.set(at(5000));
        send(&runtime, at(5000), 2.0);
        clock.set(at(5100));
        assert_eq!(served(&runtime), Some((2.0, 100)), "{timeline}");
    }
}

#[test]
fn a_message_that_was_taken_before_its_publisher_was_known_is_kept_when_it_is_repeated() {
    let runtime = runtime("receive");
    let asks = |transient_local| OfferedQos { reliable: true, transient_local };
    let origin = |ms| Origin { publisher: None, published: Some(at(ms)) };
    let message = |value: f64| {
        let mut writer = Writer::new();
        writer.header(Stamp::ZERO, "tool");
        writer.f64_array(&[value; 6]);
        writer.finish()
    };
    let send = |ms, value| {
        let arrival = runtime.arrival(W, Transit::UNKNOWN);
        runtime.receive_from(origin(ms), W, message(value), arrival).unwrap();
    };
    let repeat = |ms, value| runtime.keep_repeated(origin(ms), W, message(value), Transit::UNKNOWN);
    runtime.input(W).asks.set(asks(false));
    set_clock(&runtime, 5000);
    send(1, 1.0);
    runtime.input(W).asks.set(asks(true));
    repeat(1, 1.0);
    set_clock(&runtime, 1000);
    assert_eq!(served(&runtime), Some((1.0, 0)));
    // A volatile publisher takes its place for a while.
    runtime.input(W).asks.set(asks(false));
    send(2, 2.0);
    runtime.input(W).asks.set(asks(true));
    set_clock(&runtime, 500);
    assert_eq!(served(&runtime), None, "the first one is no longer the newest");
    // The history comes in its order, and after a reset.
    repeat(1, 1.0);
    repeat(2, 2.0);
    repeat(1, 1.0);
    set_clock(&runtime, 600);
    assert_eq!(served(&runtime).map(|(value, _)| value), Some(2.0));
}

#[test]
fn a_message_that_was_taken_again_is_not_taken_once_more_when_it_is_repeated() {
    let runtime = runtime("receive");
    let origin = Origin { publisher: None, published: Some(at(1)) };
    let mut writer = Writer::new();
    writer.header(Stamp::ZERO, "tool");
    writer.f64_array(&[1.0; 6]);
    let message = writer.finish();
    set_clock(&runtime, 5000);
    let arrival = runtime.arrival(W, Transit::UNKNOWN);
    runtime.receive_from(origin, W, message.clone(), arrival).unwrap();
    // A reset of the simulator, and then two new connections: each gives the message once more.
    set_clock(&runtime, 1000);
    for ms in [1300, 1600] {
        set_clock(&runtime, ms);
        runtime.keep_repeated(origin, W, message.clone(), Transit::UNKNOWN);
        assert_eq!(served(&runtime), Some((1.0, ms - 1000)), "its age goes on");
    }
}

#[test]
fn what_comes_before_the_clock_runs_is_no_drop() {
    let runtime = runtime("receive");
    send(&runtime, Stamp::ZERO, 1.0);
    set_clock(&runtime, 5000);
    let stats = runtime.input_stats(W);
    assert_eq!((stats.received.get(), stats.accepted.get()), (1, 1));
}

#[test]
fn an_old_value_does_not_stand_for_one_that_comes_soon() {
    let runtime = runtime("receive");
    set_clock(&runtime, 5000);
    for k in 1..10 {
        set_clock(&runtime, 5000 + 100 * k);
        send(&runtime, Stamp::ZERO, 1.0);
    }
    set_clock(&runtime, 1000);
    assert_eq!(served(&runtime), None);
}

#[test]
fn a_message_whose_transform_comes_later_is_taken_once_more() {
    const CONFIG: &str = "
rate_hz: 100
streams:
  goal: {type: geometry_msgs/PoseStamped, topic: /goal, in_frame: map, timeline: receive, strategy: hold,
         max_age_ms: 100000, lag_ms: 20, dtype: f32, qos: {durability: transient_local}}
";
    let config = robocache_core::config::parse(CONFIG, "test.yaml").unwrap();
    let grid = config.grid;
    let backend = CpuBackend::new(&config, &Layout::new(&config)).unwrap();
    let pipeline = Pipeline::new(config, Arc::new(backend)).unwrap();
    let runtime =
        Runtime::new(pipeline, Clock::simulated(grid, TimeSource::real())).without_workers();
    let id = |name: &str| {
        let config = runtime.pipeline.config();
        config.input_ids().find(|id| config.input(*id).name == name).unwrap()
    };
    let goal = id("goal");
    let tf = id("tf");
    let look = |ms: i64| {
        set_clock(&runtime, ms);
        runtime.give_up(runtime.clock.now().unwrap());
    };
    let transform = |ms: i64| {
        let mut writer = Writer::new();
        writer.u32(1);
        writer.header(at(ms), "map");
        writer.string("odom");
        writer.f64_array(&[1.0, 0.0, 0.0]);
        writer.f64_array(&[0.0, 0.0, 0.0, 1.0]);
        runtime.receive(tf, writer.finish(), runtime.arrival(tf, Transit::UNKNOWN)).unwrap();
    };
    let mut writer = Writer::new();
    writer.header(Stamp::ZERO, "odom");
    writer.f64_array(&[4.0, 0.0, 0.0]);
    writer.f64_array(&[0.0, 0.0, 0.0, 1.0]);
    runtime.receive(goal, writer.finish(), runtime.arrival(goal, Transit::UNKNOWN)).unwrap();
    for epoch in 0..2 {
        // The first transforms of an epoch are later than its first instant.
        look(1000);
        look(1010);
        transform(1010);
        look(1030);
        transform(1030);
        let mut valid = false;
        for ms in (1040..1500).step_by(10) {
            look(ms);
            transform(ms);
            valid = served(&runtime).is_some_and(|(value, _)| value == 5.0);
        }
        assert!(valid && runtime.left_out(goal).is_none(), "{epoch}");
        assert_eq!(runtime.input_stats(goal).accepted.get(), epoch + 1);
    }
}

#[test]
fn a_map_is_not_silent_and_a_sensor_that_stops_is_although_both_are_latched() {
    for timeline in ["header", "receive"] {
        let runtime = runtime(timeline);
        set_clock(&runtime, 5000);
        send(&runtime, at(5000), 1.0);
        assert!(runtime.is_kept(W), "{timeline}: published once");
        for ms in [5010, 5020, 5030] {
            set_clock(&runtime, ms);
            send(&runtime, at(ms), 1.0);
        }
        assert!(!runtime.is_kept(W), "{timeline}: it has a rate");
    }
}
