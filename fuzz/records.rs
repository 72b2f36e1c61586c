//! Messages of a bag as an input of a target: a byte for the topic, a byte for the time since the message before, two
//! for the length, and the bytes. A mutation of it is still a bag; only its messages are foreign.

use std::collections::BTreeMap;
use std::fs;
use std::io::Cursor;
use std::path::{Path, PathBuf};

use mcap::records::{MessageHeader, Metadata};
use mcap::{WriteOptions, Writer};

/// When the first message comes \[ns\].
pub(crate) const START: i64 = 1_795_000_000_000_000_000;
const MS: i64 = 1_000_000;
/// The time since the message before, if it is longer than all others: an hour \[ms\].
const LONG: (i8, i64) = (i8::MAX, 3_600_000);

/// A topic: its name, its type, and the text of its definition.
pub(crate) type Topic = (String, String, String);

/// A message: the number of its topic, the time since the one before \[ms\], and its bytes.
pub(crate) type Record = (u8, i8, Vec<u8>);

/// The messages of an input. What does not suffice for one more is left out.
pub(crate) fn read(mut input: &[u8]) -> Vec<Record> {
    let mut records = Vec::new();
    while let [topic, ms, low, high, rest @ ..] = input {
        let length = usize::from(u16::from_le_bytes([*low, *high])).min(rest.len());
        let (message, rest) = rest.split_at(length);
        records.push((*topic, *ms as i8, message.to_vec()));
        input = rest;
    }
    records
}

/// The input of these messages.
pub(crate) fn write(records: &[Record]) -> Vec<u8> {
    let one = |(topic, ms, message): &Record| {
        let length = u16::try_from(message.len()).expect("a short message").to_le_bytes();
        [&[*topic, *ms as u8][..], &length, message].concat()
    };
    records.iter().flat_map(one).collect()
}

/// Writes a bag of these messages. The number of a topic counts from the start again behind the last one.
pub(crate) fn bag(path: &Path, topics: &[Topic], about: Option<&Metadata>, records: &[Record]) {
    let mut file = Cursor::new(Vec::new());
    let options = WriteOptions::new().compression(None).use_chunks(false);
    let mut writer = Writer::with_options(&mut file, options).expect("a writer");
    let mut channels = Vec::new();
    for (topic, ros_type, definition) in topics {
        let schema = writer.add_schema(ros_type, "ros2msg", definition.as_bytes());
        let schema = schema.expect("a schema");
        let channel = writer.add_channel(schema, topic, "cdr", &BTreeMap::new());
        channels.push(channel.expect("a channel"));
    }
    if let Some(about) = about {
        writer.write_metadata(about).expect("a record");
    }
    let mut now = START;
    for (sequence, (topic, ms, message)) in records.iter().enumerate() {
        let ms = if *ms == LONG.0 { LONG.1 } else { i64::from(*ms) };
        now += ms * MS;
        let header = MessageHeader {
            channel_id: channels[usize::from(*topic) % channels.len()],
            sequence: sequence as u32,
            log_time: now as u64,
            publish_time: now as u64,
        };
        writer.write_to_known_channel(&header, message).expect("a message");
    }
    writer.finish().expect("an end");
    drop(writer);
    fs::write(path, file.into_inner()).expect("a file");
}

/// A folder of this process: several may run at once.
pub(crate) fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("robocache_fuzz_{}", std::process::id()));
    let folder = folder.join(name);
    fs::create_dir_all(&folder).expect("a folder");
    folder
}
