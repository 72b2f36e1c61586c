//! Bayer mosaics to RGB.
//!
//! The arithmetic is that of OpenCV's bilinear `cvtColor` (and so of cv_bridge and image_proc): a
//! missing colour is the mean of the two or four neighbours that have it, rounded half up. The outermost
//! lines and columns repeat their inner neighbours. Numbers of 16 bits become colours of 16 bits in this way, and
//! then bytes as those of [`mono16`] do: so does cv_bridge.
//!
//! ROS names a pattern by its first two pixels and the two below them. OpenCV 3 and 4 name it by the
//! second and third pixel of the second line: `bayer_rggb8` is `COLOR_BayerBG2RGB` (the same as
//! `COLOR_BayerRGGB2RGB`), `bayer_bggr8` is `COLOR_BayerRG2RGB`, `bayer_gbrg8` is `COLOR_BayerGR2RGB`,
//! and `bayer_grbg8` is `COLOR_BayerGB2RGB`.

use super::{malformed, mono16};
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

    /// The name in messages, of numbers of 8 bits.
    pub const fn name(self) -> &'static str {
        match self {
            Bayer::Rggb => "bayer_rggb8",
            Bayer::Bggr => "bayer_bggr8",
            Bayer::Gbrg => "bayer_gbrg8",
            Bayer::Grbg => "bayer_grbg8",
        }
    }

    /// The name in messages, of numbers of 16 bits.
    pub const fn name16(self) -> &'static str {
        match self {
            Bayer::Rggb => "bayer_rggb16",
            Bayer::Bggr => "bayer_bggr16",
            Bayer::Gbrg => "bayer_gbrg16",
            Bayer::Grbg => "bayer_grbg16",
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
    size: [usize; 2],
    step: usize,
    data: &[u8],
    pixels: &'a mut Vec<u8>,
) -> Result<ImageView<'a>, Rejected> {
    check_sides(pattern.name(), size)?;
    Ok(demosaic::<u8>(pattern, size, step, data, pixels))
}

/// Converts a mosaic of numbers of 16 bits, as [`to_rgb`] does one of bytes.
///
/// # Errors
/// As [`to_rgb`].
pub fn to_rgb16<'a>(
    pattern: Bayer,
    size: [usize; 2],
    step: usize,
    data: &[u8],
    big_endian: bool,
    pixels: &'a mut Vec<u8>,
) -> Result<ImageView<'a>, Rejected> {
    check_sides(pattern.name16(), size)?;
    Ok(match big_endian {
        false => demosaic::<Deep<false>>(pattern, size, step, data, pixels),
        true => demosaic::<Deep<true>>(pattern, size, step, data, pixels),
    })
}

fn check_sides(name: &str, [width, height]: [usize; 2]) -> Result<(), Rejected> {
    if width < 3 || height < 3 {
        return Err(malformed(format!("{name}: expected at least 3x3 px, found {width}x{height}")));
    }
    Ok(())
}

fn demosaic<'a, L: Level>(
    pattern: Bayer,
    [width, height]: [usize; 2],
    step: usize,
    data: &[u8],
    pixels: &'a mut Vec<u8>,
) -> ImageView<'a> {
    let line = 3 * width;
    pixels.resize(line * height, 0);
    let [red_x, red_y] = pattern.red();
    for y in 1..height - 1 {
        let lines = [y - 1, y, y + 1].map(|y| L::line(&data[y * step..], width));
        let out = &mut pixels[y * line..(y + 1) * line];
        let red_line = y % 2 == red_y;
        // Green is beside the colour of its line.
        let first_is_green = (red_x == 0) != red_line;
        match red_line {
            true => inner::<0, L>(lines, first_is_green, out),
            false => inner::<2, L>(lines, first_is_green, out),
        }
        out.copy_within(3..6, 0);
        out.copy_within(line - 6..line - 3, line - 3);
    }
    pixels.copy_within(line..2 * line, 0);
    pixels.copy_within((height - 2) * line..(height - 1) * line, (height - 1) * line);
    ImageView { encoding: Encoding::Rgb8, width, height, step: line, data: pixels, remap: None }
}

/// All pixels of a line but the first and the last. `OWN` is the channel of the line's colour beside
/// green.
#[inline(always)]
fn inner<const OWN: usize, L: Level>(lines: [&[L::Raw]; 3], first_is_green: bool, out: &mut [u8]) {
    let [above, here, below] = lines.map(threes::<L>);
    let pixels = out[3..].as_chunks_mut::<3>().0;
    for (x, (((above, here), below), pixel)) in above.zip(here).zip(below).zip(pixels).enumerate() {
        // `x` is one less than the column.
        let green = (x % 2 == 1) == first_is_green;
        let [own, middle, other] = if green {
            [L::mean2(here[0], here[2]), here[1], L::mean2(above[1], below[1])]
        } else {
            [
                here[1],
                L::mean4([above[1], here[0], here[2], below[1]]),
                L::mean4([above[0], above[2], below[0], below[2]]),
            ]
        };
        pixel[OWN] = own.byte();
        pixel[1] = middle.byte();
        pixel[2 - OWN] = other.byte();
    }
}

/// Neighbouring numbers, three at a time.
fn threes<L: Level>(line: &[L::Raw]) -> impl Iterator<Item = [L; 3]> {
    line.windows(3).filter_map(|three| Some(three.first_chunk::<3>()?.map(L::read)))
}

/// A number of a mosaic.
trait Level: Copy {
    /// The number in a message.
    type Raw: Copy;

    /// The first `width` numbers of these bytes.
    fn line(bytes: &[u8], width: usize) -> &[Self::Raw];
    fn read(raw: Self::Raw) -> Self;
    /// The mean, rounded half up.
    fn mean2(a: Self, b: Self) -> Self;
    fn mean4(four: [Self; 4]) -> Self;
    fn byte(self) -> u8;
}

impl Level for u8 {
    type Raw = u8;

    fn line(bytes: &[u8], width: usize) -> &[u8] {
        &bytes[..width]
    }

    fn read(raw: u8) -> u8 {
        raw
    }

    fn mean2(a: u8, b: u8) -> u8 {
        ((u16::from(a) + u16::from(b) + 1) >> 1) as u8
    }

    fn mean4(four: [u8; 4]) -> u8 {
        ((four.map(u16::from).iter().sum::<u16>() + 2) >> 2) as u8
    }

    fn byte(self) -> u8 {
        self
    }
}

/// A number of 16 bits, whose bytes have the order `BIG_ENDIAN`.
#[derive(Clone, Copy)]
struct Deep<const BIG_ENDIAN: bool>(u16);

impl<const BIG_ENDIAN: bool> Level for Deep<BIG_ENDIAN> {
    type Raw = [u8; 2];

    fn line(bytes: &[u8], width: usize) -> &[[u8; 2]] {
        bytes[..2 * width].as_chunks().0
    }

    fn read(raw: [u8; 2]) -> Self {
        Deep(if BIG_ENDIAN { u16::from_be_bytes(raw) } else { u16::from_le_bytes(raw) })
    }

    fn mean2(a: Self, b: Self) -> Self {
        Deep(((u32::from(a.0) + u32::from(b.0) + 1) >> 1) as u16)
    }

    fn mean4(four: [Self; 4]) -> Self {
        Deep(((four.map(|level| u32::from(level.0)).iter().sum::<u32>() + 2) >> 2) as u16)
    }

    fn byte(self) -> u8 {
        mono16::byte(self.0)
    }
}
