//! Geometry of an image's resize into a row, for every processor.
//!
//! For an image of `w` x `h` and a row of `W` x `H` pixels. First the centred part of
//! `trunc(w * crop_fraction)` x `trunc(h * crop_fraction)` pixels, never less than one, becomes an image
//! of its own; below, `w` and `h` are its sides. Then:
//!
//! - `stretch`: the whole image becomes `W` x `H`.
//! - `pad_center`, `pad_top_left`: with `ratio = max(w / W, h / H)` the whole image becomes
//!   `trunc(w / ratio)` x `trunc(h / ratio)`, never less than one pixel. If it is centred, half of the
//!   remaining pixels, rounded down, are above and left of it; otherwise all of them. These are the two
//!   `resize_with_pad` of robot policies (OpenPI; SmolVLA of LeRobot), which compute in `f64`.
//! - `crop_center`: if the image is wider than the row (`w*H >= h*W`), `h*W/H` of its columns are taken,
//!   otherwise `w*H/W` of its lines, in integers rounded down, never less than one pixel. The part is an
//!   image of its own: nothing around it is read.
//! - `cover_center`: if the image is wider than the row (`w / h >= W / H`), it becomes
//!   `ceil(H / h * w)` x `H`, otherwise `W` x `ceil(W / w * h)`, in `f64`. The row is its middle. This is
//!   `get_image_transform` of Diffusion Policy.
//!
//! Half of what is cut off, rounded down, is left of or above what is taken. For the filters of torch a
//! half is rounded to the even number, as torchvision's `CenterCrop` does.

use std::ops::Range;

use super::spec::{Filter, Fit, Resize};

/// Which part of an image goes where in a row. Each pair is columns, then lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The part of the image that is resized, as an image of its own.
    pub source: [Range<usize>; 2],
    /// Size that the image is resized to.
    pub size: [usize; 2],
    /// The part of the resized image that is in the row.
    pub window: [Range<usize>; 2],
    /// Part of the row that the image fills; the rest is padding.
    pub target: [Range<usize>; 2],
}

impl Placement {
    /// The placement of an image of `width` x `height` pixels, neither of them 0.
    pub fn new(resize: &Resize, width: usize, height: usize) -> Self {
        let row = [resize.width, resize.height];
        let centred = |part: usize, whole: usize| match resize.filter {
            Filter::TorchBilinear | Filter::TorchBilinearAntialias => even_centred(part, whole),
            _ => centred(part, whole),
        };
        let [mut columns, mut lines] = [width, height].map(|side| {
            let part = match resize.crop_fraction {
                1.0 => side,
                fraction => ((side as f64 * fraction) as usize).clamp(1, side),
            };
            centred(part, side)
        });
        let w = columns.len();
        let h = lines.len();
        let wider = mul(w, row[1]) >= mul(h, row[0]);
        let mut size = row;
        match resize.fit {
            Fit::Stretch => {}
            Fit::PadCenter | Fit::PadTopLeft => {
                let ratio = f64::max(w as f64 / row[0] as f64, h as f64 / row[1] as f64);
                size = [(w, row[0]), (h, row[1])]
                    .map(|(side, most)| ((side as f64 / ratio) as usize).clamp(1, most));
            }
            Fit::CropCenter if wider => {
                columns = moved(centred(share(h, row[0], row[1]), w), columns.start);
            }
            Fit::CropCenter => lines = moved(centred(share(w, row[1], row[0]), h), lines.start),
            Fit::CoverCenter => size = cover([w, h], row),
        }
        let window = [0, 1].map(|axis| centred(size[axis].min(row[axis]), size[axis]));
        let target = [0, 1].map(|axis| {
            let part = window[axis].len();
            let whole = row[axis];
            match resize.fit {
                Fit::PadTopLeft => whole - part..whole,
                _ => self::centred(part, whole),
            }
        });
        Placement { source: [columns, lines], size, window, target }
    }
}

/// The size at which an image covers a row.
fn cover(image: [usize; 2], row: [usize; 2]) -> [usize; 2] {
    let [w, h, width, height] = [image[0], image[1], row[0], row[1]].map(|side| side as f64);
    if w / h >= width / height {
        [((height / h * w).ceil() as usize).max(row[0]), row[1]]
    } else {
        [row[0], ((width / w * h).ceil() as usize).max(row[1])]
    }
}

/// `a * b` without overflow: both are lengths of something in memory.
fn mul(a: usize, b: usize) -> u128 {
    a as u128 * b as u128
}

/// `length * numerator / denominator`, rounded down, at least 1. At most one of the lengths it is
/// centred in, so that it fits.
fn share(length: usize, numerator: usize, denominator: usize) -> usize {
    (mul(length, numerator) / denominator as u128).max(1) as usize
}

/// The middle `part` of `0..whole`; the odd pixel lies behind it.
fn centred(part: usize, whole: usize) -> Range<usize> {
    let start = (whole - part) / 2;
    start..start + part
}

/// The middle `part` of `0..whole`, at an even place if there are two.
fn even_centred(part: usize, whole: usize) -> Range<usize> {
    let rest = whole - part;
    let start = rest / 2 + usize::from(rest % 4 == 3);
    start..start + part
}

fn moved(range: Range<usize>, by: usize) -> Range<usize> {
    range.start + by..range.end + by
}

#[cfg(test)]
mod tests;
