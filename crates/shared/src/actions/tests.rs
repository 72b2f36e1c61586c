//! A node and its policies, in one process; and writers that are killed, in others.

use std::os::unix::process::parent_id;
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;

use super::super::service;
use super::super::tests::name;
use super::*;
use crate::{InfoPublisher, TensorReader};
use robocache_core::command::{
    ActionChunk, CommandStatus, GroupCounts, MOST_ROWS, Newest, Refusal, RefusedChunk, Stage,
    WaitsFor,
};
use robocache_core::config;
use robocache_core::config::describe::shared_memory::READERS;
use robocache_core::spec::CommandsSpec;
use robocache_ops::time::Stamp;
use robocache_testing::{Lines, until};

const TEXT: &str = "rate_hz: 100
streams: {joints: {type: sensor_msgs/JointState, topic: /joints, joints: [a, b], max_age_ms: 50}}
commands:
  rate_hz: 250
  groups:
    arm:
      {joints: [a, b], rows: {steps: 5, step_ms: 20}, start_from: joints, watchdog_ms: 500, limits: none,
       on_stall: hold, on_end: hold, output: {topic: /c, type: std_msgs/msg/Float64MultiArray}}
";
/// The name of the service, in a process that a test starts.
const SERVICE_OF_CHILD: &str = "ROBOCACHE_TEST_SERVICE";
/// The process that started this one.
static PARENT: LazyLock<u32> = LazyLock::new(parent_id);

fn commands() -> CommandsSpec {
    config::parse(TEXT, "test.yaml").unwrap().commands.unwrap()
}

fn joints() -> Vec<String> {
    ["a", "b"].map(str::to_owned).to_vec()
}

fn writer(service: &str) -> ActionWriter {
    ActionWriter::new(service, "arm", &joints()).unwrap()
}

fn answered(tick: i64) -> Answered {
    Answered { run: 9, epoch: 2, stamp: Stamp::from_nanos(tick * 10_000_000), tick }
}

/// Takes chunks as a node does: the number and the writer of each, and how many were lost.
fn taken(reader: &mut ChunkReader) -> (Vec<(u64, u64)>, u64) {
    let mut chunks = Vec::new();
    let lost = reader.take(&mut |message, writer| {
        chunks.push((ActionChunk::read(message).unwrap().sequence, writer));
    });
    (chunks, lost.unwrap())
}

fn tell(publisher: &mut StatusPublisher, newest: Option<Newest>, refused: &[RefusedChunk]) {
    for group in ["arm", "leg"] {
        let counts = GroupCounts { chunks: 4, clipped: vec![0, 3], ..GroupCounts::default() };
        let status = CommandStatus {
            stamp: Stamp::from_nanos(1_000_000_000),
            run: 9,
            group,
            stage: Stage::Following,
            waits_for: WaitsFor::Nothing,
            newest,
            refused,
            counts: &counts,
            joints: &joints(),
        };
        publisher.send(9, &status.to_cdr(Vec::new())).unwrap();
    }
}

#[test]
fn a_chunk_goes_to_the_node_and_the_status_of_its_group_comes_back() {
    let service = name();
    // Either may come first.
    let mut arm = writer(&service);
    assert!(!arm.has_node());
    assert_eq!(arm.send(answered(1), &[0.0; 2], &[]).unwrap(), 1, "nobody takes it");
    let mut reader = ChunkReader::new(&service).unwrap();
    let mut publisher = StatusPublisher::new(&service, &commands()).unwrap();
    assert!(arm.has_node());
    assert_eq!(arm.status().unwrap(), None);
    assert_eq!(arm.send(answered(51), &[1.0, 2.0, 3.0, 4.0], &[0.5, 0.25]).unwrap(), 2);
    let mut writers = Vec::new();
    reader
        .take(&mut |message, writer| {
            let chunk = ActionChunk::read(message).unwrap();
            assert_eq!((chunk.run, chunk.epoch, chunk.tick, chunk.sequence), (9, 2, 51, 2));
            assert_eq!(
                (chunk.stamp.nanos(), chunk.group, chunk.rows),
                (510_000_000, &b"arm"[..], 2)
            );
            assert_eq!(chunk.values.iter().collect::<Vec<_>>(), [1.0, 2.0, 3.0, 4.0]);
            assert_eq!(chunk.reference.iter().collect::<Vec<_>>(), [0.5, 0.25]);
            assert!(chunk.has_names(["a", "b"].into_iter()));
            writers.push(writer);
        })
        .unwrap();
    assert_eq!(taken(&mut reader), (vec![], 0));
    let writer = writers[0];
    let of = |writer, sequence, refusal| RefusedChunk { writer, sequence, refusal };
    let refused = [of(writer, 1, Refusal::Disabled), of(7, 5, Refusal::Writer)];
    tell(&mut publisher, Some(Newest { writer, sequence: 2, delay_ticks: 3 }), &refused);
    let status = arm.status().unwrap().unwrap();
    assert_eq!((status.group.as_str(), status.stage), ("arm", Stage::Following));
    assert_eq!(status.newest, Some(Newest { writer, sequence: 2, delay_ticks: 3 }));
    assert_eq!((&status.refused[..], status.chunks), (&refused[..1], 4));
    assert_eq!(status.clipped, [("a".to_owned(), 0), ("b".to_owned(), 3)]);
    // The chunk of another writer is none of this one. Its refusals stay.
    tell(&mut publisher, Some(Newest { writer: 7, sequence: 9, delay_ticks: 3 }), &[]);
    let status = arm.status().unwrap().unwrap();
    assert_eq!((status.newest, &status.refused[..]), (None, &refused[..1]));
}

#[test]
fn a_writer_and_a_node_may_start_again() {
    let service = name();
    let mut arm = writer(&service);
    for round in 1..4 {
        let mut reader = ChunkReader::new(&service).unwrap();
        let mut publisher = StatusPublisher::new(&service, &commands()).unwrap();
        let of_arm = arm.send(answered(round), &[0.0; 2], &[]).unwrap();
        let mut other = writer(&service);
        other.send(answered(round), &[0.0; 2], &[]).unwrap();
        let (chunks, lost) = taken(&mut reader);
        let numbers: Vec<_> = chunks.iter().map(|(number, _)| *number).collect();
        assert_eq!((numbers, lost), (vec![of_arm, 1], 0));
        assert_ne!(chunks[0].1, chunks[1].1);
        tell(
            &mut publisher,
            Some(Newest { writer: chunks[0].1, sequence: of_arm, delay_ticks: 1 }),
            &[],
        );
        let newest = arm.status().unwrap().unwrap().newest.unwrap();
        assert_eq!(newest.sequence, of_arm);
        assert_eq!(other.status().unwrap().unwrap().newest, None);
    }
}

#[test]
fn chunks_that_nobody_takes_in_time_are_replaced_and_counted() {
    let service = name();
    let mut reader = ChunkReader::new(&service).unwrap();
    let mut arm = writer(&service);
    arm.send(answered(1), &[0.0; 2], &[]).unwrap();
    assert_eq!(taken(&mut reader).1, 0);
    let sent = CHUNKS_WAITING as u64 + 3;
    for tick in 0..sent {
        arm.send(answered(tick as i64), &[0.0; 2], &[]).unwrap();
    }
    let (chunks, lost) = taken(&mut reader);
    let numbers: Vec<_> = chunks.iter().map(|(number, _)| *number).collect();
    assert_eq!((numbers, lost), ((5..=sent + 1).collect::<Vec<_>>(), 3));
}

#[test]
fn a_writer_knows_what_the_node_says_of_a_run() {
    let service = name();
    let mut writers: Vec<_> = (0..WRITERS).map(|_| writer(&service)).collect();
    assert_eq!(writers[0].info(9).unwrap(), None, "no node is there");
    let mut node = InfoPublisher::new(&service, 9, b"of the node").unwrap();
    // As many readers as there may be.
    let mut readers: Vec<_> = (0..READERS).map(|_| TensorReader::new(&service).unwrap()).collect();
    for reader in &mut readers {
        reader.info().unwrap();
    }
    for writer in &mut writers {
        writer.info(9).unwrap();
    }
    node.follow().unwrap();
    for writer in &mut writers {
        assert_eq!(writer.info(8).unwrap(), None, "of another run");
        assert_eq!(writer.info(9).unwrap(), Some(&b"of the node"[..]));
    }
    assert_eq!(readers[0].info().unwrap(), Some(&b"of the node"[..]));
    node.serve(10).unwrap();
    assert_eq!(writers[0].info(9).unwrap(), None);
    assert_eq!(writers[0].info(10).unwrap(), Some(&b"of the node"[..]));
}

#[test]
fn writers_nodes_and_rows_are_limited_by_words() {
    let words = |error: SharedError| error.to_string();
    let service = name();
    let mut writers: Vec<_> = (0..WRITERS).map(|_| writer(&service)).collect();
    let full = words(ActionWriter::new(&service, "arm", &joints()).unwrap_err());
    assert_eq!(full, format!("'{service}' has 4 writers already: end one"));
    let _reader = ChunkReader::new(&service).unwrap();
    assert!(words(ChunkReader::new(&service).unwrap_err()).starts_with("another node publishes"));
    let _publisher = StatusPublisher::new(&service, &commands()).unwrap();
    let second = StatusPublisher::new(&service, &commands()).unwrap_err();
    assert!(words(second).starts_with("another node publishes"));
    let most = vec![0.0; 2 * MOST_ROWS + 2];
    let refused = words(writers[0].send(answered(1), &most, &[]).unwrap_err());
    assert_eq!(refused, "values: expected at most 1024 rows, found 1025");
    writers[0].send(answered(1), &most[2..], &[0.0; 2]).unwrap();
    drop(writers);
    writer(&service);
    for wrong in ["", "/robot", "a b", "robot:chunks"] {
        let refused = words(ActionWriter::new(wrong, "arm", &joints()).unwrap_err());
        assert!(refused.starts_with("expected the name of a service"), "{refused}");
    }
}

#[test]
fn the_services_of_messages_are_no_names_of_tensors() {
    let service = name();
    let arm = writer(&service);
    let _publisher = StatusPublisher::new(&service, &commands()).unwrap();
    assert!(arm.services().unwrap().iter().all(|name| !name.starts_with(&service)));
}

/// The header of a program that knows another layout of the messages.
#[derive(Clone, Copy, Debug, Default, ZeroCopySend)]
#[repr(C)]
struct OtherHeader([u64; 3]);

#[test]
fn a_policy_of_another_version_is_refused_by_words() {
    let service = name();
    let node = service::node(&service).unwrap();
    let other = ServiceName::new(&format!("{service}:chunks")).unwrap();
    let other = node.service_builder(&other).publish_subscribe::<[u8]>();
    let _other = other.user_header::<OtherHeader>().open_or_create().unwrap();
    for refused in [
        ActionWriter::new(&service, "arm", &joints()).unwrap_err(),
        ChunkReader::new(&service).unwrap_err(),
    ] {
        assert!(matches!(refused, SharedError::OtherVersion { .. }), "{refused}");
    }
}

/// Runs a test of this program in a process of its own.
fn child(test: &str, service: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("actions::tests::{test}"), "--nocapture", "--ignored"])
        .env(SERVICE_OF_CHILD, service)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// True in a process of a test that goes on.
fn is_child() -> bool {
    // Of a process whose parent has ended, another one is the parent.
    parent_id() == *PARENT
}

#[test]
#[ignore = "the process of another test, which kills it"]
fn a_writer_without_end() {
    let service = std::env::var(SERVICE_OF_CHILD).unwrap();
    let mut arm = writer(&service);
    for tick in (0..).take_while(|_| is_child()) {
        arm.send(answered(tick), &[0.0; 2], &[]).unwrap();
        if tick == 0 {
            println!("\nit writes");
        }
    }
}

#[test]
fn writers_that_are_killed_while_they_write_harm_nobody() {
    let service = name();
    let mut reader = ChunkReader::new(&service).unwrap();
    let mut publisher = StatusPublisher::new(&service, &commands()).unwrap();
    let mut arm = writer(&service);
    // More than may write at once: what those that were killed have left is taken away.
    for round in 0..2 * WRITERS as i64 {
        let mut child = child("a_writer_without_end", &service);
        let lines = Lines::of(&mut child);
        while lines.next("a writer").unwrap() != "it writes" {}
        let mut count = 0;
        until("chunks of the writer", || {
            count += taken(&mut reader).0.len();
            tell(&mut publisher, None, &[]);
            count > 50
        });
        child.kill().unwrap();
        child.wait().unwrap();
        // What it sent last is whole.
        let of_killed = taken(&mut reader).0.len();
        assert!(of_killed <= CHUNKS_WAITING, "{of_killed}");
        let sent = arm.send(answered(round), &[0.0; 2], &[]).unwrap();
        let (chunks, lost) = taken(&mut reader);
        assert_eq!((chunks.len(), chunks[0].0, lost), (1, sent, 0));
        tell(
            &mut publisher,
            Some(Newest { writer: chunks[0].1, sequence: sent, delay_ticks: 1 }),
            &[],
        );
        assert_eq!(arm.status().unwrap().unwrap().newest.unwrap().sequence, sent);
    }
}

#[test]
#[ignore = "the process of another test, which kills it"]
fn a_node_without_end() {
    let service = std::env::var(SERVICE_OF_CHILD).unwrap();
    let mut reader = ChunkReader::new(&service).unwrap();
    let mut publisher = StatusPublisher::new(&service, &commands()).unwrap();
    println!("\nit takes");
    while is_child() {
        for (sequence, writer) in taken(&mut reader).0 {
            tell(&mut publisher, Some(Newest { writer, sequence, delay_ticks: 1 }), &[]);
        }
    }
}

#[test]
fn a_node_that_is_killed_leaves_its_place_to_the_next() {
    let service = name();
    let mut arm = writer(&service);
    for round in 0..3 {
        let mut child = child("a_node_without_end", &service);
        let lines = Lines::of(&mut child);
        while lines.next("a node").unwrap() != "it takes" {}
        let first = arm.send(answered(round), &[0.0; 2], &[]).unwrap();
        let mut sent = first;
        until("the node's status", || {
            sent = arm.send(answered(round), &[0.0; 2], &[]).unwrap();
            let newest = arm.status().unwrap().and_then(|status| status.newest);
            newest.is_some_and(|newest| newest.sequence >= first)
        });
        child.kill().unwrap();
        child.wait().unwrap();
        // Nobody takes these, and the writer does not wait for it.
        for _ in 0..3 * CHUNKS_WAITING {
            sent = arm.send(answered(round), &[0.0; 2], &[]).unwrap();
        }
        let mut reader = ChunkReader::new(&service).unwrap();
        let _publisher = StatusPublisher::new(&service, &commands()).unwrap();
        assert_eq!(taken(&mut reader), (vec![], 0));
        arm.send(answered(round), &[0.0; 2], &[]).unwrap();
        assert_eq!(taken(&mut reader).0[0].0, sent + 1);
    }
}
