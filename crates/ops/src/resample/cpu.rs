//! Interpolation between two rows, lane by lane.
//!
//! The arithmetic is + - x / and rounding in `f32`, in a fixed order and without fused
//! multiply-add, so that every backend computes the same bits.

use std::f32::consts::{PI, TAU};
use std::ops::Range;

use super::Lane;

/// How the lanes of a row are interpolated, as runs of the same kind.
#[derive(Clone, Debug)]
pub struct Interpolator {
    runs: Vec<(Lane, Range<usize>)>,
}

impl Interpolator {
    /// An interpolator for rows with these lanes.
    pub fn new(lanes: &[Lane]) -> Self {
        let mut runs: Vec<(Lane, Range<usize>)> = Vec::new();
        for (i, lane) in lanes.iter().enumerate() {
            match runs.last_mut() {
                Some((kind, run)) if kind == lane => run.end = i + 1,
                _ => runs.push((*lane, i..i + 1)),
            }
        }
        Interpolator { runs }
    }

    /// Writes the row at `weight` of the way from `a` to `b` into `out`; all of the same length.
    pub fn between(&self, a: &[f32], b: &[f32], weight: f32, out: &mut [f32]) {
        for (lane, run) in &self.runs {
            let a = &a[run.clone()];
            let b = &b[run.clone()];
            let out = &mut out[run.clone()];
            match lane {
                Lane::Linear => zip(a, b, out, |a, b| a + weight * (b - a)),
                Lane::Angular => zip(a, b, out, |a, b| angular(a, b, weight)),
                Lane::Quaternion => {
                    let quaternions = a.as_chunks::<4>().0.iter().zip(b.as_chunks::<4>().0);
                    for ((a, b), out) in quaternions.zip(out.as_chunks_mut::<4>().0) {
                        *out = slerp(a, b, weight);
                    }
                }
                Lane::Held => out.copy_from_slice(a),
            }
        }
    }
}

#[inline(always)]
fn zip(a: &[f32], b: &[f32], out: &mut [f32], f: impl Fn(f32, f32) -> f32) {
    for ((a, b), out) in a.iter().zip(b).zip(out) {
        *out = f(*a, *b);
    }
}

/// Interpolates an angle \[rad\] along the shorter arc. If both angles are in [-pi, pi], so is the
/// result. If a joint counts its turns, its angle goes on from there.
pub fn angular(a: f32, b: f32, weight: f32) -> f32 {
    let difference = b - a;
    let turns = (difference / TAU).round_ties_even();
    let angle = a + weight * (difference - turns * TAU);
    if a.abs() <= PI && b.abs() <= PI {
        if angle > PI {
            return angle - TAU;
        }
        if angle < -PI {
            return angle + TAU;
        }
    }
    angle
}

/// Number of terms of the slerp polynomial. Eberly's eight terms are 2e-5 off at a right angle.
/// Fourteen terms are 1.5e-7 off, as close as `f32` gets.
const TERMS: usize = 14;

/// Scales the last term so that the error of the truncated series is spread evenly over all
/// angles (Eberly's 1 + mu, found for fourteen terms by minimising the greatest error).
const ONE_PLUS_MU: f64 = 1.906_601_358_752_563_6;

/// Eberly's u: `1 / (i (2i + 1))` for term i = 1.., the last one scaled.
const U: [f32; TERMS] = coefficients(false);
/// Eberly's v: `i / (2i + 1)`, likewise.
const V: [f32; TERMS] = coefficients(true);

const fn coefficients(v: bool) -> [f32; TERMS] {
    let mut out = [0.0; TERMS];
    let mut term = 1;
    while term <= TERMS {
        let i = term as f64;
        let scale = if term == TERMS { ONE_PLUS_MU } else { 1.0 };
        let numerator = if v { i } else { 1.0 / i };
        out[term - 1] = (scale * numerator / (2.0 * i + 1.0)) as f32;
        term += 1;
    }
    out
}

/// Spherical linear interpolation of unit quaternions (x, y, z, w) along the shorter arc.
///
/// D. Eberly, "A Fast and Accurate Algorithm for Computing SLERP", Journal of Graphics, GPU, and
/// Game Tools 15(3), 2011: `sin(t*theta) / sin(theta)` is a polynomial in `cos(theta) - 1`, so that
/// no sine and no division is needed.
pub fn slerp(a: &[f32; 4], b: &[f32; 4], weight: f32) -> [f32; 4] {
    let dot = ((a[0] * b[0] + a[1] * b[1]) + a[2] * b[2]) + a[3] * b[3];
    let (cosine, sign) = if dot < 0.0 { (-dot, -1.0) } else { (dot, 1.0) };
    let from_a = sine_ratio(1.0 - weight, cosine - 1.0);
    let from_b = sine_ratio(weight, cosine - 1.0) * sign;
    std::array::from_fn(|i| a[i] * from_a + b[i] * from_b)
}

/// `sin(t*theta) / sin(theta)` for `cosine_less_one = cos(theta) - 1`.
fn sine_ratio(t: f32, cosine_less_one: f32) -> f32 {
    let square = t * t;
    let mut sum = 1.0;
    for (u, v) in U.iter().zip(&V).rev() {
        sum = 1.0 + ((u * square - v) * cosine_less_one) * sum;
    }
    t * sum
}

#[cfg(test)]
mod tests;
