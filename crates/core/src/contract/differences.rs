//! What two contracts differ in, a sentence each.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{Contract, DECODED, STORED, STREAMS};
use robocache_ops::time::NANOS_PER_MS;

/// Longer lists are not written as a whole.
const MOST_ITEMS: usize = 8;

impl Contract {
    /// What a policy that was trained by this contract would be served else by `served`: a sentence for each
    /// difference. Streams that `served` has beside those of the policy are no difference: the policy does not
    /// look at them.
    pub fn differences(&self, served: &Contract) -> Vec<String> {
        let mut found = Vec::new();
        for key in keys(&self.0, &served.0).into_iter().filter(|key| key != STREAMS) {
            compare(&key, self.0.get(&key), served.0.get(&key), &mut found);
        }
        for name in self.streams() {
            match served.stream(name) {
                None => found.push(lacking(name, served)),
                Some(other) => of_stream(name, &self.0[STREAMS][name], other, &mut found),
            }
        }
        found
    }
}

/// The sentence for a missing stream.
fn lacking(name: &str, served: &Contract) -> String {
    let streams: Vec<_> = served.streams().collect();
    format!(
        "{name}: the policy was trained with this stream, and only {} would be served",
        streams.join(", ")
    )
}

fn of_stream(name: &str, trained: &Value, served: &Value, found: &mut Vec<String>) {
    // Rows of two kinds have nothing to compare.
    if trained["kind"] != served["kind"] {
        let key = format!("{name}.kind");
        return compare(&key, trained.get("kind"), served.get("kind"), found);
    }
    let mut sides = match needs_lanes(trained) {
        true => [trained.clone(), served.clone()],
        false => [without_lanes(trained), without_lanes(served)],
    };
    // Who trains with images that a store or a dataset has made lossy, or decoded of videos, serves those of the camera.
    for map in sides.iter_mut().filter_map(Value::as_object_mut) {
        map.remove(STORED);
        map.remove(DECODED);
    }
    let [trained, served] = sides;
    compare(name, Some(&trained), Some(&served), found);
}

/// Whether the lanes of a stream bear on its numbers: it interpolates (only then it has a greatest gap), or it has
/// operators.
fn needs_lanes(stream: &Value) -> bool {
    stream.get("max_gap_ns").is_some() || stream.pointer("/encoder/outputs").is_some()
}

fn without_lanes(stream: &Value) -> Value {
    let mut stream = stream.clone();
    if let Some(encoder) = stream.pointer_mut("/encoder").and_then(Value::as_object_mut) {
        encoder.remove("lanes");
    }
    stream
}

/// Compares two values of a key.
fn compare(key: &str, trained: Option<&Value>, served: Option<&Value>, found: &mut Vec<String>) {
    match (trained, served) {
        (one, other) if one == other => {}
        (Some(Value::Object(one)), Some(Value::Object(other))) => {
            for name in keys(one, other) {
                let key = format!("{key}.{name}");
                compare(&key, one.get(&name), other.get(&name), found);
            }
        }
        (Some(Value::Array(one)), Some(Value::Array(other)))
            if one.len() == other.len() && !one.iter().all(is_scalar) =>
        {
            for (at, (one, other)) in one.iter().zip(other).enumerate() {
                compare(&format!("{key}[{at}]"), Some(one), Some(other), found);
            }
        }
        (Some(Value::Array(one)), Some(Value::Array(other)))
            if one.len() == other.len() && one.len() > MOST_ITEMS =>
        {
            of_long_lists(key, one, other, found);
        }
        _ => found.push(sentence(key, &in_words(key, trained), &in_words(key, served))),
    }
}

/// Compares long lists of the same length: names the first difference, and how many there are.
fn of_long_lists(key: &str, trained: &[Value], served: &[Value], found: &mut Vec<String>) {
    let mut differing = trained.iter().zip(served).enumerate().filter(|(_, (a, b))| a != b);
    let Some((at, (one, other))) = differing.next() else { return };
    let [one, other] = [one, other].map(|value| in_words(key, Some(value)));
    let more = match differing.count() {
        0 => String::new(),
        more => format!("; {more} more differ"),
    };
    found.push(sentence(&format!("{key}[{at}]"), &one, &other) + &more);
}

fn sentence(key: &str, trained: &str, served: &str) -> String {
    format!("{key}: the policy was trained with {trained}, and {served} would be served")
}

/// A value in words. Times are in milliseconds.
fn in_words(key: &str, value: Option<&Value>) -> String {
    let scale = |number: &Value| match number.as_i64() {
        Some(ns) if key.ends_with("_ns") => (ns as f64 / NANOS_PER_MS as f64).to_string(),
        _ => text(number),
    };
    let unit = if key.ends_with("_ns") { " ms" } else { "" };
    match value {
        None | Some(Value::Null) => "nothing".to_owned(),
        Some(Value::Array(items)) if items.iter().all(is_scalar) => {
            let mut words: Vec<_> = items.iter().map(scale).collect();
            if words.len() > MOST_ITEMS {
                let (count, last) = (words.len(), words.pop().unwrap_or_default());
                words.truncate(3);
                words.extend(["...".to_owned(), last]);
                return format!("[{}]{unit} ({count} entries)", words.join(", "));
            }
            format!("[{}]{unit}", words.join(", "))
        }
        Some(Value::Array(items)) if items.len() != 1 => format!("{} entries", items.len()),
        Some(Value::Array(_)) => "1 entry".to_owned(),
        Some(number @ Value::Number(_)) => format!("{}{unit}", scale(number)),
        Some(other) => text(other),
    }
}

/// A word without quotes, anything else as JSON.
fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn is_scalar(value: &Value) -> bool {
    !value.is_array() && !value.is_object()
}

/// The keys of both, sorted.
fn keys(one: &Map<String, Value>, other: &Map<String, Value>) -> BTreeSet<String> {
    one.keys().chain(other.keys()).cloned().collect()
}
