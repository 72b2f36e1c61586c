use std::sync::Mutex;

use super::*;
use crate::health::{Level, Monitor, Names};
use crate::{Clock, ClockMessage, Event, OfferedQos, ReceivedMessage, Recorder, RecorderStatus};
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
    let (grid, backend) = (config.grid, CpuBackend::new(&config, &Layout::new(&config)).unwrap());
    Runtime::new(Pipeline::new(config, Arc::new(backend)).unwrap(), Clock::simulated(grid))
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
    assert_eq!(runtime.fuse(tick, now, &mut message).unwrap(), TickOutcome::Ready);
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
    assert!(!runtime.input(W).is_left_out.load(Ordering::Relaxed));
}

#[test]
fn its_own_stamp_counts_under_header_and_one_that_is_ahead_is_told() {
    let runtime = Arc::new(runtime("header"));
    let is_left_out = || runtime.input(W).is_left_out.load(Ordering::Relaxed);
    set_clock(&runtime, 5000);
    send(&runtime, at(1500), 1.0);
    set_clock(&runtime, 2000);
    assert_eq!((served(&runtime), is_left_out()), (Some((1.0, 500)), false));
    set_clock(&runtime, 1000);
    assert_eq!((served(&runtime), is_left_out()), (None, true));
    let why = crate::health::why_not_valid(&runtime, StreamId::new(0)).unwrap();
    assert!(
        why.starts_with("/w: its latched message") && why.ends_with("timeline: receive"),
        "{why}"
    );
    let names =
        Names { topics: vec!["/w".into()], middleware: String::new(), remedy: String::new() };
    let status = Monitor::new(Arc::clone(&runtime), names).report().parts.swap_remove(1);
    assert!(status.level == Level::Warn && status.message.contains(LEFT_OUT), "{status:?}");
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

/// What a recorder got: by message its number, its epoch and its bytes, and the outcomes.
#[derive(Default)]
struct Recorded(Mutex<(Vec<(u64, u64, usize)>, Vec<Event>)>);

impl Recorder for Recorded {
    fn received(&self, ReceivedMessage { bytes, arrival, .. }: ReceivedMessage) -> u64 {
        let (messages, _) = &mut *lock(&self.0);
        let number = messages.len() as u64 + 1;
        messages.push((number, arrival.epoch.number(), (*bytes).as_ref().len()));
        number
    }

    fn clock_set(&self, _message: ClockMessage) {}

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
    let runtime = Runtime { recorder: Some(recorder.clone()), ..runtime("receive") };
    set_clock(&runtime, 5000);
    send(&runtime, Stamp::ZERO, 1.0);
    set_clock(&runtime, 1000);
    let (messages, events) = &*lock(&recorder.0);
    let [(1, 1, len), (2, 2, again)] = messages[..] else { panic!("{messages:?}") };
    assert_eq!(len, again);
    let taken = |event: &&Event| matches!(event, Event::MessageOutcome { number: 2, .. });
    assert_eq!(events.iter().filter(taken).count(), 1);
}
