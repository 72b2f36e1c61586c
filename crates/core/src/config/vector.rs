//! Messages that become a vector: which fields, which joints, and how each channel is interpolated.

use super::check::{Check, is_printable};
use super::lanes;
use super::raw::{RawInput, RawStream};
use super::read::InOrder;
use super::words::{nearest, one_of};
use crate::input::{Content, Field, JOINT_FIELDS, MAX_JOINTS, Member, POINT_FIELDS};
use crate::spec::Selection;
use robocache_ops::operators::{Channel, Group, VectorSpec};
use robocache_ops::resample::Lane;

/// Validates the key `fields` of the stream at `key`, whose messages are made of `members`.
pub(super) fn fields(
    check: &mut Check<'_>,
    key: &str,
    message: &str,
    members: &[Member],
    fields: Option<Vec<String>>,
) -> Option<(VectorSpec, Selection)> {
    let all: Vec<&Field> = members.iter().filter_map(Member::field).collect();
    let known: Vec<&str> = all.iter().map(|field| field.name).collect();
    let chosen = match fields {
        Some(names) => chosen(check, &format!("{key}.fields"), message, &known, &names)?,
        None => (0..all.len()).collect(),
    };
    let channel = |field: &Field, component: &str| Channel {
        name: format!("{}.{component}", field.name),
        lane: field.lane,
    };
    let channels = chosen.iter().flat_map(|at| {
        let field = all[*at];
        field.components.iter().map(move |component| channel(field, component))
    });
    let selection = Selection::Fields(chosen.iter().map(|at| known[*at].to_owned()).collect());
    Some((VectorSpec::whole(channels.collect()), selection))
}

/// True if a row of these fields has a quaternion. `None` means all fields.
pub(super) fn has_orientation(content: Content, fields: Option<&[String]>) -> bool {
    let Content::Fields(members) = content else { return false };
    let chosen = |field: &Field| fields.is_none_or(|names| names.iter().any(|n| n == field.name));
    let mut all = members.iter().filter_map(Member::field);
    all.any(|field| field.lane == Lane::Quaternion && chosen(field))
}

/// Names of quantities in the names of channels. In a plan the fields are plural.
const QUANTITIES: [&str; 4] = ["position", "velocity", "acceleration", "effort"];

/// The joints of one of several inputs, with their place.
pub(super) struct InputJoints {
    /// The key of the list: that of the input, or else that of its stream.
    key: String,
    /// `None` if the list is missing or could not be read.
    joints: Option<Vec<String>>,
    /// Text in front of the names of its channels: its topic and a colon if there are several inputs.
    pub label: String,
}

/// Takes the joints of each input of the stream at `key`; `None` if no input has joints of its own. If an input lacks
/// them, those of its stream apply.
pub(super) fn joints_of_inputs(
    check: &Check<'_>,
    key: &str,
    raw: &mut RawStream,
) -> Option<Vec<InputJoints>> {
    let inputs = raw.inputs.as_deref_mut()?;
    let own = |i: usize| format!("{key}.inputs[{i}].joints");
    let named = |(i, input): (usize, &RawInput)| input.joints.is_some() || check.is_unread(&own(i));
    if !inputs.iter().enumerate().any(named) {
        return None;
    }
    let several = inputs.len() > 1;
    let of_stream = raw.joints.take().map(|joints| joints.0);
    let joints = |(i, input): (usize, &mut RawInput)| {
        // A topic has no colon, so the name of a channel says where the joint begins.
        let topic = input.topic.as_deref().filter(|_| several);
        let label = topic.map(|topic| format!("{topic}:")).unwrap_or_default();
        let joints = input.joints.take().map(|joints| joints.0);
        match joints.is_none() && of_stream.is_some() && !check.is_unread(&own(i)) {
            true => InputJoints { key: format!("{key}.joints"), joints: of_stream.clone(), label },
            false => InputJoints { key: own(i), joints, label },
        }
    };
    Some(inputs.iter_mut().enumerate().map(joints).collect())
}

/// The joints of a stream: each group has a ring of its own.
struct JointGroups {
    groups: Vec<Vec<String>>,
    /// Text in front of the names of each group's channels.
    labels: Vec<String>,
    /// True if each group is that of an input of its own.
    by_input: bool,
}

impl JointGroups {
    /// All joints in row order, each with its label.
    fn all(&self) -> Vec<(&str, &String)> {
        let mut all = Vec::new();
        for (group, joints) in self.groups.iter().enumerate() {
            let label = self.labels.get(group).map_or("", String::as_str);
            all.extend(joints.iter().map(|joint| (label, joint)));
        }
        all
    }
}

/// Validates the keys `fields`, `joints`, `groups`, `angular`, `quaternions` and `held` of the stream at `key`, whose
/// messages are of this type. Plans have at most `max_points` points. `of_inputs` are the joints of each input, if they have their own.
/// Returns a selection for all inputs, or one for each.
pub(super) fn joints(
    check: &mut Check<'_>,
    key: &str,
    message: &str,
    max_points: Option<usize>,
    raw: &mut RawStream,
    of_inputs: Option<Vec<InputJoints>>,
) -> Option<(VectorSpec, Vec<Selection>)> {
    let known = if max_points.is_some() { &POINT_FIELDS[..] } else { &JOINT_FIELDS[..] };
    let quantity = |field: usize| match max_points {
        Some(_) => QUANTITIES[field],
        None => JOINT_FIELDS[field],
    };
    let fields = match raw.fields.take() {
        Some(names) => chosen(check, &format!("{key}.fields"), message, known, &names),
        None => Some(vec![0]),
    };
    let given = raw.groups.take();
    if given.is_none() && check.is_unread(&format!("{key}.inputs")) {
        return None; // they may have joints of their own
    }
    let groups = match of_inputs {
        Some(of_inputs) => groups_of_inputs(check, key, of_inputs, given.is_some()),
        None => groups(check, key, raw.joints.take().map(|joints| joints.0), given)
            .map(|groups| JointGroups { groups, labels: Vec::new(), by_input: false }),
    };
    let fields = fields?;
    let groups = groups?;
    let all = groups.all();
    let sizes = groups.groups.iter().map(Vec::len);
    let position = lanes::Position { field: known[0], is_taken: fields.contains(&0) };
    let positions = lanes::joints(check, key, raw, &all, sizes, position)?;
    let channel = |field: usize, at: usize| {
        let (label, joint) = all[at];
        let name = format!("{label}{joint}.{}", quantity(field));
        Channel { name, lane: if field == 0 { positions[at] } else { Lane::Linear } }
    };
    let of_field = |field: &usize| (0..all.len()).map(|at| channel(*field, at)).collect();
    let channels: Vec<Vec<Channel>> = fields.iter().map(of_field).collect();
    let mut first = 0;
    let mut channels_of = Vec::with_capacity(groups.groups.len());
    for joints in &groups.groups {
        let of_field =
            |field: usize| field * all.len() + first..field * all.len() + first + joints.len();
        channels_of.push(Group { channels: (0..fields.len()).flat_map(of_field).collect() });
        first += joints.len();
    }
    let fields: Vec<String> = fields.iter().map(|field| known[*field].to_owned()).collect();
    let selection = |groups: Vec<Vec<String>>| match max_points {
        Some(max_points) => Selection::Trajectory { fields: fields.clone(), groups, max_points },
        None => Selection::Joints { fields: fields.clone(), groups },
    };
    let JointGroups { groups, by_input, .. } = groups;
    let selections = match by_input {
        true => groups.into_iter().map(|joints| selection(vec![joints])).collect(),
        false => vec![selection(groups)],
    };
    let channels = channels.concat();
    Some((VectorSpec { channels, groups: channels_of, outputs: Vec::new() }, selections))
}

/// The joints of inputs that have their own: each is a group.
fn groups_of_inputs(
    check: &mut Check<'_>,
    key: &str,
    of_inputs: Vec<InputJoints>,
    has_groups: bool,
) -> Option<JointGroups> {
    if has_groups {
        check.fail(&format!("{key}.groups"), "no such key beside `joints` of an input");
        return None;
    }
    let labels = of_inputs.iter().map(|input| input.label.clone()).collect();
    let mut groups = Vec::with_capacity(of_inputs.len());
    for InputJoints { key, joints, .. } in of_inputs {
        let expected =
            "the list of the input's joints, in row order, as other inputs of the stream have";
        let joints = check.required(&key, joints, expected);
        let valid = joints.filter(|joints| check.names(&key, joints, "joint").is_some());
        groups.push(valid);
    }
    let groups = groups.into_iter().collect::<Option<Vec<_>>>()?;
    let groups = within_limit(check, &format!("{key}.inputs"), groups)?;
    Some(JointGroups { groups, labels, by_input: true })
}

/// Positions in `known` of the fields that are chosen.
fn chosen(
    check: &mut Check<'_>,
    key: &str,
    message: &str,
    known: &[&str],
    names: &[String],
) -> Option<Vec<usize>> {
    check.names(key, names, "field")?;
    let mut fields = Vec::with_capacity(names.len());
    for (i, name) in names.iter().enumerate() {
        match known.iter().position(|known| known == name) {
            Some(at) => fields.push(at),
            None => {
                let expected = format!("{} (of {})", one_of(known), message);
                check.fail(&format!("{key}[{i}]"), expected);
                if let Some(near) = nearest(name, known) {
                    check.hint(format!("did you mean `{near}`?"));
                }
            }
        }
    }
    (fields.len() == names.len()).then_some(fields)
}

/// The joints of each group. If `joints` lists them, there is one group.
fn groups(
    check: &mut Check<'_>,
    key: &str,
    joints: Option<Vec<String>>,
    groups: Option<InOrder<Vec<String>>>,
) -> Option<Vec<Vec<String>>> {
    let joints_key = format!("{key}.joints");
    let groups_key = format!("{key}.groups");
    if check.is_unread(&groups_key) {
        return None;
    }
    let Some(InOrder(groups)) = groups else {
        let expected = "the list of the joints, in row order";
        let joints = check.required(&joints_key, joints, expected)?;
        check.names(&joints_key, &joints, "joint")?;
        return within_limit(check, &joints_key, vec![joints]);
    };
    if joints.is_some() {
        check.fail(&joints_key, "no such key beside `groups`, which list the joints");
        return None;
    }
    if groups.is_empty() {
        check.fail(&groups_key, "at least one group");
        return None;
    }
    let mut all = Vec::with_capacity(groups.len());
    let mut seen: Vec<(&String, &String)> = Vec::new();
    let mut right = true;
    for (name, joints) in &groups {
        let key = format!("{groups_key}.{name}");
        if !is_printable(name) {
            check.fail_found(&groups_key, "a printable name for each group", format!("{name:?}"));
            right = false;
        }
        right &= check.names(&key, joints, "joint").is_some();
        for (i, joint) in joints.iter().enumerate() {
            if let Some((_, first)) = seen.iter().find(|(other, at)| *other == joint && *at != name)
            {
                check.fail(
                    &format!("{key}[{i}]"),
                    format!("each joint in one group (also in {first})"),
                );
                // Two arms of one make have the same names of joints, each on a topic of its own.
                check.hint(
                    "if each group has a topic of its own, list `joints` per input: `inputs: [{topic: \
                     /left/joint_states, joints: [...]}, {topic: /right/joint_states, joints: [...]}]`"
                        .to_owned(),
                );
                right = false;
            }
        }
        seen.extend(joints.iter().map(|joint| (joint, name)));
        all.push(joints.clone());
    }
    if right { within_limit(check, &groups_key, all) } else { None }
}

fn within_limit(
    check: &mut Check<'_>,
    key: &str,
    groups: Vec<Vec<String>>,
) -> Option<Vec<Vec<String>>> {
    let count = groups.iter().map(Vec::len).sum::<usize>();
    if count > MAX_JOINTS {
        let expected = format!("at most {MAX_JOINTS} joints");
        check.fail_found(key, expected, count.to_string());
        return None;
    }
    Some(groups)
}
