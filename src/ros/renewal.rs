//! Subscribes again, through a new connection to the middleware, to inputs that are cut off; see
//! [`recovery`](super::recovery).

use std::sync::{Arc, Mutex};
use std::time::Instant;

use super::error::NodeError;
use super::rcl::Node;
use super::recovery::{Heard, Recovery};
use crate::sync::lock;

/// The newest connection, which all inputs that need one share.
///
/// The main thread makes it, at ordinary priority. The intake threads do not wait for it.
#[derive(Default)]
pub struct Renewal {
    shared: Mutex<Shared>,
    orders: tokio::sync::Notify,
}

#[derive(Default)]
struct Shared {
    newest: Option<Connection>,
    /// The instant after which the ordered connection must be created.
    order: Option<Instant>,
    /// When the newest connection was created through which an input has been heard again.
    recovered: Option<Instant>,
}

impl Shared {
    /// Whether a connection is ordered and has not been made. Inputs repeat their orders while it
    /// is being made.
    fn take_order(&mut self) -> bool {
        let newest = self.newest.as_ref().map(|newest| newest.created);
        self.order.take().is_some_and(|instant| newest.is_none_or(|newest| newest <= instant))
    }
}

/// A connection that was made, or could not be made.
#[derive(Clone)]
pub struct Connection {
    /// When its creation began.
    pub created: Instant,
    /// A node with a context of its own; `None` if it could not be made.
    pub node: Option<Node>,
}

impl Renewal {
    /// Returns the newest connection if its creation began after `instant`. Else it orders one, and
    /// the caller asks again later.
    fn newer_than(&self, instant: Instant) -> Option<Connection> {
        let mut shared = lock(&self.shared);
        if shared.newest.as_ref().is_some_and(|newest| newest.created > instant) {
            return shared.newest.clone();
        }
        shared.order = shared.order.max(Some(instant));
        self.orders.notify_one();
        None
    }

    /// Returns the newest connection if it is another one than that of `creation`. It orders none.
    pub fn other_than(&self, creation: Option<Instant>) -> Option<Connection> {
        let shared = lock(&self.shared);
        shared.newest.as_ref().filter(|newest| Some(newest.created) != creation).cloned()
    }

    /// Waits until a connection is ordered.
    pub async fn ordered(&self) {
        self.orders.notified().await;
    }

    /// Makes the ordered connection, unless it has been made meanwhile. If it cannot be made, the
    /// inputs order another one later.
    pub fn make(&self, make: impl FnOnce() -> Result<Node, NodeError>) -> Option<Node> {
        let created = Instant::now();
        if !lock(&self.shared).take_order() {
            return None;
        }
        let node = make().inspect_err(|error| {
            tracing::warn!("failed to make a new connection to the middleware: {error}");
        });
        let node = node.ok();
        let before = lock(&self.shared).newest.replace(Connection { created, node: node.clone() });
        // If nothing uses it any more, the connection before it ends here. That takes the
        // middleware a while, so the lock is free by then.
        drop(before);
        node
    }

    fn note_recovered(&self, created: Instant) {
        let recovered = &mut lock(&self.shared).recovered;
        *recovered = (*recovered).max(Some(created));
    }

    fn recovered(&self) -> Option<Instant> {
        lock(&self.shared).recovered
    }
}

/// Watches one subscription, and says when and where its owner must subscribe again.
pub struct Watch {
    recovery: Recovery,
    renewal: Arc<Renewal>,
    /// The creation of the connection that the subscription uses; `None` for the first one.
    connection: Option<Instant>,
}

impl Watch {
    /// Watches a subscription that has given no message yet.
    pub fn new(recovery: Recovery, renewal: &Arc<Renewal>) -> Self {
        Watch { recovery, renewal: Arc::clone(renewal), connection: None }
    }

    /// Notes a message. `name` names the subscription in the log.
    pub fn arrived(&mut self, name: impl FnOnce() -> String) {
        let now = Instant::now();
        let silence = self.recovery.silence(now);
        if let Heard::Recovered(attempts) = self.recovery.arrived(now) {
            if let Some(created) = self.connection {
                self.renewal.note_recovered(created);
            }
            tracing::info!(
                "{}: messages come again after {:.1} s (attempt {attempts})",
                name(),
                silence.as_secs_f64()
            );
        }
    }

    /// Notes that the process stood still until now.
    pub fn stood_still(&mut self, now: Instant) {
        self.recovery.stood_still(now);
    }

    /// Notes that silence says nothing at present, because the clock of the publishers stands.
    pub fn excuse(&mut self, now: Instant) {
        self.recovery.excuse(now);
    }

    /// If the subscription seems to be cut off, subscribes again with `subscribe` and returns the
    /// new subscription. The caller tries often; until a new connection is there, nothing happens.
    /// `is_there` says whether the graph shows a publisher.
    pub fn renew<T>(
        &mut self,
        now: Instant,
        name: impl FnOnce() -> String,
        is_there: impl FnOnce() -> bool,
        subscribe: impl FnOnce(&Node) -> super::rcl::Result<T>,
    ) -> Option<T> {
        if !self.recovery.is_due(now, self.renewal.recovered(), is_there) {
            return None;
        }
        let Connection { created, node } =
            self.renewal.newer_than(self.recovery.wants_newer_than())?;
        let silence = self.recovery.silence(now).as_secs_f64();
        let first = self.recovery.attempted(now);
        // If there is no node, the log has said why.
        match node.as_ref().map(subscribe)? {
            Ok(subscription) => {
                self.connection = Some(created);
                if first {
                    tracing::warn!(
                        "{}: no message in {silence:.1} s, perhaps because the process was stopped \
                         or suspended: subscribed again through a new connection to the middleware",
                        name()
                    );
                }
                Some(subscription)
            }
            Err(error) => {
                tracing::warn!("{}: failed to subscribe again: {error}", name());
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn fail() -> Result<Node, NodeError> {
        Err(NodeError::RosArguments("no memory".into()))
    }

    #[test]
    fn a_failure_answers_the_orders_before_it() {
        let (renewal, before) = (Renewal::default(), Instant::now());
        assert!(renewal.newer_than(before).is_none() && renewal.other_than(None).is_none());
        assert!(renewal.make(fail).is_none());
        let made = renewal.newer_than(before).unwrap();
        assert!(made.node.is_none());
        // An order that was repeated meanwhile needs no other connection.
        lock(&renewal.shared).order = Some(before);
        let again = || -> Result<Node, NodeError> { panic!("made twice") };
        assert!(renewal.make(again).is_none() && renewal.make(again).is_none());
        assert!(renewal.newer_than(made.created).is_none(), "the next attempt needs another one");
        assert!(renewal.other_than(None).is_some());
        assert!(renewal.other_than(Some(made.created)).is_none());
    }

    #[test]
    fn a_subscription_waits_for_its_connection_and_pauses_after_a_failure() {
        let renewal = Arc::new(Renewal::default());
        let start = Instant::now();
        let mut watch = Watch::new(Recovery::new(start), &renewal);
        watch.recovery.arrived(start);
        watch.recovery.arrived(start + Duration::from_millis(10));
        watch.stood_still(start + Duration::from_millis(20));
        let mut renew = |seconds: u64| {
            let now = start + Duration::from_secs(seconds);
            let subscribe = |_: &Node| -> super::super::rcl::Result<()> { Ok(()) };
            watch.renew(now, || "a".into(), || true, subscribe)
        };
        assert_eq!(renew(4), None);
        // Then the connection is newer than the standstill.
        std::thread::sleep(Duration::from_millis(30));
        renewal.make(fail);
        assert_eq!(renew(4), None);
        let failed = renewal.other_than(None).unwrap();
        assert_eq!(renew(5), None, "the pause");
        assert_eq!(watch.recovery.wants_newer_than(), start + Duration::from_secs(4));
        assert!(failed.created < watch.recovery.wants_newer_than());
    }

    #[test]
    fn the_newest_recovery_counts() {
        let (renewal, now) = (Renewal::default(), Instant::now());
        assert_eq!(renewal.recovered(), None);
        renewal.note_recovered(now + Duration::from_secs(1));
        renewal.note_recovered(now);
        assert_eq!(renewal.recovered(), Some(now + Duration::from_secs(1)));
    }
}
