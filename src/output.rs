//! Publishes the tensors.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::connection::Published;
use super::fastdds::{Connector, Handed};
use robocache_core::message::{Envelope, TensorMessage};
use robocache_core::visual::Tap;
use robocache_runtime::{Publisher, Refused, Runtime};
use robocache_shared::{SharedError, TensorPublisher};

/// A new publisher takes over when it has found as many subscriptions as the one before, but after this time
/// at the latest.
const PATIENCE: Duration = Duration::from_secs(2);

/// The publisher of the tensors, and the one of a new connection that will replace it.
pub struct Output {
    publishers: RefCell<Publishers>,
    parts: Handed<Published>,
    connector: Connector,
    /// Where tensors are left for people to see; `None` if they are not shown.
    tap: Option<Arc<Tap>>,
    /// Another form of the messages, with memory for one.
    list: Option<(Envelope, RefCell<Vec<u8>>)>,
    /// `None` if the tensors are not in shared memory.
    sharing: Option<Sharing>,
    /// Whether somebody subscribes, at the last look.
    is_subscribed: Cell<bool>,
}

/// Sends the tensors through shared memory.
pub struct Sharing {
    tensors: RefCell<TensorPublisher>,
    /// Where the publisher is while no thread publishes.
    home: Handed<TensorPublisher>,
    runtime: Arc<Runtime>,
    has_failed: Cell<bool>,
}

impl Sharing {
    /// Sends the tensors of a runtime. At the end, the publisher goes back to its `home`.
    pub fn new(
        mut tensors: TensorPublisher,
        home: Handed<TensorPublisher>,
        runtime: Arc<Runtime>,
    ) -> Self {
        tensors.serve(&runtime.pipeline);
        let tensors = RefCell::new(tensors);
        Sharing { tensors, home, runtime, has_failed: Cell::new(false) }
    }

    /// Sends a tensor, and notes how many readers it goes to.
    fn send(&self, message: &mut TensorMessage) {
        match self.tensors.borrow_mut().send(message) {
            Ok(readers) => self.runtime.ticks.shared_readers.store(readers, Ordering::Relaxed),
            Err(error) => {
                self.note(&error);
                self.runtime.ticks.share_failed.add(1);
            }
        }
    }

    /// Replaces a message that was sent by one for the next tick.
    fn exchange(&self, message: &mut TensorMessage) {
        // If it fails, the next tick writes memory of its own, and its tensor is copied.
        let exchanged = self.tensors.borrow_mut().exchange(&self.runtime.pipeline, message);
        exchanged.unwrap_or_else(|error| self.note(&error));
    }

    /// Logs the first failure.
    fn note(&self, error: &SharedError) {
        if !self.has_failed.replace(true) {
            tracing::error!("{error}");
        }
    }
}

struct Publishers {
    current: Published,
    next: Option<(Published, Instant)>,
}

impl Output {
    /// Publishes with `current`, and with each publisher that `parts` has from then on. At the end, `parts` gets the one
    /// in use. With a `list` the messages have that form. With `sharing` the tensors are in shared memory, too.
    pub fn new(
        current: Published,
        parts: Handed<Published>,
        connector: Connector,
        tap: Option<Arc<Tap>>,
        (list, sharing): (Option<Envelope>, Option<Sharing>),
    ) -> Self {
        let publishers = RefCell::new(Publishers { current, next: None });
        let list = list.map(|form| (form, RefCell::default()));
        let is_subscribed = Cell::new(true);
        Output { publishers, parts, connector, tap, list, sharing, is_subscribed }
    }

    /// Publishes a tensor on the topic.
    fn publish_message(&self, message: &TensorMessage) -> robocache_rcl::Result<()> {
        let (current, bytes) = (&self.publishers.borrow().current.tensors, message.message());
        let Some((form, memory)) = &self.list else { return current.publish(bytes) };
        let list = &mut *memory.borrow_mut();
        form.rewrite(message.envelope().places(), bytes, list);
        current.publish(list)
    }

    /// Takes the publisher of a new connection, if there is one.
    fn follow(&self, publishers: &mut Publishers) {
        if let Some(next) = self.parts.take()
            && let Some((unused, _)) = publishers.next.replace((next, Instant::now()))
        {
            self.connector.end(unused);
        }
        let count = |of: &Published| of.tensors.subscription_count().unwrap_or(0);
        let current = &publishers.current;
        let is_connected = |(next, made): &mut (Published, Instant)| {
            count(next) >= count(current) || made.elapsed() >= PATIENCE
        };
        if let Some((next, _)) = publishers.next.take_if(is_connected) {
            self.connector.end(std::mem::replace(&mut publishers.current, next));
        }
    }
}

impl Publisher for Output {
    fn is_read(&self) -> bool {
        let publishers = &mut *self.publishers.borrow_mut();
        self.follow(publishers);
        let is_subscribed =
            publishers.current.tensors.subscription_count().map_or(true, |count| count > 0);
        self.is_subscribed.set(is_subscribed);
        is_subscribed || self.tap.is_some() || self.sharing.is_some()
    }

    fn publish(&self, message: &mut TensorMessage) -> Result<(), Refused> {
        // First: these readers wait for it, and the middleware copies.
        self.sharing.iter().for_each(|sharing| sharing.send(message));
        let published = match self.is_subscribed.get() {
            true => self.publish_message(message),
            false => Ok(()),
        };
        self.tap.iter().for_each(|tap| tap.offer(message.message()));
        self.sharing.iter().for_each(|sharing| sharing.exchange(message));
        published.map_err(|error| Refused(error.to_string()))
    }

    fn end(self) {
        let Publishers { current, next } = self.publishers.into_inner();
        let (newest, before) = match next {
            Some((next, _)) => (next, Some(current)),
            None => (current, None),
        };
        let unused = self.parts.give_back(newest);
        before.into_iter().chain(unused).for_each(|unused| self.connector.end(unused));
        if let Some(Sharing { tensors, home, .. }) = self.sharing {
            drop(home.give_back(tensors.into_inner()));
        }
    }
}
