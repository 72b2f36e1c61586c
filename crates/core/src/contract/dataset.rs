//! Contracts of datasets: what no dataset says of the robot that it was recorded on is unknown.

use serde_json::{Map, Value, json};

use super::{Contract, LAG, STREAMS, UNKNOWN};

/// Keys of the whole that no dataset knows.
const OF_ALL: [&str; 1] = ["base_frame"];
/// Keys of a stream that no dataset knows: its messages, and how old a value was. Its frames have the age zero.
const OF_STREAMS: [&str; 4] = ["inputs", "max_age_ns", "max_gap_ns", "transforms_max_gap_ns"];

impl Contract {
    /// The contract of rows that were imported from a dataset by this configuration.
    ///
    /// Unknown are the frame, messages, ages and gaps; the lag, if the configuration has none; and the names of the
    /// channels, if they are numbers that the import gave.
    #[must_use]
    pub fn of_dataset(self) -> Self {
        let mut all = self.0;
        if let Some(streams) = all.get_mut(STREAMS).and_then(Value::as_object_mut) {
            streams.iter_mut().filter_map(|(_, of)| of.as_object_mut()).for_each(of_stream);
        }
        forget(&mut all, &OF_ALL);
        Self::of_map(all)
    }
}

fn of_stream(stream: &mut Map<String, Value>) {
    let mut unknown = OF_STREAMS.to_vec();
    if has_no_lag(stream) {
        unknown.push(LAG);
    }
    if has_numbers_for_names(stream) {
        unknown.push("channels");
    }
    forget(stream, &unknown);
}

/// Notes keys as unknown, and takes their values away.
fn forget(map: &mut Map<String, Value>, unknown: &[&str]) {
    let mut keys = unknown.to_vec();
    keys.sort_unstable();
    keys.iter().for_each(|key| drop(map.remove(*key)));
    map.insert(UNKNOWN.into(), json!(keys));
}

/// The lag is unknown if nobody has set one: then a step is at the tick.
fn has_no_lag(stream: &Map<String, Value>) -> bool {
    let targets = stream.get("targets_ns").and_then(Value::as_array);
    targets.is_some_and(|targets| targets.contains(&json!(0)))
}

/// True if the channels are called `0.position`, `1.position` and so on: the dataset has no names.
fn has_numbers_for_names(stream: &Map<String, Value>) -> bool {
    let channels = stream.get("channels").and_then(Value::as_array);
    let is_number = |(at, name): (usize, &Value)| {
        name.as_str().and_then(|name| name.strip_suffix(".position")) == Some(&at.to_string())
    };
    channels.is_some_and(|names| !names.is_empty() && names.iter().enumerate().all(is_number))
}

/// Keeps unknown what windows do not state: they may state a lag, and no ages that the robot had.
pub(super) fn of_windows(stream: &mut Map<String, Value>, lag_stated: bool) {
    let Some(unknown) = stream.get(UNKNOWN).and_then(Value::as_array) else { return };
    let mut keys: Vec<_> = unknown.iter().filter_map(Value::as_str).map(str::to_owned).collect();
    keys.retain(|key| key != LAG || !lag_stated);
    let keys: Vec<_> = keys.iter().map(String::as_str).collect();
    forget(stream, &keys);
}
