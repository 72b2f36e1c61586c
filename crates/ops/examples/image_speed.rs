//! Time to turn a camera image into a row, on one core:
//! `cargo run --release --example image_speed`.
//! To compare with Pillow and NumPy: `python tests/golden/make_image_golden.py --speed`; with OpenCV's
//! `remap`: `python tests/golden/make_undistort_golden.py --speed`.

use std::time::Instant;

use robocache_ops::dtype::DType;
use robocache_ops::image::camera::{Camera, Lens};
use robocache_ops::image::cpu::ImageEncoder;
use robocache_ops::image::{Color, Encoding, Filter, Fit, ImageSpec, ImageView, Resize};

fn main() {
    undistort();
    resize();
}

/// The plumb_bob camera of `make_undistort_golden.py --speed`.
fn undistort() {
    let [width, height] = [1920, 1080];
    let fx = 1100.3;
    let fy = 1102.1;
    let cx = 955.3;
    let cy = 541.7;
    let mut coefficients = [0.0; 14];
    coefficients[..5].copy_from_slice(&[-0.3127, 0.1263, 0.00071, -0.00043, -0.0217]);
    let camera = Camera {
        size: [width, height],
        first: [0, 0],
        lens: Lens::Polynomial(coefficients),
        focal: [fx, fy],
        centre: [cx, cy],
        ray: [[1.0 / fx, 0.0, -cx / fx], [0.0, 1.0 / fy, -cy / fy], [0.0, 0.0, 1.0]],
    };
    let make = |name: &str, camera: &Camera| {
        let start = Instant::now();
        let table = camera.remap(&[0..width, 0..height]).expect("a lens that bends");
        println!("table of 1920x1080, {name}: {:.1} ms", start.elapsed().as_secs_f64() * 1e3);
        table
    };
    let table = make("plumb_bob", &camera);
    let fisheye = Lens::Equidistant([-0.02, 0.007, -0.008, 0.002]);
    make("equidistant", &Camera { lens: fisheye, ..camera });
    for encoding in [Encoding::Rgb8, Encoding::Rgba8, Encoding::Mono8] {
        let step = width * encoding.bytes_per_pixel();
        let data: Vec<u8> = (0..(step * height) as u32)
            .map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8)
            .collect();
        let view = ImageView { encoding, width, height, step, data: &data, remap: None };
        let mut out = Vec::new();
        let (median, least) = times(60, || {
            std::hint::black_box(table.run(None, std::hint::black_box(&view), &mut out));
        });
        println!("undistort 1920x1080 {}: {median:.3} {least:.3}", encoding.name());
    }
}

/// Median and least time of `runs` runs [ms].
fn times(runs: usize, mut run: impl FnMut()) -> (f64, f64) {
    let mut times: Vec<f64> = (0..runs)
        .map(|_| {
            let start = Instant::now();
            run();
            start.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    times.sort_by(f64::total_cmp);
    (times[runs / 2], times[0])
}

fn resize() {
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
            remap: None,
        };
        let mut encoder = ImageEncoder::new(&spec, dtype);
        let mut row = vec![0; color.channels() * 224 * 224 * dtype.size()];
        let (median, least) = times(300, || {
            encoder.encode(std::hint::black_box(&view), &mut row);
            std::hint::black_box(&row);
        });
        let name = encoding.name();
        let filter = filter.name();
        let dtype = dtype.name();
        println!("{name:>5} -> {color:?} {filter} {fit:?} {dtype:<4} {median:.3} {least:.3}");
    }
}
