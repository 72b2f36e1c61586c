//! Levels and words from made-up windows.

use super::*;

fn stream() -> InputSpec {
    let config = "
rate_hz: 100
streams: {wrench: {type: geometry_msgs/WrenchStamped, topic: /wrench, max_age_ms: 50}}
";
    robocache_core::config::parse(config, "test.yaml").unwrap().inputs.remove(0)
}

/// Makes a stream whose configuration expects a rate.
fn expecting_hz(rate_hz: f64) -> InputSpec {
    let mut spec = stream();
    spec.expected_rate_hz = Some(rate_hz);
    spec
}

fn hz(hz: f64) -> Rate {
    Rate { hz, measured: true, fresh: true }
}

fn healthy() -> InputWindow {
    let window = InputWindow { rate: hz(500.0), valid_share: Some(1.0), ..Default::default() };
    InputWindow { ever: true, heard: 312, ..window }
}

#[test]
fn a_healthy_stream_shows_its_rate_and_a_new_one_waits() {
    assert_eq!(assess(&stream(), false, &healthy()), (Level::Ok, "500.0 Hz".into()));
    let (level, message) = assess(&stream(), false, &InputWindow::default());
    assert_eq!((level, message.as_str()), (Level::Ok, "waiting for the first message"));
}

#[test]
fn silence_is_stale_and_an_error_if_the_stream_is_required() {
    let silent = InputWindow { silence: Duration::from_millis(3200), ..healthy() };
    let words = |window: &InputWindow| assess(&stream(), false, window).1;
    assert_eq!(assess(&stream(), false, &silent).0, Level::Stale);
    assert_eq!(words(&silent), "no message in 3.2 s: stopped after 312 messages");
    // A map that is published once stays true.
    let kept = InputWindow { kept: true, ..silent.clone() };
    assert_eq!(assess(&stream(), true, &kept).0, Level::Ok);
    let once = InputWindow { heard: 1, ..silent.clone() };
    assert_eq!(words(&once), "no message in 3.2 s: stopped after 1 message");
    assert_eq!(assess(&stream(), true, &silent).0, Level::Error);
    let starting = InputWindow { ever: false, heard: 0, ..silent.clone() };
    assert_eq!(trouble(&stream(), &starting), None);
    let minute = Duration::from_secs(60);
    let fast = InputWindow { silence: minute, starting: true, ..starting };
    assert_eq!(trouble(&stream(), &fast), None, "a minute of a fast simulator");
    let late = InputWindow { starting: false, ..fast };
    assert_eq!(trouble(&stream(), &late), Some(Trouble::Silent));
    assert_eq!(words(&late), "no message in 60.0 s since the start");
    let slow = expecting_hz(0.1);
    assert_eq!(trouble(&slow, &silent), None);
}

#[test]
fn a_slow_stream_is_silent_after_three_of_its_usual_intervals() {
    let silent = InputWindow { silence: Duration::from_secs(12), ..healthy() };
    assert_eq!(trouble(&stream(), &silent), Some(Trouble::Silent));
    let slow = InputWindow { usual: Some(Duration::from_secs(10)), ..silent };
    assert_eq!(trouble(&stream(), &slow), None);
    let gone = InputWindow { silence: Duration::from_secs(31), ..slow };
    assert_eq!(trouble(&stream(), &gone), Some(Trouble::Silent));
}

#[test]
fn a_gyro_and_an_odometry_must_speak_and_tf_need_not() {
    let config = "
rate_hz: 100
tf: {odometry: [/odom]}
streams:
  lidar:
    type: sensor_msgs/PointCloud2
    topic: /points
    max_age_ms: 250
    t_base_sensor: tf
    deskew: {gyro: /imu, sensor: ouster}
    cloud: {origin_m: [0, 0, 0], size_m: 1, shape: [8, 8, 1], channels: [{reduce: count}]}
";
    let inputs = robocache_core::config::parse(config, "test.yaml").unwrap().inputs;
    let never = InputWindow { silence: Duration::from_secs(60), ..Default::default() };
    let silent = |topic: &str| {
        let spec = inputs.iter().find(|input| input.topic == topic).unwrap();
        trouble(spec, &never).is_some()
    };
    let topics = ["/imu", "/odom", "/tf", "/tf_static"];
    assert_eq!(topics.map(silent), [true, true, false, false]);
}

#[test]
fn a_clock_that_does_not_move_is_stale_and_unserved_ticks_are_an_error() {
    let unserved = |unserved| LoopWindow { unserved, ..LoopWindow::default() };
    let fine = TickWindow { rate_hz: 99.96, p99_ms: "1.200".into(), ..Default::default() };
    assert_eq!(assess_ticks(&fine), (Level::Ok, "100.0 Hz, latency p99 1.200 ms".into()));
    let on = |seen| TickWindow { sim_clock: Some(seen), ..fine.clone() };
    assert_eq!(assess_ticks(&on(SimClockSeen::Never)).0, Level::Stale);
    let pause = |s| assess_ticks(&on(SimClockSeen::Stands(Duration::from_secs(s))));
    assert_eq!(pause(2).0, Level::Ok);
    let (level, words) = pause(4);
    assert_eq!(level, Level::Stale);
    assert!(words.starts_with("/clock has stood still for 4.0 s"), "{words}");
    let stuck = assess_ticks(&TickWindow { grid: unserved(200), ..fine.clone() });
    assert_eq!(stuck, (Level::Error, "200 ticks due since the last one served".into()));
    assert_eq!(assess_ticks(&TickWindow { grid: unserved(2), ..fine.clone() }).0, Level::Ok);
    let held_back = TickWindow { held_back: 4, held_back_by: "arm".into(), ..fine };
    assert_eq!(assess_ticks(&held_back), (Level::Error, "4 held back by 'arm'".into()));
    let now_and_then = TickWindow { published: 1, ..held_back };
    assert_eq!(assess_ticks(&now_and_then).0, Level::Warn);
}

#[test]
fn two_publishers_of_the_clock_are_named() {
    let on = |names: &[&str]| {
        let clock_publishers = names.iter().map(|name| (*name).to_owned()).collect();
        assess_ticks(&TickWindow { clock_publishers, ..Default::default() })
    };
    assert_eq!(on(&["/a"]).0, Level::Ok);
    let (level, words) = on(&["/b", "/a"]);
    assert_eq!(level, Level::Warn);
    assert!(words.starts_with("2 publishers on /clock: /a and /b:"), "{words}");
}

#[test]
fn losses_are_named() {
    let window = InputWindow {
        dropped: vec![(DropReason::Late, 42)],
        queue_full: 2,
        missing: 3,
        valid_share: Some(0.875),
        ..healthy()
    };
    let (level, message) = assess(&stream(), false, &window);
    assert_eq!(level, Level::Warn);
    assert_eq!(
        message,
        "42 dropped: late; 3 probably missing by their stamps' period; the middleware's queue was full \
         and dropped 2; 12.5 % of the steps invalid"
    );
}

#[test]
fn a_loss_that_the_middleware_tells_is_a_warning() {
    let window = InputWindow { lost: 5, missing_share: Some(0.01), ..healthy() };
    assert_eq!(assess(&stream(), false, &window), (Level::Warn, "5 lost on the way".into()));
    let refused = InputWindow { refused: Some("/b is refused".into()), ..healthy() };
    assert_eq!(assess(&stream(), false, &refused), (Level::Warn, "/b is refused".into()));
}

#[test]
fn dropped_parts_and_incomplete_groups_are_a_warning() {
    let window = InputWindow {
        parts_dropped: vec![(DropReason::NonFinite, 2)],
        groups_incomplete: 3,
        take_failed: 1,
        ..healthy()
    };
    let words = "2 groups dropped: non_finite; 3 groups incomplete; 1 not given by the middleware";
    assert_eq!(assess(&stream(), false, &window), (Level::Warn, words.into()));
}

#[test]
fn a_stream_far_under_its_rate_is_lossy() {
    let expecting = expecting_hz(500.0);
    let window = InputWindow { rate: hz(130.0), ..healthy() };
    assert_eq!(trouble(&expecting, &window), Some(Trouble::Lossy));
    assert_eq!(assess(&expecting, false, &window).1, "130.0 Hz instead of 500 Hz");
    assert_eq!(trouble(&stream(), &window), None);
    let too_soon = Rate { measured: false, ..hz(130.0) };
    let starting = InputWindow { rate: too_soon, ..window.clone() };
    assert_eq!(trouble(&expecting, &starting), None);
    let missing = InputWindow { missing_share: Some(0.73), ..window };
    let message = |guessed| assess(&stream(), false, &InputWindow { guessed, ..missing.clone() }).1;
    assert_eq!(message(false), "73 % of the published messages do not arrive");
    assert_eq!(message(true), "probably 73 % of the published messages do not arrive");
}

#[test]
fn what_sends_nothing_has_stopped_and_loses_nothing() {
    let expecting = expecting_hz(30.0);
    let silence = Duration::from_millis(1900);
    let window = InputWindow { rate: hz(0.0), silence, ..healthy() };
    assert_eq!(trouble(&expecting, &window), Some(Trouble::Stopped));
    let told = "0.0 Hz instead of 30 Hz: nothing for 1.9 s";
    assert_eq!(assess(&expecting, false, &window), (Level::Warn, told.into()));
    let guessed = InputWindow { missing_share: Some(0.73), ..window.clone() };
    assert_eq!(trouble(&stream(), &guessed), Some(Trouble::Stopped));
    let few = InputWindow { rate: hz(3.0), ..window };
    assert_eq!(trouble(&expecting, &few), Some(Trouble::Lossy));
}

#[test]
fn a_drop_is_told_with_what_was_expected_and_found() {
    let window = InputWindow {
        dropped: vec![(DropReason::Late, 2), (DropReason::WrongFrame, 3)],
        groups_incomplete: 4,
        details: vec![
            (DropReason::WrongFrame, "expected tool, found tool_2".into()),
            (DropReason::MissingField, "name: wrist is missing".into()),
        ],
        ..healthy()
    };
    let told = "2 dropped: late; 3 dropped: wrong_frame (expected tool, found tool_2); 4 groups \
                incomplete (name: wrist is missing)";
    assert_eq!(assess(&stream(), false, &window), (Level::Warn, told.into()));
}

#[test]
fn a_stream_is_as_bad_as_the_inputs_that_it_needs() {
    use Level::{Error, Ok, Stale, Warn};
    let joined = |valid_when: Option<ValidWhen>, [front, rear]: [Level; 2], valid| {
        let merge = valid_when.map(|valid_when| MergeSpec { max_age_ns: vec![1; 2], valid_when });
        let inputs = [(front, "/front", "4 late"), (rear, "/rear", "9 dropped: late")];
        assess_joined(&inputs, merge.as_ref(), Some(valid))
    };
    let [all, any] = [ValidWhen::All, ValidWhen::Any].map(Some);
    let [front, rear] = [1, 2].map(|bits| Some(ValidWhen::Listed(bits)));
    let invalid = "12.5 % of the steps invalid";
    for needed in [None, all, any, front, rear] {
        assert_eq!(joined(needed, [Ok; 2], 1.0), (Ok, "2 inputs".into()));
        assert_eq!(joined(needed, [Ok; 2], 0.875), (Warn, invalid.into()));
        let (level, words) = joined(needed, [Stale; 2], 1.0);
        let silent = "2 inputs; nothing comes from /front and /rear";
        assert_eq!((level, words.as_str()), (Stale, silent));
    }
    for (needed, stale, warn) in [
        (None, [Stale, Stale], [Warn, Warn]),
        (all, [Stale, Stale], [Warn, Warn]),
        (any, [Ok, Warn], [Ok, Warn]),
        (front, [Ok, Warn], [Ok, Warn]),
        (rear, [Stale, Stale], [Warn, Warn]),
    ] {
        // The words name the silent input in any case.
        let silent = "2 inputs; nothing comes from /rear";
        assert_eq!(joined(needed, [Ok, Stale], 1.0), (stale[0], silent.into()), "{needed:?}");
        let silent = format!("{invalid}; nothing comes from /rear");
        assert_eq!(joined(needed, [Ok, Stale], 0.875), (stale[1], silent), "{needed:?}");
        assert_eq!(joined(needed, [Ok, Warn], 1.0).0, warn[0], "{needed:?}");
        assert_eq!(joined(needed, [Ok, Warn], 0.875).0, warn[1], "{needed:?}");
    }
    assert_eq!(joined(any, [Warn, Error], 1.0).0, Warn);
    let told = joined(all, [Warn, Warn], 1.0).1;
    assert_eq!(told, "2 inputs; /front: 4 late; /rear: 9 dropped: late");
}
