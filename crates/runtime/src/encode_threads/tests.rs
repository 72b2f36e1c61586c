use super::super::tests::{Failing, image, ms};
use super::super::{Player, Received, Served};
use super::*;
use robocache_core::backend::{Backend, BackendError, StepJob};
use robocache_core::pipeline::Pipeline;
use robocache_core::sample::Sample;
use robocache_core::spec::RingId;
use robocache_ops::align::Slot;
use robocache_ops::device::OutputMut;
use robocache_ops::voxelize::PointDrops;

struct Panicking;

impl Backend for Panicking {
    fn name(&self) -> &'static str {
        "panicking"
    }

    fn encode(&self, _: RingId, _: Slot, _: Sample<'_>) -> Result<PointDrops, BackendError> {
        panic!("as it must in this test")
    }

    fn fuse(&self, _: &[StepJob], _: OutputMut<'_>) -> Result<(), BackendError> {
        Ok(())
    }
}

/// What ends the replay of some images on two threads.
fn end_on(backend: Arc<dyn Backend>) -> String {
    let text = "
rate_hz: 100
streams:
  a: {type: sensor_msgs/Image, topic: /a, max_age_ms: 50, image: {resize: {width: 8, height: 4}}}
  b: {type: sensor_msgs/Image, topic: /b, max_age_ms: 50, image: {resize: {width: 8, height: 4}}}
";
    let config = robocache_core::config::parse(text, "test.yaml").unwrap();
    let player = Player::new(Pipeline::new(config, backend).unwrap(), false);
    let mut player = player.with_threads(2).unwrap();
    let mut serve = |_: Served<'_>| -> Result<(), RuntimeError> { Ok(()) };
    for k in 0..100 {
        let (input, received) = (InputId::new(k % 2), Received::at(ms(1000)));
        if let Err(error) = player.receive(input, image(ms(900)), received, &mut serve) {
            return error.to_string();
        }
    }
    player.end(ms(1010), &mut serve).unwrap_err().to_string()
}

#[test]
fn a_failure_on_a_thread_ends_the_replay() {
    let failed = end_on(Arc::new(Failing));
    assert!(failed.contains("backend failing: out of memory"), "{failed}");
    let panicked = end_on(Arc::new(Panicking));
    let expected = ["the encode thread panicked", "made it panic"];
    assert!(expected.iter().any(|part| panicked.contains(part)), "{panicked}");
}

#[test]
fn streams_that_need_frames_or_a_camera_stay_on_the_players_thread() {
    let text = "
rate_hz: 100
tf: {}
streams:
  wrench: {type: geometry_msgs/WrenchStamped, topic: /w, max_age_ms: 50}
  plain: {type: sensor_msgs/Image, topic: /a, max_age_ms: 50, image: {resize: {width: 8, height: 4}}}
  bent:
    type: sensor_msgs/Image
    topic: /b
    max_age_ms: 50
    image: {resize: {width: 8, height: 4}, undistort: {camera_info: /info}}
  moved:
    type: sensor_msgs/PointCloud2
    topic: /c
    max_age_ms: 50
    t_base_sensor: tf
    cloud: {origin_m: [0, 0, 0], size_m: 1, shape: [2, 2, 2], channels: [{reduce: count}]}
  still:
    type: sensor_msgs/PointCloud2
    topic: /d
    max_age_ms: 50
    cloud: {origin_m: [0, 0, 0], size_m: 1, shape: [2, 2, 2], channels: [{reduce: count}]}
";
    let config = robocache_core::config::parse(text, "test.yaml").unwrap();
    let taken = takes(&config);
    let named = config.input_ids().filter(|id| taken[id.index()]);
    let names: Vec<&str> = named.map(|id| config.input(id).name.as_str()).collect();
    assert_eq!(names, ["plain", "still"]);
}
