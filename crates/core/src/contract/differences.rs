//! Differences of two contracts, a sentence each.

use crate::encoder::kind;
use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::{Map, Value};

use super::actions::entries;
use super::vector::bare;
use super::words::{lacking, long_lists, sentence, unknown};
use super::{ACCEPTED, ACTIONS, Contract, DECODED, FORMAT_KEY, LAG, STORED, STREAMS, UNKNOWN};

/// Longer lists are not written as a whole.
pub(super) const MOST_ITEMS: usize = 8;
/// The keys of a stream that say when a step is valid, and what an invalid step holds.
const OF_VALIDITY: [&str; 4] = ["fill", "max_age_ns", "max_gap_ns", "transforms_max_gap_ns"];
/// The keys of an input that say how its values came, and not what they are.
const OF_TRANSPORT: [&str; 2] = ["codec", "type"];
/// The keys of actions that say what their rows mean, beside their names and their reference.
const OF_ACTIONS: [&str; 6] =
    ["offsets_ns", "operators", "relative", "poses", "rotation_6d", "outputs"];
/// The strategies that make values between rows.
const INTERPOLATING: [&str; 2] = ["linear", "slerp"];

/// Kinds of differences, the worst for a policy first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DifferenceKind {
    /// The policy would get other numbers in valid steps. It is refused.
    Values,
    /// Other steps would be valid, or invalid steps would hold other numbers. It is a warning.
    Validity,
    /// The values would come by another message type or codec. It is said.
    Transport,
    /// One side does not know it, as a dataset does not know the lag of its robot. It is said.
    Unknown,
    /// The policy would get other numbers, and its contract accepts that. It is said.
    Accepted,
}

impl DifferenceKind {
    /// Name of the kind, as people and JSON read it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Values => "values",
            Self::Validity => "validity",
            Self::Transport => "transport",
            Self::Unknown => "unknown",
            Self::Accepted => "accepted",
        }
    }
}

/// A setting in which two contracts differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The setting, such as `wrist.targets_ns`.
    pub key: String,
    /// Its kind: the meaning for the policy.
    pub kind: DifferenceKind,
    /// The sentence for people. It begins with the key.
    pub sentence: String,
    /// Value that would be served; `None` if it cannot be accepted.
    #[serde(skip)]
    pub served: Option<Value>,
}

/// Sentences of the differences for which a policy is not served.
pub fn refused(differences: &[Difference]) -> Vec<String> {
    let values = differences.iter().filter(|of| of.kind == DifferenceKind::Values);
    values.map(|of| of.sentence.clone()).collect()
}

impl Contract {
    /// Differences between the training, which had this contract, and what `served` would serve; the worst kind first.
    ///
    /// Streams that `served` has beside those of the policy are no difference: the policy does not look at them. Groups
    /// with other joints than the policy's actions are none either: another policy moves them.
    pub fn differences(&self, served: &Contract) -> Vec<Difference> {
        let mut found = Found::default();
        let [mut trained, mut other] = [self, served].map(|of| of.0.clone());
        for map in [&mut trained, &mut other] {
            map.retain(|key, _| ![FORMAT_KEY, STREAMS, ACCEPTED, ACTIONS].contains(&key.as_str()));
        }
        found.unknown("", &mut trained, &mut other);
        found.maps("", &trained, &other);
        self.streams().for_each(|name| found.stream_of(name, self, served));
        found.actions(self, served);
        found.judged(self)
    }

    /// Differences in one stream of the training alone, as of [`Contract::differences`].
    pub(crate) fn differences_in(&self, stream: &str, served: &Contract) -> Vec<Difference> {
        let mut found = Found::default();
        found.stream_of(stream, self, served);
        found.judged(self)
    }
}

/// The differences so far.
#[derive(Default)]
struct Found {
    /// The kind of the rows of the stream that is compared.
    kind: String,
    all: Vec<Difference>,
}

impl Found {
    /// All differences, of which the training may accept some; the worst kind first.
    fn judged(self, trained: &Contract) -> Vec<Difference> {
        let mut all = self.all;
        for of in all.iter_mut().filter(|of| of.kind == DifferenceKind::Values) {
            if of.served.is_some() && trained.accepted(&of.key) == of.served.as_ref() {
                of.kind = DifferenceKind::Accepted;
            }
        }
        all.sort_by_key(|of| of.kind);
        all
    }

    /// Compares the stream of this name in two contracts.
    fn stream_of(&mut self, name: &str, trained: &Contract, served: &Contract) {
        match served.stream(name) {
            None => self.note(name, DifferenceKind::Values, None, lacking(name, served)),
            Some(other) => self.stream(name, &trained.0[STREAMS][name], other),
        }
    }

    /// Compares two streams.
    fn stream(&mut self, name: &str, trained: &Value, served: &Value) {
        trained["kind"].as_str().unwrap_or_default().clone_into(&mut self.kind);
        // Rows of two kinds have nothing to compare.
        if trained["kind"] != served["kind"] {
            let key = format!("{name}.kind");
            return self.compare(&key, trained.get("kind"), served.get("kind"));
        }
        let has_lanes = needs_lanes(trained);
        let [mut trained, mut served] = [trained, served].map(|stream| {
            let mut map = stream.as_object().cloned().unwrap_or_default();
            // Who trains with images that a store or a dataset has made lossy, or decoded of videos, serves those of the
            // camera.
            map.remove(STORED);
            map.remove(DECODED);
            if let Some(encoder) = map.get_mut("encoder").and_then(Value::as_object_mut) {
                encoder.retain(|key, _| has_lanes || key != "lanes");
            }
            map
        });
        self.lag(name, &trained, &mut served);
        self.unknown(&format!("{name}."), &mut trained, &mut served);
        self.maps(&format!("{name}."), &trained, &served);
    }

    /// Compares what the policy answers with what is made of it, if that has any of its joints.
    fn actions(&mut self, trained: &Contract, served: &Contract) {
        let served = entries(served);
        for (name, actions) in entries(trained) {
            let names = names_of(&actions);
            // By joints: its positions are none of its velocities, and both move it.
            let shares = |(_, of): &&(String, Map<String, Value>)| {
                let others = names_of(of);
                others
                    .iter()
                    .any(|other| names.iter().any(|name| joint_of(name) == joint_of(other)))
            };
            let Some((_, group)) = served.iter().find(shares) else { continue };
            let key = |key: &str| format!("{ACTIONS}.{name}.{key}");
            let [one, other] = [&actions, group].map(|of| Value::from(names_of(of)));
            if one != other {
                // Nobody can accept it: rows of other joints have nothing to compare.
                let words = words(&key("names"), Some(&one), Some(&other));
                self.note(&key("names"), DifferenceKind::Values, None, words);
                continue;
            }
            for part in OF_ACTIONS {
                let [one, other] = [&actions, group].map(|of| of.get(part).map(without_topics));
                self.compare(&key(part), one.as_ref(), other.as_ref());
            }
            // If one side has relative channels alone, that is a difference already.
            if let [Some(one), Some(other)] = [&actions, group].map(|of| of.get("reference")) {
                self.compare(&key("reference"), Some(one), Some(other));
            }
        }
    }

    /// Compares the lags if one side does not know its own. Then the distances of the targets count alone.
    fn lag(&mut self, name: &str, trained: &Map<String, Value>, served: &mut Map<String, Value>) {
        let [one, other] = [trained, &*served].map(|of| unknown_of(of).contains(LAG));
        let [from, to] = [trained.get("targets_ns"), served.get("targets_ns")];
        let (true, Some(shift_ns)) = (one != other, shift(from, to)) else { return };
        let lag = Value::from(if one { -shift_ns } else { shift_ns });
        let key = format!("{name}.{LAG}");
        let sentence = unknown(&key, one, Some(&lag));
        self.note(&key, DifferenceKind::Unknown, one.then_some(lag), sentence);
        let targets = trained.get("targets_ns").cloned().unwrap_or_default();
        served.insert("targets_ns".into(), targets);
    }

    /// Takes from both sides what one of them does not know.
    fn unknown(
        &mut self,
        path: &str,
        trained: &mut Map<String, Value>,
        served: &mut Map<String, Value>,
    ) {
        let [one, other] = [&*trained, &*served].map(unknown_of);
        for key in one.union(&other) {
            let [in_training, in_service] = [&mut *trained, &mut *served].map(|of| of.remove(key));
            let path = format!("{path}{key}");
            let in_both = one.contains(key) && other.contains(key);
            // The lag is compared before, and what nobody has is no difference.
            if in_both || key == LAG || (in_training.is_none() && in_service.is_none()) {
                continue;
            }
            let known = if one.contains(key) { &in_service } else { &in_training };
            let sentence = unknown(&path, one.contains(key), known.as_ref());
            self.note(&path, DifferenceKind::Unknown, in_service, sentence);
        }
        trained.remove(UNKNOWN);
        served.remove(UNKNOWN);
    }

    /// Compares the values of two mappings, whose keys come after `path`.
    fn maps(&mut self, path: &str, trained: &Map<String, Value>, served: &Map<String, Value>) {
        for key in trained.keys().chain(served.keys()).collect::<BTreeSet<_>>() {
            self.compare(&format!("{path}{key}"), trained.get(key), served.get(key));
        }
    }

    /// Compares two values of a key.
    fn compare(&mut self, key: &str, trained: Option<&Value>, served: Option<&Value>) {
        match (trained, served) {
            (one, other) if one == other => {}
            (Some(Value::Object(one)), Some(Value::Object(other))) => {
                self.maps(&format!("{key}."), one, other);
            }
            (Some(Value::Array(one)), Some(Value::Array(other)))
                if one.len() == other.len() && !one.iter().all(is_scalar) =>
            {
                for (at, (one, other)) in one.iter().zip(other).enumerate() {
                    self.compare(&format!("{key}[{at}]"), Some(one), Some(other));
                }
            }
            _ => {
                let words = words(key, trained, served);
                self.note(key, self.kind_of(key), served.cloned(), words);
            }
        }
    }

    /// Kind of a difference in a key.
    fn kind_of(&self, key: &str) -> DifferenceKind {
        let mut parts = key.rsplit('.');
        let last = parts.next().unwrap_or(key);
        let before = parts.next().unwrap_or_default();
        let of_input = before.starts_with("inputs[");
        if of_input && OF_TRANSPORT.contains(&last) && kind::TYPELESS.contains(&self.kind.as_str())
        {
            DifferenceKind::Transport
        } else if !of_input && OF_VALIDITY.contains(&last) {
            DifferenceKind::Validity
        } else {
            DifferenceKind::Values
        }
    }

    fn note(&mut self, key: &str, kind: DifferenceKind, served: Option<Value>, sentence: String) {
        self.all.push(Difference { key: key.to_owned(), kind, sentence, served });
    }
}

/// The keys of a mapping whose values are unknown.
fn unknown_of(map: &Map<String, Value>) -> BTreeSet<String> {
    let keys = map.get(UNKNOWN).and_then(Value::as_array).into_iter().flatten();
    keys.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// A list of names without the topics of inputs. Anything else is as it was.
fn without_topics(value: &Value) -> Value {
    let names = value.as_array().and_then(|all| all.iter().map(Value::as_str).collect());
    let names: Option<Vec<&str>> = names;
    names.map_or_else(|| value.clone(), |names| names.into_iter().map(bare).collect())
}

/// The sentence for two values of a key that are compared as a whole.
fn words(key: &str, trained: Option<&Value>, served: Option<&Value>) -> String {
    match (trained, served) {
        (Some(Value::Array(one)), Some(Value::Array(other)))
            if one.len() == other.len() && one.len() > MOST_ITEMS =>
        {
            long_lists(key, one, other)
        }
        _ => sentence(key, trained, served),
    }
}

/// The joint of a channel: its name without the quantity.
fn joint_of(channel: &str) -> &str {
    channel.rsplit_once('.').map_or(channel, |(joint, _)| joint)
}

/// The channels of actions, without the topics of inputs.
fn names_of(actions: &Map<String, Value>) -> Vec<String> {
    let names = actions.get("names").and_then(Value::as_array).into_iter().flatten();
    names.filter_map(Value::as_str).map(|name| bare(name).to_owned()).collect()
}

/// Time from the targets of a list to those of another \[ns\]; `None` if it is not the same for all.
fn shift(targets: Option<&Value>, others: Option<&Value>) -> Option<i64> {
    let one = targets?.as_array()?;
    let other = others?.as_array()?;
    let shift = |(from, to): (&Value, &Value)| to.as_i64()?.checked_sub(from.as_i64()?);
    let mut shifts = one.iter().zip(other).map(shift);
    let first = shifts.next()??;
    let is_lag = first.checked_neg().is_some() && one.len() == other.len();
    (is_lag && shifts.all(|shift| shift == Some(first))).then_some(first)
}

/// True if the lanes of a stream bear on its numbers: it interpolates, or it has operators.
fn needs_lanes(stream: &Value) -> bool {
    let strategy = stream["strategy"].as_str().unwrap_or_default();
    INTERPOLATING.contains(&strategy) || stream.pointer("/encoder/outputs").is_some()
}

fn is_scalar(value: &Value) -> bool {
    !value.is_array() && !value.is_object()
}
