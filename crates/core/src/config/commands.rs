//! The key `commands`: how chunks of actions become commands.

use super::check::{Check, Range};
use super::command_group::{self, RawGroup};
use super::mapping::mapping;
use super::read::InOrder;
use crate::spec::{CommandsSpec, StreamSpec};
use robocache_ops::time::TickGrid;

mapping! { RawCommands {
    rate_hz: f64,
    groups: InOrder<RawGroup>,
} }

/// Validates the commands, which begin at values of the `streams`; `None` if these are not valid.
pub(super) fn commands(
    check: &mut Check<'_>,
    raw: RawCommands,
    streams: Option<&[StreamSpec]>,
) -> Option<CommandsSpec> {
    let key = "commands.rate_hz";
    let rate_hz = check
        .required(key, raw.rate_hz, "the rate of the commands, a number from 0.1 to 2000")
        .and_then(|hz| check.number(key, hz, Range::from(0.1, 2000.0)));
    let grid = rate_hz.and_then(TickGrid::from_rate_hz);
    let key = "commands.groups";
    let expected = "a mapping from group names to groups";
    let InOrder(raw) = check.required(key, raw.groups, expected)?;
    if raw.is_empty() && !check.is_unread(key) {
        check.fail(key, "at least one group");
    }
    each_joint_once(check, &raw);
    // Checks every group before it stops, so that all problems are reported together.
    let made =
        raw.into_iter().map(|(name, raw)| command_group::group(check, name, raw, grid, streams));
    let made: Vec<_> = made.collect();
    let groups = made.into_iter().collect::<Option<Vec<_>>>()?;
    Some(CommandsSpec { rate_hz: rate_hz?, grid: grid?, groups })
}

/// Checks that no joint gets commands of two groups.
fn each_joint_once(check: &mut Check<'_>, groups: &[(String, RawGroup)]) {
    for (at, (name, group)) in groups.iter().enumerate() {
        for (i, joint) in group.joints.iter().flatten().enumerate() {
            let has_it = |(_, other): &&(String, RawGroup)| {
                other.joints.as_ref().is_some_and(|joints| joints.contains(joint))
            };
            if let Some((first, _)) = groups[..at].iter().find(has_it) {
                let key = format!("commands.groups.{name}.joints[{i}]");
                check.fail(&key, format!("each joint in one group (also in {first})"));
            }
        }
    }
}

#[cfg(test)]
mod tests;
