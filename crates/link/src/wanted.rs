//! Requests for subscriptions: those of the inputs, and those that the node has beside them.

use robocache_core::spec::InputSpec;
use robocache_runtime::OfferedQos;

/// The topic of chunks of actions, before remapping.
pub const CHUNK_TOPIC: &str = "action_chunk";
/// Type of the messages on it.
pub const CHUNK_TYPE: &str = "robocache_ros/msg/ActionChunk";
/// Queue depth of this topic: policies send tens of chunks per second at most.
pub(crate) const CHUNK_DEPTH: usize = 16;

/// The topic of a simulator's clock, before remapping.
pub const CLOCK_TOPIC: &str = "/clock";
/// Queue depth of `/clock`: a tenth of a second at 1 kHz.
pub(crate) const CLOCK_DEPTH: usize = 100;

/// Request for a subscription.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The topic, before remapping.
    pub topic: String,
    /// The type of its messages.
    pub ros_type: String,
    /// Messages that its queue holds.
    pub depth: usize,
    /// The quality of service that it asks for.
    pub asks: OfferedQos,
    /// True if its messages are images or clouds.
    pub is_large: bool,
}

impl Wanted {
    /// The subscription of an input.
    pub(crate) fn of_input(spec: &InputSpec, asks: OfferedQos) -> Self {
        Wanted {
            topic: spec.topic.clone(),
            ros_type: spec.ros_type.clone(),
            depth: spec.qos.depth,
            asks,
            is_large: spec.is_large(),
        }
    }

    /// The subscription to the clock of a simulator.
    pub(crate) fn clock() -> Self {
        Wanted::small(CLOCK_TOPIC, "rosgraph_msgs/msg/Clock", CLOCK_DEPTH, false)
    }

    /// The subscription to chunks of actions.
    pub(crate) fn chunks() -> Self {
        Wanted::small(CHUNK_TOPIC, CHUNK_TYPE, CHUNK_DEPTH, true)
    }

    fn small(topic: &str, ros_type: &str, depth: usize, reliable: bool) -> Self {
        Wanted {
            topic: topic.to_owned(),
            ros_type: ros_type.to_owned(),
            depth,
            asks: OfferedQos { reliable, transient_local: false },
            is_large: false,
        }
    }
}
