//! A model of two controllers of ros2_control: what they refuse, and where they go. It is a model, from their
//! documentation and the errors that they log. No controller runs here.
//!
//! `joint_trajectory_controller` is configured as docs/actions.md says: all joints in each message, no velocity at the end.
//! It refuses a trajectory whose points are all past, and goes on with the one before. `forward_command_controller`
//! refuses another number of values, and goes on with those before. It looks at no value: here one that is not finite is
//! refused as well, because it would go to the robot.

use super::{f64s, names};
use crate::cdr::{CdrError, Reader};
use robocache_ops::time::{NANOS_PER_S, Stamp};

/// Reason for which a controller refuses a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::command) enum Refused {
    Malformed,
    Joints,
    NoPoints,
    AllPast,
    Times,
    EndVelocity,
    Count,
    NotFinite,
}

impl From<CdrError> for Refused {
    fn from(_: CdrError) -> Self {
        Refused::Malformed
    }
}

/// A point: its instant, and the positions in the order of the controller's joints.
type Point = (Stamp, Vec<f64>);

/// The controller of trajectories, and the trajectory that it follows.
#[derive(Clone, Debug)]
pub(in crate::command) struct JointTrajectoryController {
    joints: Vec<String>,
    points: Vec<Point>,
}

impl JointTrajectoryController {
    pub(in crate::command) fn new(joints: &[&str]) -> Self {
        let joints = joints.iter().map(|joint| (*joint).to_owned()).collect();
        JointTrajectoryController { joints, points: Vec::new() }
    }

    /// Takes a message that arrives now.
    pub(in crate::command) fn take(&mut self, message: &[u8], now: Stamp) -> Result<(), Refused> {
        self.points = self.read(message, now)?;
        Ok(())
    }

    fn read(&self, message: &[u8], now: Stamp) -> Result<Vec<Point>, Refused> {
        let mut reader = Reader::new(message)?;
        let stamp = time_ns(&mut reader)?;
        reader.string_bytes()?;
        let given = names(&mut reader);
        let place = |joint: &String| given.iter().position(|given| given == joint);
        let places: Option<Vec<usize>> = self.joints.iter().map(place).collect();
        let places = places.filter(|_| given.len() == self.joints.len()).ok_or(Refused::Joints)?;
        // A stamp of zero means: from now on.
        let start = if stamp == 0 { now } else { Stamp::from_nanos(stamp) };
        let mut points = Vec::new();
        let mut before = None;
        let mut end_velocities = Vec::new();
        for _ in 0..reader.u32()? {
            let all = [(); 4].map(|()| f64s(&mut reader));
            let after_ns = time_ns(&mut reader)?;
            let [positions, velocities, accelerations, efforts] = all;
            let is_count = |field: &Vec<f64>| field.is_empty() || field.len() == given.len();
            let others = [&velocities, &accelerations, &efforts];
            if positions.len() != given.len() || !others.into_iter().all(is_count) {
                return Err(Refused::Count);
            }
            if !positions.iter().chain(&velocities).all(|value| value.is_finite()) {
                return Err(Refused::NotFinite);
            }
            if before.is_some_and(|before| after_ns <= before) || after_ns < 0 {
                return Err(Refused::Times);
            }
            before = Some(after_ns);
            end_velocities = velocities;
            let positions = places.iter().map(|place| positions[*place]).collect();
            points.push((start.offset(after_ns), positions));
        }
        let (end, _) = points.last().ok_or(Refused::NoPoints)?;
        if stamp != 0 && *end < now {
            return Err(Refused::AllPast);
        }
        if end_velocities.iter().any(|velocity| *velocity != 0.0) {
            return Err(Refused::EndVelocity);
        }
        match reader.left() {
            0 => Ok(points),
            _ => Err(Refused::Malformed),
        }
    }

    /// Positions that it wants for the joints at an instant, on lines between points. None before its first trajectory.
    pub(in crate::command) fn desired(&self, at: Stamp) -> Option<Vec<f64>> {
        let after = self.points.partition_point(|(instant, _)| *instant <= at);
        let to = self.points.get(after);
        let from = after.checked_sub(1).map(|at| &self.points[at]);
        let Some((until, next)) = to else { return from.map(|(_, positions)| positions.clone()) };
        let Some((since, here)) = from else { return Some(next.clone()) };
        let along = at.since(*since) as f64 / until.since(*since) as f64;
        Some(here.iter().zip(next).map(|(here, next)| here + (next - here) * along).collect())
    }
}

/// Commands that `forward_command_controller` of so many joints makes of a message.
pub(in crate::command) fn forwarded(joints: usize, message: &[u8]) -> Result<Vec<f64>, Refused> {
    let mut reader = Reader::new(message)?;
    for _ in 0..reader.u32()? {
        reader.string_bytes()?;
        reader.u32()?;
        reader.u32()?;
    }
    reader.u32()?;
    let given = reader.f64_sequence()?;
    let values: Vec<f64> = (0..given.len()).filter_map(|at| given.get(at)).collect();
    match values.len() == joints {
        false => Err(Refused::Count),
        true if !values.iter().all(|value| value.is_finite()) => Err(Refused::NotFinite),
        true => Ok(values),
    }
}

/// A time \[ns\].
fn time_ns(reader: &mut Reader<'_>) -> Result<i64, Refused> {
    let sec = i64::from(reader.i32()?);
    let nanosec = i64::from(reader.u32()?);
    Ok(sec * NANOS_PER_S + nanosec)
}

mod tests {
    use super::*;
    use crate::cdr::Writer;
    use robocache_ops::time::NANOS_PER_MS;

    const NOW: Stamp = Stamp::from_nanos(5 * NANOS_PER_S);

    /// A trajectory of the joints, each point with these positions and velocities.
    fn trajectory(start: Stamp, joints: &[&str], times_ms: &[i64], point: [&[f64]; 2]) -> Vec<u8> {
        let mut writer = Writer::new();
        writer.header(start, "");
        writer.string_sequence(joints.iter().copied());
        writer.u32(times_ms.len() as u32);
        for ms in times_ms {
            point.iter().for_each(|values| writer.f64_sequence(values));
            (0..2).for_each(|_| writer.f64_sequence(&[]));
            writer.stamp(Stamp::from_nanos(ms * NANOS_PER_MS));
        }
        writer.finish()
    }

    #[test]
    fn it_refuses_what_the_controller_does() {
        let ab: &[&str] = &["a", "b"];
        let at = ([1.0, 2.0], [0.0, 0.0]);
        let good = [&at.0[..], &at.1[..]];
        let take = |message: &[u8]| JointTrajectoryController::new(ab).take(message, NOW);
        let times = &[0, 20, 40][..];
        let past = NOW.offset(-50 * NANOS_PER_MS);
        let whole = trajectory(NOW, ab, times, good);
        let cases = [
            (trajectory(NOW, ab, times, good), Ok(())),
            (trajectory(NOW, &["b", "a"], times, good), Ok(())),
            (trajectory(Stamp::ZERO, ab, &[4], good), Ok(())),
            (trajectory(NOW.offset(-30 * NANOS_PER_MS), ab, times, good), Ok(())),
            (trajectory(past, ab, times, good), Err(Refused::AllPast)),
            (trajectory(NOW, &["a", "c"], times, good), Err(Refused::Joints)),
            (trajectory(NOW, &["a"], times, [&[1.0], &[]]), Err(Refused::Joints)),
            (trajectory(NOW, &["a", "b", "c"], times, good), Err(Refused::Joints)),
            (trajectory(NOW, ab, &[], good), Err(Refused::NoPoints)),
            (trajectory(NOW, ab, &[0, 20, 20], good), Err(Refused::Times)),
            (trajectory(NOW, ab, &[20, 0], good), Err(Refused::Times)),
            (trajectory(NOW, ab, times, [&[1.0], &[]]), Err(Refused::Count)),
            (trajectory(NOW, ab, times, [&[], &at.1]), Err(Refused::Count)),
            (trajectory(NOW, ab, times, [&at.0, &[0.0]]), Err(Refused::Count)),
            (trajectory(NOW, ab, times, [&[1.0, f64::NAN], &[]]), Err(Refused::NotFinite)),
            (trajectory(NOW, ab, times, [&at.0, &[0.0, 0.1]]), Err(Refused::EndVelocity)),
            (whole[..whole.len() - 3].to_vec(), Err(Refused::Malformed)),
        ];
        for (number, (message, expected)) in cases.iter().enumerate() {
            assert_eq!(take(message), *expected, "case {number}");
        }
    }

    #[test]
    fn a_trajectory_that_is_refused_leaves_the_one_before_in_force() {
        let mut controller = JointTrajectoryController::new(&["a"]);
        assert_eq!(controller.desired(NOW), None);
        let line = {
            let mut writer = Writer::new();
            writer.header(NOW, "");
            writer.string_sequence(["a"].into_iter());
            writer.u32(2);
            for (position, ms) in [(1.0, 0), (2.0, 100)] {
                writer.f64_sequence(&[position]);
                (0..3).for_each(|_| writer.f64_sequence(&[]));
                writer.stamp(Stamp::from_nanos(ms * NANOS_PER_MS));
            }
            writer.finish()
        };
        controller.take(&line, NOW).unwrap();
        let later = NOW.offset(200 * NANOS_PER_MS);
        assert_eq!(controller.take(&line, later), Err(Refused::AllPast));
        let at = |ms| controller.desired(NOW.offset(ms * NANOS_PER_MS)).unwrap();
        assert_eq!((at(-10), at(50), at(300)), (vec![1.0], vec![1.5], vec![2.0]));
    }

    #[test]
    fn a_forward_controller_takes_a_value_per_joint() {
        let message = |values: &[f64]| {
            let mut writer = Writer::new();
            writer.u32(0);
            writer.u32(0);
            writer.f64_sequence(values);
            writer.finish()
        };
        assert_eq!(forwarded(2, &message(&[1.0, 2.0])), Ok(vec![1.0, 2.0]));
        assert_eq!(forwarded(2, &message(&[1.0])), Err(Refused::Count));
        assert_eq!(forwarded(2, &message(&[1.0, 2.0, 3.0])), Err(Refused::Count));
        assert_eq!(forwarded(2, &message(&[1.0, f64::INFINITY])), Err(Refused::NotFinite));
        assert_eq!(forwarded(2, &message(&[1.0, 2.0])[..8]), Err(Refused::Malformed));
    }
}
