//! Tests of the monitor's words about a robot whose time, messages and ticks the test drives.

mod stopped;
mod told;

use std::sync::Arc;
use std::time::Duration;

use super::{Level, Monitor, Names, Status};
use crate::{Clock, Runtime, Transit, VirtualTime};
use robocache_core::backend::cpu::CpuBackend;
use robocache_core::cdr::Writer;
use robocache_core::cdr::messages::Image;
use robocache_core::config;
use robocache_core::layout::Layout;
use robocache_core::message::TensorMessage;
use robocache_core::pipeline::{Arrival, Pipeline};
use robocache_core::spec::{InputId, StreamId};
use robocache_ops::align::InvalidReason;
use robocache_ops::sync::lock;
use robocache_ops::time::{NANOS_PER_MS, Stamp};

const WRENCH: InputId = InputId::new(0);
const STREAM: StreamId = StreamId::new(0);

fn ms(ms: i64) -> Stamp {
    Stamp::from_nanos(ms * NANOS_PER_MS)
}

/// A node on a simulated clock with one stream at 100 Hz ticks.
struct Robot {
    time: VirtualTime,
    runtime: Arc<Runtime>,
    monitor: Monitor,
    tensor: TensorMessage,
    /// Milliseconds.
    now: i64,
    tick: i64,
}

/// How the stream's messages come \[ms\].
#[derive(Clone, Copy)]
struct SensorPattern {
    period: i64,
    /// From stamp to arrival.
    delay: i64,
    /// Error of the sensor's clock.
    offset: i64,
}

const SENSOR: SensorPattern = SensorPattern { period: 10, delay: 4, offset: 0 };

impl Robot {
    /// A robot with a wrench.
    fn with(keys: &str) -> Self {
        Self::new(&format!(
            "rate_hz: 100\nstreams: {{w: {{type: geometry_msgs/WrenchStamped, topic: /w, {keys}}}}}"
        ))
    }

    fn new(config: &str) -> Self {
        let config = config::parse(config, "test.yaml").unwrap();
        let backend = Arc::new(CpuBackend::new(&config, &Layout::new(&config)).unwrap());
        let time = VirtualTime::starting_at(Stamp::ZERO);
        let clock = Clock::simulated(config.grid, time.source());
        let topics = config.inputs.iter().map(|input| input.topic.clone()).collect();
        let runtime = Arc::new(Runtime::new(Pipeline::new(config, backend).unwrap(), clock));
        let names = Names { topics, middleware: "rmw_test".to_owned(), remedy: String::new() };
        let monitor = Monitor::new(Arc::clone(&runtime), names);
        let tensor = runtime.pipeline.new_message();
        let now = 1_000_000;
        let mut robot = Robot { time, runtime, monitor, tensor, now, tick: 1000 };
        robot.set_clock(now);
        robot
    }

    /// Sets the clock \[ms\]. If it goes ahead, so much time has passed.
    fn set_clock(&mut self, now: i64) {
        self.time.advance(Duration::from_millis(u64::try_from(now - self.now).unwrap_or(0)));
        self.now = now;
        self.runtime.sim_clock().unwrap().set(ms(now), Transit::UNKNOWN);
        self.tick = self.runtime.pipeline.config().grid.tick_at(ms(now));
    }

    /// An arrival at the reading of the clock.
    fn arrival(&self) -> Arrival {
        self.runtime.clock.arrival(Transit::UNKNOWN)
    }

    fn send(&self, stamp: i64) {
        let mut writer = Writer::new();
        writer.header(ms(stamp), "tool");
        writer.f64_array(&[1.0; 6]);
        self.runtime.receive(WRENCH, writer.finish(), self.arrival()).unwrap();
    }

    /// Runs for a time, in steps of 1 ms.
    fn run(&mut self, sensor: SensorPattern, time: i64) {
        for now in self.now + 1..=self.now + time {
            let tick = self.tick;
            self.set_clock(now);
            let measured = now - sensor.delay;
            if measured % sensor.period == 0 {
                self.send(measured + sensor.offset);
            }
            if self.tick > tick {
                let due = self.runtime.clock.now().unwrap();
                self.runtime.fuse(self.tick, due.epoch, &mut self.tensor).unwrap();
                self.runtime.ticks.published.add(1);
            }
        }
    }

    /// The status of this part.
    fn status(&mut self, part: usize) -> Status {
        self.monitor.report().parts.swap_remove(part)
    }

    /// Runs for three seconds to settle and then for one. Returns the stream's status of the last.
    fn settled(&mut self, sensor: SensorPattern) -> Status {
        self.run(sensor, 3000);
        self.monitor.report();
        self.run(sensor, 1000);
        self.status(1)
    }
}

fn value<'a>(status: &'a Status, key: &str) -> &'a str {
    let found = status.values.iter().find(|(k, _)| k == key);
    found.map_or("(no such key)", |(_, value)| value.as_str())
}

/// The number at the end of the words.
fn remedy(status: &Status, before: &str) -> String {
    let (_, number) = status.message.rsplit_once(before).unwrap_or_else(|| {
        panic!("no `{before}` in: {}", status.message);
    });
    number.to_owned()
}

#[test]
fn each_counter_is_reported_by_its_own_key() {
    let cloud = "{origin_m: [0, 0, 0], size_m: 1, shape: [2, 2, 2], channels: [{reduce: count}]}";
    let mut robot = Robot::new(&format!(
        "rate_hz: 100\nstreams: {{c: {{type: sensor_msgs/PointCloud2, max_age_ms: 50, inputs: [{{topic: /a}}, {{topic: /b}}], \
         cloud: {cloud}}}}}"
    ));
    let runtime = Arc::clone(&robot.runtime);
    let stats = runtime.stream_stats(STREAM);
    let counters = [
        ("rows", &stats.rows),
        ("reordered", &stats.reordered),
        ("replaced", &stats.replaced),
        ("rows_remade", &stats.remade),
        ("points_non_finite", &stats.points_non_finite),
        ("points_out_of_range", &stats.points_out_of_range),
        ("points_outside", &stats.points_outside),
        ("points_out_of_reach", &stats.points_out_of_reach),
        ("points_cropped", &stats.points_cropped),
        ("points_on_robot", &stats.points_on_robot),
        ("points_too_few", &stats.points_too_few),
        ("voxels_beyond_capacity", &stats.voxels_beyond_capacity),
        ("groups_incomplete", &runtime.input_stats(WRENCH).groups_incomplete),
    ];
    (1..).zip(&counters).for_each(|(count, (_, counter))| counter.add(count));
    let parts = robot.monitor.report().parts;
    for (count, (key, _)) in (1..).zip(&counters) {
        let found = parts.iter().map(|part| value(part, key)).find(|found| !found.starts_with('('));
        assert_eq!(found, Some(&*count.to_string()), "{key}");
    }
}

#[test]
fn a_short_ring_is_named_without_an_expected_rate_and_the_remedy_helps() {
    let keys = |rows: &str| {
        format!(
            "max_age_ms: 50, lag_ms: 20, ring_rows: {rows}, history: {{steps: 5, step_ms: 100}}"
        )
    };
    let short = Robot::with(&keys("16")).settled(SENSOR);
    assert_eq!((short.level, value(&short, "valid_share")), (Level::Warn, "0.4000"));
    assert_ne!(value(&short, "invalid.ring_short"), "0");
    let rows = remedy(&short, "raise ring_rows to ");
    let fixed = Robot::with(&keys(&rows)).settled(SENSOR);
    assert_eq!((fixed.level, value(&fixed, "valid_share")), (Level::Ok, "1.0000"), "{rows} rows");
    // The number is small: a huge one would always do.
    assert!(rows.parse::<u32>().unwrap() < 60, "{rows}");
}

#[test]
fn a_history_that_fills_is_no_short_ring() {
    let mut robot = Robot::with("max_age_ms: 50, lag_ms: 20, history: {steps: 5, step_ms: 100}");
    robot.run(SENSOR, 300);
    let status = robot.status(1);
    assert_ne!(value(&status, "invalid.not_filled"), "0");
    assert_eq!(value(&status, "invalid.ring_short"), "0");
    assert!(status.message.contains("the history is not filled yet"), "{}", status.message);
}

#[test]
fn a_lag_shorter_than_the_delay_is_named_and_the_remedy_helps() {
    let sensor = SensorPattern { delay: 63, ..SENSOR };
    for strategy in ["hold", "linear"] {
        let keys = |lag: &str| format!("max_age_ms: 30, lag_ms: {lag}, strategy: {strategy}");
        let short = Robot::with(&keys("0")).settled(sensor);
        assert_eq!((short.level, value(&short, "valid_share")), (Level::Warn, "0.0000"));
        assert_ne!(value(&short, "invalid.delayed"), "0");
        let lag = remedy(&short, "set this stream's lag_ms to ");
        assert_eq!(value(&short, "suggested_lag_ms"), lag);
        let fixed = Robot::with(&keys(&lag)).settled(sensor);
        assert_eq!(
            (fixed.level, value(&fixed, "valid_share"), value(&fixed, "held_share")),
            (Level::Ok, "1.0000", "0.0000"),
            "{strategy} with a lag of {lag}: {}",
            fixed.message
        );
    }
}

#[test]
fn a_short_lag_is_only_shown_while_nothing_is_wrong_with_it() {
    let status = Robot::with("max_age_ms: 30, strategy: hold").settled(SENSOR);
    assert_eq!(status.level, Level::Ok, "{}", status.message);
    assert_eq!((value(&status, "lag_ms"), value(&status, "suggested_lag_ms")), ("0", "4"));
    // Each newest value is held although the strategy is linear.
    let held = Robot::with("max_age_ms: 30").settled(SENSOR);
    assert_eq!((held.level, value(&held, "held_share")), (Level::Warn, "1.0000"));
    assert!(held.message.ends_with("set this stream's lag_ms to 14"), "{}", held.message);
}

#[test]
fn delays_are_those_of_the_window_and_since_the_start() {
    let mut robot = Robot::with("max_age_ms: 90, lag_ms: 40, strategy: hold");
    robot.run(SensorPattern { delay: 31, ..SENSOR }, 500);
    robot.status(1);
    robot.run(SensorPattern { delay: -2, ..SENSOR }, 1000);
    let status = robot.status(1);
    let near = |key: &str, expected: f64| {
        let found: f64 = value(&status, key).parse().unwrap();
        assert!((found - expected).abs() <= expected.abs() / 32.0, "{key}: {found}");
    };
    near("delay_p50_ms", -2.0);
    near("delay_max_ms", -2.0);
    near("total_delay_p99_ms", 31.0);
    near("total_delay_max_ms", 31.0);
    assert_eq!(value(&status, "suggested_lag_ms"), "31");
}

#[test]
fn without_the_sensors_stamps_there_is_no_delay_and_no_suggestion() {
    let status = Robot::with("max_age_ms: 30, timeline: receive").settled(SENSOR);
    for key in ["delay_p50_ms", "total_delay_max_ms", "suggested_lag_ms"] {
        assert_eq!(value(&status, key), "(no such key)");
    }
    assert_eq!(value(&status, "lag_ms"), "0");
}

#[test]
fn clocks_that_differ_are_named_and_the_offset_helps() {
    for (offset, reason) in
        [(-60_000, "invalid.clock_behind"), (5000, "dropped.ahead"), (300, "dropped.ahead")]
    {
        let sensor = SensorPattern { offset, ..SENSOR };
        let wrong = Robot::with("max_age_ms: 30, strategy: hold").settled(sensor);
        assert_eq!(wrong.level, Level::Warn);
        assert_ne!(value(&wrong, reason), "0", "{reason}");
        let (words, _) = wrong.message.split_once(", or use timeline: receive").unwrap();
        let (_, offset_ms) = words.rsplit_once("set stamp_offset_ms to ").unwrap();
        let keys = format!("max_age_ms: 30, strategy: hold, stamp_offset_ms: {offset_ms}");
        let fixed = Robot::with(&keys).settled(sensor);
        assert_eq!(fixed.level, Level::Ok, "{offset_ms}: {}", fixed.message);
    }
    // A sensor that counts from its start, on a node that is in the year 2026.
    let mut robot = Robot::with("max_age_ms: 30, strategy: hold");
    robot.set_clock(1_795_000_000_000);
    let status = robot.settled(SensorPattern { offset: -1_794_999_000_000, ..SENSOR });
    assert!(status.message.contains("stamps are 56.9 years behind"), "{}", status.message);
    // A ring full of rows of the future is no short ring.
    let mut robot =
        Robot::with("max_age_ms: 30, strategy: hold, ring_rows: 16, max_ahead_ms: 1000");
    let status = robot.settled(SensorPattern { offset: 900, ..SENSOR });
    assert_ne!(value(&status, "invalid.ahead"), "0");
    assert!(status.message.contains("s ahead of the node's clock"), "{}", status.message);
}

#[test]
fn every_invalid_step_has_one_reason() {
    let mut robot = Robot::with(
        "max_age_ms: 30, max_gap_ms: 60, ring_rows: 16, history: {steps: 4, step_ms: 100}",
    );
    robot.run(SENSOR, 1000);
    robot.run(SensorPattern { period: 97, delay: 40, offset: 0 }, 2000);
    robot.run(SensorPattern { period: 1 << 40, ..SENSOR }, 500);
    robot.set_clock(5000);
    robot.run(SENSOR, 1000);
    let stats = robot.runtime.stream_stats(STREAM);
    let reasons = InvalidReason::ALL.map(|reason| stats.invalid(reason));
    let sum: u64 = reasons.iter().sum();
    assert_eq!(stats.steps.get(), stats.steps_valid.get() + sum);
    assert!(reasons.iter().filter(|steps| **steps > 0).count() >= 4, "{reasons:?}");
}

#[test]
fn rates_are_in_the_nodes_time() {
    let mut robot = Robot::with("max_age_ms: 90, lag_ms: 50, expected_rate_hz: 50");
    let sensor = SensorPattern { period: 20, ..SENSOR };
    // Between two reports the simulation moves by half a second, whatever the time on the wall.
    for report in 0..8 {
        robot.run(sensor, 500);
        let parts = robot.monitor.report().parts;
        assert_eq!(value(&parts[1], "rate_hz"), "50.00", "{report}");
        assert_eq!(value(&parts[0], "published_hz"), "100.00", "{report}");
        assert!(!parts[1].message.contains("instead of"), "{}", parts[1].message);
    }
    let status = robot.status(1);
    assert_eq!((status.level, status.message.as_str()), (Level::Ok, "50.0 Hz"));
    // Paused: nothing changes.
    let paused = robot.status(1);
    assert_eq!((paused.level, paused.message.as_str()), (Level::Ok, "50.0 Hz"));
    // A sensor at half its rate is lossy.
    for _ in 0..3 {
        robot.run(SensorPattern { period: 40, ..SENSOR }, 500);
        robot.status(1);
    }
    robot.run(SensorPattern { period: 40, ..SENSOR }, 500);
    let slow = robot.status(1);
    assert!(slow.message.starts_with("24.0 Hz instead of 50 Hz; "), "{}", slow.message);
    assert!(slow.message.ends_with("; publishers not yet known"), "{}", slow.message);
}

#[test]
fn silence_is_in_the_nodes_time() {
    let mut robot = Robot::with("max_age_ms: 90, lag_ms: 20");
    let silent = SensorPattern { period: 1 << 40, ..SENSOR };
    robot.run(SENSOR, 1000);
    robot.run(silent, 2500);
    assert_ne!(robot.status(1).level, Level::Stale);
    robot.run(silent, 1000);
    let status = robot.status(1);
    assert_eq!(status.level, Level::Stale);
    assert!(status.message.starts_with("no message in 3.5 s"), "{}", status.message);
    // After a jump back, patience begins again.
    robot.set_clock(100_000);
    robot.run(silent, 2500);
    assert_ne!(robot.status(1).level, Level::Stale);
}

#[test]
fn a_window_with_a_jump_back_has_the_rate_of_the_time_that_passed() {
    let mut robot = Robot::with("max_age_ms: 90, lag_ms: 20, expected_rate_hz: 100");
    robot.run(SENSOR, 1000);
    robot.status(1);
    for _ in 0..4 {
        robot.run(SENSOR, 400);
        robot.set_clock(500_000);
        robot.run(SENSOR, 600);
        let status = robot.status(1);
        let rate: f64 = value(&status, "rate_hz").parse().unwrap();
        assert!((99.0..=101.0).contains(&rate), "{rate}");
        assert!(!status.message.contains("instead of"), "{}", status.message);
    }
}

#[test]
fn two_publishers_of_the_clock_are_named_in_the_status_of_the_ticks() {
    let mut robot = Robot::with("max_age_ms: 90, lag_ms: 20");
    *lock(&robot.runtime.clock_publishers) = vec!["/sim".into()];
    robot.run(SENSOR, 1000);
    assert_eq!(robot.status(0).level, Level::Ok);
    *lock(&robot.runtime.clock_publishers) = vec!["/sim".into(), "/bag_player".into()];
    robot.run(SENSOR, 1000);
    let status = robot.status(0);
    assert_eq!(status.level, Level::Warn);
    assert!(status.message.starts_with("2 publishers on /clock: /bag_player and /sim"));
}

#[test]
fn the_delay_of_an_image_is_also_told_until_its_row_is_ready() {
    let mut robot = Robot::new(
        "rate_hz: 100\nstreams: {c: {type: sensor_msgs/Image, topic: /c, max_age_ms: 50, image: \
         {resize: {width: 8, height: 8}}}}",
    );
    let camera = InputId::new(0);
    let stamp = ms(robot.now - 7);
    let image =
        Image { stamp, frame_id: "camera", height: 2, width: 2, encoding: "mono8", step: 2 };
    let bytes = image.to_cdr(Vec::new(), |data| data.extend_from_slice(&[7; 4]));
    let arrival = robot.arrival();
    // The worker encodes it 20 ms after it came.
    robot.set_clock(robot.now + 20);
    robot.runtime.push(camera.into(), &bytes, arrival).unwrap();
    let status = robot.status(1);
    assert!(value(&status, "delay_p50_ms").starts_with("7."), "{:?}", status.values);
    assert!(value(&status, "ready_p50_ms").starts_with("27."), "{:?}", status.values);
    assert_eq!(value(&status, "suggested_lag_ms"), "27");
}
