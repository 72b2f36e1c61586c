//! `trajectory_msgs/msg/JointTrajectory`: a plan.
//!
//! Each point is a row at the plan's start plus `time_from_start`. Joints are found by name, as those
//! of a `JointState`. A message without points means "stop": nothing lies after its start.

use super::joints::{JointOrders, Places, check_values};
use super::{Content, Input, MessageType, Sink, header};
use crate::cdr::{F64Sequence, Reader};
use crate::rejected::{DropReason, Rejected};
use crate::sample::{Trajectory, TrajectoryPart};
use crate::spec::Selection;
use robocache_ops::time::NANOS_PER_S;

/// The fields of a point, as the message has them.
pub const POINT_FIELDS: [&str; 4] = ["positions", "velocities", "accelerations", "effort"];

/// See [the message](self).
pub(super) const TYPE: MessageType = MessageType {
    name: "trajectory_msgs/msg/JointTrajectory",
    content: Content::Trajectory,
    open: |selection| match selection {
        Selection::Trajectory { fields, groups, max_points } => {
            let place = |name: &String| POINT_FIELDS.iter().position(|field| field == name);
            let fields = fields.iter().map(place).collect::<Option<Vec<_>>>()?;
            Some(Box::new(JointTrajectoryInput {
                fields,
                groups: groups.clone(),
                max_points: *max_points,
                orders: JointOrders::default(),
                times_ns: Vec::new(),
                parts: Vec::new(),
            }))
        }
        _ => None,
    },
};

struct JointTrajectoryInput {
    /// Positions in [`POINT_FIELDS`].
    fields: Vec<usize>,
    groups: Vec<Vec<String>>,
    max_points: usize,
    orders: JointOrders,
    /// The plan at hand.
    times_ns: Vec<i64>,
    parts: Vec<TrajectoryPart>,
}

impl Input for JointTrajectoryInput {
    fn read(&mut self, message: &[u8], sink: &mut dyn Sink) -> Result<(), Rejected> {
        let mut reader = Reader::new(message)?;
        let header = header(&mut reader)?;
        // The number of points is behind the names: a stop may name no joint.
        let mut ahead = reader.clone();
        let order = self.orders.read(&mut ahead, &self.groups)?;
        let points = ahead.u32()? as usize;
        let filled = |places: &Places| matches!(places, Places::At(_));
        let concerned: Vec<bool> = match points {
            0 if order.names.is_empty() => vec![true; self.groups.len()],
            // A group must not go on with a plan that was stopped for one of its joints.
            0 => order.places.iter().map(|places| *places != Places::Absent).collect(),
            _ => order.places.iter().map(filled).collect(),
        };
        if !concerned.contains(&true) {
            // A plan for other joints is none of ours, whatever its header says.
            return Err(order.missing(&self.groups));
        }
        let Some(sink) = sink.admit(&header) else { return Ok(()) };
        if points > self.max_points {
            let detail = format!("points: expected at most {}, found {points}", self.max_points);
            return Err(Rejected::new(DropReason::TooLarge, detail));
        }
        self.times_ns.clear();
        self.parts.clear();
        let parts = concerned.iter().enumerate().filter(|(_, concerned)| **concerned);
        self.parts.extend(parts.map(|(part, _)| TrajectoryPart { part, values: Vec::new() }));
        for point in 0..points {
            let values = read_values(&mut ahead)?;
            for field in &self.fields {
                let name = || format!("points[{point}].{}", POINT_FIELDS[*field]);
                check_values(values[*field], order.names.len(), name)?;
            }
            self.times_ns.push(time_from_start(&mut ahead, point, self.times_ns.last())?);
            for TrajectoryPart { part, values: row } in &mut self.parts {
                let Places::At(places) = &order.places[*part] else { continue };
                for field in &self.fields {
                    // The lengths have been checked: every place has a value.
                    let value = |at: &usize| values[*field].get(*at).unwrap_or(f64::NAN);
                    row.extend(places.iter().map(value));
                }
            }
        }
        if points > 0 {
            for (part, places) in order.places.iter().enumerate() {
                if let Places::Incomplete(lacking) = places {
                    sink.incomplete(part, lacking);
                }
            }
        }
        sink.trajectory(&Trajectory { times_ns: &self.times_ns, parts: &self.parts });
        Ok(())
    }
}

fn read_values<'a>(reader: &mut Reader<'a>) -> Result<[F64Sequence<'a>; 4], Rejected> {
    Ok([
        reader.f64_sequence()?,
        reader.f64_sequence()?,
        reader.f64_sequence()?,
        reader.f64_sequence()?,
    ])
}

/// Reads when a point is, after the plan's start and after the point `before` it \[ns\].
fn time_from_start(
    reader: &mut Reader<'_>,
    point: usize,
    before: Option<&i64>,
) -> Result<i64, Rejected> {
    let malformed = |expected: &str, found: String| {
        let detail = format!("points[{point}].time_from_start: expected {expected}, found {found}");
        Rejected::new(DropReason::Malformed, detail)
    };
    let sec = reader.i32()?;
    let nanosec = reader.u32()?;
    if i64::from(nanosec) >= NANOS_PER_S {
        return Err(malformed("a nanosec under 1000000000", nanosec.to_string()));
    }
    let time_ns = i64::from(sec) * NANOS_PER_S + i64::from(nanosec);
    if time_ns < 0 {
        return Err(malformed("a time after the start", format!("{time_ns} ns")));
    }
    match before {
        Some(before) if time_ns <= *before => {
            Err(malformed("a time after that of the point before", format!("{time_ns} ns")))
        }
        _ => Ok(time_ns),
    }
}
