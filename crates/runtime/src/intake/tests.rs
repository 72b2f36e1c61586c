use super::super::tests::Failing;
use super::super::{Clock, QUEUED_MESSAGES, TimeSource};
use super::*;
use crate::steps::Found;
use robocache_core::backend::Backend;
use robocache_core::backend::cpu::CpuBackend;
use robocache_core::cdr::Writer;
use robocache_core::layout::Layout;
use robocache_core::pipeline::{Pipeline, TickOutcome};
use robocache_core::spec::{Config, SegmentId};
use std::path::Path;

fn runtime() -> Runtime {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/robocache.yaml");
    runtime_on(&std::fs::read_to_string(file).unwrap(), |_| Arc::new(Failing))
}

fn runtime_on(config: &str, backend: impl Fn(&Config) -> Arc<dyn Backend>) -> Runtime {
    let config = robocache_core::config::parse(config, "test.yaml").unwrap();
    let grid = config.grid;
    let backend = backend(&config);
    Runtime::new(
        Pipeline::new(config, backend).unwrap(),
        Clock::simulated(grid, TimeSource::real()),
    )
}

#[test]
fn a_tick_from_before_a_jump_is_not_served_after_it() {
    let config = "rate_hz: 100\nstreams: {w: {type: geometry_msgs/WrenchStamped, topic: /w, \
                  max_age_ms: 50}}";
    let backend = |config: &Config| -> Arc<dyn Backend> {
        Arc::new(CpuBackend::new(config, &Layout::new(config)).unwrap())
    };
    let runtime = runtime_on(config, backend);
    let mut message = runtime.pipeline.new_message();
    let at = |tick: i64| runtime.pipeline.config().grid.stamp_of(tick);
    runtime.sim_clock().unwrap().set(at(500), Transit::UNKNOWN);
    let old = runtime.clock.now().unwrap();
    assert_eq!(runtime.fuse(500, old.epoch, &mut message).unwrap(), TickOutcome::Ready);
    // The tick thread has read the clock, then another thread sets it back.
    runtime.sim_clock().unwrap().set(at(100), Transit::UNKNOWN);
    assert!(old.epoch.is_before(runtime.clock.now().unwrap().epoch));
    assert_eq!(runtime.fuse(501, old.epoch, &mut message).unwrap(), TickOutcome::Past);
    let mut writer = Writer::new();
    writer.header(at(100), "tool");
    writer.f64_array(&[1.0; 6]);
    runtime
        .receive(InputId::new(0), writer.finish(), runtime.clock.arrival(Transit::UNKNOWN))
        .unwrap();
    let new = runtime.clock.now().unwrap();
    assert_eq!(runtime.fuse(100, new.epoch, &mut message).unwrap(), TickOutcome::Ready);
    assert!(
        message.steps(SegmentId::new(0))[0].valid,
        "the row from after the jump is still there"
    );
    assert_eq!(runtime.pipeline.clock_jumps(), 1);
}

fn input(runtime: &Runtime, name: &str) -> InputId {
    InputId::new(runtime.pipeline.config().inputs.iter().position(|i| i.name == name).unwrap())
}

#[test]
fn a_failing_backend_ends_the_node_and_the_error_says_what_failed() {
    let runtime = runtime();
    let wrench = input(&runtime, "wrench");
    let mut writer = Writer::new();
    writer.header(Stamp::from_nanos(5), "tool");
    writer.f64_array(&[0.0; 6]);
    let error = runtime.receive(wrench, writer.finish(), Arrival::default());
    let error = error.unwrap_err().to_string();
    assert_eq!(error, "encode a message of stream 'wrench': backend failing: out of memory");
}

#[test]
fn a_malformed_message_is_counted_as_dropped_and_is_still_an_arrival() {
    let runtime = runtime();
    let wrench = input(&runtime, "wrench");
    runtime.receive(wrench, vec![0, 1, 0, 0, 9], Arrival::default()).unwrap();
    let stats = runtime.input_stats(wrench);
    assert_eq!((stats.received.get(), stats.dropped(DropReason::Malformed)), (1, 1));
    assert!(lock(&runtime.input(wrench).arrivals).silence(Duration::ZERO).0);
}

/// A stream of two groups on one topic.
const GROUPS: &str = "
rate_hz: 100
streams:
  joints:
    type: sensor_msgs/JointState
    topic: /joints
    max_age_ms: 50
    groups: {arm: [a], gripper: [g]}
";

fn cpu(config: &Config) -> Arc<dyn Backend> {
    Arc::new(CpuBackend::new(config, &Layout::new(config)).unwrap())
}

/// A message of these joints and positions.
fn joints(stamp: Stamp, joints: &[(&str, f64)]) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.header(stamp, "base");
    writer.u32(joints.len() as u32);
    joints.iter().for_each(|(name, _)| writer.string(name));
    let positions: Vec<f64> = joints.iter().map(|(_, position)| *position).collect();
    writer.f64_sequence(&positions);
    (0..2).for_each(|_| writer.f64_sequence(&[]));
    writer.finish()
}

#[test]
fn two_complete_publishers_on_one_topic_miss_nothing() {
    let runtime = runtime_on(GROUPS, cpu);
    let send = |publisher: u8, name: &str, ms: i64| {
        let publisher = Some(PublisherId([publisher; 16]));
        let origin = Origin { publisher, published: None };
        let bytes = joints(Stamp::from_nanos(ms * 1_000_000), &[(name, 1.0)]);
        runtime.receive_from(origin, InputId::new(0), bytes, Arrival::default()).unwrap();
    };
    for k in 1..400 {
        send(1, "a", 10 * k);
        send(2, "g", 10 * k + 1);
    }
    assert_eq!(runtime.input_stats(InputId::new(0)).accepted.get(), 798);
    let arrivals = lock(&runtime.input(InputId::new(0)).arrivals);
    assert_eq!((arrivals.missing(), arrivals.missing_share()), (0, None));
}

#[test]
fn a_dropped_part_of_an_accepted_message_is_explained_and_counted_by_reason() {
    let runtime = runtime_on(GROUPS, cpu);
    let input = InputId::new(0);
    let bytes = joints(Stamp::from_nanos(5), &[("a", f64::NAN), ("g", 1.0)]);
    runtime.receive(input, bytes, Arrival::default()).unwrap();
    let stats = runtime.input_stats(input);
    assert_eq!((stats.accepted.get(), stats.dropped_total()), (1, 0));
    assert_eq!(stats.parts_dropped(DropReason::NonFinite), 1);
    let detail = lock(&runtime.input(input).drop_details).of(DropReason::NonFinite);
    assert_eq!(detail.as_deref(), Some("a.position: expected a finite number, found NaN"));
}

#[test]
fn images_lost_by_overload_or_by_a_jump_are_counted() {
    let runtime = runtime();
    let camera = input(&runtime, "camera_front");
    for _ in 0..QUEUED_MESSAGES + 3 {
        runtime.receive(camera, vec![], Arrival::default()).unwrap();
    }
    runtime.begin(Epoch::default().next(Some(Stamp::from_nanos(9))));
    let stats = runtime.input_stats(camera);
    assert_eq!(stats.dropped(DropReason::Overload), 3);
    assert_eq!(stats.dropped(DropReason::Cleared), QUEUED_MESSAGES as u64);
    assert_eq!(stats.received.get(), stats.dropped_total());
    assert_eq!(runtime.pipeline.clock_jumps(), 1);
    assert!(matches!(runtime.queue.take(), Found::Nothing));
}

#[test]
fn a_message_before_the_first_clock_of_an_epoch_is_cleared_unless_its_stamp_tells_or_it_is_latched()
{
    let config = "
rate_hz: 100
streams:
  header: {type: geometry_msgs/WrenchStamped, topic: /h, max_age_ms: 50}
  receive: {type: geometry_msgs/WrenchStamped, topic: /r, max_age_ms: 50, timeline: receive}
  plan: {type: trajectory_msgs/JointTrajectory, topic: /p, max_age_ms: 50, max_gap_ms: 50, joints: [a], horizon: {steps: 2, step_ms: 10}}
";
    let runtime = runtime_on(config, cpu);
    let published = |ns| Transit { published_ns: Some(ns), arrived_ns: Some(ns) };
    let set = |ms: i64, ns| {
        runtime.sim_clock().unwrap().set(Stamp::from_nanos(ms * NANOS_PER_MS), published(ns));
        runtime.clock.now().unwrap().epoch
    };
    let first = set(60_000, 100);
    let second = set(500, 200);
    let epochs = |ns| {
        let epoch = |name| runtime.arrival(input(&runtime, name), published(ns)).epoch;
        ["header", "receive", "plan"].map(epoch)
    };
    assert_eq!(epochs(150), [second, first, first]);
    assert_eq!(epochs(200), [second; 3]);
    let received = input(&runtime, "receive");
    let receive = || {
        let mut writer = Writer::new();
        writer.header(Stamp::from_nanos(5), "tool");
        writer.f64_array(&[1.0; 6]);
        let arrival = runtime.arrival(received, published(150));
        runtime.receive(received, writer.finish(), arrival).unwrap();
        let stats = runtime.input_stats(received);
        (stats.accepted.get(), stats.dropped(DropReason::Cleared))
    };
    assert_eq!(receive(), (0, 1));
    let asks = &runtime.input(received).asks;
    asks.set(crate::OfferedQos { transient_local: true, ..asks.get() });
    assert_eq!(receive(), (1, 1));
}
