//! After a GPU was left, the process opens none again. In a program of its own, because this holds for the process.

#![cfg(feature = "cuda")]

use robocache_core::backend::{Choice, create};
use robocache_core::config;
use robocache_core::layout::Layout;
use robocache_ops::device::Device;

const CONFIG: &str = "rate_hz: 10
streams:
  camera: {type: sensor_msgs/msg/Image, topic: /i, max_age_ms: 500, image: {resize: {width: 8, height: 8}}}
";

#[test]
fn a_gpu_that_was_left_is_not_opened_again() {
    let device = match Device::open(0) {
        Ok(device) => device,
        Err(reason) => {
            // Past the capture of the test harness, which would swallow it.
            let line = format!("left_gpu was skipped: {reason}\n");
            std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes()).ok();
            return;
        }
    };
    let config = config::parse(CONFIG, "robot.yaml").unwrap();
    let layout = Layout::new(&config);
    let made = |choice| create(choice, 0, &config, &layout);
    assert_eq!(made(Choice::Auto).unwrap().name(), "cpu+cuda");
    device.leave();
    assert_eq!(made(Choice::Auto).unwrap().name(), "cpu");
    let error = made(Choice::Cuda).err().unwrap().to_string();
    assert!(error.contains("this process left a GPU after a failure"), "{error}");
    assert!(Device::open(0).is_err() && Device::count().is_err());
}
