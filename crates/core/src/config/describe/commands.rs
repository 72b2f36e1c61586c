//! The commands of a configuration, in the report of `robocache check`.

use std::fmt;

use serde::Serialize;

use super::text::{LABEL, series, table};
use crate::spec::{CommandForm, CommandsSpec, Config, End, GroupSpec, Interface, JointSpec, Late};
use robocache_ops::time::NANOS_PER_MS;

/// The commands, with all defaults.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CommandsReport {
    /// Rate of the command ticks \[Hz\].
    pub rate_hz: f64,
    /// Nanoseconds between command ticks.
    pub period_ns: i64,
    /// The groups.
    pub groups: Vec<GroupReport>,
}

/// One group of commands.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GroupReport {
    /// Name, as chunks have it.
    pub name: String,
    /// Meaning of a number of a row.
    pub interface: Interface,
    /// The contract that says what a row is, if the configuration names one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contract: Option<String>,
    /// The joints, in the order of a row.
    pub joints: Vec<JointSpec>,
    /// Instants of the rows, relative to the answered tick \[ns\].
    pub offsets_ns: Vec<i64>,
    /// A command is the plan so long after its tick \[ns\].
    pub lead_ns: i64,
    /// Time in which the difference to a new plan fades \[ns\].
    pub blend_ns: i64,
    /// The stream with the measured values that commands begin at.
    pub start_from: String,
    /// Without a new chunk for longer than this, the plan is stalled \[ns\].
    pub watchdog_ns: i64,
    /// Reaction to a stall.
    pub on_stall: End,
    /// Reaction after the last row.
    pub on_end: End,
    /// Meaning of a chunk whose rows are all past when it comes.
    pub on_late: Late,
    /// True if a new epoch and a standstill leave commands enabled.
    pub rearm: bool,
    /// Output of its commands.
    pub output: CommandOutputReport,
}

/// Output of a group's commands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CommandOutputReport {
    /// The topic, before remapping.
    pub topic: String,
    /// ROS type of the messages.
    #[serde(rename = "type")]
    pub ros_type: &'static str,
    /// Time from point to point, if a message has a whole plan \[ns\]. Otherwise each command tick has a message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub points_ns: Option<i64>,
}

impl CommandsReport {
    pub(super) fn new(config: &Config, commands: &CommandsSpec) -> Self {
        CommandsReport {
            rate_hz: commands.rate_hz,
            period_ns: commands.grid.period_ns(),
            groups: commands.groups.iter().map(|group| GroupReport::new(config, group)).collect(),
        }
    }
}

impl GroupReport {
    fn new(config: &Config, group: &GroupSpec) -> Self {
        let points_ns = match group.output.form {
            CommandForm::EachTick => None,
            CommandForm::Points { step_ns } => Some(step_ns),
        };
        GroupReport {
            name: group.name.clone(),
            interface: group.interface,
            contract: group.contract.clone(),
            joints: group.joints.clone(),
            offsets_ns: group.offsets_ns.clone(),
            lead_ns: group.lead_ns,
            blend_ns: group.blend_ns,
            start_from: config.stream(group.start_from.stream).name.clone(),
            watchdog_ns: group.watchdog_ns,
            on_stall: group.on_stall,
            on_end: group.on_end,
            on_late: group.on_late,
            rearm: group.rearm,
            output: CommandOutputReport {
                topic: group.output.topic.clone(),
                ros_type: group.output.ros_type,
                points_ns,
            },
        }
    }

    /// The lines about the group, for people: the label of each, and its words.
    fn lines(&self) -> [(&'static str, String); 3] {
        let ms = |ns: i64| ns as f64 / NANOS_PER_MS as f64;
        let rows = self.offsets_ns.len();
        let plural = if rows == 1 { "" } else { "s" };
        let of = self.contract.as_ref().map_or(String::new(), |of| format!(" ({of})"));
        let output = match self.output.points_ns {
            Some(ns) => format!("plans in points {} ms apart", ms(ns)),
            None => "at each tick".to_owned(),
        };
        [
            ("chunks", format!("{rows} row{plural}: {}{of}", series(&self.offsets_ns))),
            (
                "ends",
                format!(
                    "{} {} ms after the newest chunk, {} after the last row",
                    self.on_stall.name(),
                    ms(self.watchdog_ns),
                    self.on_end.name()
                ),
            ),
            ("topic", format!("{} ({}), {output}", self.output.topic, self.output.ros_type)),
        ]
    }
}

/// The line of a joint in the table of joints.
fn row(joint: &JointSpec, group: &GroupReport, is_first: bool) -> [String; 6] {
    let limit = |limit: Option<f64>| limit.map_or("none".to_owned(), |limit| limit.to_string());
    let position = joint.limits.position.map(|[low, high]| format!("{low} to {high}"));
    let kinds = [(joint.relative, "relative"), (joint.angular, "angular")];
    let kinds = kinds.into_iter().filter(|(is, _)| *is).map(|(_, kind)| kind);
    let rows = [joint.interpolate.name()].into_iter().chain(kinds);
    [
        if is_first { group.name.clone() } else { String::new() },
        joint.name.clone(),
        rows.collect::<Vec<_>>().join(", "),
        position.unwrap_or_else(|| "none".to_owned()),
        limit(joint.limits.velocity),
        limit(joint.limits.acceleration),
    ]
}

impl fmt::Display for CommandsReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let joints = self.groups.iter().flat_map(|group| {
            let joints = group.joints.iter().enumerate();
            joints.map(move |(at, joint)| row(joint, group, at == 0))
        });
        table(f, ["group", "joint", "rows", "position", "velocity", "acceleration"], joints)?;
        writeln!(f)?;
        writeln!(f, "{:<LABEL$}{} Hz, every {} ns", "commands", self.rate_hz, self.period_ns)?;
        for group in &self.groups {
            let GroupReport { name, interface, start_from, .. } = group;
            writeln!(f, "{:<LABEL$}{name}: {}, from {start_from}", "group", interface.name())?;
            for (label, words) in group.lines() {
                writeln!(f, "{:<LABEL$}{words}", format!("  {label}"))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
