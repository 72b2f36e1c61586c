//! What the diagnostics say of commands: one status, with the numbers of each group.

use std::time::Duration;

use super::assess::{Level, SimClockSeen};
use super::loops::LoopWindow;
use super::report::{self, Status, Values, latency_values, pair};
use crate::{Commands, GroupSeen};
use robocache_core::command::{Refusal, Stage};
use robocache_core::histogram::WindowReader;

/// Memory of the monitor about the commands: numbers at the end of the last window.
#[derive(Default)]
pub(super) struct CommandsSeen {
    /// Per group.
    groups: Vec<Numbers>,
    overflowed: u64,
    latency: WindowReader,
}

/// Numbers of a group that are faults if they rise.
#[derive(Clone, Copy, Default)]
struct Numbers {
    /// By [`Refusal::ALL`].
    refused: [u64; Refusal::ALL.len()],
    late: u64,
    stalls: u64,
}

impl CommandsSeen {
    /// Ends a window, so long after the start of the monitor: the status of the commands.
    pub(super) fn status(
        &mut self,
        commands: &Commands,
        window: &LoopWindow,
        sim_clock: Option<SimClockSeen>,
        since: Duration,
    ) -> Status {
        let latency = self.latency.read(commands.latency.histogram(), since).total;
        self.groups.resize(commands.groups.len(), Numbers::default());
        let mut status = report::of_loop(Commands::THREAD, window, sim_clock);
        let values = &mut status.values;
        values.insert(0, pair("rate_hz", commands.spec.rate_hz));
        values.push(pair("chunks_without_room", commands.overflowed.get()));
        values.extend(latency_values("latency", latency));
        let mut faults = Vec::new();
        for ((spec, state), before) in
            commands.spec.groups.iter().zip(&commands.groups).zip(&mut self.groups)
        {
            let seen = state.seen();
            faults.extend(before.faults(&spec.name, &seen));
            let joints = spec.joints.iter().map(|joint| joint.name.as_str());
            group_values(&spec.name, joints, &seen, values);
        }
        let overflowed = commands.overflowed.get();
        if overflowed > std::mem::replace(&mut self.overflowed, overflowed) {
            faults.push("more chunks come than the command ticks take".to_owned());
        }
        let stages = commands.groups.iter().map(|group| group.seen().stage.word());
        let stages: Vec<&str> = stages.collect();
        match (status.level, faults.is_empty()) {
            (Level::Ok, true) => status.message = stages.join(", "),
            (Level::Ok, false) => (status.level, status.message) = (Level::Warn, faults.join("; ")),
            (_, true) => {}
            (_, false) => status.message = format!("{}; {}", status.message, faults.join("; ")),
        }
        status
    }
}

impl Numbers {
    /// What went wrong in this window.
    fn faults(&mut self, group: &str, seen: &GroupSeen) -> Vec<String> {
        let counts = &seen.counts;
        let now =
            Numbers { refused: counts.refused, late: counts.chunks_late, stalls: counts.stalls };
        let before = std::mem::replace(self, now);
        let mut faults = Vec::new();
        if seen.stage == Stage::Stalled {
            faults
                .push(format!("{group} is stalled: no chunk counts, or nothing valid is measured"));
        } else if now.stalls > before.stalls {
            faults.push(format!("{group} was stalled"));
        }
        let refused = now.refused.iter().zip(before.refused).map(|(now, before)| now - before);
        let refused = Refusal::ALL.into_iter().zip(refused).filter(|(_, count)| *count > 0);
        let reasons: Vec<String> =
            refused.map(|(reason, count)| format!("{count} by `{reason}`")).collect();
        if !reasons.is_empty() {
            faults.push(format!("{group}: chunks were refused, {}", reasons.join(", ")));
        }
        if now.late > before.late {
            faults.push(format!("{group}: {} chunks came too late", now.late - before.late));
        }
        faults
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
    put("enabled", seen.enabled.to_string());
    put("sequence", seen.sequence.to_string());
    put("delay_ticks", seen.delay_ticks.to_string());
    for (name, number) in [
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
}

#[cfg(test)]
mod tests {
    use robocache_core::command::GroupCounts;

    use super::*;

    #[test]
    fn what_rises_in_a_window_is_said_once_and_a_stall_while_it_lasts() {
        let mut numbers = Numbers::default();
        let mut seen = GroupSeen {
            stage: Stage::Following,
            enabled: true,
            sequence: 1,
            delay_ticks: 2,
            counts: GroupCounts { stalls: 1, chunks_late: 2, ..GroupCounts::default() },
        };
        seen.counts.refused[Refusal::Run as usize] = 3;
        let said = numbers.faults("arm", &seen);
        assert_eq!(
            said,
            [
                "arm was stalled",
                "arm: chunks were refused, 3 by `run`",
                "arm: 2 chunks came too late"
            ]
        );
        assert!(numbers.faults("arm", &seen).is_empty());
        seen.stage = Stage::Stalled;
        assert_eq!(numbers.faults("arm", &seen).len(), 1);
        assert_eq!(numbers.faults("arm", &seen).len(), 1);
    }

    #[test]
    fn refusals_and_clips_are_values_only_if_there_are_some() {
        let mut counts = GroupCounts { clipped: vec![0, 4], ..GroupCounts::default() };
        counts.refused[Refusal::Writer as usize] = 5;
        let stage = Stage::Following;
        let seen = GroupSeen { stage, enabled: true, sequence: 9, delay_ticks: 1, counts };
        let mut values = Vec::new();
        group_values("arm", ["a", "b"].into_iter(), &seen, &mut values);
        let value = |name: &str| {
            values.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
        };
        assert_eq!(value("arm.stage"), Some("following"));
        assert_eq!(value("arm.refused.writer"), Some("5"));
        assert_eq!((value("arm.clipped.a"), value("arm.clipped.b")), (None, Some("4")));
        assert_eq!(value("arm.refused.run"), None);
    }
}
