//! `trajectory_msgs/msg/JointTrajectory`, as `joint_trajectory_controller` takes it.
//!
//! With `points_ms`, a message has the whole plan from the next command tick on, each point within the limits, and it ends
//! at rest, a second later at least. It is sent when a plan or an end comes into force: the controller then follows it by
//! itself. With `one_point`, each command tick sends the command as a point that is to be reached one period later, at once.

use super::{CommandOutput, CommandType};
use crate::cdr::Writer;
use crate::command::{CommandGroup, CommandTick, Made};
use crate::schema::{HEADER, TIME};
use crate::spec::{CommandForm, Interface};
use robocache_ops::time::{NANOS_PER_S, Stamp};

/// Time that a message looks ahead at most \[ns\].
const MOST_NS: i64 = 60 * NANOS_PER_S;

/// Time from the first point to the last one at least \[ns\]. A controller refuses a message whose points are all past when
/// it comes, and goes on with the plan before. So a short stop that is on its way for longer than itself would stop nothing.
const LEAST_NS: i64 = NANOS_PER_S;

/// See [the message](self).
pub(super) static TYPE: CommandType = CommandType {
    name: "trajectory_msgs/msg/JointTrajectory",
    definition: &[
        (
            "trajectory_msgs/JointTrajectory",
            "std_msgs/Header header\nstring[] joint_names\nJointTrajectoryPoint[] points\n",
        ),
        ("builtin_interfaces/Duration", "int32 sec\nuint32 nanosec\n"),
        ("builtin_interfaces/Time", TIME),
        ("std_msgs/Header", HEADER),
        (
            "trajectory_msgs/JointTrajectoryPoint",
            "float64[] positions\nfloat64[] velocities\nfloat64[] accelerations\nfloat64[] effort\n\
             builtin_interfaces/Duration time_from_start\n",
        ),
    ],
    interfaces: &[Interface::Position],
    has_points: true,
    open: |group, form| {
        let spec = group.spec();
        let span_ns = spec.offsets_ns.last().map_or(0, |last| last - spec.offsets_ns[0]);
        let points = match form {
            CommandForm::EachTick => 1,
            CommandForm::Points { step_ns } => {
                let span_ns = (span_ns + group.rest_ns()).min(MOST_NS);
                (span_ns / step_ns) as usize + 4
            }
        };
        let names: usize = spec.joints.iter().map(|joint| joint.name.len() + 9).sum();
        Box::new(JointTrajectoryCommand {
            form,
            message: Vec::with_capacity(64 + names + points * POINT_BYTES * spec.joints.len()),
            times_ns: Vec::with_capacity(points),
            positions: Vec::with_capacity(points * spec.joints.len()),
        })
    },
};

/// Bytes of a point per joint, and more than enough for the rest of the point.
const POINT_BYTES: usize = 8 + 40;

struct JointTrajectoryCommand {
    form: CommandForm,
    message: Vec<u8>,
    /// Per point: time from the first one \[ns\].
    times_ns: Vec<i64>,
    /// Per point and joint.
    positions: Vec<f64>,
}

impl CommandOutput for JointTrajectoryCommand {
    fn write(&mut self, at: CommandTick, made: Made, group: &mut CommandGroup) -> Option<&[u8]> {
        self.times_ns.clear();
        self.positions.clear();
        let first = match self.form {
            CommandForm::EachTick if !made.sends => return None,
            CommandForm::EachTick => {
                self.times_ns.push(group.period_ns());
                self.positions.extend(group.command());
                // A controller takes a stamp of zero as its own now.
                Stamp::ZERO
            }
            // A group that is at rest at once sends nothing itself, but its controller must leave the plan.
            CommandForm::Points { .. } if !made.turns => return None,
            CommandForm::Points { step_ns } => self.look_ahead(at, step_ns, group),
        };
        self.message = self.written(first, group);
        Some(&self.message)
    }
}

impl JointTrajectoryCommand {
    /// Notes the points of the plan. Returns the instant of the first one.
    fn look_ahead(&mut self, at: CommandTick, step_ns: i64, group: &mut CommandGroup) -> Stamp {
        let first = at.stamp.offset(group.period_ns());
        let most = (MOST_NS / group.period_ns()) as usize;
        let mut due_ns = 0;
        group.look_ahead(at, most, |stamp, tracks, is_last| {
            let after_ns = stamp.since(first);
            if after_ns >= due_ns || is_last {
                self.times_ns.push(after_ns);
                self.positions.extend(tracks.iter().map(|track| track.last));
                due_ns = (after_ns / step_ns + 1) * step_ns;
            }
        });
        if self.times_ns.last().is_some_and(|last_ns| *last_ns < LEAST_NS) {
            self.times_ns.push(LEAST_NS);
            let joints = group.spec().joints.len();
            self.positions.extend_from_within(self.positions.len() - joints..);
        }
        first
    }

    /// The message of the points.
    fn written(&mut self, first: Stamp, group: &CommandGroup) -> Vec<u8> {
        let joints = &group.spec().joints;
        let mut writer = Writer::reusing(std::mem::take(&mut self.message));
        writer.header(first, "");
        writer.string_sequence(joints.iter().map(|joint| joint.name.as_str()));
        writer.u32(self.times_ns.len() as u32);
        for (time_ns, positions) in self.times_ns.iter().zip(self.positions.chunks(joints.len())) {
            writer.f64_sequence(positions);
            // No velocities, accelerations and efforts: the controller interpolates positions.
            (0..3).for_each(|_| writer.f64_sequence(&[]));
            writer.stamp(Stamp::from_nanos(*time_ns));
        }
        writer.finish()
    }
}
