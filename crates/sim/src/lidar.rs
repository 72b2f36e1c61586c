//! Scans of the lidar: a room with pillars, in which a ball and a box move.
//!
//! The lidar does not move, so the points of the room are computed once. A scan is a copy of them.
//! If a ray meets something nearer, its point is replaced. Only the columns that a moving object
//! can cover are tried.

use super::wave::Wave;
use robocache_core::cdr::messages::PointField;
use robocache_ops::random::Random;
use robocache_ops::time::{NANOS_PER_S, Stamp};
use std::f64::consts::{FRAC_PI_2, TAU};
use std::sync::Arc;

/// Bytes of a point: x, y, z, intensity, time as little-endian `float32`.
pub(super) const POINT_STEP: u32 = 20;
/// The layout of a point.
pub(super) const FIELDS: [PointField<'static>; 5] =
    [field("x", 0), field("y", 4), field("z", 8), field("intensity", 12), field("time", 16)];

const fn field(name: &'static str, offset: u32) -> PointField<'static> {
    PointField { name, offset, datatype: 7, count: 1 }
}

/// Elevation of the lowest and the highest ring \[rad\].
const ELEVATION: [f64; 2] = [-0.40, 0.35];
/// The room in the lidar's frame \[m\]. The lidar is 1.2 m above the floor.
const ROOM: Boxed = Boxed { center: [1.0, 0.5, 1.3], half: [9.0, 6.5, 2.5] };
const PILLARS: [Boxed; 3] = [
    Boxed { center: [6.0, 4.0, 1.3], half: [0.3, 0.3, 2.5] },
    Boxed { center: [-5.0, 4.0, 1.3], half: [0.3, 0.3, 2.5] },
    Boxed { center: [-5.0, -4.0, 1.3], half: [0.3, 0.3, 2.5] },
];
const BALL_RADIUS_M: f64 = 0.6;
/// Half sides of the box that moves \[m\].
const MOVING_HALF_M: [f64; 3] = [0.4, 0.5, 0.6];

/// An upright box.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Boxed {
    /// \[m\]
    pub center: [f64; 3],
    /// Half the sides \[m\].
    pub half: [f64; 3],
}

/// Places of the moving objects, in the lidar's frame.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scene {
    /// Centre of the ball \[m\].
    pub ball_center: [f64; 3],
    /// Its radius \[m\].
    pub ball_radius: f64,
    /// The box.
    pub moving_box: Boxed,
}

/// A spinning lidar.
#[derive(Clone, Debug)]
pub(super) struct Lidar {
    rings: usize,
    columns: usize,
    scan_ns: i64,
    /// Sine and cosine of each ring's elevation.
    ring_angles: Vec<(f64, f64)>,
    /// Sine and cosine of each column's azimuth.
    column_angles: Vec<(f64, f64)>,
    /// Distance of the room along each ray \[m\].
    ranges: Vec<f32>,
    /// The points of the empty room.
    room: Vec<u8>,
    ball: [Wave; 3],
    moving_box: [Wave; 3],
}

impl Lidar {
    /// `scan_ns`: time of one turn; the last column is measured at the scan's stamp.
    pub(super) fn new(random: &mut Random, rings: u32, columns: u32, scan_ns: i64) -> Self {
        let rings = rings as usize;
        let columns = columns as usize;
        let [low, high] = ELEVATION;
        let ring_angle = |i: usize| low + (high - low) * (i as f64 + 0.5) / rings as f64;
        let column_angle = |j: usize| TAU * (j as f64 / columns as f64 - 0.5);
        let mut path = |center: [f64; 3]| {
            let reach = [1.2, 1.2, 0.3];
            [0, 1, 2].map(|i| Wave::random(random, center[i], &[(reach[i], 0.1, 0.4)]))
        };
        let mut lidar = Lidar {
            rings,
            columns,
            scan_ns,
            ring_angles: (0..rings).map(|i| libm::sincos(ring_angle(i))).collect(),
            column_angles: (0..columns).map(|j| libm::sincos(column_angle(j))).collect(),
            ranges: Vec::with_capacity(rings * columns),
            room: Vec::with_capacity(rings * columns * POINT_STEP as usize),
            ball: path([4.0, 0.5, 0.0]),
            moving_box: path([-1.0, -3.8, -0.3]),
        };
        lidar.scan_room(random);
        lidar
    }

    /// Lets all that moves follow a tempo.
    pub(super) fn follow(&mut self, tempo: &Arc<Wave>) {
        self.ball.iter_mut().chain(&mut self.moving_box).for_each(|wave| wave.follow(tempo));
    }

    fn scan_room(&mut self, random: &mut Random) {
        for ring in 0..self.rings {
            for column in 0..self.columns {
                let ray = self.ray(ring, column);
                let pillar = PILLARS.iter().filter_map(|pillar| meets_box(ray, pillar));
                let pillar = pillar.fold(f64::INFINITY, f64::min);
                let wall = leaves_box(ray, &ROOM);
                let material = if pillar < wall { 120.0 } else { 40.0 };
                let intensity = material + random.between(0.0, 20.0) as f32;
                let range = pillar.min(wall);
                self.ranges.push(range as f32);
                let [x, y, z] = ray.map(|d| (d * range) as f32);
                let time = self.delay_ns(column) as f64 / NANOS_PER_S as f64;
                for value in [x, y, z, intensity, time as f32] {
                    self.room.extend(value.to_le_bytes());
                }
            }
        }
    }

    /// Direction of a ray, of length 1.
    fn ray(&self, ring: usize, column: usize) -> [f64; 3] {
        let (sin_up, cos_up) = self.ring_angles[ring];
        let (sin_around, cos_around) = self.column_angles[column];
        [cos_up * cos_around, cos_up * sin_around, sin_up]
    }

    /// When a column is measured, relative to the scan's stamp: 0 for the last column, negative for
    /// all others.
    fn delay_ns(&self, column: usize) -> i64 {
        let left = (self.columns - 1 - column) as i64;
        -(self.scan_ns / self.columns as i64 * left)
    }

    pub(super) fn size(&self) -> (u32, u32) {
        (self.rings as u32, self.columns as u32)
    }

    pub(super) fn scene(&self, t: Stamp) -> Scene {
        let at = |path: &[Wave; 3]| path.each_ref().map(|wave| wave.value(t));
        Scene {
            ball_center: at(&self.ball),
            ball_radius: BALL_RADIUS_M,
            moving_box: Boxed { center: at(&self.moving_box), half: MOVING_HALF_M },
        }
    }

    /// Appends the points of the scan stamped `stamp`, ring by ring.
    pub(super) fn scan(&self, stamp: Stamp, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&self.room);
        let cloud = &mut out[start..];
        let middle = self.scene(stamp.offset(-self.scan_ns / 2));
        let corner = libm::hypot(MOVING_HALF_M[0], MOVING_HALF_M[1]);
        for column in self.columns_near(middle.ball_center, BALL_RADIUS_M, &self.ball) {
            let scene = self.scene(stamp.offset(self.delay_ns(column)));
            self.replace(cloud, column, 200.0, |ray| meets_ball(ray, &scene));
        }
        for column in self.columns_near(middle.moving_box.center, corner, &self.moving_box) {
            let scene = self.scene(stamp.offset(self.delay_ns(column)));
            self.replace(cloud, column, 90.0, |ray| meets_box(ray, &scene.moving_box));
        }
    }

    /// The columns that can meet an object. It has the radius `radius`, is at `center` in the
    /// middle of the scan and moves along `path`.
    fn columns_near(
        &self,
        center: [f64; 3],
        radius: f64,
        path: &[Wave; 3],
    ) -> impl Iterator<Item = usize> + use<> {
        let speed = libm::hypot(path[0].bound(1), path[1].bound(1));
        let moved = speed * self.scan_ns as f64 / NANOS_PER_S as f64 / 2.0;
        let share = (radius + moved) / libm::hypot(center[0], center[1]);
        let half_angle = if share < 1.0 { libm::asin(share) } else { 2.0 * FRAC_PI_2 };
        let columns = self.columns as f64;
        let at = (libm::atan2(center[1], center[0]) / TAU + 0.5) * columns;
        let half = half_angle / TAU * columns;
        let first = (at - half).floor() as i64;
        let last = (at + half).ceil() as i64;
        let count = self.columns as i64;
        (first..=last.min(first + count - 1)).map(move |column| column.rem_euclid(count) as usize)
    }

    /// Replaces the points of a column by those of the object that `meets` finds, if it is nearer
    /// than the room.
    fn replace(
        &self,
        cloud: &mut [u8],
        column: usize,
        intensity: f32,
        meets: impl Fn([f64; 3]) -> Option<f64>,
    ) {
        for ring in 0..self.rings {
            let ray = self.ray(ring, column);
            let Some(range) = meets(ray) else { continue };
            let index = ring * self.columns + column;
            if range >= f64::from(self.ranges[index]) {
                continue;
            }
            let [x, y, z] = ray.map(|d| (d * range) as f32);
            let point = &mut cloud[index * POINT_STEP as usize..][..16];
            for (bytes, value) in point.chunks_exact_mut(4).zip([x, y, z, intensity]) {
                bytes.copy_from_slice(&value.to_le_bytes());
            }
        }
    }
}

/// Distance along a ray from the origin to the ball, from outside.
fn meets_ball(ray: [f64; 3], scene: &Scene) -> Option<f64> {
    let [x, y, z] = scene.ball_center;
    let along = ray[0] * x + ray[1] * y + ray[2] * z;
    let off_squared = x * x + y * y + z * z - along * along;
    let depth_squared = scene.ball_radius * scene.ball_radius - off_squared;
    let range = along - depth_squared.max(0.0).sqrt();
    (depth_squared > 0.0 && range > 0.0).then_some(range)
}

/// Distances at which a ray from the origin enters and leaves a box (the slab method: Kay and
/// Kajiya, "Ray tracing complex scenes", 1986). An axis whose faces are parallel to the ray gives
/// `-inf..inf`.
fn crosses_box(ray: [f64; 3], boxed: &Boxed) -> (f64, f64) {
    let mut crossing = (f64::NEG_INFINITY, f64::INFINITY);
    for (axis, direction) in ray.into_iter().enumerate() {
        let face = |side: f64| (boxed.center[axis] + side * boxed.half[axis]) / direction;
        let a = face(-1.0);
        let b = face(1.0);
        crossing = (crossing.0.max(a.min(b)), crossing.1.min(a.max(b)));
    }
    crossing
}

/// Distance to a box that the origin is outside of.
fn meets_box(ray: [f64; 3], boxed: &Boxed) -> Option<f64> {
    let (enters, leaves) = crosses_box(ray, boxed);
    (enters < leaves && enters > 0.0).then_some(enters)
}

/// Distance to the faces of a box that the origin is inside of.
fn leaves_box(ray: [f64; 3], boxed: &Boxed) -> f64 {
    crosses_box(ray, boxed).1
}
