//! Boxes and spheres on frames that move: each cloud is filtered by where they were at its stamp.

use robocache_core::cdr::Writer;
use robocache_core::pipeline::{AwaitedTransforms, Counter};

use super::sparse::cloud;
use super::*;

const NO_TURN: [f64; 4] = [0.0, 0.0, 0.0, 1.0];
/// A quarter turn about z.
const TURN: [f64; 4] = [0.0, 0.0, std::f64::consts::FRAC_1_SQRT_2, std::f64::consts::FRAC_1_SQRT_2];

/// A lidar 1 m above the base, and a robot with an arm.
fn config(extrinsic: &str, filter: &str) -> String {
    format!(
        "
rate_hz: 100
tf: {{wait_ms: 50}}
streams:
  lidar:
    type: sensor_msgs/PointCloud2
    topic: /points
    max_age_ms: 1000
    t_base_sensor: {extrinsic}
    cloud:
      origin_m: [-8, -8, 0]
      size_m: 1
      shape: [16, 16, 4]
      channels: [{{reduce: count}}]
      {filter}
"
    )
}

const MOUNTED: &str = "{translation_m: [0, 0, 1]}";
const ARM: &str = "self_filter: [{radius_m: 0.1}, {size_m: [0.5, 0.5, 0.5], frame: arm}]";

fn link(ms: i64, parent: &str, child: &str, shift: [f64; 3], turn: [f64; 4]) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.u32(1);
    writer.header(Stamp::from_nanos(ms * MS), parent);
    writer.string(child);
    writer.f64_array(&shift);
    writer.f64_array(&turn);
    writer.finish()
}

fn id(pipeline: &Pipeline, input: &str) -> InputId {
    let mut inputs = pipeline.config().inputs.iter();
    InputId::new(inputs.position(|spec| spec.name == input).unwrap())
}

fn push(pipeline: &Pipeline, input: &str, at_ms: i64, message: &[u8]) -> Result<(), NotTaken> {
    let stamp = Some(Stamp::from_nanos(at_ms * MS));
    let arrival = Arrival { stamp, ..Arrival::default() };
    pipeline.push(id(pipeline, input), message, arrival).map(|_| ())
}

fn waits(result: Result<(), NotTaken>) -> AwaitedTransforms {
    match result {
        Err(NotTaken::Waits(need)) => *need,
        other => panic!("{other:?}"),
    }
}

/// The x of the voxels that hold points in the row at `ms`, and the points on the robot and cropped so far.
fn seen(pipeline: &Pipeline, ms: i64) -> (Vec<i64>, [u64; 2]) {
    let mut message = pipeline.new_message();
    let tick = pipeline.config().grid.tick_at(Stamp::from_nanos(ms * MS));
    let outcome = pipeline.tick(tick, Epoch::default(), &mut message).unwrap();
    assert_eq!(outcome, TickOutcome::Ready);
    let counts = values(pipeline, &message, SegmentId::new(0));
    let full = counts.iter().enumerate().filter(|(_, count)| **count > 0.0);
    let stats = pipeline.stats(StreamId::new(0));
    let of_filter = [&stats.points_on_robot, &stats.points_cropped].map(Counter::get);
    (full.map(|(at, _)| at as i64 % 16 - 8).collect(), of_filter)
}

/// Points along x, at the height of the base.
const ALONG_X: [[f32; 3]; 3] = [[2.2, 0.0, -1.0], [4.2, 0.0, -1.0], [6.2, 0.0, -1.0]];

#[test]
fn a_box_on_a_frame_is_where_the_frame_was_at_the_stamp_of_the_cloud() {
    for extrinsic in [MOUNTED, "tf"] {
        let pipeline = pipeline(&config(extrinsic, ARM));
        if extrinsic == "tf" {
            let mount = link(0, "base_link", "lidar", [0.0, 0.0, 1.0], NO_TURN);
            push(&pipeline, "tf_static", 1, &mount).unwrap();
        }
        for (ms, x) in [(100, 2.0), (200, 6.0)] {
            let moved = link(ms, "base_link", "arm", [x, 0.0, 0.0], NO_TURN);
            push(&pipeline, "tf", ms, &moved).unwrap();
        }
        for (ms, left, on_robot) in [(100, [4, 6], 1), (150, [2, 6], 2), (200, [2, 4], 3)] {
            push(&pipeline, "lidar", 210, &cloud(ms, &ALONG_X)).unwrap();
            assert_eq!(seen(&pipeline, ms), (left.to_vec(), [on_robot, 0]), "{extrinsic} at {ms}");
        }
    }
}

#[test]
fn a_crop_on_a_turned_frame_turns_with_it() {
    let crop = "crop: [{frame: pallet, min_m: [-0.5, 1, -1], max_m: [0.5, 5, 1]}]";
    let pipeline = pipeline(&config(MOUNTED, crop));
    // Its y is against the x of the base: from 8 m - 1 m down to 8 m - 5 m.
    let pallet = link(0, "base_link", "pallet", [8.0, 0.0, 0.0], TURN);
    push(&pipeline, "tf_static", 1, &pallet).unwrap();
    push(&pipeline, "lidar", 100, &cloud(100, &ALONG_X)).unwrap();
    assert_eq!(seen(&pipeline, 100), (vec![4, 6], [0, 1]));
}

#[test]
fn a_cloud_waits_for_all_frames_and_the_drop_names_link_and_shape() {
    let filter = "crop: [{frame: arm, min_m: [-9, -9, -9], max_m: [9, 9, 9]}]
      self_filter: [{radius_m: 0.1}, {radius_m: 0.5, frame: tool}]";
    let pipeline = pipeline(&config(MOUNTED, filter));
    let cloud = cloud(150, &ALONG_X);
    let need = waits(push(&pipeline, "lidar", 160, &cloud));
    assert_eq!(
        need.given_up(50.0).detail,
        "streams.lidar.cloud.crop[0] (frame \"arm\"): waited 50 ms (tf.wait_ms): frame \"arm\": \
         expected in tf, found in no transform so far"
    );
    let arm = link(0, "base_link", "arm", [2.2, 0.0, 0.0], NO_TURN);
    push(&pipeline, "tf_static", 165, &arm).unwrap();
    assert!(!pipeline.is_settled(&need), "the tool is missing");
    push(&pipeline, "tf", 166, &link(140, "arm", "tool", [0.0; 3], NO_TURN)).unwrap();
    let need = waits(push(&pipeline, "lidar", 160, &cloud));
    assert_eq!(
        need.crowded_out(256).detail,
        "streams.lidar.cloud.self_filter[1] (frame \"tool\"): 256 messages of the input wait already: \
         \"tool\" in its parent: expected a transform at or after 0.150000000, found 0.140000000 as \
         the newest"
    );
    push(&pipeline, "tf", 210, &link(160, "arm", "tool", [2.0, 0.0, 0.0], NO_TURN)).unwrap();
    assert!(pipeline.is_settled(&need));
    push(&pipeline, "lidar", 160, &cloud).unwrap();
    // At 150 ms the tool is at 2.2 m + 1 m, and no point is near.
    assert_eq!(seen(&pipeline, 150), (vec![2, 4, 6], [0, 0]));
    let stats = pipeline.input_stats(id(&pipeline, "lidar"));
    assert_eq!((stats.received.get(), stats.accepted.get()), (1, 1));
}

#[test]
fn a_cloud_whose_shape_has_no_place_is_dropped_and_not_let_through() {
    let pipeline = pipeline(&config(MOUNTED, ARM));
    for ms in [100, 3000] {
        let still = link(ms, "base_link", "arm", [2.0, 0.0, 0.0], NO_TURN);
        push(&pipeline, "tf", ms, &still).unwrap();
    }
    for (ms, why) in [(99, "at or before"), (150, "at most 1000 ms apart (tf.max_gap_ms; ")] {
        let error = push(&pipeline, "lidar", 3000, &cloud(ms, &ALONG_X)).unwrap_err().to_string();
        let place = "streams.lidar.cloud.self_filter[1] (frame \"arm\"): \"arm\" in its parent";
        assert!(error.starts_with(place) && error.contains(why), "{error}");
    }
    let stats = pipeline.input_stats(id(&pipeline, "lidar"));
    assert_eq!(stats.dropped(DropReason::NoTransform), 2);
    // The transform came 51 ms after the cloud.
    let still = link(2995, "base_link", "arm", [2.0, 0.0, 0.0], NO_TURN);
    push(&pipeline, "tf", 3000, &still).unwrap();
    let error = push(&pipeline, "lidar", 2949, &cloud(2995, &ALONG_X)).unwrap_err().to_string();
    assert!(error.contains("found one 51 ms after the message"), "{error}");
}

#[test]
fn the_tree_is_read_only_if_a_shape_asks_for_it() {
    let inputs = |filter: &str| {
        let config = pipeline(&config(MOUNTED, filter)).config().clone();
        config.inputs.iter().map(|input| input.name.clone()).collect::<Vec<_>>()
    };
    for filter in ["", "self_filter: [{radius_m: 1, frame: base}, {radius_m: 1, frame: base_link}]"]
    {
        assert_eq!(inputs(filter), ["lidar"], "{filter}");
    }
    for frame in ["arm", "/sensor", "/base"] {
        let filter = format!("crop: [{{frame: {frame}, min_m: [0, 0, 0], max_m: [1, 1, 1]}}]");
        assert_eq!(inputs(&filter), ["lidar", "tf", "tf_static"], "{frame}");
    }
}
