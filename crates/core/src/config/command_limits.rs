//! The key `limits` of a group of commands: what each joint may do.

use super::check::{Check, Range};
use super::limits_files::{self, Known};
use super::mapping::{AllKeys, Mapping, mapping};
use super::node::Node;
use super::read::{InOrder, Named, Read};
use super::words::nearest;
use crate::spec::{Interface, JointLimits};

/// Greatest limit in size, in the unit of a joint.
const MOST: f64 = 1e6;

/// The limits of a group.
pub(super) enum RawLimits {
    /// There are none, and the file says so.
    None,
    Given(RawSources),
}

mapping! {
    /// Sources of limits. Of two sources, the later wins.
    RawSources {
        urdf: String,
        file: String,
        joints: InOrder<RawJointLimits>,
    }
}

mapping! { RawJointLimits {
    position: Vec<f64>,
    velocity: f64,
    acceleration: f64,
} }

impl Named for RawJointLimits {
    const EXPECTED: &str = "a mapping from joints to their limits";
}

impl Read for RawLimits {
    fn read(check: &mut Check<'_>, path: &str, node: &Node) -> Option<Self> {
        if node.scalar() == Some("none") {
            return Some(RawLimits::None);
        }
        if node.entries().is_none() {
            check.fail(path, "none, or a mapping with urdf, file or joints");
            return None;
        }
        RawSources::read(check, path, node).map(RawLimits::Given)
    }

    fn keys(path: &str, all: &mut AllKeys) {
        RawSources::keys(path, all);
    }
}

/// The joints of a group, whose limits are asked for.
#[derive(Clone, Copy)]
pub(super) struct LimitedJoints<'a> {
    pub names: &'a [String],
    pub interface: Interface,
    /// Numbers of the joints that are angles without an end.
    pub angular: &'a [usize],
}

/// A source of limits: its key, and what it says of each joint.
struct Source {
    key: String,
    known: Vec<Known>,
    /// True if each limit has a key of its own.
    by_key: bool,
}

/// Validates `limits` of the group at `group`. Without limits, those of all joints are empty.
pub(super) fn limits(
    check: &mut Check<'_>,
    group: &str,
    raw: RawLimits,
    joints: LimitedJoints<'_>,
) -> Option<Vec<JointLimits>> {
    let key = format!("{group}.limits");
    let raw = match raw {
        RawLimits::None => return Some(vec![JointLimits::default(); joints.names.len()]),
        RawLimits::Given(raw) => raw,
    };
    let sources = sources(check, &key, raw, joints)?;
    let mut all = Vec::with_capacity(joints.names.len());
    for at in 0..joints.names.len() {
        all.push(of_joint(check, joints, at, &sources));
    }
    let all = all.into_iter().collect::<Option<Vec<_>>>()?;
    let continuous = |at: usize| sources.iter().any(|source| source.known[at].continuous);
    complete(check, &key, joints, &all, continuous)?;
    angles(check, group, joints, &all)?;
    advise_of_turns(check, group, joints, |at| continuous(at) && all[at].position.is_none());
    Some(all)
}

/// The sources of limits, the first one to be asked first.
fn sources(
    check: &mut Check<'_>,
    key: &str,
    raw: RawSources,
    joints: LimitedJoints<'_>,
) -> Option<Vec<Source>> {
    let at = |name: &str| format!("{key}.{name}");
    let is_unread = RawSources::KEYS.iter().any(|name| check.is_unread(&at(name)));
    let mut sources = Vec::new();
    let mut right = !is_unread;
    if let Some(InOrder(raw)) = raw.joints {
        let key = at("joints");
        let known = written(check, &key, raw, joints);
        right &= known.is_some();
        sources.extend(known.map(|known| Source { key, known, by_key: true }));
    }
    if let Some(file) = raw.file {
        let text = check.read_file(&file);
        let known = text.and_then(|text| limits_files::joint_limits(text, &file, joints.names));
        let source = of_file(check, at("file"), known, "limits as in MoveIt's joint_limits.yaml");
        right &= source.is_some();
        sources.extend(source);
    }
    if let Some(file) = raw.urdf {
        let text = check.read_file(&file);
        let known = text.and_then(|text| limits_files::urdf(text, joints.names));
        let source = of_file(check, at("urdf"), known, "a URDF with joints that can be commanded");
        right &= source.is_some();
        sources.extend(source);
    }
    right.then_some(sources)
}

/// The source that a file is, or a report of what is wrong with the file.
fn of_file(
    check: &mut Check<'_>,
    key: String,
    known: Result<Vec<Known>, String>,
    expected: &str,
) -> Option<Source> {
    match known {
        Ok(known) => Some(Source { key, known, by_key: false }),
        Err(error) => {
            check.fail(&key, format!("{expected} ({error})"));
            None
        }
    }
}

/// The limits in the configuration itself.
fn written(
    check: &mut Check<'_>,
    key: &str,
    raw: Vec<(String, RawJointLimits)>,
    joints: LimitedJoints<'_>,
) -> Option<Vec<Known>> {
    let mut known = vec![Known::default(); joints.names.len()];
    let mut right = true;
    for (name, raw) in raw {
        let key = format!("{key}.{name}");
        let Some(at) = joints.names.iter().position(|joint| *joint == name) else {
            check.fail_found(&key, "one of this group's `joints`", format!("`{name}`"));
            let names: Vec<_> = joints.names.iter().map(String::as_str).collect();
            if let Some(near) = nearest(&name, &names) {
                check.hint(format!("did you mean `{near}`?"));
            }
            right = false;
            continue;
        };
        let position = format!("{key}.position");
        let is_unread =
            RawJointLimits::KEYS.iter().any(|of| check.is_unread(&format!("{key}.{of}")));
        right &= !is_unread;
        if raw.position.is_some() && joints.interface == Interface::Velocity {
            check.fail(&position, "no such key for velocities: they are not limited by positions");
            right = false;
            continue;
        }
        let pair =
            raw.position.map(|pair| check.numbers(&position, &pair, Range::from(-MOST, MOST)));
        right &= pair != Some(None);
        let velocity = raw.velocity;
        let acceleration = raw.acceleration;
        known[at].limits = JointLimits { position: pair.flatten(), velocity, acceleration };
    }
    right.then_some(known)
}

/// The limits of a joint: each is that of the first source that has it.
fn of_joint(
    check: &mut Check<'_>,
    joints: LimitedJoints<'_>,
    at: usize,
    sources: &[Source],
) -> Option<JointLimits> {
    let name = &joints.names[at];
    let key_of = |source: &Source, limit: &str| match source.by_key {
        true => format!("{}.{name}.{limit}", source.key),
        false => source.key.clone(),
    };
    let first = |limit: &str, of: &dyn Fn(JointLimits) -> Option<f64>| {
        let found = |source: &Source| Some((key_of(source, limit), of(source.known[at].limits)?));
        sources.iter().find_map(found)
    };
    let mut above_zero = |limit: &str, found: Option<(String, f64)>| {
        let Some((key, value)) = found else { return Some(None) };
        if !(value > 0.0 && value <= MOST) {
            let expected = format!("a greatest {limit} of `{name}` above 0, at most {MOST}");
            check.fail_found(&key, expected, value.to_string());
            return None;
        }
        Some(Some(value))
    };
    let velocity = above_zero("velocity", first("velocity", &|limits| limits.velocity));
    let acceleration =
        above_zero("acceleration", first("acceleration", &|limits| limits.acceleration));
    let position = sources
        .iter()
        .find_map(|source| Some((key_of(source, "position"), source.known[at].limits.position?)));
    // A velocity is not limited by positions.
    let position = position.filter(|_| joints.interface == Interface::Position);
    if let Some((key, [low, high])) = &position
        && low >= high
    {
        let expected = format!("a least position of `{name}` below its greatest one");
        check.fail_found(key, expected, format!("[{low}, {high}]"));
        return None;
    }
    let position = position.map(|(_, position)| position);
    Some(JointLimits { position, velocity: velocity?, acceleration: acceleration? })
}

/// Checks that each joint has all limits that it needs, in one report for the group.
fn complete(
    check: &mut Check<'_>,
    key: &str,
    joints: LimitedJoints<'_>,
    all: &[JointLimits],
    continuous: impl Fn(usize) -> bool,
) -> Option<()> {
    let positions = joints.interface == Interface::Position;
    let has_end = |at: usize| positions && !joints.angular.contains(&at) && !continuous(at);
    let lacking = |lacks: &dyn Fn(usize, &JointLimits) -> bool| {
        let of = all.iter().enumerate().filter(|(at, limits)| lacks(*at, limits));
        of.map(|(at, _)| joints.names[at].as_str()).collect::<Vec<_>>().join(", ")
    };
    let lacking = [
        ("position", lacking(&|at, limits| has_end(at) && limits.position.is_none())),
        ("velocity", lacking(&|_, limits| limits.velocity.is_none())),
        ("acceleration", lacking(&|_, limits| limits.acceleration.is_none())),
    ];
    let missing = lacking.iter().filter(|(_, names)| !names.is_empty());
    let missing: Vec<_> = missing.map(|(limit, names)| format!("no {limit} of {names}")).collect();
    if missing.is_empty() {
        return Some(());
    }
    let position = match positions {
        true => "position (unless the joint is continuous in the URDF or `angular`), ",
        false => "",
    };
    let expected =
        format!("{position}velocity and acceleration of each joint, in `urdf`, `file` or `joints`");
    check.fail_found(key, expected, missing.join("; "));
    None
}

/// Advises that joints that may turn without an end are `angular`: otherwise a plan that passes half a turn goes back.
fn advise_of_turns(
    check: &mut Check<'_>,
    group: &str,
    joints: LimitedJoints<'_>,
    turns: impl Fn(usize) -> bool,
) {
    let is_position = joints.interface == Interface::Position;
    let others = (0..joints.names.len()).filter(|at| is_position && turns(*at));
    let others = others.filter(|at| !joints.angular.contains(at));
    let names: Vec<&str> = others.map(|at| joints.names[at].as_str()).collect();
    if !names.is_empty() {
        let names = names.join(", ");
        let expected = format!("{names}, which the URDF calls continuous");
        let found = "none of them; from 3.1 to -3.1 such a joint goes back by nearly a turn";
        check.advise(&format!("{group}.angular"), expected, found);
    }
}

/// Checks that no angle without an end has limits of position.
fn angles(
    check: &mut Check<'_>,
    group: &str,
    joints: LimitedJoints<'_>,
    all: &[JointLimits],
) -> Option<()> {
    let mut right = true;
    for (listed, at) in joints.angular.iter().enumerate() {
        if let Some([low, high]) = all[*at].position {
            let found = format!("`{}` from {low} to {high}", joints.names[*at]);
            let expected = "joints without limits of position";
            check.fail_found(&format!("{group}.angular[{listed}]"), expected, found);
            right = false;
        }
    }
    right.then_some(())
}
