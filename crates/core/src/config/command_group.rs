//! A group of commands: its joints, its rows, and what ends its commands.

use super::check::{Check, Range};
use super::command_limits::{LimitedJoints, RawLimits, limits};
use super::command_output::{RawCommandOutput, output};
use super::command_reference::reference;
use super::command_rows::{RawRows, RowSource, Rows};
use super::command_start::start;
use super::mapping::{mapping, read_words};
use super::node::Node;
use super::operators::{Names, operators};
use super::raw::RawOperator;
use super::read::{Named, Read, word};
use super::words::nearest;
use crate::input::MAX_JOINTS;
use crate::spec::{
    CommandForm, End, GroupSpec, Interface, Interpolate, JointLimits, JointSpec, Late, StreamSpec,
};
use robocache_ops::operators::{Channel, Operator, VectorSpec};
use robocache_ops::resample::Lane;
use robocache_ops::time::{NANOS_PER_MS, TickGrid};

mapping! { RawGroup {
    joints: Vec<String>,
    interface: Interface,
    contract: String,
    rows: RawRows,
    relative: Vec<String>,
    angular: Vec<String>,
    interpolate: Interpolate,
    held: Vec<String>,
    operators: Vec<RawOperator>,
    start_from: String,
    lead_ms: f64,
    blend_ms: f64,
    watchdog_ms: f64,
    on_stall: End,
    on_end: End,
    on_late: Late,
    rearm: bool,
    limits: RawLimits,
    output: RawCommandOutput,
} }

read_words! { Interpolate End Late }

impl Named for RawGroup {
    const EXPECTED: &str = "a mapping from group names to groups";
}

impl Read for Interface {
    fn read(check: &mut Check<'_>, key: &str, node: &Node) -> Option<Self> {
        if node.scalar() == Some("effort") {
            check.fail(key, "position or velocity: groups of efforts are not supported");
            return None;
        }
        word(check, key, node)
    }
}

/// Validates a group, whose command ticks are on `grid`. If the grid or the streams are not valid, that has been reported.
pub(super) fn group(
    check: &mut Check<'_>,
    name: String,
    mut raw: RawGroup,
    grid: Option<TickGrid>,
    streams: Option<&[StreamSpec]>,
) -> Option<GroupSpec> {
    let key = format!("commands.groups.{name}");
    let at = |name: &str| format!("{key}.{name}");
    let name = check.short_name(&key, name, "group");
    let interface = match check.is_unread(&at("interface")) {
        true => None,
        false => Some(raw.interface.unwrap_or_default()),
    };
    let names = names(check, &at("joints"), raw.joints.take());
    let joints_of = names.as_deref().zip(interface);
    let contract = raw.contract.take();
    let given = [raw.rows.is_some(), raw.operators.is_some(), raw.relative.is_some()];
    let row_source = RowSource::new(check, &key, contract.as_deref(), given, joints_of);
    let rows = Rows::new(check, &key, raw.rows.take(), &row_source);
    let times = times(check, &key, &raw, grid, rows);
    let limited = !matches!(raw.limits, Some(RawLimits::None));
    let [on_stall, on_end] = [("on_stall", raw.on_stall), ("on_end", raw.on_end)]
        .map(|(name, given)| end(check, &at(name), given, interface?, limited));
    let output = check
        .required(&at("output"), raw.output.take(), "a mapping with topic and type")
        .and_then(|raw| output(check, &at("output"), raw, interface, grid));
    for (name, end) in [("on_stall", on_stall), ("on_end", on_end)] {
        let has_points =
            matches!(&output, Some(of) if matches!(of.form, CommandForm::Points { .. }));
        if has_points && end == Some(End::Silence) {
            let expected = "decelerate or hold: with `points_ms` a controller runs its plan to the end unless it gets \
                            another one";
            check.fail(&at(name), expected);
        }
    }
    let on_late = raw.on_late.unwrap_or_default();
    let rearm = raw.rearm.unwrap_or(false);
    let expected = "the stream with the measured values of the joints";
    let start_from = check.required(&at("start_from"), raw.start_from.take(), expected);
    let expected = "the limits of each joint: a mapping with urdf, file or joints; or none";
    let limits = check.required(&at("limits"), raw.limits.take(), expected);
    let names = names?;
    let interface = interface?;
    let mut lists = lists(check, &key, &mut raw, &names, interface)?;
    let of_contract = row_source.actions();
    if let Some(actions) = of_contract {
        lists.relative = (0..names.len()).filter(|at| actions.relative[*at]).collect();
    }
    let start_from = start_from.zip(streams).and_then(|(name, streams)| {
        start(check, &at("start_from"), &name, streams, &names, interface)
    });
    let is_relative = !lists.relative.is_empty();
    let streams = streams.filter(|_| is_relative);
    let reference =
        streams.and_then(|all| reference(check, &key, all, of_contract, start_from.as_ref()));
    let of = LimitedJoints { names: &names, interface, angular: &lists.angular };
    let limits = limits.and_then(|limited| self::limits(check, &key, limited, of));
    let interpolate = raw.interpolate.unwrap_or_default();
    let operators = match of_contract {
        Some(actions) => Some(actions.operators.clone()),
        None => taken_back(check, &at("operators"), raw.operators, of),
    };
    let joints = joints(&names, interpolate, &lists, limits, operators);
    let Times { offsets_ns, lead_ns, blend_ns, watchdog_ns } = times?;
    Some(GroupSpec {
        name: name?,
        joints: joints?,
        interface,
        contract,
        offsets_ns,
        lead_ns,
        blend_ns,
        start_from: start_from?,
        reference: if is_relative { Some(reference?) } else { None },
        watchdog_ns,
        on_stall: on_stall?,
        on_end: on_end?,
        on_late,
        rearm,
        output: output?,
    })
}

/// The names of the joints.
fn names(check: &mut Check<'_>, key: &str, joints: Option<Vec<String>>) -> Option<Vec<String>> {
    let expected = "the list of the joints, as chunks and the controller have them";
    let joints = check.required(key, joints, expected)?;
    check.names(key, &joints, "joint")?;
    if joints.len() > MAX_JOINTS {
        check.fail_found(key, format!("at most {MAX_JOINTS} joints"), joints.len().to_string());
        return None;
    }
    Some(joints)
}

/// The times of a group.
struct Times {
    offsets_ns: Vec<i64>,
    lead_ns: i64,
    blend_ns: i64,
    watchdog_ns: i64,
}

fn times(
    check: &mut Check<'_>,
    key: &str,
    raw: &RawGroup,
    grid: Option<TickGrid>,
    rows: Option<Rows>,
) -> Option<Times> {
    let at = |name: &str| format!("{key}.{name}");
    let lead_ns = check.nanos(&at("lead_ms"), raw.lead_ms.unwrap_or(0.0), Range::NON_NEGATIVE_MS);
    let blend_ns = match raw.blend_ms {
        Some(ms) => check.nanos(&at("blend_ms"), ms, Range::NON_NEGATIVE_MS),
        None => rows.as_ref().map(|rows| rows.step_ns),
    };
    let span_ns = rows.as_ref().map_or(0, Rows::span_ns);
    let watchdog_ns = watchdog(check, &at("watchdog_ms"), raw.watchdog_ms, grid, span_ns);
    Some(Times {
        offsets_ns: rows?.offsets_ns,
        lead_ns: lead_ns?,
        blend_ns: blend_ns?,
        watchdog_ns: watchdog_ns?,
    })
}

/// The time after which a plan is stalled \[ns\].
fn watchdog(
    check: &mut Check<'_>,
    key: &str,
    given: Option<f64>,
    grid: Option<TickGrid>,
    span_ns: i64,
) -> Option<i64> {
    let expected = "the time without a new chunk after which the plan is stalled";
    let ms = check.required(key, given, expected)?;
    let ns = check.nanos(key, ms, Range::POSITIVE_MS)?;
    let period_ns = grid?.period_ns();
    if ns < period_ns {
        let period_ms = period_ns as f64 / NANOS_PER_MS as f64;
        check.fail(key, format!("at least {period_ms} ms, one period of the commands"));
        return None;
    }
    if ns < span_ns {
        let span_ms = span_ns as f64 / NANOS_PER_MS as f64;
        let expected = format!("at least {span_ms} ms, the span of a chunk");
        let found = format!("{ms} ms; without a newer chunk, a chunk stalls before its last row");
        check.advise(key, expected, found);
    }
    Some(ns)
}

/// Validates the reaction when there is no plan any more.
fn end(
    check: &mut Check<'_>,
    key: &str,
    given: Option<End>,
    interface: Interface,
    limited: bool,
) -> Option<End> {
    if check.is_unread(key) {
        return None;
    }
    let (all, of) = match interface {
        Interface::Position => (&[End::Decelerate, End::Hold, End::Silence][..], "positions"),
        Interface::Velocity => (&[End::Decelerate, End::Zeros][..], "velocities"),
    };
    let known = if limited { all } else { &all[1..] };
    let given = given.or(limited.then_some(End::Decelerate));
    if let Some(end) = given.filter(|end| known.contains(end)) {
        return Some(end);
    }
    let words: Vec<_> = known.iter().map(|end| end.name()).collect();
    let why = if limited { "" } else { ": without limits nothing says how fast they decelerate" };
    check.fail(key, format!("{} for {of}{why}", words.join(" or ")));
    None
}

/// Joints that lists name, by their numbers.
struct Lists {
    relative: Vec<usize>,
    angular: Vec<usize>,
    held: Vec<usize>,
}

fn lists(
    check: &mut Check<'_>,
    key: &str,
    raw: &mut RawGroup,
    names: &[String],
    interface: Interface,
) -> Option<Lists> {
    let at = |name: &str| format!("{key}.{name}");
    let is_given = raw.angular.is_some();
    let mut listed = |name: &str, list: Option<Vec<String>>| listed(check, &at(name), list, names);
    let relative = listed("relative", raw.relative.take());
    let angular = listed("angular", raw.angular.take());
    let held = listed("held", raw.held.take());
    if interface == Interface::Velocity && is_given {
        check.fail(&at("angular"), "no such key for velocities, which are no angles");
        return None;
    }
    Some(Lists { relative: relative?, angular: angular?, held: held? })
}

fn joints(
    names: &[String],
    interpolate: Interpolate,
    lists: &Lists,
    limits: Option<Vec<JointLimits>>,
    operators: Option<Vec<Vec<Operator>>>,
) -> Option<Vec<JointSpec>> {
    let limits = limits?;
    let operators = operators?;
    let joint = |(at, operators): (usize, Vec<Operator>)| JointSpec {
        name: names[at].clone(),
        interpolate: if lists.held.contains(&at) { Interpolate::Hold } else { interpolate },
        relative: lists.relative.contains(&at),
        angular: lists.angular.contains(&at),
        operators,
        limits: limits[at],
    };
    Some(operators.into_iter().enumerate().map(joint).collect())
}

/// The numbers of the joints that a list names.
fn listed(
    check: &mut Check<'_>,
    key: &str,
    list: Option<Vec<String>>,
    joints: &[String],
) -> Option<Vec<usize>> {
    if check.is_unread(key) {
        return None;
    }
    let Some(list) = list else { return Some(Vec::new()) };
    check.names(key, &list, "joint")?;
    let mut found = Vec::with_capacity(list.len());
    for (i, name) in list.iter().enumerate() {
        match joints.iter().position(|joint| joint == name) {
            Some(at) => found.push(at),
            None => {
                check.fail(&format!("{key}[{i}]"), "one of this group's `joints`");
                let joints: Vec<_> = joints.iter().map(String::as_str).collect();
                if let Some(near) = nearest(name, &joints) {
                    check.hint(format!("did you mean `{near}`?"));
                }
            }
        }
    }
    (found.len() == list.len()).then_some(found)
}

/// Per joint: the operators of the training, which the node takes back. A limit among them takes nothing away: a value
/// within it is itself.
fn taken_back(
    check: &mut Check<'_>,
    key: &str,
    raw: Option<Vec<RawOperator>>,
    joints: LimitedJoints<'_>,
) -> Option<Vec<Vec<Operator>>> {
    let channel = |(at, joint): (usize, &String)| Channel {
        name: format!("{joint}.{}", joints.interface.name()),
        lane: if joints.angular.contains(&at) { Lane::Angular } else { Lane::Linear },
    };
    let channels = joints.names.iter().enumerate().map(channel);
    let mut row = VectorSpec::whole(channels.collect());
    operators(check, key, raw, None, Names::Joints(&[]), &mut row)?;
    let mut all: Vec<_> = row.outputs.into_iter().map(|output| output.operators).collect();
    all.resize(joints.names.len(), Vec::new());
    Some(all)
}
