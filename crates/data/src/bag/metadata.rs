//! `metadata.yaml` of rosbag2: which files a bag has, and what its topics are.

use std::path::{Path, PathBuf};

use super::{BagError, Topic};
use robocache_core::config::node::{self, Node};

/// The file's name.
pub(super) const NAME: &str = "metadata.yaml";
/// Largest file that is read \[bytes\]. A bag of ten thousand files has less.
const MOST_BYTES: u64 = 64 << 20;

/// Contents of `metadata.yaml`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Metadata {
    /// The files, relative to the folder, in the order of recording.
    pub files: Vec<PathBuf>,
    /// The topics. They have no definitions.
    pub topics: Vec<Topic>,
    /// Number of messages; `None` if it does not say.
    pub messages: Option<u64>,
}

/// Reads the `metadata.yaml` of a folder; `None` if it is missing.
pub(super) fn read(folder: &Path) -> Result<Option<Metadata>, BagError> {
    let path = folder.join(NAME);
    if !path.exists() {
        return Ok(None);
    }
    let size = path.metadata().map_err(BagError::io(&path))?.len();
    if size > MOST_BYTES {
        let what = format!("expected at most {MOST_BYTES} bytes, found {size}");
        return Err(BagError::damaged(&path, what));
    }
    let text = std::fs::read_to_string(&path).map_err(BagError::io(&path))?;
    parse(&text).map(Some).map_err(|what| BagError::damaged(&path, what))
}

fn parse(text: &str) -> Result<Metadata, String> {
    let mut problems = Vec::new();
    let root = node::read(text, NAME, &mut problems).map_err(|problem| problem.to_string())?;
    if let Some(problem) = problems.first() {
        return Err(problem.to_string());
    }
    let info = root.get("rosbag2_bagfile_information");
    let info = info.ok_or("expected rosbag2_bagfile_information, found another file")?;
    let files = info.get("relative_file_paths").map(|node| texts(node)).unwrap_or_default();
    let topics = info.get("topics_with_message_count").and_then(|node| node.items());
    Ok(Metadata {
        files: files.into_iter().map(PathBuf::from).collect(),
        topics: topics.unwrap_or_default().iter().filter_map(|node| topic(node)).collect(),
        messages: number(info, "message_count"),
    })
}

/// An entry of `topics_with_message_count`.
fn topic(entry: &Node) -> Option<Topic> {
    let topic = entry.get("topic_metadata")?;
    let text = |key: &str| Some(topic.get(key)?.scalar()?.to_owned());
    Some(Topic {
        name: text("name")?,
        ros_type: text("type")?,
        format: text("serialization_format")?,
        definition: None,
        messages: number(entry, "message_count"),
        offered_qos: text("offered_qos_profiles").unwrap_or_default(),
        array: None,
    })
}

fn number(node: &Node, key: &str) -> Option<u64> {
    node.get(key)?.scalar()?.parse().ok()
}

fn texts(list: &Node) -> Vec<String> {
    let items = list.items().unwrap_or_default();
    items.iter().filter_map(|item| item.scalar().map(str::to_owned)).collect()
}
