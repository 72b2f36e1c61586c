//! Several images of one size at once on the CPU, each on a core.

use super::cpu::ImageEncoder;
use super::spec::{Encoding, ImageSpec, ImageView};
use crate::dtype::DType;
use crate::parallel;

/// Images of one size, which follow one another without padding. No side is 0.
#[derive(Clone, Copy, Debug)]
pub struct Images<'a> {
    /// `[N, height, width, channels]`
    pub data: &'a [u8],
    /// Pixel format.
    pub encoding: Encoding,
    /// Width \[px\].
    pub width: usize,
    /// Height \[px\].
    pub height: usize,
}

impl Images<'_> {
    /// Bytes of a line.
    pub fn step(&self) -> usize {
        self.width * self.encoding.bytes_per_pixel()
    }
}

/// Writes the row of every image.
///
/// # Panics
/// If `rows` has another size than the rows of all images, or an image lacks the part that the spec crops.
pub fn encode(
    spec: &ImageSpec,
    dtype: DType,
    images: &Images<'_>,
    rows: &mut [u8],
    threads: usize,
) {
    let Images { data, encoding, width, height } = *images;
    let step = images.step();
    let row_bytes = spec.row_len() * dtype.size();
    let work: Vec<_> = data.chunks(step * height).zip(rows.chunks_mut(row_bytes)).collect();
    assert_eq!(work.len() * step * height, data.len(), "encode: images");
    let make = || ImageEncoder::new(spec, dtype);
    parallel::for_each(work, threads, make, |encoder, (data, row)| {
        encoder.encode(&ImageView { encoding, width, height, step, data, remap: None }, row);
    });
}
