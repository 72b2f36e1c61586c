//! The same pushes give the same bytes, on the annotated reference configuration.

use crate::common::pipeline;
use robocache_core::pipeline::{Arrival, TickOutcome};
use robocache_core::spec::{InputId, SegmentId};
use robocache_ops::time::{Epoch, Stamp};
use robocache_sim::{Robot, Schedule, SimOptions, Stream};

/// Runs the reference robot for a second. With `fresh_frames` every tick has a new message, so that
/// nothing can be left from the tick before.
fn run(fresh_frames: bool) -> Vec<Vec<u8>> {
    let yaml = include_str!("../../../../config/robocache.yaml");
    let pipeline = pipeline(yaml);
    let streams: Vec<Stream> = pipeline
        .config()
        .inputs
        .iter()
        .map(|spec| Stream::ALL.into_iter().find(|s| s.topic() == spec.topic).unwrap())
        .collect();
    let options = SimOptions {
        send_jitter_ms: 8.0,
        drop_share: 0.02,
        reorder_share: 0.05,
        ..SimOptions::default()
    };
    let robot = Robot::new(options.clone()).unwrap();
    let start = Stamp::from_nanos(1_795_000_000_000_000_000);
    let grid = pipeline.config().grid;
    let mut tick = grid.tick_at(start) + 1;
    let mut message = pipeline.new_message();
    let mut served = Vec::new();
    for event in Schedule::of_streams(&options, start, &streams) {
        while grid.stamp_of(tick) <= start.offset(event.due_ns) {
            if fresh_frames {
                message = pipeline.new_message();
            }
            assert_eq!(
                pipeline.tick(tick, Epoch::default(), &mut message).unwrap(),
                TickOutcome::Ready
            );
            served.push(message.message().to_vec());
            tick += 1;
        }
        if event.due_ns > 1_000_000_000 {
            break;
        }
        let stream = streams.iter().position(|s| *s == event.stream).unwrap();
        let message = robot.message(&event, Vec::new());
        pipeline.push(InputId::new(stream), &message, Arrival::default()).unwrap();
    }
    let last = |stream: usize| message.steps(SegmentId::new(stream)).iter().all(|step| step.valid);
    assert!((0..streams.len()).all(last), "all streams are valid in the end");
    served
}

fn tensor_len() -> usize {
    pipeline(include_str!("../../../../config/robocache.yaml")).layout().byte_len()
}

#[test]
fn two_runs_over_the_same_messages_give_the_same_bytes() {
    let (first, second, fresh) = (run(false), run(false), run(true));
    assert_eq!(first.len(), 100);
    // Not assert_eq: a difference would print megabytes.
    assert!(first == second, "two runs differ");
    for (tick, (reused, fresh)) in first.iter().zip(&fresh).enumerate() {
        assert!(reused == fresh, "tick {tick}: memory that is reused gives other bytes");
    }
    // The messages of two ticks differ at least in the tick number. Their tensors must differ, too.
    let tensors: Vec<_> =
        first.iter().map(|message| &message[message.len() - tensor_len()..]).collect();
    assert!(tensors.windows(2).all(|ticks| ticks[0] != ticks[1]), "every tensor is another");
}
