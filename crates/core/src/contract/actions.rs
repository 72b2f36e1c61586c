//! The actions of a policy: for which instants the rows of its chunks are, and what their numbers mean.
//!
//! A contract has them by the names of their streams, or, if a configuration has `commands`, by the names of its groups.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::vector::bare;
use super::{ACTIONS, Contract, ContractError, sorted, wrong};
use crate::spec::{Config, GroupSpec, Interface};
use robocache_ops::operators::{Operator, Source};

/// Greatest distance of a row from its place on an even grid \[ns\].
const MOST_UNEVEN_NS: f64 = 1.0;

/// One stream of actions, as the windows of a training had it.
#[derive(Clone, Debug, PartialEq)]
pub struct Actions {
    /// The stream, or the group of a configuration.
    pub stream: String,
    /// The channels of a row, such as `shoulder.position`.
    pub names: Vec<String>,
    /// Instants of the rows, relative to the answered tick \[ns\]. They rise evenly.
    pub offsets_ns: Vec<i64>,
    /// Per channel: what the training made of its values, in order.
    pub operators: Vec<Vec<Operator>>,
    /// Per channel: true if its rows are differences to a value of the tensor.
    pub relative: Vec<bool>,
    /// The stream of the tensor with these values; `None` without relative channels.
    pub reference: Option<String>,
    /// Channels that are poses, and what the training made of these.
    pub poses: Poses,
}

/// Poses among the channels of actions: what the training made of their rows. No command follows from poses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Poses {
    /// By pose its channels: three of a position, then those of a rotation. Relative poses are transforms, not differences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub poses: Vec<Vec<String>>,
    /// Order of the six numbers that a rotation became; `None` if it has the form that the channels have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rotation_6d: Option<String>,
    /// Names of the numbers of a row that the policy answers. They have the operators.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<String>,
}

/// Facts about the windows of a stream of actions.
#[derive(Clone, Copy, Debug)]
pub struct ActionWindows<'a> {
    /// The stream.
    pub name: &'a str,
    /// Targets minus the instant \[ns\], one per row.
    pub offsets_ns: &'a [i64],
    /// True if the lag of the targets is that of the training: the windows are a label, or state it.
    pub lag_known: bool,
    /// Channels or joints whose rows are differences to a value of the tensor.
    pub relative: &'a [String],
    /// The stream of the tensor with these values.
    pub reference: Option<&'a str>,
    /// Per number of a row: what the windows made of it, after the difference; empty if nothing.
    pub operators: &'a [Vec<Operator>],
    /// Poses as the windows changed them.
    pub poses: &'a Poses,
}

/// Actions as the JSON of a contract has them.
#[derive(Deserialize, Serialize)]
struct Entry {
    names: Vec<String>,
    /// Per channel its unit; empty if none is known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    units: Vec<String>,
    offsets_ns: Vec<i64>,
    /// Empty if no channel has any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    operators: Vec<Vec<Operator>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    relative: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reference: Option<String>,
    #[serde(flatten)]
    poses: Poses,
}

impl Actions {
    /// The joints of the channels, and the quantity that all of them are. The topic of an input in front of a name is left
    /// out.
    ///
    /// # Errors
    /// A sentence, if the channels are no positions or velocities of distinct joints.
    pub fn joints(&self) -> Result<(Vec<String>, Interface), String> {
        let wrong = |found: &str| {
            let expected = "channels JOINT.position or JOINT.velocity, all of one kind";
            format!("{}: expected {expected}, found {found}", self.stream)
        };
        if !self.poses.poses.is_empty() {
            return Err(wrong("poses"));
        }
        let mut joints = Vec::with_capacity(self.names.len());
        let mut interface = None;
        for name in &self.names {
            let (joint, quantity) = bare(name).rsplit_once('.').ok_or_else(|| wrong(name))?;
            let all = [Interface::Position, Interface::Velocity];
            let own = all.into_iter().find(|of| of.name() == quantity);
            let own = own.filter(|own| *interface.get_or_insert(*own) == *own);
            if own.is_none() || joint.is_empty() || joints.iter().any(|known| known == joint) {
                return Err(wrong(name));
            }
            joints.push(joint.to_owned());
        }
        interface.map(|interface| (joints, interface)).ok_or_else(|| wrong("none"))
    }

    fn of_entry(stream: &str, entry: Entry) -> Result<Self, String> {
        let Entry { names, offsets_ns, mut operators, relative, reference, poses, .. } = entry;
        let numbers = if poses.poses.is_empty() { names.len() } else { poses.outputs.len() };
        if operators.is_empty() {
            operators.resize(numbers, Vec::new());
        }
        if let Some(name) = relative.iter().find(|name| !names.contains(name)) {
            return Err(format!("relative: {name}"));
        }
        if operators.len() != numbers || relative.is_empty() != reference.is_none() {
            return Err("operators or a reference that do not fit the names".to_owned());
        }
        let is_usable = |of: &Operator| match *of {
            Operator::Affine { shift, scale, offset } => {
                [shift, scale, offset].iter().all(|number| number.is_finite()) && scale != 0.0
            }
            Operator::Clamp { .. } | Operator::Unwrap => true,
        };
        if !operators.iter().flatten().all(is_usable) {
            return Err("operators that cannot be taken back".to_owned());
        }
        if let Some(uneven) = uneven(&offsets_ns) {
            return Err(uneven);
        }
        let relative = names.iter().map(|name| relative.contains(name)).collect();
        let stream = stream.to_owned();
        Ok(Actions { stream, names, offsets_ns, operators, relative, reference, poses })
    }

    fn entry(&self, units: Vec<String>) -> Value {
        let has_operators = self.operators.iter().any(|of| !of.is_empty());
        let of = self.names.iter().zip(&self.relative);
        let entry = Entry {
            names: self.names.clone(),
            units,
            offsets_ns: self.offsets_ns.clone(),
            operators: if has_operators { self.operators.clone() } else { Vec::new() },
            relative: of.filter(|(_, is)| **is).map(|(name, _)| name.clone()).collect(),
            reference: self.reference.clone(),
            poses: self.poses.clone(),
        };
        json!(entry)
    }

    /// The actions that a group of commands takes.
    pub(crate) fn of_group(config: &Config, group: &GroupSpec) -> Self {
        let quantity = group.interface.name();
        Actions {
            stream: group.name.clone(),
            names: group.joints.iter().map(|joint| format!("{}.{quantity}", joint.name)).collect(),
            offsets_ns: group.offsets_ns.clone(),
            operators: group.joints.iter().map(|joint| joint.operators.clone()).collect(),
            relative: group.joints.iter().map(|joint| joint.relative).collect(),
            reference: group.reference.map(|stream| config.stream(stream).name.clone()),
            poses: Poses::default(),
        }
    }
}

impl Contract {
    /// The contract of what a node with this configuration serves, and of the chunks that its `commands` take.
    pub fn of_node(config: &Config) -> Contract {
        let mut all = Self::of(config).0;
        if let Some(commands) = &config.commands {
            let groups = commands.groups.iter();
            let entry = |group: &GroupSpec| {
                let actions = Actions::of_group(config, group);
                (group.name.clone(), actions.entry(Vec::new()))
            };
            all.insert(ACTIONS.into(), sorted(groups.map(entry).collect()));
        }
        Self::of_map(all)
    }

    /// All actions that it has: none before version 3, or if nobody gave any.
    ///
    /// # Errors
    /// [`ContractError::Wrong`] if it says something else of them.
    pub fn actions(&self) -> Result<Vec<Actions>, ContractError> {
        let all = self.0.get(ACTIONS).and_then(Value::as_object).into_iter().flatten();
        let read = |(stream, value): (&String, &Value)| {
            let expected = "the names and even offsets_ns of actions, as cache.contract(config, actions=...) writes them";
            let entry = Entry::deserialize(value).map_err(|error| error.to_string());
            entry
                .and_then(|entry| Actions::of_entry(stream, entry))
                .map_err(|found| wrong(&format!("{ACTIONS}.{stream}"), expected, found))
        };
        all.map(read).collect()
    }

    /// The actions of exactly these joints in this order, and of this quantity if one is given; without joints, the only
    /// ones. With them are their joints.
    ///
    /// # Errors
    /// A sentence, if the contract has none or several of them.
    pub fn actions_of_joints(
        &self,
        joints: Option<&[String]>,
        interface: Option<Interface>,
    ) -> Result<(Vec<String>, Actions), String> {
        let all = self.actions().map_err(|error| error.to_string())?;
        if all.is_empty() {
            let writer = "cache.contract(config, actions=...) writes them";
            return Err(format!("the contract has no actions: {writer}"));
        }
        let mut matching = Vec::new();
        let mut known = Vec::new();
        for actions in all {
            known.push(format!("`{}` with {}", actions.stream, actions.names.join(", ")));
            match actions.joints() {
                Ok((own, of)) => {
                    let fits = joints.is_none_or(|joints| joints == own);
                    if fits && interface.is_none_or(|interface| interface == of) {
                        matching.push((own, actions));
                    }
                }
                Err(why) if joints.is_none() => return Err(why),
                Err(_) => {}
            }
        }
        if matching.len() == 1 {
            return Ok(matching.remove(0));
        }
        let quantity = interface.map_or(String::new(), |of| format!(".{}", of.name()));
        let wanted = joints.unwrap_or_default().iter().map(|joint| format!("{joint}{quantity}"));
        let wanted = wanted.collect::<Vec<_>>().join(", ");
        let known = known.join("; ");
        Err(match joints {
            None => format!("the contract has {known}: name the joints"),
            Some(_) if matching.is_empty() => format!("the contract has {known}, and not {wanted}"),
            Some(_) => format!("the contract has {known}, and {wanted} more than once"),
        })
    }

    /// This contract, with actions that are windows of streams of `store`, the contract of the rows.
    ///
    /// # Errors
    /// [`ContractError::Wrong`] if the node could not make commands of such windows.
    pub fn with_actions<'a>(
        self,
        store: &Contract,
        windows: impl IntoIterator<Item = ActionWindows<'a>>,
    ) -> Result<Self, ContractError> {
        let mut found = Vec::new();
        for windows in windows {
            let (actions, units) = store.actions_of(windows)?;
            self.reference(&actions)?;
            found.push((actions.stream.clone(), actions.entry(units)));
        }
        let mut all = self.0;
        all.remove(ACTIONS);
        if !found.is_empty() {
            all.insert(ACTIONS.into(), sorted(found));
        }
        Ok(Self::of_map(all))
    }

    /// The actions of these windows, and the unit of each channel if one is known.
    fn actions_of(
        &self,
        windows: ActionWindows<'_>,
    ) -> Result<(Actions, Vec<String>), ContractError> {
        let ActionWindows { name, offsets_ns, lag_known, relative, reference, .. } = windows;
        let wrong =
            |expected: &str, found: String| wrong(&format!("{ACTIONS}.{name}"), expected, found);
        if !lag_known {
            let expected =
                "windows of a label (a horizon without history, or label: True), or with lag_ms";
            return Err(wrong(expected, "windows with the lag of the configuration".to_owned()));
        }
        if let Some(uneven) = uneven(offsets_ns) {
            let expected = "rows at round(k * step), such as of {\"horizon\": {\"steps\": 50, \"step_ms\": 20}}";
            return Err(wrong(expected, uneven));
        }
        let vector = self.vector(name)?;
        let Some(names) = vector.channels.clone() else {
            let expected = "names of its channels: give names to the import's mapping";
            return Err(wrong(expected, "a dataset without names".to_owned()));
        };
        let outputs = vector.outputs(name)?;
        let whole = outputs.iter().enumerate().find(|(at, of)| of.source != Source::Channel(*at));
        if let Some((at, _)) = whole {
            let found = format!("{}, which is made of several", names[at]);
            return Err(wrong("channels with operators of their own", found));
        }
        let operators: Vec<_> = outputs.iter().map(|of| of.operators.clone()).collect();
        let mut units: Vec<_> = outputs.into_iter().map(|of| of.unit).collect();
        units.truncate(if units.iter().all(String::is_empty) { 0 } else { names.len() });
        let chosen = chosen(relative, &names)
            .map_err(|found| wrong(&format!("relative channels of {}", names.join(", ")), found))?;
        // The difference of two values has no offset, and no limits.
        let scales = |of: &Operator| matches!(of, Operator::Affine { shift: 0.0, offset: 0.0, .. });
        let shifted = (0..names.len()).find(|at| chosen[*at] && !operators[*at].iter().all(scales));
        if let Some(at) = shifted {
            let expected = "relative channels without operators, or with a scale alone";
            return Err(wrong(expected, names[at].clone()));
        }
        if chosen.contains(&true) != reference.is_some() {
            let expected =
                "relative: the channels, and reference: the stream that has their values";
            return Err(wrong(expected, "one without the other".to_owned()));
        }
        let operators = made(operators, &windows).map_err(|found| {
            wrong("operators for each number of a row, and no poses of channels with some", found)
        })?;
        let actions = Actions {
            stream: name.to_owned(),
            names,
            offsets_ns: offsets_ns.to_vec(),
            operators,
            relative: chosen,
            reference: reference.map(str::to_owned),
            poses: windows.poses.clone(),
        };
        Ok((actions, units))
    }
}

/// The operators of the numbers of a row: those of the channels, then those of the windows.
fn made(
    mut channels: Vec<Vec<Operator>>,
    windows: &ActionWindows<'_>,
) -> Result<Vec<Vec<Operator>>, String> {
    if !windows.poses.poses.is_empty() {
        if channels.iter().any(|of| !of.is_empty()) {
            return Err("poses of channels with operators".to_owned());
        }
        channels = vec![Vec::new(); windows.poses.outputs.len()];
    }
    if ![0, channels.len()].contains(&windows.operators.len()) {
        return Err(format!("{} for {}", windows.operators.len(), channels.len()));
    }
    for (of, more) in channels.iter_mut().zip(windows.operators) {
        of.extend_from_slice(more);
    }
    Ok(channels)
}

/// Per name: true if it is among the wanted ones, which are names or their joints.
fn chosen(wanted: &[String], names: &[String]) -> Result<Vec<bool>, String> {
    let is = |wanted: &str, name: &str| {
        let joint = name.rsplit_once('.').map(|(joint, _)| joint);
        wanted == name || joint == Some(wanted)
    };
    let unknown = wanted.iter().find(|wanted| !names.iter().any(|name| is(wanted, name)));
    if let Some(unknown) = unknown {
        return Err(unknown.clone());
    }
    Ok(names.iter().map(|name| wanted.iter().any(|wanted| is(wanted, name))).collect())
}

/// Says how offsets are no `round(k * step) - lag` with a step above zero, to a nanosecond; `None` if they are.
fn uneven(offsets_ns: &[i64]) -> Option<String> {
    let Some(first) = offsets_ns.first().copied() else { return Some("no rows".to_owned()) };
    let mut least = 0.0_f64;
    let mut most = f64::INFINITY;
    let mut before = first;
    for (row, offset) in offsets_ns.iter().enumerate().skip(1) {
        let from_first = offset.checked_sub(first).map(|ns| ns as f64);
        least = least.max((from_first.unwrap_or(f64::NAN) - MOST_UNEVEN_NS) / row as f64);
        most = most.min((from_first.unwrap_or(f64::NAN) + MOST_UNEVEN_NS) / row as f64);
        if from_first.is_none() || *offset <= before || least > most {
            return Some(format!("row {row} at {offset} ns after {before} ns"));
        }
        before = *offset;
    }
    None
}

/// The actions of a contract by their names, as JSON.
pub(super) fn entries(contract: &Contract) -> Vec<(String, Map<String, Value>)> {
    let all = contract.0.get(ACTIONS).and_then(Value::as_object).into_iter().flatten();
    all.filter_map(|(name, entry)| Some((name.clone(), entry.as_object()?.clone()))).collect()
}
