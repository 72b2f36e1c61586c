//! Memory on the GPU for images of a bounded size. It is reserved at the start, so that no image
//! ever needs more.

use super::jpeg::{BLOCK, PIECE_BITS};
use super::spec::{Filter, ImageSpec, Resize};
use crate::device::shared::image::{JOIN_THREADS, JpegBase, JpegPiece, SEQUENCE};

/// Most bytes of a pixel, over all encodings.
const MOST_BYTES_PER_PIXEL: usize = 4;

/// The image is at a multiple of this in an upload.
pub const IMAGE_ALIGNMENT: usize = 256;

/// Bytes of a point in the table that undistorts an image.
pub const POINT_BYTES: usize = 4;
/// Bytes of its fractions.
pub const FRACTION_BYTES: usize = 2;
/// Most bytes of an undistorted pixel.
pub const REMAPPED_BYTES: usize = 3;

/// Pieces that the kernels join, at most.
const MOST_PIECES: usize = (JOIN_THREADS * SEQUENCE) as usize;

/// Bytes of a tap on the device: three numbers of 32 bits.
const TAP_BYTES: usize = 12;

/// Bytes of the upload of an image of at most `[width, height]` pixels: the tables of all resizes, then
/// its lines without padding.
pub fn upload_bytes(spec: &ImageSpec, [width, height]: [usize; 2]) -> usize {
    let tables: usize = inputs(spec, [width, height])
        .zip(&spec.resizes)
        .map(|(inputs, resize)| {
            let weight_bytes = if resize.filter.has_bytes_between() { 4 } else { 8 };
            let axis = |inputs: usize, outputs: usize| {
                TAP_BYTES * outputs + weight_bytes * most_weights(inputs, outputs)
            };
            axis(inputs[0], resize.width) + axis(inputs[1], resize.height)
        })
        .sum();
    tables.next_multiple_of(IMAGE_ALIGNMENT) + MOST_BYTES_PER_PIXEL * width * height
}

/// Bytes of what the first pass gives of such an image, for whichever resize has most.
pub fn lines_bytes(spec: &ImageSpec, largest: [usize; 2]) -> usize {
    let bytes = inputs(spec, largest).zip(&spec.resizes).map(|([width, height], resize)| {
        let pixel = if resize.filter.has_bytes_between() { 4 } else { 16 };
        let mut pixels = resize.width * height;
        if resize.filter == Filter::Pil13Bilinear {
            pixels = pixels.max(width * resize.height);
        }
        pixel * pixels
    });
    bytes.max().unwrap_or(0)
}

/// Bytes of the images between the resizes.
pub fn between_bytes(spec: &ImageSpec) -> usize {
    let bytes = |resize: &Resize| spec.color.channels() * resize.width * resize.height;
    spec.resizes.iter().rev().skip(1).map(bytes).sum()
}

/// Bytes of what undistorts images, the table and the result; 0 if nothing does.
pub fn remap_bytes(spec: &ImageSpec, largest: [usize; 2]) -> usize {
    let pixels = remap_pixels(spec, largest);
    if spec.undistort { (POINT_BYTES + FRACTION_BYTES + REMAPPED_BYTES) * pixels } else { 0 }
}

/// Bytes of the samples of a JPEG image, in whole units of at most 16x16 pixels.
pub const fn jpeg_samples([width, height]: [usize; 2]) -> usize {
    3 * width.next_multiple_of(16) * height.next_multiple_of(16)
}

/// Bytes from one line of its pixels to the next: those of whole fours of pixels.
pub const fn jpeg_step(width: usize) -> usize {
    3 * width.next_multiple_of(4)
}

/// Blocks of a JPEG image.
pub const fn jpeg_blocks(largest: [usize; 2]) -> usize {
    jpeg_samples(largest) / BLOCK
}

/// Entries of a JPEG image, at most. The first coefficients of all blocks have room, and a photograph has far fewer.
pub const fn jpeg_entries(largest: [usize; 2]) -> usize {
    jpeg_samples(largest) / 2
}

/// Pieces of the compressed data of a JPEG image, at most.
pub const fn jpeg_pieces(largest: [usize; 2]) -> usize {
    let pieces = jpeg_blocks(largest) + jpeg_samples(largest) / (PIECE_BITS / 8);
    if pieces < MOST_PIECES { pieces } else { MOST_PIECES }
}

/// Bytes on the device for a JPEG image.
pub const fn jpeg_bytes(largest: [usize; 2]) -> usize {
    let per_piece = size_of::<JpegPiece>() + size_of::<JpegBase>();
    let entries =
        size_of::<u16>() * jpeg_entries(largest) + size_of::<u32>() * jpeg_blocks(largest);
    let pixels = jpeg_samples(largest) + jpeg_step(largest[0]) * largest[1];
    pixels + entries + per_piece * jpeg_pieces(largest)
}

/// Pixels of the part of an image that is used.
pub fn remap_pixels(spec: &ImageSpec, [width, height]: [usize; 2]) -> usize {
    spec.crop.map_or(width * height, |crop| crop.width * crop.height)
}

/// The largest image that each resize takes: width and height.
fn inputs(spec: &ImageSpec, largest: [usize; 2]) -> impl Iterator<Item = [usize; 2]> + '_ {
    let results = spec.resizes.iter().map(|resize| [resize.width, resize.height]);
    std::iter::once(largest).chain(results)
}

/// At most this many weights, for an axis of at most `inputs` pixels and for at most `outputs` pixels.
/// An output reads twice its support, rounded up, and one more where the arithmetic rounds.
pub const fn most_weights(inputs: usize, outputs: usize) -> usize {
    let most = if inputs > outputs { inputs } else { outputs };
    2 * most + 2 * outputs
}
