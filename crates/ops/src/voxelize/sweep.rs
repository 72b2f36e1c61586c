//! Clouds whose points were measured one after the other, while the sensor moved.

use super::spec::FieldAt;

/// Most poses of a sweep.
pub const MAX_KNOTS: usize = 256;

/// When each point of a cloud was measured, and where the sensor was then.
///
/// The poses are at equal distances in time. A point at time `t` is between the knots around
/// `u = (t - origin) * rate`, computed in `f64`.
#[derive(Clone, Copy, Debug)]
pub struct Sweep<'a> {
    /// The field with the time of a point.
    pub time: FieldAt,
    /// Time of the first knot, as the field has it.
    pub origin: f64,
    /// Knots per unit of the field.
    pub rate: f64,
    /// Poses of the sensor, each relative to that at the reference stamp; 2 to [`MAX_KNOTS`].
    pub knots: &'a [Knot],
}

/// A pose of the sensor: takes a point of the cloud to where the sensor would have seen it at the
/// reference stamp.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub struct Knot {
    /// A quaternion (x, y, z, w) of length 1, in the half-space of the knot before.
    pub rotation: [f32; 4],
    /// Translation \[m\], and 0.
    pub translation: [f32; 4],
}

impl Sweep<'_> {
    /// The position of the last knot.
    pub fn last(&self) -> f64 {
        self.knots.len().saturating_sub(1) as f64
    }
}
