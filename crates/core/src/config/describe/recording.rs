//! The bytes that a recording of the node writes in a second.

use std::collections::BTreeMap;

use serde::Serialize;

use super::shared_memory::largest_message;
use crate::sample::{Bounds, SampleKind};
use crate::spec::{Config, InputSpec};

/// More than the usual message of a vector has, together with the events of its arrival and its outcome \[bytes\].
const VECTOR: usize = 1 << 10;

/// The rate of a recording, as far as the configuration says sizes and rates of messages.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RecordingReport {
    /// The topics whose sizes and rates are known \[bytes/s\]; at most that.
    pub bytes_per_second: f64,
    /// The topics that are not in the sum, before remapping, each with what the configuration does not say.
    pub unknown: BTreeMap<String, &'static str>,
}

impl RecordingReport {
    /// Makes the report of `config`. A topic of several inputs is recorded once.
    pub(super) fn new(config: &Config) -> RecordingReport {
        let mut by_topic: BTreeMap<&str, Result<f64, &'static str>> = BTreeMap::new();
        for input in &config.inputs {
            let found = bytes_per_second(config, input);
            // What one input says holds for all that read the topic.
            let known = by_topic.entry(&input.topic).or_insert(found);
            if known.is_err() || found.is_ok_and(|rate| known.is_ok_and(|known| known < rate)) {
                *known = found;
            }
        }
        let mut report = RecordingReport::default();
        for (topic, found) in by_topic {
            match found {
                Ok(rate) => report.bytes_per_second += rate,
                Err(missing) => {
                    report.unknown.insert(topic.to_owned(), missing);
                }
            }
        }
        report
    }

    /// A sentence for people.
    pub(super) fn words(&self) -> String {
        let unknown = self.unknown.iter().map(|(topic, missing)| format!("{topic} ({missing})"));
        let unknown = unknown.collect::<Vec<_>>().join(", ");
        let rate = format!("at most {:.1} MB/s with record_to", self.bytes_per_second / 1e6);
        match (self.unknown.is_empty(), self.bytes_per_second > 0.0) {
            (true, _) => rate,
            (false, true) => format!("{rate}, and what is not known: {unknown}"),
            (false, false) => format!("not known with record_to: {unknown}"),
        }
    }
}

/// Most bytes of an input's topic in a second, or what is missing.
fn bytes_per_second(config: &Config, input: &InputSpec) -> Result<f64, &'static str> {
    let rate_hz = input.expected_rate_hz.ok_or("no expected_rate_hz");
    if !input.is_large() {
        return rate_hz.map(|rate_hz| rate_hz * VECTOR as f64);
    }
    let missing = match input.gives() {
        _ if input.ros_type.contains("Compressed") => return Err("compressed"),
        Some(SampleKind::Points) => return Err("a cloud of any size"),
        Some(SampleKind::Map) => "no max_width_cells",
        _ => "no max_width_px",
    };
    let bounds = input.stream.map(|stream| config.stream(stream).bounds.image_px());
    // The limit that every configuration has says nothing of this camera.
    let is_limited = bounds.is_some_and(|bounds| bounds != Bounds::default().image_px());
    let largest = largest_message(config, input).filter(|_| is_limited).ok_or(missing)?;
    rate_hz.map(|rate_hz| rate_hz * largest as f64)
}

#[cfg(test)]
mod tests;
