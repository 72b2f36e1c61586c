//! The writers of chunks in a bag. `crates/tools/tests` replays whole recordings.

use super::*;
use crate::file::OutputError;
use crate::recording::RecordingEvent;
use crate::replay::ClockSource;
use robocache_core::command::SentChunk;
use robocache_core::config;
use robocache_core::message::TensorMessage;
use robocache_runtime::{CommandFact, CommandRecord, Event, Tick};

fn chunk(sequence: u64, tick: i64) -> Vec<u8> {
    let names = ["a".to_owned()];
    let sent = SentChunk {
        run: 3,
        epoch: 1,
        stamp: Stamp::from_nanos(tick * 10_000_000),
        tick,
        sequence,
        group: "arm",
        names: &names,
        values: &[0.5],
        reference: &[],
    };
    sent.to_cdr(Vec::new())
}

#[test]
fn a_sequence_that_begins_again_with_a_newer_tensor_is_of_another_writer() {
    let mut seen = WriterSeen::default();
    let mut number = |sequence, tick| seen.number(2, &chunk(sequence, tick));
    let first = 2 << 32;
    assert_eq!(number(5, 100), first);
    assert_eq!(number(5, 100), first, "it came twice");
    assert_eq!(number(7, 110), first);
    assert_eq!(number(6, 105), first, "it came out of order");
    assert_eq!(number(1, 120), first + 1, "the policy was started again");
    assert_eq!(number(2, 130), first + 1);
    assert_eq!(seen.number(2, &[1, 2, 3]), first + 1, "nobody knows what it is");
}

const CONFIG: &str = "
rate_hz: 100
streams: {joints: {type: sensor_msgs/JointState, topic: /joints, joints: [a], max_age_ms: 50}}
commands:
  rate_hz: 100
  groups:
    arm:
      joints: [a]
      rows: {steps: 10, step_ms: 20}
      start_from: joints
      watchdog_ms: 500
      limits: none
      on_stall: hold
      on_end: hold
      output: {topic: /c, type: std_msgs/Float64MultiArray}
";

/// Counts commands and chunks.
#[derive(Default)]
struct Counted {
    commands: u64,
    chunks: u64,
}

impl Output for Counted {
    fn tick(&mut self, _: Tick, _: &TensorMessage) -> Result<(), OutputError> {
        Ok(())
    }

    fn takes_commands(&self) -> bool {
        true
    }

    fn chunk(&mut self, _: &TakenChunk<'_>, _: usize, _: Stamp) -> Result<(), OutputError> {
        self.chunks += 1;
        Ok(())
    }

    fn command(&mut self, _: &MadeCommand<'_>, _: Stamp) -> Result<(), OutputError> {
        self.commands += 1;
        Ok(())
    }
}

#[test]
fn a_command_that_is_not_that_of_the_node_is_left_out_and_counted() {
    let spec = config::parse(CONFIG, "test.yaml").unwrap().commands.unwrap();
    let wiring = Wiring {
        feeds: vec![Vec::new(); 2],
        latched: Vec::new(),
        is_of_node: true,
        clock: ClockSource::Recorder,
        events: None,
        chunks: vec![1],
        facts: Some(0),
        missing: Vec::new(),
        untyped: Vec::new(),
    };
    let mut commands = ReplayedCommands {
        wiring: &wiring,
        source: Made::OfFacts { again: RecordedCommands::new(&spec, 3), topic: 0 },
        groups: vec![GroupSummary::default(); 1],
        specs: spec.groups.clone(),
        summary: Some(CommandsSummary::default()),
    };
    let mut output = Counted::default();
    let mut tell = |event: RecordingEvent| {
        let recorded = Recorded {
            topic: 0,
            received: Stamp::ZERO,
            published: None,
            bytes: Bytes::from(event.write()),
        };
        commands.message(&recorded, &mut output).unwrap();
    };
    let fact = |tick, fact| {
        let record = CommandRecord { tick, epoch: Epoch::numbered(1), fact };
        RecordingEvent::Node(Event::Command(record))
    };
    // A group without a plan sends nothing.
    let right = CommandGroups::new(&spec).tick(CommandGroups::new(&spec).at(0, 3, 1), |_| None);
    tell(fact(100, CommandFact::Enabled));
    tell(fact(100, CommandFact::Made { digest: right }));
    tell(fact(101, CommandFact::Made { digest: right ^ 1 }));
    tell(RecordingEvent::GapOfEvents { events: 1, from: None });
    tell(fact(102, CommandFact::Made { digest: right ^ 1 }));
    tell(fact(103, CommandFact::Made { digest: right }));
    let summary = commands.summary().unwrap();
    assert_eq!((summary.ticks, summary.differing, summary.unverifiable), (2, 1, 1));
    assert_eq!((output.commands, output.chunks), (2, 0));
    assert_eq!(summary.groups["arm"].stages["waiting"], 2);
}
