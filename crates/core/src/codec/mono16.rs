//! Gray images of 16 bits to gray of 8 bits, as cv_bridge converts `mono16` to `mono8`: by 255/65535,
//! rounded to nearest. That is a division by 257, which has no ties.

use robocache_ops::image::{Encoding, ImageView};

/// Converts an image of `width` x `height` numbers, with `step` bytes from one line to the next, into
/// `pixels`, whose memory is used again. The caller has checked that `data` holds the lines.
pub fn to_mono8<'a>(
    [width, height]: [usize; 2],
    step: usize,
    data: &[u8],
    big_endian: bool,
    pixels: &'a mut Vec<u8>,
) -> ImageView<'a> {
    pixels.resize(width * height, 0);
    let number = if big_endian { u16::from_be_bytes } else { u16::from_le_bytes };
    for (y, out) in pixels.chunks_exact_mut(width).enumerate() {
        let line = data[y * step..y * step + 2 * width].as_chunks::<2>().0;
        for (level, raw) in out.iter_mut().zip(line) {
            *level = byte(number(*raw));
        }
    }
    ImageView { encoding: Encoding::Mono8, width, height, step: width, data: pixels, remap: None }
}

/// The byte of a number.
pub(super) fn byte(number: u16) -> u8 {
    ((u32::from(number) + 128) / 257) as u8
}
