//! Compares the commands of a recording with the same commands, made again.

use std::convert::Infallible;

use serde::Serialize;

use robocache_core::command::CommandTick;
use robocache_core::spec::CommandsSpec;
use robocache_data::commands::{Judged, MadeCommand, RecordedCommands};
use robocache_runtime::{ChunkRecord, CommandRecord};

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
    again: RecordedCommands,
    report: CommandsReport,
}

impl Commands {
    pub(super) fn new(spec: &CommandsSpec, run: u64) -> Self {
        let again = RecordedCommands::new(spec, run);
        Commands { again, report: CommandsReport::default() }
    }

    /// A command tick has found a chunk. Its message comes next.
    pub(super) fn found(&mut self, chunk: ChunkRecord) {
        self.again.found(chunk);
    }

    /// The message of the chunk.
    pub(super) fn chunk(&mut self, message: &[u8]) {
        self.report.chunks += u64::from(self.again.chunk(message, |_| ()).is_some());
    }

    /// Events are missing.
    pub(super) fn lost(&mut self) {
        self.again.lost();
    }

    pub(super) fn fact(&mut self, record: CommandRecord) {
        match self.again.fact(record) {
            None => {}
            Some((_, Judged::Same)) => self.report.equal += 1,
            Some((_, Judged::Unverifiable)) => self.report.unverifiable += 1,
            Some((at, Judged::Differs)) => {
                self.report.differing += 1;
                if self.report.first.is_none() {
                    self.report.first = Some(self.different(at));
                }
            }
        }
    }

    /// The commands of the newest tick.
    fn different(&mut self, at: CommandTick) -> DifferentCommand {
        let groups = self.again.groups();
        let names: Vec<String> = groups.specs().map(|spec| spec.name.clone()).collect();
        let mut replayed = Vec::new();
        let mut note = |of: &MadeCommand<'_>| -> Result<(), Infallible> {
            replayed.push((names[of.group].clone(), of.made.sends.then(|| of.values.to_vec())));
            Ok(())
        };
        let Ok(()) = groups.made(&mut note);
        DifferentCommand { tick: at.tick, epoch: at.epoch, replayed }
    }

    pub(super) fn report(self) -> CommandsReport {
        self.report
    }
}

#[cfg(test)]
mod tests {
    use robocache_core::command::{ActionChunk, CommandDigest, CommandGroup, Found, SentChunk};
    use robocache_core::config;
    use robocache_ops::time::{Epoch, Stamp};
    use robocache_runtime::{CommandFact, StartValues};

    use super::*;

    const TEXT: &str = include_str!("../../../../tests/arm.yaml");
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

    /// Records thirty command ticks as a node does, as calls.
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
        assert!(commands.again.lacks(), "a message without its event");
        let mut commands = Commands::new(&spec(), RUN);
        found(&mut commands);
        found(&mut commands);
        assert!(commands.again.lacks(), "an event without its message");
    }
}
