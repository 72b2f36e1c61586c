//! A rotation from angular velocities: the transform of a frame that does not turn.

use super::Transform;
use super::transform::{normalised, product};
use robocache_ops::time::{Epoch, NANOS_PER_MS, NANOS_PER_S, Stamp};

/// Two messages further apart do not tell the rotation in between \[ns\]. A gyro sends 100 Hz and more.
pub(super) const MAX_GAP_NS: i64 = 50 * NANOS_PER_MS;
/// The greatest angular velocity \[rad/s\]. Gyros of robots end near 70 rad/s.
const MAX_RATE: f64 = 100.0;
/// The greatest angle between two messages \[rad\]: beyond it their mean says too little.
const MAX_ANGLE: f64 = 1.0;
/// Below this angle \[rad\] a sine equals its argument in `f64`.
const SMALL_ANGLE: f64 = 1e-9;

/// Integrates the angular velocity of a gyro.
///
/// Between two messages the velocity is taken as their mean, which is exact to the second order in the
/// time between them. Only differences of the result mean something: it drifts, as every such sum does.
///
/// Behind a gap, a message counts only when the next one confirms it. So a single wrong stamp in the
/// future makes neither a transform nor the true messages late.
#[derive(Debug)]
pub struct Gyro {
    /// `t_still_gyro` at the newest message: x, y, z, w.
    rotation: [f64; 4],
    /// The newest message of the sum.
    newest: Option<(Stamp, [f64; 3])>,
    /// A message behind a gap that none confirms so far.
    alone: Option<(Stamp, [f64; 3])>,
    epoch: Epoch,
}

/// Why a message does not count.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum BadTurn {
    /// It is not after the one before it.
    #[error(
        "angular velocity: expected a stamp after {newest}, that of the message before, found {stamp}"
    )]
    NotInOrder {
        /// The stamp of the message.
        stamp: Stamp,
        /// Stamp of the newest message.
        newest: Stamp,
    },
    /// No robot turns so fast.
    #[error("angular velocity: expected at most {MAX_RATE} rad/s, found {found:e} rad/s")]
    TooFast {
        /// The angular velocity \[rad/s\].
        found: f64,
    },
    /// The messages are too far apart for the rotation between them.
    #[error(
        "angular velocity: expected a turn of less than {MAX_ANGLE} rad since the message before, \
         found {found} rad"
    )]
    TooFar {
        /// The angle \[rad\].
        found: f64,
    },
}

/// Pose of the frame that does not turn: a stamp, and `t_gyro_still` then.
pub type Turned = (Stamp, Transform);

impl Default for Gyro {
    fn default() -> Self {
        let rotation = Transform::IDENTITY.rotation;
        Gyro { rotation, newest: None, alone: None, epoch: Epoch::default() }
    }
}

impl Gyro {
    /// Takes the angular velocity of a message in \[rad/s\] about the axes of the gyro. Returns where the
    /// frame that does not turn is: then, and first at the message before if this one confirms it.
    ///
    /// # Errors
    /// [`BadTurn`]: a sum cannot be changed afterwards. The message leaves it as it was.
    pub fn turn(
        &mut self,
        epoch: Epoch,
        stamp: Stamp,
        rate: [f64; 3],
    ) -> Result<[Option<Turned>; 2], BadTurn> {
        let found = length(rate);
        if !found.is_finite() || found > MAX_RATE {
            return Err(BadTurn::TooFast { found });
        }
        if self.epoch.is_before(epoch) {
            *self = Gyro { epoch, ..Gyro::default() };
        }
        if let Some((newest, _)) = self.newest.filter(|(newest, _)| stamp <= *newest) {
            return Err(BadTurn::NotInOrder { stamp, newest });
        }
        if let Some((newest, _)) = self.alone.filter(|(alone, _)| stamp == *alone) {
            return Err(BadTurn::NotInOrder { stamp, newest });
        }
        let follows = |from: Stamp| (1..=MAX_GAP_NS).contains(&stamp.since(from));
        let mut known = [self.newest, self.alone].into_iter().flatten();
        let Some((from, before)) = known.find(|(from, _)| follows(*from)) else {
            self.alone = Some((stamp, rate));
            return Ok([None, None]);
        };
        let half_s = stamp.since(from) as f64 / NANOS_PER_S as f64 / 2.0;
        let angles = std::array::from_fn(|i| (before[i] + rate[i]) * half_s);
        let found = length(angles);
        if found >= MAX_ANGLE {
            return Err(BadTurn::TooFar { found });
        }
        // Behind a gap the sum begins again: nothing is looked up across it.
        let begins = self.newest.is_none_or(|(newest, _)| newest != from);
        let first = begins.then(|| (from, self.still()));
        self.rotation = normalised(product(self.rotation, quaternion(angles)));
        (self.newest, self.alone) = (Some((stamp, rate)), None);
        Ok([first, Some((stamp, self.still()))])
    }

    fn still(&self) -> Transform {
        Transform { translation: [0.0; 3], rotation: self.rotation }.inverse()
    }
}

fn length([x, y, z]: [f64; 3]) -> f64 {
    ((x * x + y * y) + z * z).sqrt()
}

/// The rotation about this vector, by its length \[rad\].
fn quaternion([x, y, z]: [f64; 3]) -> [f64; 4] {
    let angle = length([x, y, z]);
    let sine = libm::sin(angle / 2.0);
    let cosine = libm::cos(angle / 2.0);
    let scale = if angle < SMALL_ANGLE { 0.5 } else { sine / angle };
    [x * scale, y * scale, z * scale, cosine]
}

#[cfg(test)]
mod tests;
