//! The motion of a rigid body: position and roll, pitch, yaw as waves.
//!
//! Rotations are `Rz(yaw) Ry(pitch) Rx(roll)`, from the body's frame to the fixed one. The formulas
//! of rates and quaternions for that order are in Diebel, "Representing Attitude: Euler Angles,
//! Unit Quaternions, and Rotation Vectors", 2006.

use super::wave::{Bound, Number, Wave};
use robocache_ops::time::Stamp;
use std::sync::Arc;

/// Place and orientation of the body.
#[derive(Clone, Debug)]
pub(super) struct Motion {
    pub(super) position: [Wave; 3],
    /// Roll, pitch, yaw.
    pub(super) angles: [Wave; 3],
}

/// Everything that a sensor on the body can measure at one instant, or bounds of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct BodyState<T> {
    pub(super) position: [T; 3],
    velocity: [T; 3],
    acceleration: [T; 3],
    sin: [T; 3],
    cos: [T; 3],
    angle_rates: [T; 3],
}

impl Motion {
    /// Lets all of it follow a tempo.
    pub(super) fn follow(&mut self, tempo: &Arc<Wave>) {
        self.position.iter_mut().chain(&mut self.angles).for_each(|wave| wave.follow(tempo));
    }

    pub(super) fn state(&self, t: Stamp) -> BodyState<f64> {
        let position = self.position.each_ref().map(|wave| wave.jet(t));
        let angles = self.angles.each_ref().map(|wave| wave.jet(t));
        BodyState {
            position: position.map(|jet| jet[0]),
            velocity: position.map(|jet| jet[1]),
            acceleration: position.map(|jet| jet[2]),
            sin: angles.map(|jet| libm::sin(jet[0])),
            cos: angles.map(|jet| libm::cos(jet[0])),
            angle_rates: angles.map(|jet| jet[1]),
        }
    }

    pub(super) fn bounds(&self) -> BodyState<Bound> {
        let angles = self.angles.each_ref().map(|wave| wave.bounds(0));
        BodyState {
            position: self.position.each_ref().map(|wave| wave.bounds(0)),
            velocity: self.position.each_ref().map(|wave| wave.bounds(1)),
            acceleration: self.position.each_ref().map(|wave| wave.bounds(2)),
            sin: angles.map(Bound::of_sine),
            cos: angles.map(Bound::of_cosine),
            angle_rates: self.angles.each_ref().map(|wave| wave.bounds(1)),
        }
    }

    /// x, y, z, w: body to fixed frame.
    pub(super) fn orientation(&self, t: Stamp) -> [f64; 4] {
        let half = self.angles.each_ref().map(|wave| 0.5 * wave.value(t));
        let [(sr, cr), (sp, cp), (sy, cy)] = half.map(libm::sincos);
        [
            sr * cp * cy - cr * sp * sy,
            cr * sp * cy + sr * cp * sy,
            cr * cp * sy - sr * sp * cy,
            cr * cp * cy + sr * sp * sy,
        ]
    }
}

impl<T: Number> BodyState<T> {
    /// Rows of the rotation matrix, body to fixed frame.
    fn rotation(&self) -> [[T; 3]; 3] {
        let ([sr, sp, sy], [cr, cp, cy]) = (self.sin, self.cos);
        [
            [cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr],
            [sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr],
            [-sp, cp * sr, cp * cr],
        ]
    }

    fn to_body(self, v: [T; 3]) -> [T; 3] {
        let r = self.rotation();
        [0, 1, 2].map(|i| r[0][i] * v[0] + r[1][i] * v[1] + r[2][i] * v[2])
    }

    /// Angular velocity in the body's frame \[rad/s\].
    pub(super) fn rates_body(self) -> [T; 3] {
        let ([sr, sp, _], [cr, cp, _]) = (self.sin, self.cos);
        let [roll, pitch, yaw] = self.angle_rates;
        [roll - yaw * sp, pitch * cr + yaw * cp * sr, yaw * cp * cr - pitch * sr]
    }

    /// Angular velocity in the fixed frame \[rad/s\]. It is not the rotation times `rates_body`,
    /// because the bounds of that product would be far too wide.
    pub(super) fn rates_fixed(self) -> [T; 3] {
        let ([_, sp, sy], [_, cp, cy]) = (self.sin, self.cos);
        let [roll, pitch, yaw] = self.angle_rates;
        [roll * cp * cy - pitch * sy, roll * cp * sy + pitch * cy, yaw - roll * sp]
    }

    /// Velocity in the fixed frame \[m/s\].
    pub(super) fn velocity_fixed(self) -> [T; 3] {
        self.velocity
    }

    /// Velocity in the body's frame \[m/s\].
    pub(super) fn velocity_body(self) -> [T; 3] {
        self.to_body(self.velocity)
    }

    /// Acceleration that an accelerometer feels \[m/s^2\]: at rest, `gravity` upwards (REP 145).
    pub(super) fn specific_force(self, gravity: T) -> [T; 3] {
        let [x, y, z] = self.acceleration;
        self.to_body([x, y, z + gravity])
    }
}

impl BodyState<Bound> {
    /// Greatest magnitude of the angular acceleration \[rad/s^2\].
    pub(super) fn angular_acceleration(self) -> f64 {
        self.rates_body().map(|rate| rate.0[1] * rate.0[1]).iter().sum::<f64>().sqrt()
    }
}
