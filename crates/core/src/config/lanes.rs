//! Lanes of the positions of joints: the keys `angular`, `quaternions` and `held`.

use super::check::Check;
use super::raw::RawStream;
use super::words::nearest;
use robocache_ops::resample::Lane;

/// A joint: its label, which is that of its input, and its name.
pub(super) type Joint<'a> = (&'a str, &'a String);

/// The field of positions.
#[derive(Clone, Copy)]
pub(super) struct Position<'a> {
    pub field: &'a str,
    /// True if the stream takes it.
    pub is_taken: bool,
}

/// The lane of each joint's position, in row order. `sizes` are the numbers of joints of the groups.
pub(super) fn joints(
    check: &mut Check<'_>,
    key: &str,
    raw: &mut RawStream,
    all: &[Joint<'_>],
    sizes: impl Iterator<Item = usize>,
    position: Position<'_>,
) -> Option<Vec<Lane>> {
    let mut lanes = vec![Lane::Linear; all.len()];
    for (name, names, lane) in
        [("angular", raw.angular.take(), Lane::Angular), ("held", raw.held.take(), Lane::Held)]
    {
        let Some(names) = names else { continue };
        let key = format!("{key}.{name}");
        needs_position(check, &key, position)?;
        check.names(&key, &names, "joint")?;
        let mut right = true;
        for (i, name) in names.iter().enumerate() {
            let key = format!("{key}[{i}]");
            let places = places(check, &key, name, all);
            right &= !places.is_empty() && mark(check, &key, &places, &mut lanes, lane);
        }
        right.then_some(())?;
    }
    let Some(listed) = raw.quaternions.take() else { return Some(lanes) };
    let key = format!("{key}.quaternions");
    needs_position(check, &key, position)?;
    if listed.is_empty() {
        check.fail(&key, "at least one quaternion");
        return None;
    }
    let group_of: Vec<usize> =
        sizes.enumerate().flat_map(|(group, joints)| vec![group; joints]).collect();
    for (i, names) in listed.iter().enumerate() {
        quaternion(check, &format!("{key}[{i}]"), names, all, &group_of, &mut lanes)?;
    }
    Some(lanes)
}

/// Marks a quaternion: in the row, its four joints follow each other.
fn quaternion(
    check: &mut Check<'_>,
    key: &str,
    names: &[String],
    all: &[Joint<'_>],
    group_of: &[usize],
    lanes: &mut [Lane],
) -> Option<()> {
    let expected =
        "the joints x, y, z, w of a quaternion, which follow each other in this order in one group";
    check.names(key, names, "joint")?;
    if names.len() != 4 {
        check.fail(key, expected);
        return None;
    }
    let firsts = places(check, &format!("{key}[0]"), &names[0], all);
    for first in &firsts {
        let at = *first..*first + 4;
        let whole = all.get(at.clone()).is_some_and(|four| {
            names.iter().zip(four).all(|(name, joint)| is_joint(name, *joint))
                && group_of[*first] == group_of[*first + 3]
        });
        if !whole {
            check.fail(key, expected);
            return None;
        }
        if !mark(check, key, &at.collect::<Vec<_>>(), lanes, Lane::Quaternion) {
            return None;
        }
    }
    (!firsts.is_empty()).then_some(())
}

/// Gives the joints at these places a lane. Fails if one has another.
fn mark(
    check: &mut Check<'_>,
    key: &str,
    places: &[usize],
    lanes: &mut [Lane],
    lane: Lane,
) -> bool {
    if places.iter().any(|at| lanes[*at] != Lane::Linear) {
        check.fail(key, "each joint in one of angular, quaternions and held, once");
        return false;
    }
    places.iter().for_each(|at| lanes[*at] = lane);
    true
}

/// The places of the joints that a name names. Fails if there is none.
fn places(check: &mut Check<'_>, key: &str, name: &str, all: &[Joint<'_>]) -> Vec<usize> {
    let found: Vec<usize> = (0..all.len()).filter(|at| is_joint(name, all[*at])).collect();
    if found.is_empty() {
        check.fail(key, "one of this stream's `joints`");
        let known: Vec<_> = all.iter().map(|(_, joint)| joint.as_str()).collect();
        if let Some(near) = nearest(name, &known) {
            check.hint(format!("did you mean `{near}`?"));
        }
    }
    found
}

fn needs_position(check: &mut Check<'_>, key: &str, position: Position<'_>) -> Option<()> {
    if !position.is_taken {
        check.fail(key, format!("no such key unless `fields` has {}", position.field));
    }
    position.is_taken.then_some(())
}

/// True if `name` names this joint: with its label, or without it for the joints of all inputs.
fn is_joint(name: &str, joint: Joint<'_>) -> bool {
    let (label, joint) = joint;
    name == joint || name.strip_prefix(label) == Some(joint)
}
