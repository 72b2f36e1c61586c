//! The configuration as it is written: types, but no ranges, defaults or combinations yet.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};

use super::document::Document;
use super::error::Problem;
use crate::align::{Fill, Strategy};
use crate::dtype::DType;
use crate::ops::image::{Color, Fit};
use crate::spec::Timeline;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawConfig {
    pub rate_hz: Option<f64>,
    pub lag_ms: Option<f64>,
    pub timeline: Option<Timeline>,
    pub base_frame: Option<String>,
    pub output: Option<RawOutput>,
    pub streams: Option<InOrder<RawStream>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawOutput {
    pub topic: Option<String>,
    pub dtype: Option<DType>,
}

/// A mapping, in the order of the file.
pub(super) struct InOrder<T>(pub Vec<(String, T)>);

/// A value of an [`InOrder`] mapping.
pub(super) trait Named {
    /// What an error says that the mapping must be.
    const EXPECTED: &str;
}

impl Named for RawStream {
    const EXPECTED: &str = "a mapping from stream names to streams";
}

impl Named for Vec<String> {
    const EXPECTED: &str = "a mapping from group names to lists of joints";
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawStream {
    #[serde(rename = "type")]
    pub ros_type: Option<String>,
    pub topic: Option<String>,
    pub inputs: Option<Vec<RawInput>>,
    pub strategy: Option<Strategy>,
    pub lag_ms: Option<f64>,
    pub history: Option<RawHistory>,
    pub max_age_ms: Option<f64>,
    pub max_gap_ms: Option<f64>,
    pub fill: Option<Fill>,
    pub required: Option<bool>,
    pub timeline: Option<Timeline>,
    pub stamp_offset_ms: Option<f64>,
    pub dtype: Option<DType>,
    pub ring_rows: Option<i64>,
    pub qos: Option<RawQos>,
    pub frame_id: Option<String>,
    pub expected_rate_hz: Option<f64>,
    pub fields: Option<Vec<String>>,
    pub joints: Option<Vec<String>>,
    pub groups: Option<InOrder<Vec<String>>>,
    pub angular: Option<Vec<String>>,
    pub image: Option<RawImage>,
    pub cloud: Option<RawCloud>,
}

/// One of several inputs of a stream. If a key is not given here, that of the stream applies.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawInput {
    pub topic: Option<String>,
    pub timeline: Option<Timeline>,
    pub stamp_offset_ms: Option<f64>,
    pub qos: Option<RawQos>,
    pub frame_id: Option<String>,
    pub expected_rate_hz: Option<f64>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawHistory {
    pub steps: Option<i64>,
    pub step_ms: Option<f64>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Reliability {
    BestEffort,
    Reliable,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawQos {
    pub reliability: Option<Reliability>,
    pub depth: Option<i64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawImage {
    pub width: Option<i64>,
    pub height: Option<i64>,
    pub fit: Option<Fit>,
    pub color: Option<Color>,
    pub mean: Option<Vec<f64>>,
    pub std: Option<Vec<f64>>,
    pub pad_value: Option<i64>,
    pub max_width_px: Option<i64>,
    pub max_height_px: Option<i64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawCloud {
    pub t_base_lidar: Option<RawTransform>,
    pub origin_m: Option<Vec<f64>>,
    pub size_m: Option<f64>,
    pub shape: Option<Vec<i64>>,
    pub channels: Option<Vec<RawChannel>>,
    pub max_points: Option<i64>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawTransform {
    pub translation_m: Option<Vec<f64>>,
    pub rotation_xyzw: Option<Vec<f64>>,
    pub rotation_rpy_deg: Option<Vec<f64>>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Reduce {
    Count,
    Occupancy,
    Mean,
    Max,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawChannel {
    pub reduce: Option<Reduce>,
    pub field: Option<String>,
}

impl<'de, T: Deserialize<'de> + Named> Deserialize<'de> for InOrder<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de> + Named> Visitor<'de> for Entries<T> {
            type Value = InOrder<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(T::EXPECTED)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<InOrder<T>, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(InOrder(entries))
            }
        }
        deserializer.deserialize_map(Entries(PhantomData))
    }
}

/// Reads typed values. Stops at the first wrong type.
pub(super) fn read(text: &str, doc: &Document) -> Result<RawConfig, Problem> {
    serde_yaml::from_str(text).map_err(|error| translate(&error.to_string(), doc))
}

/// Translates serde's error into the words of this format. `message` is
/// `<key path>: <what> at line <l> column <c>`; at the top level it has no path and no colon.
fn translate(message: &str, doc: &Document) -> Problem {
    let message = message.rsplit_once(" at line ").map_or(message, |(before, _)| before);
    let kinds = ["unknown field `", "unknown variant `", "invalid type: ", "invalid value: "];
    let found = kinds.iter().enumerate().filter_map(|(i, k)| Some((message.find(k)?, i))).min();
    let Some((at, kind)) = found else {
        return doc.problem_found("", "a configuration", message);
    };
    let path = message[..at].trim_end_matches(": ");
    let what = &message[at + kinds[kind].len()..];
    match kind {
        0 => {
            let (name, allowed) = what.split_once('`').unwrap_or((what, ""));
            unknown_key(path, name, &quoted(allowed), doc)
        }
        1 => {
            let (name, allowed) = what.split_once('`').unwrap_or((what, ""));
            let allowed = quoted(allowed);
            let hint = nearest(name, &allowed).map(|near| format!("did you mean `{near}`?"));
            let expected = one_of(&allowed);
            Problem { hint, ..doc.problem(path, expected) }
        }
        _ => {
            let expected = what.rsplit_once(", expected ").map_or(what, |(_, expected)| expected);
            doc.problem(path, in_words(expected))
        }
    }
}

fn unknown_key(parent: &str, name: &str, allowed: &[&str], doc: &Document) -> Problem {
    let path = if parent.is_empty() { name.into() } else { format!("{parent}.{name}") };
    let with_unit = allowed.iter().find(|key| unit_is_missing(name, key));
    let hint = match (with_unit, nearest(name, allowed)) {
        (Some(key), _) => Some(format!("did you mean `{key}`? Keys carry their unit")),
        (None, Some(key)) => Some(format!("did you mean `{key}`?")),
        (None, None) => None,
    };
    let expected = format!("a known key, {}", one_of(allowed));
    Problem { hint, ..doc.problem_found(&path, expected, format!("`{name}`")) }
}

/// Whether `key` is `name` and a unit: `max_age_ms` for `max_age`.
fn unit_is_missing(name: &str, key: &str) -> bool {
    let unit = key.strip_prefix(name).and_then(|rest| rest.strip_prefix('_'));
    matches!(unit, Some("ms" | "hz" | "m" | "deg" | "xyzw" | "rpy_deg"))
}

/// The names between backquotes.
fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

/// `one of a, b, c`.
pub(super) fn one_of(names: &[&str]) -> String {
    format!("one of {}", names.join(", "))
}

/// The name that `name` is most likely a misspelling of.
pub(crate) fn nearest<'a>(name: &str, names: &[&'a str]) -> Option<&'a str> {
    let (distance, near) = names.iter().map(|known| (edits(name, known), *known)).min()?;
    let allowed = match name.len().min(near.len()) {
        0..=4 => 1,
        5..=11 => 2,
        _ => 3,
    };
    (distance <= allowed).then_some(near)
}

/// Levenshtein's distance: characters to insert, delete or replace to turn `a` into `b`.
fn edits(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.chars().count()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = i;
        row[0] = i + 1;
        for (j, y) in b.chars().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.chars().count()]
}

/// serde's name of a type, in plain words.
fn in_words(expected: &str) -> String {
    match expected {
        "f64" => "a number",
        "i64" => "a whole number",
        "a string" => "text",
        "a boolean" => "true or false",
        "a sequence" => "a list",
        "string or map" => "a word",
        _ if expected.starts_with("struct ") => "a mapping",
        _ => expected,
    }
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_and_hints() {
        assert_eq!((edits("kitten", "sitting"), edits("", "ab"), edits("a", "a")), (3, 2, 0));
        assert_eq!(nearest("tpoic", &["type", "topic"]), Some("topic"));
        assert_eq!(nearest("banana", &["type", "topic"]), None);
        assert!(unit_is_missing("max_age", "max_age_ms") && unit_is_missing("rate", "rate_hz"));
        assert!(!unit_is_missing("max", "max_age_ms"));
    }
}
