//! Moves the points of a sweep to the reference stamp, in columns.
//!
//! Per point, after it was loaded:
//!
//! 1. *Time*, in `f64`: `u = (t - origin) * rate`. If `u` is not within the knots (or NaN), the point
//!    is dropped as `points_out_of_range`, before any other rule.
//! 2. *Interval*: `i = min(floor(u), knots - 2)` and `w = f32(u - i)`.
//! 3. *Pose*, in `f32`: `q = a.q + w*(b.q - a.q)` and `t = a.t + w*(b.t - a.t)` for the knots `a` and
//!    `b` at `i` and `i + 1`; `s = 2 / (((q.x*q.x + q.y*q.y) + q.z*q.z) + q.w*q.w)`, so `q` need not
//!    be normalised.
//! 4. *Move*, in the numbers of the coordinates: with `c = q.xyz x p` and `d = q.xyz x c`,
//!    `p' = (p + s*(q.w*c + d)) + t`.

use std::ops::{Add, Mul, Sub};

use pulp::{Arch, Simd, WithSimd};

use super::block::{BLOCK, Number, load_column};
use crate::voxelize::spec::PointsView;
use crate::voxelize::sweep::{Knot, Sweep};

/// Added to a small `f64` that is whole, its low bits are the number.
const WHOLE: f64 = 4_503_599_627_370_496.0; // 2^52

/// The times of a block of points.
pub(super) struct Times {
    /// Of the message; then the position among the knots.
    times: Vec<f64>,
    /// The knot before each point.
    intervals: Vec<u32>,
    weights: Vec<f32>,
}

impl Times {
    pub(super) fn new() -> Self {
        let times = vec![0.0; BLOCK];
        let intervals = vec![0; BLOCK];
        Times { times, intervals, weights: vec![0.0; BLOCK] }
    }

    /// Moves the points in `bytes`, whose coordinates have been loaded. Those outside of the sweep
    /// become NaN. Returns how many these are.
    pub(super) fn deskew<T: Number + Arithmetic>(
        &mut self,
        sweep: &Sweep<'_>,
        view: &PointsView<'_>,
        bytes: &[u8],
        [x, y, z]: [&mut [T]; 3],
    ) -> u64 {
        let len = x.len();
        let Times { times, intervals, weights } = self;
        let times = &mut times[..len];
        let intervals = &mut intervals[..len];
        let weights = &mut weights[..len];
        load_column(&sweep.time, view.big_endian, bytes, view.point_step, times);
        let points = [x, y, z];
        u64::from(Arch::new().dispatch(Move { sweep, times, intervals, weights, points }))
    }
}

/// The rules for the points of a block. A closure would not do: unless the optimiser inlines it, it is
/// compiled for the oldest processor.
struct Move<'a, T> {
    sweep: &'a Sweep<'a>,
    times: &'a [f64],
    intervals: &'a mut [u32],
    weights: &'a mut [f32],
    points: [&'a mut [T]; 3],
}

impl<T: Number + Arithmetic> WithSimd for Move<'_, T> {
    /// Points outside of the sweep.
    type Output = u32;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> u32 {
        let Move { sweep, times, intervals, weights, points: [x, y, z] } = self;
        let outside = place(sweep, times, intervals, weights, x);
        turn_runs(sweep.knots, intervals, weights, [x, y, z]);
        outside
    }
}

/// Arithmetic of coordinates.
pub(super) trait Arithmetic:
    Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> + Sized
{
}
impl Arithmetic for f32 {}
impl Arithmetic for f64 {}

/// The rules 1 and 2.
#[inline(always)]
fn place<T: Number>(
    sweep: &Sweep<'_>,
    times: &[f64],
    intervals: &mut [u32],
    weights: &mut [f32],
    x: &mut [T],
) -> u32 {
    let last = sweep.last();
    let origin = sweep.origin;
    let rate = sweep.rate;
    let nan = T::of_f32(f32::NAN);
    let mut outside = 0u32;
    let points = times.iter().zip(intervals).zip(weights).zip(x);
    for (((time, interval), weight), x) in points {
        let u = (time - origin) * rate;
        let inside = (u >= 0.0) & (u <= last);
        let u = if inside { u } else { 0.0 };
        let floor = u.floor().min(last - 1.0);
        *interval = (floor + WHOLE).to_bits() as u32;
        *weight = (u - floor) as f32;
        *x = if inside { *x } else { nan };
        outside += u32::from(!inside);
    }
    outside
}

/// The rules 3 and 4. Points that follow each other are mostly between the same knots.
#[inline(always)]
fn turn_runs<T: Number + Arithmetic>(
    knots: &[Knot],
    intervals: &[u32],
    weights: &[f32],
    [x, y, z]: [&mut [T]; 3],
) {
    let mut start = 0;
    while let Some(interval) = intervals.get(start) {
        let run = intervals[start..].iter().take_while(|other| *other == interval).count();
        let end = start + run;
        let at = *interval as usize;
        let points = [&mut x[start..end], &mut y[start..end], &mut z[start..end]];
        turn(&knots[at], &knots[at + 1], &weights[start..end], points);
        start = end;
    }
}

#[inline(always)]
fn turn<T: Number + Arithmetic>(a: &Knot, b: &Knot, weights: &[f32], [x, y, z]: [&mut [T]; 3]) {
    let turn: [f32; 4] = std::array::from_fn(|i| b.rotation[i] - a.rotation[i]);
    let shift: [f32; 3] = std::array::from_fn(|i| b.translation[i] - a.translation[i]);
    for (((weight, x), y), z) in weights.iter().zip(x).zip(y).zip(z) {
        let q: [f32; 4] = std::array::from_fn(|i| a.rotation[i] + weight * turn[i]);
        let t: [f32; 3] = std::array::from_fn(|i| a.translation[i] + weight * shift[i]);
        let s = 2.0 / (((q[0] * q[0] + q[1] * q[1]) + q[2] * q[2]) + q[3] * q[3]);
        let ([qx, qy, qz, qw], s) = (q.map(T::of_f32), T::of_f32(s));
        let [tx, ty, tz] = t.map(T::of_f32);
        let px = *x;
        let py = *y;
        let pz = *z;
        let [cx, cy, cz] = [qy * pz - qz * py, qz * px - qx * pz, qx * py - qy * px];
        let [dx, dy, dz] = [qy * cz - qz * cy, qz * cx - qx * cz, qx * cy - qy * cx];
        *x = (px + s * (qw * cx + dx)) + tx;
        *y = (py + s * (qw * cy + dy)) + ty;
        *z = (pz + s * (qw * cz + dz)) + tz;
    }
}
