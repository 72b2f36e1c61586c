//! Images that are no pixels yet: compressed files, YUV, Bayer mosaics, gray of 16 bits.
//!
//! JPEG becomes what libjpeg-turbo makes of it with its usual settings, as in Pillow: a
//! policy that was trained on files sees the same pixels on the robot. Before anything is decoded,
//! the sizes in the file's header are compared with what the configuration allows, because a file
//! of a hundred bytes may declare a gigabyte of pixels.

pub mod bayer;
mod coefficients;
pub mod depth;
mod format;
mod jpeg;
mod jpeg_row;
pub mod mono16;
mod png;
mod rvl;
mod scans;
#[cfg(test)]
mod tests;
pub mod yuv;

pub use coefficients::CoefficientReader;
pub use format::{PixelFormat, RawImage};
pub use jpeg_row::JpegRow;

use crate::rejected::{DropReason, Rejected};
use robocache_ops::image::{Encoding, ImageView};

const JPEG: [u8; 3] = [0xFF, 0xD8, 0xFF];
const PNG: [u8; 8] = *b"\x89PNG\r\n\x1A\n";

/// Whether the first bytes are those of a PNG file.
pub fn is_png(file: &[u8]) -> bool {
    file.starts_with(&PNG)
}

/// The width and height that a JPEG or PNG file declares \[px\]. Nothing is decoded.
pub fn size(file: &[u8]) -> Option<[usize; 2]> {
    if file.starts_with(&JPEG) {
        return scans::size(file);
    }
    // The first chunk of PNG is IHDR: 4 bytes of length, its name, width and height.
    let size = file.strip_prefix(&PNG)?.get(8..16)?;
    let side = |at: usize| Some(u32::from_be_bytes(*size.get(at..)?.first_chunk()?) as usize);
    Some([side(0)?, side(4)?])
}

/// Decodes a file into `pixels`, whose memory is used again. `largest` is the greatest width and
/// height \[px\]. Whether the file is JPEG or PNG is in its first bytes.
///
/// # Errors
/// - `Unsupported`: neither JPEG nor PNG, or pixels that no row can be made of.
/// - `TooLarge`: more pixels than `largest`.
/// - `Malformed`: the file is damaged or cut. A part of an image is no image.
pub fn decode<'a>(
    file: &[u8],
    largest: [usize; 2],
    pixels: &'a mut Vec<u8>,
) -> Result<ImageView<'a>, Rejected> {
    let Decoded { encoding, width, height } = match file {
        _ if file.starts_with(&JPEG) => jpeg::decode(file, largest, pixels)?,
        _ if file.starts_with(&PNG) => png::decode(file, largest, pixels)?,
        _ => {
            let found = &file[..file.len().min(8)];
            let detail = format!("data: expected a JPEG or PNG file, found the bytes {found:02x?}");
            return Err(Rejected::new(DropReason::Unsupported, detail));
        }
    };
    let step = width * encoding.bytes_per_pixel();
    Ok(ImageView { encoding, width, height, step, data: pixels, remap: None })
}

/// Decodes a PNG file of gray with 16 bits into gray of 8 bits; see [`mono16`].
///
/// # Errors
/// As [`decode`].
pub fn decode_mono16<'a>(
    file: &[u8],
    largest: [usize; 2],
    pixels: &'a mut Vec<u8>,
) -> Result<ImageView<'a>, Rejected> {
    let mut deep = Vec::new();
    let [width, height] = png::decode_gray16(file, largest, &mut deep)?;
    Ok(mono16::to_mono8([width, height], (2 * width, &deep), true, pixels))
}

/// What was decoded: lines without padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Decoded {
    encoding: Encoding,
    width: usize,
    height: usize,
}

/// Checks the size in a file's header.
pub(crate) fn check_size([width, height]: [usize; 2], largest: [usize; 2]) -> Result<(), Rejected> {
    for (side, found, key, most) in [
        ("wide", width, "image.max_width_px", largest[0]),
        ("high", height, "image.max_height_px", largest[1]),
    ] {
        if found == 0 {
            let detail = format!("image: expected at least 1x1 pixels, found {width}x{height}");
            return Err(Rejected::new(DropReason::Malformed, detail));
        }
        if found > most {
            let detail = format!("image: expected at most {most} px {side} ({key}), found {found}");
            return Err(Rejected::new(DropReason::TooLarge, detail));
        }
    }
    Ok(())
}

fn malformed(detail: String) -> Rejected {
    Rejected::new(DropReason::Malformed, detail)
}

fn unsupported(detail: String) -> Rejected {
    Rejected::new(DropReason::Unsupported, detail)
}
