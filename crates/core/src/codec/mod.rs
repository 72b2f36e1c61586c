//! Images that are no pixels yet: compressed files, YUV, Bayer mosaics, gray of 16 bits.
//!
//! JPEG becomes what libjpeg-turbo makes of it with its usual settings, as in Pillow: a
//! policy that was trained on files sees the same pixels on the robot. Before anything is decoded,
//! the sizes in the file's header are compared with what the configuration allows, because a file
//! of a hundred bytes may declare a gigabyte of pixels.

pub mod bayer;
pub mod depth;
mod file_reader;
mod format;
mod jpeg;
mod jpeg_parts;
mod jpeg_row;
pub mod mono16;
mod png;
mod rvl;
mod scan;
#[cfg(test)]
mod tests;
pub mod yuv;

pub use file_reader::FileReader;
pub use format::{PixelFormat, RawImage};
pub use jpeg_row::JpegRow;
pub use scan::ScanReader;

use crate::rejected::{DropReason, Rejected};
use crate::sample::CompressedImage;
use robocache_ops::image::{Encoding, ImageView};

const JPEG: [u8; 3] = [0xFF, 0xD8, 0xFF];
const PNG: [u8; 8] = *b"\x89PNG\r\n\x1A\n";

/// True if the first bytes are those of a PNG file.
pub fn is_png(file: &[u8]) -> bool {
    file.starts_with(&PNG)
}

/// The width and height that a JPEG or PNG file declares \[px\]. Nothing is decoded.
///
/// # Errors
/// `Unsupported`: neither JPEG nor PNG. `Malformed`: the file declares none.
pub fn size(file: &[u8]) -> Result<[usize; 2], Rejected> {
    let size = match file {
        _ if file.starts_with(&JPEG) => jpeg_parts::size(file),
        _ if file.starts_with(&PNG) => png_size(file),
        _ => return Err(no_picture(file)),
    };
    size.ok_or_else(|| malformed("image: expected a width and a height, found none".to_owned()))
}

/// The first part of PNG is IHDR: 4 bytes of length, its name, width and height.
fn png_size(file: &[u8]) -> Option<[usize; 2]> {
    let size = file.get(PNG.len() + 4..)?.strip_prefix(b"IHDR")?;
    let side = |at: usize| Some(u32::from_be_bytes(*size.get(at..)?.first_chunk()?) as usize);
    Some([side(0)?, side(4)?])
}

/// The drop of a file that is neither JPEG nor PNG.
fn no_picture(file: &[u8]) -> Rejected {
    let found = &file[..file.len().min(8)];
    unsupported(format!("data: expected a JPEG or PNG file, found the bytes {found:02x?}"))
}

/// Decodes a compressed image into `pixels`, whose memory is used again.
///
/// # Errors
/// Those of [`decode`]. `Malformed` also if the pixels do not have the size that the file declares.
pub fn decode_compressed<'a>(
    image: &CompressedImage<'_>,
    pixels: &'a mut Vec<u8>,
) -> Result<ImageView<'a>, Rejected> {
    let CompressedImage { file, size, is_swapped, is_mono16, .. } = *image;
    let mut view = match is_mono16 {
        true => decode_mono16(file, size, pixels)?,
        false => decode(file, size, pixels)?,
    };
    if [view.width, view.height] != size {
        let [w, h] = size;
        let ImageView { width, height, .. } = view;
        return Err(malformed(format!("image: expected {w}x{h} px, found {width}x{height} px")));
    }
    if is_swapped {
        view.encoding = swapped(view.encoding);
    }
    Ok(view)
}

/// The encoding if red and blue have changed places.
fn swapped(encoding: Encoding) -> Encoding {
    match encoding {
        Encoding::Rgb8 => Encoding::Bgr8,
        Encoding::Rgba8 => Encoding::Bgra8,
        other => other,
    }
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
        _ => return Err(no_picture(file)),
    };
    let step = width * encoding.bytes_per_pixel();
    Ok(ImageView { encoding, width, height, step, data: pixels, remap: None })
}

/// Decodes a PNG file of gray with 16 bits into gray of 8 bits; see [`mono16`].
///
/// # Errors
/// As [`decode`].
fn decode_mono16<'a>(
    file: &[u8],
    largest: [usize; 2],
    pixels: &'a mut Vec<u8>,
) -> Result<ImageView<'a>, Rejected> {
    let mut deep = Vec::new();
    let [width, height] = png::decode_gray16(file, largest, &mut deep)?;
    Ok(mono16::to_mono8([width, height], 2 * width, &deep, true, pixels))
}

/// Form of decoded pixels: lines without padding.
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
