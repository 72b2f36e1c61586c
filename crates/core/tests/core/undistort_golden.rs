//! Cameras of every model, compared with OpenCV: both maps, and the pixels (golden values).

use std::sync::Arc;

use crate::common::golden::{crc32, noise};
use robocache_core::cdr::messages::CameraInfo;
use robocache_core::input::camera_info::decode;
use robocache_ops::dtype::DType;
use robocache_ops::image::camera::Camera;
use robocache_ops::image::cpu::ImageEncoder;
use robocache_ops::image::{
    Crop, Encoding, Filter, Fit, ImageLayout, ImageSpec, ImageView, Resize,
};
use robocache_ops::time::Stamp;

#[derive(serde::Deserialize)]
struct Golden {
    cases: Vec<Case>,
}

#[derive(Debug, serde::Deserialize)]
struct Case {
    model: String,
    d: Vec<f64>,
    size: [u32; 2],
    k: [f64; 9],
    r: [f64; 9],
    p: Vec<f64>,
    binning: [u32; 2],
    roi: [u32; 4],
    points: u32,
    fractions: u32,
    rgb: u32,
    gray: u32,
}

fn cases() -> Vec<Case> {
    let golden: Golden =
        serde_json::from_str(include_str!("../../../../tests/golden/undistort.json")).unwrap();
    assert!(golden.cases.len() >= 16);
    golden.cases
}

fn camera(case: &Case) -> Camera {
    let message = CameraInfo {
        stamp: Stamp::from_nanos(1),
        frame_id: "camera",
        height: case.size[1],
        width: case.size[0],
        distortion_model: &case.model,
        d: &case.d,
        k: case.k,
        r: case.r,
        p: *case.p.first_chunk().unwrap(),
        binning: case.binning,
        roi: case.roi,
    };
    decode(&message.to_cdr(Vec::new())).unwrap()
}

#[test]
fn maps_and_pixels_are_those_of_opencv() {
    for case in cases() {
        let camera = camera(&case);
        let [width, height] = camera.size;
        let table = camera.remap(&[0..width, 0..height]).unwrap();
        let points: Vec<u8> = table.points().iter().flat_map(|at| at.to_le_bytes()).collect();
        let fractions: Vec<u8> = table.fractions().iter().flat_map(|at| at.to_le_bytes()).collect();
        assert_eq!((crc32(&points), crc32(&fractions)), (case.points, case.fractions), "{case:?}");
        for (encoding, expected) in [(Encoding::Rgb8, case.rgb), (Encoding::Mono8, case.gray)] {
            let step = width * encoding.bytes_per_pixel();
            let data = noise(step * height);
            let view = ImageView { encoding, width, height, step, data: &data, remap: None };
            let mut out = Vec::new();
            let found = table.run(None, &view, &mut out).unwrap();
            assert_eq!(crc32(found.data), expected, "{encoding:?} {case:?}");
        }
    }
}

/// An image is undistorted as a whole, then the rest follows: also if only the part that is cropped is
/// made, for every encoding, and with lines that have padding.
#[test]
fn a_row_is_that_of_the_undistorted_image() {
    let case = &cases()[2];
    let camera = camera(case);
    let [width, height] = camera.size;
    let crop = Crop { x: 31, y: 17, width: 500, height: 401 };
    for (encoding, crop) in Encoding::ALL.into_iter().flat_map(|e| [(e, None), (e, Some(crop))]) {
        let step = width * encoding.bytes_per_pixel() + 5;
        let data = noise(step * height);
        let view = ImageView { encoding, width, height, step, data: &data, remap: None };
        let mut out = Vec::new();
        let undistorted = camera.remap(&[0..width, 0..height]).unwrap();
        let undistorted = undistorted.run(None, &view, &mut out).unwrap();
        let resize = Resize { filter: Filter::Cv2Area, fit: Fit::PadCenter, ..Resize::to(96, 80) };
        let plain = ImageSpec { crop, layout: ImageLayout::Hwc, ..ImageSpec::new(vec![resize]) };
        let spec = ImageSpec { undistort: true, ..plain.clone() };
        let mut expected = vec![0; 4 * plain.row_len()];
        ImageEncoder::new(&plain, DType::F32).encode(&undistorted, &mut expected);
        let part = spec.part(width, height).unwrap();
        let table = Arc::new(camera.remap(&part).unwrap());
        let mut row = vec![0; expected.len()];
        let mut encoder = ImageEncoder::new(&spec, DType::F32);
        for _ in 0..2 {
            row.fill(0xA5);
            encoder.encode(&ImageView { remap: Some(&table), ..view }, &mut row);
            assert_eq!(row, expected, "{encoding:?} {crop:?}");
        }
        // Without distortion the same encoder takes images as they are.
        ImageEncoder::new(&plain, DType::F32).encode(&view, &mut expected);
        encoder.encode(&view, &mut row);
        assert_eq!(row, expected, "{encoding:?} {crop:?}");
    }
}
