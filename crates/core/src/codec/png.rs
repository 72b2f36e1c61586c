//! PNG by the crate `png`, which checks the sum of each part that it uses.

use std::io::Cursor;

use png::{BitDepth, ColorType, Decoder, Limits, Reader, Transformations};

use super::{Decoded, check_size, malformed, unsupported};
use crate::rejected::Rejected;
use robocache_ops::image::Encoding;

/// Memory for the parts of a file that are not pixels \[bytes\]: palettes, texts, profiles.
const METADATA: usize = 1 << 20;

/// See [`super::decode`].
pub(super) fn decode(
    file: &[u8],
    largest: [usize; 2],
    pixels: &mut Vec<u8>,
) -> Result<Decoded, Rejected> {
    // Palettes and fewer than 8 bits become 8 bits. Of 16 bits of a colour Pillow keeps the upper 8.
    let mut reader = open(file, largest, Transformations::EXPAND | Transformations::STRIP_16)?;
    let info = reader.info();
    let gray = matches!(info.color_type, ColorType::Grayscale | ColorType::GrayscaleAlpha);
    let found = match info.bit_depth {
        // Gray keeps all bits. It is no picture until the caller says how to scale it.
        BitDepth::Sixteen if gray => (info.color_type, BitDepth::Sixteen),
        _ => reader.output_color_type(),
    };
    let encoding = match found {
        (ColorType::Grayscale, BitDepth::Eight) => Encoding::Mono8,
        (ColorType::Rgb, BitDepth::Eight) => Encoding::Rgb8,
        (ColorType::Rgba, BitDepth::Eight) => Encoding::Rgba8,
        (color, depth) => {
            let detail = format!(
                "PNG: expected 8 bits of gray, RGB or RGBA, found {} bits of {color:?}",
                depth as u8
            );
            return Err(unsupported(detail));
        }
    };
    let [width, height] = read(&mut reader, encoding.bytes_per_pixel(), pixels)?;
    Ok(Decoded { encoding, width, height })
}

/// Decodes gray of 16 bits: the most significant byte first, lines without padding. Returns width and
/// height.
///
/// # Errors
/// As [`super::decode`].
pub(super) fn decode_gray16(
    file: &[u8],
    largest: [usize; 2],
    pixels: &mut Vec<u8>,
) -> Result<[usize; 2], Rejected> {
    let mut reader = open(file, largest, Transformations::IDENTITY)?;
    match reader.output_color_type() {
        (ColorType::Grayscale, BitDepth::Sixteen) => read(&mut reader, 2, pixels),
        (color, depth) => {
            let depth = depth as u8;
            let detail = format!("PNG: expected 16 bits of gray, found {depth} bits of {color:?}");
            Err(unsupported(detail))
        }
    }
}

/// Reads a file up to its pixels, and checks their size.
fn open(
    file: &[u8],
    largest: [usize; 2],
    transformations: Transformations,
) -> Result<Reader<Cursor<&[u8]>>, Rejected> {
    // Two lines of at most 8 bytes per pixel are in memory beside the pixels.
    let bytes = METADATA + 16 * largest[0];
    let mut decoder = Decoder::new_with_limits(Cursor::new(file), Limits { bytes });
    decoder.set_transformations(transformations);
    decoder.set_ignore_text_chunk(true);
    let header = decoder.read_header_info().map_err(failed)?;
    check_size([header.width as usize, header.height as usize], largest)?;
    let reader = decoder.read_info().map_err(failed)?;
    // The crate would panic where a colour lacks a byte.
    match reader.info().palette.as_ref().map_or(0, |palette| palette.len()) {
        bytes if bytes.is_multiple_of(3) => Ok(reader),
        bytes => {
            Err(malformed(format!("PNG: expected a palette of 3 bytes per colour, found {bytes}")))
        }
    }
}

/// Reads the pixels, and what follows them, up to the end: a file that was cut has none.
fn read(
    reader: &mut Reader<Cursor<&[u8]>>,
    bytes_per_pixel: usize,
    pixels: &mut Vec<u8>,
) -> Result<[usize; 2], Rejected> {
    let width = reader.info().width as usize;
    let height = reader.info().height as usize;
    pixels.resize(width * height * bytes_per_pixel, 0);
    reader.next_frame(pixels).map_err(failed)?;
    reader.finish().map_err(failed)?;
    Ok([width, height])
}

fn failed(error: png::DecodingError) -> Rejected {
    malformed(format!("PNG: {error}"))
}
