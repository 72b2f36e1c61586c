//! The sections about commands.

use std::collections::BTreeMap;

use super::commands::{CommandShown, GroupTrack};
use crate::report::{Plot, Section, Table, counted};
use robocache_ops::time::{NANOS_PER_S, Stamp};

/// Joints of a group that are drawn.
const JOINTS: usize = 3;
/// Time that is drawn \[ns\].
const WINDOW_NS: i64 = 5 * NANOS_PER_S;

/// The section of a group: numbers, and the commands of the joints that move most, with the rows that they are made of.
pub(super) fn commands(group: &GroupTrack) -> Section {
    let mut section = Section::new(&format!("Commands of {}", group.name));
    numbers(group, &mut section);
    let Some(begin) = begin(group) else { return section };
    let end = begin.offset(WINDOW_NS);
    let within = |stamp: Stamp| (begin..=end).contains(&stamp);
    let seconds = |stamp: Stamp| stamp.since(begin) as f64 / 1e9;
    for joint in moving(group) {
        let name = &group.joints[joint];
        let label = format!("{} [{}]", group.interface, unit(&group.interface));
        let mut plot = Plot::new(&format!("commands of {name}"), "time [s]", &label);
        let shown = |late: bool| {
            let rows = group.rows(joint, late).filter(|(_, stamp, _)| within(*stamp));
            let mut rows: Vec<_> = rows.map(|(_, stamp, value)| (seconds(stamp), value)).collect();
            rows.sort_by(|a, b| a.0.total_cmp(&b.0));
            rows
        };
        let commands = || group.commands(joint).filter(|(tick, _)| within(tick.stamp));
        let point = |(stamp, value): (Stamp, f64)| (seconds(stamp), value);
        plot.dots("rows of chunks", 3.0, shown(false)).dots("late rows", 3.0, shown(true));
        let line = group.line(joint).filter(|(stamp, _)| within(*stamp));
        plot.line("command", line.map(point));
        let is_seam = |(tick, _): &(&CommandShown, f64)| tick.turns && tick.sends;
        let seams = commands().filter(is_seam).map(|(tick, value)| (tick.stamp, value));
        plot.dots("seams", 7.0, seams.map(point));
        let caption = format!(
            "{name}: the rows of all chunks that were not refused, at their instants, and the commands. At a seam, another \
             plan or an end takes over."
        );
        section.figure(&plot, &caption);
    }
    section
}

/// Numbers of the group, and its refused chunks.
fn numbers(group: &GroupTrack, section: &mut Section) {
    let sent = group.ticks.iter().filter(|tick| tick.sends).count() as u64;
    let good = group.chunks.iter().filter(|chunk| chunk.refused.is_none());
    let late: usize = good.clone().map(|chunk| chunk.rows_late).sum();
    let all_late = good.clone().filter(|chunk| !chunk.counts).count() as u64;
    let counts = good.filter(|chunk| chunk.counts).count() as u64;
    let chunks = counted(counts, "chunk", "chunks");
    let commands = counted(sent, "command", "commands");
    section.text(&format!("{commands}, of {chunks}. {late} rows came too late."));
    if all_late > 0 {
        let chunks = counted(all_late, "more chunk", "more chunks");
        section.text(&format!("All rows of {chunks} came too late."));
    }
    if group.partly {
        section.text("There are more: only the first ones were looked at.");
    }
    if group.differing > 0 {
        let ticks = counted(group.differing, "command tick", "command ticks");
        section.text(&format!("{ticks} are left out: their commands are not those of the node."));
    }
    let mut stages: BTreeMap<&str, u64> = BTreeMap::new();
    for tick in &group.ticks {
        *stages.entry(tick.stage.word()).or_default() += 1;
    }
    let mut table = Table::new(&["what", "which", "how often"]).texts(2);
    for (stage, ticks) in stages {
        table.row(&["command ticks", stage, &ticks.to_string()]);
    }
    let mut refused: BTreeMap<&str, u64> = BTreeMap::new();
    for reason in group.chunks.iter().filter_map(|chunk| chunk.refused.as_deref()) {
        *refused.entry(reason).or_default() += 1;
    }
    for (reason, chunks) in refused {
        table.row(&["chunks refused", reason, &chunks.to_string()]);
    }
    for (joint, clipped) in group.joints.iter().zip(&group.clipped).filter(|(_, of)| **of > 0) {
        table.row(&["commands clipped", joint, &clipped.to_string()]);
    }
    section.table(&table);
}

/// The first command, or the first row.
fn begin(group: &GroupTrack) -> Option<Stamp> {
    let command = group.ticks.iter().find(|tick| tick.sends).map(|tick| tick.stamp);
    command.or_else(|| group.chunks.iter().find_map(|chunk| chunk.instants.first().copied()))
}

/// The joints that move most, in their order.
fn moving(group: &GroupTrack) -> Vec<usize> {
    let reach = |joint: usize| {
        let values = group.commands(joint).map(|(_, value)| value).filter(|of| of.is_finite());
        let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), of| {
            (low.min(of), high.max(of))
        });
        high - low
    };
    let mut joints: Vec<(usize, f64)> =
        (0..group.joints.len()).map(|joint| (joint, reach(joint))).collect();
    joints.sort_by(|a, b| b.1.total_cmp(&a.1));
    let mut joints: Vec<usize> = joints.into_iter().take(JOINTS).map(|(joint, _)| joint).collect();
    joints.sort_unstable();
    joints
}

/// The unit of a joint that turns or of one that slides.
fn unit(interface: &str) -> &'static str {
    match interface {
        "velocity" => "rad/s or m/s",
        _ => "rad or m",
    }
}
