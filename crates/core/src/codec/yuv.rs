//! YUV images to RGB.
//!
//! The arithmetic is that of OpenCV's `cvtColor` (and so of cv_bridge and image_proc): ITU-R BT.601 with
//! 16 to 235 for luma, in integers with 20 fraction bits, rounded to nearest; chroma is repeated and
//! not interpolated.

use super::{check_size, malformed};
use crate::rejected::Rejected;
use robocache_ops::image::{Encoding, ImageView};

/// How luma and chroma are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Yuv {
    /// `yuv422`: U Y V Y, for two pixels.
    Uyvy,
    /// `yuv422_yuy2`: Y U Y V, for two pixels.
    Yuyv,
    /// `nv12`: all luma, then lines of U V at half the resolution.
    Nv12,
    /// `nv21`: all luma, then lines of V U at half the resolution.
    Nv21,
}

impl Yuv {
    /// All of them.
    pub const ALL: [Yuv; 4] = [Yuv::Uyvy, Yuv::Yuyv, Yuv::Nv12, Yuv::Nv21];

    /// The name in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Yuv::Uyvy => "yuv422",
            Yuv::Yuyv => "yuv422_yuy2",
            Yuv::Nv12 => "nv12",
            Yuv::Nv21 => "nv21",
        }
    }

    const fn is_planar(self) -> bool {
        matches!(self, Yuv::Nv12 | Yuv::Nv21)
    }

    /// Positions of Y, U and V among the four bytes of two pixels.
    const fn packed(self) -> ([usize; 2], usize, usize) {
        match self {
            Yuv::Uyvy => ([1, 3], 0, 2),
            _ => ([0, 2], 1, 3),
        }
    }
}

/// A YUV image in a message.
#[derive(Clone, Copy, Debug)]
pub struct YuvImage<'a> {
    /// Its layout.
    pub layout: Yuv,
    /// Width and height \[px\].
    pub size: [usize; 2],
    /// Bytes from one line to the next. In `nv12` and `nv21` those of luma and of chroma.
    pub step: usize,
    /// The lines.
    pub data: &'a [u8],
}

/// Converts an image into `pixels`, whose memory is used again. `largest` is the greatest width and
/// height \[px\].
///
/// # Errors
/// - `TooLarge`: more pixels than `largest`.
/// - `Malformed`: the size is odd where two pixels share their chroma, or there is less data than
///   size and step declare.
pub fn to_rgb<'a>(
    image: &YuvImage<'_>,
    largest: [usize; 2],
    pixels: &'a mut Vec<u8>,
) -> Result<ImageView<'a>, Rejected> {
    let YuvImage { layout, size: [width, height], step, data } = *image;
    check_size([width, height], largest)?;
    let name = layout.name();
    if width % 2 != 0 || layout.is_planar() && height % 2 != 0 {
        return Err(malformed(format!("{name}: expected even sides, found {width}x{height}")));
    }
    let line = if layout.is_planar() { width } else { 2 * width };
    if step < line {
        return Err(malformed(format!(
            "step: expected at least {line} bytes for {width} pixels of {name}, found {step}"
        )));
    }
    let lines = if layout.is_planar() { height + height / 2 } else { height };
    let expected = lines as u128 * step as u128;
    if (data.len() as u128) < expected {
        return Err(malformed(format!(
            "data: expected at least {expected} bytes for {width}x{height} pixels of {name} with \
             step {step}, found {}",
            data.len()
        )));
    }
    pixels.resize(3 * width * height, 0);
    for (y, out) in pixels.chunks_exact_mut(3 * width).enumerate() {
        let luma = &data[y * step..y * step + line];
        if layout.is_planar() {
            let at = (height + y / 2) * step;
            let chroma = &data[at..at + line];
            let swapped = layout == Yuv::Nv21;
            planar_line(luma, chroma, swapped, out);
        } else {
            packed_line(luma, layout, out);
        }
    }
    Ok(ImageView {
        encoding: Encoding::Rgb8,
        width,
        height,
        step: 3 * width,
        data: pixels,
        remap: None,
    })
}

fn packed_line(bytes: &[u8], layout: Yuv, out: &mut [u8]) {
    let (luma, u, v) = layout.packed();
    for (four, two) in bytes.as_chunks::<4>().0.iter().zip(out.as_chunks_mut::<6>().0) {
        let chroma = chroma(four[u], four[v]);
        write(two, [four[luma[0]], four[luma[1]]], chroma);
    }
}

fn planar_line(luma: &[u8], chroma_line: &[u8], swapped: bool, out: &mut [u8]) {
    let pairs = luma.as_chunks::<2>().0.iter().zip(chroma_line.as_chunks::<2>().0);
    for ((luma, &[a, b]), two) in pairs.zip(out.as_chunks_mut::<6>().0) {
        let (u, v) = if swapped { (b, a) } else { (a, b) };
        write(two, *luma, chroma(u, v));
    }
}

/// Fraction bits of the coefficients.
const BITS: i32 = 20;
/// 255/219, 2*0.886*255/224, and so on, of BT.601 in `BITS` fraction bits, as OpenCV rounds them.
const LUMA: i32 = 1_220_542;
const U_TO_BLUE: i32 = 2_116_026;
const U_TO_GREEN: i32 = -409_993;
const V_TO_GREEN: i32 = -852_492;
const V_TO_RED: i32 = 1_673_527;

/// Amounts that chroma adds to red, green and blue, with the half that rounds.
fn chroma(u: u8, v: u8) -> [i32; 3] {
    let half = 1 << (BITS - 1);
    let u = i32::from(u) - 128;
    let v = i32::from(v) - 128;
    [half + V_TO_RED * v, half + V_TO_GREEN * v + U_TO_GREEN * u, half + U_TO_BLUE * u]
}

/// Writes two pixels.
fn write(out: &mut [u8; 6], luma: [u8; 2], chroma: [i32; 3]) {
    for (pixel, luma) in out.as_chunks_mut::<3>().0.iter_mut().zip(luma) {
        let luma = (i32::from(luma) - 16).max(0) * LUMA;
        for (byte, chroma) in pixel.iter_mut().zip(chroma) {
            *byte = ((luma + chroma) >> BITS).clamp(0, 255) as u8;
        }
    }
}
