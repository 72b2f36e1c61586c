//! The sentences of differences.

use serde_json::Value;

use super::Contract;
use super::differences::MOST_ITEMS;
use robocache_ops::time::NANOS_PER_MS;

/// The sentence for a missing stream.
pub(super) fn lacking(name: &str, served: &Contract) -> String {
    let streams: Vec<_> = served.streams().collect();
    format!(
        "{name}: the policy was trained with this stream, and only {} would be served",
        streams.join(", ")
    )
}

/// The sentence for two values of a key.
pub(super) fn sentence(key: &str, trained: Option<&Value>, served: Option<&Value>) -> String {
    let [trained, served] = [trained, served].map(|value| in_words(key, value));
    format!("{key}: the policy was trained with {trained}, and {served} would be served")
}

/// The sentence for a key that one side does not know: the training, or else who serves. The other has this value.
pub(super) fn unknown(key: &str, is_of_training: bool, value: Option<&Value>) -> String {
    let value = in_words(key, value);
    match is_of_training {
        true => format!("{key}: unknown in the training, and {value} would be served"),
        false => format!(
            "{key}: the policy was trained with {value}, and what would be served is unknown"
        ),
    }
}

/// The sentence for long lists of the same length: the first entries that differ, and how many more do.
pub(super) fn long_lists(key: &str, trained: &[Value], served: &[Value]) -> String {
    let mut differing = trained.iter().zip(served).enumerate().filter(|(_, (a, b))| a != b);
    let Some((at, (one, other))) = differing.next() else { return String::new() };
    let words = sentence(key, Some(one), Some(other));
    match differing.count() {
        0 => format!("{words} as entry {at}"),
        more => format!("{words} as entry {at}; {more} more differ"),
    }
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
        Some(Value::Array(items))
            if items.iter().all(|item| !item.is_array() && !item.is_object()) =>
        {
            let mut words: Vec<_> = items.iter().map(scale).collect();
            if words.len() > MOST_ITEMS {
                let count = words.len();
                let last = words.pop().unwrap_or_default();
                words.truncate(3);
                words.extend(["...".to_owned(), last]);
                return format!("[{}]{unit} ({count} entries)", words.join(", "));
            }
            format!("[{}]{unit}", words.join(", "))
        }
        Some(Value::Array(items)) if key.ends_with(".inputs") => inputs(items),
        Some(Value::Array(items)) if items.len() != 1 => format!("{} entries", items.len()),
        Some(Value::Array(_)) => "1 entry".to_owned(),
        Some(number @ Value::Number(_)) => format!("{}{unit}", scale(number)),
        Some(other) => text(other),
    }
}

/// The message types of inputs, with the codecs of images.
fn inputs(inputs: &[Value]) -> String {
    let word = |input: &Value| match input["codec"].as_str().filter(|codec| *codec != "none") {
        Some(codec) => format!("{} ({codec})", text(&input["type"])),
        None => text(&input["type"]),
    };
    inputs.iter().map(word).collect::<Vec<_>>().join(", ")
}

/// A word without quotes, anything else as JSON.
fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
