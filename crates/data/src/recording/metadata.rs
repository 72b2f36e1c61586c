//! `metadata.yaml`, which makes a folder a bag of rosbag2.

use std::fmt::Write;

use robocache_ops::time::Stamp;

/// A topic of a recording.
#[derive(Clone, Debug)]
pub(super) struct TopicCount {
    pub name: String,
    pub ros_type: String,
    /// The offered quality of service, as rosbag2 stores it.
    pub qos: String,
    pub messages: u64,
}

/// A file of a recording.
#[derive(Clone, Debug)]
pub(super) struct FileCount {
    pub name: String,
    pub span: Option<(Stamp, Stamp)>,
    /// Messages by topic.
    pub counts: Vec<u64>,
    /// Bytes that the disk got.
    pub stored: u64,
    /// The file with what this one begins with, if all files before it are deleted.
    pub lead: Option<Box<FileCount>>,
}

impl FileCount {
    /// Messages in it, events among them.
    fn messages(&self) -> u64 {
        self.counts.iter().sum()
    }
}

/// The text of the file, in version 5 of its format, which every distribution since Galactic reads.
pub(super) fn text(topics: &[TopicCount], files: &[FileCount]) -> String {
    let (first, last) = files
        .iter()
        .filter_map(|file| file.span)
        .reduce(|(a, b), (c, d)| (a.min(c), b.max(d)))
        .unwrap_or((Stamp::ZERO, Stamp::ZERO));
    let messages: u64 = files.iter().map(FileCount::messages).sum();
    let mut text = String::from("rosbag2_bagfile_information:\n  version: 5\n");
    text += "  storage_identifier: mcap\n";
    let _ = write!(text, "  duration:\n    nanoseconds: {}\n", last.since(first));
    let _ = write!(text, "  starting_time:\n    nanoseconds_since_epoch: {}\n", first.nanos());
    let _ = writeln!(text, "  message_count: {messages}");
    text += "  topics_with_message_count:\n";
    for TopicCount { name, ros_type, qos, messages } in topics {
        let qos = quoted(qos);
        let _ = write!(
            text,
            "    - topic_metadata:\n        name: {}\n        type: {ros_type}\n        \
             serialization_format: cdr\n        offered_qos_profiles: {qos}\n      \
             message_count: {messages}\n",
            quoted(name)
        );
    }
    text += "  compression_format: \"\"\n  compression_mode: \"\"\n  relative_file_paths:\n";
    for file in files {
        let _ = writeln!(text, "    - {}", quoted(&file.name));
    }
    text += "  files:\n";
    for file in files {
        let (first, last) = file.span.unwrap_or((first, first));
        let _ = write!(
            text,
            "    - path: {}\n      starting_time:\n        nanoseconds_since_epoch: {}\n      \
             duration:\n        nanoseconds: {}\n      message_count: {}\n",
            quoted(&file.name),
            first.nanos(),
            last.since(first),
            file.messages()
        );
    }
    text
}

/// A text in double quotes, as YAML and JSON both read it.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
