//! The loop *command*: takes what waits, makes the command of each group, and sends it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::commands::{ChunkSource, CommandEnds, CommandPublisher, Commands, NotEnabled, Waiting};
use crate::schedule::elapsed_ns;
use crate::state::GridStats;
use crate::ticker::{Due, TickWork};
use crate::{
    ChunkRecord, CommandFact, CommandRecord, Event, Runtime, RuntimeError, START_VALUES, STILL,
    StartValues,
};
use robocache_core::command::output::{CommandOutput, CommandType};
use robocache_core::command::{
    ActionChunk, CommandDigest, CommandGroup, CommandStatus, CommandTick, Disabling, Found,
    MOST_REFUSED, Made, Refusal, RefusedChunk, Stage, WaitsFor,
};
use robocache_core::message::TensorMessage;
use robocache_core::spec::StreamId;
use robocache_ops::time::{Epoch, NANOS_PER_MS, Stamp};

/// Time between two statuses of a group of which nothing new is to be said \[ns\].
const STATUS_NS: i64 = 100 * NANOS_PER_MS;

/// Time between two questions who takes the commands \[ns\]. The middleware answers under a lock.
const AUDIENCE_NS: i64 = 1000 * NANOS_PER_MS;

/// Makes the commands of all groups.
pub(crate) struct Commanding {
    groups: Vec<Group>,
    publisher: Box<dyn CommandPublisher>,
    source: Option<Box<dyn ChunkSource>>,
    /// The epoch of the newest tick.
    epoch: Option<Epoch>,
    /// Chunks so far.
    chunks: u64,
    digest: CommandDigest,
}

/// A group, and what it writes.
struct Group {
    group: CommandGroup,
    output: Box<dyn CommandOutput>,
    names: Vec<String>,
    measured: Vec<f64>,
    /// True if the measured values were valid at the newest tick.
    is_valid: bool,
    refused: Vec<RefusedChunk>,
    /// The stage at the newest tick, and the reason why the group waits since then.
    stage: (Stage, WaitsFor),
    /// True if the status has something new.
    news: bool,
    /// The stage and the instant of the last status.
    told: Option<((Stage, WaitsFor), Stamp)>,
    status: Vec<u8>,
    /// When the publisher was asked who takes the commands.
    asked: Option<Stamp>,
}

impl Commanding {
    /// Makes the groups of a configuration.
    pub(crate) fn new(commands: &Commands, ends: CommandEnds) -> Self {
        let CommandEnds { publisher, source } = ends;
        let groups = commands.spec.groups.iter().filter_map(|spec| {
            let group = CommandGroup::new(spec, commands.spec.grid);
            // The configuration has checked the name.
            let output = CommandType::find(spec.output.ros_type)?.open(&group, spec.output.form);
            Some(Group {
                output,
                names: spec.joints.iter().map(|joint| joint.name.clone()).collect(),
                measured: vec![0.0; spec.joints.len()],
                is_valid: false,
                refused: Vec::with_capacity(MOST_REFUSED),
                stage: Default::default(),
                news: true,
                told: None,
                status: Vec::with_capacity(CommandStatus::most_bytes(spec)),
                asked: None,
                group,
            })
        });
        let groups: Vec<Group> = groups.collect();
        let digest = CommandDigest::of(groups.iter().map(|group| &group.group));
        Commanding { groups, publisher, source, epoch: None, chunks: 0, digest }
    }

    /// Takes what waits.
    fn take(&mut self, runtime: &Runtime, commands: &Commands, at: CommandTick, epoch: Epoch) {
        let note = |fact| note(runtime, at.tick, epoch, fact);
        // Not more than wait now, so that a writer without end holds up no tick.
        for _ in 0..=commands.waiting.len() {
            match commands.take() {
                None => break,
                Some(Waiting::Enable(_)) => {
                    self.groups.iter_mut().for_each(Group::enable);
                    note(CommandFact::Enabled);
                }
                Some(Waiting::Disable) => {
                    self.disable(Disabling::Asked);
                    note(CommandFact::Disabled(Disabling::Asked));
                }
                Some(Waiting::Chunk(message, writer)) => {
                    let served = self.chunk(runtime, at, (*message).as_ref(), writer);
                    if let Some(recorder) = &runtime.recorder {
                        recorder
                            .chunk(self.record(at, epoch, writer, served), Arc::clone(&message));
                    }
                    commands.give_back(message);
                }
            }
        }
        // Last: what was sent before this tick, and enabled before it was sent, counts.
        if let Some(mut source) = self.source.take() {
            let mut give = |message: &[u8], writer| {
                let served = self.chunk(runtime, at, message, writer);
                // A recording needs memory of its own for it.
                if let Some(recorder) = &runtime.recorder {
                    let record = self.record(at, epoch, writer, served);
                    recorder.chunk(record, Arc::new(message.to_vec()));
                }
            };
            commands.overflowed.add(source.take(&mut give));
            self.source = Some(source);
        }
    }

    /// Makes the record of the next chunk, for a recording.
    fn record(&mut self, at: CommandTick, epoch: Epoch, writer: u64, served: bool) -> ChunkRecord {
        self.chunks += 1;
        ChunkRecord { number: self.chunks, writer, tick: at.tick, epoch, served }
    }

    /// Gives a chunk to its group. Returns true if the tick that it answers was served.
    fn chunk(&mut self, runtime: &Runtime, at: CommandTick, message: &[u8], writer: u64) -> bool {
        let read = ActionChunk::read(message);
        let of = |chunk: &ActionChunk<'_>, group: &Group| {
            chunk.group == group.group.spec().name.as_bytes()
        };
        let Ok(chunk) = read else {
            // Nobody knows which group it is of.
            self.groups.iter_mut().for_each(|group| group.refuse(writer, 0, Refusal::Malformed));
            return false;
        };
        let Some(group) = self.groups.iter_mut().find(|group| of(&chunk, group)) else {
            let refuse = |group: &mut Group| group.refuse(writer, chunk.sequence, Refusal::Group);
            self.groups.iter_mut().for_each(refuse);
            return false;
        };
        let served = runtime.has_served(&chunk);
        match group.group.take(at, Found { chunk: &chunk, writer, served }) {
            Ok(()) => group.news = true,
            Err(refusal) => group.note_refused(writer, chunk.sequence, refusal),
        }
        served
    }

    fn disable(&mut self, why: Disabling) {
        self.groups.iter_mut().for_each(|group| group.disable(why));
    }
}

impl Group {
    fn enable(&mut self) {
        self.group.enable();
        self.news = true;
    }

    fn disable(&mut self, why: Disabling) {
        self.group.disable(why);
        self.news = true;
    }

    /// Refuses a chunk that the group has not seen.
    fn refuse(&mut self, writer: u64, sequence: u64, refusal: Refusal) {
        self.group.refuse(refusal);
        self.note_refused(writer, sequence, refusal);
    }

    fn note_refused(&mut self, writer: u64, sequence: u64, refusal: Refusal) {
        if self.refused.len() == MOST_REFUSED {
            self.refused.remove(0);
        }
        self.refused.push(RefusedChunk { writer, sequence, refusal });
        self.news = true;
    }

    /// Makes and sends the command of a tick.
    fn serve(
        &mut self,
        runtime: &Runtime,
        epoch: Epoch,
        place: usize,
        at: CommandTick,
        publisher: &mut dyn CommandPublisher,
        digest: &mut CommandDigest,
    ) {
        let note = |fact| note(runtime, at.tick, epoch, fact);
        let is_valid = runtime.pipeline.measured(place, at.epoch, at.stamp, &mut self.measured);
        if self.is_valid != is_valid {
            self.is_valid = is_valid;
            note(CommandFact::Measured { group: place, is_valid });
        }
        let made = self.group.tick(at, is_valid.then_some(&self.measured[..]));
        digest.add(made, &self.group);
        if made.starts && runtime.recorder.is_some() {
            for (part, values) in self.measured.chunks(START_VALUES).enumerate() {
                let first = part * START_VALUES;
                let values = StartValues::new(values);
                note(CommandFact::Begins { group: place, first, values });
            }
        }
        if let Some(message) = self.output.write(at, made, &mut self.group) {
            publisher.send(place, message);
        }
        self.stage = (made.stage, self.group.waits_for(made.stage));
    }

    /// Tells the status of the group, if there is something new or the last one is old.
    fn tell(
        &mut self,
        commands: &Commands,
        place: usize,
        at: CommandTick,
        publisher: &mut dyn CommandPublisher,
    ) {
        let stage = self.stage;
        let is_old =
            |(told, stamp)| told != stage || !(0..STATUS_NS).contains(&at.stamp.since(stamp));
        if !self.news && !self.told.is_none_or(is_old) {
            return;
        }
        self.told = Some((stage, at.stamp));
        self.news = false;
        let status = CommandStatus {
            stamp: at.stamp,
            run: at.run,
            group: &self.group.spec().name,
            stage: stage.0,
            waits_for: stage.1,
            newest: self.group.newest(),
            refused: &self.refused,
            counts: self.group.counts(),
            joints: &self.names,
        };
        self.status = status.to_cdr(std::mem::take(&mut self.status));
        publisher.tell(place, &self.status);
        self.refused.clear();
        let state = &commands.groups[place];
        state.stage.store(stage.0 as u8, Ordering::Relaxed);
        state.waits_for.store(stage.1 as u8, Ordering::Relaxed);
        let is_new = |asked: Stamp| (0..AUDIENCE_NS).contains(&at.stamp.since(asked));
        if !self.asked.is_some_and(is_new) {
            self.asked = Some(at.stamp);
            let audience = publisher.audience(place).map_or(0, |count| count as u64 + 1);
            state.audience.store(audience, Ordering::Relaxed);
        }
        state.enabled.store(self.group.is_enabled(), Ordering::Relaxed);
        let newest = self.group.newest();
        state.sequence.store(newest.map_or(0, |of| of.sequence), Ordering::Relaxed);
        let delay = newest.map_or(0, |of| of.delay_ticks.unsigned_abs());
        state.delay_ticks.store(delay, Ordering::Relaxed);
        // Whoever reads the numbers must not hold up a tick.
        if let Ok(mut counts) = state.counts.try_lock() {
            counts.copy_from(self.group.counts());
        }
    }
}

/// Tells the recorder a fact of a command tick.
fn note(runtime: &Runtime, tick: i64, epoch: Epoch, fact: CommandFact) {
    if let Some(recorder) = &runtime.recorder {
        recorder.note(Event::Command(CommandRecord { tick, epoch, fact }));
    }
}

impl Runtime {
    /// True if the measured joints of each group are valid in a tensor. What a policy makes of others, which are zeros or
    /// old, moves nothing.
    fn may_be_answered(&self, message: &TensorMessage) -> bool {
        let groups = self.commands.iter().flat_map(|commands| &commands.spec.groups);
        let is_valid = |stream: StreamId| {
            let present = self.stream_spec(stream).present_step();
            let mut segments = self.pipeline.layout().segments_of(stream);
            segments.all(|id| message.steps(id).get(present).is_some_and(|step| step.valid))
        };
        groups.map(|group| group.start_from.stream).all(is_valid)
    }

    /// True if the tick that a chunk answers was served, and its tensor may be answered.
    pub fn has_served(&self, chunk: &ActionChunk<'_>) -> bool {
        // The stamp is that of the tensor, not that of the answer.
        let stamp = self.pipeline.config().grid.stamp_of(chunk.tick);
        let is_served = |of: &Commands| of.served.contains(chunk.epoch, chunk.tick);
        chunk.stamp == stamp && self.commands.as_deref().is_some_and(is_served)
    }

    /// Notes that a tick was served, if its tensor may be answered.
    pub(super) fn note_served(&self, epoch: Epoch, tick: i64, message: &TensorMessage) {
        if let Some(commands) = &self.commands
            && self.may_be_answered(message)
        {
            commands.served.note(epoch, tick);
        }
    }

    /// Enables the commands of all groups, from the next command tick on. They begin with the next chunk.
    ///
    /// # Errors
    /// [`NotEnabled`] if a group has no measured values to begin at.
    pub fn enable_commands(&self) -> Result<(), NotEnabled> {
        let Some(commands) = &self.commands else { return Ok(()) };
        let now = self.clock.now().ok_or(NotEnabled::NoClock)?;
        for (at, group) in commands.spec.groups.iter().enumerate() {
            let mut values = vec![0.0; group.joints.len()];
            if !self.pipeline.measured(at, now.epoch.number(), now.stamp, &mut values) {
                let stream = self.stream_spec(group.start_from.stream).name.clone();
                return Err(NotEnabled::NotMeasured { group: group.name.clone(), stream });
            }
        }
        commands.arm()
    }
}

impl Drop for Commanding {
    /// The thread ends, also by a panic: no velocity is left behind.
    fn drop(&mut self) {
        for (place, Group { group, output, .. }) in self.groups.iter_mut().enumerate() {
            let at = CommandTick { tick: 0, stamp: Stamp::ZERO, run: 0, epoch: 0 };
            let stage = Stage::Stopping;
            let made = Made { sends: true, stage, starts: false, turns: false };
            if group.halt()
                && let Some(message) = output.write(at, made, group)
            {
                self.publisher.send(place, message);
            }
        }
    }
}

impl TickWork for Commanding {
    fn tick(&mut self, runtime: &Runtime, due: &Due) -> Result<(), RuntimeError> {
        let Some(commands) = &runtime.commands else { return Ok(()) };
        let grid = commands.spec.grid;
        let at = CommandTick {
            tick: due.tick.tick,
            stamp: grid.stamp_of(due.tick.tick),
            run: runtime.pipeline.run(),
            epoch: due.epoch.number(),
        };
        let missed_ns = (due.tick.missed as i64).saturating_mul(grid.period_ns());
        // A simulator's clock may take any step ahead.
        let stood_still = missed_ns >= STILL.as_nanos() as i64 && !runtime.clock.is_simulated();
        let breaks = stood_still || self.epoch.is_some_and(|before| before != due.epoch);
        self.epoch = Some(due.epoch);
        if breaks {
            self.disable(Disabling::Broken);
            note(runtime, at.tick, due.epoch, CommandFact::Disabled(Disabling::Broken));
        }
        self.take(runtime, commands, at, due.epoch);
        let Commanding { groups, publisher, digest, .. } = self;
        let mut at_rest = true;
        for (place, group) in groups.iter_mut().enumerate() {
            group.serve(runtime, due.epoch, place, at, publisher.as_mut(), digest);
            at_rest &= group.group.is_at_rest();
        }
        commands.latency.record(elapsed_ns(due.since, runtime.time.monotonic()));
        let digest = digest.take();
        // While all are disabled, there is nothing that a replay could miss.
        let rested = commands.at_rest.swap(at_rest, Ordering::AcqRel);
        if !(at_rest && rested) {
            note(runtime, at.tick, due.epoch, CommandFact::Made { digest });
        }
        // After all commands: a status is in no hurry.
        for (place, group) in groups.iter_mut().enumerate() {
            group.tell(commands, place, at, publisher.as_mut());
        }
        Ok(())
    }

    fn stats<'a>(&'a self, runtime: &'a Runtime) -> &'a GridStats {
        runtime.commands.as_ref().map_or(&runtime.ticks.grid, |commands| &commands.grid)
    }
}

#[cfg(test)]
mod tests;
