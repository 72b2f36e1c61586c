//! Memory on the GPU for images of a bounded size. It is reserved at the start, so that no image
//! ever needs more.

use super::geometry::Axis;
use super::spec::ImageSpec;

/// Most bytes of a pixel, over all encodings.
const MOST_BYTES_PER_PIXEL: usize = 4;

/// The image is at a multiple of this in an upload.
pub const IMAGE_ALIGNMENT: usize = 256;

/// Bytes of a tap on the device: three numbers of 32 bits.
const TAP_BYTES: usize = 12;

/// Bytes of the upload of an image of at most `[width, height]` pixels: its tables, then its lines
/// without padding.
pub fn upload_bytes(spec: &ImageSpec, [width, height]: [usize; 2]) -> usize {
    let tables = axis_bytes(width, spec.width) + axis_bytes(height, spec.height);
    tables.next_multiple_of(IMAGE_ALIGNMENT) + MOST_BYTES_PER_PIXEL * width * height
}

/// Bytes of the lines of such an image after the horizontal pass.
pub fn lines_bytes(spec: &ImageSpec, [_, height]: [usize; 2]) -> usize {
    MOST_BYTES_PER_PIXEL * spec.width * height
}

/// Bytes of the tables of one axis, for at most `inputs` pixels of the image and `outputs` of the
/// row.
fn axis_bytes(inputs: usize, outputs: usize) -> usize {
    TAP_BYTES * outputs + size_of::<i32>() * Axis::most_coefficients(inputs, outputs)
}
