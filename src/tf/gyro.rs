//! A rotation from angular velocities: the transform of a frame that does not turn.

use super::Transform;
use super::transform::{normalised, product};
use crate::time::{Epoch, NANOS_PER_MS, NANOS_PER_S, Stamp};

/// Two messages further apart do not tell the rotation in between \[ns\]. A gyro sends 100 Hz and more.
pub const MAX_GAP_NS: i64 = 50 * NANOS_PER_MS;
/// Below this angle \[rad\] a sine equals its argument in `f64`.
const SMALL_ANGLE: f64 = 1e-9;

/// Integrates the angular velocity of a gyro.
///
/// Between two messages the velocity is taken as their mean, which is exact to the second order in the
/// time between them. Only differences of the result mean something: it drifts, as every such sum does.
#[derive(Debug)]
pub struct Gyro {
    /// `t_still_gyro` at the newest message: x, y, z, w.
    rotation: [f64; 4],
    newest: Option<(Stamp, [f64; 3])>,
    epoch: Epoch,
}

/// A message that is not after the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "angular velocity: expected a stamp after {newest}, that of the message before, found {stamp}"
)]
pub struct NotInOrder {
    /// The stamp of the message.
    pub stamp: Stamp,
    /// That of the newest one.
    pub newest: Stamp,
}

impl Default for Gyro {
    fn default() -> Self {
        let rotation = Transform::IDENTITY.rotation;
        Gyro { rotation, newest: None, epoch: Epoch::default() }
    }
}

impl Gyro {
    /// Takes the angular velocity of a message in \[rad/s\], finite, about the axes of the gyro. Returns the
    /// frame that does not turn, as the gyro has it: `t_gyro_still`.
    ///
    /// # Errors
    /// [`NotInOrder`]: a sum cannot be changed afterwards.
    pub fn turn(
        &mut self,
        epoch: Epoch,
        stamp: Stamp,
        rate: [f64; 3],
    ) -> Result<Transform, NotInOrder> {
        if self.epoch.is_before(epoch) {
            *self = Gyro { epoch, ..Gyro::default() };
        }
        if let Some((newest, before)) = self.newest {
            let since_ns = stamp.since(newest);
            if since_ns <= 0 {
                return Err(NotInOrder { stamp, newest });
            }
            // Behind a gap the sum begins again: nothing is looked up across it.
            if since_ns <= MAX_GAP_NS {
                let half_s = since_ns as f64 / NANOS_PER_S as f64 / 2.0;
                let angles = std::array::from_fn(|i| (before[i] + rate[i]) * half_s);
                self.rotation = normalised(product(self.rotation, quaternion(angles)));
            }
        }
        self.newest = Some((stamp, rate));
        let still = Transform { translation: [0.0; 3], rotation: self.rotation };
        Ok(still.inverse())
    }
}

/// The rotation about this vector, by its length \[rad\].
fn quaternion([x, y, z]: [f64; 3]) -> [f64; 4] {
    let angle = ((x * x + y * y) + z * z).sqrt();
    let (sine, cosine) = (libm::sin(angle / 2.0), libm::cos(angle / 2.0));
    let scale = if angle < SMALL_ANGLE { 0.5 } else { sine / angle };
    [x * scale, y * scale, z * scale, cosine]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: i64) -> Stamp {
        Stamp::from_nanos(ms * NANOS_PER_MS)
    }

    /// The matrix of the rotation from the start, integrated in tiny steps of a product of matrices.
    fn reference(rate: impl Fn(f64) -> [f64; 3], seconds: f64) -> [[f64; 3]; 3] {
        let steps = 400_000;
        let mut m = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];
        let h = seconds / f64::from(steps);
        for step in 0..steps {
            let [x, y, z] = rate((f64::from(step) + 0.5) * h).map(|value| value * h);
            // exp of a skew matrix, to the second order.
            let (a, b, c) = (x * x, y * y, z * z);
            let e = [
                [1.0 - 0.5 * (b + c), x * y / 2.0 - z, x * z / 2.0 + y],
                [x * y / 2.0 + z, 1.0 - 0.5 * (a + c), y * z / 2.0 - x],
                [x * z / 2.0 - y, y * z / 2.0 + x, 1.0 - 0.5 * (a + b)],
            ];
            let cell = |i: usize, j: usize| (0..3).map(|k| m[i][k] * e[k][j]).sum::<f64>();
            m = std::array::from_fn(|i| std::array::from_fn(|j| cell(i, j)));
        }
        m
    }

    #[test]
    fn the_sum_of_a_gyro_is_the_rotation_of_its_axes() {
        // A robot that pitches and turns: its axes do not stay where they are.
        let rate = |t: f64| [0.4 * (9.0 * t).sin(), -0.9 * (4.0 * t).cos(), 1.5 + 2.0 * t];
        let mut gyro = Gyro::default();
        let mut found = Transform::IDENTITY;
        for step in 0..=100 {
            let t = f64::from(step) * 0.005;
            found = gyro.turn(Epoch::default(), ms(1000 + i64::from(step) * 5), rate(t)).unwrap();
        }
        let (got, expected) = (found.inverse().matrix(), reference(rate, 0.5));
        let angle = (0..3)
            .flat_map(|i| (0..3).map(move |j| (i, j)))
            .map(|(i, j)| (got[i][j] - expected[i][j]).abs())
            .fold(0.0, f64::max);
        assert!(angle < 2e-5, "{angle}");
        assert!((got[0][0] - 1.0).abs() > 0.2, "it has turned");
    }

    #[test]
    fn a_constant_rate_is_exact() {
        let mut gyro = Gyro::default();
        let rate = [0.6, -0.8, 0.0].map(|axis| axis * 3.0);
        let turns: Vec<Transform> = [0, 7, 20, 51, 100]
            .map(|at| gyro.turn(Epoch::default(), ms(at), rate).unwrap())
            .to_vec();
        let half: f64 = 0.1 * 3.0 / 2.0;
        let [x, y, z, w] = turns[4].inverse().rotation;
        for (got, expected) in
            [x, y, z, w].into_iter().zip([0.6 * half.sin(), -0.8 * half.sin(), 0.0, half.cos()])
        {
            assert!((got - expected).abs() < 1e-14, "{got} {expected}");
        }
    }

    #[test]
    fn messages_must_be_in_order_and_an_epoch_begins_again() {
        let mut gyro = Gyro::default();
        let still = Epoch::default();
        gyro.turn(still, ms(100), [1.0, 0.0, 0.0]).unwrap();
        for at in [100, 99] {
            let error = NotInOrder { stamp: ms(at), newest: ms(100) };
            assert_eq!(gyro.turn(still, ms(at), [1.0, 0.0, 0.0]), Err(error));
        }
        let turned = gyro.turn(still, ms(110), [1.0, 0.0, 0.0]).unwrap();
        assert_ne!(turned.rotation, Transform::IDENTITY.rotation);
        let later = still.next(Some(ms(110)));
        let begun = gyro.turn(later, ms(5), [1.0, 0.0, 0.0]).unwrap();
        assert_eq!(begun.rotation[3], 1.0);
    }
}
