//! Commands and the chunks that they are made of: what is drawn of them.

use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use super::source::ViewError;
use super::track::MAX_TICKS;
use robocache_core::command::Stage;
use robocache_core::spec::{CommandsSpec, GroupSpec};
use robocache_data::bag::Bag;
use robocache_data::commands::{CHUNK_TYPE, Judged, MadeCommand, RecordedCommands, TakenChunk};
use robocache_data::output::{CHUNKS, COMMANDS};
use robocache_data::recording::{EVENT_TYPE, take_fact};
use robocache_data::store::read::{Array, about_rows, members, spans, version};
use robocache_ops::time::Stamp;

/// Most chunks of a group that are kept.
const MAX_CHUNKS: usize = 20_000;

/// The commands of a group in an episode.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GroupTrack {
    /// Name of the group.
    pub name: String,
    /// Its joints.
    pub joints: Vec<String>,
    /// What a command is, `position` or `velocity`.
    pub interface: String,
    /// Command ticks.
    pub ticks: Vec<CommandShown>,
    /// Ticks times joints, tick by tick; NaN if there is no command.
    pub values: Vec<f64>,
    /// Commands that a limit changed, by joint.
    pub clipped: Vec<u64>,
    /// Chunks, in the order in which they were found.
    pub chunks: Vec<ChunkShown>,
    /// True if there are more ticks or chunks.
    pub partly: bool,
    /// Command ticks whose commands are not those of the node. They are left out.
    pub differing: u64,
}

/// A command tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandShown {
    /// Its instant.
    pub stamp: Stamp,
    /// What the group does.
    pub stage: Stage,
    /// True if there is a command.
    pub sends: bool,
    /// True if another plan or another end counts from here on: a seam.
    pub turns: bool,
}

/// A chunk.
#[derive(Clone, Debug, PartialEq)]
pub struct ChunkShown {
    /// Its number among those of its writer.
    pub sequence: u64,
    /// The instant of the command tick that found it.
    pub found: Stamp,
    /// The reason for which it was refused.
    pub refused: Option<String>,
    /// How many of its first rows were past.
    pub rows_late: usize,
    /// Instants of its rows; empty if it was refused.
    pub instants: Vec<Stamp>,
    /// Rows times joints, row by row: absolute values.
    pub values: Vec<f64>,
}

impl GroupTrack {
    fn of(spec: &GroupSpec) -> Self {
        GroupTrack {
            name: spec.name.clone(),
            joints: spec.joints.iter().map(|joint| joint.name.clone()).collect(),
            interface: spec.interface.name().to_owned(),
            clipped: vec![0; spec.joints.len()],
            ..GroupTrack::default()
        }
    }

    /// True if nothing is known of its commands.
    pub fn is_empty(&self) -> bool {
        self.ticks.is_empty() && self.chunks.is_empty()
    }

    /// The instants and the commands of a joint.
    pub fn commands(&self, joint: usize) -> impl Iterator<Item = (&CommandShown, f64)> {
        let values = self.values.iter().skip(joint).step_by(self.joints.len().max(1));
        self.ticks.iter().zip(values.copied())
    }

    /// The rows of a joint that are late, or the others: the place of the chunk among those that count, the instant and the value of each.
    pub fn rows(&self, joint: usize, late: bool) -> impl Iterator<Item = (usize, Stamp, f64)> {
        let width = self.joints.len().max(1);
        let good = self.chunks.iter().filter(|chunk| chunk.refused.is_none());
        good.enumerate().flat_map(move |(place, chunk)| {
            let values = chunk.values.iter().skip(joint).step_by(width).copied();
            let rows = chunk.instants.iter().copied().zip(values).enumerate();
            let wanted = rows.filter(move |(row, _)| (*row < chunk.rows_late) == late);
            wanted.map(move |(_, (stamp, value))| (place, stamp, value))
        })
    }

    fn command(&mut self, made: &MadeCommand<'_>) {
        if self.ticks.len() >= MAX_TICKS {
            self.partly = true;
            return;
        }
        let (stamp, made, command) = (made.at.stamp, made.made, made);
        let (stage, sends, turns) = (made.stage, made.sends, made.turns);
        self.ticks.push(CommandShown { stamp, stage, sends, turns });
        self.values.extend(command.values.iter().map(|of| if sends { *of } else { f64::NAN }));
        for (count, clipped) in self.clipped.iter_mut().zip(command.clipped) {
            *count += u64::from(*clipped && sends);
        }
    }

    fn chunk(&mut self, taken: &TakenChunk<'_>) {
        if self.chunks.len() >= MAX_CHUNKS {
            self.partly = true;
            return;
        }
        self.chunks.push(ChunkShown {
            sequence: taken.chunk.map_or(0, |chunk| chunk.sequence),
            found: taken.at.stamp,
            refused: taken.outcome.err().map(|refusal| refusal.word().to_owned()),
            rows_late: taken.rows_late as usize,
            instants: taken.rows.0.to_vec(),
            values: taken.rows.1.to_vec(),
        });
    }
}

/// The commands of a recording of the node, made again of its facts.
///
/// # Errors
/// It cannot be read.
pub(super) fn of_recording(
    bag: &Bag,
    spec: &CommandsSpec,
    run: u64,
) -> Result<Vec<GroupTrack>, ViewError> {
    let mut groups: Vec<GroupTrack> = spec.groups.iter().map(GroupTrack::of).collect();
    let mut again = RecordedCommands::new(spec, run);
    let kind = |at: usize| bag.topics[at].ros_type.as_str();
    let wanted = (0..bag.topics.len()).map(|at| [EVENT_TYPE, CHUNK_TYPE].contains(&kind(at)));
    for recorded in bag.messages(&wanted.collect::<Vec<_>>())? {
        if kind(recorded.topic) == CHUNK_TYPE {
            // A chunk of no group is in no picture.
            let tell = |taken: &TakenChunk<'_>| {
                taken.group.into_iter().for_each(|group| groups[group].chunk(taken));
            };
            let _ = again.chunk(&recorded.bytes, tell);
            continue;
        }
        match take_fact(&mut again, &recorded.bytes) {
            None => {}
            Some((_, Judged::Same)) => {
                let Ok(()) = again.groups().made::<std::convert::Infallible>(|made| {
                    groups[made.group].command(made);
                    Ok(())
                });
            }
            Some(_) => groups.iter_mut().for_each(|group| group.differing += 1),
        }
    }
    groups.retain(|group| !group.is_empty());
    Ok(groups)
}

/// What a store says of a group.
#[derive(Deserialize)]
struct AboutGroup {
    joints: Vec<String>,
    interface: String,
}

/// The commands of an episode of a store; empty if it has none. `about` is what the store says of itself.
pub(super) fn of_store(
    store: &Path,
    about: &Value,
    episode: usize,
) -> Result<Vec<GroupTrack>, String> {
    let folder = store.join(COMMANDS);
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let mut groups = Vec::new();
    for name in members(&folder)? {
        let group = Stored { store, version: version(about), name: &name, episode }.read()?;
        groups.extend(Some(group).filter(|group| !group.is_empty()));
    }
    Ok(groups)
}

/// A group of a store.
struct Stored<'a> {
    store: &'a Path,
    version: u64,
    name: &'a str,
    episode: usize,
}

impl Stored<'_> {
    fn read(&self) -> Result<GroupTrack, String> {
        let values = Array::of(&self.store.join(COMMANDS).join(self.name).join("values"))?;
        let about: AboutGroup = serde_json::from_value(values.attributes["group"].clone())
            .map_err(|error| format!("{}: {error}", self.name))?;
        let mut group = GroupTrack {
            name: self.name.to_owned(),
            clipped: vec![0; about.joints.len()],
            joints: about.joints,
            interface: about.interface,
            ..GroupTrack::default()
        };
        self.commands(&mut group)?;
        self.chunks(&mut group)?;
        Ok(group)
    }

    /// The rows of an array of the group in the episode, as their bytes.
    fn rows(&self, table: &str, name: &str, most: usize) -> Result<Vec<Vec<u8>>, String> {
        let folder = self.store.join(table).join(self.name);
        let mut array = Array::of(&folder.join(name))?;
        let spans = spans(self.version, &folder, array.rows())?;
        let span = spans.get(self.episode).cloned().unwrap_or_default();
        span.take(most).map(|at| Ok(array.row(at)?.to_vec())).collect()
    }

    fn commands(&self, group: &mut GroupTrack) -> Result<(), String> {
        // One more, to know whether there are more.
        let of = |name: &str| self.rows(COMMANDS, name, MAX_TICKS + 1);
        let (stamps, sent, stages) = (of("stamp_ns")?, of("sent")?, of("stage")?);
        let (turns, values, clipped) = (of("turns")?, of("values")?, of("clipped")?);
        group.partly = stamps.len() > MAX_TICKS;
        for at in 0..stamps.len().min(MAX_TICKS) {
            let number = usize::from(first(&stages[at]));
            let stage = *Stage::ALL.get(number).ok_or_else(|| format!("stage {number}"))?;
            let (stamp, sends) = (Stamp::from_nanos(i64_of(&stamps[at])), first(&sent[at]) != 0);
            let turns = first(&turns[at]) != 0;
            group.ticks.push(CommandShown { stamp, stage, sends, turns });
            group.values.extend(f64s(&values[at]));
            for (count, clipped) in group.clipped.iter_mut().zip(&clipped[at]) {
                *count += u64::from(*clipped);
            }
        }
        Ok(())
    }

    fn chunks(&self, group: &mut GroupTrack) -> Result<(), String> {
        let plans = Array::of(&self.store.join(CHUNKS).join(self.name).join("plan"))?;
        let offsets: Vec<i64> =
            serde_json::from_value(plans.attributes["group"]["offsets_ns"].clone())
                .map_err(|error| format!("{}: offsets_ns: {error}", self.name))?;
        let reasons = Array::of(&self.store.join(CHUNKS).join(self.name).join("refused"))?;
        let reasons = &reasons.attributes["reasons"];
        let of = |name: &str| self.rows(CHUNKS, name, MAX_CHUNKS + 1);
        let (stamps, found, sequences) = (of("stamp_ns")?, of("found_ns")?, of("sequence")?);
        let (rows, late, refused, plans) =
            (of("rows")?, of("rows_late")?, of("refused")?, of("plan")?);
        group.partly |= stamps.len() > MAX_CHUNKS;
        let joints = group.joints.len();
        for at in 0..stamps.len().min(MAX_CHUNKS) {
            let reason = usize::from(first(&refused[at]));
            let reason = (reason > 0).then(|| reasons[reason].as_str().unwrap_or("?").to_owned());
            let count = if reason.is_some() { 0 } else { u32_of(&rows[at]) as usize };
            let stamp = Stamp::from_nanos(i64_of(&stamps[at]));
            group.chunks.push(ChunkShown {
                sequence: i64_of(&sequences[at]) as u64,
                found: Stamp::from_nanos(i64_of(&found[at])),
                refused: reason,
                rows_late: u32_of(&late[at]) as usize,
                instants: offsets.iter().take(count).map(|ns| stamp.offset(*ns)).collect(),
                values: f64s(&plans[at]).take(count * joints).collect(),
            });
        }
        Ok(())
    }
}

/// What a store of rows, or of tensors with rows, says of itself.
pub(super) fn about_store(store: &Path) -> Result<Value, String> {
    super::store::about_tensors(store).or_else(|_| about_rows(store))
}

fn first(bytes: &[u8]) -> u8 {
    bytes.first().copied().unwrap_or_default()
}

fn i64_of(bytes: &[u8]) -> i64 {
    bytes.first_chunk().map_or(0, |bytes| i64::from_le_bytes(*bytes))
}

fn u32_of(bytes: &[u8]) -> u32 {
    bytes.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

fn f64s(bytes: &[u8]) -> impl Iterator<Item = f64> + '_ {
    bytes.chunks_exact(8).map(|bytes| f64::from_bits(i64_of(bytes) as u64))
}
