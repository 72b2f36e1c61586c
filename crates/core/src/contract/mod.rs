//! The contract of a configuration: what a policy relies on that was trained on its tensors.
//!
//! A [`Contract`] has every setting that bears on the numbers of valid steps, and those that say when a step is valid.
//! It has none of the others: topics, quality of service, memory and limits. Two configurations with the same contract
//! serve the same numbers of the same messages, in steps that both serve as valid. `required`, `frame_id` and
//! `ring_rows` are not in it. They decide which ticks are published and which messages are kept. It is a JSON value in
//! one form only, with a digest.
//!
//! - `of` makes it of a configuration, and `dataset` of a dataset.
//! - `actions` has what a policy answers, and `reference` what relative rows are added to. `vector` reads streams for both.
//! - `differences` compares two, and `accepted` has the differences that somebody accepts.
//! - `file` finds it beside a checkpoint.

mod accepted;
mod actions;
mod dataset;
mod differences;
mod file;
mod of;
mod reference;
mod vector;
mod words;

use std::fmt::{self, Display};
use std::path::PathBuf;

use serde_json::{Map, Value, json};
use twox_hash::XxHash3_64;

pub use actions::{ActionWindows, Actions, Poses};
pub use differences::{Difference, DifferenceKind, refused};
pub use file::FILE;
pub use reference::Reference;
pub(crate) use vector::channel;

use robocache_ops::align::AlignRule;
use robocache_ops::dtype::DType;

/// The version of the keys and of their meaning.
pub const FORMAT: u64 = 3;
/// The oldest version that is read. Version 1 had no `unknown` and `accepted`, version 2 no rows of `actions`.
const OLDEST_FORMAT: u64 = 1;

/// Key of the version. It is no difference.
const FORMAT_KEY: &str = "format";

/// Key of the streams in a contract.
const STREAMS: &str = "streams";

/// Key of the accepted differences: by the key of each, the value that may be served.
const ACCEPTED: &str = "accepted";

/// Key of what the policy answers: by stream, its rows. See [`Actions`].
const ACTIONS: &str = "actions";

/// The keys that a dataset does not know, of a contract or of a stream.
const UNKNOWN: &str = "unknown";

/// The name of the lag of a stream among the unknown keys. If it is known, `targets_ns` has it.
const LAG: &str = "lag_ns";

/// In which form the rows of a stream were stored, if that lost bits. It is no difference.
const STORED: &str = "stored";

/// Key of the way in which the numbers of a stream were decoded before they were messages. It is no difference.
const DECODED: &str = "decoded";

/// Integers up to this size are the same as floats.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// Contract of a configuration's tensors: what a policy relies on that was trained on them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contract(Map<String, Value>);

/// A text or a file that is no contract.
#[derive(Debug, thiserror::Error)]
pub enum ContractError {
    /// The file cannot be read.
    #[error("{path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// A folder has no contract.
    #[error(
        "{path}: expected a contract ({FILE}, a store of robocache, or a dataset of to-lerobot), found none"
    )]
    Missing {
        /// The folder.
        path: PathBuf,
    },
    /// It is no contract, or it has changed.
    #[error("{place}: expected {expected}, found {found}")]
    Wrong {
        /// The file, or `contract`.
        place: String,
        /// Words for what it should be.
        expected: String,
        /// Words for what it is instead.
        found: String,
    },
}

/// Values that windows of a stream have in place of the configuration's.
#[derive(Clone, Debug)]
pub struct WindowsOf<'a> {
    /// The stream.
    pub name: &'a str,
    /// Targets minus the instant \[ns\], one per step.
    pub targets_ns: &'a [i64],
    /// True if the caller states the lag of the targets, also if it is 0.
    pub lag_stated: bool,
    /// The step whose angles stay as they are.
    pub present: usize,
    /// How a value follows from rows, and when it is valid.
    pub rule: AlignRule,
    /// Element type.
    pub dtype: DType,
}

impl Contract {
    /// Reads the JSON of a contract.
    ///
    /// # Errors
    /// [`ContractError::Wrong`] if it is none, or one of another format.
    pub fn parse(text: &str) -> Result<Self, ContractError> {
        let value = serde_json::from_str(text)
            .map_err(|error| wrong("contract", "JSON", error.to_string()))?;
        Self::from_value(value, "contract")
    }

    /// Takes a JSON value that is a contract. Errors name the `place`.
    ///
    /// # Errors
    /// As for [`Contract::parse`].
    pub fn from_value(value: Value, place: &str) -> Result<Self, ContractError> {
        let expected = || format!("a contract of format {OLDEST_FORMAT} to {FORMAT}");
        let Value::Object(map) = plain(value) else {
            return Err(wrong(place, expected(), "another JSON value".to_owned()));
        };
        match map.get(FORMAT_KEY) {
            Some(format) if (OLDEST_FORMAT..=FORMAT).contains(&format.as_u64().unwrap_or(0)) => {}
            found => {
                let found = found.map_or("none".to_owned(), |found| format!("format {found}"));
                return Err(wrong(place, expected(), found));
            }
        }
        let streams = map.get(STREAMS).and_then(Value::as_object);
        let Some(streams) = streams.filter(|streams| !streams.is_empty()) else {
            return Err(wrong(place, expected(), "no streams".to_owned()));
        };
        if let Some((name, _)) = streams.iter().find(|(_, stream)| !stream.is_object()) {
            return Err(wrong(place, expected(), format!("the stream {name} without keys")));
        }
        if let Some(other) = map.get(ACCEPTED).filter(|accepted| !accepted.is_object()) {
            return Err(wrong(
                place,
                "accepted values by their keys",
                format!("{ACCEPTED}: {other}"),
            ));
        }
        Ok(Contract(map))
    }

    /// The names of its streams, sorted.
    pub fn streams(&self) -> impl Iterator<Item = &str> {
        self.0[STREAMS].as_object().into_iter().flat_map(|of| of.keys().map(String::as_str))
    }

    /// Keys of a stream in the contract.
    pub fn stream(&self, name: &str) -> Option<&Value> {
        self.0[STREAMS].get(name)
    }

    /// The contract of these streams alone.
    ///
    /// # Errors
    /// [`ContractError::Wrong`] if it lacks one, or if there are no names.
    pub fn only<'a>(
        &self,
        names: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, ContractError> {
        let mut streams = Map::new();
        for name in names {
            streams.insert(name.to_owned(), self.known(name)?.clone());
        }
        self.with(streams)
    }

    /// Notes that rows of these streams are stored in another form, which loses bits. `form` is its name, such as
    /// `jpeg:95`. A policy that was trained with such rows may be served others.
    #[must_use]
    pub fn with_stored(self, streams: &[String], form: &str) -> Self {
        self.with_note(streams, STORED, form)
    }

    /// Notes that the numbers of these streams were decoded of something that is no message, such as a video.
    /// `words` says how. The messages of a robot are made otherwise, so it is no difference.
    #[must_use]
    pub fn with_decoded(self, streams: &[String], words: &str) -> Self {
        self.with_note(streams, DECODED, words)
    }

    fn with_note(mut self, streams: &[String], key: &str, words: &str) -> Self {
        for name in streams {
            let stream = self.0.get_mut(STREAMS).and_then(|all| all.get_mut(name));
            if let Some(map) = stream.and_then(Value::as_object_mut) {
                let mut entries: Vec<_> = std::mem::take(map).into_iter().collect();
                entries.retain(|(known, _)| known != key);
                entries.push((key.into(), json!(words)));
                entries.sort_by(|(one, _), (other, _)| one.cmp(other));
                map.extend(entries);
            }
        }
        self
    }

    /// The contract of windows of some of its streams.
    ///
    /// # Errors
    /// [`ContractError::Wrong`] if it lacks one of them, or if there are none.
    pub fn of_windows<'a>(
        &self,
        windows: impl IntoIterator<Item = WindowsOf<'a>>,
    ) -> Result<Self, ContractError> {
        let mut streams = Map::new();
        for WindowsOf { name, targets_ns, lag_stated, present, rule, dtype } in windows {
            let mut stream = self.known(name)?.clone();
            if let Some(map) = stream.as_object_mut() {
                let unwraps = map.contains_key("present_step");
                map.extend(of::times(targets_ns, unwraps.then_some(present)));
                map.remove("max_gap_ns");
                map.extend(of::rules(rule));
                // Rows ahead of the clock count only for what is ahead of it, and for plans.
                let inputs = map.get("inputs").and_then(Value::as_array);
                let plans = inputs.is_some_and(|inputs| inputs.iter().any(of::is_plan));
                if !plans && !of::is_ahead(targets_ns) {
                    map.remove("max_ahead_ns");
                }
                // An image of bytes keeps their values in another type, and so has no normalisation.
                map.insert("dtype".into(), json!(dtype.name()));
                dataset::of_windows(map, lag_stated);
                if let Some(steps) = map.get_mut("shape").and_then(|shape| shape.get_mut(0)) {
                    *steps = json!(targets_ns.len());
                }
            }
            streams.insert(name.to_owned(), stream);
        }
        self.with(streams)
    }

    /// The contract with these keys, in its one form.
    fn of_map(map: Map<String, Value>) -> Self {
        match plain(Value::Object(map)) {
            Value::Object(map) => Contract(map),
            _ => unreachable!("it was a mapping"),
        }
    }

    /// Copies the contract with other streams.
    fn with(&self, streams: Map<String, Value>) -> Result<Self, ContractError> {
        if streams.is_empty() {
            return Err(self.lacks("none"));
        }
        let mut all = self.0.clone();
        all.insert(STREAMS.into(), sorted(streams.into_iter().collect()));
        Ok(Contract(all))
    }

    /// Keys of a stream that the contract must have.
    fn known(&self, name: &str) -> Result<&Value, ContractError> {
        self.stream(name).ok_or_else(|| self.lacks(name))
    }

    /// The error for an unknown stream.
    fn lacks(&self, name: &str) -> ContractError {
        let known: Vec<_> = self.streams().collect();
        let expected = format!("one of the streams {}", known.join(", "));
        wrong("contract", expected, name.to_owned())
    }

    /// Tells it from any other contract: 16 hexadecimal digits, the XXH3 of its text.
    pub fn digest(&self) -> String {
        format!("{:016x}", XxHash3_64::oneshot(self.to_string().as_bytes()))
    }

    /// The JSON value.
    pub fn value(&self) -> Value {
        Value::Object(self.0.clone())
    }
}

/// The JSON text: keys sorted, no spaces, each number in one form.
impl Display for Contract {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = serde_json::to_string(&self.0).map_err(|_| fmt::Error)?;
        f.write_str(&text)
    }
}

/// An error.
fn wrong(place: &str, expected: impl Into<String>, found: String) -> ContractError {
    ContractError::Wrong { place: place.to_owned(), expected: expected.into(), found }
}

/// The value in its only form: keys sorted; a whole number without a point.
fn plain(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            sorted(map.into_iter().map(|(key, value)| (key, plain(value))).collect())
        }
        Value::Array(items) => items.into_iter().map(plain).collect(),
        Value::Number(number) => match number.as_f64().filter(|_| number.is_f64()) {
            Some(float) if float.fract() == 0.0 && float.abs() < EXACT => json!(float as i64),
            _ => Value::Number(number),
        },
        other => other,
    }
}

/// A mapping with its keys sorted, whatever the features of `serde_json`.
fn sorted(mut entries: Vec<(String, Value)>) -> Value {
    entries.sort_by(|(one, _), (other, _)| one.cmp(other));
    Value::Object(entries.into_iter().collect())
}

#[cfg(test)]
mod tests;
