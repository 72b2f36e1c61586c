//! When each message is sent, and with which faults.

use super::{EPOCH, options};
use robocache_ops::time::{NANOS_PER_MS, NANOS_PER_S, Stamp};
use robocache_sim::{Pace, Robot, Schedule, SensorMessage, SimOptions, Stream, drive};
use std::collections::HashMap;

fn run(options: SimOptions, start: Stamp) -> Vec<(SensorMessage, Vec<u8>)> {
    let robot = Robot::new(options).unwrap();
    robot.schedule(start).map(|event| (event, robot.message(&event, Vec::new()))).collect()
}

fn small(change: impl FnOnce(&mut SimOptions)) -> SimOptions {
    options(|o| {
        (o.image_width, o.image_height, o.lidar_rings, o.lidar_columns) = (64, 48, 16, 64);
        (o.pose_hz, o.twist_hz, o.odom_hz) = (50.0, 50.0, 50.0);
        change(o);
    })
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_seed_others() {
    let faulty = |o: &mut SimOptions| {
        (o.send_jitter_ms, o.stamp_jitter_ms) = (3.0, 1.0);
        (o.drop_share, o.reorder_share) = (0.1, 0.1);
    };
    let first = run(small(faulty), EPOCH);
    assert!(first.len() > 1000);
    assert_eq!(first, run(small(faulty), EPOCH));
    let other = run(
        small(|o| {
            faulty(o);
            o.seed = 1;
        }),
        EPOCH,
    );
    assert_ne!(first, other);
}

#[test]
fn runs_share_their_messages_wherever_they_start_and_whatever_else_is_published() {
    let faulty = |o: &mut SimOptions| (o.stamp_jitter_ms, o.drop_share) = (1.0, 0.2);
    let key = |(event, bytes): (SensorMessage, Vec<u8>)| {
        ((event.stream, event.seq), (event.sampled, bytes))
    };
    let first: HashMap<_, _> = run(small(faulty), EPOCH).into_iter().map(key).collect();
    let later = small(|o| {
        faulty(o);
        (o.camera_front_hz, o.joints_hz) = (0.0, 0.0);
    });
    let later = run(later, EPOCH.offset(400 * NANOS_PER_MS));
    let shared = later.into_iter().map(key).filter(|(key, _)| first.contains_key(key));
    let mut count = 0;
    for (key, message) in shared {
        assert_eq!(first[&key], message);
        count += 1;
    }
    assert!(count > 300, "{count}");
}

#[test]
fn without_faults_every_grid_instant_has_its_message_in_order() {
    let events: Vec<_> = Schedule::new(&options(|_| ()), EPOCH).collect();
    assert!(events.is_sorted_by_key(|e| e.due_ns));
    for (stream, count) in
        [(Stream::Joints, 500), (Stream::Imu, 200), (Stream::Lidar, 10), (Stream::CameraWrist, 30)]
    {
        let of_stream: Vec<_> = events.iter().filter(|e| e.stream == stream).collect();
        assert_eq!(of_stream.len(), count, "{stream:?}");
        let period = options(|_| ()).grid(stream).unwrap().period_ns();
        for event in of_stream {
            assert_eq!(event.stamp.nanos(), event.seq * period);
            assert_eq!((event.sampled, event.send_at), (event.stamp, event.stamp));
            assert_eq!(event.due_ns, event.stamp.since(EPOCH));
            assert!((0..NANOS_PER_S).contains(&event.due_ns));
        }
    }
    assert!(events.iter().all(|e| e.stream != Stream::Clock && e.stream != Stream::Pose));
}

#[test]
fn jitter_keeps_within_its_bounds_and_a_stream_in_order() {
    let jittery = options(|o| {
        (o.send_jitter_ms, o.stamp_jitter_ms) = (8.0, 0.5);
    });
    let mut last: HashMap<Stream, (i64, Stamp)> = HashMap::new();
    let mut spread = 0;
    for event in Schedule::new(&jittery, EPOCH) {
        let period = jittery.grid(event.stream).unwrap().period_ns();
        let off = event.sampled.nanos() - event.seq * period;
        assert!(off.abs() <= 500_000);
        spread = spread.max(off.abs());
        assert_eq!(event.stamp, event.sampled);
        if let Some((due_ns, stamp)) = last.insert(event.stream, (event.due_ns, event.stamp)) {
            assert!(due_ns <= event.due_ns && stamp < event.stamp, "{event:?}");
        }
        let delay = event.send_at.since(event.sampled);
        // A sample from just before the start is sent at the start, at 0.5 ms of delay.
        assert!((0..=8 * NANOS_PER_MS + 500_000).contains(&delay), "{event:?}");
    }
    assert!(spread > 400_000, "{spread}");
}

#[test]
fn stamps_stay_in_order_under_a_jitter_beyond_the_period() {
    let jittery = options(|o| o.stamp_jitter_ms = 1000.0);
    let stamps = Schedule::of_streams(&jittery, EPOCH, &[Stream::Joints]).map(|e| e.stamp);
    assert!(stamps.is_sorted_by(|a, b| a < b));
}

#[test]
fn drops_and_swaps_have_their_shares_and_are_counted() {
    let faulty = options(|o| {
        (o.drop_share, o.reorder_share, o.duration) = (0.2, 0.1, 20.0);
    });
    let mut schedule = Schedule::of_streams(&faulty, EPOCH, &[Stream::Joints]);
    let events: Vec<_> = schedule.by_ref().collect();
    let faults = schedule.faults(Stream::Joints);
    assert_eq!(events.len() as u64 + faults.dropped, 10_000);
    assert!((1_850..2_150).contains(&faults.dropped), "{faults:?}");
    let swapped = events.windows(2).filter(|pair| pair[0].seq > pair[1].seq);
    let swapped = swapped.inspect(|pair| assert_eq!(pair[0].due_ns, pair[1].due_ns)).count();
    assert_eq!(swapped as u64, faults.reordered);
    assert!((600..850).contains(&faults.reordered), "{faults:?}");
    // Nothing is sent before it is sampled.
    assert!(events.iter().all(|e| e.send_at >= e.sampled));
}

#[test]
fn skew_moves_the_stamps_of_one_sensor_and_nothing_else() {
    let skewed = options(|o| {
        (o.skew_stream, o.skew_ms, o.skew_ppm) = (Some(Stream::Imu), -5.0, 1000.0);
    });
    let plain: Vec<_> = Schedule::new(&options(|_| ()), EPOCH).collect();
    let events: Vec<_> = Schedule::new(&skewed, EPOCH).collect();
    assert_eq!(plain.len(), events.len());
    for (plain, event) in plain.iter().zip(&events) {
        let off = event.stamp.since(event.sampled);
        assert_eq!(SensorMessage { stamp: plain.stamp, ..*event }, *plain);
        let since_start = event.sampled.since(EPOCH);
        let expected =
            if event.stream == Stream::Imu { -5_000_000 + since_start / 1000 } else { 0 };
        assert!((off - expected).abs() <= 1, "{event:?}");
    }
}

#[test]
fn the_clock_jumps_back_once_and_the_same_messages_come_again() {
    let start = Stamp::from_nanos(10 * NANOS_PER_S);
    let jumping = small(|o| {
        (o.clock, o.jump_back_at, o.jump_back_by, o.duration) = (true, Some(2.0), 1.5, 4.0);
        (o.send_jitter_ms, o.reorder_share) = (5.0, 0.1);
    });
    let events = run(jumping, start);
    assert!(events.is_sorted_by_key(|(e, _)| e.due_ns));
    let clock: Vec<_> = events.iter().filter(|(e, _)| e.stream == Stream::Clock).collect();
    assert_eq!(clock.len(), 4000);
    let steps: Vec<_> = clock.windows(2).map(|w| w[1].0.stamp.since(w[0].0.stamp)).collect();
    assert_eq!(steps.iter().filter(|step| **step != NANOS_PER_MS).count(), 1);
    assert_eq!(steps[1999], -1_499 * NANOS_PER_MS);
    assert_eq!(clock[3999].0.stamp.nanos(), 12_499 * NANOS_PER_MS);

    let mut seen: HashMap<(Stream, i64), (Stamp, &[u8])> = HashMap::new();
    let mut again = 0;
    for (event, bytes) in &events {
        let before = event.due_ns <= 2 * NANOS_PER_S && event.send_at.nanos() > 11 * NANOS_PER_S;
        let at = if before || event.due_ns < 2 * NANOS_PER_S { 0 } else { 1_500 * NANOS_PER_MS };
        assert_eq!(event.send_at.nanos(), start.nanos() + event.due_ns - at, "{event:?}");
        let message = (event.sampled, bytes.as_slice());
        if let Some(earlier) = seen.insert((event.stream, event.seq), message) {
            assert_eq!(earlier, message);
            again += 1;
        }
    }
    assert!(again > 3000, "{again}");
}

#[test]
fn a_simulation_that_plays_again_starts_its_clock_again_and_moves_on() {
    let playing = small(|o| {
        (o.isaac, o.clock, o.clock_hz, o.play_s, o.stopped_s) = (true, true, 60.0, 2.0, 0.5);
        (o.speed, o.duration) = (2.0, 8.0);
    });
    let start = Stamp::from_nanos(0);
    let events = run(playing, start);
    assert!(events.is_sorted_by_key(|(e, _)| e.due_ns));
    for (event, _) in &events {
        // Half a second of real time is a second of the simulator.
        let play = event.due_ns / (3 * NANOS_PER_S);
        let since = event.due_ns - play * 3 * NANOS_PER_S;
        assert!(since < 2 * NANOS_PER_S, "stopped: {event:?}");
        assert_eq!(event.stamp.nanos(), since, "{event:?}");
        let moved = if event.stream == Stream::Clock { 0 } else { 2 * NANOS_PER_S * play };
        assert_eq!(event.sampled.nanos(), event.stamp.nanos() + moved);
    }
    let starts: Vec<_> =
        events.iter().filter(|(e, _)| e.stream == Stream::Clock && e.stamp == start).collect();
    assert_eq!(starts.len(), 3);
}

/// A clock that tests wind forward.
struct Stepping(std::cell::Cell<i64>);

impl Pace for Stepping {
    fn now_ns(&self) -> i64 {
        self.0.get()
    }
    fn real_ns(&self, ns: i64) -> i64 {
        ns
    }
}

#[test]
fn a_busy_machine_sends_late_then_skips_and_counts_both() {
    let robot = Robot::new(options(|o| o.duration = 0.4)).unwrap();
    let schedule = Schedule::of_streams(robot.options(), EPOCH, &[Stream::Wrench]);
    // The clock is at 0.2 s before the first message, and only the test advances it.
    let pace = Stepping((200 * NANOS_PER_MS).into());
    let stop = std::sync::atomic::AtomicBool::new(false);
    let report = drive(&robot, schedule, &pace, &stop, |event, _| {
        pace.0.set(pace.0.get().max(event.due_ns + 2 * NANOS_PER_MS));
        Ok::<_, ()>(())
    });
    let wrench = report.unwrap()["wrench"];
    assert_eq!((wrench.sent + wrench.skipped, wrench.dropped), (200, 0));
    assert!((49..=51).contains(&wrench.skipped), "{wrench:?}");
    assert!((48..=52).contains(&wrench.late), "{wrench:?}");
}

#[test]
fn a_robot_that_skips_nothing_sends_late() {
    let robot = Robot::new(options(|o| (o.duration, o.no_skip) = (0.4, true))).unwrap();
    let schedule = || Schedule::of_streams(robot.options(), EPOCH, &[Stream::Wrench]);
    // The machine stood still for ten seconds.
    let pace = Stepping((10_000 * NANOS_PER_MS).into());
    let stop = std::sync::atomic::AtomicBool::new(false);
    let mut sent = Vec::new();
    let report = drive(&robot, schedule(), &pace, &stop, |event, _| {
        sent.push(*event);
        Ok::<_, ()>(())
    });
    let wrench = report.unwrap()["wrench"];
    assert_eq!((wrench.sent, wrench.late, wrench.skipped), (200, 200, 0));
    assert_eq!(sent, schedule().collect::<Vec<_>>());
}

#[test]
fn a_stop_and_a_failed_publish_end_the_run() {
    let robot = Robot::new(options(|o| o.duration = 0.0)).unwrap();
    let schedule = || Schedule::of_streams(robot.options(), EPOCH, &[Stream::Joints]);
    let stop = std::sync::atomic::AtomicBool::new(false);
    let pace = Stepping((2 * NANOS_PER_MS).into());
    let mut sent = 0;
    let report = drive(&robot, schedule(), &pace, &stop, |event, _| {
        sent += 1;
        pace.0.set(event.due_ns + 2 * NANOS_PER_MS);
        stop.store(sent == 5, std::sync::atomic::Ordering::Relaxed);
        Ok::<_, ()>(())
    });
    assert_eq!(report.unwrap()["joints"].sent, 5);
    stop.store(false, std::sync::atomic::Ordering::Relaxed);
    let report = drive(&robot, schedule(), &pace, &stop, |_, _| Err("gone"));
    assert_eq!(report, Err("gone"));
}
