//! Diagnostics of commands: one status, with the numbers of each group, and a log line for each new fault.

use std::time::Duration;

use super::assess::{Level, SimClockSeen};
use super::loops::LoopWindow;
use super::report::{self, Status, Values, latency_values, pair};
use crate::{Commands, GroupSeen};
use robocache_core::command::{GroupCounts, Limit, Refusal, Stage, WaitsFor};
use robocache_core::histogram::WindowReader;
use robocache_core::spec::GroupSpec;

/// A fault that was absent for this long is logged again.
const REPEAT: Duration = Duration::from_secs(10);
/// Fewer commands say nothing about limits and controllers.
const ENOUGH_COMMANDS: u64 = 10;

/// Memory of the monitor about the commands: numbers at the end of the last window.
#[derive(Default)]
pub(super) struct CommandsSeen {
    /// Per group.
    groups: Vec<GroupBefore>,
    overflowed: u64,
    latency: WindowReader,
    logged: Logged,
}

/// Numbers of a group whose changes may be faults.
#[derive(Clone, Default)]
struct GroupBefore {
    /// At the end of the last window.
    counts: GroupCounts,
    /// When the newest commands were judged.
    judged: GroupCounts,
    /// The faults of these commands, until enough others are judged or none are sent.
    of_commands: Vec<Fault>,
}

/// A fault of a group, or of all.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Fault {
    kind: FaultKind,
    /// For people.
    words: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FaultKind {
    /// No chunk counts in time.
    Stalled,
    /// The stream `start_from` has no valid values.
    Measured,
    /// Nobody takes the commands.
    Alone,
    /// Chunks were refused for this reason.
    Refused(Refusal),
    /// Chunks came too late.
    Late,
    /// Plans had no more rows before the next chunk came.
    Ended,
    /// Limits changed most commands of a joint.
    Limited,
    /// Chunks found no room.
    Overflow,
}

/// Faults that have been logged: the position of the group, and when the fault was last there.
#[derive(Default)]
struct Logged(Vec<(usize, FaultKind, Duration)>);

impl CommandsSeen {
    /// Ends a window, so long after the start of the monitor: the status of the commands. Logs faults that are new.
    pub(super) fn status(
        &mut self,
        commands: &Commands,
        window: &LoopWindow,
        sim_clock: Option<SimClockSeen>,
        since: Duration,
        stream_name: impl Fn(&GroupSpec) -> String,
    ) -> Status {
        let latency = self.latency.read(commands.latency.histogram(), since).total;
        self.groups.resize(commands.groups.len(), GroupBefore::default());
        let mut status = report::of_loop(Commands::THREAD, window, sim_clock);
        let values = &mut status.values;
        values.insert(0, pair("rate_hz", commands.spec.rate_hz));
        values.push(pair("chunks_without_room", commands.overflowed.get()));
        values.extend(latency_values("latency", latency));
        let mut faults = Vec::new();
        let mut stages = Vec::new();
        let groups = commands.spec.groups.iter().zip(&commands.groups).zip(&mut self.groups);
        for (at, ((spec, state), before)) in groups.enumerate() {
            let seen = state.seen();
            let of_group = before.faults(spec, &stream_name(spec), &seen);
            if seen.stage == Stage::Following && self.logged.ends(at) {
                tracing::info!("commands: {} follows a plan again", spec.name);
            }
            faults.extend(of_group.into_iter().map(|fault| (at, fault)));
            let joints = spec.joints.iter().map(|joint| joint.name.as_str());
            group_values(&spec.name, joints, &seen, values);
            stages.push(said(&seen));
        }
        let overflowed = commands.overflowed.get();
        if overflowed > std::mem::replace(&mut self.overflowed, overflowed) {
            let words = "more chunks come than the command ticks take".to_owned();
            faults.push((usize::MAX, Fault { kind: FaultKind::Overflow, words }));
        }
        for (at, fault) in &faults {
            if self.logged.is_new(*at, fault.kind, since) {
                tracing::warn!("commands: {}", fault.words);
            }
        }
        let words: Vec<String> = faults.into_iter().map(|(_, fault)| fault.words).collect();
        match (status.level, words.is_empty()) {
            (Level::Ok, true) => status.message = stages.join(", "),
            (Level::Ok, false) => (status.level, status.message) = (Level::Warn, words.join("; ")),
            (_, true) => {}
            (_, false) => status.message = format!("{}; {}", status.message, words.join("; ")),
        }
        status
    }
}

impl Logged {
    /// Forgets that a group was stalled, so that the next stall is logged. True if it was.
    fn ends(&mut self, group: usize) -> bool {
        let count = self.0.len();
        let is_stall = |kind| matches!(kind, FaultKind::Stalled | FaultKind::Measured);
        self.0.retain(|(at, kind, _)| *at != group || !is_stall(*kind));
        self.0.len() < count
    }

    /// Notes a fault of a window. True if it was not there lately.
    fn is_new(&mut self, group: usize, kind: FaultKind, since: Duration) -> bool {
        let known = self.0.iter_mut().find(|(at, of, _)| (*at, *of) == (group, kind));
        match known {
            Some((_, _, last)) => since.saturating_sub(std::mem::replace(last, since)) > REPEAT,
            None => {
                self.0.push((group, kind, since));
                true
            }
        }
    }
}

impl GroupBefore {
    /// Faults of a group in this window. `stream` is the name of `start_from`.
    fn faults(&mut self, group: &GroupSpec, stream: &str, seen: &GroupSeen) -> Vec<Fault> {
        let now = &seen.counts;
        let before = std::mem::replace(&mut self.counts, now.clone());
        self.judge_commands(group, before.commands, seen);
        let mut faults = Vec::new();
        let name = &group.name;
        let mut push = |kind, words| faults.push(Fault { kind, words });
        let lacks = seen.waits_for == WaitsFor::Measured;
        if lacks && matches!(seen.stage, Stage::Stalled | Stage::Waiting) {
            push(
                FaultKind::Measured,
                format!("{name} is {}: {stream} has no valid values", seen.stage.word()),
            );
        } else if seen.stage == Stage::Stalled {
            push(FaultKind::Stalled, format!("{name} is stalled: no chunk counts in time"));
        } else if now.stalls > before.stalls {
            push(FaultKind::Stalled, format!("{name} was stalled"));
        }
        for refusal in Refusal::ALL {
            let refused = now.refused[refusal as usize] - before.refused[refusal as usize];
            if refused > 0 {
                push(
                    FaultKind::Refused(refusal),
                    format!("{name}: chunks refused by `{refusal}`: {refused}"),
                );
            }
        }
        if now.chunks_late > before.chunks_late {
            push(
                FaultKind::Late,
                format!(
                    "{name}: chunks that came too late: {}",
                    now.chunks_late - before.chunks_late
                ),
            );
        }
        // The last plan of a policy that pauses is no fault.
        if now.ends > before.ends && now.chunks > before.chunks {
            let times = now.ends - before.ends;
            push(
                FaultKind::Ended,
                format!("{name}: plans that ended before the next chunk came: {times}"),
            );
        }
        faults.extend(self.of_commands.iter().cloned());
        faults
    }

    /// Judges the commands since the last judgement, if they are enough. `before`: commands up to the window.
    fn judge_commands(&mut self, group: &GroupSpec, before: u64, seen: &GroupSeen) {
        let counts = &seen.counts;
        let judged = &self.judged;
        let commands = counts.commands - judged.commands;
        if counts.commands > before && commands < ENOUGH_COMMANDS {
            return;
        }
        let name = &group.name;
        let mut faults = Vec::new();
        if commands >= ENOUGH_COMMANDS && seen.audience == Some(0) {
            let topic = &group.output.topic;
            let words = format!("{name}: nobody subscribes to {topic}: does the controller run?");
            faults.push(Fault { kind: FaultKind::Alone, words });
        }
        // Limits lead from a start to the plan: that is no fault.
        if commands >= ENOUGH_COMMANDS && counts.starts == judged.starts {
            let of = |clipped: &[u64], at: usize| clipped.get(at).copied().unwrap_or(0);
            let clipped = |at: usize| of(&counts.clipped, at) - of(&judged.clipped, at);
            let joints = group.joints.iter().enumerate();
            let held = joints.filter(|(at, _)| 2 * clipped(*at) > commands);
            let held: Vec<String> =
                held.map(|(at, joint)| format!("{} {}", joint.name, clipped(at))).collect();
            if !held.is_empty() {
                let held = held.join(", ");
                let words =
                    format!("{name}: of {commands} commands, limits changed those of {held}");
                faults.push(Fault { kind: FaultKind::Limited, words });
            }
        }
        self.of_commands = faults;
        self.judged = counts.clone();
    }
}

/// The stage of a group, and what it waits for, in words.
fn said(seen: &GroupSeen) -> String {
    match (seen.stage, seen.waits_for) {
        (Stage::Waiting | Stage::Ended, waits_for) => {
            format!("{} for {}", seen.stage.word(), waits_for.word())
        }
        (stage, _) => stage.word().to_owned(),
    }
}

/// The numbers of a group, each with the group's name in front.
fn group_values<'a>(
    group: &str,
    joints: impl Iterator<Item = &'a str>,
    seen: &GroupSeen,
    values: &mut Values,
) {
    let counts = &seen.counts;
    let mut put = |name: &str, value: String| values.push(pair(&format!("{group}.{name}"), value));
    put("stage", seen.stage.word().to_owned());
    put("waits_for", seen.waits_for.word().to_owned());
    put("enabled", seen.enabled.to_string());
    put("audience", seen.audience.map_or("unknown".to_owned(), |count| count.to_string()));
    put("sequence", seen.sequence.to_string());
    put("delay_ticks", seen.delay_ticks.to_string());
    for (name, number) in [
        ("commands", counts.commands),
        ("chunks", counts.chunks),
        ("chunks_late", counts.chunks_late),
        ("rows_late", counts.rows_late),
        ("starts", counts.starts),
        ("stalls", counts.stalls),
        ("ends", counts.ends),
    ] {
        put(name, number.to_string());
    }
    for refusal in Refusal::ALL.into_iter().filter(|of| counts.refused[*of as usize] > 0) {
        put(&format!("refused.{refusal}"), counts.refused[refusal as usize].to_string());
    }
    for (joint, clipped) in joints.zip(&counts.clipped).filter(|(_, clipped)| **clipped > 0) {
        put(&format!("clipped.{joint}"), clipped.to_string());
    }
    for limit in Limit::ALL.into_iter().filter(|of| counts.limited[*of as usize] > 0) {
        put(&format!("limited.{}", limit.word()), counts.limited[limit as usize].to_string());
    }
}

#[cfg(test)]
mod tests;
