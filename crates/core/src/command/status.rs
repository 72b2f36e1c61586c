//! `robocache_ros/msg/CommandStatus`.

use super::group::{GroupCounts, Newest};
use super::refused::Refusal;
use super::stage::{Stage, WaitsFor};
use crate::cdr::{CdrError, Reader, Writer};
use crate::spec::GroupSpec;
use robocache_ops::time::Stamp;

/// Chunks that were refused in one status; the oldest are left out.
pub const MOST_REFUSED: usize = 16;
/// Bytes of a status without its names and its chunks that were refused, and more.
const FIXED_BYTES: usize = 192;
/// Bytes of a chunk that was refused, and more: its writer, its number and a word.
const REFUSED_BYTES: usize = 40;
/// Bytes of a joint without the letters of its name, and more.
const JOINT_BYTES: usize = 24;

/// Status of a group, for the policies that write its chunks.
#[derive(Clone, Copy, Debug)]
pub struct CommandStatus<'a> {
    /// Instant of the command tick.
    pub stamp: Stamp,
    /// Run of the node.
    pub run: u64,
    /// Name of the group.
    pub group: &'a str,
    /// Stage of the group.
    pub stage: Stage,
    /// Condition that the group waits for.
    pub waits_for: WaitsFor,
    /// The newest chunk that counts.
    pub newest: Option<Newest>,
    /// Chunks that were refused since the status before, the oldest first.
    pub refused: &'a [RefusedChunk],
    /// Numbers since the start.
    pub counts: &'a GroupCounts,
    /// Names of the joints.
    pub joints: &'a [String],
}

/// A status of a group, as a policy gets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedStatus {
    /// Instant of the command tick.
    pub stamp: Stamp,
    /// Run of the node.
    pub run: u64,
    /// Name of the group.
    pub group: String,
    /// Stage of the group.
    pub stage: Stage,
    /// Condition that the group waits for.
    pub waits_for: WaitsFor,
    /// The newest chunk that counts.
    pub newest: Option<Newest>,
    /// Chunks that were refused since the status before, the oldest first.
    pub refused: Vec<RefusedChunk>,
    /// Command ticks with a command, since the start.
    pub commands: u64,
    /// Chunks that count, since the start.
    pub chunks: u64,
    /// Chunks whose rows were all past.
    pub chunks_late: u64,
    /// Rows that were past when their chunk came.
    pub rows_late: u64,
    /// Commands that a limit changed, by joint.
    pub clipped: Vec<(String, u64)>,
}

/// A chunk that was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefusedChunk {
    /// Who wrote it.
    pub writer: u64,
    /// Its number.
    pub sequence: u64,
    /// Why it was refused.
    pub refusal: Refusal,
}

impl CommandStatus<'_> {
    /// The serialized message, in the memory of `buffer`.
    pub fn to_cdr(&self, buffer: Vec<u8>) -> Vec<u8> {
        let mut writer = Writer::reusing(buffer);
        writer.stamp(self.stamp);
        writer.u64(self.run);
        writer.string(self.group);
        writer.u8(self.stage as u8);
        writer.string(self.waits_for.word());
        let none = Newest { writer: 0, sequence: 0, delay_ticks: 0 };
        let newest = self.newest.unwrap_or(none);
        writer.u8(u8::from(self.newest.is_some()));
        writer.u64(newest.writer);
        writer.u64(newest.sequence);
        writer.u64(newest.delay_ticks.max(0) as u64);
        writer.u64_sequence(self.refused.iter().map(|refused| refused.writer));
        writer.u64_sequence(self.refused.iter().map(|refused| refused.sequence));
        writer.string_sequence(self.refused.iter().map(|refused| refused.refusal.word()));
        writer.u64(self.counts.commands);
        writer.u64(self.counts.chunks);
        writer.u64(self.counts.chunks_late);
        writer.u64(self.counts.rows_late);
        writer.u64(self.counts.refused.iter().sum());
        writer.string_sequence(self.joints.iter().map(String::as_str));
        writer.u64_sequence(self.counts.clipped.iter().copied());
        writer.finish()
    }
    /// Bytes that no status of a group exceeds, if it has at most [`MOST_REFUSED`] chunks.
    pub fn most_bytes(spec: &GroupSpec) -> usize {
        let joints = spec.joints.iter().map(|joint| joint.name.len() + JOINT_BYTES);
        let joints: usize = joints.sum();
        FIXED_BYTES + spec.name.len() + MOST_REFUSED * REFUSED_BYTES + joints
    }
}

impl ReceivedStatus {
    /// Reads a serialized message; `None` if it has a stage, a reason or a stamp that nobody knows.
    ///
    /// # Errors
    /// The bytes are not a message.
    pub fn read(message: &[u8]) -> Result<Option<Self>, CdrError> {
        let mut reader = Reader::new(message)?;
        let stamp = Stamp::from_sec_nanosec(reader.i32()?, reader.u32()?);
        let run = reader.u64()?;
        let group = text(&mut reader)?;
        let stage = reader.u8()?;
        let stage = Stage::ALL.into_iter().find(|known| *known as u8 == stage);
        let waits_for = reader.string_bytes()?;
        let waits_for =
            WaitsFor::ALL.into_iter().find(|known| known.word().as_bytes() == waits_for);
        let has_chunk = reader.u8()? != 0;
        let writer = reader.u64()?;
        let sequence = reader.u64()?;
        let delay_ticks = reader.u64()? as i64;
        let writers = reader.i64_sequence()?;
        let sequences = reader.i64_sequence()?;
        let mut reasons = Vec::new();
        for _ in 0..reader.u32()? {
            let word = reader.string_bytes()?;
            reasons.push(Refusal::ALL.into_iter().find(|known| known.word().as_bytes() == word));
        }
        let reasons: Option<Vec<_>> = reasons.into_iter().collect();
        let commands = reader.u64()?;
        let chunks = reader.u64()?;
        let chunks_late = reader.u64()?;
        let rows_late = reader.u64()?;
        // How many were refused since the start, of all writers.
        reader.u64()?;
        let mut joints = Vec::new();
        for _ in 0..reader.u32()? {
            joints.push(text(&mut reader)?);
        }
        let clipped = reader.i64_sequence()?.into_iter().map(|count| count as u64);
        let (Some(stamp), Some(stage), Some(waits_for)) = (stamp, stage, waits_for) else {
            return Ok(None);
        };
        let Some(reasons) = reasons else { return Ok(None) };
        let refused = writers.into_iter().zip(sequences).zip(reasons);
        let refused = refused.map(|((writer, sequence), refusal)| RefusedChunk {
            writer: writer as u64,
            sequence: sequence as u64,
            refusal,
        });
        Ok(Some(ReceivedStatus {
            stamp,
            run,
            group,
            stage,
            waits_for,
            newest: has_chunk.then_some(Newest { writer, sequence, delay_ticks }),
            refused: refused.collect(),
            commands,
            chunks,
            chunks_late,
            rows_late,
            clipped: joints.into_iter().zip(clipped).collect(),
        }))
    }
}

/// A string of a message. CDR does not promise UTF-8.
fn text(reader: &mut Reader<'_>) -> Result<String, CdrError> {
    Ok(String::from_utf8_lossy(reader.string_bytes()?).into_owned())
}

#[cfg(test)]
mod tests;
