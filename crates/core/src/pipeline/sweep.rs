//! Motion of a sensor while it measured the points of a cloud.

use super::Pipeline;
use super::arrival::Arrival;
use super::frames::{Ask, Frames};
use super::not_taken::NotTaken;
use crate::rejected::{DropReason, Rejected};
use crate::sample::{Header, Motion};
use crate::spec::{DeskewSpec, InputSpec};
use crate::tf::Transform;
use robocache_ops::time::{NANOS_PER_MS, Stamp};
use robocache_ops::voxelize::{Knot, MAX_KNOTS};

/// Time between two knots \[ns\], unless the sweep is so long that there would be too many.
const KNOT_NS: i64 = 2 * NANOS_PER_MS;

/// The motion of a sensor while it measured a cloud. It owns what a [`Motion`] borrows.
pub(super) struct SensorMotion {
    origin: f64,
    rate: f64,
    knots: Vec<Knot>,
}

impl SensorMotion {
    /// The motion for a message of an input; `None` if it does not matter.
    pub(super) fn of(
        pipeline: &Pipeline,
        input: &InputSpec,
        header: &Header<'_>,
        stamp: Stamp,
        arrival: Arrival,
    ) -> Result<Option<Self>, NotTaken> {
        let (Some(spec), Some(frames)) = (&input.deskew, &pipeline.frames) else {
            return Ok(None);
        };
        let base_frame = &pipeline.config.base_frame;
        SensorMotion::find(frames, input, spec, base_frame, header, stamp, arrival).map(Some)
    }

    /// The motion, for a placement.
    pub(super) fn view(&self) -> Motion<'_> {
        Motion { origin: self.origin, rate: self.rate, knots: &self.knots }
    }

    /// Looks the motion up around the reference stamp `stamp`. Of all knots the first, the last and
    /// the reference decide whether the message waits.
    fn find(
        frames: &Frames,
        input: &InputSpec,
        spec: &DeskewSpec,
        base_frame: &str,
        header: &Header<'_>,
        stamp: Stamp,
        arrival: Arrival,
    ) -> Result<Self, NotTaken> {
        // If the configuration says where the sensor is on the robot, the tree need only know the robot.
        let by_tree = input.in_frame.is_some();
        let moving = if by_tree { header.frame_id } else { base_frame };
        let t_moving_sensor = match by_tree {
            true => Transform::IDENTITY,
            false => Transform::from_matrix(&input.t_base_sensor),
        };
        let stamps = Stamps::new(spec.span_ns);
        let ask = |stamp: Stamp| Ask::new(&spec.fixed_frame, moving, stamp);
        let last = stamps.count - 1;
        let needed = [stamp, stamp.offset(stamps.at(0)), stamp.offset(stamps.at(last))];
        let all = needed.map(ask);
        let transforms = frames.of_all(arrival, &all)?;
        let t_ref_fixed = transforms[0].after(&t_moving_sensor).inverse();
        let mut knots: Vec<Knot> = Vec::with_capacity(stamps.count);
        for at in 0..stamps.count {
            let stamp = stamp.offset(stamps.at(at));
            let t_fixed_moving = frames.lookup(arrival, &spec.fixed_frame, moving, stamp)?;
            let pose = t_ref_fixed.after(&t_fixed_moving.after(&t_moving_sensor));
            let knot = knot(&pose, knots.last());
            knots.push(knot);
        }
        let first = match spec.absolute {
            true => origin_of(header, spec)?,
            false => 0.0,
        };
        let [from_ns, to_ns] = spec.span_ns.map(|ns| ns as f64);
        let origin = first + from_ns / spec.unit_ns;
        let rate = last as f64 * spec.unit_ns / (to_ns - from_ns);
        Ok(SensorMotion { origin, rate, knots })
    }
}

/// The header's stamp in the unit of the times. A float64 of seconds since 1970 resolves 240 ns.
fn origin_of(header: &Header<'_>, spec: &DeskewSpec) -> Result<f64, NotTaken> {
    let stamp = header.stamp.map_err(|error| NotTaken::Dropped(error.into()))?;
    Ok(stamp.nanos() as f64 / spec.unit_ns)
}

/// The instants of knots, relative to the reference stamp.
struct Stamps {
    from_ns: i64,
    span_ns: i64,
    count: usize,
}

impl Stamps {
    fn new([from_ns, to_ns]: [i64; 2]) -> Self {
        let span_ns = to_ns.saturating_sub(from_ns);
        let count = (span_ns / KNOT_NS) as usize + 2;
        Stamps { from_ns, span_ns, count: count.clamp(2, MAX_KNOTS) }
    }

    /// Nanoseconds from the reference stamp to a knot.
    fn at(&self, knot: usize) -> i64 {
        let last = self.count as i128 - 1;
        let into = i128::from(self.span_ns) * knot as i128 / last;
        self.from_ns + into as i64
    }
}

/// A pose as a knot: the quaternion in the half-space of the one before.
fn knot(pose: &Transform, before: Option<&Knot>) -> Knot {
    let rotation = pose.rotation.map(|value| value as f32);
    let [x, y, z] = pose.translation.map(|value| value as f32);
    let dot = before.map_or(rotation[3], |before| {
        let pairs = before.rotation.iter().zip(&rotation);
        pairs.map(|(a, b)| a * b).sum::<f32>()
    });
    let sign = if dot < 0.0 { -1.0 } else { 1.0 };
    Knot { rotation: rotation.map(|value| sign * value), translation: [x, y, z, 0.0] }
}

/// The drop of a cloud whose input gave no times.
pub(super) fn without_times() -> Rejected {
    Rejected::new(DropReason::MissingField, "expected the times of points, found none")
}
