//! Time to turn a camera image into a row, on one core:
//! `cargo run --release --no-default-features --example image_speed`.
//! To compare with Pillow and NumPy: `python tests/golden/make_image_golden.py --speed`.

use std::time::Instant;

use robocache::dtype::DType;
use robocache::ops::image::cpu::ImageEncoder;
use robocache::ops::image::{Color, Encoding, Filter, Fit, ImageSpec, ImageView, Resize};

fn main() {
    let data: Vec<u8> =
        (0..640 * 480 * 4u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    println!("640x480 into 224x224, [ms] per image: median and least of 300");
    let others = [Filter::TorchBilinear, Filter::TorchBilinearAntialias, Filter::Cv2Linear]
        .into_iter()
        .chain([Filter::Cv2Area, Filter::Nearest])
        .map(|filter| (Encoding::Rgb8, Color::Rgb, Fit::PadCenter, filter, DType::Bf16));
    let pillow = [
        (Encoding::Rgb8, Color::Rgb, Fit::PadCenter, DType::Bf16),
        (Encoding::Rgb8, Color::Rgb, Fit::PadCenter, DType::F32),
        (Encoding::Rgb8, Color::Rgb, Fit::Stretch, DType::Bf16),
        (Encoding::Rgb8, Color::Rgb, Fit::CropCenter, DType::Bf16),
        (Encoding::Bgra8, Color::Rgb, Fit::PadCenter, DType::Bf16),
        (Encoding::Mono8, Color::Rgb, Fit::PadCenter, DType::Bf16),
        (Encoding::Rgb8, Color::Mono, Fit::PadCenter, DType::Bf16),
    ]
    .map(|(encoding, color, fit, dtype)| (encoding, color, fit, Filter::PilBilinear, dtype));
    for (encoding, color, fit, filter, dtype) in pillow.into_iter().chain(others) {
        let resize = Resize { fit, filter, ..Resize::to(224, 224) };
        let spec = ImageSpec {
            color,
            mean: [0.485, 0.456, 0.406],
            std: [0.229, 0.224, 0.225],
            ..ImageSpec::new(vec![resize])
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
        let (name, filter, dtype) = (encoding.name(), filter.name(), dtype.name());
        println!(
            "{name:>5} -> {color:?} {filter} {fit:?} {dtype:<4} {:.3} {:.3}",
            times[150], times[0]
        );
    }
}
