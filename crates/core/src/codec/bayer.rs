//! Bayer mosaics to RGB.
//!
//! The arithmetic is that of OpenCV's bilinear `cvtColor` (and so of cv_bridge and image_proc): a
//! missing colour is the mean of the two or four neighbours that have it, rounded half up. The outermost
//! lines and columns repeat their inner neighbours.
//!
//! ROS names a pattern by its first two pixels and the two below them. OpenCV 3 and 4 name it by the
//! second and third pixel of the second line: `bayer_rggb8` is `COLOR_BayerBG2RGB` (the same as
//! `COLOR_BayerRGGB2RGB`), `bayer_bggr8` is `COLOR_BayerRG2RGB`, `bayer_gbrg8` is `COLOR_BayerGR2RGB`,
//! and `bayer_grbg8` is `COLOR_BayerGB2RGB`.

use super::malformed;
use crate::rejected::Rejected;
use robocache_ops::image::{Encoding, ImageView};

/// The colours of the first two pixels of the first two lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names are the patterns' own
pub enum Bayer {
    Rggb,
    Bggr,
    Gbrg,
    Grbg,
}

impl Bayer {
    /// All of them.
    pub const ALL: [Bayer; 4] = [Bayer::Rggb, Bayer::Bggr, Bayer::Gbrg, Bayer::Grbg];

    /// The name in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Bayer::Rggb => "bayer_rggb8",
            Bayer::Bggr => "bayer_bggr8",
            Bayer::Gbrg => "bayer_gbrg8",
            Bayer::Grbg => "bayer_grbg8",
        }
    }

    /// Column and line of the first red pixel.
    const fn red(self) -> [usize; 2] {
        match self {
            Bayer::Rggb => [0, 0],
            Bayer::Bggr => [1, 1],
            Bayer::Gbrg => [0, 1],
            Bayer::Grbg => [1, 0],
        }
    }
}

/// Converts a mosaic of `width` x `height` bytes, with `step` bytes from one line to the next, into
/// `pixels`, whose memory is used again. The caller has checked that `data` holds the lines.
///
/// # Errors
/// `Malformed` if a side is shorter than 3 pixels: then a colour may be missing.
pub fn to_rgb<'a>(
    pattern: Bayer,
    [width, height]: [usize; 2],
    (step, data): (usize, &[u8]),
    pixels: &'a mut Vec<u8>,
) -> Result<ImageView<'a>, Rejected> {
    if width < 3 || height < 3 {
        let name = pattern.name();
        return Err(malformed(format!("{name}: expected at least 3x3 px, found {width}x{height}")));
    }
    let line = 3 * width;
    pixels.resize(line * height, 0);
    let [red_x, red_y] = pattern.red();
    for y in 1..height - 1 {
        let lines = [y - 1, y, y + 1].map(|y| &data[y * step..y * step + width]);
        let out = &mut pixels[y * line..(y + 1) * line];
        let red_line = y % 2 == red_y;
        // Green is beside the colour of its line.
        let first_is_green = (red_x == 0) != red_line;
        match red_line {
            true => inner::<0>(lines, first_is_green, out),
            false => inner::<2>(lines, first_is_green, out),
        }
        out.copy_within(3..6, 0);
        out.copy_within(line - 6..line - 3, line - 3);
    }
    pixels.copy_within(line..2 * line, 0);
    pixels.copy_within((height - 2) * line..(height - 1) * line, (height - 1) * line);
    Ok(ImageView { encoding: Encoding::Rgb8, width, height, step: line, data: pixels, remap: None })
}

/// All pixels of a line but the first and the last. `OWN` is the channel of the line's colour beside
/// green.
#[inline(always)]
fn inner<const OWN: usize>(lines: [&[u8]; 3], first_is_green: bool, out: &mut [u8]) {
    let [above, here, below] = lines.map(threes);
    let pixels = out[3..].as_chunks_mut::<3>().0;
    for (x, (((above, here), below), pixel)) in above.zip(here).zip(below).zip(pixels).enumerate() {
        // `x` is one less than the column.
        let green = (x % 2 == 1) == first_is_green;
        let [own, middle, other] = if green {
            [mean2(here[0], here[2]), here[1], mean2(above[1], below[1])]
        } else {
            [
                here[1],
                mean4([above[1], here[0], here[2], below[1]]),
                mean4([above[0], above[2], below[0], below[2]]),
            ]
        };
        pixel[OWN] = own;
        pixel[1] = middle;
        pixel[2 - OWN] = other;
    }
}

/// Neighbouring bytes, three at a time.
fn threes(line: &[u8]) -> impl Iterator<Item = &[u8; 3]> {
    line.windows(3).filter_map(|three| three.first_chunk())
}

fn mean2(a: u8, b: u8) -> u8 {
    ((u16::from(a) + u16::from(b) + 1) >> 1) as u8
}

fn mean4(four: [u8; 4]) -> u8 {
    ((four.map(u16::from).iter().sum::<u16>() + 2) >> 2) as u8
}
