//! Pictures as data URIs.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::html::escaped;

/// The longest side of a picture \[px\]: larger ones are averaged down.
const MAX_SIDE: usize = 480;
/// Below this width the pixels of a picture are shown as squares.
const SQUARES_BELOW: usize = 160;

/// A picture in a report.
#[derive(Clone, Debug)]
pub struct Picture {
    width: usize,
    height: usize,
    uri: String,
}

impl Picture {
    /// A picture of `rgb` bytes \[height, width, 3\], line by line. `None` if the size is zero or does not fit
    /// the bytes. A large picture becomes smaller by a whole factor, with the mean of each block.
    pub fn of(width: usize, height: usize, rgb: &[u8]) -> Option<Self> {
        let size = width.checked_mul(height)?.checked_mul(3)?;
        if size == 0 || size != rgb.len() {
            return None;
        }
        let block = width.max(height).div_ceil(MAX_SIDE);
        if block == 1 {
            return Some(Self::exact(width, height, rgb));
        }
        let wide = width.div_ceil(block);
        let tall = height.div_ceil(block);
        let mut sums = vec![[0u32; 4]; wide * tall];
        for (at, pixel) in rgb.as_chunks::<3>().0.iter().enumerate() {
            let sum = &mut sums[at / width / block * wide + at % width / block];
            for (sum, part) in sum.iter_mut().zip(pixel) {
                *sum += u32::from(*part);
            }
            sum[3] += 1;
        }
        let mean = |[r, g, b, n]: [u32; 4]| [r, g, b].map(|sum| ((sum + n / 2) / n) as u8);
        let pixels: Vec<u8> = sums.into_iter().flat_map(mean).collect();
        Some(Self::exact(wide, tall, &pixels))
    }

    /// A picture of exactly these bytes; an empty one if they do not fit.
    pub(super) fn exact(width: usize, height: usize, rgb: &[u8]) -> Self {
        let uri = png(width, height, rgb)
            .map(|png| format!("data:image/png;base64,{}", STANDARD.encode(png)))
            .unwrap_or_default();
        Picture { width, height, uri }
    }

    /// The element; `alt` says what it shows.
    pub(super) fn img(&self, alt: &str) -> String {
        self.img_of_class(if self.width < SQUARES_BELOW { "squares" } else { "" }, alt)
    }

    pub(super) fn img_of_class(&self, class: &str, alt: &str) -> String {
        let Picture { width, height, uri } = self;
        let alt = escaped(alt);
        format!("<img class=\"{class}\" width={width} height={height} alt=\"{alt}\" src=\"{uri}\">")
    }
}

/// The bytes of a PNG file.
fn png(width: usize, height: usize, rgb: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, u32::try_from(width).ok()?, height as u32);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header().ok()?;
    writer.write_image_data(rgb).ok()?;
    writer.finish().ok()?;
    Some(bytes)
}
