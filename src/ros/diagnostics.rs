//! Publishes the monitor's reports on `/diagnostics`.

use r2r::diagnostic_msgs::msg::{DiagnosticArray, DiagnosticStatus, KeyValue};
use r2r::std_msgs::msg::Header;

use super::error::NodeError;
use super::profile;
use super::rcl::{self, MessagePublisher, Node, Qos};
use crate::runtime::health::{self, Report, Status};
use crate::time::Stamp;

/// Publishes reports.
pub struct Diagnostics {
    /// The node's fully qualified name.
    node: String,
    publisher: MessagePublisher<DiagnosticArray>,
}

impl Diagnostics {
    /// Advertises `/diagnostics`.
    pub fn new(node: &Node) -> Result<Self, NodeError> {
        let publisher = node.advertise_message("/diagnostics", Qos::reliable(10))?;
        Ok(Diagnostics { node: node.fully_qualified_name(), publisher })
    }

    /// Publishes a report.
    pub fn publish(&self, report: Report) {
        let header = Header {
            stamp: time_message(report.stamp.unwrap_or(Stamp::ZERO)),
            ..Default::default()
        };
        let status = report.parts.into_iter().map(|part| status_message(&self.node, part));
        let message = DiagnosticArray { header, status: status.collect() };
        if let Err(error) = self.publisher.publish(&message) {
            tracing::debug!("failed to publish diagnostics: {error}");
        }
    }
}

fn status_message(node: &str, status: Status) -> DiagnosticStatus {
    let values = status.values.into_iter().map(|(key, value)| KeyValue { key, value });
    DiagnosticStatus {
        level: status.level as u8,
        name: format!("{node}: {}", status.part),
        message: status.message,
        hardware_id: "robocache".to_owned(),
        values: values.collect(),
    }
}

fn time_message(stamp: Stamp) -> r2r::builtin_interfaces::msg::Time {
    let (sec, nanosec) = stamp.to_sec_nanosec();
    r2r::builtin_interfaces::msg::Time { sec, nanosec }
}

/// Says what to do if large messages do not arrive.
pub fn remedy() -> String {
    health::remedy(&rcl::middleware(), &profile::hint())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::health::Level;

    #[test]
    fn a_status_is_named_for_its_node_and_keeps_level_words_and_order() {
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let status = Status {
            part: "camera".into(),
            level: Level::Stale,
            message: "no message in 3.2 s".into(),
            values: vec![pair("topic", "/image"), pair("received", "7")],
        };
        let message = status_message("/left/fusion", status);
        assert_eq!((message.level, message.name.as_str()), (3, "/left/fusion: camera"));
        assert_eq!(message.message, "no message in 3.2 s");
        let values: Vec<_> =
            message.values.iter().map(|v| (v.key.as_str(), v.value.as_str())).collect();
        assert_eq!(values, [("topic", "/image"), ("received", "7")]);
    }
}
