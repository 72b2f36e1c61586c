//! Publishes the tensors.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::connection::Published;
use robocache_core::message::{Envelope, TensorMessage};
use robocache_core::visual::Tap;
use robocache_link::{Connector, Handed, Switch};
use robocache_runtime::{Publisher, Refused, Runtime};
use robocache_shared::{SharedError, TensorPublisher};

/// The publisher of the tensors.
pub(crate) struct NodeOutput {
    published: RefCell<Switch<Published>>,
    parts: Handed<Published>,
    connector: Connector,
    /// Place for tensors that people see; `None` if they are not shown.
    tap: Option<Arc<Tap>>,
    /// Another form of the messages, with memory for one.
    list: Option<(Envelope, RefCell<Vec<u8>>)>,
    /// `None` if the tensors are not in shared memory.
    sharing: Option<Sharing>,
    /// True if somebody subscribed, at the last look.
    is_subscribed: Cell<bool>,
}

/// Sends the tensors through shared memory.
pub(crate) struct Sharing {
    tensors: RefCell<TensorPublisher>,
    /// Home of the publisher while no thread publishes.
    home: Handed<TensorPublisher>,
    runtime: Arc<Runtime>,
    has_failed: Cell<bool>,
}

impl Sharing {
    /// Sends the tensors of a runtime. At the end, the publisher goes back to its `home`.
    pub(crate) fn new(
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

impl NodeOutput {
    /// Publishes with `current`, and with each publisher that `parts` has from then on. At the end, `parts` gets the one
    /// in use. With a `list` the messages have that form. With `sharing` the tensors are in shared memory, too.
    pub(crate) fn new(
        current: Published,
        parts: Handed<Published>,
        connector: Connector,
        tap: Option<Arc<Tap>>,
        list: Option<Envelope>,
        sharing: Option<Sharing>,
    ) -> Self {
        let published = RefCell::new(Switch::new(current));
        let list = list.map(|form| (form, RefCell::default()));
        let is_subscribed = Cell::new(true);
        NodeOutput { published, parts, connector, tap, list, sharing, is_subscribed }
    }

    /// Publishes a tensor on the topic.
    fn publish_message(&self, message: &TensorMessage) -> robocache_rcl::Result<()> {
        let current = &self.published.borrow().current.tensors;
        let bytes = message.message();
        let Some((form, memory)) = &self.list else { return current.publish(bytes) };
        let list = &mut *memory.borrow_mut();
        form.rewrite(message.envelope().places(), bytes, list);
        current.publish(list)
    }
}

impl Publisher for NodeOutput {
    fn is_read(&self) -> bool {
        let published = &mut *self.published.borrow_mut();
        let count = |of: &Published| of.tensors.subscription_count().unwrap_or(0);
        let parts = (&self.parts, &self.connector);
        published.follow(parts, |next, before| count(next) >= count(before));
        let is_subscribed =
            published.current.tensors.subscription_count().map_or(true, |count| count > 0);
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
        self.published.into_inner().end((&self.parts, &self.connector));
        if let Some(Sharing { tensors, home, .. }) = self.sharing {
            drop(home.give_back(tensors.into_inner()));
        }
    }
}
