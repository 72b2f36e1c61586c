//! A sparse grid: two segments, and the number of voxels in use.

use robocache_core::cdr::messages::{PointCloud2, PointField};
use robocache_core::message::{StepState, TensorMessage};
use robocache_core::pipeline::StreamStats;

use super::*;

const CONFIG: &str = "
rate_hz: 100
streams:
  lidar:
    type: sensor_msgs/PointCloud2
    topic: /points
    max_age_ms: 15
    history: {steps: 2, step_ms: 10}
    cloud:
      origin_m: [0, 0, 0]
      size_m: 1
      shape: [4, 3, 2]
      channels: [{reduce: count}, {reduce: max, field: x}]
      output: sparse
      max_voxels: 3
";
const LIDAR: InputId = InputId::new(0);

/// A cloud of the frame `lidar`, of points x, y, z.
pub(super) fn cloud(ms: i64, points: &[[f32; 3]]) -> Vec<u8> {
    let field = |(at, name): (u32, _)| PointField { name, offset: 4 * at, datatype: 7, count: 1 };
    let fields = [(0, "x"), (1, "y"), (2, "z")].map(field);
    let width = points.len() as u32;
    let cloud = PointCloud2 {
        stamp: Stamp::from_nanos(ms * MS),
        frame_id: "lidar",
        height: 1,
        width,
        fields: &fields,
        is_bigendian: false,
        point_step: 12,
        row_step: 12 * width,
        is_dense: true,
    };
    let bytes = points.as_flattened().iter().flat_map(|number| number.to_le_bytes());
    cloud.to_cdr(Vec::new(), |data| data.extend(bytes))
}

/// Per step: whether it is valid, its count, its features and its coordinates.
type Step = (bool, u32, Vec<f32>, Vec<f32>);

fn steps(pipeline: &Pipeline, message: &TensorMessage) -> Vec<Step> {
    let [features, coordinates] = [0, 1].map(SegmentId::new);
    let of_features = values(pipeline, message, features);
    let of_coordinates = values(pipeline, message, coordinates);
    let step = |(at, state): (usize, &StepState)| {
        assert_eq!(*state, message.steps(coordinates)[at], "both segments are of the same row");
        let features = of_features[6 * at..][..6].to_vec();
        (state.valid, state.count, features, of_coordinates[9 * at..][..9].to_vec())
    };
    message.steps(features).iter().enumerate().map(step).collect()
}

fn stats(pipeline: &Pipeline) -> &StreamStats {
    pipeline.stats(pipeline.config().stream_ids().next().unwrap())
}

#[test]
fn a_sparse_step_is_a_list_of_voxels_and_says_how_many() {
    let pipeline = pipeline(CONFIG);
    let [features, coordinates] = pipeline.layout().segments() else { panic!("two segments") };
    assert_eq!((features.name.as_str(), features.dtype), ("lidar", DType::F32));
    assert_eq!(features.shape, [2, 3, 2]);
    assert_eq!((coordinates.name.as_str(), coordinates.dtype), ("lidar.coordinates", DType::I32));
    assert_eq!(coordinates.shape, [2, 3, 3]);

    let first = cloud(100, &[[3.5, 2.5, 1.5], [0.5, 0.5, 0.5], [3.25, 2.5, 1.5]]);
    pipeline.push(LIDAR, &first, Arrival::default()).unwrap();
    let second = [[1.5, 0.5, 0.5], [0.5, 1.5, 0.5], [2.5, 2.5, 0.5], [0.5, 0.5, 1.5]];
    pipeline.push(LIDAR, &cloud(110, &second), Arrival::default()).unwrap();
    assert_eq!(stats(&pipeline).voxels_beyond_capacity.get(), 1);

    let mut message = pipeline.new_message();
    let mut tick = |number: i64| {
        pipeline.tick(number, Epoch::default(), &mut message).unwrap();
        message.seal();
        steps(&pipeline, &message)
    };
    let of_first = (
        true,
        2,
        vec![1.0, 0.5, 2.0, 3.5, 0.0, 0.0],
        vec![0.0, 0.0, 0.0, 1.0, 2.0, 3.0, 0.0, 0.0, 0.0],
    );
    let of_second = (
        true,
        3,
        vec![1.0, 1.5, 1.0, 0.5, 1.0, 2.5],
        vec![0.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 2.0, 2.0],
    );
    let nothing = (false, 0, vec![0.0; 6], vec![0.0; 9]);
    assert_eq!(tick(10), [nothing.clone(), of_first.clone()]);
    assert_eq!(tick(11), [of_first, of_second.clone()]);
    assert_eq!(tick(12), [of_second.clone(), of_second]);
    // Too old: the fill is zero, and nothing is in use.
    assert_eq!(tick(20), [nothing.clone(), nothing]);
}

#[test]
fn the_fill_last_has_the_voxels_of_the_last_row() {
    let pipeline = pipeline(&CONFIG.replace("max_age_ms: 15", "max_age_ms: 15\n    fill: last"));
    let bytes = cloud(100, &[[1.5, 0.5, 0.5]]);
    pipeline.push(LIDAR, &bytes, Arrival::default()).unwrap();
    let mut message = pipeline.new_message();
    pipeline.tick(30, Epoch::default(), &mut message).unwrap();
    for (valid, count, features, coordinates) in steps(&pipeline, &message) {
        assert!(!valid);
        assert_eq!((count, features[1], coordinates[2]), (1, 1.5, 1.0));
    }
}
