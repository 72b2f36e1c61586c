//! Specification of depth rows, and the element types of depth images.

use std::ops::Range;

use crate::image::{Fit, Placement, Resize};

/// How a depth image becomes a row.
///
/// A number of 16 bits is a distance in units of `unit_m`: the product in `f64`, rounded to `f32`
/// once. A number of 32 bits is a distance in metres (REP 118). A distance is valid if it is greater
/// than 0 and in `min_m..=max_m`, compared in `f32`; so NaN and infinity are invalid. Invalid pixels
/// and padding have the value `fill_m`.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct DepthSpec {
    /// Width of the row \[px\].
    pub width: usize,
    /// Height of the row \[px\].
    pub height: usize,
    /// Treatment of the aspect ratio; not [`Fit::CoverCenter`].
    pub fit: Fit,
    /// The unit of numbers of 16 bits \[m\]: 0.001 for millimetres.
    pub unit_m: f64,
    /// The least valid distance \[m\], not negative.
    pub min_m: f32,
    /// The greatest valid distance \[m\]. The row's element type holds it.
    pub max_m: f32,
    /// The value of pixels without a valid distance, and of padding \[m\].
    pub fill_m: f32,
}

/// Element type of a depth image's pixel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DepthElement {
    /// An unsigned number of 16 bits, in units of [`DepthSpec::unit_m`].
    U16 = 0,
    /// An IEEE 754 binary32 in metres.
    F32 = 1,
}

impl DepthElement {
    /// All of them.
    pub const ALL: [DepthElement; 2] = [DepthElement::U16, DepthElement::F32];

    /// Bytes per pixel.
    pub const fn size(self) -> usize {
        match self {
            DepthElement::U16 => 2,
            DepthElement::F32 => 4,
        }
    }
}

/// A depth image whose declared size has been checked against its data:
/// `data.len() >= (height - 1) * step + width * element.size()`, and neither side is 0.
#[derive(Clone, Copy, Debug)]
pub struct DepthView<'a> {
    /// Element type of a pixel.
    pub element: DepthElement,
    /// True if the most significant byte of a pixel is first.
    pub big_endian: bool,
    /// Width \[px\].
    pub width: usize,
    /// Height \[px\].
    pub height: usize,
    /// Bytes from one line to the next, padding included.
    pub step: usize,
    /// The lines.
    pub data: &'a [u8],
}

impl DepthSpec {
    /// Placement in the row of an image of `width` x `height` pixels, neither of them 0.
    pub fn placement(&self, width: usize, height: usize) -> Placement {
        let resize = Resize { fit: self.fit, ..Resize::to(self.width, self.height) };
        Placement::new(&resize, width, height)
    }
}

/// The pixels of `part` whose centres are nearest to those of `outputs` equal shares of it, in
/// integers: `part.start + (2*i + 1) * len / (2 * outputs)`, rounded down. Where two are as near, it is
/// the later one. This is Pillow's `NEAREST` without the rounding of its floats.
pub(super) fn nearest(part: Range<usize>, outputs: usize) -> impl Iterator<Item = usize> + Clone {
    let len = part.len();
    (0..outputs).map(move |i| part.start + (2 * i + 1) * len / (2 * outputs))
}

#[cfg(test)]
mod tests;
