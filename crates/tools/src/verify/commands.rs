//! Makes the commands of a recording again, from what their ticks found, and compares their digests.
//!
//! Nothing else enters: no lag, and no order of messages. So a difference is one of the arithmetic, unless the recording
//! lacks an event.

use serde::Serialize;

use robocache_core::command::{ActionChunk, CommandDigest, CommandGroup, CommandTick, Found, Made};
use robocache_core::spec::CommandsSpec;
use robocache_ops::time::{Epoch, TickGrid};
use robocache_runtime::{ChunkRecord, CommandFact, CommandRecord};

/// The commands of a recording.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CommandsReport {
    /// Chunks of actions.
    pub chunks: u64,
    /// Command ticks with the same commands.
    pub equal: u64,
    /// Command ticks with other commands.
    pub differing: u64,
    /// Command ticks after an event that is missing.
    pub unverifiable: u64,
    /// The first command tick with other commands.
    pub first: Option<DifferentCommand>,
}

/// A command tick whose commands differ.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DifferentCommand {
    /// Its number.
    pub tick: i64,
    /// The number of its epoch.
    pub epoch: u64,
    /// The commands of the replay, by group; `None` without a command.
    pub replayed: Vec<(String, Option<Vec<f64>>)>,
}

/// Replays commands.
pub(super) struct Commands {
    grid: TickGrid,
    run: u64,
    groups: Vec<CommandGroup>,
    /// By group: the measured values of its newest start, and whether they are valid.
    measured: Vec<(Vec<f64>, bool)>,
    /// A chunk whose message comes next.
    announced: Option<ChunkRecord>,
    digest: CommandDigest,
    /// True if the recording lacks an event.
    lacks: bool,
    report: CommandsReport,
}

impl Commands {
    pub(super) fn new(spec: &CommandsSpec, run: u64) -> Self {
        let groups: Vec<_> =
            spec.groups.iter().map(|group| CommandGroup::new(group, spec.grid)).collect();
        let measured = spec.groups.iter().map(|group| (vec![0.0; group.joints.len()], false));
        Commands {
            grid: spec.grid,
            run,
            measured: measured.collect(),
            announced: None,
            digest: CommandDigest::of(groups.iter()),
            lacks: false,
            report: CommandsReport::default(),
            groups,
        }
    }

    /// A command tick has found a chunk. Its message comes next.
    pub(super) fn found(&mut self, chunk: ChunkRecord) {
        // The message of the one before is missing.
        self.lacks |= self.announced.replace(chunk).is_some();
    }

    /// The message of the chunk.
    pub(super) fn chunk(&mut self, message: &[u8]) {
        let Some(record) = self.announced.take() else {
            self.lacks = true;
            return;
        };
        self.report.chunks += 1;
        let ChunkRecord { writer, served, tick, epoch, .. } = record;
        let at = self.at(tick, epoch);
        if let Ok(chunk) = ActionChunk::read(message)
            && let Some(group) =
                self.groups.iter_mut().find(|of| of.spec().name.as_bytes() == chunk.group)
        {
            // Refused chunks change nothing.
            let _ = group.take(at, Found { chunk: &chunk, writer, served });
        }
    }

    /// Events are missing.
    pub(super) fn lost(&mut self) {
        self.lacks = true;
    }

    pub(super) fn fact(&mut self, CommandRecord { tick, epoch, fact }: CommandRecord) {
        match fact {
            CommandFact::Enabled => self.groups.iter_mut().for_each(CommandGroup::enable),
            CommandFact::Disabled(why) => self.groups.iter_mut().for_each(|of| of.disable(why)),
            CommandFact::Measured { group, is_valid } => {
                if let Some((_, valid)) = self.measured.get_mut(group) {
                    *valid = is_valid;
                }
            }
            CommandFact::Begins { group, first, values } => {
                let known = self.measured.get_mut(group).and_then(|(of, _)| of.get_mut(first..));
                let known = known.unwrap_or_default().iter_mut();
                known.zip(values.iter()).for_each(|(known, value)| *known = value);
            }
            CommandFact::Made { digest } => self.made((tick, epoch), digest),
        }
    }

    fn made(&mut self, (tick, epoch): (i64, Epoch), digest: u64) {
        let at = self.at(tick, epoch);
        let mut replayed = Vec::new();
        for (group, (values, is_valid)) in self.groups.iter_mut().zip(&self.measured) {
            let made = group.tick(at, is_valid.then_some(&values[..]));
            self.digest.add(made, group);
            replayed.push(made);
        }
        let report = &mut self.report;
        match (self.digest.take() == digest, self.lacks) {
            (true, _) => report.equal += 1,
            (false, true) => report.unverifiable += 1,
            (false, false) => {
                report.differing += 1;
                report.first.get_or_insert_with(|| {
                    let command = |(group, made): (&CommandGroup, Made)| {
                        (group.spec().name.clone(), made.sends.then(|| group.command().to_vec()))
                    };
                    let replayed = self.groups.iter().zip(replayed).map(command).collect();
                    DifferentCommand { tick, epoch: epoch.number(), replayed }
                });
            }
        }
    }

    pub(super) fn report(self) -> CommandsReport {
        self.report
    }

    fn at(&self, tick: i64, epoch: Epoch) -> CommandTick {
        let stamp = self.grid.stamp_of(tick);
        CommandTick { tick, stamp, run: self.run, epoch: epoch.number() }
    }
}

#[cfg(test)]
mod tests {
    use robocache_core::command::SentChunk;
    use robocache_core::config;
    use robocache_ops::time::Stamp;
    use robocache_runtime::StartValues;

    use super::*;

    const TEXT: &str = "
rate_hz: 100
streams: {joints: {type: sensor_msgs/JointState, topic: /joints, joints: [a], max_age_ms: 50}}
commands:
  rate_hz: 100
  groups:
    arm:
      joints: [a]
      rows: {steps: 10, step_ms: 20}
      start_from: joints
      watchdog_ms: 500
      limits: none
      on_stall: hold
      on_end: hold
      output: {topic: /c, type: std_msgs/Float64MultiArray}
";
    const RUN: u64 = 5;

    fn spec() -> CommandsSpec {
        config::parse(TEXT, "test.yaml").unwrap().commands.unwrap()
    }

    fn chunk(last: f32) -> Vec<u8> {
        let names = ["a".to_owned()];
        let mut values = [0.5; 10];
        values[9] = last;
        let sent = SentChunk {
            run: RUN,
            epoch: 1,
            stamp: Stamp::from_nanos(1_000_000_000),
            tick: 100,
            sequence: 1,
            group: "arm",
            names: &names,
            values: &values,
            reference: &[],
        };
        sent.to_cdr(Vec::new())
    }

    /// What a node records of thirty command ticks, as calls.
    fn record(
        chunk: &[u8],
        mut tell: impl FnMut(&mut Commands, CommandFact, i64),
        to: &mut Commands,
    ) {
        // The node itself.
        let mut node = CommandGroup::new(&spec().groups[0], spec().grid);
        let mut digest = CommandDigest::of(std::iter::once(&node));
        node.enable();
        tell(to, CommandFact::Enabled, 100);
        let read = ActionChunk::read(chunk).unwrap();
        let at = |tick| CommandTick { tick, stamp: spec().grid.stamp_of(tick), run: RUN, epoch: 1 };
        node.take(at(100), Found { chunk: &read, writer: 1, served: true }).unwrap();
        tell(to, CommandFact::Measured { group: 0, is_valid: true }, 100);
        let values = StartValues::new(&[0.25]);
        tell(to, CommandFact::Begins { group: 0, first: 0, values }, 100);
        for tick in 100..130 {
            let made = node.tick(at(tick), Some(&[0.25]));
            digest.add(made, &node);
            tell(to, CommandFact::Made { digest: digest.take() }, tick);
        }
    }

    fn found(to: &mut Commands) {
        let epoch = Epoch::numbered(1);
        to.found(ChunkRecord { number: 1, writer: 1, tick: 100, epoch, served: true });
    }

    /// The report of a recording whose chunk is `replayed`, although the node had another one.
    fn replay(replayed: &[u8], lacks: bool) -> CommandsReport {
        let mut commands = Commands::new(&spec(), RUN);
        if lacks {
            commands.lost();
        }
        let mut is_first = true;
        let tell = |to: &mut Commands, fact, tick| {
            to.fact(CommandRecord { tick, epoch: Epoch::numbered(1), fact });
            if std::mem::take(&mut is_first) {
                found(to);
                to.chunk(replayed);
            }
        };
        record(&chunk(0.5), tell, &mut commands);
        commands.report()
    }

    #[test]
    fn the_same_facts_give_the_same_commands() {
        let report = replay(&chunk(0.5), false);
        assert_eq!((report.chunks, report.equal, report.differing), (1, 30, 0));
    }

    #[test]
    fn another_chunk_is_found_at_the_first_tick_that_shows_it() {
        let report = replay(&chunk(0.75), false);
        let first = report.first.unwrap();
        // The last row is 180 ms after the tick, and the line to it begins after 160 ms.
        assert_eq!((first.tick, first.epoch, report.equal), (117, 1, 17));
        assert_eq!(first.replayed[0].0, "arm");
        assert_eq!(report.differing, 13);
    }

    #[test]
    fn after_an_event_that_is_missing_a_difference_proves_nothing() {
        let report = replay(&chunk(0.75), true);
        assert_eq!((report.differing, report.unverifiable, report.first), (0, 13, None));
        let mut commands = Commands::new(&spec(), RUN);
        commands.chunk(&chunk(0.5));
        assert!(commands.lacks, "a message without its event");
        let mut commands = Commands::new(&spec(), RUN);
        found(&mut commands);
        found(&mut commands);
        assert!(commands.lacks, "an event without its message");
    }
}
