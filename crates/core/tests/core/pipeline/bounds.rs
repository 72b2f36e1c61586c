//! Images and clouds that are larger than the configuration allows.

use robocache_core::cdr::Writer;
use robocache_core::cdr::messages::{Image, PointCloud2, PointField};

use super::*;

const CONFIG: &str = "
rate_hz: 100
streams:
  camera:
    type: sensor_msgs/Image
    topic: /image
    max_age_ms: 50
    image: {resize: {width: 2, height: 2}, max_width_px: 40, max_height_px: 30}
  lidar:
    type: sensor_msgs/PointCloud2
    topic: /points
    max_age_ms: 50
    cloud:
      origin_m: [0, 0, 0]
      size_m: 1
      shape: [2, 2, 2]
      channels: [{reduce: count}]
      max_points: 100
";
const CAMERA: InputId = InputId::new(0);
const LIDAR: InputId = InputId::new(1);

fn image(width: u32, height: u32) -> Vec<u8> {
    let stamp = Stamp::from_nanos(100 * MS);
    let frame_id = "camera";
    let encoding = "rgba8";
    // Padding does not count.
    let step = 4 * width + 1000;
    Image { stamp, frame_id, height, width, encoding, step }
        .to_cdr(Vec::new(), |data| data.extend(vec![7; (height * step) as usize]))
}

fn cloud(width: u32, height: u32) -> Vec<u8> {
    let stamp = Stamp::from_nanos(100 * MS);
    let field = |(at, name): (u32, _)| PointField { name, offset: 4 * at, datatype: 7, count: 1 };
    let fields = [(0, "x"), (1, "y"), (2, "z")].map(field);
    // Points of any size: the bound is on their number.
    let point_step = 300;
    let cloud = PointCloud2 {
        stamp,
        frame_id: "lidar",
        height,
        width,
        fields: &fields,
        is_bigendian: false,
        point_step,
        row_step: width * point_step,
        is_dense: true,
    };
    cloud.to_cdr(Vec::new(), |data| data.extend(vec![0; (width * height * point_step) as usize]))
}

#[test]
fn a_larger_image_or_cloud_is_dropped_and_the_key_is_named() {
    let pipeline = pipeline(CONFIG);
    let push = |input, message: &[u8]| pipeline.push(input, message, Arrival::default());
    push(CAMERA, &image(40, 30)).unwrap();
    push(LIDAR, &cloud(25, 4)).unwrap();
    let too_large = [
        (
            CAMERA,
            image(41, 30),
            "image: expected at most 40 px wide (image.max_width_px), found 41",
        ),
        (
            CAMERA,
            image(1, 31),
            "image: expected at most 30 px high (image.max_height_px), found 31",
        ),
        (
            CAMERA,
            image(16_384, 1),
            "image: expected at most 40 px wide (image.max_width_px), found 16384",
        ),
        (
            LIDAR,
            cloud(101, 1),
            "streams.lidar.cloud.max_points: expected at most 100 points, found 101",
        ),
        (
            LIDAR,
            cloud(1, 103),
            "streams.lidar.cloud.max_points: expected at most 100 points, found 103",
        ),
    ];
    for (input, message, detail) in too_large {
        match push(input, &message).unwrap_err() {
            NotTaken::Dropped(rejected) => {
                assert_eq!(rejected.reason, DropReason::TooLarge);
                assert_eq!(rejected.detail, detail);
            }
            failure => panic!("{failure}"),
        }
    }
    assert_eq!(pipeline.input_stats(CAMERA).dropped(DropReason::TooLarge), 3);
    assert_eq!(pipeline.input_stats(LIDAR).dropped(DropReason::TooLarge), 2);
    assert_eq!(DropReason::TooLarge.name(), "too_large");
    // What was there before is still served.
    let mut message = pipeline.new_message();
    assert_eq!(served(&pipeline, &mut message, 10).1, [state(true, 0)]);
    assert_eq!(values(&pipeline, &message, SegmentId::new(1))[0], 100.0);
}

#[test]
fn an_image_without_the_cropped_part_is_dropped() {
    let crop = "max_height_px: 30, crop: {x: 8, y: 3, width: 30, height: 20}";
    let pipeline = pipeline(&CONFIG.replace("max_height_px: 30", crop));
    let push = |message: &[u8]| pipeline.push(CAMERA, message, Arrival::default());
    push(&image(38, 23)).unwrap();
    for (width, height) in [(37, 23), (38, 22), (1, 1)] {
        match push(&image(width, height)).unwrap_err() {
            NotTaken::Dropped(rejected) => {
                assert_eq!(rejected.reason, DropReason::WrongSize);
                let expected = format!(
                    "streams.camera.image.crop: expected an image of at least 38x23 px, found \
                     {width}x{height}"
                );
                assert_eq!(rejected.detail, expected);
            }
            failure => panic!("{failure}"),
        }
    }
    assert_eq!(pipeline.input_stats(CAMERA).dropped(DropReason::WrongSize), 3);
    assert_eq!(DropReason::WrongSize.name(), "wrong_size");
}

#[test]
fn an_error_shows_a_part_of_a_frame_whose_name_is_huge() {
    let pipeline = pipeline(
        "
rate_hz: 100
streams:
  pose: {type: geometry_msgs/PoseStamped, topic: /pose, max_age_ms: 50, in_frame: map, frame_id: tool}
",
    );
    let name = "f".repeat(1 << 20);
    let mut pose = Writer::new();
    pose.header(Stamp::from_nanos(100 * MS), &name);
    pose.f64_array(&[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]);
    let mut link = Writer::new();
    link.u32(1);
    link.header(Stamp::from_nanos(100 * MS), &name);
    link.string(&name);
    link.f64_array(&[f64::NAN, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]);
    let config = pipeline.config();
    let tf = config.inputs.iter().position(|input| input.name == "tf").unwrap();
    for (input, message, reason, frames) in [
        (FIRST, pose.finish(), DropReason::WrongFrame, 1),
        (InputId::new(tf), link.finish(), DropReason::NonFinite, 2),
    ] {
        match pipeline.push(input, &message, Arrival::default()) {
            Err(NotTaken::Dropped(rejected)) => {
                assert_eq!(rejected.reason, reason);
                assert!(rejected.detail.contains("fff"), "{rejected}");
                assert!(rejected.detail.len() < 128 + 256 * frames, "{}", rejected.detail.len());
            }
            other => panic!("{other:?}"),
        }
    }
}
