//! The writers of chunks in a bag. `crates/tools/tests` replays whole recordings.

use super::*;
use crate::file::OutputError;
use crate::recording::RecordingEvent;
use crate::replay::ClockSource;
use robocache_core::command::SentChunk;
use robocache_core::config;
use robocache_core::message::TensorMessage;
use robocache_runtime::{CommandFact, CommandRecord, Event, Tick};

fn chunk(group: &str, sequence: u64, tick: i64) -> Vec<u8> {
    let names = ["a".to_owned()];
    let sent = SentChunk {
        run: 3,
        epoch: 1,
        stamp: Stamp::from_nanos(tick * 10_000_000),
        tick,
        sequence,
        group,
        names: &names,
        values: &[0.5],
        reference: &[],
    };
    sent.to_cdr(Vec::new())
}

fn stamps(text: &str) -> OfStamps {
    let spec = config::parse(text, "test.yaml").unwrap().commands.unwrap();
    OfStamps::new(&spec, 3)
}

#[test]
fn a_sequence_that_begins_again_with_a_newer_tensor_is_of_another_writer() {
    let mut stamps = stamps(CONFIG);
    let mut number =
        |sequence, tick| stamps.writer(2, &chunk("arm", sequence, tick), |chunk| chunk.tick < 200);
    let first = 2 << 32;
    assert_eq!(number(5, 100), first);
    assert_eq!(number(5, 100), first, "it came twice");
    assert_eq!(number(7, 110), first);
    assert_eq!(number(6, 105), first, "it came out of order");
    assert_eq!(number(1, 120), first + 1, "the policy was started again");
    assert_eq!(number(2, 130), first + 1);
    assert_eq!(number(9, 1000), first + 1, "it answers no tick, so it says nothing of its writer");
    assert_eq!(number(3, 140), first + 1);
    assert_eq!(number(1, 150), first + 2);
    assert_eq!(stamps.writer(2, &[1, 2, 3], |_| true), first, "nobody knows what it is");
}

#[test]
fn groups_on_a_topic_have_writers_of_their_own() {
    let (head, arm) = CONFIG.split_once("    arm:").unwrap();
    let gripper = arm.replace("[a]", "[b]").replace("/c,", "/d,");
    let text = format!("{head}    arm:{arm}    gripper:{gripper}")
        .replace("joints: [a], max", "joints: [a, b], max");
    let mut stamps = stamps(&text);
    let mut numbers = Vec::new();
    for tick in 0..20 {
        numbers.push(stamps.writer(0, &chunk("arm", 1 + tick as u64, tick), |_| true));
        if tick % 4 == 0 {
            let message = chunk("gripper", 1 + tick as u64 / 4, tick);
            numbers.push(stamps.writer(0, &message, |_| true));
        }
        // Its chunks are refused, and disturb nobody.
        stamps.writer(0, &chunk("leg", 1, tick), |_| true);
    }
    assert_eq!(numbers, [0; 25]);
}

#[test]
fn an_epoch_has_writers_of_its_own() {
    let mut stamps = stamps(CONFIG);
    let mut number = |epoch, sequence, tick| {
        stamps.enter(Epoch::numbered(epoch));
        stamps.writer(0, &chunk("arm", sequence, tick), |_| true)
    };
    assert_eq!([number(1, 900, 98), number(1, 901, 100)], [0, 0]);
    // The clock jumps back, and the policy is started again. Its ticks pass the newest one from before.
    let again: Vec<u64> = (1..200).map(|tick| number(2, tick as u64, tick)).collect();
    assert_eq!(again, [0; 199]);
    assert_eq!(number(2, 1, 200), 1, "another one within an epoch is told apart");
}

#[test]
fn chunks_that_no_tick_finds_are_counted_and_need_bounded_memory() {
    let wiring = wiring(None);
    let mut commands =
        ReplayedCommands { source: Made::OfStamps(stamps(CONFIG)), ..commands(&wiring) };
    for sequence in 0..1000 {
        let recorded = Recorded {
            topic: 1,
            received: Stamp::ZERO,
            published: None,
            bytes: Bytes::from(chunk("arm", sequence, 1)),
        };
        commands.message(&recorded, &mut Counted::default()).unwrap();
    }
    let Made::OfStamps(stamps) = &commands.source else { unreachable!() };
    assert_eq!(stamps.waiting.len(), MOST_WAITING);
    assert_eq!(commands.summary().unwrap().waiting, 1000);
}

#[test]
fn the_path_of_a_contract_is_no_difference_of_commands() {
    let spec = config::parse(CONFIG, "test.yaml").unwrap().commands.unwrap();
    let mut other = spec.clone();
    other.groups[0].contract = Some("/elsewhere/checkpoint".into());
    assert_eq!(moves(&spec), moves(&other));
    other.groups[0].watchdog_ns += 1;
    assert_ne!(moves(&spec), moves(&other));
}

const CONFIG: &str = include_str!("../../../../../tests/arm.yaml");

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

/// A bag with chunks on topic 1, and facts on another.
fn wiring(facts: Option<usize>) -> Wiring {
    Wiring {
        feeds: vec![Vec::new(); 2],
        latched: Vec::new(),
        is_of_node: facts.is_some(),
        clock: ClockSource::Recorder,
        events: None,
        chunks: vec![1],
        facts,
        missing: Vec::new(),
        untyped: Vec::new(),
    }
}

/// Commands of [`CONFIG`], made of nothing.
fn commands(wiring: &Wiring) -> ReplayedCommands<'_> {
    let spec = config::parse(CONFIG, "test.yaml").unwrap().commands.unwrap();
    ReplayedCommands {
        wiring,
        source: Made::Nothing,
        groups: vec![GroupSummary::default(); 1],
        specs: spec.groups,
        summary: Some(CommandsSummary::default()),
    }
}

#[test]
fn a_command_that_is_not_that_of_the_node_is_left_out_and_counted() {
    let spec = config::parse(CONFIG, "test.yaml").unwrap().commands.unwrap();
    let wiring = wiring(Some(0));
    let again = RecordedCommands::new(&spec, 3);
    let source = Made::OfFacts { again, topic: 0 };
    let mut commands = ReplayedCommands { source, ..commands(&wiring) };
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
