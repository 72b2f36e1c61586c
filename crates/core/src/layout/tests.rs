use super::*;
use crate::config;

const CONFIG: &str = "
rate_hz: 100
output: {dtype: f16}
streams:
  joints:
    type: sensor_msgs/JointState
    topic: /joint_states
    joints: [a, b, c]
    fields: [position, velocity]
    history: {steps: 3, step_ms: 10}
    max_age_ms: 50
    dtype: f32
  camera:
    type: sensor_msgs/Image
    topic: /image
    max_age_ms: 100
    image: {resize: {width: 5, height: 4}}
  lidar:
    type: sensor_msgs/PointCloud2
    topic: /points
    max_age_ms: 100
    cloud:
      {origin_m: [0, 0, 0], size_m: 1, shape: [2, 3, 4], channels: [{reduce: count}]}
";

#[test]
fn segments_are_aligned_and_do_not_overlap() {
    let layout = Layout::new(&config::parse(CONFIG, "test.yaml").unwrap());
    let [joints, camera, lidar] = layout.segments() else { panic!("three segments") };
    assert_eq!((joints.shape.as_slice(), joints.dtype), ([3, 6].as_slice(), DType::F32));
    assert_eq!((joints.byte_offset, joints.byte_len), (0, 72));
    assert_eq!((joints.step_len, joints.steps, joints.step_byte_len()), (6, 3, 24));
    assert_eq!((camera.shape.as_slice(), camera.dtype), ([1, 3, 4, 5].as_slice(), DType::F16));
    assert_eq!((camera.byte_offset, camera.byte_len), (128, 120));
    // One channel of z by y by x.
    assert_eq!((lidar.shape.as_slice(), lidar.steps), ([1, 1, 4, 3, 2].as_slice(), 1));
    assert_eq!((lidar.byte_offset, lidar.byte_len), (256, 48));
    assert_eq!(layout.byte_len(), 320);
}
