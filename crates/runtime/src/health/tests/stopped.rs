//! Tests of the words about inputs that have stopped.

use std::sync::atomic::Ordering::Relaxed;

use super::*;
use robocache_core::cdr::messages::{PointCloud2, PointField};

const LIDAR_PERIOD: i64 = 100;
const LIDAR_DELAY: i64 = 40;
const FRONT: InputId = InputId::new(0);
const REAR: InputId = InputId::new(1);

fn two_lidars(valid_when: &str) -> Robot {
    Robot::new(&format!(
        "
rate_hz: 100
lag_ms: 50
streams:
  cells:
    type: sensor_msgs/PointCloud2
    max_age_ms: 200
    valid_when: {valid_when}
    inputs: [{{topic: /front}}, {{topic: /rear}}]
    cloud: {{origin_m: [0, 0, 0], size_m: 1, shape: [2, 2, 2], channels: [{{reduce: count}}]}}
"
    ))
}

fn cloud(stamp: i64) -> Vec<u8> {
    let field = |(at, name): (u32, _)| PointField { name, offset: 4 * at, datatype: 7, count: 1 };
    let fields = [(0, "x"), (1, "y"), (2, "z")].map(field);
    let cloud = PointCloud2 {
        stamp: ms(stamp),
        frame_id: "lidar",
        height: 1,
        width: 1,
        fields: &fields,
        is_bigendian: false,
        point_step: 12,
        row_step: 12,
        is_dense: true,
    };
    cloud.to_cdr(Vec::new(), |data| data.extend([0; 12]))
}

impl Robot {
    /// Runs for a time while these lidars send.
    fn run_lidars(&mut self, lidars: &[InputId], time: i64) {
        for now in self.now + 1..=self.now + time {
            let tick = self.tick;
            self.set_clock(now);
            let measured = now - LIDAR_DELAY;
            if measured % LIDAR_PERIOD == 0 {
                for lidar in lidars {
                    self.runtime.push((*lidar).into(), &cloud(measured), self.arrival()).unwrap();
                }
            }
            if self.tick > tick {
                let due = self.runtime.clock.now().unwrap();
                self.runtime.fuse(self.tick, due.epoch, &mut self.tensor).unwrap();
                self.runtime.ticks.published.add(1);
            }
        }
    }
}

#[test]
fn a_lidar_that_stops_is_never_a_slow_one() {
    for valid_when in ["all", "any", "[/rear]", "[/front]"] {
        // It stops anywhere in the window of a report.
        for stops_at in [50, 350, 550, 850] {
            let mut robot = two_lidars(valid_when);
            robot.run_lidars(&[FRONT, REAR], 3000);
            robot.monitor.report();
            robot.run_lidars(&[FRONT, REAR], stops_at);
            robot.run_lidars(&[FRONT], 1000 - stops_at);
            let mut said = vec![robot.monitor.report().parts];
            for _ in 0..5 {
                robot.run_lidars(&[FRONT], 1000);
                said.push(robot.monitor.report().parts);
            }
            let messages = |part: usize| -> Vec<&str> {
                said.iter().map(|parts| parts[part].message.as_str()).collect()
            };
            let place = format!("{valid_when}, {stops_at}");
            assert!(messages(1).iter().all(|words| !words.contains("_ms")), "{:?}", messages(1));
            let last = &said[5];
            let rear = &last[3];
            assert_eq!(rear.level, Level::Stale);
            let count = value(rear, "received");
            assert!(rear.message.contains(&format!(": stopped after {count} messages; ")));
            if ["all", "[/rear]"].contains(&valid_when) {
                assert!(messages(1).iter().any(|words| words.contains("/rear (stopped ")));
                assert_eq!(
                    (last[1].level, value(&last[1], "valid_share")),
                    (Level::Stale, "0.0000")
                );
                let lack = "; rows lack the clouds of /rear (stopped ";
                assert!(last[1].message.contains(lack), "{place}: {}", last[1].message);
            } else {
                // No step needs it.
                assert_eq!((last[1].level, value(&last[1], "valid_share")), (Level::Ok, "1.0000"));
                assert_eq!(last[1].message, "2 inputs; nothing comes from /rear", "{place}");
            }
        }
    }
}

#[test]
fn a_sensor_that_stops_has_neither_a_short_lag_nor_a_short_limit() {
    let silent = SensorPattern { period: 1 << 40, ..SENSOR };
    for keys in [
        "max_age_ms: 90, lag_ms: 20",
        "max_age_ms: 15, lag_ms: 5, strategy: hold",
        "max_age_ms: 2000, lag_ms: 10",
    ] {
        let mut robot = Robot::with(keys);
        robot.run(SENSOR, 3000);
        robot.monitor.report();
        robot.run(SENSOR, 300);
        robot.run(silent, 700);
        let status = robot.status(1);
        assert_eq!(status.level, Level::Warn);
        let words = "; nothing comes from /w (stopped 0.7 s ago)";
        assert!(status.message.ends_with(words), "{}", status.message);
        robot.run(silent, 3000);
        let status = robot.status(1);
        assert_eq!(status.level, Level::Stale);
        let words =
            format!("no message in 3.7 s: stopped after {} messages; ", value(&status, "received"));
        assert!(status.message.starts_with(&words), "{}", status.message);
        assert!(!status.message.contains("_ms"), "{}", status.message);
    }
}

/// Its pauses are as long as always: it needs a remedy, and has not stopped.
#[test]
fn an_input_in_bursts_has_a_short_limit_and_has_not_stopped() {
    let burst = SensorPattern { period: 5, ..SENSOR };
    let silent = SensorPattern { period: 1 << 40, ..SENSOR };
    let said = |keys: &str| {
        let mut robot = Robot::with(&format!("strategy: hold, {keys}"));
        // Otherwise the pauses look like losses, which no limit brings back.
        robot.runtime.input(WRENCH).tells_lost.store(true, Relaxed);
        let mut said = Vec::new();
        for k in 0..10 {
            robot.run(burst, 100);
            robot.run(silent, 900);
            let first = robot.status(1).message;
            robot.run(silent, 1000);
            let messages = [first, robot.status(1).message];
            // The first pauses are not usual yet.
            said.extend(messages.into_iter().filter(|_| k > 4));
        }
        said
    };
    for message in said("max_age_ms: 500") {
        assert!(message.ends_with(": raise max_age_ms to 2000"), "{message}");
    }
    for message in said("max_age_ms: 2000") {
        assert!(!message.contains("; "), "{message}");
    }
}

/// The stop of the node itself is not a fault of an input: neither a rate nor a delay of that time is reported.
#[test]
fn a_stop_of_the_node_is_not_blamed_on_the_sensor() {
    let mut robot = Robot::with("max_age_ms: 50, lag_ms: 20");
    for _ in 0..20 {
        robot.run(SENSOR, 1000);
        robot.monitor.report();
    }
    let before = robot.status(1);
    assert_eq!(before.level, Level::Ok, "{}", before.message);
    // Its messages wait for three seconds, and come together.
    let from = robot.now;
    robot.set_clock(from + 3000);
    (1..300).for_each(|k| robot.send(from + 10 * k));
    robot.monitor.stood_still(Duration::from_secs(3));
    robot.runtime.excuse_silence();
    for part in [0, 1] {
        let status = robot.status(part);
        assert_eq!(status.message, "the node's process stood still for 3.0 s");
    }
    // Until its backlog is over.
    for _ in 0..2 {
        robot.run(SENSOR, 1000);
        assert!(robot.status(1).message.contains("stood still"));
    }
    robot.run(SENSOR, 1000);
    let after = robot.status(1);
    assert_eq!((after.level, &after.message), (Level::Ok, &before.message));
    // It is rounded up, and the maximum is that of all time.
    let lag = |status| value(status, "suggested_lag_ms").parse::<i64>().unwrap();
    assert!((lag(&before)..=lag(&before) + 1).contains(&lag(&after)));
}

/// After a long stop, the publishers have given the node up. Until both find each other again, nothing comes.
#[test]
fn messages_that_come_late_after_a_stop_of_the_node_are_not_blamed_on_the_sensor() {
    let mut robot = Robot::with("max_age_ms: 50, lag_ms: 20, expected_rate_hz: 100");
    let silent = SensorPattern { period: 1 << 40, ..SENSOR };
    robot.run(SENSOR, 1000);
    robot.monitor.report();
    robot.monitor.stood_still(Duration::from_secs(12));
    robot.run(silent, 2000);
    assert!(robot.status(1).message.contains("stood still"));
    for _ in 0..2 {
        robot.run(silent, 400);
        robot.run(SENSOR, 600);
        assert!(robot.status(1).message.contains("stood still"), "they have just met again");
        robot.run(SENSOR, 1000);
        assert_eq!(robot.status(1).message, "100.0 Hz");
    }
    robot.run(SENSOR, 2000);
    // If they do not meet within ten seconds, the sensor is named.
    for said in ["stood still", "0.0 Hz instead of 100 Hz"] {
        robot.run(silent, 1000);
        let message = robot.status(1).message;
        assert!(message.contains(said), "{message}");
    }
}

/// A middleware without numbers loses what was sent during the stop. The gap is counted, and it is not the sensor's.
#[test]
fn messages_that_a_stop_of_the_node_costs_do_not_make_the_sensor_lossy() {
    let slow = SensorPattern { period: 100, ..SENSOR };
    let mut robot = Robot::with("max_age_ms: 300, lag_ms: 20, strategy: hold");
    for _ in 0..10 {
        robot.run(slow, 1000);
        robot.monitor.report();
    }
    assert_eq!(robot.status(1).level, Level::Ok);
    robot.set_clock(robot.now + 4000);
    robot.monitor.stood_still(Duration::from_secs(4));
    robot.runtime.excuse_silence();
    robot.run(slow, 2500);
    assert!(robot.status(1).message.contains("stood still"));
    for _ in 0..6 {
        robot.run(slow, 1000);
        let status = robot.status(1);
        assert_eq!(status.level, Level::Ok, "{}", status.message);
        assert!(value(&status, "missing").parse::<u64>().unwrap() >= 38, "they are counted");
        assert_eq!([value(&status, "lost"), value(&status, "queue_full")], ["not counted"; 2]);
    }
    // Later losses count as before.
    robot.run(slow, 3000);
    for _ in 0..20 {
        robot.run(slow, 500);
        robot.set_clock(robot.now + 500);
        robot.status(1);
    }
    let status = robot.status(1);
    let words = "% of the published messages do not arrive";
    assert!(status.message.contains(words), "{}", status.message);
}
