//! Test that equal pushes give equal bytes, on the annotated reference configuration.

use crate::common::pipeline;
use robocache_core::pipeline::{Arrival, TickOutcome};
use robocache_core::spec::{InputId, SegmentId};
use robocache_ops::time::{Epoch, Stamp};
use robocache_sim::{Robot, Schedule, SimOptions, Stream};

const START: Stamp = Stamp::from_nanos(1_795_000_000_000_000_000);
/// Length of the runs \[ns\].
const LENGTH_NS: i64 = 1_000_000_000;

/// The reference robot for a second, and a little longer: when each message is due \[ns\], its input and its bytes.
fn recorded() -> Vec<(i64, InputId, Vec<u8>)> {
    let pipeline = pipeline(include_str!("../../../../config/robocache.yaml"));
    let inputs = pipeline.config().inputs.iter();
    let stream = |topic: &str| Stream::ALL.into_iter().find(|s| s.topic() == topic).unwrap();
    let streams: Vec<Stream> = inputs.map(|spec| stream(&spec.topic)).collect();
    let options = SimOptions {
        send_jitter_ms: 8.0,
        drop_share: 0.02,
        reorder_share: 0.05,
        ..SimOptions::default()
    };
    let robot = Robot::new(options.clone()).unwrap();
    let input = |of| InputId::new(streams.iter().position(|stream| *stream == of).unwrap());
    Schedule::of_streams(&options, START, &streams)
        .take_while(|event| event.due_ns <= LENGTH_NS + 100_000_000)
        .map(|event| (event.due_ns, input(event.stream), robot.message(&event, Vec::new())))
        .collect()
}

/// Runs the reference robot. With `fresh_frames` every tick has a new message, so that nothing can be
/// left from the tick before.
fn run(recorded: &[(i64, InputId, Vec<u8>)], fresh_frames: bool) -> Vec<Vec<u8>> {
    let pipeline = pipeline(include_str!("../../../../config/robocache.yaml"));
    let grid = pipeline.config().grid;
    let mut tick = grid.tick_at(START) + 1;
    let mut message = pipeline.new_message();
    let mut served = Vec::new();
    for (due_ns, input, bytes) in recorded {
        while grid.stamp_of(tick) <= START.offset(*due_ns) {
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
        if *due_ns > LENGTH_NS {
            break;
        }
        pipeline.push(*input, bytes, Arrival::default()).unwrap();
    }
    let last = |stream: usize| message.steps(SegmentId::new(stream)).iter().all(|step| step.valid);
    assert!((0..pipeline.config().streams.len()).all(last), "all streams are valid in the end");
    served
}

fn tensor_len() -> usize {
    pipeline(include_str!("../../../../config/robocache.yaml")).layout().byte_len()
}

#[test]
fn two_runs_over_the_same_messages_give_the_same_bytes() {
    let recorded = recorded();
    let [first, second, fresh] = [false, false, true].map(|fresh| run(&recorded, fresh));
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
