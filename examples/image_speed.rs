//! Time to turn a camera image into a row, on one core:
//! `cargo run --release --no-default-features --example image_speed`.
//! To compare with Pillow and NumPy: `python tests/golden/make_image_golden.py --speed`.

use std::time::Instant;

use robocache::dtype::DType;
use robocache::ops::image::cpu::ImageEncoder;
use robocache::ops::image::{Color, Fit, ImageSpec};
use robocache::ops::image::{Encoding, ImageView};

fn main() {
    let data: Vec<u8> =
        (0..640 * 480 * 4u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    println!("640x480 into 224x224, [ms] per image: median and least of 300");
    for (encoding, color, fit, dtype) in [
        (Encoding::Rgb8, Color::Rgb, Fit::Pad, DType::Bf16),
        (Encoding::Rgb8, Color::Rgb, Fit::Pad, DType::F32),
        (Encoding::Rgb8, Color::Rgb, Fit::Stretch, DType::Bf16),
        (Encoding::Rgb8, Color::Rgb, Fit::Crop, DType::Bf16),
        (Encoding::Bgra8, Color::Rgb, Fit::Pad, DType::Bf16),
        (Encoding::Mono8, Color::Rgb, Fit::Pad, DType::Bf16),
        (Encoding::Rgb8, Color::Mono, Fit::Pad, DType::Bf16),
    ] {
        let spec = ImageSpec {
            width: 224,
            height: 224,
            fit,
            color,
            mean: [0.485, 0.456, 0.406],
            std: [0.229, 0.224, 0.225],
            pad_value: 0,
        };
        let bytes_per_pixel = encoding.bytes_per_pixel();
        let view = ImageView {
            encoding,
            width: 640,
            height: 480,
            step: 640 * bytes_per_pixel,
            data: &data,
        };
        let mut encoder = ImageEncoder::new(&spec, dtype);
        let mut row = vec![0; color.channels() * 224 * 224 * dtype.size()];
        let mut times: Vec<f64> = (0..300)
            .map(|_| {
                let start = Instant::now();
                encoder.encode(std::hint::black_box(&view), &mut row);
                std::hint::black_box(&row);
                start.elapsed().as_secs_f64() * 1e3
            })
            .collect();
        times.sort_by(f64::total_cmp);
        let (name, dtype) = (encoding.name(), dtype.name());
        println!("{name:>5} -> {color:?} {fit:?} {dtype:<4} {:.3} {:.3}", times[150], times[0]);
    }
}
