//! Rigid transforms in `f64`.
//!
//! The arithmetic is + - x / and square root in a fixed order. Sine and arc tangent come from the
//! crate `libm`, so that the bits do not depend on the C library of the platform.

/// How far the square of a quaternion's length may be from 1: the tolerance of tf2.
const MAX_SQUARE_ERROR: f64 = 1e-2;
/// Below this angle \[rad\] a sine equals its argument in `f64`.
const SMALL_ANGLE: f64 = 1e-9;

/// Takes points of one frame to another: `p' = R p + t`.
///
/// `t_base_lidar` takes points of the frame `lidar` to the frame `base`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Transform {
    /// `t` \[m\].
    pub translation: [f64; 3],
    /// `R` as a quaternion (x, y, z, w) of length 1.
    pub rotation: [f64; 4],
}

/// Why numbers are not a transform.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum BadTransform {
    /// NaN or infinity.
    #[error("expected finite numbers, found NaN or infinity")]
    NonFinite,
    /// The quaternion is no rotation.
    #[error("rotation: expected a quaternion of length 1, found length {0:.4}")]
    Length(f64),
}

impl Transform {
    /// Leaves every point where it is.
    pub const IDENTITY: Transform =
        Transform { translation: [0.0; 3], rotation: [0.0, 0.0, 0.0, 1.0] };

    /// From a translation \[m\] and a quaternion (x, y, z, w), which is normalised.
    ///
    /// # Errors
    /// [`BadTransform`] if a number is not finite, or if the square of the quaternion's length is
    /// more than 0.01 from 1.
    pub fn new(translation: [f64; 3], rotation: [f64; 4]) -> Result<Self, BadTransform> {
        if !translation.iter().chain(&rotation).all(|value| value.is_finite()) {
            return Err(BadTransform::NonFinite);
        }
        let square = dot(rotation, rotation);
        if (square - 1.0).abs() > MAX_SQUARE_ERROR {
            return Err(BadTransform::Length(square.sqrt()));
        }
        Ok(Transform { translation, rotation: normalised(rotation) })
    }

    /// From `[R | t]`, row by row; `R` must be a rotation.
    ///
    /// S. W. Shepperd, "Quaternion from rotation matrix", Journal of Guidance and Control 1(3), 1978:
    /// the greatest of the four is computed first, so that nothing cancels.
    pub fn from_matrix(m: &[[f64; 4]; 3]) -> Self {
        let trace = (m[0][0] + m[1][1]) + m[2][2];
        let diagonal = [m[0][0], m[1][1], m[2][2], trace];
        let greatest = (0..4).max_by(|a, b| diagonal[*a].total_cmp(&diagonal[*b])).unwrap_or(3);
        let difference = [m[2][1] - m[1][2], m[0][2] - m[2][0], m[1][0] - m[0][1]];
        let rotation = match greatest {
            3 => [difference[0], difference[1], difference[2], 1.0 + trace],
            i => {
                let j = (i + 1) % 3;
                let k = (i + 2) % 3;
                let mut q = [0.0; 4];
                q[i] = ((1.0 + m[i][i]) - m[j][j]) - m[k][k];
                q[j] = m[i][j] + m[j][i];
                q[k] = m[i][k] + m[k][i];
                q[3] = difference[i];
                q
            }
        };
        Transform { translation: m.map(|row| row[3]), rotation: normalised(rotation) }
    }

    /// This after `first`: if `self` is `t_a_b` and `first` is `t_b_c`, returns `t_a_c`.
    pub fn after(&self, first: &Transform) -> Transform {
        Transform {
            translation: self.apply(first.translation),
            rotation: normalised(product(self.rotation, first.rotation)),
        }
    }

    /// The way back: `t_b_a` of `t_a_b`.
    pub fn inverse(&self) -> Transform {
        let [x, y, z, w] = self.rotation;
        let back = Transform { translation: [0.0; 3], rotation: [-x, -y, -z, w] };
        let translation = back.rotate(self.translation).map(|value| -value);
        Transform { translation, ..back }
    }

    /// A direction, turned.
    pub fn rotate(&self, v: [f64; 3]) -> [f64; 3] {
        let [x, y, z, w] = self.rotation;
        let u = [x, y, z];
        let once = cross(u, v).map(|value| 2.0 * value);
        let twice = cross(u, once);
        std::array::from_fn(|i| (v[i] + w * once[i]) + twice[i])
    }

    /// A point \[m\], turned and moved.
    pub fn apply(&self, p: [f64; 3]) -> [f64; 3] {
        let turned = self.rotate(p);
        std::array::from_fn(|i| turned[i] + self.translation[i])
    }

    /// A quaternion (x, y, z, w), turned: the orientation as the other frame has it.
    pub fn turn(&self, orientation: [f64; 4]) -> [f64; 4] {
        product(self.rotation, orientation)
    }

    /// `[R | t]`, row by row.
    pub fn matrix(&self) -> [[f64; 4]; 3] {
        let [x, y, z, w] = self.rotation;
        let [tx, ty, tz] = self.translation;
        [
            [1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - z * w), 2.0 * (x * z + y * w), tx],
            [2.0 * (x * y + z * w), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - x * w), ty],
            [2.0 * (x * z - y * w), 2.0 * (y * z + x * w), 1.0 - 2.0 * (x * x + y * y), tz],
        ]
    }

    /// The transform at `weight` of the way from `a` to `b`: the translation on a straight line, the
    /// rotation at a constant rate, the shorter way.
    pub fn between(a: &Transform, b: &Transform, weight: f64) -> Transform {
        let straight = |i: usize| a.translation[i] + weight * (b.translation[i] - a.translation[i]);
        Transform {
            translation: std::array::from_fn(straight),
            rotation: slerp(a.rotation, b.rotation, weight),
        }
    }
}

/// Spherical linear interpolation of unit quaternions, the shorter way.
///
/// K. Shoemake, "Animating rotation with quaternion curves", SIGGRAPH 1985. The angle comes from the
/// lengths of sum and difference, because an arc cosine is inexact near 1 (W. Kahan, "How futile are
/// mindless assessments of roundoff", 2006, section 12).
fn slerp(a: [f64; 4], b: [f64; 4], weight: f64) -> [f64; 4] {
    let b = if dot(a, b) < 0.0 { b.map(|value| -value) } else { b };
    let sum: [f64; 4] = std::array::from_fn(|i| a[i] + b[i]);
    let difference: [f64; 4] = std::array::from_fn(|i| b[i] - a[i]);
    let angle = 2.0 * libm::atan2(dot(difference, difference).sqrt(), dot(sum, sum).sqrt());
    let (from_a, from_b) = match angle < SMALL_ANGLE {
        true => (1.0 - weight, weight),
        false => {
            let whole = libm::sin(angle);
            (libm::sin((1.0 - weight) * angle) / whole, libm::sin(weight * angle) / whole)
        }
    };
    normalised(std::array::from_fn(|i| a[i] * from_a + b[i] * from_b))
}

pub(super) fn normalised(q: [f64; 4]) -> [f64; 4] {
    let length = dot(q, q).sqrt();
    q.map(|value| value / length)
}

fn dot(a: [f64; 4], b: [f64; 4]) -> f64 {
    ((a[0] * b[0] + a[1] * b[1]) + a[2] * b[2]) + a[3] * b[3]
}

fn cross(a: [f64; 3], b: [f64; 3]) -> [f64; 3] {
    [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
}

/// The Hamilton product: first `b`, then `a`.
pub(super) fn product(a: [f64; 4], b: [f64; 4]) -> [f64; 4] {
    let ([ax, ay, az, aw], [bx, by, bz, bw]) = (a, b);
    [
        ((aw * bx + ax * bw) + ay * bz) - az * by,
        ((aw * by - ax * bz) + ay * bw) + az * bx,
        ((aw * bz + ax * by) - ay * bx) + az * bw,
        ((aw * bw - ax * bx) - ay * by) - az * bz,
    ]
}
