//! How commands end: when they are disabled, without a plan, and when the node ends.

use super::super::limits::Track;
use super::super::stage::Stage;
use super::{CommandGroup, CommandTick, Made};
use crate::spec::{End, Interface};
use robocache_ops::time::NANOS_PER_MS;

/// Zeros are sent for this long \[ns\], so that a lost one does no harm.
const ZEROS_NS: i64 = 100 * NANOS_PER_MS;

/// Why commands are disabled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disabling {
    /// Somebody asks for it, or the node ends. The group decelerates first.
    Asked,
    /// An epoch of the node's clock begins, or the process stood still. A velocity is zero for a moment.
    Broken,
}

impl CommandGroup {
    /// Makes zeros the command of a group of velocities that sends any, for a node that ends otherwise than planned.
    /// Returns true if there is a command to send.
    pub fn halt(&mut self) -> bool {
        self.enabled = false;
        self.break_off();
        self.say();
        self.sends
    }

    /// Disables commands, or ends them for a moment if the group is armed again by itself.
    pub fn disable(&mut self, why: Disabling) {
        match why {
            Disabling::Asked => (self.enabled, self.ending) = (false, false),
            Disabling::Broken => {
                self.enabled &= self.spec.rearm;
                self.break_off();
            }
        }
        self.forget();
    }

    /// Ends commands without a deceleration: how fast the joints are now is unknown. A velocity is zero for a moment.
    pub(super) fn break_off(&mut self) {
        self.sends &= self.spec.interface == Interface::Velocity;
        (self.begins_again, self.zeros_until) = (self.sends, None);
        if self.sends {
            self.tracks.iter_mut().for_each(|track| *track = Track::at(0.0));
        }
    }

    /// The way commands end at a stage without a plan.
    pub(super) fn end_of(&self, stage: Stage) -> End {
        match stage {
            Stage::Stalled => self.spec.on_stall,
            Stage::Ended => self.spec.on_end,
            _ => End::Decelerate,
        }
    }

    /// Ends a plan that is over, as the configuration says.
    pub(super) fn end(&mut self, at: CommandTick, stage: Stage) -> Made {
        let begins = self.sends && !self.ending;
        if begins {
            self.ending = true;
            self.counts.ends += u64::from(stage == Stage::Ended);
        }
        if self.sends {
            let end = self.end_of(stage);
            self.go_on(at, end);
            // Without a plan there is nothing to hold.
            if stage == Stage::Waiting && self.spec.interface == Interface::Position {
                self.sends = !self.rests();
                self.begins_again &= self.sends;
            }
        }
        Made { sends: self.sends, stage, starts: false, turns: begins }
    }

    /// True if all joints are where they were at the tick before.
    pub(super) fn rests(&self) -> bool {
        self.tracks.iter().all(|track| track.last == track.before)
    }

    /// Comes to rest before commands are disabled.
    pub(super) fn stop(&mut self, at: CommandTick) -> Made {
        let begins = self.sends && !std::mem::replace(&mut self.ending, true);
        if self.sends {
            self.go_on(at, End::Decelerate);
            // A position at rest needs no more commands.
            self.sends &= self.spec.interface == Interface::Velocity || !self.rests();
        }
        let stage = if self.sends { Stage::Stopping } else { Stage::Disabled };
        Made { sends: self.sends, stage, starts: false, turns: begins }
    }

    /// Makes a command without a plan.
    fn go_on(&mut self, at: CommandTick, end: End) {
        let interface = self.spec.interface;
        for (track, limits) in self.tracks.iter_mut().zip(&self.limits) {
            match end {
                // Within its limits a joint cannot stand still at once, either.
                End::Decelerate | End::Hold => limits.stop(track, interface),
                End::Zeros => *track = Track::at(0.0),
                End::Silence => {}
            }
        }
        self.say();
        let zero = self.command.iter().all(|value| *value == 0.0);
        match interface {
            Interface::Velocity if zero => {
                let is_first = self.zeros_until.is_none();
                let until = *self.zeros_until.get_or_insert(at.stamp.offset(ZEROS_NS));
                self.sends = is_first || at.stamp < until;
                self.begins_again &= self.sends;
            }
            Interface::Velocity => self.zeros_until = None,
            Interface::Position => self.sends = end != End::Silence,
        }
    }
}
