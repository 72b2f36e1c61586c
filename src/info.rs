//! Publishes what the tensors mean, beside their topic.

use robocache_core::message::Publication;
use robocache_ops::time::Stamp;
use robocache_rcl::{self, Node, Publisher, Qos};
use robocache_runtime::Runtime;

/// Message type of what the output means.
const FUSED_TENSOR_INFO: &str = "robocache_ros/msg/FusedTensorInfo";

/// The publisher of `<output>/info`. It keeps the message for later subscribers. A later subscriber asks
/// for the message, and a node that is cut off does not hear that.
pub(crate) struct Info {
    _publisher: Publisher,
}

impl Info {
    /// Publishes the serialized message. `output` is the full name of the tensors' topic.
    pub(crate) fn new(node: &Node, output: &str, message: &[u8]) -> robocache_rcl::Result<Self> {
        let qos = Qos { transient_local: true, ..Qos::reliable(1) };
        let publisher = node.advertise(&format!("{output}/info"), FUSED_TENSOR_INFO, qos)?;
        publisher.publish(message)?;
        Ok(Info { _publisher: publisher })
    }
}

/// The serialized message. `topics` are the full names of the inputs' topics.
pub(crate) fn message(runtime: &Runtime, topics: &[String]) -> Vec<u8> {
    runtime.pipeline.info(&Publication {
        stamp: runtime.clock.now().map_or(Stamp::ZERO, |now| now.stamp),
        topics,
        digest: runtime.digest,
        backend: runtime.pipeline.backend_name(),
    })
}
