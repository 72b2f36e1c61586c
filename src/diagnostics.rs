//! Publishes the monitor's reports on `/diagnostics`, and writes them for a supervisor without ROS.

use r2r::diagnostic_msgs::msg::{DiagnosticArray, DiagnosticStatus, KeyValue};
use r2r::std_msgs::msg::Header;

use super::error::NodeError;
use super::health_file::{self, HealthFile};
use robocache_ops::time::Stamp;
use robocache_rcl::{self, MessagePublisher, Node, Qos};
use robocache_runtime::health::{Report, Status};

/// Publishes reports.
pub(crate) struct Diagnostics {
    /// The node's fully qualified name.
    node: String,
    publisher: MessagePublisher<DiagnosticArray>,
    /// `None` if no supervisor wants it.
    health: Option<HealthFile>,
}

impl Diagnostics {
    /// Advertises `/diagnostics`.
    pub(crate) fn new(node: &Node) -> Result<Self, NodeError> {
        let publisher = node.advertise_message("/diagnostics", Qos::reliable(10))?;
        let health = HealthFile::of_environment();
        Ok(Diagnostics { node: node.fully_qualified_name(), publisher, health })
    }

    /// How many subscribers have been found.
    pub(crate) fn subscribers(&self) -> usize {
        self.publisher.publisher().subscription_count().unwrap_or(0)
    }

    /// Publishes a report.
    pub(crate) fn publish(&mut self, report: Report) {
        let text = self.health.as_ref().map(|_| health_file::text(&report));
        let header = Header {
            stamp: time_message(report.stamp.unwrap_or(Stamp::ZERO)),
            ..Default::default()
        };
        let status = report.parts.into_iter().map(|part| status_message(&self.node, part));
        let message = DiagnosticArray { header, status: status.collect() };
        if let Err(error) = self.publisher.publish(&message) {
            tracing::debug!("failed to publish diagnostics: {error}");
        }
        // Afterwards: while the middleware hangs, the file grows old.
        if let (Some(health), Some(text)) = (&mut self.health, text) {
            health.write(&text);
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

pub(crate) fn time_message(stamp: Stamp) -> r2r::builtin_interfaces::msg::Time {
    let (sec, nanosec) = stamp.to_sec_nanosec();
    r2r::builtin_interfaces::msg::Time { sec, nanosec }
}

#[cfg(test)]
mod tests;
