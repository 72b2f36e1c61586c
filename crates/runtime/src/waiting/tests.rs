use std::sync::Arc;
use std::time::Instant;

use crate::workers::Worker;
use crate::{Clock, Reading, Runtime, TimeSource, drive};
use robocache_core::backend::cpu::CpuBackend;
use robocache_core::cdr::Writer;
use robocache_core::layout::Layout;
use robocache_core::message::TensorMessage;
use robocache_core::pipeline::{Arrival, Pipeline, TickOutcome};
use robocache_core::rejected::DropReason;
use robocache_core::spec::{InputId, SegmentId};
use robocache_ops::sync::lock;
use robocache_ops::time::{Epoch, Stamp};
use robocache_testing::{Finally, ended, until};

const STREAMS: &str = "
rate_hz: 100
tf: {wait_ms: 50, odometry: [/odom]}
streams:
  goal:
    type: geometry_msgs/PoseStamped
    topic: /goal
    strategy: hold
    in_frame: map
    max_age_ms: 5000
  base:
    type: nav_msgs/Odometry
    topic: /base
    in_frame: map
    max_age_ms: 5000
  lidar:
    type: sensor_msgs/PointCloud2
    topic: /points
    t_base_sensor: tf
    max_age_ms: 5000
    cloud: {origin_m: [0, 0, 0], size_m: 1, shape: [8, 8, 1], channels: [{reduce: count}]}
";

/// A runtime, and the numbers of its inputs.
struct Rig {
    runtime: Runtime,
    epoch: Epoch,
}

fn ms(ms: i64) -> Stamp {
    Stamp::from_nanos(ms * 1_000_000)
}

/// A quarter turn about z.
const TURN: [f64; 4] = [0.0, 0.0, std::f64::consts::FRAC_1_SQRT_2, std::f64::consts::FRAC_1_SQRT_2];
const NO_TURN: [f64; 4] = [0.0, 0.0, 0.0, 1.0];

fn tree(links: &[(&str, &str, i64, f64, [f64; 4])]) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.u32(links.len() as u32);
    for (parent, child, at, x, turn) in links {
        writer.header(ms(*at), parent);
        writer.string(child);
        writer.f64_array(&[*x, 0.0, 0.0]);
        writer.f64_array(turn);
    }
    writer.finish()
}

fn pose(at: i64, frame: &str, x: f64) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.header(ms(at), frame);
    writer.f64_array(&[x, 0.0, 0.0]);
    writer.f64_array(&NO_TURN);
    writer.finish()
}

fn odometry(at: i64, x: f64, forward: f64) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.header(ms(at), "odom");
    writer.string("base");
    writer.f64_array(&[x, 0.0, 0.0]);
    writer.f64_array(&TURN);
    writer.f64_array(&[0.0; 36]);
    writer.f64_array(&[forward, 0.0, 0.0, 0.0, 0.0, 0.5]);
    writer.f64_array(&[0.0; 36]);
    writer.finish()
}

impl Rig {
    fn new() -> Self {
        let config = robocache_core::config::parse(STREAMS, "test.yaml").unwrap();
        let backend = CpuBackend::new(&config, &Layout::new(&config)).unwrap();
        let clock = Clock::simulated(config.grid, TimeSource::real());
        let runtime = Runtime::new(Pipeline::new(config, Arc::new(backend)).unwrap(), clock);
        Rig { runtime, epoch: Epoch::default() }
    }

    fn id(&self, name: &str) -> InputId {
        let config = self.runtime.pipeline.config();
        InputId::new(config.inputs.iter().position(|input| input.name == name).unwrap())
    }

    fn send(&self, input: &str, arrival_ms: i64, message: Vec<u8>) {
        let arrival =
            Arrival { stamp: Some(ms(arrival_ms)), epoch: self.epoch, ..Arrival::default() };
        self.runtime.receive(self.id(input), message, arrival).unwrap();
    }

    /// Messages received, accepted, dropped because a transform was missing, and waiting.
    fn counts(&self, input: &str) -> [u64; 4] {
        let stats = self.runtime.input_stats(self.id(input));
        let waiting = self.runtime.waiting(self.id(input)) as u64;
        let dropped = stats.dropped(DropReason::NoTransform);
        [stats.received.get(), stats.accepted.get(), dropped, waiting]
    }

    /// Acts while an encode worker runs.
    fn with_a_worker(&self, act: impl FnOnce()) {
        std::thread::scope(|scope| {
            let run = || drive(&mut Worker::new(&self.runtime, false), Worker::wait);
            let worker = scope.spawn(run);
            let stops = Finally(|| self.runtime.stop());
            act();
            drop(stops);
            ended("the worker", worker).unwrap();
        });
    }

    fn tick(&self, at_ms: i64) -> TensorMessage {
        let now = Reading { stamp: ms(at_ms), since: Instant::now(), epoch: self.epoch };
        self.runtime.give_up(now);
        let mut message = self.runtime.pipeline.new_message();
        let tick = self.runtime.pipeline.config().grid.tick_at(ms(at_ms));
        let outcome = self.runtime.pipeline.tick(tick, self.epoch, &mut message).unwrap();
        assert_eq!(outcome, TickOutcome::Ready);
        message
    }

    /// The valid values of a stream at a tick.
    fn values(&self, at_ms: i64, stream: usize) -> Option<Vec<f32>> {
        let message = self.tick(at_ms);
        let id = SegmentId::new(stream);
        let bytes = message.segment_data(id);
        let values = bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
        message.steps(id)[0].valid.then_some(values)
    }
}

#[test]
fn poses_and_twists_are_taken_to_another_frame_at_their_stamp() {
    let rig = Rig::new();
    rig.send("tf_static", 1, tree(&[("map", "odom", 0, 10.0, TURN)]));
    rig.send(
        "tf",
        110,
        tree(&[("odom", "base", 100, 1.0, NO_TURN), ("odom", "base", 200, 3.0, TURN)]),
    );
    rig.send("goal", 210, pose(150, "base", 1.0));
    // At 150 ms the base is at x 2 and has turned by 45 degrees.
    let goal = rig.values(210, 0).unwrap();
    let expected = [10.0 - 0.5f64.sqrt(), 2.0 + 0.5f64.sqrt(), 0.0];
    for (got, expected) in goal.iter().zip(expected) {
        assert!((f64::from(*got) - expected).abs() < 1e-6, "{goal:?}");
    }
    let angle = 2.0 * f64::from(goal[5]).atan2(f64::from(goal[6]));
    assert!((angle - 135f64.to_radians()).abs() < 1e-6, "{goal:?}");
    // The pose is in odom, the twist in base.
    rig.send("base", 210, odometry(200, 5.0, 1.0));
    let base = rig.values(210, 1).unwrap();
    let expected = [10.0, 5.0, 0.0, 0.0, 0.0, 1.0, 0.0, -1.0, 0.0, 0.0, 0.0, 0.0, 0.5];
    for (got, expected) in base.iter().zip(expected) {
        assert!((got - expected).abs() < 1e-6, "{base:?}");
    }
}

#[test]
fn a_message_waits_for_its_transform_and_the_bits_are_the_same() {
    let fixed = tree(&[("map", "odom", 0, 10.0, TURN)]);
    let moving = [100, 200].map(|at| tree(&[("odom", "base", at, at as f64, NO_TURN)]));
    let early = Rig::new();
    early.send("tf_static", 1, fixed.clone());
    moving.iter().for_each(|message| early.send("tf", 205, message.clone()));
    early.send("goal", 206, pose(150, "base", 1.0));

    let late = Rig::new();
    late.send("goal", 206, pose(150, "base", 1.0));
    assert_eq!(late.counts("goal"), [0, 0, 0, 1]);
    assert_eq!(late.values(210, 0), None);
    late.send("tf", 215, moving[0].clone());
    late.send("tf_static", 216, fixed);
    assert_eq!(late.counts("goal"), [0, 0, 0, 1], "its stamp is after the newest transform");
    late.send("tf", 256, moving[1].clone());
    assert_eq!(late.counts("goal"), [1, 1, 0, 0]);
    assert_eq!(late.values(260, 0), early.values(260, 0));
    assert!(late.values(260, 0).is_some());
}

#[test]
fn a_wait_ends_after_wait_ms_of_the_nodes_time() {
    let rig = Rig::new();
    rig.send("tf_static", 1, tree(&[("map", "odom", 0, 10.0, TURN)]));
    rig.send("goal", 206, pose(150, "base", 1.0));
    rig.send("goal", 216, pose(160, "base", 1.0));
    rig.tick(256);
    assert_eq!(rig.counts("goal"), [0, 0, 0, 2]);
    // A transform that arrived in time may still be on its way to the tree.
    rig.tick(257);
    assert_eq!(rig.counts("goal"), [0, 0, 0, 2]);
    rig.tick(307);
    assert_eq!(rig.counts("goal"), [1, 0, 1, 1]);
    // The transform comes after the patience, and no worker has noticed yet.
    let both = tree(&[("odom", "base", 100, 1.0, NO_TURN), ("odom", "base", 200, 2.0, NO_TURN)]);
    rig.send("tf", 267, both);
    assert_eq!(rig.counts("goal"), [2, 0, 2, 0]);
    // Waiting does not help before the oldest transform.
    rig.send("goal", 268, pose(50, "base", 1.0));
    assert_eq!(rig.counts("goal"), [3, 0, 3, 0]);
    let spec = rig.runtime.input_spec(rig.id("tf"));
    assert_eq!((spec.topic.as_str(), spec.ros_type.as_str()), ("/tf", "tf2_msgs/msg/TFMessage"));
}

#[test]
fn a_frame_that_tf_does_not_know_is_told_with_those_that_it_knows() {
    let rig = Rig::new();
    rig.send("tf_static", 1, tree(&[("base_link", "livox_new", 0, 1.0, NO_TURN)]));
    for frame in ["livox_nw", "velodyne"] {
        rig.send("goal", 20, pose(20, frame, 1.0));
    }
    rig.tick(200);
    assert_eq!(rig.counts("goal"), [2, 0, 2, 0]);
    let newest = lock(&rig.runtime.input(rig.id("goal")).drop_details).last().unwrap();
    assert!(
        newest.starts_with("no_transform: waited 50 ms (tf.wait_ms): frame \"map\""),
        "{newest}"
    );
    let known = rig.runtime.pipeline.frame_names();
    assert!(known.iter().any(|name| name == "livox_new"), "{known:?}");
    assert!(newest.contains("; known frames: "), "{newest}");
}

#[test]
fn a_transform_that_arrived_in_time_is_taken_behind_a_tick_after_the_wait() {
    let rig = Rig::new();
    rig.send("tf_static", 1, tree(&[("map", "base", 0, 10.0, TURN)]));
    rig.send("tf", 2, tree(&[("base", "arm", 100, 1.0, NO_TURN)]));
    rig.send("goal", 206, pose(150, "arm", 1.0));
    rig.tick(257);
    // The receiving thread stamped it before the tick.
    rig.send("tf", 256, tree(&[("base", "arm", 200, 1.0, NO_TURN)]));
    assert_eq!(rig.counts("goal"), [1, 1, 0, 0]);
}

#[test]
fn what_a_queue_delayed_takes_no_transform_that_came_after_its_wait() {
    for (tf_arrives_ms, expected) in [(210, [1, 1, 0, 0]), (211, [1, 0, 1, 0])] {
        let rig = Rig::new();
        rig.send("tf", 105, tree(&[("base_link", "lidar", 100, 0.0, NO_TURN)]));
        // No worker looks at the cloud before the transform is there.
        rig.send("lidar", 160, cloud(150, [1.5, 1.5, 0.5]));
        rig.send("tf", tf_arrives_ms, tree(&[("base_link", "lidar", 200, 4.0, NO_TURN)]));
        rig.with_a_worker(|| until("the cloud", || rig.counts("lidar")[0] > 0));
        assert_eq!(rig.counts("lidar"), expected);
    }
}

#[test]
fn a_fixed_transform_that_is_said_again_is_as_old_as_it_was() {
    let rig = Rig::new();
    rig.send("tf_static", 100, tree(&[("base_link", "lidar", 0, 0.0, NO_TURN)]));
    rig.send("lidar", 160, cloud(150, [1.5, 1.5, 0.5]));
    rig.send("tf_static", 400, tree(&[("base_link", "lidar", 300, 0.0, NO_TURN)]));
    rig.with_a_worker(|| until("the cloud", || rig.counts("lidar")[0] > 0));
    assert_eq!(rig.counts("lidar"), [1, 1, 0, 0]);
}

#[test]
fn a_transform_of_a_new_epoch_clears_what_waits_from_before() {
    let mut rig = Rig::new();
    rig.send("tf_static", 1, tree(&[("map", "odom", 0, 10.0, TURN)]));
    rig.send("tf", 205, tree(&[("odom", "base", 100, 1.0, NO_TURN)]));
    rig.send("goal", 206, pose(150, "base", 1.0));
    // The first message after the jump is a transform, and no worker has noticed yet.
    rig.epoch = rig.epoch.next(Some(ms(206)));
    rig.send("tf", 111, tree(&[("odom", "base", 110, 1.0, NO_TURN)]));
    assert_eq!(rig.counts("goal"), [1, 0, 0, 0]);
    let stats = rig.runtime.input_stats(rig.id("goal"));
    assert_eq!(stats.dropped(DropReason::Cleared), 1);
}

#[test]
fn a_frame_that_no_transform_can_name_is_not_waited_for() {
    let rig = Rig::new();
    let names = [String::new(), "/".into(), "a".repeat(257), "a".repeat(1 << 20)];
    for (k, name) in names.iter().enumerate() {
        rig.send("goal", 206, pose(150, name, 1.0));
        assert_eq!(rig.counts("goal"), [k as u64 + 1, 0, k as u64 + 1, 0], "{} bytes", name.len());
    }
    rig.send("goal", 206, pose(150, &"a".repeat(256), 1.0));
    assert_eq!(rig.counts("goal")[3], 1);
}

/// A cloud of one point.
fn cloud(at: i64, point: [f32; 3]) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.header(ms(at), "lidar");
    (0..2).for_each(|_| writer.u32(1));
    writer.u32(3);
    for (i, name) in ["x", "y", "z"].into_iter().enumerate() {
        writer.string(name);
        writer.u32(4 * i as u32);
        writer.u8(7);
        writer.u32(1);
    }
    writer.u8(0);
    (0..2).for_each(|_| writer.u32(12));
    writer.bytes(&point.map(f32::to_le_bytes).concat());
    writer.u8(1);
    writer.finish()
}

#[test]
fn a_cloud_waits_without_a_worker_and_is_moved_at_its_stamp() {
    let rig = Rig::new();
    let counts = |expected: [u64; 4]| {
        until(&format!("{expected:?}"), || rig.counts("lidar") == expected);
    };
    rig.with_a_worker(|| {
        rig.send("tf", 105, tree(&[("base_link", "lidar", 100, 0.0, NO_TURN)]));
        rig.send("lidar", 160, cloud(150, [1.5, 1.5, 0.5]));
        counts([0, 0, 0, 1]);
        // The worker is free for another one, whose transform is there.
        rig.send("lidar", 161, cloud(100, [7.5, 7.5, 0.5]));
        counts([1, 1, 0, 1]);
        rig.send("tf", 170, tree(&[("base_link", "lidar", 200, 4.0, NO_TURN)]));
        counts([2, 2, 0, 0]);
    });
    let counts = rig.values(170, 2).unwrap();
    let full: Vec<usize> = (0..64).filter(|at| counts[*at] > 0.0).collect();
    assert_eq!(full, [8 + 3], "x is 1.5 m + 2 m");
}

#[test]
fn odometry_is_a_transform_too_and_too_many_messages_are_dropped() {
    let rig = Rig::new();
    rig.send("tf_static", 1, tree(&[("map", "odom", 0, 10.0, TURN)]));
    for k in 0..super::MAX_MESSAGES as i64 + 3 {
        rig.send("goal", 206, pose(150 + k % 7, "base", 1.0));
    }
    assert_eq!(rig.counts("goal"), [3, 0, 3, super::MAX_MESSAGES as u64]);
    rig.send("tf.odometry[0]", 207, odometry(100, 1.0, 0.0));
    assert_eq!(rig.counts("goal")[3], super::MAX_MESSAGES as u64);
    rig.send("tf.odometry[0]", 208, odometry(200, 2.0, 0.0));
    assert_eq!(rig.counts("goal")[1..], [super::MAX_MESSAGES as u64, 3, 0]);
    assert!(rig.values(210, 0).is_some());
}

#[test]
fn a_jump_of_the_clock_clears_what_waits_and_what_moves() {
    let mut rig = Rig::new();
    rig.send("tf_static", 1, tree(&[("map", "odom", 0, 10.0, TURN)]));
    rig.send("tf", 205, tree(&[("odom", "base", 100, 1.0, NO_TURN)]));
    rig.send("goal", 206, pose(150, "base", 1.0));
    rig.epoch = rig.epoch.next(Some(ms(206)));
    rig.runtime.begin(rig.epoch);
    assert_eq!(rig.counts("goal"), [1, 0, 0, 0]);
    let stats = rig.runtime.input_stats(rig.id("goal"));
    assert_eq!(stats.dropped(DropReason::Cleared), 1);
    // The fixed transform is latched; the moving one is of the time before.
    rig.send("goal", 111, pose(110, "base", 1.0));
    assert_eq!(rig.counts("goal")[3], 1);
    rig.send("tf", 115, tree(&[("odom", "base", 110, 1.0, NO_TURN)]));
    assert_eq!(rig.counts("goal")[1..], [1, 0, 0]);
    assert!(rig.values(120, 0).is_some());
}

#[test]
fn bad_transforms_are_dropped_and_counted_and_the_others_are_taken() {
    let rig = Rig::new();
    let mut bad = TURN;
    bad[3] = f64::NAN;
    let long = [0.0, 0.0, 1.0, 1.0];
    rig.send(
        "tf_static",
        1,
        tree(&[
            ("map", "odom", 0, 10.0, bad),
            ("map", "odom", 0, 10.0, long),
            ("odom", "odom", 0, 10.0, TURN),
            ("map", "odom", 0, 10.0, TURN),
        ]),
    );
    rig.send("tf", 1, tree(&[("odom", "base", 100_000, 1.0, NO_TURN)]));
    rig.send("tf", 1, tree(&[("odom", "base", 0, 1.0, NO_TURN)]));
    let stats = rig.runtime.input_stats(rig.id("tf_static"));
    assert_eq!((stats.received.get(), stats.accepted.get()), (1, 1));
    let parts = [DropReason::NonFinite, DropReason::OutOfRange, DropReason::Malformed];
    assert_eq!(parts.map(|reason| stats.parts_dropped(reason)), [1, 1, 1]);
    let stats = rig.runtime.input_stats(rig.id("tf"));
    let drops = [DropReason::Ahead, DropReason::ZeroStamp];
    assert_eq!(drops.map(|reason| stats.dropped(reason)), [1, 1]);
    // Each prefix of a message, and a count without its transforms.
    let whole = tree(&[("map", "odom", 0, 9.0, TURN), ("odom", "arm", 0, 9.0, TURN)]);
    for len in 0..whole.len() {
        rig.send("tf", 1, whole[..len].to_vec());
    }
    let mut huge = whole.clone();
    huge[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
    rig.send("tf", 1, huge);
    assert_eq!(stats.dropped(DropReason::Malformed), whole.len() as u64 + 1);
    assert_eq!(rig.runtime.pipeline.tree().unwrap().frames, 2);
}
