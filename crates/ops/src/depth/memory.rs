//! Memory on the GPU for depth images of a bounded size. It is reserved at the start, so that no
//! image ever needs more.

use super::spec::DepthSpec;

/// Most bytes of a pixel.
const MOST_BYTES_PER_PIXEL: usize = 4;

/// Bytes of the upload of an image of at most `[width, height]` pixels: the lines that are read, never
/// more than the row has.
pub fn upload_bytes(spec: &DepthSpec, [width, height]: [usize; 2]) -> usize {
    MOST_BYTES_PER_PIXEL * width * height.min(spec.height)
}
