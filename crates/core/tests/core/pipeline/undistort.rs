//! Images that are undistorted by the `CameraInfo` of their camera.

use robocache_core::cdr::Writer;
use robocache_core::cdr::messages::{CameraInfo, Image};

use super::*;

const CONFIG: &str = "
rate_hz: 100
streams:
  left:
    type: sensor_msgs/Image
    topic: /left
    max_age_ms: 50
    dtype: u8
    image: {resize: {width: 8, height: 6, fit: stretch}, color: mono, undistort: {camera_info: /info}}
  again:
    type: sensor_msgs/Image
    topic: /again
    max_age_ms: 50
    dtype: u8
    image:
      resize: {width: 4, height: 3, fit: stretch}
      crop: {x: 2, y: 1, width: 4, height: 3}
      color: mono
      undistort: {camera_info: /info}
  plain:
    type: sensor_msgs/Image
    topic: /plain
    max_age_ms: 50
    dtype: u8
    image: {resize: {width: 8, height: 6, fit: stretch}, color: mono}
";
const LEFT: InputId = InputId::new(0);
const AGAIN: InputId = InputId::new(1);
const PLAIN: InputId = InputId::new(2);
const INFO: InputId = InputId::new(3);

fn gray(at: i64, width: u32, height: u32) -> Vec<u8> {
    let stamp = Stamp::from_nanos(at * MS);
    let frame_id = "camera";
    let encoding = "mono8";
    Image { stamp, frame_id, height, width, encoding, step: width }
        .to_cdr(Vec::new(), |data| data.extend((0..width * height).map(|at| (5 * at) as u8)))
}

/// Moves the image by `by` pixels: a lens without curvature whose new principal point is elsewhere. The
/// smallest number that is not zero makes it a lens that bends.
fn info<'a>(by: [f64; 2]) -> CameraInfo<'a> {
    CameraInfo {
        stamp: Stamp::ZERO,
        frame_id: "camera",
        height: 6,
        width: 8,
        distortion_model: "plumb_bob",
        d: &[f64::MIN_POSITIVE, 0.0, 0.0, 0.0, 0.0],
        k: [4.0, 0.0, 3.0, 0.0, 4.0, 2.0, 0.0, 0.0, 1.0],
        r: [0.0; 9],
        p: [4.0, 0.0, 3.0 - by[0], 0.0, 0.0, 4.0, 2.0 - by[1], 0.0, 0.0, 0.0, 1.0, 0.0],
        binning: [0, 0],
        roi: [0; 4],
    }
}

fn push(pipeline: &Pipeline, input: InputId, message: &[u8]) -> Result<u32, (DropReason, String)> {
    push_at(pipeline, input, message, Arrival::default())
}

fn push_at(
    pipeline: &Pipeline,
    input: InputId,
    message: &[u8],
    arrival: Arrival,
) -> Result<u32, (DropReason, String)> {
    match pipeline.push(input, message, arrival) {
        Ok(accepted) => Ok(accepted.rows),
        Err(NotTaken::Dropped(rejected)) => Err((rejected.reason, rejected.detail)),
        Err(error) => panic!("{error}"),
    }
}

/// The elements of the segments at 100 ms.
fn rows(pipeline: &Pipeline, epoch: Epoch) -> [Vec<f32>; 3] {
    let mut message = pipeline.new_message();
    assert_eq!(pipeline.tick(10, epoch, &mut message).unwrap(), TickOutcome::Ready);
    [0, 1, 2].map(|at| values(pipeline, &message, SegmentId::new(at)))
}

/// Content of the images, moved by whole pixels.
fn moved(by: [i32; 2], part: [std::ops::Range<i32>; 2]) -> Vec<f32> {
    let [columns, lines] = part;
    let pixel = |x: i32, y: i32| match (0..8).contains(&x) && (0..6).contains(&y) {
        true => f32::from((5 * (8 * y + x)) as u8),
        false => 0.0,
    };
    lines
        .flat_map(|y| columns.clone().map(move |x| (x, y)))
        .map(|(x, y)| pixel(x + by[0], y + by[1]))
        .collect()
}

#[test]
fn images_are_undistorted_by_the_newest_camera_and_streams_share_it() {
    let pipeline = pipeline(CONFIG);
    assert_eq!(pipeline.config().inputs.len(), 4, "one subscription for both streams");
    assert_eq!(pipeline.config().input(INFO).name, "left.camera_info");
    assert_eq!(pipeline.config().input(INFO).ros_type, "sensor_msgs/msg/CameraInfo");
    // A stamp of zero is no matter: the message is no row.
    assert_eq!(push(&pipeline, INFO, &info([2.0, 1.0]).to_cdr(Vec::new())), Ok(0));
    for input in [LEFT, AGAIN, PLAIN] {
        assert_eq!(push(&pipeline, input, &gray(90, 8, 6)), Ok(1));
    }
    let all = [0..8, 0..6];
    let [left, again, plain] = rows(&pipeline, Epoch::default());
    assert_eq!(left, moved([2, 1], all.clone()));
    assert_eq!(again, moved([2, 1], [2..6, 1..4]));
    assert_eq!(plain, moved([0, 0], all));
    // Half of a pixel blends two, and what is outside counts as zero.
    push(&pipeline, INFO, &info([0.0, 5.5]).to_cdr(Vec::new())).unwrap();
    push(&pipeline, LEFT, &gray(91, 8, 6)).unwrap();
    let [left, again, _] = rows(&pipeline, Epoch::default());
    let last: Vec<f32> =
        (40..48).map(|at| f32::from((5 * at) as u8) / 2.0).map(f32::round).collect();
    assert_eq!(left[..8], last);
    assert!(left[8..].iter().all(|value| *value == 0.0), "{left:?}");
    assert_eq!(again, moved([2, 1], [2..6, 1..4]), "its row is from before");
    let stats = pipeline.input_stats(INFO);
    assert_eq!((stats.received.get(), stats.accepted.get(), stats.dropped_total()), (2, 2, 0));
}

#[test]
fn a_camera_without_distortion_leaves_images_as_they_are() {
    let pipeline = pipeline(CONFIG);
    let straight = CameraInfo { d: &[0.0; 5], ..info([2.0, 1.0]) };
    push(&pipeline, INFO, &straight.to_cdr(Vec::new())).unwrap();
    for input in [LEFT, AGAIN] {
        push(&pipeline, input, &gray(90, 8, 6)).unwrap();
    }
    let [left, again, _] = rows(&pipeline, Epoch::default());
    assert_eq!(left, moved([0, 0], [0..8, 0..6]));
    assert_eq!(again, moved([0, 0], [2..6, 1..4]));
}

#[test]
fn an_image_before_the_first_camera_is_a_drop_that_says_what_to_do() {
    let pipeline = pipeline(CONFIG);
    let (reason, detail) = push(&pipeline, AGAIN, &gray(90, 8, 6)).unwrap_err();
    assert_eq!((reason, reason.name()), (DropReason::NoCameraInfo, "no_camera_info"));
    let expected = "streams.again.image.undistort: expected a CameraInfo on /info before the image, found \
                    none; start what publishes it (usually the driver of the camera), or set camera_info \
                    to its topic";
    assert_eq!(detail, expected);
    // A refused CameraInfo does not count.
    let mut bad = info([0.0, 0.0]);
    bad.k[0] = 0.0;
    let (reason, _) = push(&pipeline, INFO, &bad.to_cdr(Vec::new())).unwrap_err();
    assert_eq!(reason, DropReason::OutOfRange);
    assert_eq!(push(&pipeline, AGAIN, &gray(90, 8, 6)).unwrap_err().0, DropReason::NoCameraInfo);
    assert_eq!(pipeline.input_stats(AGAIN).dropped(DropReason::NoCameraInfo), 2);
    assert_eq!(pipeline.input_stats(INFO).dropped(DropReason::OutOfRange), 1);
    // And it does not replace one that was good.
    push(&pipeline, INFO, &info([1.0, 0.0]).to_cdr(Vec::new())).unwrap();
    push(&pipeline, INFO, &bad.to_cdr(Vec::new())).unwrap_err();
    assert_eq!(push(&pipeline, AGAIN, &gray(90, 8, 6)), Ok(1));
    assert_eq!(rows(&pipeline, Epoch::default())[1], moved([1, 0], [2..6, 1..4]));
}

#[test]
fn an_image_of_another_size_than_the_camera_says_is_a_drop_that_names_both() {
    let pipeline = pipeline(CONFIG);
    push(&pipeline, INFO, &info([0.0, 0.0]).to_cdr(Vec::new())).unwrap();
    let (reason, detail) = push(&pipeline, LEFT, &gray(90, 16, 12)).unwrap_err();
    assert_eq!(reason, DropReason::WrongSize);
    let expected = "streams.left.image.undistort: expected an image of 8x6 px, as the CameraInfo on /info \
                    says (with its binning and region of interest), found 16x12 px";
    assert_eq!(detail, expected);
    // Binned by two, the images of a sensor of 16x12 px are taken.
    let binned = CameraInfo { width: 16, height: 12, binning: [2, 2], ..info([0.0, 0.0]) };
    push(&pipeline, INFO, &binned.to_cdr(Vec::new())).unwrap();
    assert_eq!(push(&pipeline, LEFT, &gray(90, 8, 6)), Ok(1));
    assert_eq!(pipeline.input_stats(LEFT).dropped(DropReason::WrongSize), 1);
}

#[test]
fn no_jump_of_the_clock_clears_a_camera() {
    let pipeline = pipeline(CONFIG);
    push(&pipeline, INFO, &info([2.0, 1.0]).to_cdr(Vec::new())).unwrap();
    let later = Epoch::default().next(Some(Stamp::from_nanos(900 * MS)));
    pipeline.begin(later);
    let arrival = Arrival { epoch: later, ..Arrival::default() };
    assert_eq!(push_at(&pipeline, LEFT, &gray(90, 8, 6), arrival), Ok(1));
    assert_eq!(rows(&pipeline, later)[0], moved([2, 1], [0..8, 0..6]));
    // One that was sent before the jump still says how the camera is.
    assert_eq!(push(&pipeline, INFO, &info([1.0, 1.0]).to_cdr(Vec::new())), Ok(0));
    assert_eq!(push_at(&pipeline, LEFT, &gray(91, 8, 6), arrival), Ok(1));
    assert_eq!(rows(&pipeline, later)[0], moved([1, 1], [0..8, 0..6]));
}

/// The message arrives at this instant.
fn at_ms(ms: i64) -> Arrival {
    Arrival { stamp: Some(Stamp::from_nanos(ms * MS)), ..Arrival::default() }
}

#[test]
fn an_image_that_waited_has_the_camera_of_its_own_arrival() {
    let pipeline = pipeline(CONFIG);
    let camera = |by: f64, arrival: Arrival| {
        push_at(&pipeline, INFO, &info([by, 0.0]).to_cdr(Vec::new()), arrival).unwrap();
    };
    let shift_at = |header_ms: i64, arrival: Arrival| {
        push_at(&pipeline, LEFT, &gray(header_ms, 8, 6), arrival)?;
        let left = rows(&pipeline, arrival.epoch)[0].clone();
        Ok((0..8).find(|by| left == moved([*by, 0], [0..8, 0..6])))
    };
    camera(1.0, at_ms(20));
    camera(2.0, at_ms(40));
    camera(2.0, at_ms(50));
    camera(1.0, at_ms(60));
    // All of these were in the queue meanwhile.
    let (reason, _): (DropReason, String) = shift_at(61, at_ms(19)).unwrap_err();
    assert_eq!(reason, DropReason::NoCameraInfo, "replayed, it would be before the first");
    for (header, arrival, expected) in
        [(62, 20, 1), (63, 39, 1), (64, 40, 2), (65, 59, 2), (66, 60, 1)]
    {
        assert_eq!(shift_at(header, at_ms(arrival)), Ok(Some(expected)), "{arrival}");
    }
    // What arrived in an epoch before is before all of this one.
    let later = Epoch::default().next(Some(Stamp::from_nanos(900 * MS)));
    let again = |ms: i64| Arrival { epoch: later, ..at_ms(ms) };
    assert_eq!(shift_at(51, again(1)), Ok(Some(1)));
    camera(3.0, again(5));
    assert_eq!(shift_at(52, again(4)), Ok(Some(1)));
    assert_eq!(shift_at(53, again(5)), Ok(Some(3)));
    // One that is no longer known is not replaced by another.
    (6..22).for_each(|ms| camera((ms % 2) as f64, again(ms)));
    let (reason, detail) = shift_at(54, again(5)).unwrap_err();
    assert_eq!(reason, DropReason::Late);
    assert!(detail.contains("the CameraInfo on /info changed 16 times while the image waited"));
    assert_eq!(shift_at(55, again(6)), Ok(Some(0)));
}

#[test]
fn an_image_of_another_frame_than_the_camera_is_a_drop_that_names_both() {
    let pipeline = pipeline(CONFIG);
    let named = |frame_id| CameraInfo { frame_id, ..info([1.0, 0.0]) }.to_cdr(Vec::new());
    push(&pipeline, INFO, &named("rear")).unwrap();
    let (reason, detail) = push(&pipeline, LEFT, &gray(90, 8, 6)).unwrap_err();
    assert_eq!(reason, DropReason::WrongFrame);
    let expected = "streams.left.image.undistort: header.frame_id: expected \"rear\", as the CameraInfo on \
                    /info says, found \"camera\"; is it the topic of this camera?";
    assert_eq!(detail, expected);
    // The numbers are the same, and the frame is not.
    for frame_id in ["camera", "/camera", ""] {
        push(&pipeline, INFO, &named("rear")).unwrap();
        assert!(push(&pipeline, LEFT, &gray(90, 8, 6)).is_err());
        push(&pipeline, INFO, &named(frame_id)).unwrap();
        assert_eq!(push(&pipeline, LEFT, &gray(90, 8, 6)), Ok(1), "{frame_id}");
    }
    assert_eq!(pipeline.input_stats(LEFT).dropped(DropReason::WrongFrame), 4);
    let long = "f".repeat(257);
    let (reason, detail) = push(&pipeline, INFO, &named(&long)).unwrap_err();
    assert_eq!(reason, DropReason::OutOfRange);
    assert_eq!(detail, "header.frame_id: expected at most 256 bytes, found 257");
    assert_eq!(push(&pipeline, LEFT, &gray(91, 8, 6)), Ok(1));
}

#[test]
fn cameras_are_the_last_inputs() {
    let lidar = "  lidar:
    type: sensor_msgs/PointCloud2
    topic: /lidar
    max_age_ms: 50
    t_base_sensor: tf
    deskew: {gyro: /imu, sensor: ouster}
    cloud: {origin_m: [0, 0, 0], size_m: 1, shape: [1, 1, 1], channels: [{reduce: count}]}
";
    let pipeline = pipeline(&format!("{CONFIG}{lidar}tf: {{odometry: [/odom]}}\n"));
    let inputs = &pipeline.config().inputs;
    let topics: Vec<_> = inputs.iter().map(|input| input.topic.as_str()).collect();
    let streams = ["/left", "/again", "/plain", "/lidar"];
    assert_eq!(topics[..4], streams);
    assert_eq!(topics[4..], ["/tf", "/tf_static", "/odom", "/imu", "/info"]);
}

#[test]
fn every_encoding_is_undistorted_after_it_has_become_pixels() {
    let config = CONFIG.replace("dtype: u8", "dtype: f32");
    let pipeline = pipeline(&config);
    push(&pipeline, INFO, &info([2.0, 1.0]).to_cdr(Vec::new())).unwrap();
    for (encoding, bytes) in [
        ("rgb8", 3),
        ("bgr8", 3),
        ("rgba8", 4),
        ("bgra8", 4),
        ("mono8", 1),
        ("mono16", 2),
        ("yuv422", 2),
        ("yuv422_yuy2", 2),
        ("nv12", 1),
        ("nv21", 1),
        ("bayer_rggb8", 1),
        ("bayer_rggb16", 2),
    ] {
        let lines = if encoding.starts_with("nv") { 9 } else { 6 };
        let frame_id = "camera";
        let step = 8 * bytes;
        // The same pixel everywhere: only what the lens shows of the outside is black.
        let image = |at: i64| {
            let stamp = Stamp::from_nanos(at * MS);
            Image { stamp, frame_id, height: 6, width: 8, encoding, step }
                .to_cdr(Vec::new(), |data| data.extend(vec![200; (step * lines) as usize]))
        };
        for input in [LEFT, PLAIN] {
            assert_eq!(push(&pipeline, input, &image(90)), Ok(1), "{encoding}");
        }
        let [left, _, plain] = rows(&pipeline, Epoch::default());
        assert!(
            plain[0] > 0.0 && plain.iter().all(|value| *value == plain[0]),
            "{encoding} {plain:?}"
        );
        for (at, value) in left.iter().enumerate() {
            let inside = at % 8 < 6 && at / 8 < 5;
            assert_eq!(*value, if inside { plain[0] } else { 0.0 }, "{encoding} {at}");
        }
    }
}

#[test]
fn files_are_undistorted_as_well() {
    let config = CONFIG.replacen("sensor_msgs/Image", "sensor_msgs/CompressedImage", 1);
    let pipeline = pipeline(&config);
    let file = include_bytes!("../../../../../tests/golden/compressed/gray.png");
    let message = |ms: i64| {
        let mut writer = Writer::new();
        writer.header(Stamp::from_nanos(ms * MS), "camera");
        writer.string("mono8; png compressed ");
        writer.bytes(file);
        writer.finish()
    };
    let (reason, _) = push(&pipeline, LEFT, &message(90)).unwrap_err();
    assert_eq!(reason, DropReason::NoCameraInfo);
    push(&pipeline, INFO, &info([0.0, 0.0]).to_cdr(Vec::new())).unwrap();
    let (reason, detail) = push(&pipeline, LEFT, &message(90)).unwrap_err();
    assert_eq!(reason, DropReason::WrongSize, "{detail}");
    let size: Vec<u32> =
        detail.rsplit(' ').nth(1).unwrap().split('x').map(|n| n.parse().unwrap()).collect();
    let [width, height] = size[..] else { panic!("{detail}") };
    // A whole line lower, and then nothing of it.
    let whole = CameraInfo { width, height, ..info([0.0, 1.0]) };
    push(&pipeline, INFO, &whole.to_cdr(Vec::new())).unwrap();
    assert_eq!(push(&pipeline, LEFT, &message(90)), Ok(1));
    let lower = rows(&pipeline, Epoch::default())[0].clone();
    let beyond = CameraInfo { width, height, ..info([0.0, f64::from(height) + 1.0]) };
    push(&pipeline, INFO, &beyond.to_cdr(Vec::new())).unwrap();
    assert_eq!(push(&pipeline, LEFT, &message(91)), Ok(1));
    assert!(lower.iter().any(|value| *value > 0.0));
    assert!(rows(&pipeline, Epoch::default())[0].iter().all(|value| *value == 0.0));
}
