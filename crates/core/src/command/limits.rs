//! Limits of a joint's change from one command tick to the next.
//!
//! All bounds are relative to the commands before, not to measurements, so that a joint that lags behind does not slow
//! its commands (ros2_control#2183). Arithmetic is in `f64`, of + - x / and square root alone, so that it has the same
//! bits everywhere.

use crate::spec::{Interface, JointLimits};
use robocache_ops::time::NANOS_PER_S;

/// A limit of a joint, which may change its commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The least and the greatest position.
    Position,
    /// The greatest velocity.
    Velocity,
    /// The greatest acceleration, also where it makes a joint brake before another limit or before its plan.
    Acceleration,
}

impl Limit {
    /// All limits, in the order of their numbers.
    pub const ALL: [Limit; 3] = [Limit::Position, Limit::Velocity, Limit::Acceleration];

    /// The limit in a word.
    pub const fn word(self) -> &'static str {
        match self {
            Limit::Position => "position",
            Limit::Velocity => "velocity",
            Limit::Acceleration => "acceleration",
        }
    }
}

/// Limits of a joint in the unit of its command, per command tick. A missing limit is infinite.
///
/// A velocity group has the same bounds one derivative higher: its command may not pass the greatest velocity, and may
/// change by the greatest acceleration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct StepLimits {
    /// Least and greatest command.
    low: f64,
    high: f64,
    /// Greatest change of the command in a tick.
    step: f64,
    /// Greatest change of that change.
    bend: f64,
    /// The limits of the joint that bound the command, and its change.
    bounded_by: [Limit; 2],
}

/// The commands of a joint so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Track {
    /// The value before limits, of the tick before.
    pub target: f64,
    /// The command of the tick before.
    pub last: f64,
    /// The command before that one.
    pub before: f64,
}

impl Track {
    /// A joint that is at a value, and at rest there.
    pub(super) fn at(value: f64) -> Self {
        Track { target: value, last: value, before: value }
    }

    /// Notes a command and the value before limits that it is for.
    fn note(&mut self, target: f64, command: f64) {
        *self = Track { target, last: command, before: self.last };
    }
}

impl StepLimits {
    /// The limits for ticks of this period \[ns\].
    pub(super) fn new(limits: JointLimits, interface: Interface, period_ns: i64) -> Self {
        let period_s = period_ns as f64 / NANOS_PER_S as f64;
        let velocity = limits.velocity.unwrap_or(f64::INFINITY);
        let acceleration = limits.acceleration.unwrap_or(f64::INFINITY);
        match interface {
            Interface::Position => {
                let [low, high] = limits.position.unwrap_or([f64::NEG_INFINITY, f64::INFINITY]);
                let step = velocity * period_s;
                let bend = acceleration * period_s * period_s;
                let bounded_by = [Limit::Position, Limit::Velocity];
                StepLimits { low, high, step, bend, bounded_by }
            }
            Interface::Velocity => {
                let step = acceleration * period_s;
                let bend = f64::INFINITY;
                let bounded_by = [Limit::Velocity, Limit::Acceleration];
                StepLimits { low: -velocity, high: velocity, step, bend, bounded_by }
            }
        }
    }

    /// Makes the command for a value before limits, which changes by `slope` until the next tick. Returns the limit that
    /// changed it, if one did; of several, the one that counts.
    ///
    /// A joint that is not on its plan, because a limit held it back or the plan has jumped, approaches it as fast as it
    /// may and still join it there: it does not swing about the plan.
    pub(super) fn follow(&self, track: &mut Track, target: f64, slope: f64) -> Option<Limit> {
        let last = track.last;
        let within = self.clamp(target);
        let slope = self.clamp(target + slope) - within;
        // Seen from the plan, the joint is away by the gap, and must come to rest there.
        let gap = within - slope - last;
        let wish = slope + room_to_stop(gap.abs(), self.bend).copysign(gap);
        let (allowed, limit) = self.allow(track, wish);
        let is_on_plan =
            gap.abs() <= self.bend && self.allow(track, within - last).0 == within - last;
        let command = if is_on_plan { within } else { last + allowed };
        track.note(target, command);
        let limit = match is_on_plan {
            true => self.bounded_by[0],
            // Without another one, the joint brakes to join its plan.
            false => limit.unwrap_or(Limit::Acceleration),
        };
        (command != target).then_some(limit)
    }

    /// Makes the command that stops: with constant deceleration for a position, towards zero for a velocity.
    pub(super) fn stop(&self, track: &mut Track, interface: Interface) {
        let command = match interface {
            Interface::Position => {
                let moved = track.last - track.before;
                track.last + (moved.abs() - self.bend).max(0.0).copysign(moved)
            }
            Interface::Velocity => (track.last.abs() - self.step).max(0.0).copysign(track.last),
        };
        track.note(command, command);
    }

    /// The command nearest to a value within the limits of commands.
    pub(super) fn clamp(&self, value: f64) -> f64 {
        value.max(self.low).min(self.high)
    }

    /// The change of the command nearest to a wish that the limits allow, and the limit that changed the wish. Of two limits
    /// that exclude each other, the later counts: position, velocity, acceleration.
    fn allow(&self, track: &Track, wish: f64) -> (f64, Option<Limit>) {
        let Track { last, before, .. } = *track;
        let moved = last - before;
        // Outside of a limit there is no room, so that the way leads inwards.
        let up = room_to_stop((self.high - last).max(0.0), self.bend);
        let down = room_to_stop((last - self.low).max(0.0), self.bend);
        let inside = wish.min(up).max(-down);
        let slow = inside.min(self.step).max(-self.step);
        let smooth = slow.min(moved + self.bend).max(moved - self.bend);
        let [range, step] = self.bounded_by;
        let changed = [
            (smooth != slow, Limit::Acceleration),
            (slow != inside, step),
            (inside != wish, range),
        ];
        (smooth, changed.into_iter().find(|(is, _)| *is).map(|(_, limit)| limit))
    }
}

/// The greatest change in a tick after which a joint can stop within `room` in all, if its change may fall by `bend` in
/// each tick.
///
/// After a change d, the next ones are d - bend, d - 2 bend and so on. With n of them above zero, they add up to
/// (n + 1) d - bend n (n + 1) / 2. So n is the greatest number with bend n (n + 1) / 2 <= room.
fn room_to_stop(room: f64, bend: f64) -> f64 {
    if room <= bend {
        return room;
    }
    let ratio = room / bend;
    let n = (((1.0 + 8.0 * ratio).sqrt() - 1.0) / 2.0).floor();
    (room + bend * (n * (n + 1.0) / 2.0)) / (n + 1.0)
}

#[cfg(test)]
mod tests;
