//! The lag that verify advises, tried on the very same arrivals.

use std::path::Path;
use std::sync::Arc;

use robocache_core::backend::Choice;
use robocache_core::backend::cpu::CpuBackend;
use robocache_core::config;
use robocache_core::layout::Layout;
use robocache_core::pipeline::{Arrival, Pipeline, TickOutcome};
use robocache_core::schema::Prefixes;
use robocache_core::spec::InputId;
use robocache_data::recording::{Manifest, McapRecorder, RecordOptions};
use robocache_ops::time::{Epoch, NANOS_PER_MS, Stamp};
use robocache_runtime::{
    Event, MessageOutcome, ReceivedMessage, Recorder, TickFate, TickRecord, TimeSource,
};
use robocache_tools::verify::{StreamReport, VerifyReport, verify};

use super::node::{joints, wrench};

const CONFIG: &str = "
rate_hz: 100
streams:
  hold: {type: geometry_msgs/WrenchStamped, topic: /hold, max_age_ms: 300, strategy: hold, lag_ms: HOLD}
  nearest:
    {type: geometry_msgs/WrenchStamped, topic: /near, max_age_ms: 300, strategy: nearest, lag_ms: NEAREST,
     history: {steps: 4, step_ms: 7}}
  linear: {type: geometry_msgs/WrenchStamped, topic: /lin, max_age_ms: 300, max_gap_ms: 200, lag_ms: LINEAR}
  groups:
    type: sensor_msgs/JointState
    topic: /joints
    max_age_ms: 300
    lag_ms: GROUPS
    groups: {arm: [a, b], gripper: [g]}
";
const STREAMS: [&str; 4] = ["hold", "nearest", "linear", "groups"];

/// A message, and when the node had it. Times are in nanoseconds from the begin.
#[derive(Clone)]
struct Planned {
    input: InputId,
    arrival: i64,
    ready: i64,
    bytes: Vec<u8>,
}

/// Messages of a second, most of them every 17 ms and in disorder, up to 60 ms late and 20 ms to encode.
fn plan(begin: Stamp) -> Vec<Planned> {
    let mut seed = 1_u64;
    let mut pseudo = |most_ms: i64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as i64 % (most_ms * NANOS_PER_MS)
    };
    let mut planned = Vec::new();
    for (input, _) in STREAMS.iter().enumerate() {
        for k in 0..60_i64 {
            // The stream that is interpolated is silent for longer than its max_gap_ms.
            if input == 2 && (20..45).contains(&k) {
                continue;
            }
            let stamp = 17 * k * NANOS_PER_MS + pseudo(3);
            let arrival = stamp + 5 * NANOS_PER_MS + pseudo(55);
            // The first one after the silence comes between two ticks: its age alone would make them differ.
            let (arrival, ready) = match (input, k) {
                (2, 45) => (780_100_000, 780_200_000),
                _ => (arrival, arrival + pseudo(20)),
            };
            let at = begin.offset(stamp);
            let bytes = match (input, k % 4) {
                (3, 0) => joints(at, &["a", "b", "g"], k as f64),
                (3, 2) => joints(at, &["g"], k as f64),
                (3, _) => joints(at, &["b", "a"], k as f64),
                _ => wrench(at, k as f64),
            };
            planned.push(Planned { input: InputId::new(input), arrival, ready, bytes });
        }
    }
    // The slowest, and a latched one with an old stamp.
    let mut add = |stamp: i64, arrival, ready| {
        let bytes = wrench(begin.offset(stamp), 77.0);
        planned.push(Planned { input: InputId::new(0), arrival, ready, bytes });
    };
    add(500_500_000, 570_500_000, 601_300_000);
    add(-20_000_000_000, 1_300_000, 1_400_000);
    planned
}

enum Step {
    Arrives(usize),
    Ready(usize),
    Tick(i64),
}

/// A node with these lags \[ms\] that has the messages as planned.
fn verified(folder: &Path, lags: [f64; 4]) -> VerifyReport {
    let mut text = CONFIG.to_owned();
    for (stream, lag) in STREAMS.iter().zip(lags) {
        text = text.replace(&stream.to_uppercase(), &lag.to_string());
    }
    let config = config::parse(&text, "robot.yaml").unwrap();
    let begin = Stamp::from_nanos(1_700_000_000_000_000_000);
    let planned = plan(begin);
    let mut steps = Vec::new();
    for (at, Planned { arrival, ready, .. }) in planned.iter().enumerate() {
        steps.extend([(*arrival, Step::Arrives(at)), (*ready, Step::Ready(at))]);
    }
    let grid = config.grid;
    let first = grid.tick_at(begin);
    steps.extend((1..130).map(|k| (grid.stamp_of(first + k).since(begin), Step::Tick(first + k))));
    steps.sort_by_key(|(at, _)| *at);
    let backend = Arc::new(CpuBackend::new(&config, &Layout::new(&config)).unwrap());
    let options =
        RecordOptions::new(folder, Manifest::of(&config, false, true, "cpu"), TimeSource::real());
    let recorder =
        McapRecorder::start(options, &config, &Prefixes::default(), Some(begin)).unwrap();
    let pipeline = Pipeline::new(config, backend).unwrap();
    let mut numbers = vec![0; planned.len()];
    let arrival = |at: usize| Arrival {
        stamp: Some(begin.offset(planned[at].arrival)),
        ..Arrival::default()
    };
    for (now, step) in steps {
        let now = begin.offset(now);
        match step {
            Step::Arrives(at) => {
                let Planned { input, bytes, .. } = planned[at].clone();
                let message = ReceivedMessage {
                    input,
                    bytes: Arc::new(bytes),
                    arrival: arrival(at),
                    at: now,
                    published: None,
                };
                numbers[at] = recorder.received(message);
            }
            Step::Ready(at) => {
                let Planned { input, bytes, .. } = &planned[at];
                let outcome =
                    MessageOutcome::from(&pipeline.push(*input, bytes, arrival(at)).unwrap());
                let number = numbers[at];
                let input = *input;
                let at = Some(now);
                recorder.note(Event::MessageOutcome { number, input, outcome, at });
            }
            Step::Tick(tick) => {
                let mut message = pipeline.new_message();
                let epoch = Epoch::default();
                let outcome = pipeline.tick(tick, epoch, &mut message).unwrap();
                assert_eq!(outcome, TickOutcome::Ready);
                message.seal();
                let fate = TickFate::Published { digest: message.digest() };
                let changes = message.changes();
                recorder.note(Event::Tick(TickRecord { tick, epoch, changes, fate }));
            }
        }
    }
    recorder.finish();
    let report = verify(&recorder.folder(), Choice::Cpu, 0).unwrap();
    assert_eq!((report.equal + report.differing, report.unexplained), (129, 0), "{report:?}");
    report
}

/// Advised lag of each stream, as the text rounds it \[ms\].
fn advised(report: &VerifyReport) -> [f64; 4] {
    let lag = |stream: &StreamReport| (stream.lag_that_does_ns.unwrap() as f64 / 1e5).ceil() / 10.0;
    let lags: Vec<f64> = report.streams.iter().map(lag).collect();
    lags.try_into().unwrap()
}

#[test]
fn the_advised_lag_would_have_done_and_a_shorter_one_would_not() {
    let folder = tempfile::tempdir().unwrap();
    let short = verified(folder.path(), [20.0; 4]);
    assert!(short.streams.iter().all(|stream| stream.ticks > 10), "{:?}", short.streams);
    let lags = advised(&short);
    // What sets it is named, and neither the latched message nor the silence.
    assert_eq!(lags[0], 100.9);
    let slowest = short.streams[0].slowest.as_ref().unwrap();
    assert_eq!(
        (slowest.input.as_str(), slowest.stamp_ns % 1_000_000_000),
        ("hold /hold", 500_500_000)
    );
    assert_eq!((slowest.arrived_ns, slowest.ready_ns), (70_000_000, 100_800_000));
    assert_eq!(short.streams.iter().map(|stream| stream.too_old).collect::<Vec<_>>(), [1, 0, 1, 0]);
    assert!(lags[1..].iter().all(|lag| (60.0..160.0).contains(lag)), "{lags:?}");

    let report = verified(folder.path(), lags);
    assert_eq!((report.differing, report.equal), (0, 129), "{report:?}");
    // The advice does not depend on the lag that the node had.
    assert_eq!(advised(&report), lags);
    for stream in 0..4 {
        let mut shorter = lags;
        shorter[stream] -= 15.0;
        let report = verified(folder.path(), shorter);
        let late = &report.streams[stream];
        assert!(report.differing > 0 && late.ticks == report.differing, "{stream}: {report:?}");
    }
}
