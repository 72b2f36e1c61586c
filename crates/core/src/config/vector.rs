//! Messages that become a vector: which fields, which joints, and how each channel is interpolated.

use super::check::{Check, is_printable};
use super::raw::RawStream;
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

/// Whether a row of these fields has a quaternion. `None` means all fields.
pub(super) fn has_orientation(content: Content, fields: Option<&[String]>) -> bool {
    let Content::Fields(members) = content else { return false };
    let chosen = |field: &Field| fields.is_none_or(|names| names.iter().any(|n| n == field.name));
    let mut all = members.iter().filter_map(Member::field);
    all.any(|field| field.lane == Lane::Quaternion && chosen(field))
}

/// What is called `position` in the names of channels. In a plan the fields are plural.
const QUANTITIES: [&str; 4] = ["position", "velocity", "acceleration", "effort"];

/// Validates the keys `fields`, `joints`, `groups` and `angular` of the stream at `key`. Plans have
/// at most `max_points` points.
pub(super) fn joints(
    check: &mut Check<'_>,
    key: &str,
    message: &str,
    raw: &mut RawStream,
    max_points: Option<usize>,
) -> Option<(VectorSpec, Selection)> {
    let known = if max_points.is_some() { &POINT_FIELDS[..] } else { &JOINT_FIELDS[..] };
    let quantity = |field: usize| match max_points {
        Some(_) => QUANTITIES[field],
        None => JOINT_FIELDS[field],
    };
    let fields = match raw.fields.take() {
        Some(names) => chosen(check, &format!("{key}.fields"), message, known, &names),
        None => Some(vec![0]),
    };
    let groups = groups(check, key, raw.joints.take().map(|joints| joints.0), raw.groups.take());
    let (fields, groups) = (fields?, groups?);
    let all: Vec<&String> = groups.iter().flatten().collect();
    let angular = raw.angular.take().map(|names| (format!("{key}.angular"), names));
    if let Some((key, names)) = &angular {
        angular_joints(check, key, names, &all, (fields.contains(&0), known[0]))?;
    }
    let angular = angular.map(|(_, names)| names).unwrap_or_default();
    let channels = fields.iter().flat_map(|field| {
        let turns = |joint: &String| *field == 0 && angular.contains(joint);
        let name = move |joint: &String| format!("{joint}.{}", quantity(*field));
        let lane = move |joint: &String| if turns(joint) { Lane::Angular } else { Lane::Linear };
        all.iter().map(move |joint| Channel { name: name(joint), lane: lane(joint) })
    });
    let channels: Vec<Channel> = channels.collect();
    let mut first = 0;
    let mut channels_of = Vec::with_capacity(groups.len());
    for joints in &groups {
        let of_field =
            |field: usize| field * all.len() + first..field * all.len() + first + joints.len();
        channels_of.push(Group { channels: (0..fields.len()).flat_map(of_field).collect() });
        first += joints.len();
    }
    let fields = fields.iter().map(|field| known[*field].to_owned()).collect();
    let selection = match max_points {
        Some(max_points) => Selection::Trajectory { fields, groups, max_points },
        None => Selection::Joints { fields, groups },
    };
    Some((VectorSpec { channels, groups: channels_of, outputs: Vec::new() }, selection))
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
    let (joints_key, groups_key) = (format!("{key}.joints"), format!("{key}.groups"));
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

fn angular_joints(
    check: &mut Check<'_>,
    key: &str,
    angular: &[String],
    joints: &[&String],
    (has_position, position): (bool, &str),
) -> Option<()> {
    check.names(key, angular, "joint")?;
    if !has_position {
        check.fail(key, format!("no such key unless `fields` has {position}"));
        return None;
    }
    let mut all = true;
    for (i, name) in angular.iter().enumerate().filter(|(_, name)| !joints.contains(name)) {
        check.fail(&format!("{key}[{i}]"), "one of this stream's `joints`");
        let known: Vec<_> = joints.iter().map(|joint| joint.as_str()).collect();
        if let Some(near) = nearest(name, &known) {
            check.hint(format!("did you mean `{near}`?"));
        }
        all = false;
    }
    all.then_some(())
}
