//! The commands of a recording are replayed, as the node sent them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::node::{By, CHUNKS, Node, RUN, config_text, page, vectors, verified};
use robocache_core::cdr::Reader;
use robocache_core::command::{Refusal, SentChunk, Stage};
use robocache_data::bag::Bag;
use robocache_data::replay::batch::{EpisodeOutcome, run_all};
use robocache_data::replay::{
    CommandsSummary, EpisodesRequest, Format, Moment, ReplayRequest, Summary,
};
use robocache_data::store::read::Array;
use robocache_ops::time::{NANOS_PER_MS, Stamp};
use robocache_tools::view;

const COMMANDS: &str = "
commands:
  rate_hz: 100
  groups:
    arm:
      joints: [a, b]
      rows: {steps: 20, step_ms: 20}
      start_from: joints
      watchdog_ms: WATCHDOG
      limits:
        joints:
          a: {position: [-2000, 2000], velocity: 500, acceleration: 20000}
          b: {position: [-2000, 2000], velocity: 50, acceleration: 2000}
      output: {topic: /arm/commands, type: std_msgs/msg/Float64MultiArray}
";
/// Time between two ticks \[ns\].
const PERIOD_NS: i64 = 10 * NANOS_PER_MS;
const WATCHDOG_MS: i64 = 500;

fn text(watchdog_ms: i64) -> String {
    config_text(20.0, 20.0) + &COMMANDS.replace("WATCHDOG", &watchdog_ms.to_string())
}

/// Gives the node a chunk that answers its newest tick.
fn give(node: &Node, sequence: u64, group: &str, value: f32) -> Vec<u8> {
    let tick = node.now().nanos() / PERIOD_NS;
    let names = if group == "gripper" { &["g"][..] } else { &["a", "b"] };
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let row = |row: usize| [value + row as f32, value - 2.0 * row as f32];
    let values: Vec<f32> = (0..20).flat_map(|at| row(at).into_iter().take(names.len())).collect();
    let chunk = SentChunk {
        run: RUN,
        epoch: node.runtime.clock.now().unwrap().epoch.number(),
        stamp: Stamp::from_nanos(tick * PERIOD_NS),
        tick,
        sequence,
        group,
        names: &names,
        values: &values,
        reference: &[],
    };
    let message = chunk.to_cdr(Vec::new());
    let commands = node.runtime.commands.as_ref().unwrap();
    commands.give(Arc::new(message.clone()), 5);
    message
}

/// A recording with commands, its chunks, and the commands that the node has sent.
struct Recorded {
    folder: PathBuf,
    chunks: Vec<Vec<u8>>,
    sent: Vec<Vec<u8>>,
    /// An instant while commands follow a plan.
    between: Stamp,
}

/// Runs a node whose policy answers each tenth tick.
fn recorded(out: &Path) -> Recorded {
    let node = Node::start(&text(WATCHDOG_MS), out, |_| {}, By::Test);
    vectors(&node, 200, 0, |_| ());
    let commands = node.runtime.commands.as_ref().unwrap();
    // It comes while commands are disabled.
    let mut chunks = vec![give(&node, 1, "arm", 0.0)];
    vectors(&node, 20, 0, |_| ());
    node.runtime.enable_commands().unwrap();
    let between = node.now().offset(400 * NANOS_PER_MS);
    for k in 2..10 {
        chunks.push(give(&node, k, "arm", k as f32 * 3.0));
        vectors(&node, 100, 0, |_| ());
    }
    chunks.push(give(&node, 9, "arm", 0.0));
    chunks.push(give(&node, 10, "leg", 0.0));
    chunks.push(vec![1, 2, 3]);
    commands.give(Arc::new(vec![1, 2, 3]), 5);
    // The plan ends, and then it is stalled.
    vectors(&node, 700, 0, |_| ());
    chunks.push(give(&node, 11, "arm", 1.0));
    vectors(&node, 100, 0, |_| ());
    commands.disable();
    vectors(&node, 300, 0, |_| ());
    let sent = node.commands.clone();
    let folder = node.stop();
    let sent = std::mem::take(&mut *robocache_ops::sync::lock(&sent.0));
    Recorded { folder, chunks, sent, between }
}

/// Replays a bag. Returns the folder of the results, and the summary.
fn replayed(bag: &Path, out: &Path, text: &str, format: Format, start: Option<Moment>) -> Summary {
    std::fs::create_dir_all(out).unwrap();
    let config = out.join("robot.yaml");
    std::fs::write(&config, text).unwrap();
    let episodes = EpisodesRequest { bags: vec![bag.to_owned()], start, ..Default::default() };
    let request =
        ReplayRequest { episodes, config, out: out.to_owned(), format, ..ReplayRequest::default() };
    let (episodes, options) = request.asked().unwrap();
    let results = run_all(&episodes, &options, &(), &AtomicBool::new(false)).unwrap();
    results.store.unwrap();
    match &results.outcomes[..] {
        [EpisodeOutcome::Done(summary)] => summary.clone(),
        other => panic!("{other:?}"),
    }
}

fn commands(summary: &Summary) -> &CommandsSummary {
    summary.commands.as_ref().unwrap()
}

/// The messages of a topic of a bag.
fn messages(bag: &Path, topic: &str) -> Vec<Vec<u8>> {
    let bag = Bag::open(bag).unwrap();
    let wanted: Vec<bool> = bag.topics.iter().map(|of| of.name == topic).collect();
    assert!(wanted.contains(&true), "{topic}");
    bag.messages(&wanted).unwrap().map(|recorded| recorded.bytes.to_vec()).collect()
}

/// The values of a command.
fn values(message: &[u8]) -> Vec<f64> {
    let mut reader = Reader::new(message).unwrap();
    assert_eq!((reader.u32(), reader.u32()), (Ok(0), Ok(0)));
    let values = reader.f64_sequence().unwrap();
    (0..values.len()).filter_map(|at| values.get(at)).collect()
}

/// The rows of an array, as their bytes.
fn rows(store: &Path, array: &str) -> Vec<Vec<u8>> {
    let mut array = Array::of(&store.join(array)).unwrap();
    (0..array.rows()).map(|at| array.row(at).unwrap().to_vec()).collect()
}

fn f64s(bytes: &[u8]) -> Vec<f64> {
    bytes.chunks_exact(8).map(|bytes| f64::from_le_bytes(bytes.try_into().unwrap())).collect()
}

#[test]
fn a_replay_of_a_recording_has_the_commands_that_the_node_sent() {
    let folder = tempfile::tempdir().unwrap();
    let Recorded { folder: bag, chunks, sent, .. } = recorded(folder.path());
    assert!(sent.len() > 100, "{}", sent.len());
    let report = verified(&bag).commands.unwrap();
    assert_eq!((report.differing, report.unverifiable, report.first), (0, 0, None));
    let out = folder.path().join("mcap");
    let summary = replayed(&bag, &out, &text(WATCHDOG_MS), Format::Mcap, None);
    let made = commands(&summary);
    assert!(made.written && made.of_recording);
    assert_eq!((made.ticks, made.differing, made.unverifiable), (report.equal, 0, 0));
    let group = &made.groups["arm"];
    assert_eq!((group.sent, group.chunks, group.starts), (sent.len() as u64, 9, 1));
    let refused = |reason: &str| (reason.to_owned(), 1);
    assert_eq!(group.refused, BTreeMap::from([refused("disabled"), refused("sequence")]));
    assert_eq!(made.refused, BTreeMap::from([refused("group"), refused("malformed")]));
    assert!(group.clipped["b"] > 0 && group.stages["stalled"] > 0 && group.stages["ended"] > 0);
    let file = out.join(format!("{}.mcap", summary.name));
    assert_eq!(messages(&file, "/arm/commands"), sent);
    assert_eq!(messages(&file, CHUNKS), chunks);
}

#[test]
fn a_store_has_commands_and_chunks() {
    let folder = tempfile::tempdir().unwrap();
    let Recorded { folder: bag, chunks, sent, .. } = recorded(folder.path());
    for (format, name) in [(Format::Zarr, "tensors.zarr"), (Format::Rows, "rows.zarr")] {
        let out = folder.path().join(name);
        let summary = replayed(&bag, &out, &text(WATCHDOG_MS), format, None);
        let store = out.join(name);
        let of = |array: &str| rows(&store, &format!("commands/arm/{array}"));
        let is_sent: Vec<bool> = of("sent").iter().map(|sent| sent[0] == 1).collect();
        assert_eq!(is_sent.len() as u64, commands(&summary).ticks);
        let stored = of("values").into_iter().zip(&is_sent);
        let (some, none): (Vec<_>, Vec<_>) = stored.partition(|(_, sent)| **sent);
        let some: Vec<_> = some.iter().map(|(values, _)| f64s(values)).collect();
        assert_eq!(some, sent.iter().map(|message| values(message)).collect::<Vec<_>>());
        assert!(none.iter().all(|(values, _)| f64s(values).iter().all(|value| value.is_nan())));
        let stages: Vec<usize> = of("stage").iter().map(|stage| usize::from(stage[0])).collect();
        assert!(stages.contains(&(Stage::Stalled as usize)));
        // Chunks of another group and malformed ones have no place.
        let refused: Vec<u8> =
            rows(&store, "chunks/arm/refused").iter().map(|refused| refused[0]).collect();
        assert_eq!(refused.len(), chunks.len() - 2);
        assert_eq!(refused[0], Refusal::Disabled as u8 + 1);
        assert_eq!(refused[9], Refusal::Sequence as u8 + 1);
        assert_eq!(refused[1..9], [0; 8]);
        let plans = rows(&store, "chunks/arm/plan");
        assert_eq!(f64s(&plans[1])[..4], [6.0, 6.0, 7.0, 4.0]);
        assert!(f64s(&plans[0]).iter().all(|value| value.is_nan()));
        let ends = rows(&store, "commands/arm/episode_ends");
        assert_eq!(ends, [(is_sent.len() as i64).to_le_bytes().to_vec()]);
    }
}

#[test]
fn a_part_has_the_commands_from_there_on() {
    let folder = tempfile::tempdir().unwrap();
    let Recorded { folder: bag, sent, between, .. } = recorded(folder.path());
    let out = folder.path().join("part");
    let start = Some(Moment::At(between));
    let summary = replayed(&bag, &out, &text(WATCHDOG_MS), Format::Mcap, start);
    let made = commands(&summary);
    assert_eq!((made.differing, made.unverifiable, made.of_recording), (0, 0, true));
    let file = out.join(format!("{}.mcap", summary.name));
    let part = messages(&file, "/arm/commands");
    assert!(part.len() > 50 && part.len() < sent.len(), "{} of {}", part.len(), sent.len());
    assert!(sent.ends_with(&part));
}

/// With other `commands` the facts say nothing, as in a bag of another recorder.
#[test]
fn without_facts_a_chunk_counts_from_its_receive_stamp_on() {
    let folder = tempfile::tempdir().unwrap();
    let Recorded { folder: bag, sent, .. } = recorded(folder.path());
    let other = text(WATCHDOG_MS + 1);
    let mut found = Vec::new();
    for (format, name) in [(Format::Zarr, "tensors.zarr"), (Format::Rows, "rows.zarr")] {
        let out = folder.path().join(name);
        let summary = replayed(&bag, &out, &other, format, None);
        let made = commands(&summary);
        assert!(made.written && !made.of_recording);
        let group = &made.groups["arm"];
        // Commands are enabled from the first tick on. A sequence that begins again is of another writer.
        assert_eq!(group.refused, BTreeMap::from([("writer".to_owned(), 1)]), "{name}");
        assert_eq!((group.chunks, group.starts), (10, 1), "{name}");
        let store = out.join(name);
        let of = |array: &str| -> Vec<i64> {
            let rows = rows(&store, array);
            rows.iter().map(|row| i64::from_le_bytes(*row.first_chunk().unwrap())).collect()
        };
        let at = of("chunks/arm/found_ns");
        let stamps = of("commands/arm/stamp_ns");
        // One command tick per period, without a gap.
        assert!(stamps.windows(2).all(|pair| pair[1] - pair[0] == PERIOD_NS));
        assert!(at.iter().all(|at| stamps.contains(at)));
        let values = rows(&store, "commands/arm/values");
        assert!(group.sent >= sent.len() as u64);
        found.push((at, stamps, values));
    }
    let bits = |(at, stamps, values): &(Vec<i64>, Vec<i64>, Vec<Vec<u8>>)| {
        (at.clone(), stamps.clone(), values.clone())
    };
    assert_eq!(bits(&found[0]), bits(&found[1]), "both formats have the same commands");
}

/// A policy counts the chunks of each group by themselves, and sends all on one topic.
#[test]
fn the_chunks_of_two_groups_on_a_topic_do_not_refuse_each_other() {
    let gripper = "
    gripper:
      joints: [g]
      rows: {steps: 20, step_ms: 20}
      start_from: joints
      watchdog_ms: 1000
      limits: none
      on_stall: hold
      on_end: hold
      output: {topic: /gripper/commands, type: std_msgs/msg/Float64MultiArray}
";
    let text = |watchdog_ms| text(watchdog_ms) + gripper;
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(&text(WATCHDOG_MS), folder.path(), |_| {}, By::Test);
    vectors(&node, 200, 0, |_| ());
    node.runtime.enable_commands().unwrap();
    for k in 1..=20 {
        give(&node, k, "arm", 1.0);
        if k % 4 == 0 {
            give(&node, k / 4, "gripper", 2.0);
        }
        vectors(&node, 50, 0, |_| ());
    }
    let bag = node.stop();
    for (watchdog_ms, of_recording) in [(WATCHDOG_MS, true), (WATCHDOG_MS + 1, false)] {
        let out = folder.path().join(watchdog_ms.to_string());
        let summary = replayed(&bag, &out, &text(watchdog_ms), Format::Zarr, None);
        let made = commands(&summary);
        assert_eq!((made.of_recording, made.waiting), (of_recording, 0));
        for (name, chunks) in [("arm", 20), ("gripper", 5)] {
            let group = &made.groups[name];
            assert_eq!(group.refused, BTreeMap::new(), "{name}, {of_recording}");
            assert_eq!((group.chunks, group.chunks_late), (chunks, 0), "{name}, {of_recording}");
        }
    }
}

/// As in the status of the node, a chunk whose rows are all past is none that counts.
#[test]
fn a_chunk_that_is_too_late_as_a_whole_is_counted_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(&text(WATCHDOG_MS), folder.path(), |_| {}, By::Test);
    vectors(&node, 200, 0, |_| ());
    node.runtime.enable_commands().unwrap();
    let before = node.now();
    give(&node, 1, "arm", 1.0);
    vectors(&node, 500, 0, |_| ());
    let tick = before.nanos() / PERIOD_NS;
    let names = ["a", "b"].map(str::to_owned);
    let late = SentChunk {
        run: RUN,
        epoch: node.runtime.clock.now().unwrap().epoch.number(),
        stamp: Stamp::from_nanos(tick * PERIOD_NS),
        tick,
        sequence: 2,
        group: "arm",
        names: &names,
        values: &[0.0; 40],
        reference: &[],
    };
    let of_node = node.runtime.commands.as_ref().unwrap();
    of_node.give(Arc::new(late.to_cdr(Vec::new())), 5);
    vectors(&node, 50, 0, |_| ());
    let bag = node.stop();
    let out = folder.path().join("tensors");
    let summary = replayed(&bag, &out, &text(WATCHDOG_MS), Format::Zarr, None);
    let group = &commands(&summary).groups["arm"];
    assert_eq!((group.chunks, group.chunks_late, group.refused.len()), (1, 1, 0));
    let late = group.rows_late;
    for path in [&bag, &out] {
        let html = page(path, "late");
        assert!(html.contains(&format!(", of 1 chunk. {late} rows came too late.")), "{path:?}");
        assert!(html.contains("All rows of 1 more chunk came too late."), "{path:?}");
    }
}

#[test]
fn an_array_of_commands_that_does_not_fit_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let Recorded { folder: bag, .. } = recorded(folder.path());
    let out = folder.path().join("tensors");
    replayed(&bag, &out, &text(WATCHDOG_MS), Format::Zarr, None);
    let store = out.join("tensors.zarr");
    let stages = store.join("commands/arm/stage");
    for (other, said) in [
        ("chunks/arm/rows_late", "rows of 4 bytes, expected 1"),
        ("chunks/arm/refused", "rows, found 11"),
    ] {
        std::fs::remove_dir_all(&stages).unwrap();
        let mut copy = std::process::Command::new("cp");
        let copied = copy.arg("-r").arg(store.join(other)).arg(&stages);
        assert!(copied.status().unwrap().success());
        let page = view::page(&out, &view::ViewOptions::default());
        let error = page.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains("commands/arm/stage") && error.contains(said), "{error}");
    }
}

#[test]
fn a_report_of_a_recording_and_of_its_stores_shows_the_commands() {
    let folder = tempfile::tempdir().unwrap();
    let Recorded { folder: bag, sent, .. } = recorded(folder.path());
    let tensors = folder.path().join("tensors");
    let rows = folder.path().join("rows");
    replayed(&bag, &tensors, &text(WATCHDOG_MS), Format::Zarr, None);
    replayed(&bag, &rows, &text(WATCHDOG_MS), Format::Rows, None);
    let said = format!("{} commands, of 9 chunks. 9 rows came too late.", sent.len());
    for (path, name) in [(&bag, "commands"), (&tensors, "tensors"), (&rows, "rows")] {
        let html = page(path, name);
        for wanted in [
            "Commands of arm",
            &said,
            "<th scope=row>chunks refused</th><td>disabled</td>",
            "commands of a",
            "late rows",
            "seams",
        ] {
            assert!(html.contains(wanted), "{name}: {wanted}");
        }
    }
}
