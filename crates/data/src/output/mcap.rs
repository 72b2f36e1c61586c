//! Tensors as `robocache_ros/msg/FusedTensor` in MCAP, as `ros2 bag record` would have written them.

mod chunk;
mod records;
mod writer;

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use mcap::McapError;
use serde_json::Value;

use self::writer::{Head, McapWriter, Topic};
use super::Output;
use crate::commands::{CHUNK_TYPE, MadeCommand, TakenChunk};
use crate::file::{OutputError, Partial};
use robocache_core::command::output::CommandType;
use robocache_core::message::{Publication, TensorMessage};
use robocache_core::pipeline::Pipeline;
use robocache_core::schema::{HEADER, TIME};
use robocache_core::spec::GroupSpec;
use robocache_ops::time::Stamp;
use robocache_runtime::{OfferedQos, Tick};

const FUSED_TENSOR: &str = "robocache_ros/msg/FusedTensor";
const FUSED_TENSOR_INFO: &str = "robocache_ros/msg/FusedTensorInfo";

/// Information in the file beside its tensors.
#[derive(Clone, Debug)]
pub struct Info<'a> {
    /// The topic of the tensors.
    pub topic: &'a str,
    /// The serialized `FusedTensorInfo`.
    pub message: Vec<u8>,
    /// The configuration's text, for the file's metadata.
    pub configuration: &'a str,
    /// When it begins, on the recorder's clock.
    pub start: Stamp,
    /// The topics of chunks of actions, and the groups that make commands of them; empty without chunks.
    pub chunks: Vec<String>,
    /// See `chunks`.
    pub groups: &'a [GroupSpec],
}

impl<'a> Info<'a> {
    /// The information of a pipeline's tensors.
    pub fn of(pipeline: &'a Pipeline, digest: bool, start: Stamp) -> Self {
        let config = pipeline.config();
        // Every backend gives the same bytes, so the file does not say which it was.
        let backend = "replay";
        let publication = Publication { stamp: Stamp::ZERO, topics: &[], digest, backend };
        Info {
            topic: &config.output_topic,
            message: pipeline.info(&publication),
            configuration: &config.source.text,
            start,
            chunks: Vec::new(),
            groups: &[],
        }
    }

    /// Adds the commands of the pipeline's configuration, of the chunks on these topics.
    pub fn with_chunks(self, pipeline: &'a Pipeline, topics: Vec<String>) -> Self {
        let groups = pipeline.config().commands.as_ref().map(|commands| &commands.groups[..]);
        match groups {
            Some(groups) if !topics.is_empty() => Info { chunks: topics, groups, ..self },
            _ => self,
        }
    }
}

/// A file of tensors.
pub struct McapOutput {
    writer: McapWriter,
    /// For the end: bytes must be on the disk before the file gets its name.
    file: File,
    partial: Partial,
    configuration: String,
    sequence: u32,
    /// Numbers of the first topic of chunks, and of the topic of the commands of the first group.
    chunks: u16,
    commands: u16,
}

/// The topics of the file, in their order.
const TENSORS: u16 = 0;
const INFOS: u16 = 1;

impl McapOutput {
    /// Creates the file, under another name until it is complete. So many threads compress it.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn create(path: &Path, info: Info<'_>, threads: usize) -> Result<Self, OutputError> {
        let (partial, file) = Partial::create(path)?;
        let same = file.try_clone().map_err(OutputError::of(path))?;
        let topic = absolute(info.topic);
        let info_topic = format!("{topic}/info");
        let channel = |name, ros_type, definition, latched| {
            let metadata = BTreeMap::from([("offered_qos_profiles".to_owned(), qos(latched))]);
            Topic { name, ros_type, definition, metadata }
        };
        let mut topics = vec![
            channel(&topic, FUSED_TENSOR, fused_tensor_definition(), false),
            channel(&info_topic, FUSED_TENSOR_INFO, fused_tensor_info_definition(), true),
        ];
        let chunks = topics.len() as u16;
        for name in &info.chunks {
            topics.push(channel(name, CHUNK_TYPE, action_chunk_definition(), false));
        }
        let commands = topics.len() as u16;
        let names: Vec<String> =
            info.groups.iter().map(|group| absolute(&group.output.topic)).collect();
        for (name, group) in names.iter().zip(info.groups) {
            let ros_type = group.output.ros_type;
            topics.push(channel(name, ros_type, command_definition(ros_type), false));
        }
        let library = concat!("robocache ", env!("CARGO_PKG_VERSION"));
        let head = Head { library, topics };
        let writer = McapWriter::create(file, path, &head, threads)?;
        let configuration = info.configuration.to_owned();
        let mut output = McapOutput {
            writer,
            file: same,
            partial,
            configuration,
            sequence: 0,
            chunks,
            commands,
        };
        // Latched, so it comes first, also if there are no tensors.
        output.write(INFOS, [info.start; 2], &info.message)?;
        Ok(output)
    }

    /// Ends the file and gives it its name. `about` is what is known of the episode, a JSON object. Of that, the file's
    /// metadata has `bag`, `task` and, as the text of JSON, `tasks`.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn complete(self, about: &Value) -> Result<(), OutputError> {
        let mut metadata = BTreeMap::from([
            ("version".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
            ("configuration".to_owned(), self.configuration),
        ]);
        for key in ["bag", "task", "tasks"] {
            let text = match &about[key] {
                Value::Null => continue,
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            metadata.insert(key.to_owned(), text);
        }
        self.writer.finish("robocache", &metadata)?;
        self.partial.complete(&self.file)
    }

    /// Writes a message. `times`: on the recorder's clock, which does not jump when a simulator starts again,
    /// and on the clock of the ticks.
    fn write(&mut self, topic: u16, times: [Stamp; 2], bytes: &[u8]) -> Result<(), OutputError> {
        // MCAP has no instants before zero; only a simulator's clock could be there.
        let times = times.map(|stamp| stamp.nanos().max(0) as u64);
        self.writer.write(topic, self.sequence, times, bytes)
    }
}

impl Output for McapOutput {
    fn tick(&mut self, tick: Tick, message: &TensorMessage) -> Result<(), OutputError> {
        let times = [tick.at, message.stamp()];
        self.sequence = self.sequence.wrapping_add(1).max(1);
        self.write(TENSORS, times, message.message())
    }

    fn takes_commands(&self) -> bool {
        true
    }

    fn chunk(
        &mut self,
        taken: &TakenChunk<'_>,
        topic: usize,
        at: Stamp,
    ) -> Result<(), OutputError> {
        self.write(self.chunks + topic as u16, [at, taken.at.stamp], taken.message)
    }

    fn command(&mut self, command: &MadeCommand<'_>, at: Stamp) -> Result<(), OutputError> {
        match command.message {
            Some(message) => {
                let topic = self.commands + command.group as u16;
                self.write(topic, [at, command.at.stamp], message)
            }
            None => Ok(()),
        }
    }
}

/// The error of the operating system behind an error of the writer.
pub(crate) fn io(error: McapError) -> std::io::Error {
    match error {
        McapError::Io(source) => source,
        other => std::io::Error::other(other),
    }
}

/// A topic as a node in the root namespace publishes it.
fn absolute(topic: &str) -> String {
    if topic.starts_with('/') { topic.to_owned() } else { format!("/{topic}") }
}

/// The quality of service of a publisher, as rosbag2 stores it.
pub(crate) fn qos(latched: bool) -> String {
    let (depth, durability) = if latched { (1, 1) } else { (10, 2) };
    profile(1, depth, [1, durability])
}

/// The quality of service that a publisher offers, as rosbag2 stores it. The graph does not show its history.
pub(crate) fn offered(qos: OfferedQos) -> String {
    let reliability = if qos.reliable { 1 } else { 2 };
    let durability = if qos.transient_local { 1 } else { 2 };
    profile(3, 0, [reliability, durability])
}

/// An entry of rosbag2's list, with the numbers of `rmw` that all its versions read.
fn profile(history: u8, depth: u8, [reliability, durability]: [u8; 2]) -> String {
    format!(
        "- history: {history}\n  depth: {depth}\n  reliability: {reliability}\n  durability: {durability}\n  \
         deadline:\n    sec: 9223372036\n    nsec: 854775807\n  lifespan:\n    sec: 9223372036\n    \
         nsec: 854775807\n  liveliness: 1\n  liveliness_lease_duration:\n    sec: 9223372036\n    \
         nsec: 854775807\n  avoid_ros_namespace_conventions: false"
    )
}

/// A definition followed by those of the types that it has, as rosbag2 stores them.
fn with_parts(own: &str, parts: &[(&str, &str)]) -> String {
    let line = "=".repeat(80);
    let part = |(name, text): &(&str, &str)| format!("{line}\nMSG: {name}\n{text}");
    let parts: Vec<String> = parts.iter().map(part).collect();
    own.to_owned() + &parts.concat()
}

/// The definition of `FusedTensor`, with those of all types that it has.
pub fn fused_tensor_definition() -> String {
    with_parts(
        include_str!("../../../../msg/FusedTensor.msg"),
        &[
            ("builtin_interfaces/Time", TIME),
            ("robocache_ros/TensorSegment", include_str!("../../../../msg/TensorSegment.msg")),
            ("std_msgs/Header", HEADER),
        ],
    )
}

/// The definition of `ActionChunk`, with that of the type that it has.
fn action_chunk_definition() -> String {
    let own = include_str!("../../../../msg/ActionChunk.msg");
    with_parts(own, &[("builtin_interfaces/Time", TIME)])
}

/// The definition of a type of commands, with those of all types that it has.
fn command_definition(ros_type: &str) -> String {
    match CommandType::find(ros_type).map(|known| known.definition) {
        Some([(_, own), parts @ ..]) => with_parts(own, parts),
        _ => String::new(),
    }
}

/// The definition of `FusedTensorInfo`, with those of all types that it has.
pub fn fused_tensor_info_definition() -> String {
    with_parts(
        include_str!("../../../../msg/FusedTensorInfo.msg"),
        &[
            ("builtin_interfaces/Time", TIME),
            ("robocache_ros/SegmentInfo", include_str!("../../../../msg/SegmentInfo.msg")),
            ("std_msgs/Header", HEADER),
        ],
    )
}
