//! Connections of rcl, as [`robocache_link`] uses them: its traits, for newtypes of rcl's handles. So `rcl` knows nothing
//! of robocache, and `link` nothing of ROS.

use std::sync::Arc;

use robocache_link::{
    EventTotals, Graph, Making, MessageInfo, MessageMemory, Middleware, MiddlewareError,
    Subscription, Wanted,
};
use robocache_rcl::{
    self, GraphChanges, Memory, Node, PublisherInfo, Qos, RclError, SerializedMessage, Wake,
};
use robocache_runtime::{OfferedQos, PublisherId, PublisherSeen, Transit};

/// Who receives large messages inside the middleware.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// A thread of their own.
    Own,
    /// The thread that receives all messages.
    Shared,
}

/// A subscription whose messages wake a thread.
pub(crate) struct WakingSubscription {
    inner: robocache_rcl::Subscription,
    wake: Arc<Wake>,
    flow: Flow,
}

/// The graph that a node sees.
#[derive(Clone)]
pub(crate) struct NodeGraph(pub Node);

/// The middleware of this process.
pub(crate) fn in_use() -> Middleware {
    let found = robocache_rcl::Middleware::in_use();
    Middleware {
        name: found.name().to_owned(),
        numbers_messages: found.numbers_messages(),
        // CycloneDDS hears its publishers again by itself: tests/ros/test_middleware.py.
        cuts_off: found.is_fast_dds(),
    }
}

/// Makes a subscription. Its messages end the waits of `wake`.
///
/// # Errors
/// The middleware refuses.
pub(crate) fn subscribe(
    node: &Node,
    wake: &Arc<Wake>,
    wanted: &Wanted,
    flow: Flow,
) -> robocache_rcl::Result<WakingSubscription> {
    let Wanted { topic, ros_type, depth, asks, is_large } = wanted;
    tracing::debug!("subscribing to {topic} ({ros_type}), {asks}");
    let OfferedQos { reliable, transient_local } = *asks;
    let qos = Qos { reliable, transient_local, ..Qos::best_effort(*depth) };
    // The middleware copies an image of 6 MB for a millisecond before it is complete. Six cameras
    // made joints 1.6 ms older on one thread.
    let mut inner = match flow {
        Flow::Own if *is_large => node.subscribe_apart(topic, ros_type, qos),
        _ => node.subscribe(topic, ros_type, qos),
    }?;
    inner.tell(wake)?;
    Ok(WakingSubscription { inner, wake: Arc::clone(wake), flow })
}

impl Subscription for WakingSubscription {
    fn topic(&self) -> String {
        self.inner.topic()
    }

    fn may_have(&self) -> bool {
        self.inner.may_have()
    }

    fn take(&self, memory: &mut MessageMemory) -> Result<Option<MessageInfo>, MiddlewareError> {
        let mut message = match std::mem::take(memory) {
            MessageMemory::Vec(bytes) => SerializedMessage::from(bytes),
            MessageMemory::Place(place, _) => SerializedMessage::in_place(place),
        };
        let taken = self.inner.take(&mut message);
        *memory = match message.into_memory() {
            Memory::Vec(bytes) => MessageMemory::Vec(bytes),
            Memory::Place(place, len) => MessageMemory::Place(place, len),
        };
        Ok(taken.map_err(failed)?.map(message_info))
    }

    fn publisher_count(&self) -> Result<usize, MiddlewareError> {
        self.inner.publisher_count().map_err(failed)
    }

    fn events(&self) -> Result<EventTotals, MiddlewareError> {
        let told = self.inner.events().take().map_err(failed)?;
        let incompatible = told.incompatible.map(|incompatible| incompatible.total);
        Ok(EventTotals { lost: told.lost.map(|lost| lost.total), incompatible })
    }

    fn end_events(&mut self) {
        self.inner.end_events();
    }

    fn again(&self, wanted: Wanted) -> Making<Self> {
        let node = self.inner.node();
        let wake = Arc::clone(&self.wake);
        let flow = self.flow;
        Box::new(move || subscribe(&node, &wake, &wanted, flow).map_err(failed))
    }
}

impl Graph for NodeGraph {
    type Changes = GraphChanges;

    fn watch(&self) -> Result<GraphChanges, MiddlewareError> {
        self.0.graph_changes().map_err(failed)
    }

    fn has_changed(changes: &mut GraphChanges) -> Result<bool, MiddlewareError> {
        changes.any().map_err(failed)
    }

    fn publishers_of(
        &self,
        topic: &str,
    ) -> Result<Vec<(PublisherId, PublisherSeen)>, MiddlewareError> {
        let found = self.0.publishers_of(topic).map_err(failed)?;
        Ok(found.into_iter().map(publisher_seen).collect())
    }

    fn topics(&self) -> Result<Vec<(String, String)>, MiddlewareError> {
        self.0.topics().map_err(failed)
    }
}

fn failed(error: RclError) -> MiddlewareError {
    MiddlewareError(error.to_string())
}

fn message_info(info: robocache_rcl::MessageInfo) -> MessageInfo {
    MessageInfo {
        publisher: PublisherId(info.publisher.0),
        number: info.publication_sequence,
        transit: Transit { published_ns: info.source_ns, arrived_ns: info.received_ns },
    }
}

fn publisher_seen(found: PublisherInfo) -> (PublisherId, PublisherSeen) {
    let PublisherInfo { node, ros_type, reliable, transient_local, gid } = found;
    let offers = OfferedQos { reliable, transient_local };
    (PublisherId(gid.0), PublisherSeen { node, ros_type, offers })
}
