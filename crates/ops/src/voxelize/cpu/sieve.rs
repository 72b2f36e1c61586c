//! The filter of points, in the numbers of a cloud.

use std::ops::{Add, Mul};

use super::block::NONE;
use crate::voxelize::filter::{Action, Filter, Form};
use crate::voxelize::spec::PointDrops;

/// The numbers in which a cloud is transformed.
pub(super) trait Real:
    Copy + PartialOrd + Add<Output = Self> + Mul<Output = Self> + From<f32>
{
    /// Rounded to nearest.
    fn rounded(value: f64) -> Self;
    /// Neither NaN nor infinite.
    fn is_a_number(self) -> bool;
}

impl Real for f32 {
    fn rounded(value: f64) -> Self {
        value as f32
    }
    fn is_a_number(self) -> bool {
        self.is_finite()
    }
}

impl Real for f64 {
    fn rounded(value: f64) -> Self {
        value
    }
    fn is_a_number(self) -> bool {
        self.is_finite()
    }
}

/// The filter of one cloud.
pub(super) struct Sieve<T> {
    /// Squares of the least and the greatest distance.
    limits: [Option<T>; 2],
    shapes: Vec<Placed<T>>,
    /// True if a shape says which points are kept.
    keeps: bool,
}

/// A shape, and how a point gets there.
struct Placed<T> {
    action: Action,
    t: [[T; 4]; 3],
    form: ShapeForm<T>,
}

enum ShapeForm<T> {
    Box([[T; 2]; 3]),
    /// The square of the radius.
    Sphere(T),
}

impl<T: Real> Sieve<T> {
    /// The filter, with its shapes at `t_shapes`.
    pub(super) fn new(filter: &Filter, t_shapes: &[[[f64; 4]; 3]]) -> Self {
        let square = |m: f32| T::from(m) * T::from(m);
        let placed = filter.shapes.iter().zip(t_shapes).map(|(shape, t)| Placed {
            action: shape.action,
            t: t.map(|row| row.map(T::rounded)),
            form: match shape.form {
                Form::Sphere { radius_m } => ShapeForm::Sphere(square(radius_m)),
                Form::Box { min_m, max_m } => {
                    ShapeForm::Box([0, 1, 2].map(|a| [T::from(min_m[a]), T::from(max_m[a])]))
                }
            },
        });
        Sieve {
            limits: [filter.min_range_m, filter.max_range_m].map(|m| m.map(square)),
            shapes: placed.collect(),
            keeps: filter.shapes.iter().any(|shape| shape.action == Action::Keep),
        }
    }

    /// Marks with [`NONE`] the finite points that are left out, counts them, and returns their number.
    pub(super) fn mark(
        &self,
        point: impl Fn(usize) -> [T; 3],
        fields_are_finite: impl Fn(usize) -> bool,
        marks: &mut [u32],
        report: &mut PointDrops,
    ) -> u64 {
        let mut left_out = 0;
        for (i, mark) in marks.iter_mut().enumerate() {
            let at = point(i);
            if !at.iter().all(|c| c.is_a_number()) || !fields_are_finite(i) {
                continue;
            }
            let Some(reason) = self.reason(at) else { continue };
            *mark = NONE;
            left_out += 1;
            match reason {
                Reason::OutOfReach => report.out_of_reach += 1,
                Reason::Cropped => report.cropped += 1,
                Reason::OnRobot => report.on_robot += 1,
            }
        }
        left_out
    }

    /// Why a point is left out: the first rule that says so.
    fn reason(&self, at: [T; 3]) -> Option<Reason> {
        let distance = square_of(at);
        let [least, greatest] = self.limits;
        if least.is_some_and(|least| distance < least)
            || greatest.is_some_and(|greatest| distance > greatest)
        {
            return Some(Reason::OutOfReach);
        }
        let mut kept = !self.keeps;
        let mut removed = false;
        let mut on_robot = false;
        for shape in &self.shapes {
            let inside = shape.holds(at);
            match shape.action {
                Action::Keep => kept |= inside,
                Action::Remove => removed |= inside,
                Action::Robot => on_robot |= inside,
            }
        }
        match (kept && !removed, on_robot) {
            (false, _) => Some(Reason::Cropped),
            (true, true) => Some(Reason::OnRobot),
            (true, false) => None,
        }
    }
}

enum Reason {
    OutOfReach,
    Cropped,
    OnRobot,
}

fn square_of<T: Real>([x, y, z]: [T; 3]) -> T {
    (x * x + y * y) + z * z
}

impl<T: Real> Placed<T> {
    fn holds(&self, [x, y, z]: [T; 3]) -> bool {
        let own = self.t.map(|r| ((r[0] * x + r[1] * y) + r[2] * z) + r[3]);
        match &self.form {
            ShapeForm::Sphere(square) => square_of(own) <= *square,
            ShapeForm::Box(sides) => {
                own.iter().zip(sides).all(|(c, [min, max])| *c >= *min && *c <= *max)
            }
        }
    }
}
