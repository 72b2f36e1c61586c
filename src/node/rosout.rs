//! Logs to `/rosout`: a tracing layer that queues, and a publisher that empties the queue.

use std::fmt::Write as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use r2r::builtin_interfaces::msg::Time;
use r2r::rcl_interfaces::msg::Log;
use r2r::{Node, Publisher, QosProfile};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use super::error::{NodeError, RosContext};

/// Records that wait for the publisher. Beyond that they are only on stderr, which has a thread and a
/// queue of its own: logging never blocks a thread that has a deadline.
const QUEUE: usize = 256;

/// Queues every event that the filter lets pass.
pub struct RosoutLayer {
    queue: Sender<Log>,
}

/// The other end of the queue.
pub type Records = Receiver<Log>;

/// The layer and its queue.
pub fn layer() -> (RosoutLayer, Records) {
    let (queue, records) = channel(QUEUE);
    (RosoutLayer { queue }, records)
}

impl<S: Subscriber> Layer<S> for RosoutLayer {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let meta = event.metadata();
        // What the middleware says about a failed publication must not be published.
        if meta.target().starts_with("r2r") {
            return;
        }
        let mut text = Text::default();
        event.record(&mut text);
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let log = Log {
            stamp: Time {
                sec: i32::try_from(since_1970.as_secs()).unwrap_or(i32::MAX),
                nanosec: since_1970.subsec_nanos(),
            },
            level: severity(*meta.level()),
            msg: text.message,
            file: meta.file().unwrap_or_default().to_owned(),
            function: meta.target().to_owned(),
            line: meta.line().unwrap_or_default(),
            ..Default::default()
        };
        // A full queue drops the record here; it has been on stderr.
        drop(self.queue.try_send(log));
    }
}

/// The constants of `rcl_interfaces/msg/Log`.
fn severity(level: Level) -> u8 {
    match level {
        Level::ERROR => 40,
        Level::WARN => 30,
        Level::INFO => 20,
        Level::DEBUG | Level::TRACE => 10,
    }
}

/// The event's message, with its other fields after it.
#[derive(Default)]
struct Text {
    message: String,
}

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        // Writing to a String cannot fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name if name.starts_with("log.") => Ok(()),
            name => write!(self.message, " {name}={value:?}"),
        };
    }
}

/// Publishes what the layer queued.
pub struct Rosout {
    publisher: Publisher<Log>,
    logger: String,
    /// The queue.
    pub records: Records,
}

impl Rosout {
    /// Advertises `/rosout` with the quality of service that rcl gives it, but less history.
    pub fn new(node: &mut Node, records: Records) -> Result<Self, NodeError> {
        let qos = QosProfile::default()
            .keep_last(100)
            .reliable()
            .transient_local()
            .lifespan(Duration::from_secs(10));
        let publisher =
            node.create_publisher("/rosout", qos).during(|| "publish /rosout".into())?;
        Ok(Rosout { publisher, logger: node.logger().to_owned(), records })
    }

    /// Publishes one record.
    pub fn publish(&self, mut log: Log) {
        log.name.clone_from(&self.logger);
        // It is on stderr; saying that it is not on /rosout would come back here.
        let _ = self.publisher.publish(&log);
    }

    /// Publishes what is still queued.
    pub fn flush(&mut self) {
        while let Ok(log) = self.records.try_recv() {
            self.publish(log);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracing_subscriber::layer::SubscriberExt;

    #[test]
    fn events_become_records_with_level_text_and_place() {
        let (layer, mut records) = layer();
        let subscriber = tracing_subscriber::registry().with(layer);
        tracing::subscriber::with_default(subscriber, || {
            tracing::warn!(stream = 3, "no message in {} s", 5);
            tracing::error!(target: "r2r::publishers", "could not publish");
        });
        let log = records.try_recv().unwrap();
        assert_eq!((log.level, log.msg.as_str()), (30, "no message in 5 s stream=3"));
        assert!(log.file.ends_with("rosout.rs") && log.line > 0 && log.stamp.sec > 0);
        assert!(records.try_recv().is_err());
    }
}
