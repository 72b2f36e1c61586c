//! Small bags, as seeds.

use std::collections::BTreeMap;
use std::fs;
use std::io::Cursor;

use mcap::records::MessageHeader;
use mcap::{Compression, WriteOptions, Writer};
use rusqlite::{Connection, params};

const TYPE: &str = "geometry_msgs/msg/Vector3";
const TEXT: &str = "float64 x\nfloat64 y\nfloat64 z\n";

/// A byte for the kind, and a file.
pub(crate) fn bags() -> Vec<Vec<u8>> {
    let all = || WriteOptions::new().compression_threads(0);
    let options = [
        all().compression(None),
        all().compression(Some(Compression::Zstd)),
        all().compression(Some(Compression::Lz4)),
        all().use_chunks(false),
        all().compression(None).emit_summary_records(false).emit_message_indexes(false),
    ];
    let mut seeds: Vec<Vec<u8>> =
        options.into_iter().map(|options| seed(0, &mcap(options))).collect();
    seeds.push(seed(2, &zstd::encode_all(&seeds[0][1..], 1).expect("zstd")));
    seeds.extend([false, true].map(|compressed| seed(1, &sqlite(compressed))));
    seeds
}

fn seed(kind: u8, file: &[u8]) -> Vec<u8> {
    [&[kind], file].concat()
}

/// Eight messages on two topics, two in a chunk; their times overlap.
fn mcap(options: WriteOptions) -> Vec<u8> {
    let mut file = Cursor::new(Vec::new());
    let mut writer = Writer::with_options(&mut file, options.chunk_size(None)).expect("a writer");
    let schema = writer.add_schema(TYPE, "ros2msg", TEXT.as_bytes()).expect("a schema");
    for (sequence, log_time) in [30, 10, 20, 15, 20, 50, 40, 60].into_iter().enumerate() {
        let topic = ["/a", "/b"][sequence % 2];
        let channel_id =
            writer.add_channel(schema, topic, "cdr", &BTreeMap::new()).expect("a channel");
        let header = MessageHeader {
            channel_id,
            sequence: sequence as u32,
            log_time,
            publish_time: log_time - 1,
        };
        writer.write_to_known_channel(&header, &body()).expect("a message");
        if sequence % 2 == 1 {
            writer.flush().expect("a chunk");
        }
    }
    writer.finish().expect("an end");
    drop(writer);
    file.into_inner()
}

fn body() -> Vec<u8> {
    [&[0, 1, 0, 0][..], &[7; 24]].concat()
}

fn sqlite(compressed: bool) -> Vec<u8> {
    let path = std::env::temp_dir().join(format!("robocache_seed_{}.db3", std::process::id()));
    let connection = Connection::open(&path).expect("a database");
    connection
        .execute_batch(
            "PRAGMA page_size = 512;
             CREATE TABLE topics(id INTEGER PRIMARY KEY, name TEXT, type TEXT,
                 serialization_format TEXT, offered_qos_profiles TEXT);
             CREATE TABLE messages(id INTEGER PRIMARY KEY, topic_id INTEGER, timestamp INTEGER,
                 data BLOB);
             CREATE TABLE message_definitions(id INTEGER PRIMARY KEY, topic_type TEXT, encoding TEXT,
                 encoded_message_definition TEXT, type_description_hash TEXT);
             CREATE INDEX timestamp_idx ON messages (timestamp ASC);",
        )
        .expect("the tables");
    let define = "INSERT INTO message_definitions VALUES (1, ?1, 'ros2msg', ?2, '')";
    connection.execute(define, params![TYPE, TEXT]).expect("a definition");
    let topic = "INSERT INTO topics VALUES (1, '/a', ?1, 'cdr', '')";
    connection.execute(topic, params![TYPE]).expect("a topic");
    let data = if compressed { zstd::encode_all(&body()[..], 1).expect("zstd") } else { body() };
    for stamp in 0..8 {
        let insert = "INSERT INTO messages(topic_id, timestamp, data) VALUES (1, ?1, ?2)";
        connection.execute(insert, params![stamp, data]).expect("a message");
    }
    connection.close().expect("the end");
    let bytes = fs::read(&path).expect("the file");
    fs::remove_file(&path).expect("the file");
    bytes
}
