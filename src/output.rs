//! Publishes the tensors.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::fastdds::{Connector, Handed};
use robocache_core::pipeline::TensorMessage;
use robocache_core::visual::Tap;
use robocache_runtime::{Publisher, Refused};

/// A new publisher takes over when it has found as many subscriptions as the one before, but after this time
/// at the latest.
const PATIENCE: Duration = Duration::from_secs(2);

/// The publisher of the tensors, and the one of a new connection that will replace it.
pub struct Output {
    publishers: RefCell<Publishers>,
    parts: Handed<robocache_rcl::Publisher>,
    connector: Connector,
    /// Where tensors are left for people to see; `None` if they are not shown.
    tap: Option<Arc<Tap>>,
}

struct Publishers {
    current: robocache_rcl::Publisher,
    next: Option<(robocache_rcl::Publisher, Instant)>,
}

impl Output {
    /// Publishes with `current`, and with each publisher that `parts` has from then on.
    pub fn new(
        current: robocache_rcl::Publisher,
        parts: Handed<robocache_rcl::Publisher>,
        connector: Connector,
        tap: Option<Arc<Tap>>,
    ) -> Self {
        let publishers = RefCell::new(Publishers { current, next: None });
        Output { publishers, parts, connector, tap }
    }

    /// Takes the publisher of a new connection, if there is one.
    fn follow(&self, publishers: &mut Publishers) {
        if let Some(next) = self.parts.take()
            && let Some((unused, _)) = publishers.next.replace((next, Instant::now()))
        {
            self.connector.end(unused);
        }
        let count =
            |publisher: &robocache_rcl::Publisher| publisher.subscription_count().unwrap_or(0);
        let current = &publishers.current;
        let is_connected = |(next, made): &mut (robocache_rcl::Publisher, Instant)| {
            count(next) >= count(current) || made.elapsed() >= PATIENCE
        };
        if let Some((next, _)) = publishers.next.take_if(is_connected) {
            self.connector.end(std::mem::replace(&mut publishers.current, next));
        }
    }
}

impl Publisher for Output {
    fn publish(&self, message: &mut TensorMessage) -> Result<(), Refused> {
        let publishers = &mut *self.publishers.borrow_mut();
        self.follow(publishers);
        let message = message.message();
        let published = publishers.current.publish(message);
        self.tap.iter().for_each(|tap| tap.offer(message));
        published.map_err(|error| Refused(error.to_string()))
    }
}
