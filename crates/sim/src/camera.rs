//! Images of the cameras: a background that pans, and shapes that move in front of it.
//!
//! The background is drawn once. An image is a shifted copy of its lines with a few hundred spans
//! of one colour.

use super::wave::Wave;
use robocache_ops::random::Random;
use robocache_ops::time::Stamp;
use std::sync::Arc;

/// Bytes of an rgb8 pixel.
const PIXEL: usize = 3;

/// Height of the camera above the floor \[m\]. Its focal length is the height of the image.
const CAMERA_HEIGHT_M: f32 = 1.2;

/// A shape in an image.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// Centre \[px\], x to the right and y downwards.
    pub center: [f64; 2],
    /// Half width and half height \[px\].
    pub half: [f64; 2],
    /// True if the shape is an ellipse rather than a rectangle.
    pub round: bool,
    /// Red, green, blue.
    pub color: [u8; PIXEL],
}

/// Content of an image, besides the pixels of the background.
#[derive(Clone, Debug, PartialEq)]
pub struct View {
    /// Columns of the background that are left of the image.
    pub pan_px: usize,
    /// Drawn in this order.
    pub shapes: Vec<Shape>,
}

/// A camera.
#[derive(Clone, Debug)]
pub(super) struct Camera {
    width: usize,
    height: usize,
    /// Columns by which the background is wider than an image.
    margin: usize,
    background: Vec<u8>,
    pan: Wave,
    shapes: Vec<MovingShape>,
}

#[derive(Clone, Debug)]
struct MovingShape {
    center: [Wave; 2],
    half: [f64; 2],
    round: bool,
    color: [u8; PIXEL],
}

impl Camera {
    /// Looks into a room with a chequered floor; two balls and a box move in it.
    pub(super) fn front(random: &mut Random, width: u32, height: u32) -> Self {
        let w = f64::from(width);
        let h = f64::from(height);
        let margin = width as usize / 4;
        let shapes = vec![
            MovingShape::random(random, [w, h], [0.07 * h; 2], true, [220, 60, 40]),
            MovingShape::random(random, [w, h], [0.10 * h; 2], true, [40, 90, 220]),
            MovingShape::random(random, [w, h], [0.12 * w, 0.06 * h], false, [240, 200, 40]),
        ];
        let half = margin as f64 / 2.0;
        let pan = Wave::random(random, half, &[(half, 0.1, 0.3)]);
        let horizon = height as usize / 2;
        let cell = (height as usize / 12).max(1);
        let background = background(random, width as usize + margin, height as usize, |x, y| {
            if y < horizon {
                let shade = (90 * y / horizon) as u8;
                return [70 + shade, 110 + shade, 150 + shade];
            }
            if (x / cell + y / cell).is_multiple_of(2) { [150, 140, 120] } else { [90, 85, 80] }
        });
        let width = width as usize;
        let height = height as usize;
        Camera { width, height, margin, background, pan, shapes }
    }

    /// Looks along the tool at a table; a work piece moves on it and two fingers close.
    pub(super) fn wrist(random: &mut Random, width: u32, height: u32) -> Self {
        let w = f64::from(width);
        let h = f64::from(height);
        let piece = MovingShape::random(random, [w, h], [0.11 * h; 2], false, [60, 170, 90]);
        let opening = Wave::random(random, 0.28 * w, &[(0.12 * w, 0.3, 1.0)]);
        let finger = |side: f64| MovingShape {
            center: [opening.mirrored(0.5 * w, side), Wave::constant(0.85 * h)],
            half: [0.05 * w, 0.25 * h],
            round: false,
            color: [50, 50, 60],
        };
        let shapes = vec![piece, finger(-1.0), finger(1.0)];
        let cell = (width as usize / 20).max(1);
        let background = background(random, width as usize, height as usize, |x, y| {
            if x % cell < 2 || y % cell < 2 { [120, 90, 60] } else { [190, 160, 120] }
        });
        let width = width as usize;
        let height = height as usize;
        Camera { width, height, margin: 0, background, pan: Wave::constant(0.0), shapes }
    }

    /// Lets all that moves follow a tempo.
    pub(super) fn follow(&mut self, tempo: &Arc<Wave>) {
        self.pan.follow(tempo);
        let centers = self.shapes.iter_mut().flat_map(|shape| &mut shape.center);
        centers.for_each(|wave| wave.follow(tempo));
    }

    pub(super) fn view(&self, t: Stamp) -> View {
        let pan_px = self.pan.value(t).round().clamp(0.0, self.margin as f64) as usize;
        View { pan_px, shapes: self.shapes.iter().map(|shape| shape.at(t)).collect() }
    }

    /// Appends the lines of the image at `t`, rgb8 and without padding.
    pub(super) fn render(&self, t: Stamp, out: &mut Vec<u8>) {
        let view = self.view(t);
        let start = out.len();
        out.reserve(self.width * self.height * PIXEL);
        for line in self.background.chunks_exact((self.width + self.margin) * PIXEL) {
            out.extend_from_slice(&line[view.pan_px * PIXEL..][..self.width * PIXEL]);
        }
        let mut line_of_color = vec![0; self.width * PIXEL];
        for shape in &view.shapes {
            for pixel in line_of_color.chunks_exact_mut(PIXEL) {
                pixel.copy_from_slice(&shape.color);
            }
            self.draw(shape, &line_of_color, &mut out[start..]);
        }
    }

    /// Appends the distances of what the image at `t` shows \[m\], little-endian `float32`: of the
    /// shapes and of the floor. There is nothing above the horizon, so the distance is infinite.
    pub(super) fn render_depth(&self, t: Stamp, out: &mut Vec<u8>) {
        let horizon = self.height / 2;
        let floor = |y: usize| match y.checked_sub(horizon) {
            None => f32::INFINITY,
            Some(below) => CAMERA_HEIGHT_M * self.height as f32 / (below as f32 + 0.5),
        };
        let lines = (0..self.height).flat_map(|y| std::iter::repeat_n(floor(y), self.width));
        let mut distances: Vec<f32> = lines.collect();
        for (number, shape) in self.view(t).shapes.iter().enumerate() {
            self.spans(shape, |pixels| distances[pixels].fill(shape_distance_m(number)));
        }
        out.extend(distances.iter().flat_map(|distance| distance.to_le_bytes()));
    }

    /// Draws a shape: the pixels whose centres are in it.
    fn draw(&self, shape: &Shape, line_of_color: &[u8], frame: &mut [u8]) {
        self.spans(shape, |pixels| {
            let bytes = pixels.len() * PIXEL;
            frame[pixels.start * PIXEL..][..bytes].copy_from_slice(&line_of_color[..bytes]);
        });
    }

    /// Calls `each` with the pixels of each line whose centres are in a shape.
    fn spans(&self, shape: &Shape, mut each: impl FnMut(std::ops::Range<usize>)) {
        let [cx, cy] = shape.center;
        let [half_x, half_y] = shape.half;
        for y in pixels(cy - half_y, cy + half_y, self.height) {
            let up = (y as f64 + 0.5 - cy) / half_y;
            let share = if shape.round { (1.0 - up * up).max(0.0).sqrt() } else { 1.0 };
            let span = pixels(cx - share * half_x, cx + share * half_x, self.width);
            each(y * self.width + span.start..y * self.width + span.end);
        }
    }
}

/// The distance of the shape of this number \[m\]: each is before those with a lower number.
fn shape_distance_m(number: usize) -> f32 {
    2.5 / (1.0 + number as f32)
}

/// The pixels of `0..len` whose centres are in `low..high`.
fn pixels(low: f64, high: f64, len: usize) -> std::ops::Range<usize> {
    let index = |edge: f64| (edge - 0.5).ceil().clamp(0.0, len as f64) as usize;
    index(low)..index(high).max(index(low))
}

/// Draws `color(x, y)` with some noise, because flat areas would hide errors of a resize.
fn background(
    random: &mut Random,
    width: usize,
    height: usize,
    color: impl Fn(usize, usize) -> [u8; PIXEL],
) -> Vec<u8> {
    let mut pixels = Vec::with_capacity(width * height * PIXEL);
    for y in 0..height {
        for x in 0..width {
            let noise = (random.bits() % 16) as u8;
            pixels.extend(color(x, y).map(|channel| channel.saturating_sub(noise)));
        }
    }
    pixels
}

impl MovingShape {
    /// A shape that moves about the middle of the image and stays inside it.
    fn random(
        random: &mut Random,
        size: [f64; 2],
        half: [f64; 2],
        round: bool,
        color: [u8; PIXEL],
    ) -> Self {
        let mut along = |axis: usize| {
            let reach = 0.5 * size[axis] - half[axis];
            Wave::random(
                random,
                0.5 * size[axis],
                &[(0.7 * reach, 0.1, 0.4), (0.3 * reach, 0.4, 1.0)],
            )
        };
        MovingShape { center: [along(0), along(1)], half, round, color }
    }

    fn at(&self, t: Stamp) -> Shape {
        let center = self.center.each_ref().map(|wave| wave.value(t));
        Shape { center, half: self.half, round: self.round, color: self.color }
    }
}
