//! Parts of a connection to the middleware, as this crate uses them. None of their calls waits for a message. To make a
//! subscription or to read the graph may take a while.

use super::buffers::MessageMemory;
use super::wanted::Wanted;
use robocache_runtime::{PublisherId, PublisherSeen, Transit};

/// The middleware in use: its name, and what it does otherwise than others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Middleware {
    /// Its name, such as `rmw_fastrtps_cpp`.
    pub name: String,
    /// True if each message has a number of its publisher. Without numbers nobody knows how many messages were lost.
    pub numbers_messages: bool,
    /// True if it may cut a process off from its publishers for good, because its threads did not run for a while.
    pub cuts_off: bool,
}

/// An operation of the middleware failed: the operation, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct MiddlewareError(pub String);

/// The middleware's words about a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageInfo {
    /// Who published it.
    pub publisher: PublisherId,
    /// Its number among the messages of its publisher; `None` if the middleware does not number them.
    pub number: Option<u64>,
    /// When it was published, and when it arrived.
    pub transit: Transit,
}

/// Totals that a subscription reports since it began; `None` if the middleware does not count them, or if the events
/// have ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventTotals {
    /// Messages that were lost between their publisher and the subscription's queue. Those that its full queue has
    /// overwritten are not among them.
    pub lost: Option<u64>,
    /// Publishers whose quality of service does not fit.
    pub incompatible: Option<u64>,
}

/// Makes a subscription. It fails if the middleware refuses.
pub type Making<S> = Box<dyn FnOnce() -> Result<S, MiddlewareError> + Send>;

/// A subscription to a topic. A drop ends it, which may take a while.
pub trait Subscription: Sized + Send + 'static {
    /// The topic's full name.
    fn topic(&self) -> String;

    /// True if a message may wait. A take of what cannot wait takes no time.
    fn may_have(&self) -> bool;

    /// Takes the oldest waiting message into `memory`. If none waits, returns `None`.
    ///
    /// # Errors
    /// The middleware fails to give a message that waits.
    fn take(&self, memory: &mut MessageMemory) -> Result<Option<MessageInfo>, MiddlewareError>;

    /// Counts the publishers that are connected to it.
    ///
    /// # Errors
    /// The middleware does not tell.
    fn publisher_count(&self) -> Result<usize, MiddlewareError>;

    /// Takes the totals of its events.
    ///
    /// # Errors
    /// The middleware does not tell.
    fn events(&self) -> Result<EventTotals, MiddlewareError>;

    /// Ends the events: from now on none is taken.
    fn end_events(&mut self);

    /// Another subscription to the same topic through the same connection, with another quality of service. Both wake the
    /// same thread. Any thread may make it, which may take a while.
    fn again(&self, wanted: Wanted) -> Making<Self>;
}

/// The graph as a connection shows it.
pub trait Graph: Send + 'static {
    /// Tells of changes.
    type Changes: Send + 'static;

    /// Watches the graph from now on.
    ///
    /// # Errors
    /// The middleware refuses.
    fn watch(&self) -> Result<Self::Changes, MiddlewareError>;

    /// True if the graph has changed since the last call.
    ///
    /// # Errors
    /// The middleware does not tell.
    fn has_changed(changes: &mut Self::Changes) -> Result<bool, MiddlewareError>;

    /// Lists the publishers of the topic of this full name.
    ///
    /// # Errors
    /// The middleware does not tell.
    fn publishers_of(
        &self,
        topic: &str,
    ) -> Result<Vec<(PublisherId, PublisherSeen)>, MiddlewareError>;

    /// Lists all topics, each with the types of its messages.
    ///
    /// # Errors
    /// The middleware does not tell.
    fn topics(&self) -> Result<Vec<(String, String)>, MiddlewareError>;
}
