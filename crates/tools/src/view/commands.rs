//! Commands and the chunks that they are made of: what is drawn of them.

use std::f64::consts::TAU;
use std::path::Path;

use serde::Deserialize;

use super::source::ViewError;
use super::track::MAX_TICKS;
use robocache_core::command::Stage;
use robocache_core::spec::{CommandsSpec, GroupSpec};
use robocache_data::bag::Bag;
use robocache_data::commands::{CHUNK_TYPE, Judged, MadeCommand, RecordedCommands, TakenChunk};
use robocache_data::output::{CHUNKS, COMMANDS};
use robocache_data::recording::{EVENT_TYPE, take_fact};
use robocache_data::store::read::{Array, members, spans};
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
    /// By joint: true if it is an angle without an end.
    pub angular: Vec<bool>,
    /// Kind of a command: `position` or `velocity`.
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
    /// Its epoch and its number.
    pub tick: (u64, i64),
    /// Its instant.
    pub stamp: Stamp,
    /// Stage of the group.
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
    /// The epoch and the number of the command tick that found it.
    pub tick: (u64, i64),
    /// The instant of this command tick.
    pub found: Stamp,
    /// The reason for which it was refused.
    pub refused: Option<String>,
    /// True if it counts: it was not refused, and one of its rows was to come.
    pub counts: bool,
    /// How many of its first rows were past.
    pub rows_late: usize,
    /// Instants of its rows; empty if it was refused.
    pub instants: Vec<Stamp>,
    /// Rows times joints, row by row: absolute values. Those of an angle are moved by whole turns, to the commands.
    pub values: Vec<f64>,
}

impl GroupTrack {
    fn of(spec: &GroupSpec) -> Self {
        GroupTrack {
            name: spec.name.clone(),
            joints: spec.joints.iter().map(|joint| joint.name.clone()).collect(),
            angular: spec.joints.iter().map(|joint| joint.angular).collect(),
            interface: spec.interface.name().to_owned(),
            clipped: vec![0; spec.joints.len()],
            ..GroupTrack::default()
        }
    }

    /// True if nothing is known of its commands.
    pub fn is_empty(&self) -> bool {
        self.ticks.is_empty() && self.chunks.is_empty() && self.differing == 0
    }

    /// The instants and the commands of a joint.
    pub fn commands(&self, joint: usize) -> impl Iterator<Item = (&CommandShown, f64)> {
        let values = self.values.iter().skip(joint).step_by(self.joints.len().max(1));
        self.ticks.iter().zip(values.copied())
    }

    /// The line of a joint: instants and commands. A NaN is a gap: at a tick without a command, and before a tick whose
    /// predecessor is missing.
    pub fn line(&self, joint: usize) -> impl Iterator<Item = (Stamp, f64)> {
        let mut next: Option<(u64, i64)> = None;
        self.commands(joint).flat_map(move |(tick, value)| {
            let (epoch, number) = tick.tick;
            let next = next.replace((epoch, number.saturating_add(1)));
            let is_gap = next.is_some_and(|next| next != tick.tick);
            let gap = is_gap.then(|| (tick.stamp.offset(-1), f64::NAN));
            gap.into_iter().chain([(tick.stamp, value)])
        })
    }

    /// The late rows of a joint, or the others, of chunks that were not refused. Of each: the place of its chunk among these,
    /// the instant and the value.
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
        let (at, made, command) = (made.at, made.made, made);
        let tick = (at.epoch, at.tick);
        let stamp = at.stamp;
        let stage = made.stage;
        let sends = made.sends;
        let turns = made.turns;
        self.ticks.push(CommandShown { tick, stamp, stage, sends, turns });
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
            tick: (taken.at.epoch, taken.at.tick),
            found: taken.at.stamp,
            refused: taken.outcome.err().map(|refusal| refusal.word().to_owned()),
            counts: taken.counts,
            rows_late: taken.rows_late as usize,
            instants: taken.rows.0.to_vec(),
            values: taken.rows.1.to_vec(),
        });
    }

    /// Moves the rows of angles by whole turns to the commands, as a plan is moved when it comes into force. Before that
    /// nobody knows the turn, so chunks do not have it.
    fn turn_rows(&mut self) {
        let width = self.joints.len();
        for chunk in &mut self.chunks {
            let Some((tick, row)) = chunk.meets(&self.ticks) else { continue };
            for joint in (0..width).filter(|joint| self.angular.get(*joint) == Some(&true)) {
                let command = self.values.get(tick * width + joint);
                let value = chunk.values.get(row * width + joint);
                let (Some(command), Some(value)) = (command, value) else { continue };
                let by = ((command - value) / TAU).round_ties_even() * TAU;
                chunk.values.iter_mut().skip(joint).step_by(width).for_each(|value| *value += by);
            }
        }
    }
}

impl ChunkShown {
    /// The place of the first command at a row of the chunk, and this row. If all rows were past, that is the command of the
    /// tick that found it.
    fn meets(&self, ticks: &[CommandShown]) -> Option<(usize, usize)> {
        let first = *self.instants.first()?;
        let last = *self.instants.last()?;
        let from = ticks.partition_point(|tick| tick.tick < self.tick);
        let meets = |tick: &CommandShown| tick.sends && tick.stamp >= first;
        let since = ticks.iter().enumerate().skip(from);
        let mut along =
            since.take_while(|(_, tick)| tick.tick.0 == self.tick.0 && tick.stamp <= last);
        let of_finding =
            || ticks.get(from).map(|tick| (from, tick)).filter(|(_, tick)| meets(tick));
        let (at, tick) = along.find(|(_, tick)| meets(tick)).or_else(of_finding)?;
        let row = self.instants.partition_point(|instant| *instant <= tick.stamp);
        Some((at, row.checked_sub(1)?))
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
            // As in the node, each group has the chunks of no group among its refused ones.
            let tell = |taken: &TakenChunk<'_>| match taken.group {
                Some(group) => groups[group].chunk(taken),
                None => groups.iter_mut().for_each(|group| group.chunk(taken)),
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
    groups.iter_mut().for_each(GroupTrack::turn_rows);
    Ok(groups)
}

/// Attributes of a group in a store.
#[derive(Deserialize)]
struct AboutGroup {
    joints: Vec<String>,
    #[serde(default)]
    angular: Vec<String>,
    interface: String,
}

/// The commands of an episode of a store; empty if it has none.
pub(super) fn of_store(store: &Path, episode: usize) -> Result<Vec<GroupTrack>, String> {
    let folder = store.join(COMMANDS);
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let mut groups = Vec::new();
    for name in members(&folder)? {
        let group = Stored { store, name: &name, episode }.read()?;
        groups.extend(Some(group).filter(|group| !group.is_empty()));
    }
    Ok(groups)
}

/// A group of a store.
struct Stored<'a> {
    store: &'a Path,
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
            angular: about.joints.iter().map(|joint| about.angular.contains(joint)).collect(),
            joints: about.joints,
            interface: about.interface,
            ..GroupTrack::default()
        };
        self.commands(&mut group)?;
        self.chunks(&mut group)?;
        group.turn_rows();
        Ok(group)
    }

    /// Rows of some arrays of a table in the episode: of each row, the bytes in each array. `arrays` has their names and the
    /// sizes of their rows \[bytes\].
    ///
    /// # Errors
    /// An array cannot be read, has rows of another size, or has fewer or more rows than the first one.
    fn rows<const N: usize>(
        &self,
        table: &str,
        arrays: [(&str, usize); N],
        most: usize,
    ) -> Result<Vec<[Vec<u8>; N]>, String> {
        let folder = self.store.join(table).join(self.name);
        let open = |(name, size)| Array::open(&folder.join(name), size);
        let mut opened = arrays.into_iter().map(open).collect::<Result<Vec<_>, _>>()?;
        let rows = opened.first().map_or(0, Array::rows);
        for (array, (name, _)) in opened.iter().zip(arrays) {
            let found = array.rows();
            if found != rows {
                return Err(format!(
                    "{}: expected {rows} rows, found {found}",
                    folder.join(name).display()
                ));
            }
        }
        let spans = spans(&folder, rows)?;
        let span = spans.get(self.episode).cloned().unwrap_or_default();
        let row = |at| -> Result<_, String> {
            let mut row = [const { Vec::new() }; N];
            for (bytes, array) in row.iter_mut().zip(&mut opened) {
                *bytes = array.row(at)?.to_vec();
            }
            Ok(row)
        };
        span.take(most).map(row).collect()
    }

    fn commands(&self, group: &mut GroupTrack) -> Result<(), String> {
        let joints = group.joints.len();
        let arrays = [
            ("epoch", 8),
            ("tick", 8),
            ("stamp_ns", 8),
            ("sent", 1),
            ("stage", 1),
            ("turns", 1),
            ("values", 8 * joints),
            ("clipped", joints),
        ];
        // One more, to know whether there are more.
        let rows = self.rows(COMMANDS, arrays, MAX_TICKS + 1)?;
        group.partly = rows.len() > MAX_TICKS;
        for [epoch, tick, stamp, sent, stage, turns, values, clipped] in rows.iter().take(MAX_TICKS)
        {
            let number = usize::from(first(stage));
            group.ticks.push(CommandShown {
                tick: (i64_of(epoch) as u64, i64_of(tick)),
                stamp: Stamp::from_nanos(i64_of(stamp)),
                stage: *Stage::ALL.get(number).ok_or_else(|| format!("stage {number}"))?,
                sends: first(sent) != 0,
                turns: first(turns) != 0,
            });
            group.values.extend(f64s(values));
            for (count, clipped) in group.clipped.iter_mut().zip(clipped) {
                *count += u64::from(*clipped);
            }
        }
        Ok(())
    }

    fn chunks(&self, group: &mut GroupTrack) -> Result<(), String> {
        let of = |name: &str| Array::of(&self.store.join(CHUNKS).join(self.name).join(name));
        let offsets: Vec<i64> =
            serde_json::from_value(of("plan")?.attributes["group"]["offsets_ns"].clone())
                .map_err(|error| format!("{}: offsets_ns: {error}", self.name))?;
        let reasons = &of("refused")?.attributes["reasons"];
        let joints = group.joints.len();
        let arrays = [
            ("epoch", 8),
            ("found_tick", 8),
            ("found_ns", 8),
            ("stamp_ns", 8),
            ("sequence", 8),
            ("rows", 4),
            ("rows_late", 4),
            ("refused", 1),
            ("plan", 8 * offsets.len() * joints),
        ];
        let chunks = self.rows(CHUNKS, arrays, MAX_CHUNKS + 1)?;
        group.partly |= chunks.len() > MAX_CHUNKS;
        for [epoch, tick, found, stamp, sequence, rows, late, refused, plan] in
            chunks.iter().take(MAX_CHUNKS)
        {
            let reason = usize::from(first(refused));
            let reason = (reason > 0).then(|| reasons[reason].as_str().unwrap_or("?").to_owned());
            let count = if reason.is_some() { 0 } else { u32_of(rows) as usize };
            let stamp = Stamp::from_nanos(i64_of(stamp));
            let rows_late = u32_of(late) as usize;
            group.chunks.push(ChunkShown {
                sequence: i64_of(sequence) as u64,
                tick: (i64_of(epoch) as u64, i64_of(tick)),
                found: Stamp::from_nanos(i64_of(found)),
                refused: reason,
                counts: rows_late < count,
                rows_late,
                instants: offsets.iter().take(count).map(|ns| stamp.offset(*ns)).collect(),
                values: f64s(plan).take(count * joints).collect(),
            });
        }
        Ok(())
    }
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

#[cfg(test)]
pub(super) mod tests;
