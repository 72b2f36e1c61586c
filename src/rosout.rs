//! Publishes the logs on `/rosout`: a tracing layer fills a queue, and a publisher empties it.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use r2r::rcl_interfaces::msg::Log;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use super::console::Text;
use super::diagnostics::time_message;
use super::error::NodeError;
use robocache_rcl::{MessagePublisher, Node, Qos};
use robocache_runtime::TimeSource;

/// Depth of the queue. If it is full, a record is only on stderr, which has its own thread and
/// queue. So logging never blocks a thread that has a deadline.
const QUEUE: usize = 256;

/// How long the node waits at its end until the subscribers have the last records.
const LAST_WORDS: Duration = Duration::from_millis(200);
/// The longest wait for a subscriber that finds a node which has just begun. On a busy machine some find it later
/// ([`fastdds`](super::fastdds)). They do not hear why the node ends; stderr tells it. A longer wait would delay each start
/// that fails.
const DISCOVERY: Duration = Duration::from_secs(1);

/// Queues every event that passes the filter.
pub struct RosoutLayer {
    queue: SyncSender<Log>,
    time: TimeSource,
}

/// The receiving end of the queue.
pub type Records = Receiver<Log>;

/// Makes the layer and its queue.
pub fn layer(time: TimeSource) -> (RosoutLayer, Records) {
    let (queue, records) = sync_channel(QUEUE);
    (RosoutLayer { queue, time }, records)
}

impl<S: Subscriber> Layer<S> for RosoutLayer {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let meta = event.metadata();
        // A log about a failed publication must not cause another publication.
        if meta.target().starts_with("robocache_rcl") {
            return;
        }
        let mut text = Text::default();
        event.record(&mut text);
        let log = Log {
            stamp: time_message(self.time.system()),
            level: severity(*meta.level()),
            // A text of ROS cannot hold a NUL.
            msg: text.message.replace('\0', "\u{fffd}"),
            file: meta.file().unwrap_or_default().to_owned(),
            function: meta.target().to_owned(),
            line: meta.line().unwrap_or_default(),
            ..Default::default()
        };
        // If the queue is full, the record is only on stderr.
        drop(self.queue.try_send(log));
    }
}

/// Returns the constant of `rcl_interfaces/msg/Log`.
fn severity(level: Level) -> u8 {
    match level {
        Level::ERROR => 40,
        Level::WARN => 30,
        Level::INFO => 20,
        Level::DEBUG | Level::TRACE => 10,
    }
}

/// Publishes the records that the layer has queued.
pub(crate) struct Rosout {
    publisher: MessagePublisher<Log>,
    logger: String,
}

impl Rosout {
    /// Advertises `/rosout` with rcl's quality of service, but with a shorter queue.
    pub(crate) fn new(node: &Node) -> Result<Self, NodeError> {
        let lifespan = Some(Duration::from_secs(10));
        let qos = Qos { transient_local: true, lifespan, ..Qos::reliable(100) };
        let publisher = node.advertise_message("/rosout", qos)?;
        Ok(Rosout { publisher, logger: node.logger_name() })
    }

    /// How many subscribers have been found.
    pub(crate) fn subscribers(&self) -> usize {
        self.publisher.publisher().subscription_count().unwrap_or(0)
    }

    /// Publishes one record.
    pub(crate) fn publish(&self, mut log: Log) {
        log.name.clone_from(&self.logger);
        // The record is on stderr. A log about this failure would come back here.
        let _ = self.publisher.publish(&log);
    }

    /// Publishes the queued records and waits until the subscribers have them, at most for
    /// `LAST_WORDS`. Records that are undelivered when the publisher ends are lost.
    pub(crate) fn flush(&self, records: &Records) {
        while let Ok(log) = records.try_recv() {
            self.publish(log);
        }
        // The node ends either way.
        let _ = self.publisher.publisher().wait_for_acknowledgements(LAST_WORDS);
    }

    /// Publishes the queued records of a node that has just begun: its subscribers need a moment to find it.
    pub(crate) fn flush_at_start(&self, records: &Records, time: &TimeSource) {
        let until = time.monotonic() + DISCOVERY;
        while time.monotonic() < until
            && matches!(self.publisher.publisher().subscription_count(), Ok(0))
        {
            std::thread::sleep(DISCOVERY / 100);
        }
        self.flush(records);
    }
}

#[cfg(test)]
mod tests;
