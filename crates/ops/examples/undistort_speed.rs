//! Time to undistort an image on one core: `cargo run --release --example undistort_speed`. That of OpenCV's `remap`:
//! `python tests/golden/make_undistort_golden.py --speed`. `benches/jpeg.py` times the way from a file to a row.

use std::time::Instant;

use robocache_ops::image::camera::{Camera, Lens};
use robocache_ops::image::{Encoding, ImageView};

/// The plumb_bob camera of `make_undistort_golden.py --speed`.
fn main() {
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
        let mut times = [0.0; 60].map(|_: f64| {
            let start = Instant::now();
            std::hint::black_box(table.run(None, std::hint::black_box(&view), &mut out));
            start.elapsed().as_secs_f64() * 1e3
        });
        times.sort_by(f64::total_cmp);
        let (median, least) = (times[30], times[0]);
        println!("undistort 1920x1080 {} [ms]: {median:.3} {least:.3}", encoding.name());
    }
}
