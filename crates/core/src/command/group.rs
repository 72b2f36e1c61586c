//! One group: from the chunks that its command ticks find to its commands.
//!
//! What a command tick gives depends on the facts alone that the caller tells: the chunks that it found, in their order;
//! the measured values, at a start; whether they are valid; each enabling and disabling; and the ticks that were served.

mod admission;
mod ends;

use super::limits::{Limit, StepLimits, Track};
use super::plan::{Place, Plan};
use super::refused::Refusal;
use super::stage::{Stage, WaitsFor};
use crate::spec::{End, GroupSpec, Interface, JointLimits};
use admission::Owner;
pub use admission::{Found, Newest};
pub use ends::Disabling;
use robocache_ops::time::{NANOS_PER_S, Stamp, TickGrid};

/// A command tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandTick {
    /// Its number on the grid of the commands.
    pub tick: i64,
    /// Its instant on the node's clock.
    pub stamp: Stamp,
    /// The run of the node.
    pub run: u64,
    /// Number of the epoch of the node's clock.
    pub epoch: u64,
}

/// Outcome of a command tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Made {
    /// True if there is a command: [`CommandGroup::command`].
    pub sends: bool,
    /// Stage of the group.
    pub stage: Stage,
    /// True if commands begin here, at the measured values.
    pub starts: bool,
    /// True if another plan or another end counts from this tick on.
    pub turns: bool,
}

/// Numbers since the start of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupCounts {
    /// Command ticks with a command.
    pub commands: u64,
    /// Chunks that count.
    pub chunks: u64,
    /// Chunks whose rows were all past.
    pub chunks_late: u64,
    /// Rows that were past when their chunk came.
    pub rows_late: u64,
    /// Chunks that were refused, by [`Refusal::ALL`].
    pub refused: [u64; Refusal::ALL.len()],
    /// How often commands began.
    pub starts: u64,
    /// How often a plan stalled.
    pub stalls: u64,
    /// How often a plan ended.
    pub ends: u64,
    /// Per joint: commands that a limit changed.
    pub clipped: Vec<u64>,
    /// Commands of all joints that a limit changed, by [`Limit::ALL`].
    pub limited: [u64; Limit::ALL.len()],
}

impl GroupCounts {
    /// Copies the numbers of another group of as many joints, without an allocation after the first time.
    pub fn copy_from(&mut self, other: &GroupCounts) {
        let mut clipped = std::mem::take(&mut self.clipped);
        clipped.clone_from(&other.clipped);
        *self = GroupCounts { clipped, ..*other };
    }
}

/// Makes the commands of a group, as the [module](self) says.
#[derive(Clone, Debug)]
#[allow(clippy::struct_excessive_bools)] // each may hold without the others
pub struct CommandGroup {
    spec: GroupSpec,
    period_ns: i64,
    limits: Vec<StepLimits>,
    tracks: Vec<Track>,
    /// Memory for tracks of ticks to come.
    scratch: Vec<Track>,
    /// The plan in force.
    plan: Plan,
    /// A plan whose first row is to come.
    next: Plan,
    /// Memory for the plan of the next chunk.
    spare: Plan,
    /// Per joint: what the command had in front of the plan when the plan came into force.
    ahead: Vec<f64>,
    /// The instant of the first tick of the plan.
    since: Stamp,
    /// True if the plan is over because of a stall.
    stalled: bool,
    /// True if the newest tick followed no plan any more.
    ending: bool,
    enabled: bool,
    /// True if the measured values were valid at the newest tick.
    is_measured: bool,
    /// True while commands are sent, so that the tracks are those of commands.
    sends: bool,
    /// True if commands must begin at measured values again, although some are sent: a position comes to rest first, and a
    /// velocity is zero or falls to zero.
    begins_again: bool,
    /// Until when zeros are sent.
    zeros_until: Option<Stamp>,
    owner: Option<Owner>,
    /// The command tick from which the newest chunk counts.
    fed: Option<i64>,
    newest: Option<Newest>,
    last: Option<i64>,
    counts: GroupCounts,
    command: Vec<f64>,
}

impl CommandGroup {
    /// A group whose commands are disabled, for command ticks on `grid`. It takes all its memory here.
    pub fn new(spec: &GroupSpec, grid: TickGrid) -> Self {
        let joints = spec.joints.len();
        let period_ns = grid.period_ns();
        let limits = spec.joints.iter();
        let limits = limits.map(|of| StepLimits::new(of.limits, spec.interface, period_ns));
        CommandGroup {
            period_ns,
            limits: limits.collect(),
            tracks: vec![Track::default(); joints],
            scratch: vec![Track::default(); joints],
            plan: Plan::of(spec),
            next: Plan::of(spec),
            spare: Plan::of(spec),
            ahead: vec![0.0; joints],
            since: Stamp::ZERO,
            stalled: false,
            ending: false,
            enabled: false,
            is_measured: false,
            sends: false,
            begins_again: false,
            zeros_until: None,
            owner: None,
            fed: None,
            newest: None,
            last: None,
            counts: GroupCounts { clipped: vec![0; joints], ..GroupCounts::default() },
            command: vec![0.0; joints],
            spec: spec.clone(),
        }
    }

    /// The configuration of the group.
    pub fn spec(&self) -> &GroupSpec {
        &self.spec
    }

    /// Longest time from the greatest velocity to rest \[ns\]; 0 without limits.
    pub fn rest_ns(&self) -> i64 {
        let rest_s = |limits: &JointLimits| match (limits.velocity, limits.acceleration) {
            (Some(velocity), Some(acceleration)) => velocity / acceleration,
            _ => 0.0,
        };
        let longest = self.spec.joints.iter().map(|of| rest_s(&of.limits)).fold(0.0, f64::max);
        (longest * NANOS_PER_S as f64).ceil() as i64
    }

    /// Nanoseconds between its ticks.
    pub fn period_ns(&self) -> i64 {
        self.period_ns
    }

    /// The command of the newest tick, a number per joint.
    pub fn command(&self) -> &[f64] {
        &self.command
    }

    /// Its numbers so far.
    pub fn counts(&self) -> &GroupCounts {
        &self.counts
    }

    /// The newest chunk that counts.
    pub fn newest(&self) -> Option<Newest> {
        self.newest
    }

    /// True if commands are enabled.
    pub fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// True if no command will be sent before commands are enabled.
    pub fn is_at_rest(&self) -> bool {
        !self.enabled && !self.sends
    }

    /// Enables commands. The next chunk starts them, but not before the group has come to rest.
    pub fn enable(&mut self) {
        if !self.enabled {
            (self.enabled, self.begins_again) = (true, self.sends);
            self.forget();
        }
    }

    /// Forgets all chunks, and who wrote them.
    fn forget(&mut self) {
        self.plan.clear();
        self.next.clear();
        (self.owner, self.fed, self.newest) = (None, None, None);
        (self.stalled, self.last) = (false, None);
        self.zeros_until = None;
    }

    /// Condition that the group waits for after the newest tick.
    pub fn waits_for(&self, stage: Stage) -> WaitsFor {
        match stage {
            Stage::Following => WaitsFor::Nothing,
            Stage::Stopping => WaitsFor::Rest,
            Stage::Disabled => WaitsFor::Enabling,
            // Commands begin at measured values after the joints have come to rest.
            _ if self.begins_again && self.sends => WaitsFor::Rest,
            _ if !self.is_measured => WaitsFor::Measured,
            _ if self.next.rows() > 0 => WaitsFor::FirstRow,
            _ => WaitsFor::Chunk,
        }
    }

    /// Makes the command of a tick. `measured` are the values that commands begin at; `None` if one is invalid.
    pub fn tick(&mut self, at: CommandTick, measured: Option<&[f64]>) -> Made {
        self.is_measured = measured.is_some();
        let made = self.make(at, measured);
        self.counts.commands += u64::from(made.sends);
        made
    }

    fn make(&mut self, at: CommandTick, measured: Option<&[f64]>) -> Made {
        let missed = self.last.replace(at.tick).is_some_and(|last| self.is_past(at, last));
        // So long without a command, the joint may be anywhere.
        if missed {
            self.break_off();
        }
        if !self.enabled {
            return self.stop(at);
        }
        let turns = self.promote(at);
        self.watch(at, measured.is_some());
        let now = at.stamp.offset(self.spec.lead_ns);
        let row = self.row_at(now);
        let ended = self.plan.rows() > 0 && row.is_none();
        let rests_first = self.begins_again && self.spec.interface == Interface::Position;
        let row = row.filter(|_| !self.stalled && !rests_first);
        match (row, self.sends && !self.begins_again, measured) {
            (Some(row), false, Some(measured)) => {
                self.start(at, row, measured);
                Made { sends: true, stage: Stage::Following, starts: true, turns: true }
            }
            (Some(row), true, _) => {
                if turns {
                    self.join(at, row);
                }
                self.follow(at, row);
                Made { sends: true, stage: Stage::Following, starts: false, turns }
            }
            _ => {
                let stage = match (self.stalled, ended) {
                    _ if self.begins_again => Stage::Waiting,
                    (true, _) => Stage::Stalled,
                    (false, true) => Stage::Ended,
                    (false, false) => Stage::Waiting,
                };
                self.end(at, stage)
            }
        }
    }

    /// Lets the next plan come into force at its first row. Returns true if it does.
    fn promote(&mut self, at: CommandTick) -> bool {
        let now = at.stamp.offset(self.spec.lead_ns);
        if self.next.first().is_none_or(|first| now < first) {
            return false;
        }
        if self.sends {
            self.foresee(at);
        }
        std::mem::swap(&mut self.plan, &mut self.next);
        self.next.clear();
        (self.stalled, self.ending, self.zeros_until) = (false, false, None);
        true
    }

    /// Notes in `ahead` what the commands of this tick would be, before limits, without the next plan.
    ///
    /// A plan that is the same as the one before so makes no seam. (The last command in its place would be one tick
    /// old, and each new plan would hold the joint back for one tick.)
    fn foresee(&mut self, at: CommandTick) {
        let now = at.stamp.offset(self.spec.lead_ns);
        let row = self.row_at(now).filter(|_| !self.stalled);
        let left = self.left_of_blend(at.stamp);
        let end = self.end_of(match (self.plan.rows(), self.stalled) {
            (0, _) => Stage::Waiting,
            (_, true) => Stage::Stalled,
            (_, false) => Stage::Ended,
        });
        for (joint, spec) in self.spec.joints.iter().enumerate() {
            let mut track = self.tracks[joint];
            self.ahead[joint] = match (row, end) {
                (Some(row), _) => {
                    let value = self.plan.value(joint, spec.interpolate, row, now);
                    blended(value, self.ahead[joint], left)
                }
                (None, End::Decelerate | End::Hold) => {
                    self.limits[joint].stop(&mut track, self.spec.interface);
                    track.last
                }
                (None, End::Zeros) => 0.0,
                (None, End::Silence) => track.target,
            };
        }
    }

    /// The row that counts at an instant; `None` outside of the plan.
    fn row_at(&self, now: Stamp) -> Option<usize> {
        match self.plan.place(now) {
            Place::After if self.plan.is_held() => Some(self.plan.rows() - 1),
            Place::Row(row) => Some(row),
            Place::Before | Place::After => None,
        }
    }

    /// Notes whether the plan is stalled.
    fn watch(&mut self, at: CommandTick, is_valid: bool) {
        let fed = self.fed.is_some_and(|fed| !self.is_past(at, fed));
        let stalls = self.plan.rows() > 0 && (!fed || (self.sends && !is_valid));
        if stalls && !self.stalled {
            self.stalled = true;
            self.counts.stalls += u64::from(self.sends);
            self.ending = false;
        }
    }

    /// Begins at the measured values.
    fn start(&mut self, at: CommandTick, row: usize, measured: &[f64]) {
        self.counts.starts += 1;
        (self.sends, self.begins_again, self.ending, self.zeros_until) = (true, false, false, None);
        for (joint, value) in measured.iter().enumerate() {
            // A measured velocity may be a glitch. A position is where it is.
            let value = match self.spec.interface {
                Interface::Position => *value,
                Interface::Velocity => self.limits[joint].clamp(*value),
            };
            (self.tracks[joint], self.ahead[joint]) = (Track::at(value), value);
        }
        self.join(at, row);
        self.say();
    }

    /// Notes what the commands have in front of a plan that comes into force: `ahead` has what they would be without it.
    fn join(&mut self, at: CommandTick, row: usize) {
        self.since = at.stamp;
        let now = at.stamp.offset(self.spec.lead_ns);
        for (joint, spec) in self.spec.joints.iter().enumerate() {
            let before = self.ahead[joint];
            let mut value = self.plan.value(joint, spec.interpolate, row, now);
            if spec.angular {
                self.plan.turn(joint, value, before);
                value = self.plan.value(joint, spec.interpolate, row, now);
            }
            self.ahead[joint] = before - value;
        }
    }

    /// Makes a command that follows the plan.
    fn follow(&mut self, at: CommandTick, row: usize) {
        let mut tracks = std::mem::take(&mut self.tracks);
        let mut clipped = std::mem::take(&mut self.counts.clipped);
        let mut limited = self.counts.limited;
        self.follow_with(&mut tracks, at.stamp, row, |joint, limit| {
            if let Some(limit) = limit {
                clipped[joint] += 1;
                limited[limit as usize] += 1;
            }
        });
        (self.tracks, self.counts.clipped, self.counts.limited) = (tracks, clipped, limited);
        self.say();
    }

    /// Makes a command that follows the plan, in other tracks. Tells of each joint which limit changed its command.
    fn follow_with(
        &self,
        tracks: &mut [Track],
        at: Stamp,
        row: usize,
        mut tell: impl FnMut(usize, Option<Limit>),
    ) {
        let now = at.offset(self.spec.lead_ns);
        let (other_row, by_ns) = self.neighbour(now).unwrap_or((row, 0));
        let left = [at, at.offset(by_ns)].map(|stamp| self.left_of_blend(stamp));
        for (joint, spec) in self.spec.joints.iter().enumerate() {
            let value = |row, at| self.plan.value(joint, spec.interpolate, row, at);
            let target = blended(value(row, now), self.ahead[joint], left[0]);
            let other = blended(value(other_row, now.offset(by_ns)), self.ahead[joint], left[1]);
            let slope = if by_ns < 0 { target - other } else { other - target };
            tell(joint, self.limits[joint].follow(&mut tracks[joint], target, slope));
        }
    }

    /// Calls `each` with the instants and the commands of the ticks to come, if no other chunk comes: up to the end of the
    /// plan, and until the joints are at rest, at most this many ticks. The last call is told.
    pub(super) fn look_ahead(
        &mut self,
        at: CommandTick,
        most: usize,
        mut each: impl FnMut(Stamp, &[Track], bool),
    ) {
        let mut tracks = std::mem::take(&mut self.scratch);
        tracks.copy_from_slice(&self.tracks);
        let ends = self.ending || !self.enabled;
        for tick in 1..=most as i64 {
            let stamp = at.stamp.offset(tick * self.period_ns);
            let row = self.row_at(stamp.offset(self.spec.lead_ns)).filter(|_| !ends);
            match row {
                Some(row) => self.follow_with(&mut tracks, stamp, row, |_, _| {}),
                None => {
                    let all = tracks.iter_mut().zip(&self.limits);
                    all.for_each(|(track, limits)| limits.stop(track, self.spec.interface));
                }
            }
            let rests = |track: &Track| track.last == track.before;
            // A row that is held has no end.
            let may_end = row.is_none() || (self.plan.is_held() && tick > 1);
            let is_last = tick == most as i64 || (may_end && tracks.iter().all(rests));
            each(stamp, &tracks, is_last);
            if is_last {
                break;
            }
        }
        self.scratch = tracks;
    }

    /// The row of the instant one period later, or earlier at the plan's end, and how much later it is \[ns\].
    fn neighbour(&self, now: Stamp) -> Option<(usize, i64)> {
        let all = [self.period_ns, -self.period_ns];
        all.into_iter().find_map(|by_ns| Some((self.row_at(now.offset(by_ns))?, by_ns)))
    }

    /// Share of a blend that is left.
    fn left_of_blend(&self, at: Stamp) -> f64 {
        match self.spec.blend_ns {
            0 => 0.0,
            blend_ns => 1.0 - at.since(self.since) as f64 / blend_ns as f64,
        }
    }

    fn say(&mut self) {
        for (value, track) in self.command.iter_mut().zip(&self.tracks) {
            *value = track.last;
        }
    }

    /// True if the watchdog's time has passed since a command tick.
    fn is_past(&self, at: CommandTick, tick: i64) -> bool {
        at.tick.saturating_sub(tick).saturating_mul(self.period_ns) > self.spec.watchdog_ns
    }
}

/// A plan's value, with the share of a difference that is left of a blend. A blend that is over adds nothing, not even a
/// rounding.
fn blended(value: f64, ahead: f64, left: f64) -> f64 {
    if left > 0.0 { value + ahead * left } else { value }
}

#[cfg(test)]
pub(super) mod tests;
