//! The commands of an episode, on their way to its output.
//!
//! A recording of the node has the facts that its commands depend on, so they follow from these. In another bag a chunk
//! counts from the first command tick at or after its receive stamp. Commands are enabled from the first tick on.

use bytes::Bytes;

use super::summary::{CommandsSummary, GroupSummary};
use super::{BagDefinitions, ReplayError, Wiring};
use crate::bag::{Bag, Problems, Recorded};
use crate::commands::{CommandGroups, Judged, MadeCommand, RecordedCommands, TakenChunk};
use crate::output::Output;
use crate::recording::{Manifest, take_fact};
use robocache_core::command::{ActionChunk, Disabling};
use robocache_core::spec::{CommandsSpec, Config, GroupSpec, StartSpec, StreamId};
use robocache_ops::time::{Epoch, Stamp};
use robocache_runtime::{CommandDue, MOST_WAITING, Runtime};

/// The run of a replay: no node made its tensors.
const RUN: u64 = 0;

/// Makes the commands of an episode.
pub(super) struct ReplayedCommands<'a> {
    wiring: &'a Wiring,
    source: Made,
    specs: Vec<GroupSpec>,
    /// `None` if the bag has no chunks, or the configuration makes no commands of them.
    summary: Option<CommandsSummary>,
    /// By the order of the groups.
    groups: Vec<GroupSummary>,
}

/// Source of the commands.
enum Made {
    /// The facts of a recording, on this topic.
    OfFacts { again: RecordedCommands, topic: usize },
    /// The stamps of messages with chunks.
    OfStamps(OfStamps),
    /// None are made: there are none, or the output takes none.
    Nothing,
}

struct OfStamps {
    groups: CommandGroups,
    /// Chunks that wait for a command tick: the number of the topic of each, and its message.
    waiting: Vec<(usize, Bytes)>,
    /// Chunks that found no room there. A node drops them, too.
    without_room: u64,
    /// By topic of chunks, and by group: a policy counts the chunks of each group by themselves.
    writers: Vec<Vec<WriterSeen>>,
    /// The epoch of the newest command tick.
    epoch: Option<Epoch>,
}

/// The newest writer of a group's chunks on a topic.
#[derive(Clone, Copy, Default)]
struct WriterSeen {
    /// How many there were before.
    before: u64,
    /// The number and the tick of its newest chunk.
    newest: Option<(u64, i64)>,
}

impl<'a> ReplayedCommands<'a> {
    /// The commands of a bag, for an output that takes them or not.
    ///
    /// # Errors
    /// The bag has two definitions of a type.
    pub(super) fn new(
        bag: &Bag,
        wiring: &'a Wiring,
        config: &Config,
        takes: bool,
    ) -> Result<Self, ReplayError> {
        let mut commands = ReplayedCommands {
            wiring,
            source: Made::Nothing,
            specs: Vec::new(),
            summary: None,
            groups: Vec::new(),
        };
        let Some(spec) = config.commands.as_ref().filter(|_| !wiring.chunks.is_empty()) else {
            return Ok(commands);
        };
        let run = match wiring.facts.filter(|_| takes) {
            Some(topic) => run_of_facts(bag, spec)?.map(|run| (run, topic)),
            None => None,
        };
        commands.source = match run {
            _ if !takes => Made::Nothing,
            Some((run, topic)) => Made::OfFacts { again: RecordedCommands::new(spec, run), topic },
            None => Made::OfStamps(OfStamps::new(spec, wiring.chunks.len())),
        };
        commands.specs.clone_from(&spec.groups);
        commands.groups = vec![GroupSummary::default(); spec.groups.len()];
        commands.summary = Some(CommandsSummary {
            written: takes,
            of_recording: run.is_some(),
            ..CommandsSummary::default()
        });
        Ok(commands)
    }

    /// True if the player must serve command ticks.
    pub(super) fn needs_ticks(&self) -> bool {
        matches!(self.source, Made::OfStamps(_))
    }

    /// True if it reads a topic of the bag.
    pub(super) fn reads(&self, topic: usize) -> bool {
        match &self.source {
            Made::OfFacts { topic: facts, .. } => {
                *facts == topic || self.wiring.chunks.contains(&topic)
            }
            Made::OfStamps(_) => self.wiring.chunks.contains(&topic),
            Made::Nothing => false,
        }
    }

    /// Takes the facts from before an episode. None of their commands is in its result.
    pub(super) fn before(
        &mut self,
        bag: &Bag,
        start: Stamp,
        problems: &mut Problems,
    ) -> Result<(), ReplayError> {
        let Made::OfFacts { again, topic: facts } = &mut self.source else { return Ok(()) };
        let is_wanted = |at: usize| at == *facts || self.wiring.chunks.contains(&at);
        let wanted: Vec<bool> = (0..bag.topics.len()).map(is_wanted).collect();
        let mut messages = bag.messages(&wanted)?;
        for recorded in messages.by_ref().take_while(|recorded| recorded.received < start) {
            match recorded.topic == *facts {
                true => _ = take_fact(again, &recorded.bytes),
                false => _ = again.chunk(&recorded.bytes, |_| ()),
            }
        }
        problems.join(std::mem::take(&mut messages.problems));
        Ok(())
    }

    /// Takes a message of a topic that it reads.
    pub(super) fn message(
        &mut self,
        recorded: &Recorded,
        output: &mut dyn Output,
    ) -> Result<(), ReplayError> {
        let Recorded { topic, received: at, bytes, .. } = recorded;
        let number = self.wiring.chunks.iter().position(|of| of == topic);
        let ReplayedCommands { source, summary: Some(summary), groups, specs, .. } = self else {
            return Ok(());
        };
        match (source, number) {
            (Made::OfFacts { again, .. }, Some(number)) => {
                let tell = |taken: &TakenChunk<'_>| {
                    summary.note_chunk(groups, taken);
                    output.chunk(taken, number, *at)
                };
                again.chunk(bytes, tell).transpose()?;
            }
            (Made::OfFacts { again, .. }, None) => match take_fact(again, bytes) {
                None => {}
                Some((_, Judged::Same)) => {
                    let made =
                        |made: &MadeCommand<'_>| groups[made.group].note(&specs[made.group], made);
                    made_to(output, again.groups(), *at, made)?;
                    summary.ticks += 1;
                }
                // On doubt there is no command.
                Some((_, Judged::Differs)) => summary.differing += 1,
                Some((_, Judged::Unverifiable)) => summary.unverifiable += 1,
            },
            (Made::OfStamps(stamps), Some(number)) => stamps.wait(number, bytes.clone()),
            _ => {}
        }
        Ok(())
    }

    /// Serves a command tick.
    pub(super) fn due(
        &mut self,
        due: CommandDue,
        runtime: &Runtime,
        output: &mut dyn Output,
    ) -> Result<(), ReplayError> {
        let ReplayedCommands { source, summary: Some(summary), groups, specs, .. } = self else {
            return Ok(());
        };
        let Made::OfStamps(stamps) = source else { return Ok(()) };
        let at = stamps.groups.at(due.tick, RUN, due.epoch.number());
        stamps.enter(due.epoch);
        let served = |chunk: &mut ActionChunk<'_>| {
            // The node that made its tensor was another one.
            (chunk.run, chunk.epoch) = (at.run, at.epoch);
            runtime.has_served(chunk)
        };
        for (topic, message) in std::mem::take(&mut stamps.waiting) {
            let writer = stamps.writer(topic, &message, served);
            let tell = |taken: &TakenChunk<'_>| {
                summary.note_chunk(groups, taken);
                output.chunk(taken, topic, due.at)
            };
            stamps.groups.take(at, &message, writer, served, tell)?;
        }
        stamps.groups.tick(at, |group| {
            let mut values = vec![0.0; specs[group].joints.len()];
            let is_valid = runtime.pipeline.measured(group, at.epoch, at.stamp, &mut values);
            is_valid.then_some(values)
        });
        summary.ticks += 1;
        let note = |made: &MadeCommand<'_>| groups[made.group].note(&specs[made.group], made);
        made_to(output, &mut stamps.groups, due.at, note)
    }

    /// The numbers of the episode; `None` if there are no commands.
    pub(super) fn summary(self) -> Option<CommandsSummary> {
        let names = self.specs.into_iter().map(|group| group.name);
        let groups = names.zip(self.groups).collect();
        let waiting = match &self.source {
            Made::OfStamps(stamps) => stamps.waiting.len() as u64 + stamps.without_room,
            Made::OfFacts { .. } | Made::Nothing => 0,
        };
        self.summary.map(|summary| CommandsSummary { waiting, groups, ..summary })
    }
}

/// Gives the commands of the newest tick to an output.
fn made_to(
    output: &mut dyn Output,
    groups: &mut CommandGroups,
    at: Stamp,
    mut note: impl FnMut(&MadeCommand<'_>),
) -> Result<(), ReplayError> {
    groups.made(|made| {
        note(made);
        Ok(output.command(made, at)?)
    })
}

/// The run of a recording whose facts are those of these commands. If the node made others, its facts say nothing of them.
fn run_of_facts(bag: &Bag, spec: &CommandsSpec) -> Result<Option<u64>, ReplayError> {
    let Ok(manifest) = Manifest::read(&bag.path) else { return Ok(None) };
    if manifest.run == 0 {
        return Ok(None);
    }
    let recorded = manifest.config(&BagDefinitions::new(bag)?);
    let recorded = recorded.ok().and_then(|config| config.commands);
    if recorded.is_some_and(|recorded| moves(&recorded) == moves(spec)) {
        return Ok(Some(manifest.run));
    }
    tracing::warn!(
        "{}: `commands` are not those of the recording: commands are made by the receive stamps of the chunks",
        bag.path.display()
    );
    Ok(None)
}

/// Specification of commands without what the facts say themselves, where messages go, and the path of a contract. What
/// a contract says is in the rest.
fn moves(spec: &CommandsSpec) -> CommandsSpec {
    let mut spec = spec.clone();
    for group in &mut spec.groups {
        group.start_from = StartSpec { stream: StreamId::new(0), channels: Vec::new() };
        group.output.topic.clear();
        group.contract = None;
    }
    spec
}

impl OfStamps {
    fn new(spec: &CommandsSpec, topics: usize) -> Self {
        OfStamps {
            groups: CommandGroups::new(spec),
            waiting: Vec::new(),
            without_room: 0,
            writers: vec![vec![WriterSeen::default(); spec.groups.len()]; topics],
            epoch: None,
        }
    }

    /// Enables commands, from the first command tick of an epoch on.
    fn enter(&mut self, epoch: Epoch) {
        match self.epoch.replace(epoch) {
            Some(before) if before == epoch => return,
            Some(_) => {
                self.groups.disable(Disabling::Broken);
                // The ticks of this epoch are no later than those of the one before.
                self.writers.iter_mut().flatten().for_each(|seen| seen.newest = None);
            }
            None => {}
        }
        self.groups.enable();
    }

    /// Keeps a chunk for the next command tick.
    fn wait(&mut self, topic: usize, message: Bytes) {
        match self.waiting.len() < MOST_WAITING {
            true => self.waiting.push((topic, message)),
            false => self.without_room += 1,
        }
    }

    /// A number that tells the writer of a message from others. A bag does not say who wrote it. A chunk that answers no
    /// tick is refused, so it says nothing of its writer.
    fn writer(
        &mut self,
        topic: usize,
        message: &[u8],
        served: impl Fn(&mut ActionChunk<'_>) -> bool,
    ) -> u64 {
        let number = (topic as u64) << 32;
        let Ok(mut chunk) = ActionChunk::read(message) else { return number };
        let group = self.groups.specs().position(|spec| spec.name.as_bytes() == chunk.group);
        let Some(group) = group else { return number };
        let seen = &mut self.writers[topic][group];
        if served(&mut chunk) {
            seen.note(chunk.sequence, chunk.tick);
        }
        number | seen.before
    }
}

impl WriterSeen {
    /// Notes a chunk. If the sequence does not rise although a newer tensor is answered, the policy was started again.
    fn note(&mut self, sequence: u64, tick: i64) {
        self.newest = Some(match self.newest {
            Some((newest, answered)) if sequence <= newest && tick > answered => {
                self.before += 1;
                (sequence, tick)
            }
            Some((newest, answered)) => (newest.max(sequence), answered.max(tick)),
            None => (sequence, tick),
        });
    }
}

#[cfg(test)]
mod tests;
