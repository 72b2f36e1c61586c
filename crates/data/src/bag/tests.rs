//! Bags that the writers of the crates make. tests/python reads those of independent writers.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use ::mcap::records::MessageHeader;
use ::mcap::{Compression, WriteOptions, Writer};
use rusqlite::{Connection, params};
use tempfile::TempDir;

use super::*;

const TYPE: &str = "std_msgs/msg/Float32";
const TEXT: &str = "float32 data\n";

/// A serialized message of 100 bytes that names itself.
fn body(number: u8) -> Vec<u8> {
    let mut bytes = vec![0, 1, 0, 0];
    bytes.extend((0..96).map(|at: u8| at.wrapping_mul(number)));
    bytes[4] = number;
    bytes
}

/// Writes messages (topic, stamp, number); a chunk ends after every `per_chunk`, never if it is 0.
fn write_mcap(path: &Path, options: WriteOptions, messages: &[(&str, u64, u8)], per_chunk: usize) {
    let messages = messages.iter().map(|(topic, stamp, number)| (*topic, *stamp, body(*number)));
    write(path, options, messages, per_chunk);
}

/// Writes another file in place of one. ext4 waits for the disk if a program writes over a file.
pub(super) fn write_again(path: &Path, bytes: &[u8]) {
    fs::remove_file(path).unwrap();
    fs::write(path, bytes).unwrap();
}

/// Writes messages of these bodies into one chunk.
pub(super) fn write_messages(
    path: &Path,
    options: WriteOptions,
    bodies: impl IntoIterator<Item = Vec<u8>>,
) {
    write(path, options, bodies.into_iter().map(|body| ("/a", 10, body)), 0);
}

fn write<'a>(
    path: &Path,
    options: WriteOptions,
    messages: impl Iterator<Item = (&'a str, u64, Vec<u8>)>,
    per_chunk: usize,
) {
    let file = fs::File::create(path).unwrap();
    let options = options.chunk_size(None).profile("ros2");
    let mut writer = Writer::with_options(file, options).unwrap();
    let schema = writer.add_schema(TYPE, "ros2msg", TEXT.as_bytes()).unwrap();
    for (count, (topic, stamp, body)) in messages.enumerate() {
        let channel_id = writer.add_channel(schema, topic, "cdr", &BTreeMap::new()).unwrap();
        let sequence = count as u32;
        let header = MessageHeader { channel_id, sequence, log_time: stamp, publish_time: stamp };
        writer.write_to_known_channel(&header, &body).unwrap();
        if per_chunk > 0 && (count + 1) % per_chunk == 0 {
            writer.flush().unwrap();
        }
    }
    writer.finish().unwrap();
}

/// The schema of a version of rosbag2's files: 3 has no definitions, 4 has them.
fn write_sqlite(path: &Path, version: u32, index: bool, messages: &[(&str, i64, u8)]) {
    let connection = Connection::open(path).unwrap();
    connection
        .execute_batch(
            "CREATE TABLE topics(id INTEGER PRIMARY KEY, name TEXT NOT NULL, type TEXT NOT NULL,
                 serialization_format TEXT NOT NULL, offered_qos_profiles TEXT NOT NULL);
             CREATE TABLE messages(id INTEGER PRIMARY KEY, topic_id INTEGER NOT NULL,
                 timestamp INTEGER NOT NULL, data BLOB NOT NULL);",
        )
        .unwrap();
    if index {
        connection.execute_batch("CREATE INDEX timestamp_idx ON messages (timestamp ASC)").unwrap();
    }
    if version == 4 {
        connection
            .execute_batch(
                "CREATE TABLE message_definitions(id INTEGER PRIMARY KEY, topic_type TEXT NOT NULL,
                     encoding TEXT NOT NULL, encoded_message_definition TEXT NOT NULL,
                     type_description_hash TEXT NOT NULL)",
            )
            .unwrap();
        let insert = "INSERT INTO message_definitions VALUES (1, ?1, 'ros2msg', ?2, '')";
        connection.execute(insert, params![TYPE, TEXT]).unwrap();
    }
    let mut names: Vec<&str> = Vec::new();
    // In one transaction: the disk is waited for once.
    connection.execute_batch("BEGIN").unwrap();
    for (topic, stamp, number) in messages {
        if !names.contains(topic) {
            names.push(topic);
            let insert = "INSERT INTO topics VALUES (?1, ?2, ?3, 'cdr', '')";
            connection.execute(insert, params![names.len() as i64, topic, TYPE]).unwrap();
        }
        let id = names.iter().position(|name| name == topic).unwrap() as i64 + 1;
        let insert = "INSERT INTO messages(topic_id, timestamp, data) VALUES (?1, ?2, ?3)";
        connection.execute(insert, params![id, stamp, body(*number)]).unwrap();
    }
    connection.execute_batch("COMMIT").unwrap();
}

/// Stamp and number of all messages of the wanted topics, and the problems, except disorder.
fn read(bag: &Bag, topics: &[&str]) -> (Vec<(i64, u8)>, Vec<String>) {
    let (found, mut problems) = read_from(bag, topics, Stamp::MIN);
    problems.retain(|problem| !problem.contains(DISORDER));
    (found, problems)
}

/// Part of the report on messages that were not written in the order of their stamps.
const DISORDER: &str = "found an earlier stamp written after";

/// As [`read`], from an instant on, with all problems.
fn read_from(bag: &Bag, topics: &[&str], from: Stamp) -> (Vec<(i64, u8)>, Vec<String>) {
    let wanted: Vec<_> = bag.topics.iter().map(|t| topics.contains(&t.name.as_str())).collect();
    let mut messages = bag.messages_from(&wanted, from).unwrap();
    let mut found = Vec::new();
    for message in messages.by_ref() {
        let number = message.bytes[4];
        assert_eq!(message.bytes, body(number));
        assert!(topics.contains(&bag.topics[message.topic].name.as_str()));
        found.push((message.received.nanos(), number));
    }
    let problems = messages.problems.first.iter().chain(&bag.problems);
    (found, problems.map(|problem| problem.what.clone()).collect())
}

/// Messages that overlap from chunk to chunk, two of one stamp among them.
const MIXED: [(&str, u64, u8); 8] = [
    ("/a", 30, 1),
    ("/b", 10, 2),
    ("/a", 20, 3),
    ("/a", 15, 4),
    ("/b", 20, 5),
    ("/a", 50, 6),
    ("/b", 40, 7),
    ("/a", 60, 8),
];
/// Stamps and numbers of the messages, in the order of their stamps.
const SORTED: [(i64, u8); 8] =
    [(10, 2), (15, 4), (20, 3), (20, 5), (30, 1), (40, 7), (50, 6), (60, 8)];

fn signed(messages: &[(&'static str, u64, u8)]) -> Vec<(&'static str, i64, u8)> {
    messages.iter().map(|(topic, stamp, number)| (*topic, *stamp as i64, *number)).collect()
}

#[test]
fn messages_of_mcap_come_in_the_order_of_their_stamps() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("x.mcap");
    let options = [
        WriteOptions::new().compression(Some(Compression::Zstd)),
        WriteOptions::new().compression(Some(Compression::Lz4)),
        WriteOptions::new().compression(None),
        WriteOptions::new().use_chunks(false),
        WriteOptions::new().emit_summary_records(false).emit_message_indexes(false),
    ];
    for (case, options) in options.into_iter().enumerate() {
        for per_chunk in [0, 1, 2, 3] {
            write_mcap(&path, options.clone(), &MIXED, per_chunk);
            let bag = Bag::open(&path).unwrap();
            let names: Vec<_> = bag.topics.iter().map(|topic| topic.name.as_str()).collect();
            assert_eq!(names, ["/a", "/b"], "{case}");
            let definition = Definition { encoding: "ros2msg".into(), text: TEXT.into() };
            assert_eq!(bag.topics[0].definition, Some(definition));
            let span = (Stamp::from_nanos(10), Stamp::from_nanos(60));
            assert_eq!(bag.span(), Some(span), "{case}");
            assert_eq!(read(&bag, &["/a", "/b"]), (SORTED.to_vec(), vec![]), "{case}");
            let of_b = vec![(10, 2), (20, 5), (40, 7)];
            assert_eq!(read(&bag, &["/b"]), (of_b, vec![]), "{case}");
            for from in [0, 20, 21, 60, 61] {
                let later =
                    SORTED.into_iter().filter(|(stamp, _)| *stamp >= from).collect::<Vec<_>>();
                let (found, _) = read_from(&bag, &["/a", "/b"], Stamp::from_nanos(from));
                assert_eq!(found, later, "{case} {from}");
            }
            if case < 4 {
                assert_eq!(
                    bag.topics.iter().map(|t| t.messages).collect::<Vec<_>>(),
                    [Some(5), Some(3)]
                );
            }
        }
    }
}

#[test]
fn a_file_that_ends_early_is_read_up_to_its_end() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("x.mcap");
    for chunks in [true, false] {
        let options = WriteOptions::new().compression(None).use_chunks(chunks);
        write_mcap(&path, options, &MIXED, 2);
        let whole = fs::read(&path).unwrap();
        let mut counts = Vec::new();
        // Every length: nothing panics, and what is found is a part of what was written.
        for length in (8..whole.len()).rev() {
            write_again(&path, &whole[..length]);
            let bag = Bag::open(&path).unwrap();
            let (found, problems) = read(&bag, &["/a", "/b"]);
            assert!(found.iter().all(|message| SORTED.contains(message)), "{length}");
            assert!(found.is_sorted_by_key(|(stamp, _)| *stamp));
            let footer_is_there = length >= whole.len() - 8;
            assert_eq!(problems.is_empty(), footer_is_there, "{length} {problems:?}");
            counts.push(found.len());
        }
        assert!(counts.is_sorted_by(|a, b| a >= b), "{counts:?}");
        let steps: std::collections::BTreeSet<_> = counts.into_iter().collect();
        let expected: Vec<usize> = if chunks { vec![0, 2, 4, 6, 8] } else { (0..=8).collect() };
        assert_eq!(steps.into_iter().collect::<Vec<_>>(), expected);
    }
    for (bytes, found) in [(&b""[..], "an empty file"), (b"\x89MCAX0\r\n", "other bytes")] {
        fs::write(&path, bytes).unwrap();
        let error = Bag::open(&path).unwrap_err().to_string();
        assert!(error.contains(found), "{error}");
    }
}

#[test]
fn a_flipped_byte_costs_its_chunk_or_is_told() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("x.mcap");
    for compression in [None, Some(Compression::Zstd)] {
        write_mcap(&path, WriteOptions::new().compression(compression), &MIXED, 2);
        let whole = fs::read(&path).unwrap();
        let mut lost = 0;
        for at in 8..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x10;
            write_again(&path, &damaged);
            let bag = Bag::open(&path).unwrap();
            let (found, problems) = read(&bag, &["/a", "/b"]);
            // Names and indices outside of chunks have no checksum of their own. Messages have.
            assert!(found.iter().all(|message| SORTED.contains(message)), "{at}");
            let right = found.len() == 8 && found.is_sorted_by_key(|(stamp, _)| *stamp);
            assert!(right || !problems.is_empty(), "{at}: {found:?}");
            // Chunks without the topic are skipped.
            let (of_b, problems) = read(&bag, &["/b"]);
            let right = of_b == [(10, 2), (20, 5), (40, 7)];
            assert!(right || !problems.is_empty(), "{at}: {of_b:?}");
            lost += usize::from(found.len() == 6);
        }
        assert!(lost > 100, "{lost}");
    }
}

#[test]
fn counts_that_lie_are_told() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("x.mcap");
    write_mcap(&path, WriteOptions::new().compression(None).use_chunks(false), &MIXED, 0);
    let mut bytes = fs::read(&path).unwrap();
    // The statistics say how many messages of two topics there are.
    let counts: Vec<u8> =
        [[1, 0, 5], [2, 0, 3]].iter().flat_map(|count| [&count[..], &[0; 7]].concat()).collect();
    let at = bytes.windows(counts.len()).position(|part| part == counts).unwrap();
    bytes[at + 2..at + 10].fill(0xff);
    // Without its checksum, the index is believed.
    let end = bytes.len() - 8;
    bytes[end - 4..end].fill(0);
    fs::write(&path, &bytes).unwrap();
    let bag = Bag::open(&path).unwrap();
    let (found, problems) = read(&bag, &["/a", "/b"]);
    assert_eq!(found, SORTED);
    let told = format!("expected {} messages, as it says itself, found 8", u64::MAX);
    assert!(problems.iter().any(|problem| problem.contains(&told)), "{problems:?}");
}

#[test]
fn sqlite_is_read_with_and_without_definitions_and_index() {
    let folder = TempDir::new().unwrap();
    for (version, index) in [(3, true), (4, true), (4, false)] {
        let path = folder.path().join(format!("x_{version}_{index}.db3"));
        write_sqlite(&path, version, index, &signed(&MIXED));
        let bag = Bag::open(&path).unwrap();
        assert_eq!(bag.topics[1].definition.is_some(), version == 4);
        assert_eq!(bag.span(), Some((Stamp::from_nanos(10), Stamp::from_nanos(60))));
        assert_eq!(read(&bag, &["/a", "/b"]), (SORTED.to_vec(), vec![]));
        let (found, _) = read_from(&bag, &["/a", "/b"], Stamp::from_nanos(20));
        assert_eq!(found, SORTED[2..]);
    }
    // More than a page.
    let path = folder.path().join("long.db3");
    let many: Vec<_> =
        (0..2_500).map(|n| ("/a", 7 * ((n * 37) % 2_500) / 20, (n % 250) as u8)).collect();
    write_sqlite(&path, 4, true, &many);
    let mut expected: Vec<_> = many.iter().map(|(_, stamp, number)| (*stamp, *number)).collect();
    expected.sort_by_key(|(stamp, _)| *stamp);
    let (found, problems) = read(&Bag::open(&path).unwrap(), &["/a"]);
    assert_eq!((found, problems), (expected, vec![]));
}

#[test]
fn a_view_in_place_of_a_table_is_not_read() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("x.db3");
    write_sqlite(&path, 4, true, &signed(&MIXED));
    let connection = Connection::open(&path).unwrap();
    let endless = "DROP TABLE messages; CREATE VIEW messages AS
        WITH RECURSIVE n(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n)
        SELECT id, 1 AS topic_id, id AS timestamp, x'00010000' AS data FROM n";
    connection.execute_batch(endless).unwrap();
    let error = Bag::open(&path).unwrap_err().to_string();
    assert!(error.contains("expected the tables"), "{error}");
}

#[test]
fn a_recorders_clock_that_was_set_back_is_told() {
    let folder = TempDir::new().unwrap();
    let [mcap, sqlite] = ["x.mcap", "x.db3"].map(|name| folder.path().join(name));
    let right = SORTED.map(|(stamp, number)| ("/a", stamp as u64, number));
    for (messages, told) in [(MIXED, 1), (right, 0)] {
        write_mcap(&mcap, WriteOptions::new(), &messages, 2);
        write_sqlite(&sqlite, 4, true, &signed(&messages));
        for path in [&mcap, &sqlite] {
            let (found, problems) = read_from(&Bag::open(path).unwrap(), &["/a", "/b"], Stamp::MIN);
            assert_eq!(found, SORTED);
            // Once for `/a`. The messages of `/b` are in order.
            let disorder = problems.iter().filter(|problem| problem.contains(DISORDER));
            assert_eq!((disorder.count(), problems.len()), (told, told), "{problems:?}");
        }
        fs::remove_file(&sqlite).unwrap();
    }
}

#[test]
fn chunks_of_the_same_time_that_are_too_large_together_are_an_error() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("x.mcap");
    let many: Vec<_> = (0..60).map(|n| ("/a", u64::from(n), n)).collect();
    // In chunks that follow each other there may be any number.
    for (per_chunk, right) in [(10, true), (0, false)] {
        write_mcap(&path, WriteOptions::new(), &many, per_chunk);
        let bag = Bag::open(&path).unwrap();
        let mut messages = bag.messages(&[true]).unwrap();
        assert_eq!(messages.by_ref().count(), if right { 60 } else { 0 });
        assert_eq!(messages.problems.unreadable, !right);
    }
}

#[test]
fn a_damaged_sqlite_file_is_read_as_far_as_it_goes() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("x.db3");
    let many: Vec<_> = (0..2_500).map(|n| ("/a", n, (n % 250) as u8)).collect();
    write_sqlite(&path, 4, true, &many);
    let whole = fs::read(&path).unwrap();
    for part in [0.1, 0.5, 0.9] {
        fs::write(&path, &whole[..(whole.len() as f64 * part) as usize]).unwrap();
        let Ok(bag) = Bag::open(&path) else { continue };
        let (found, problems) = read(&bag, &["/a"]);
        assert!(found.len() < many.len() && !problems.is_empty(), "{part}: {}", found.len());
    }
    fs::write(&path, "no database").unwrap();
    assert!(Bag::open(&path).is_err());
}

#[test]
fn the_files_of_a_folder_are_one_bag() {
    let folder = TempDir::new().unwrap();
    let file = |name: &str| folder.path().join(name);
    write_mcap(&file("x_0.mcap"), WriteOptions::new(), &MIXED[..3], 1);
    write_mcap(&file("x_2.mcap"), WriteOptions::new(), &MIXED[3..6], 1);
    write_mcap(&file("x_10.mcap"), WriteOptions::new(), &MIXED[6..], 1);
    let bag = Bag::open(folder.path()).unwrap();
    assert_eq!((bag.files(), bag.topics[0].messages), (3, Some(5)));
    assert_eq!(read(&bag, &["/a", "/b"]), (SORTED.to_vec(), vec![]));

    // As metadata.yaml names them; a topic without messages is only there.
    let metadata = "rosbag2_bagfile_information:
  version: 9
  storage_identifier: mcap
  message_count: 8
  topics_with_message_count:
    - topic_metadata: {name: /c, type: a_msgs/msg/B, serialization_format: cdr,
                       offered_qos_profiles: []}
      message_count: 0
  compression_format: \"\"
  compression_mode: \"\"
  relative_file_paths: [x_0.mcap, x_2.mcap, x_10.mcap, x_11.mcap]
";
    fs::write(file("metadata.yaml"), metadata).unwrap();
    let bag = Bag::open(folder.path()).unwrap();
    assert_eq!((bag.topics[2].name.as_str(), bag.topics[2].messages), ("/c", Some(0)));
    let (found, problems) = read(&bag, &["/a", "/b"]);
    assert_eq!(found, SORTED);
    assert_eq!(problems, ["expected this file, as metadata.yaml names it, found none"]);
    assert_eq!(Bag::open(&file("metadata.yaml")).unwrap().files(), 3);
    fs::write(file("metadata.yaml"), "a: [").unwrap();
    let (found, problems) = read(&Bag::open(folder.path()).unwrap(), &["/a", "/b"]);
    assert_eq!((found.len(), problems.len()), (8, 1));
    let empty = TempDir::new().unwrap();
    let error = Bag::open(empty.path()).unwrap_err().to_string();
    assert!(error.contains("expected a bag of rosbag2"), "{error}");

    // A folder of bags.
    let folder = TempDir::new().unwrap();
    let bag = folder.path().join("one");
    fs::create_dir(&bag).unwrap();
    fs::write(bag.join("metadata.yaml"), "").unwrap();
    let error = Bag::open(folder.path()).unwrap_err().to_string();
    assert!(error.contains(&format!("name one, such as {}", bag.display())), "{error}");
    assert!(Bag::open(&empty.path().join("nothing")).is_err());
}

#[test]
fn compressed_files_and_messages_are_read() {
    let folder = TempDir::new().unwrap();
    let plain = folder.path().join("x.mcap");
    write_mcap(&plain, WriteOptions::new(), &MIXED, 2);
    let bytes = zstd::encode_all(fs::read(&plain).unwrap().as_slice(), 1).unwrap();
    let path = folder.path().join("x.mcap.zstd");
    fs::write(&path, &bytes).unwrap();
    // Both forms are one file of the bag.
    assert_eq!(Bag::open(folder.path()).unwrap().files(), 1);
    fs::remove_file(&plain).unwrap();
    assert_eq!(read(&Bag::open(folder.path()).unwrap(), &["/a", "/b"]), (SORTED.to_vec(), vec![]));
    // Blocks are read up to the break. This file is one block, so nothing of it is.
    fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    let error = Bag::open(&path).unwrap_err().to_string();
    assert!(error.contains("zstd"), "{error}");
    let more: Vec<_> = (0..250).map(|n| ("/a", u64::from(n), n)).collect();
    let long = folder.path().join("long.mcap");
    write_mcap(&long, WriteOptions::new(), &more, 2);
    let mut frames = Vec::new();
    for part in fs::read(&long).unwrap().chunks(4096) {
        frames.extend(zstd::encode_all(part, 1).unwrap());
    }
    fs::write(&path, &frames[..frames.len() / 2]).unwrap();
    let (found, problems) = read(&Bag::open(&path).unwrap(), &["/a"]);
    assert!((1..250).contains(&found.len()), "{}", found.len());
    assert!(problems.iter().any(|problem| problem.starts_with("zstd")), "{problems:?}");

    let path = folder.path().join("y.db3");
    write_sqlite(&path, 4, true, &signed(&MIXED));
    let connection = Connection::open(&path).unwrap();
    for id in 1..=8 {
        let plain: Vec<u8> = connection
            .query_row("SELECT data FROM messages WHERE id = ?1", [id], |row| row.get(0))
            .unwrap();
        let packed = zstd::encode_all(plain.as_slice(), 1).unwrap();
        let packed = if id == 3 { packed[..packed.len() - 5].to_vec() } else { packed };
        connection
            .execute("UPDATE messages SET data = ?1 WHERE id = ?2", params![packed, id])
            .unwrap();
    }
    let (found, problems) = read(&Bag::open(&path).unwrap(), &["/a", "/b"]);
    let expected: Vec<_> = SORTED.into_iter().filter(|(_, number)| *number != 3).collect();
    assert_eq!(found, expected);
    assert!(problems[0].starts_with("message 3 is not read: zstd"), "{problems:?}");
}

#[test]
fn the_order_of_writing_is_kept_although_the_clock_was_set() {
    let folder = TempDir::new().unwrap();
    let messages =
        [("/a", 30_u64, 1_u8), ("/b", 40, 2), ("/a", 10, 3), ("/b", 20, 4), ("/a", 50, 5)];
    let signed = messages.map(|(topic, stamp, number)| (topic, stamp as i64, number));
    for per_chunk in [0, 1, 2] {
        write_mcap(&folder.path().join("w.mcap"), WriteOptions::new(), &messages, per_chunk);
        write_sqlite(&folder.path().join("w.db3"), 4, per_chunk == 0, &signed);
        for name in ["w.mcap", "w.db3"] {
            let bag = Bag::open(&folder.path().join(name)).unwrap();
            let numbers = |sorted| -> Vec<u8> {
                let all = bag.messages_sorted(&[true, true], sorted).unwrap();
                all.map(|message| message.bytes[4]).collect()
            };
            assert_eq!(numbers(Sorted::AsWritten), [1, 2, 3, 4, 5], "{name}");
            assert_eq!(numbers(Sorted::ByStamp(Stamp::MIN)), [3, 4, 1, 2, 5], "{name}");
            let only: Vec<_> =
                bag.messages_sorted(&[false, true], Sorted::AsWritten).unwrap().collect();
            assert_eq!(only.iter().map(|message| message.bytes[4]).collect::<Vec<_>>(), [2, 4]);
        }
        fs::remove_file(folder.path().join("w.db3")).unwrap();
    }
}
