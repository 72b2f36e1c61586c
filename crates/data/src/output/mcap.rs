//! Tensors as `robocache_ros/msg/FusedTensor` in MCAP, as `ros2 bag record` would have written them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

use mcap::records::{MessageHeader, Metadata};
use mcap::{Compression, McapError, WriteOptions, Writer};

use super::Output;
use crate::file::{OutputError, Partial};
use robocache_core::message::{Publication, TensorMessage};
use robocache_core::pipeline::Pipeline;
use robocache_ops::time::Stamp;
use robocache_runtime::Tick;

const FUSED_TENSOR: &str = "robocache_ros/msg/FusedTensor";
const FUSED_TENSOR_INFO: &str = "robocache_ros/msg/FusedTensorInfo";
/// Uncompressed size of a chunk \[bytes\].
const CHUNK: u64 = 4 << 20;

/// The definitions that the types of the tensors use, as in a ROS installation.
const TIME: &str = "# Seconds since the epoch of the clock, and nanoseconds of that second.\nint32 sec\nuint32 nanosec\n";
const HEADER: &str = "builtin_interfaces/Time stamp\nstring frame_id\n";

/// What the file says beside its tensors.
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
    /// The recording.
    pub bag: String,
    /// What the robot did.
    pub task: Option<&'a str>,
}

impl<'a> Info<'a> {
    /// The information of a pipeline's tensors.
    pub fn of(
        pipeline: &'a Pipeline,
        digest: bool,
        start: Stamp,
        bag: String,
        task: Option<&'a str>,
    ) -> Self {
        let config = pipeline.config();
        // Every backend gives the same bytes, so the file does not say which it was.
        let backend = "replay";
        let publication = Publication { stamp: Stamp::ZERO, topics: &[], digest, backend };
        Info {
            topic: &config.output_topic,
            message: pipeline.info(&publication),
            configuration: &config.source.text,
            start,
            bag,
            task,
        }
    }
}

/// A file of tensors.
pub struct McapOutput {
    writer: Writer<BufWriter<File>>,
    /// For the end: bytes must be on the disk before the file gets its name.
    file: File,
    partial: Partial,
    tensors: u16,
    sequence: u32,
}

impl McapOutput {
    /// Creates the file, under another name until it is complete.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn create(path: &Path, info: Info<'_>) -> Result<Self, OutputError> {
        let (partial, file) = Partial::create(path)?;
        let same = file.try_clone().map_err(OutputError::of(path))?;
        let options = WriteOptions::new()
            .compression(Some(Compression::Zstd))
            .profile("ros2")
            .library(concat!("robocache ", env!("CARGO_PKG_VERSION")))
            .chunk_size(Some(CHUNK))
            // The same bytes on every machine.
            .compression_threads(0);
        let failed = |error| OutputError::of(path)(io(error));
        let mut writer = Writer::with_options(BufWriter::new(file), options).map_err(failed)?;
        let topic = absolute(info.topic);
        let mut channel = |topic: &str, name, definition: String, latched: bool| {
            let schema = writer.add_schema(name, "ros2msg", definition.as_bytes())?;
            let qos = BTreeMap::from([("offered_qos_profiles".to_owned(), qos(latched))]);
            writer.add_channel(schema, topic, "cdr", &qos)
        };
        let tensors =
            channel(&topic, FUSED_TENSOR, fused_tensor_definition(), false).map_err(failed)?;
        let info_topic = format!("{topic}/info");
        let infos = channel(&info_topic, FUSED_TENSOR_INFO, fused_tensor_info_definition(), true);
        let infos = infos.map_err(failed)?;
        let mut metadata = BTreeMap::from([
            ("version".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
            ("configuration".to_owned(), info.configuration.to_owned()),
            ("bag".to_owned(), info.bag),
        ]);
        metadata.extend(info.task.map(|task| ("task".to_owned(), task.to_owned())));
        writer
            .write_metadata(&Metadata { name: "robocache".to_owned(), metadata })
            .map_err(failed)?;
        let mut output = McapOutput { writer, file: same, partial, tensors, sequence: 0 };
        // Latched, so it comes first, also if there are no tensors.
        output.write(infos, [info.start; 2], &info.message)?;
        Ok(output)
    }

    /// Ends the file and gives it its name.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn complete(mut self) -> Result<(), OutputError> {
        let failed = |error, path: &Path| OutputError::of(path)(io(error));
        self.writer.finish().map_err(|error| failed(error, self.partial.path()))?;
        // `finish` has flushed.
        drop(self.writer);
        self.partial.complete(&self.file)
    }

    /// Writes a message. `times`: on the recorder's clock, which does not jump when a simulator starts again,
    /// and on the clock of the ticks.
    fn write(
        &mut self,
        channel_id: u16,
        times: [Stamp; 2],
        bytes: &[u8],
    ) -> Result<(), OutputError> {
        // MCAP has no instants before zero; only a simulator's clock could be there.
        let [log_time, publish_time] = times.map(|stamp| stamp.nanos().max(0) as u64);
        let sequence = self.sequence;
        let header = MessageHeader { channel_id, sequence, log_time, publish_time };
        let written = self.writer.write_to_known_channel(&header, bytes);
        written.map_err(|error| OutputError::of(self.partial.path())(io(error)))
    }
}

impl Output for McapOutput {
    fn tick(&mut self, tick: Tick, message: &TensorMessage) -> Result<(), OutputError> {
        let times = [tick.at, message.stamp()];
        self.sequence = self.sequence.wrapping_add(1).max(1);
        self.write(self.tensors, times, message.message())
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
    format!(
        "- history: 1\n  depth: {depth}\n  reliability: 1\n  durability: {durability}\n  \
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
