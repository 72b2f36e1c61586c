use super::*;
use crate::config;
use robocache_ops::image::camera::Lens;

#[test]
fn a_table_is_made_again_only_when_the_numbers_change() {
    let config = "
rate_hz: 100
streams:
  left:
    type: sensor_msgs/Image
    topic: /left
    max_age_ms: 50
    image: {resize: {width: 4, height: 4}, undistort: {camera_info: /info}}
";
    let config = config::parse(config, "test.yaml").unwrap();
    let encoder = &config.streams[0].encoder;
    let known = |frame: &str, focal: f64| {
        let camera = Camera {
            size: [4, 4],
            first: [0, 0],
            lens: Lens::Equidistant([0.0; 4]),
            focal: [focal; 2],
            centre: [2.0; 2],
            ray: [[0.25, 0.0, -0.5], [0.0, 0.25, -0.5], [0.0, 0.0, 1.0]],
        };
        Arc::new(KnownCamera { frame_id: frame.to_owned(), camera })
    };
    let mut made = None;
    let mut table = |frame, focal| table_of(&mut made, &known(frame, focal), encoder).unwrap();
    let first = table("a", 4.0);
    assert!(Arc::ptr_eq(&first, &table("a", 4.0)));
    assert!(Arc::ptr_eq(&first, &table("b", 4.0)));
    assert!(!Arc::ptr_eq(&first, &table("b", 5.0)));
}
