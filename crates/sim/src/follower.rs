//! A second arm that follows commands, without ROS and without a clock: its state depends on the commands and their
//! instants alone.

use super::truth::{JOINT_NAMES, JOINTS};
use clap::ValueEnum;
use robocache_core::cdr::messages::JointState;
use robocache_core::cdr::{CdrError, Reader};
use robocache_ops::time::{NANOS_PER_MS, NANOS_PER_S, Stamp};
use std::collections::VecDeque;

/// Time between two steps of the arm \[ns\].
pub const FOLLOWER_STEP_NS: i64 = NANOS_PER_MS;
/// After a longer time without a step, the arm is at rest where it was \[ns\].
const LONGEST_NS: i64 = 10 * NANOS_PER_S;

/// Messages that the second arm follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum Followed {
    /// `std_msgs/msg/Float64MultiArray`: the positions of all joints, as `forward_command_controller` takes them.
    #[default]
    Values,
    /// `trajectory_msgs/msg/JointTrajectory` with one point, which has all joints.
    OnePoint,
}

impl Followed {
    /// Type of the messages.
    pub fn ros_type(self) -> &'static str {
        match self {
            Followed::Values => "std_msgs/msg/Float64MultiArray",
            Followed::OnePoint => "trajectory_msgs/msg/JointTrajectory",
        }
    }

    /// Reads the positions of a message; `None` if it is not for these joints.
    fn read(self, message: &[u8]) -> Result<Option<[f64; JOINTS]>, CdrError> {
        let mut reader = Reader::new(message)?;
        match self {
            Followed::Values => values(&mut reader),
            Followed::OnePoint => one_point(&mut reader),
        }
    }
}

/// Properties of the arm, equal for all joints.
///
/// Without its limits a joint is a linear system of second order, critically damped: it swings about no target. Its lag
/// behind a target that moves evenly is `2 / frequency + delay_ns`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FollowerModel {
    /// Natural frequency \[rad/s\], far below a thousand.
    pub frequency: f64,
    /// Greatest distance of a position from 0 \[rad\].
    pub position: f64,
    /// Greatest velocity \[rad/s\].
    pub velocity: f64,
    /// Greatest acceleration \[rad/s^2\].
    pub acceleration: f64,
    /// Time from the arrival of a command until it acts \[ns\].
    pub delay_ns: i64,
}

impl FollowerModel {
    /// An arm that can follow all joints of the simulated robot.
    pub const ARM: FollowerModel = FollowerModel {
        frequency: 50.0,
        position: 3.0,
        velocity: 6.0,
        acceleration: 100.0,
        delay_ns: 10 * NANOS_PER_MS,
    };
}

/// Numbers of an arm since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FollowerCounts {
    /// Commands that it follows.
    pub commands: u64,
    /// Messages that are no command for it: malformed, other joints, another number of them, or a value that is not finite.
    pub refused: u64,
}

/// The arm. Instants are nanoseconds since its start.
#[derive(Clone, Debug)]
pub struct Follower {
    model: FollowerModel,
    followed: Followed,
    position: [f64; JOINTS],
    velocity: [f64; JOINTS],
    target: [f64; JOINTS],
    /// Commands that do not act yet, with the instants from which they do.
    waiting: VecDeque<(i64, [f64; JOINTS])>,
    /// The newest step.
    step: i64,
    counts: FollowerCounts,
}

impl Follower {
    /// An arm at rest, with all joints at 0.
    pub fn new(model: FollowerModel, followed: Followed) -> Self {
        let zero = [0.0; JOINTS];
        let position = zero;
        let velocity = zero;
        let target = zero;
        let waiting = VecDeque::new();
        let counts = FollowerCounts::default();
        Follower { model, followed, position, velocity, target, waiting, step: 0, counts }
    }

    /// Takes a message that arrives at this instant. Returns true if it is a command for the arm.
    pub fn take(&mut self, at_ns: i64, message: &[u8]) -> bool {
        let read = self.followed.read(message).ok().flatten();
        let Some(target) = read.filter(|target| target.iter().all(|value| value.is_finite()))
        else {
            self.counts.refused += 1;
            return false;
        };
        self.counts.commands += 1;
        self.waiting.push_back((at_ns.saturating_add(self.model.delay_ns), target));
        true
    }

    /// Moves on to an instant. If the instant is before the newest step, or more than ten seconds after it, then nobody
    /// knows how the arm moved: it is at rest where it was, and commands that waited are dropped.
    pub fn advance(&mut self, to_ns: i64) {
        let last = to_ns.div_euclid(FOLLOWER_STEP_NS);
        let steps = last.saturating_sub(self.step);
        if !(0..=LONGEST_NS / FOLLOWER_STEP_NS).contains(&steps) {
            self.waiting.clear();
            (self.target, self.velocity) = (self.position, [0.0; JOINTS]);
            self.step = last;
        }
        while self.step < last {
            let now_ns = self.step * FOLLOWER_STEP_NS;
            while let Some((from_ns, target)) = self.waiting.front()
                && *from_ns <= now_ns
            {
                self.target = *target;
                self.waiting.pop_front();
            }
            (0..JOINTS).for_each(|joint| self.move_joint(joint));
            self.step += 1;
        }
    }

    /// Makes a step of a joint, by the semi-implicit Euler method. Its mean delay is exactly that of the continuous system.
    fn move_joint(&mut self, joint: usize) {
        let FollowerModel { frequency, position, velocity, acceleration, .. } = self.model;
        let step_s = FOLLOWER_STEP_NS as f64 / NANOS_PER_S as f64;
        let x = &mut self.position[joint];
        let v = &mut self.velocity[joint];
        let pull = frequency * frequency * (self.target[joint] - *x) - 2.0 * frequency * *v;
        *v += pull.clamp(-acceleration, acceleration) * step_s;
        *v = v.clamp(-velocity, velocity);
        *x += *v * step_s;
        if x.abs() > position {
            (*x, *v) = (x.clamp(-position, position), 0.0);
        }
    }

    /// The positions at the newest step \[rad\].
    pub fn positions(&self) -> &[f64; JOINTS] {
        &self.position
    }

    /// The velocities at the newest step \[rad/s\].
    pub fn velocities(&self) -> &[f64; JOINTS] {
        &self.velocity
    }

    /// Numbers since its start.
    pub fn counts(&self) -> FollowerCounts {
        self.counts
    }

    /// The CDR bytes of its `sensor_msgs/msg/JointState` at the newest step, written into the memory of `buffer`.
    pub fn message(&self, stamp: Stamp, buffer: Vec<u8>) -> Vec<u8> {
        let name = &JOINT_NAMES[..];
        let frame_id = "";
        let position = &self.position[..];
        let velocity = &self.velocity[..];
        JointState { stamp, frame_id, name, position, velocity, effort: &[] }.to_cdr(buffer)
    }
}

/// Reads a `Float64MultiArray`.
fn values(reader: &mut Reader<'_>) -> Result<Option<[f64; JOINTS]>, CdrError> {
    for _ in 0..reader.u32()? {
        reader.string_bytes()?;
        reader.u32()?;
        reader.u32()?;
    }
    reader.u32()?;
    numbers(reader)
}

/// Reads a `JointTrajectory` with one point.
fn one_point(reader: &mut Reader<'_>) -> Result<Option<[f64; JOINTS]>, CdrError> {
    reader.i32()?;
    reader.u32()?;
    reader.string_bytes()?;
    let mut names = Vec::new();
    for _ in 0..reader.u32()? {
        names.push(reader.string_bytes()?);
    }
    if reader.u32()? != 1 || names.len() != JOINTS {
        return Ok(None);
    }
    let Some(given) = numbers(reader)? else { return Ok(None) };
    let mut positions = [0.0; JOINTS];
    for (position, name) in positions.iter_mut().zip(JOINT_NAMES) {
        let at = names.iter().position(|given| *given == name.as_bytes());
        let Some(at) = at else { return Ok(None) };
        *position = given[at];
    }
    Ok(Some(positions))
}

/// Reads a number per joint.
fn numbers(reader: &mut Reader<'_>) -> Result<Option<[f64; JOINTS]>, CdrError> {
    let given = reader.f64_sequence()?;
    let all = std::array::from_fn(|at| given.get(at).unwrap_or(f64::NAN));
    Ok((given.len() == JOINTS).then_some(all))
}
