//! Options: their ranges, their defaults and the command line.

use super::options;
use robocache_sim::{Followed, Robot, SimOptions, Stream, without_ros_arguments};
use std::ffi::OsString;

#[test]
fn options_out_of_range_say_what_was_expected() {
    let error = |change: fn(&mut SimOptions)| Robot::new(options(change)).unwrap_err().to_string();
    assert_eq!(
        error(|o| o.joints_hz = -1.0),
        "--joints-hz: expected 0, or 0.01 to 20000 Hz, found -1"
    );
    assert_eq!(
        error(|o| o.lidar_hz = f64::NAN),
        "--lidar-hz: expected 0, or 0.01 to 20000 Hz, found NaN"
    );
    assert_eq!(error(|o| o.drop_share = 1.0), "--drop-share: expected 0 to below 1, found 1");
    assert_eq!(error(|o| o.speed = 2.0), "--speed: expected 1 without --clock, found 2");
    assert_eq!(
        error(|o| o.skew_ms = 5.0),
        "--skew-stream: expected the stream that the skew is for, found none"
    );
    assert_eq!(error(|o| o.image_width = 5), "--image-width: expected 16 to 4096, found 5");
    let back = |o: &mut SimOptions| {
        (o.clock, o.clock_start_s, o.jump_back_at, o.jump_back_by) = (true, 1, Some(2.0), 4.0);
    };
    let error = Robot::new(options(back)).unwrap_err().to_string();
    assert_eq!(error, "--jump-back-by: expected no further than time 0, found 4");
    let error = Robot::new(options(|o| o.play_s = 3.0)).unwrap_err().to_string();
    assert_eq!(error, "--play-s: expected 0 without --clock, found 3");
    let error = Robot::new(options(|o| o.follower_hz = 0.0)).unwrap_err().to_string();
    assert_eq!(error, "--follower-hz: expected 0.01 to 1000 Hz, found 0");
    let error = Robot::new(options(|o| o.follower_delay_ms = -1.0)).unwrap_err().to_string();
    assert_eq!(error, "--follower-delay-ms: expected 0 to 1000 ms, found -1");
}

#[test]
fn the_command_line_has_the_same_defaults_and_leaves_ros_arguments_alone() {
    #[derive(clap::Parser)]
    struct Cli {
        #[command(flatten)]
        options: SimOptions,
    }
    let parse = |line: &str| {
        let arguments = line.split_whitespace().map(OsString::from);
        <Cli as clap::Parser>::try_parse_from(without_ros_arguments(arguments))
            .map(|cli| cli.options)
    };
    let usual = SimOptions::default();
    assert_eq!((usual.joints_hz, usual.speed, usual.clock), (500.0, 1.0, false));
    let line = "sim --joints-hz 1000 --ros-args -r __ns:=/a -p use_sim_time:=true -- --clock \
                --speed 2 --jump-back-at 3 --skew-ms -5 --skew-stream camera_front";
    let expected = SimOptions {
        joints_hz: 1000.0,
        clock: true,
        speed: 2.0,
        jump_back_at: Some(3.0),
        skew_ms: -5.0,
        skew_stream: Some(Stream::CameraFront),
        ..SimOptions::default()
    };
    assert_eq!(parse(line).unwrap(), expected);
    assert!(parse("sim --jump-back-at 3").is_err());
    let follows = parse("sim --follow --follow-topic /commands --follow-type one_point").unwrap();
    assert!(follows.follow && follows.follow_type == Followed::OnePoint);
    assert_eq!((follows.follow_topic(), follows.follower().delay_ns), ("/commands", 10_000_000));
    assert_eq!(SimOptions::default().follow_topic(), "/follower/commands");
    assert!(parse("sim --follow-topic /commands").is_err());
    let expected = SimOptions {
        begin_when: Some("/tmp/begin".into()),
        no_skip: true,
        ..SimOptions::default()
    };
    assert_eq!(parse("sim --begin-when /tmp/begin --no-skip").unwrap(), expected);
    let isaac = SimOptions {
        isaac: true,
        clock: true,
        clock_start_s: 0,
        clock_hz: 60.0,
        joints_hz: 60.0,
        imu_hz: 60.0,
        odom_hz: 60.0,
        camera_front_hz: 30.0,
        depth_hz: 15.0,
        tf_hz: 60.0,
        lidar_hz: 10.0,
        camera_wrist_hz: 0.0,
        wrench_hz: 0.0,
        play_s: 3.5,
        ..SimOptions::default()
    };
    assert_eq!(parse("sim --isaac --depth-hz 15 --play-s 3.5").unwrap(), isaac);
    let topics: Vec<_> = Stream::ALL
        .into_iter()
        .filter(|stream| isaac.grid(*stream).is_some())
        .map(|stream| isaac.topic(stream))
        .collect();
    let expected =
        ["/clock", "/joint_states", "/imu", "/odom", "/rgb", "/point_cloud", "/depth", "/tf"];
    assert_eq!(topics, expected);
    assert!(parse("sim --reliability sometimes").is_err());
}
