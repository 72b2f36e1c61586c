//! `robocache calibrate` on the synthetic robot, through a bag.

use std::collections::BTreeMap;
use std::fs::File;

use mcap::records::MessageHeader;
use robocache_data::bag::Bag;
use robocache_data::replay::Progress;
use robocache_ops::time::{NANOS_PER_MS, Stamp};
use robocache_sim::{Robot, Schedule, SimOptions, Stream};
use robocache_tools::calibrate::{CalibrateOptions, Calibration, calibrate};

struct Silent;

impl Progress for Silent {
    fn at(&self, _: Stamp) -> bool {
        true
    }
}

/// Records two streams for 40 s and calibrates the second by the first.
fn calibrated(options: SimOptions, reference: Stream, stream: Stream) -> Calibration {
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("robot.mcap");
    let image_width = 80;
    let image_height = 60;
    let options = SimOptions { bursts: true, image_width, image_height, duration: 40.0, ..options };
    let robot = Robot::new(options).unwrap();
    let mut writer = mcap::Writer::new(File::create(&path).unwrap()).unwrap();
    let start = Stamp::from_nanos(1_795_000_000_123_456_789);
    for event in Schedule::of_streams(robot.options(), start, &[reference, stream]) {
        let stream = event.stream;
        let schema = writer.add_schema(stream.ros_type(), "ros2msg", b"").unwrap();
        let channel_id =
            writer.add_channel(schema, stream.topic(), "cdr", &BTreeMap::new()).unwrap();
        let time = event.send_at.nanos() as u64;
        let header = MessageHeader { channel_id, sequence: 0, log_time: time, publish_time: time };
        writer.write_to_known_channel(&header, &robot.message(&event, Vec::new())).unwrap();
    }
    writer.finish().unwrap();
    let [reference, stream] = [reference, stream].map(|stream| stream.topic().to_owned());
    let options = CalibrateOptions { reference, stream, most_ns: 500 * NANOS_PER_MS };
    calibrate(&Bag::open(&path).unwrap(), None, &options, &Silent).unwrap()
}

#[test]
fn a_hidden_skew_of_35_ms_is_found_within_2_ms() {
    let rough = SimOptions {
        stamp_jitter_ms: 1.0,
        send_jitter_ms: 5.0,
        drop_share: 0.02,
        joints_hz: 200.0,
        twist_hz: 50.0,
        ..SimOptions::default()
    };
    for (seed, reference, stream, skew_ms) in [
        (1, Stream::Joints, Stream::CameraFront, 35.0),
        (1, Stream::Joints, Stream::CameraWrist, -35.0),
        (3, Stream::Joints, Stream::Imu, 35.0),
        (3, Stream::Twist, Stream::CameraWrist, 35.0),
    ] {
        let options = SimOptions { seed, skew_stream: Some(stream), skew_ms, ..rough.clone() };
        let found = calibrated(options, reference, stream);
        let error = found.offset_ms + skew_ms;
        println!("{reference:?} {stream:?} {skew_ms} ms: off by {error:.2} ms, {found:?}");
        assert!(error.abs() < 2.0, "{reference:?} {stream:?} {skew_ms}: {found:?}");
        assert!(error.abs() < 1.5 * found.uncertainty_ms, "{found:?}");
        assert_eq!(found.stamp_offset_ms, (100.0 * found.offset_ms).round() / 100.0);
    }
}
