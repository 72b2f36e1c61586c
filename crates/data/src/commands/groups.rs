//! The groups of a configuration, with what they write.

use robocache_core::command::output::{CommandOutput, CommandType};
use robocache_core::command::{
    ActionChunk, CommandDigest, CommandGroup, CommandTick, Disabling, Found, Made, Refusal,
};
use robocache_core::spec::{CommandsSpec, GroupSpec};
use robocache_ops::time::{Stamp, TickGrid};

/// The commands of all groups, by their order in the configuration.
pub struct CommandGroups {
    grid: TickGrid,
    groups: Vec<GroupAgain>,
    digest: CommandDigest,
}

/// A group.
struct GroupAgain {
    group: CommandGroup,
    output: Box<dyn CommandOutput>,
    /// Command of the newest tick, with that tick.
    made: Option<(CommandTick, Made)>,
    /// Chunks so far, and the number of the newest one that counts.
    chunks: u64,
    newest: Option<u64>,
    /// Per joint: clipped commands up to the tick before, and true if the newest command was clipped.
    before: Vec<u64>,
    clipped: Vec<bool>,
}

/// A chunk that a command tick has found.
pub struct TakenChunk<'a> {
    /// The command tick.
    pub at: CommandTick,
    /// Position of its group; `None` if it cannot be read, or no group has its name.
    pub group: Option<usize>,
    /// Its number among the chunks of its group, from 0.
    pub number: u64,
    /// Its serialized message.
    pub message: &'a [u8],
    /// The chunk; `None` if it cannot be read.
    pub chunk: Option<&'a ActionChunk<'a>>,
    /// A number that tells its writer from others.
    pub writer: u64,
    /// The reason for which it was refused.
    pub outcome: Result<(), Refusal>,
    /// True if it counts: it was not refused, and one of its rows was to come.
    pub counts: bool,
    /// Rows that were past.
    pub rows_late: u64,
    /// The instants of its rows and their values, row by row: absolute, and as they were before the training's operators;
    /// empty if it was refused.
    pub rows: (&'a [Stamp], &'a [f64]),
}

/// The command of a group at a command tick.
pub struct MadeCommand<'a> {
    /// The command tick.
    pub at: CommandTick,
    /// Position of the group.
    pub group: usize,
    /// Outcome of the group's tick.
    pub made: Made,
    /// A number per joint. It counts if the tick sends a command.
    pub values: &'a [f64],
    /// Per joint: true if a limit changed its command.
    pub clipped: &'a [bool],
    /// Number of the newest chunk that counts ([`TakenChunk::number`]).
    pub newest: Option<u64>,
    /// The message of the tick, if it has one.
    pub message: Option<&'a [u8]>,
}

impl CommandGroups {
    /// The groups of a configuration, disabled.
    pub fn new(spec: &CommandsSpec) -> Self {
        let again = |of: &GroupSpec| {
            let group = CommandGroup::new(of, spec.grid);
            // The configuration has checked the name.
            let output = CommandType::find(of.output.ros_type)?.open(&group, of.output.form);
            let joints = of.joints.len();
            Some(GroupAgain {
                group,
                output,
                made: None,
                chunks: 0,
                newest: None,
                before: vec![0; joints],
                clipped: vec![false; joints],
            })
        };
        let groups: Vec<GroupAgain> = spec.groups.iter().filter_map(again).collect();
        let digest = CommandDigest::of(groups.iter().map(|of| &of.group));
        CommandGroups { grid: spec.grid, groups, digest }
    }

    /// The configurations of the groups.
    pub fn specs(&self) -> impl ExactSizeIterator<Item = &GroupSpec> {
        self.groups.iter().map(|of| of.group.spec())
    }

    /// A command tick of this number.
    pub fn at(&self, tick: i64, run: u64, epoch: u64) -> CommandTick {
        CommandTick { tick, stamp: self.grid.stamp_of(tick), run, epoch }
    }

    /// Enables all groups.
    pub fn enable(&mut self) {
        self.groups.iter_mut().for_each(|of| of.group.enable());
        self.forget();
    }

    /// Disables all groups.
    pub fn disable(&mut self, why: Disabling) {
        self.groups.iter_mut().for_each(|of| of.group.disable(why));
        self.forget();
    }

    /// Forgets the chunks that the groups have forgotten.
    fn forget(&mut self) {
        for of in &mut self.groups {
            of.newest = of.newest.filter(|_| of.group.newest().is_some());
        }
    }

    /// Takes a chunk that a command tick finds. `served` says if the tick that it answers was served, and may change what
    /// the chunk says. `tell` gets the outcome.
    pub fn take<R>(
        &mut self,
        at: CommandTick,
        message: &[u8],
        writer: u64,
        served: impl FnOnce(&mut ActionChunk<'_>) -> bool,
        tell: impl FnOnce(&TakenChunk<'_>) -> R,
    ) -> R {
        let of_nobody = TakenChunk {
            at,
            group: None,
            number: 0,
            message,
            chunk: None,
            writer,
            outcome: Err(Refusal::Malformed),
            counts: false,
            rows_late: 0,
            rows: (&[], &[]),
        };
        let Ok(mut chunk) = ActionChunk::read(message) else { return tell(&of_nobody) };
        let served = served(&mut chunk);
        let named = |of: &GroupAgain| of.group.spec().name.as_bytes() == chunk.group;
        let Some(place) = self.groups.iter().position(named) else {
            let chunk = Some(&chunk);
            let outcome = Err(Refusal::Group);
            return tell(&TakenChunk { chunk, outcome, ..of_nobody });
        };
        let GroupAgain { group, chunks, newest, .. } = &mut self.groups[place];
        let number = *chunks;
        *chunks += 1;
        let late = group.counts().rows_late;
        let counted = group.counts().chunks;
        let outcome = group.take(at, Found { chunk: &chunk, writer, served });
        let rows_late = group.counts().rows_late - late;
        let counts = group.counts().chunks > counted;
        if counts {
            *newest = Some(number);
        }
        let rows = match outcome {
            Ok(()) => group.rows_of(&chunk).unwrap_or_default(),
            Err(_) => Default::default(),
        };
        let group = Some(place);
        let chunk = Some(&chunk);
        tell(&TakenChunk { group, number, chunk, outcome, counts, rows_late, rows, ..of_nobody })
    }

    /// Makes the commands of a tick. `measured` gives the values that a group's commands begin at, if they are valid, in its
    /// memory. Returns the digest.
    pub fn tick(
        &mut self,
        at: CommandTick,
        mut measured: impl FnMut(usize) -> Option<Vec<f64>>,
    ) -> u64 {
        for (place, of) in self.groups.iter_mut().enumerate() {
            let GroupAgain { group, made, before, clipped, .. } = of;
            let tick = group.tick(at, measured(place).as_deref());
            *made = Some((at, tick));
            for ((clipped, before), now) in
                clipped.iter_mut().zip(before).zip(&group.counts().clipped)
            {
                *clipped = now > before;
                *before = *now;
            }
            self.digest.add(tick, group);
        }
        self.digest.take()
    }

    /// Tells the command of each group at the newest tick.
    ///
    /// # Errors
    /// That of `tell`.
    pub fn made<E>(
        &mut self,
        mut tell: impl FnMut(&MadeCommand<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        for (place, of) in self.groups.iter_mut().enumerate() {
            let GroupAgain { group, output, made: Some((at, made)), newest, clipped, .. } = of
            else {
                continue;
            };
            let values = group.command().to_vec();
            let message = output.write(*at, *made, group);
            let values = &values[..];
            let newest = *newest;
            let at = *at;
            let made = *made;
            tell(&MadeCommand { at, group: place, made, values, clipped, newest, message })?;
        }
        Ok(())
    }
}
