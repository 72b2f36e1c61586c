//! How a camera sees: from a pixel of the undistorted image to the point of the image that it shows.
//!
//! The formulas are those of OpenCV's `initUndistortRectifyMap` and `fisheye::initUndistortRectifyMap`
//! (its documentation of camera calibration), and so those of ROS' image_geometry. A pixel's ray is
//! `(x, y, w) = (P R)^-1 (column, line, 1)`; below, `x` and `y` are divided by `w`.
//!
//! ```text
//! polynomial   r2 = x^2 + y^2    k = (1 + k1 r2 + k2 r2^2 + k3 r2^3) / (1 + k4 r2 + k5 r2^2 + k6 r2^3)
//!              x' = x k + 2 p1 x y + p2 (r2 + 2 x^2) + s1 r2 + s2 r2^2
//!              y' = y k + p1 (r2 + 2 y^2) + 2 p2 x y + s3 r2 + s4 r2^2     then the sensor's tilt
//! equidistant  r = sqrt(x^2 + y^2)    t = atan(r)
//!              (x', y') = (x, y) t (1 + k1 t^2 + k2 t^4 + k3 t^6 + k4 t^8) / r
//! ```
//!
//! The point is `(fx x' + cx, fy y' + cy)`. A ray that does not point forward shows nothing.

use std::ops::Range;

use super::remap::Remap;

/// The coefficients of a polynomial lens, in the order of OpenCV:
/// k1, k2, p1, p2, k3, k4, k5, k6, s1, s2, s3, s4, and the tilt of the sensor \[rad\].
pub const POLYNOMIAL: usize = 14;
/// The coefficients of an equidistant lens: k1 to k4.
pub const EQUIDISTANT: usize = 4;

/// A camera whose images can be undistorted. Equal cameras have equal tables.
#[derive(Clone, Debug, PartialEq)]
pub struct Camera {
    /// Width and height of its images \[px\], neither 0.
    pub size: [usize; 2],
    /// Column and line of the sensor at which the images begin, in their pixels.
    pub first: [usize; 2],
    /// How the lens bends.
    pub lens: Lens,
    /// Focal lengths along columns and lines \[px\].
    pub focal: [f64; 2],
    /// Principal point on the sensor: column and line \[px\].
    pub centre: [f64; 2],
    /// Takes (column, line, 1) of the undistorted image of the whole sensor to a ray of the camera.
    pub ray: [[f64; 3]; 3],
}

/// How a lens bends.
#[derive(Clone, Debug, PartialEq)]
pub enum Lens {
    /// Not at all: the image stays as it is.
    Straight,
    /// `plumb_bob` and `rational_polynomial`; coefficients that a model lacks are 0.
    Polynomial([f64; POLYNOMIAL]),
    /// `equidistant`: a fisheye.
    Equidistant([f64; EQUIDISTANT]),
}

impl Camera {
    /// The table that undistorts this part (columns, lines) of the images; `None` if they stay as they
    /// are. It takes 6 bytes per pixel.
    ///
    /// # Panics
    /// If the images do not have the part.
    pub fn remap(&self, part: &[Range<usize>; 2]) -> Option<Remap> {
        match &self.lens {
            Lens::Straight => None,
            Lens::Polynomial(coefficients) => {
                let lens = Polynomial::new(*coefficients);
                Some(self.table(part, |ray| lens.bend(ray)))
            }
            Lens::Equidistant(coefficients) => {
                Some(self.table(part, |ray| equidistant(coefficients, ray)))
            }
        }
    }

    fn table(&self, part: &[Range<usize>; 2], bend: impl Fn([f64; 3]) -> [f64; 2] + Copy) -> Remap {
        let ([fx, fy], [cx, cy], ray) = (self.focal, self.centre, &self.ray);
        let [first_column, first_line] = self.first;
        Remap::new(self.size, self.first, part, |column, line| {
            let column = (first_column + column) as f64;
            let line = (first_line + line) as f64;
            let along = |row: &[f64; 3]| column * row[0] + (line * row[1] + row[2]);
            let [x, y, w] = [along(&ray[0]), along(&ray[1]), along(&ray[2])];
            if w > 0.0 {
                let [x, y] = bend([x, y, w]);
                [fx * x + cx, fy * y + cy]
            } else {
                [f64::NAN; 2]
            }
        })
    }
}

/// A polynomial lens, ready for rays.
#[derive(Clone, Copy)]
struct Polynomial {
    coefficients: [f64; POLYNOMIAL],
    /// The projection onto the tilted sensor; `None` if it is not tilted.
    tilt: Option<[[f64; 3]; 3]>,
}

impl Polynomial {
    fn new(coefficients: [f64; POLYNOMIAL]) -> Self {
        let [.., about_x, about_y] = coefficients;
        let tilted = about_x != 0.0 || about_y != 0.0;
        Polynomial { coefficients, tilt: tilted.then(|| tilt(about_x, about_y)) }
    }

    #[inline(always)]
    fn bend(&self, [x, y, w]: [f64; 3]) -> [f64; 2] {
        let [k1, k2, p1, p2, k3, k4, k5, k6, s1, s2, s3, s4, ..] = self.coefficients;
        let inverse = 1.0 / w;
        let x = x * inverse;
        let y = y * inverse;
        let x2 = x * x;
        let y2 = y * y;
        let r2 = x2 + y2;
        let xy = 2.0 * x * y;
        let radial =
            (1.0 + ((k3 * r2 + k2) * r2 + k1) * r2) / (1.0 + ((k6 * r2 + k5) * r2 + k4) * r2);
        let bent_x = x * radial + p1 * xy + p2 * (r2 + 2.0 * x2) + s1 * r2 + s2 * r2 * r2;
        let bent_y = y * radial + p1 * (r2 + 2.0 * y2) + p2 * xy + s3 * r2 + s4 * r2 * r2;
        let Some([a, b, c]) = &self.tilt else { return [bent_x, bent_y] };
        let along = |row: &[f64; 3]| row[0] * bent_x + row[1] * bent_y + row[2];
        let depth = along(c);
        let inverse = if depth == 0.0 { 1.0 } else { 1.0 / depth };
        [inverse * along(a), inverse * along(b)]
    }
}

/// The projection onto a sensor that is turned about x, then about y \[rad\]: Louhichi et al., "A
/// mathematical model of Scheimpflug camera", 2007, as OpenCV documents it.
fn tilt(about_x: f64, about_y: f64) -> [[f64; 3]; 3] {
    let (sx, cx) = libm::sincos(about_x);
    let (sy, cy) = libm::sincos(about_y);
    let turn = product(
        &[[cy, 0.0, -sy], [0.0, 1.0, 0.0], [sy, 0.0, cy]],
        &[[1.0, 0.0, 0.0], [0.0, cx, sx], [0.0, -sx, cx]],
    );
    let [a, b, c] = [turn[0][2], turn[1][2], turn[2][2]];
    product(&[[c, 0.0, -a], [0.0, c, -b], [0.0, 0.0, 1.0]], &turn)
}

/// `libm`'s arc tangent: the bits do not depend on the platform.
#[inline(always)]
fn equidistant([k1, k2, k3, k4]: &[f64; EQUIDISTANT], [x, y, w]: [f64; 3]) -> [f64; 2] {
    let x = x / w;
    let y = y / w;
    let r = (x * x + y * y).sqrt();
    let t = libm::atan(r);
    let t2 = t * t;
    let t4 = t2 * t2;
    let t6 = t4 * t2;
    let t8 = t4 * t4;
    let bent = t * (1.0 + k1 * t2 + k2 * t4 + k3 * t6 + k4 * t8);
    let scale = if r == 0.0 { 1.0 } else { bent / r };
    [x * scale, y * scale]
}

/// `a` times `b`.
pub fn product(a: &[[f64; 3]; 3], b: &[[f64; 3]; 3]) -> [[f64; 3]; 3] {
    let entry = |row: usize, column: usize| {
        a[row][0] * b[0][column] + a[row][1] * b[1][column] + a[row][2] * b[2][column]
    };
    std::array::from_fn(|row| std::array::from_fn(|column| entry(row, column)))
}

/// The inverse; `None` if the matrix is singular or the inverse is not finite.
pub fn inverse(m: &[[f64; 3]; 3]) -> Option<[[f64; 3]; 3]> {
    let minor = |a: usize, b: usize, c: usize, d: usize| m[a][b] * m[c][d] - m[a][d] * m[c][b];
    let adjugate = [
        [minor(1, 1, 2, 2), -minor(0, 1, 2, 2), minor(0, 1, 1, 2)],
        [-minor(1, 0, 2, 2), minor(0, 0, 2, 2), -minor(0, 0, 1, 2)],
        [minor(1, 0, 2, 1), -minor(0, 0, 2, 1), minor(0, 0, 1, 1)],
    ];
    let determinant =
        m[0][0] * adjugate[0][0] + m[0][1] * adjugate[1][0] + m[0][2] * adjugate[2][0];
    let inverse = adjugate.map(|row| row.map(|entry| entry / determinant));
    let finite = determinant != 0.0 && inverse.iter().flatten().all(|entry| entry.is_finite());
    finite.then_some(inverse)
}

#[cfg(test)]
mod tests;
