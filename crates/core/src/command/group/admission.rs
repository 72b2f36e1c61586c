//! Which chunks count, and from when on.

use super::super::chunk::ActionChunk;
use super::super::refused::Refusal;
use super::{CommandGroup, CommandTick};
use crate::spec::Late;
use robocache_ops::time::{NANOS_PER_S, Stamp};

/// A chunk answers a tick of at most this age \[ns\].
const MAX_ANSWER_NS: i64 = 10 * NANOS_PER_S;

/// A chunk that a command tick finds.
#[derive(Clone, Copy, Debug)]
pub struct Found<'a> {
    /// The chunk.
    pub chunk: &'a ActionChunk<'a>,
    /// Who wrote it.
    pub writer: u64,
    /// True if the node has served the tick that it answers.
    pub served: bool,
}

/// A chunk that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Newest {
    /// Who wrote it.
    pub writer: u64,
    /// Its number.
    pub sequence: u64,
    /// Command ticks from the instant that it answers to the one that found it.
    pub delay_ticks: i64,
}

/// The writer that a group belongs to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owner {
    writer: u64,
    sequence: u64,
    /// The command tick that found its newest chunk.
    seen: i64,
    /// The tick that this chunk answers.
    answers: i64,
}

impl CommandGroup {
    /// Takes a chunk that a command tick has found. What it says counts from this tick on.
    ///
    /// # Errors
    /// The chunk is refused, and changes nothing.
    pub fn take(&mut self, at: CommandTick, found: Found<'_>) -> Result<(), Refusal> {
        let taken = self.admit(at, found).and_then(|()| self.spare.fill(&self.spec, found.chunk));
        match taken {
            Ok(()) => self.enter(at, found),
            Err(refusal) => self.refuse(refusal),
        }
        taken
    }

    /// The instants of a chunk's rows and their values, row by row: absolute, and as they were before the training's
    /// operators. It changes no command.
    ///
    /// # Errors
    /// A value is no number then, or the reference is missing.
    pub fn rows_of(&mut self, chunk: &ActionChunk<'_>) -> Result<(&[Stamp], &[f64]), Refusal> {
        self.spare.fill(&self.spec, chunk)?;
        Ok(self.spare.parts())
    }

    /// Counts a chunk that the caller refuses.
    pub fn refuse(&mut self, refusal: Refusal) {
        self.counts.refused[refusal as usize] += 1;
    }

    /// Judges everything but the values.
    fn admit(&self, at: CommandTick, found: Found<'_>) -> Result<(), Refusal> {
        let Found { chunk, writer, served } = found;
        let joints = self.spec.joints.len();
        let values = chunk.rows.checked_mul(joints);
        let age_ns = at.stamp.since(chunk.stamp);
        let relative = self.spec.joints.iter().any(|joint| joint.relative);
        let owner = self.owner.filter(|of| of.writer == writer || !self.is_past(at, of.seen));
        let refused = [
            (!self.enabled, Refusal::Disabled),
            (chunk.run != at.run, Refusal::Run),
            (chunk.epoch != at.epoch, Refusal::Epoch),
            (!chunk.has_names(self.spec.joints.iter().map(|of| &*of.name)), Refusal::Names),
            (chunk.rows == 0, Refusal::NoRows),
            (chunk.rows > self.spec.offsets_ns.len(), Refusal::Shape),
            (values != Some(chunk.values.len()), Refusal::Shape),
            (relative && chunk.reference.len() != joints, Refusal::Reference),
            (owner.is_some_and(|of| of.writer != writer), Refusal::Writer),
            (owner.is_some_and(|of| chunk.sequence <= of.sequence), Refusal::Sequence),
            (!served, Refusal::NotServed),
            (age_ns > MAX_ANSWER_NS, Refusal::TooOld),
            (self.owner.is_some_and(|of| chunk.tick < of.answers), Refusal::Older),
        ];
        refused.into_iter().find(|(is, _)| *is).map_or(Ok(()), |(_, refusal)| Err(refusal))
    }

    /// Takes the plan in `spare` into use, or keeps it until its first row.
    fn enter(&mut self, at: CommandTick, Found { chunk, writer, .. }: Found<'_>) {
        let tick = at.tick;
        let sequence = chunk.sequence;
        self.owner = Some(Owner { writer, sequence, seen: tick, answers: chunk.tick });
        let now = at.stamp.offset(self.spec.lead_ns);
        let late = self.spare.rows_before(now);
        self.counts.rows_late += late as u64;
        let all_late = late == self.spare.rows();
        if all_late {
            self.counts.chunks_late += 1;
            // It feeds no watchdog, so after a stall it moves nothing.
            let fed = self.fed.is_some_and(|fed| !self.is_past(at, fed));
            if self.spec.on_late == Late::Ignore || !fed {
                return;
            }
            self.spare.keep_last(now);
        } else {
            self.fed = Some(tick);
            self.counts.chunks += 1;
            let delay_ns = at.stamp.since(chunk.stamp).saturating_add(self.period_ns - 1);
            let delay_ticks = delay_ns / self.period_ns;
            self.newest = Some(Newest { writer, sequence, delay_ticks });
        }
        std::mem::swap(&mut self.next, &mut self.spare);
    }
}
