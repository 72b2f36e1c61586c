//! The memory of the middleware for a configuration, and what the tensors take for policies without ROS. Fast DDS
//! needs a segment of shared memory in each publishing process; the others, room in the subscribers' receive buffers.
//!
//! A segment of less than two of a process's messages loses most best-effort messages and makes
//! reliable ones late (measured: docs/deploy.md).

use std::fmt::{self, Display};

use serde::Serialize;

use super::text::bytes;
use crate::layout::Layout;
use crate::message::Envelope;
use crate::spec::{Config, InputId, InputSpec};

/// Fast DDS's default segment \[bytes\].
pub const DEFAULT_SEGMENT: usize = 512 << 10;
/// The node's smallest segment \[bytes\]. Messages that a slow subscriber has not read stay in it.
const SMALLEST: usize = 16 << 20;
/// The node's segments are multiples of this \[bytes\].
const GRAIN: usize = 4 << 20;

/// Policies without ROS that may read the tensors at once.
pub const READERS: usize = 4;
/// Tensors whose memory such a policy may keep. It gets a copy of each further one.
pub const HELD: usize = 3;
/// Tensors that wait for such a policy: the newest counts.
pub const WAITING: usize = 1;
/// Tensors that a later policy gets.
pub const HISTORY: usize = 1;
/// Tensors that the node has in its hands: one is fused, one waits, one is published, and one is next.
pub const LOANS: usize = 4;
/// Alignment of a shared tensor \[bytes\]: a page, so that a GPU can be told of its memory. It is the same on every
/// backend, because a node with another backend opens the same service again.
pub const PAGE: usize = robocache_ops::device::LENT_PAGE;

/// Bytes of shared memory for tensors whose messages take `len` bytes of memory.
pub const fn shared_output_bytes(len: usize) -> usize {
    // A policy may also hold the tensor that it copies.
    let chunks = READERS * (WAITING + HELD + 1) + HISTORY + LOANS;
    // Each begins with a page for what is said of it. The engine has some pages of its own.
    chunks.saturating_mul(PAGE + len.next_multiple_of(PAGE)).saturating_add(4 * PAGE)
}

/// ROS 2's default middleware.
const DEFAULT_MIDDLEWARE: &str = "rmw_fastrtps_cpp";

/// True if a middleware of this name, such as `rmw_fastrtps_dynamic_cpp`, is Fast DDS.
pub fn is_fast_dds(middleware: &str) -> bool {
    middleware.starts_with("rmw_fastrtps")
}

/// Shared memory that a configuration needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SharedMemory {
    /// The middleware that the text is about. The segments are those of Fast DDS.
    pub middleware: String,
    /// The serialized tensor message \[bytes\].
    pub message_bytes: usize,
    /// The segment of Fast DDS that the node gives itself \[bytes\].
    pub node_segment_bytes: usize,
    /// Memory of the tensors with the node's parameter `shared_output` \[bytes\].
    pub shared_output_bytes: usize,
    /// One row per input, in their order.
    pub inputs: Vec<InputMemory>,
}

/// Shared memory that the publisher of an input needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct InputMemory {
    /// The input's name.
    pub name: String,
    /// Its topic, before remapping.
    pub topic: String,
    /// The largest message that the node takes \[bytes\], by `max_width_px` and `max_height_px`;
    /// `None` if the configuration does not limit it.
    pub largest_message_bytes: Option<usize>,
    /// The segment that this topic needs in its publisher's process \[bytes\]; `None` if the message
    /// is not limited. The topics of one process add up.
    pub publisher_segment_bytes: Option<usize>,
}

/// Returns the least segment for these messages \[bytes\]: their sum, twice.
pub const fn least_segment(message_bytes: usize) -> usize {
    message_bytes.saturating_mul(2)
}

/// Returns the segment that a process gives itself for messages of these bytes in all.
pub const fn segment_bytes(message_bytes: usize) -> usize {
    let least = least_segment(message_bytes);
    let rounded = least.saturating_add(GRAIN - 1) / GRAIN * GRAIN;
    if rounded < SMALLEST { SMALLEST } else { rounded }
}

/// Returns the size of the serialized tensor message \[bytes\].
pub fn message_bytes(config: &Config) -> usize {
    envelope(config).byte_len()
}

fn envelope(config: &Config) -> Envelope {
    Envelope::fused_tensor(&Layout::new(config), &config.base_frame)
}

impl SharedMemory {
    pub(super) fn new(config: &Config) -> SharedMemory {
        let envelope = envelope(config);
        let message_bytes = envelope.byte_len();
        SharedMemory {
            middleware: DEFAULT_MIDDLEWARE.to_owned(),
            message_bytes,
            shared_output_bytes: shared_output_bytes(envelope.memory_len()),
            node_segment_bytes: segment_bytes(message_bytes),
            inputs: config.input_ids().map(|id| InputMemory::new(config, id)).collect(),
        }
    }
}

impl Display for SharedMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let message = self.message_bytes;
        let is_fast_dds = is_fast_dds(&self.middleware);
        let (needs, column) = match is_fast_dds {
            true => {
                let segment = bytes(self.node_segment_bytes as f64);
                let needs = format!("the node's shared memory (Fast DDS): {segment}");
                (needs, "shared memory of its publisher")
            }
            false => {
                let buffer = bytes(least_segment(message) as f64);
                let needs =
                    format!("receive buffer of its subscribers ({}): {buffer}", self.middleware);
                (needs, "receive buffer of the node")
            }
        };
        writeln!(f, "message     {message} bytes; {needs}")?;
        let shared = bytes(self.shared_output_bytes as f64);
        writeln!(
            f,
            "policies    {shared} of shared memory with shared_output, for {READERS} of them"
        )?;
        writeln!(f)?;
        let head = ["input", "topic", "largest message", column];
        let rows = self.inputs.iter().map(|input| input.row(is_fast_dds));
        let rows: Vec<_> = [head.map(String::from)].into_iter().chain(rows).collect();
        crate::table::write(f, &rows)
    }
}

impl InputMemory {
    fn new(config: &Config, id: InputId) -> InputMemory {
        let input = config.input(id);
        let largest_message_bytes = largest_message(config, input);
        let segment = |bytes| least_segment(bytes).max(DEFAULT_SEGMENT);
        InputMemory {
            name: input.name.clone(),
            topic: input.topic.clone(),
            largest_message_bytes,
            publisher_segment_bytes: largest_message_bytes.map(segment),
        }
    }

    fn memory(&self, is_fast_dds: bool) -> Option<usize> {
        match is_fast_dds {
            true => self.publisher_segment_bytes,
            false => self.largest_message_bytes.map(least_segment),
        }
    }

    /// A row of the table: with the segment of its publisher, or with the receive buffer of the node.
    fn row(&self, is_fast_dds: bool) -> [String; 4] {
        let size = |count: Option<usize>, unknown: &str| match count {
            Some(count) => format!("at most {}", bytes(count as f64)),
            None => unknown.to_owned(),
        };
        [
            self.name.clone(),
            self.topic.clone(),
            size(self.largest_message_bytes, "not limited"),
            size(self.memory(is_fast_dds), "two of its messages"),
        ]
    }
}

/// Returns the largest message that the node takes \[bytes\]; `None` for a cloud, whose points may
/// have any size.
pub(super) fn largest_message(config: &Config, input: &InputSpec) -> Option<usize> {
    let bounds = input.stream.map(|stream| config.stream(stream).bounds);
    input.largest_message(bounds.unwrap_or_default())
}

#[cfg(test)]
mod tests;
