use super::super::tests::{Failing, image, ms};
use super::super::{Player, Received, Served, Tick, TimeSource};
use super::*;
use robocache_core::backend::cpu::CpuBackend;
use robocache_core::backend::{Backend, BackendError, StepJob};
use robocache_core::cdr::messages::Image;
use robocache_core::layout::Layout;
use robocache_core::pipeline::Pipeline;
use robocache_core::rejected::DropReason;
use robocache_core::sample::PlacedSample;
use robocache_core::spec::RingId;
use robocache_ops::align::Slot;
use robocache_ops::device::OutputMut;
use robocache_ops::time::Stamp;
use robocache_ops::voxelize::PointDrops;

struct Panicking;

impl Backend for Panicking {
    fn name(&self) -> &'static str {
        "panicking"
    }

    fn encode(&self, _: RingId, _: Slot, _: &PlacedSample<'_>) -> Result<PointDrops, BackendError> {
        panic!("as it must in this test")
    }

    fn fuse(&self, _: &[StepJob], _: OutputMut<'_>) -> Result<(), BackendError> {
        Ok(())
    }
}

/// Returns the error that ends the replay of some images on two threads.
fn end_on(backend: Arc<dyn Backend>) -> String {
    let text = "
rate_hz: 100
streams:
  a: {type: sensor_msgs/Image, topic: /a, max_age_ms: 50, image: {resize: {width: 8, height: 4}}}
  b: {type: sensor_msgs/Image, topic: /b, max_age_ms: 50, image: {resize: {width: 8, height: 4}}}
";
    let config = robocache_core::config::parse(text, "test.yaml").unwrap();
    let player = Player::new(Pipeline::new(config, backend).unwrap(), false, TimeSource::real());
    let mut player = player.with_threads(2).unwrap();
    let mut serve = |_: Served<'_>| -> Result<(), RuntimeError> { Ok(()) };
    let look_ahead = player.look_ahead().unwrap();
    let begin = |k: usize| look_ahead.begin(InputId::new(k % 2), image(ms(900))).unwrap();
    let tickets: Vec<Ticket> = (0..100).map(begin).collect();
    let mut received = tickets
        .into_iter()
        .map(|ticket| player.receive_ahead(ticket, Received::at(ms(1000)), &mut serve));
    received.find_map(Result::err).unwrap().to_string()
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
  both:
    type: sensor_msgs/PointCloud2
    max_age_ms: 50
    inputs: [{topic: /e}, {topic: /f}]
    cloud: {origin_m: [0, 0, 0], size_m: 1, shape: [2, 2, 2], channels: [{reduce: count}]}
";
    let config = robocache_core::config::parse(text, "test.yaml").unwrap();
    let ways = ways(&config);
    let of = |way| {
        let named = config.input_ids().filter(|id| ways[id.index()] == way);
        named.map(|id| config.input(id).name.as_str()).collect::<Vec<_>>()
    };
    assert_eq!(of(Way::Ahead), ["plain", "still"]);
    // Clouds of several inputs depend on each other.
    assert_eq!(of(Way::Thread), ["both[0]", "both[1]"]);
}

/// Two cameras with small rings, the second of which has its own frame.
const CAMERAS: &str = "
rate_hz: 100
lag_ms: 5
streams:
  a:
    type: sensor_msgs/Image
    topic: /a
    max_age_ms: 60
    ring_rows: 3
    history: {steps: 2, step_ms: 10}
    image: {resize: {width: 8, height: 4}}
  b:
    type: sensor_msgs/Image
    topic: /b
    frame_id: wrist
    strategy: nearest
    max_age_ms: 60
    ring_rows: 4
    image: {resize: {width: 8, height: 4}}
";

/// A camera's message with all that can happen to one: late, out of order, of an equal stamp, without a stamp, cut off, of
/// another frame, from before a jump of the clock.
fn messages() -> Vec<(InputId, Vec<u8>, Received)> {
    let mut state = 1_u64;
    let mut random = move |below: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) % below) as i64
    };
    let message = |k: i64| {
        let at = 1_000 + 7 * k - if k > 300 { 1_500 } else { 0 };
        let stamp = match random(20) {
            0 => Stamp::ZERO,
            1 => ms(at - 400),
            2 => ms(at + 5_000),
            _ => ms(at - 10 - 7 * random(5)),
        };
        let frame_id = if random(15) == 0 { "elbow" } else { "wrist" };
        let image = Image { stamp, frame_id, height: 2, width: 2, encoding: "mono8", step: 2 };
        let mut bytes = image.to_cdr(Vec::new(), |data| data.extend_from_slice(&[k as u8; 4]));
        if random(15) == 0 {
            bytes.truncate(bytes.len() - 3);
        }
        (InputId::new(random(2) as usize), bytes, Received::at(ms(at)))
    };
    (0..600).map(message).collect()
}

/// The tensors of all ticks, and all that is counted.
fn played(threads: usize, begun: usize) -> (Vec<(Tick, Vec<u8>)>, String) {
    let config = robocache_core::config::parse(CAMERAS, "test.yaml").unwrap();
    let config = config.with_rows_ahead(ROWS_AHEAD);
    let backend = Arc::new(CpuBackend::new(&config, &Layout::new(&config)).unwrap());
    let mut player =
        Player::new(Pipeline::new(config, backend).unwrap(), false, TimeSource::real());
    if threads > 0 {
        player = player.with_threads(threads).unwrap();
    }
    let look_ahead = player.look_ahead();
    let mut tensors = Vec::new();
    let mut serve = |served: Served<'_>| -> Result<(), RuntimeError> {
        if let Served::Tensor(tick, message) = served {
            tensors.push((tick, message.message().to_vec()));
        }
        Ok(())
    };
    let mut ahead = VecDeque::new();
    let mut messages = messages().into_iter();
    loop {
        if ahead.len() < begun
            && let Some((input, bytes, received)) = messages.next()
        {
            let ticket = look_ahead.as_ref().map(|of| of.begin(input, bytes.clone()).unwrap());
            ahead.push_back((ticket, input, bytes, received));
            continue;
        }
        match ahead.pop_front() {
            Some((Some(ticket), _, _, at)) => player.receive_ahead(ticket, at, &mut serve).unwrap(),
            Some((None, input, bytes, at)) => player.receive(input, bytes, at, &mut serve).unwrap(),
            None => break,
        }
    }
    player.end(ms(6_000), &mut serve).unwrap();
    let runtime = player.runtime();
    let inputs: Vec<_> = runtime.inputs().map(|id| runtime.input_stats(id)).collect();
    let streams: Vec<_> = runtime.streams().map(|id| runtime.stream_stats(id)).collect();
    for reason in [
        DropReason::Malformed,
        DropReason::WrongFrame,
        DropReason::ZeroStamp,
        DropReason::Late,
        DropReason::Ahead,
    ] {
        assert!(inputs.iter().any(|input| input.dropped(reason) > 0), "{reason:?}");
    }
    assert!(streams.iter().all(|of| of.reordered.get() > 0 && of.replaced.get() > 0));
    assert_eq!(runtime.pipeline.clock_jumps(), 1);
    let counted = format!("{inputs:?} {streams:?}");
    (tensors, counted)
}

#[test]
fn what_is_encoded_before_its_turn_gives_the_tensors_and_the_counts_of_one_thread() {
    let (tensors, counted) = played(0, 1);
    assert!(tensors.len() > 300, "{}", tensors.len());
    for (threads, begun) in [(1, 1), (2, 3), (2, 40)] {
        let (others, counts) = played(threads, begun);
        assert!(others == tensors, "{threads} threads, {begun} begun");
        assert_eq!(counts, counted, "{threads} threads, {begun} begun");
    }
}
