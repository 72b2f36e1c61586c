use super::*;

#[test]
fn an_error_of_reserving_memory_names_the_keys() {
    let text = "
rate_hz: 100
streams:
  wrench: {type: geometry_msgs/WrenchStamped, topic: /w, max_age_ms: 50}
  camera: {type: sensor_msgs/Image, topic: /i, max_age_ms: 50, image: {resize: {width: 8, height: 4}}}
  lidar:
    type: sensor_msgs/PointCloud2
    topic: /p
    max_age_ms: 50
    cloud: {origin_m: [0, 0, 0], size_m: 1, shape: [2, 2, 2], channels: [{reduce: count}]}
";
    let config = crate::config::parse(text, "test.yaml").unwrap();
    let errors = config.streams.iter().map(|spec| {
        let operation = "reserve device memory";
        let detail = "out of memory".into();
        let error = BackendError::Failed { backend: "cuda", operation, detail };
        error.reserving_for(spec).to_string()
    });
    let failed = "backend cuda: failed to reserve device memory: out of memory; how much is \
                  needed follows from streams";
    let expected = [
        "wrench.ring_rows (1024)",
        "camera.ring_rows (16), streams.camera.image.max_width_px (3840) and \
         streams.camera.image.max_height_px (2160)",
        "lidar.ring_rows (16) and streams.lidar.cloud.max_points (1048576)",
    ];
    let expected = expected.map(|keys| format!("{failed}.{keys}"));
    assert_eq!(errors.collect::<Vec<_>>(), expected);
}
