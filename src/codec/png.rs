//! PNG by the crate `png`, which checks the sum of each part that it uses.

use std::io::Cursor;

use png::{BitDepth, ColorType, Decoder, Limits, Transformations};

use super::{Decoded, check_size, malformed, unsupported};
use crate::ops::image::Encoding;
use crate::pipeline::Rejected;

/// Memory for the parts of a file that are not pixels \[bytes\]: palettes, texts, profiles.
const METADATA: usize = 1 << 20;

/// See [`super::decode`].
pub(super) fn decode(
    file: &[u8],
    largest: [usize; 2],
    pixels: &mut Vec<u8>,
) -> Result<Decoded, Rejected> {
    let failed = |error: png::DecodingError| malformed(format!("PNG: {error}"));
    // Two lines of at most 8 bytes per pixel are in memory beside the pixels.
    let bytes = METADATA + 16 * largest[0];
    let mut decoder = Decoder::new_with_limits(Cursor::new(file), Limits { bytes });
    // Palettes and fewer than 8 bits become 8 bits.
    decoder.set_transformations(Transformations::EXPAND);
    decoder.set_ignore_text_chunk(true);
    let header = decoder.read_header_info().map_err(failed)?;
    let (width, height) = (header.width as usize, header.height as usize);
    check_size([width, height], largest)?;
    let mut reader = decoder.read_info().map_err(failed)?;
    let encoding = match reader.output_color_type() {
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
    pixels.resize(width * height * encoding.bytes_per_pixel(), 0);
    reader.next_frame(pixels).map_err(failed)?;
    // What follows the pixels, up to the end: a file that was cut has none.
    reader.finish().map_err(failed)?;
    Ok(Decoded { encoding, width, height })
}
