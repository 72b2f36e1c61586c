//! Measures JPEG of rows of images: size, PSNR and times on one core.
//!
//!     cargo run --release -p robocache_core --example jpeg_rows -- photo.png ...
//!
//! The files are PNG or JPEG, of the size of a row.

use std::hint::black_box;
use std::time::Instant;

use robocache_core::codec::{self, JpegRow};
use robocache_ops::image::{Color, Encoding, ImageLayout};

/// Rounds over all images. The fastest round counts.
const ROUNDS: usize = 101;
/// The greatest side of an image \[px\].
const LARGEST: [usize; 2] = [4096, 4096];

/// An image: its width and height, and its row.
type Image = ([usize; 2], Vec<u8>);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let images = std::env::args().skip(1).map(image).collect::<Result<Vec<_>, _>>()?;
    if images.is_empty() {
        return Err("expected PNG or JPEG files, found none".into());
    }
    let values: usize = images.iter().map(|(_, row)| row.len()).sum();
    for quality in [100, 95, 90, 85, 75] {
        let mut pixels = Vec::new();
        let mut again = Vec::new();
        let mut files = vec![Vec::new(); images.len()];
        let encode = fastest(|| {
            for (image, file) in images.iter().zip(&mut files) {
                of(image, quality).encode(&image.1, &mut pixels, file).expect("it is such a row");
            }
        });
        let decode = fastest(|| {
            for (image, file) in images.iter().zip(&files) {
                again.resize(image.1.len(), 0);
                let decoded = of(image, quality).decode(file, &mut pixels, &mut again);
                decoded.expect("it was just written");
                black_box(&again);
            }
        });
        let mut error = 0.0;
        for (image, file) in images.iter().zip(&files) {
            again.resize(image.1.len(), 0);
            of(image, quality).decode(file, &mut pixels, &mut again)?;
            let pairs = image.1.iter().zip(&again);
            error += pairs.map(|(a, b)| f64::from(a.abs_diff(*b)).powi(2)).sum::<f64>();
        }
        let psnr = 10.0 * (255.0 * 255.0 * values as f64 / error).log10();
        let count = images.len();
        let bytes = files.iter().map(Vec::len).sum::<usize>() / count;
        let [encode, decode] = [encode, decode].map(|s| 1e3 * s / count as f64);
        println!(
            "jpeg:{quality}: {bytes} of {} bytes, PSNR {psnr:.1} dB, encode {encode:.2} ms, decode {decode:.2} ms",
            values / count
        );
    }
    Ok(())
}

fn of(image: &Image, quality: u8) -> JpegRow {
    let [width, height] = image.0;
    let layout = ImageLayout::Chw;
    JpegRow { quality, width, height, color: Color::Rgb, layout }
}

/// Reads a file of colours as a row `[3, height, width]`.
fn image(path: String) -> Result<Image, Box<dyn std::error::Error>> {
    let mut pixels = Vec::new();
    let view = codec::decode(&std::fs::read(&path)?, LARGEST, &mut pixels)
        .map_err(|wrong| format!("{path}: {}", wrong.detail))?;
    if view.encoding != Encoding::Rgb8 {
        return Err(format!("{path}: expected colours, found {:?}", view.encoding).into());
    }
    let size = [view.width, view.height];
    let plane = view.width * view.height;
    let row = (0..3 * plane).map(|at| pixels[at % plane * 3 + at / plane]).collect();
    Ok((size, row))
}

/// The time of the fastest round \[s\]: what else the machine does is not in it.
fn fastest(mut round: impl FnMut()) -> f64 {
    let time = |_| {
        let start = Instant::now();
        round();
        start.elapsed().as_secs_f64()
    };
    (0..ROUNDS).map(time).fold(f64::INFINITY, f64::min)
}
