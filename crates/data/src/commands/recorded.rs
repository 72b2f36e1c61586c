//! Commands of a recording, from its facts.

use super::groups::{CommandGroups, TakenChunk};
use robocache_core::command::CommandTick;
use robocache_core::spec::CommandsSpec;
use robocache_ops::time::Epoch;
use robocache_runtime::{ChunkRecord, CommandFact, CommandRecord};

/// Makes the commands of a recording again.
pub struct RecordedCommands {
    run: u64,
    groups: CommandGroups,
    /// By group: the measured values of its newest start, and whether they are valid.
    measured: Vec<(Vec<f64>, bool)>,
    /// A chunk whose message comes next.
    announced: Option<ChunkRecord>,
    /// True if the recording lacks an event.
    lacks: bool,
}

/// Comparison of the commands of a tick with those that the node made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judged {
    /// They are the same.
    Same,
    /// They differ.
    Differs,
    /// They differ after an event that the recording lacks.
    Unverifiable,
}

impl RecordedCommands {
    /// The commands of a node that ran this configuration, in this run.
    pub fn new(spec: &CommandsSpec, run: u64) -> Self {
        let measured = spec.groups.iter().map(|group| (vec![0.0; group.joints.len()], false));
        RecordedCommands {
            run,
            measured: measured.collect(),
            groups: CommandGroups::new(spec),
            announced: None,
            lacks: false,
        }
    }

    /// The groups, with the commands of the newest tick.
    pub fn groups(&mut self) -> &mut CommandGroups {
        &mut self.groups
    }

    /// Notes that a command tick has found a chunk. Its message comes next.
    pub fn found(&mut self, chunk: ChunkRecord) {
        // The message of the one before is missing.
        self.lacks |= self.announced.replace(chunk).is_some();
    }

    /// Takes the message of the chunk. `tell` gets the outcome. A message without its event is left out.
    pub fn chunk<R>(
        &mut self,
        message: &[u8],
        tell: impl FnOnce(&TakenChunk<'_>) -> R,
    ) -> Option<R> {
        let Some(ChunkRecord { writer, served, tick, epoch, .. }) = self.announced.take() else {
            self.lacks = true;
            return None;
        };
        let at = self.at(tick, epoch);
        // Refused chunks change nothing.
        Some(self.groups.take(at, message, writer, |_| served, tell))
    }

    /// Notes that events are missing.
    pub fn lost(&mut self) {
        self.lacks = true;
    }

    /// True if the recording lacks an event.
    pub fn lacks(&self) -> bool {
        self.lacks
    }

    /// Takes a fact. If it is the digest of a tick, makes the commands of the tick and compares them.
    pub fn fact(&mut self, record: CommandRecord) -> Option<(CommandTick, Judged)> {
        let CommandRecord { tick, epoch, fact } = record;
        match fact {
            CommandFact::Enabled => self.groups.enable(),
            CommandFact::Disabled(why) => self.groups.disable(why),
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
            CommandFact::Made { digest } => return Some(self.made(self.at(tick, epoch), digest)),
        }
        None
    }

    fn made(&mut self, at: CommandTick, digest: u64) -> (CommandTick, Judged) {
        let measured = &self.measured;
        let again = self.groups.tick(at, |group| {
            let (values, is_valid) = &measured[group];
            is_valid.then(|| values.clone())
        });
        let judged = match (again == digest, self.lacks) {
            (true, _) => Judged::Same,
            (false, true) => Judged::Unverifiable,
            (false, false) => Judged::Differs,
        };
        (at, judged)
    }

    fn at(&self, tick: i64, epoch: Epoch) -> CommandTick {
        self.groups.at(tick, self.run, epoch.number())
    }
}
