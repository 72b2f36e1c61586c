//! Publishes what the policy sees, for people: see [`visual`](robocache_core::visual).

use std::sync::Arc;
use std::time::Duration;

use robocache_core::message::TensorRead;
use robocache_core::spec::Config;
use robocache_core::visual::{Tap, View};
use robocache_link::{Connector, Handed, Switch};
use robocache_rcl::{Node, Publisher, Qos};

/// Views, with their publishers.
pub(crate) type Shown = Vec<(View, Publisher)>;

/// Advertises `<output>/view/<stream>` for each stream that can be shown. `output` is the full
/// name of the tensor's topic.
pub(crate) fn advertise(node: &Node, config: &Config, output: &str) -> Shown {
    let advertise = |view: View| {
        let topic = format!("{output}/view/{}", view.name);
        // RViz and Foxglove ask for reliable delivery at first.
        match node.advertise(&topic, view.ros_type(), Qos::reliable(1)) {
            Ok(publisher) => Some((view, publisher)),
            Err(error) => {
                tracing::warn!("stream '{}' is not shown: {error}", view.name);
                None
            }
        }
    };
    View::all(config).0.into_iter().filter_map(advertise).collect()
}

/// Publishes images and grids at a low rate, on a thread of its own. Without a subscriber, it asks for no tensor.
pub(crate) struct Show {
    tap: Arc<Tap>,
    period: Duration,
    views: Switch<Shown>,
    /// Views of the newest connection, until this thread takes them.
    parts: Handed<Shown>,
    connector: Connector,
    failed: bool,
}

impl Show {
    /// Shows these views of a configuration, and those that `parts` has from then on. At the end, `parts` gets those in
    /// use.
    pub(crate) fn new(
        config: &Config,
        views: Shown,
        parts: Handed<Shown>,
        period: Duration,
        connector: Connector,
    ) -> Self {
        for (name, reason) in View::all(config).1 {
            tracing::warn!("stream '{name}' is not shown: {reason}");
        }
        if views.is_empty() {
            tracing::warn!("visualize_hz: no stream of images or clouds can be shown");
        }
        let views = Switch::new(views);
        Show { tap: Arc::default(), period, views, parts, connector, failed: false }
    }

    /// Returns the tap, in which the publishing thread leaves tensors.
    pub(crate) fn tap(&self) -> Arc<Tap> {
        Arc::clone(&self.tap)
    }

    /// Shows tensors until the tap is closed.
    pub(crate) fn run(mut self) {
        let time = self.connector.time().clone();
        let mut due = time.monotonic();
        let mut tensor = Vec::new();
        let mut buffer = Vec::new();
        while self.tap.wait_for(time.until(due)) {
            due = (due + self.period).max(time.monotonic());
            self.views.follow((&self.parts, &self.connector), are_connected);
            if !self.views.current.iter().any(|(_, publisher)| is_seen(publisher)) {
                continue;
            }
            let Some(next) = self.tap.next(tensor) else { break };
            tensor = next;
            buffer = self.show(&tensor, buffer);
        }
        self.views.end((&self.parts, &self.connector));
    }

    /// Publishes the views that have a subscriber. Returns the buffer for the next ones.
    fn show(&mut self, message: &[u8], mut buffer: Vec<u8>) -> Vec<u8> {
        let seen = match TensorRead::read(message) {
            Ok(seen) => seen,
            Err(error) => {
                self.fail(&format!("the tensor: {error}"));
                return buffer;
            }
        };
        let mut failure = None;
        for (view, publisher) in
            self.views.current.iter().filter(|(_, publisher)| is_seen(publisher))
        {
            let Some(shown) = view.message(&seen, std::mem::take(&mut buffer)) else {
                failure = Some(format!("stream '{}': its segment has another size", view.name));
                continue;
            };
            if let Err(error) = publisher.publish(&shown) {
                failure = Some(error.to_string());
            }
            buffer = shown;
        }
        if let Some(failure) = failure {
            self.fail(&failure);
        }
        buffer
    }

    /// Logs the first failure.
    fn fail(&mut self, what: &str) {
        if !self.failed {
            tracing::warn!("not shown: {what}");
        }
        self.failed = true;
    }
}

/// True if these views have found at least as many subscribers as the same views of another connection.
fn are_connected(views: &Shown, before: &Shown) -> bool {
    before.iter().all(|(view, before)| {
        let new = views.iter().find(|(new, _)| new.name == view.name);
        new.is_none_or(|(_, new)| subscribers(new) >= subscribers(before))
    })
}

/// True if the publisher has a subscriber.
fn is_seen(publisher: &Publisher) -> bool {
    subscribers(publisher) > 0
}

/// How many subscribers it has found.
fn subscribers(publisher: &Publisher) -> usize {
    publisher.subscription_count().unwrap_or(0)
}
