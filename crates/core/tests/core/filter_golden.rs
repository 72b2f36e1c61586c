//! The resize filters, compared with the libraries that they are named after (golden values), and fits,
//! layouts, crops and chains of resizes, compared with what they are made of.

use crate::common::golden::{crc32, noise};
use proptest::prelude::*;
use robocache_core::encoder::EncoderSpec;
use robocache_ops::dtype::DType;
use robocache_ops::image::cpu::ImageEncoder;
use robocache_ops::image::{
    Color, Crop, Encoding, Filter, Fit, ImageLayout, ImageSpec, ImageView, Resize,
};

/// The bytes of `scene` there.
fn scene(width: usize, height: usize) -> Vec<u8> {
    let mut pixels = Vec::with_capacity(3 * width * height);
    for (y, x) in (0..height).flat_map(|y| (0..width).map(move |x| (y, x))) {
        for c in 0..3 {
            let slope = (x * (3 + c) + y * (5 - c)) / 4 % 256;
            let edge = if (x / 37 + y / 23 + c).is_multiple_of(3) { 96 } else { 0 };
            pixels.push(((slope + edge) % 256) as u8);
        }
    }
    pixels
}

#[derive(serde::Deserialize)]
struct Golden {
    cases: Vec<Case>,
}

#[derive(Debug, serde::Deserialize)]
struct Case {
    filter: Filter,
    content: String,
    width: usize,
    height: usize,
    row_width: usize,
    row_height: usize,
    crc32: u32,
}

fn rgb(data: &[u8], width: usize, height: usize) -> ImageView<'_> {
    ImageView { encoding: Encoding::Rgb8, width, height, step: 3 * width, data, remap: None }
}

/// The bytes of a row of `spec`.
fn row(spec: &ImageSpec, view: &ImageView<'_>) -> Vec<u8> {
    let mut row = vec![0xA5; spec.row_len()];
    ImageEncoder::new(spec, DType::U8).encode(view, &mut row);
    row
}

/// `[height, width, 3]` bytes.
fn pixels(resizes: Vec<Resize>) -> ImageSpec {
    ImageSpec { layout: ImageLayout::Hwc, ..ImageSpec::new(resizes) }
}

#[test]
fn pixels_are_those_of_the_libraries() {
    let golden: Golden =
        serde_json::from_str(include_str!("../../../../tests/golden/filters.json")).unwrap();
    for filter in Filter::ALL {
        let of_filter = golden.cases.iter().filter(|case| case.filter == filter);
        assert!(of_filter.count() >= 20, "{filter:?}");
    }
    for case in &golden.cases {
        let Case { width, height, .. } = *case;
        let data = match case.content.as_str() {
            "scene" => scene(width, height),
            _ => noise(3 * width * height),
        };
        let to = Resize::to(case.row_width, case.row_height);
        let spec = pixels(vec![Resize { filter: case.filter, fit: Fit::Stretch, ..to }]);
        let found = row(&spec, &rgb(&data, width, height));
        assert_eq!(crc32(&found), case.crc32, "{case:?}");
    }
}

/// Takes the part of `[height, width, 3]` bytes.
fn cut(data: &[u8], width: usize, part: Crop) -> Vec<u8> {
    let line = |y: usize| &data[3 * (y * width + part.x)..][..3 * part.width];
    (part.y..part.y + part.height).flat_map(|y| line(y).iter().copied()).collect()
}

const FITS: [Fit; 5] =
    [Fit::Stretch, Fit::PadCenter, Fit::PadTopLeft, Fit::CropCenter, Fit::CoverCenter];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn both_layouts_have_the_same_elements(
        size in (1usize..60, 1usize..60), to in (1usize..30, 1usize..30),
        filter in prop::sample::select(&Filter::ALL[..]), fit in prop::sample::select(&FITS[..]),
        encoding in prop::sample::select(&Encoding::ALL[..]),
        color in prop::sample::select(&[Color::Rgb, Color::Bgr, Color::Mono][..]),
    ) {
        let step = size.0 * encoding.bytes_per_pixel();
        let data = noise(step * size.1);
        let view = ImageView { encoding, width: size.0, height: size.1, step, data: &data, remap: None };
        let resize = Resize { filter, fit, ..Resize::to(to.0, to.1) };
        let planes = ImageSpec { color, pad_value: 9, ..ImageSpec::new(vec![resize]) };
        let together = ImageSpec { layout: ImageLayout::Hwc, ..planes.clone() };
        let [planes, together] = [planes, together].map(|spec| row(&spec, &view));
        let channels = color.channels();
        for (at, pixel) in together.chunks(channels).enumerate() {
            for (channel, byte) in pixel.iter().enumerate() {
                prop_assert_eq!(*byte, planes[channel * to.0 * to.1 + at]);
            }
        }
    }

    #[test]
    fn a_crop_is_an_image_of_its_own(
        size in (10usize..60, 10usize..60), at in (0usize..8, 0usize..8),
        filter in prop::sample::select(&Filter::ALL[..]), fit in prop::sample::select(&FITS[..]),
    ) {
        let crop = Crop { x: at.0, y: at.1, width: size.0 - at.0 - 1, height: size.1 - at.1 };
        let data = noise(3 * size.0 * size.1);
        let spec = pixels(vec![Resize { filter, fit, ..Resize::to(23, 17) }]);
        let part = cut(&data, size.0, crop);
        let expected = row(&spec, &rgb(&part, crop.width, crop.height));
        let cropped = ImageSpec { crop: Some(crop), ..spec };
        prop_assert_eq!(row(&cropped, &rgb(&data, size.0, size.1)), expected);
    }

    #[test]
    fn several_resizes_are_one_after_the_other(
        size in (1usize..60, 1usize..60), between in (1usize..40, 1usize..40),
        filters in prop::collection::vec(prop::sample::select(&Filter::ALL[..]), 2),
        fit in prop::sample::select(&FITS[..]), crop_fraction in 0.2f64..=1.0, mono in any::<bool>(),
    ) {
        let data = noise(3 * size.0 * size.1);
        let image = rgb(&data, size.0, size.1);
        let first = Resize { filter: filters[0], fit, ..Resize::to(between.0, between.1) };
        let second = Resize { filter: filters[1], fit, crop_fraction, ..Resize::to(21, 34) };
        let color = if mono { Color::Mono } else { Color::Bgr };
        let both = ImageSpec { color, ..ImageSpec::new(vec![first, second]) };
        let first = ImageSpec { color, ..pixels(vec![first]) };
        let middle = row(&first, &image);
        let encoding = if mono { Encoding::Mono8 } else { Encoding::Bgr8 };
        let step = between.0 * color.channels();
        let (width, height) = between;
        let view = ImageView { encoding, width, height, step, data: &middle, remap: None };
        let second = ImageSpec { color, ..ImageSpec::new(vec![second]) };
        prop_assert_eq!(row(&both, &image), row(&second, &view));
    }

    #[test]
    fn an_encoder_keeps_nothing_of_earlier_images(
        sizes in prop::collection::vec((1usize..30, 1usize..30, 0usize..5), 2..6),
        filter in prop::sample::select(&Filter::ALL[..]),
    ) {
        let data = noise(30 * 30 * 4);
        let resize = Resize { filter, ..Resize::to(17, 11) };
        let spec = pixels(vec![Resize { fit: Fit::CoverCenter, ..resize }, resize]);
        let mut kept = ImageEncoder::new(&spec, DType::U8);
        for (width, height, encoding) in sizes {
            let encoding = Encoding::ALL[encoding];
            let step = width * encoding.bytes_per_pixel();
            let view = ImageView { encoding, width, height, step, data: &data, remap: None };
            let mut found = vec![1; spec.row_len()];
            kept.encode(&view, &mut found);
            prop_assert_eq!(found, row(&spec, &view));
        }
    }
}

#[test]
fn fits_pad_and_cut_where_they_say() {
    let data = vec![255; 3 * 64 * 32];
    let image = rgb(&data, 64, 32);
    let white = |fit: Fit, filter: Filter| {
        let spec = pixels(vec![Resize { fit, filter, ..Resize::to(16, 16) }]);
        let lines: Vec<bool> =
            row(&spec, &image).chunks(48).map(|line| line == [255; 48]).collect();
        (lines.iter().position(|white| *white), lines.iter().filter(|white| **white).count())
    };
    for filter in Filter::ALL {
        assert_eq!(white(Fit::PadCenter, filter), (Some(4), 8), "{filter:?}");
        assert_eq!(white(Fit::PadTopLeft, filter), (Some(8), 8), "{filter:?}");
        assert_eq!(white(Fit::CropCenter, filter), (Some(0), 16), "{filter:?}");
        assert_eq!(white(Fit::CoverCenter, filter), (Some(0), 16), "{filter:?}");
    }
}

#[test]
#[should_panic = "expected the part that is cropped"]
fn an_image_without_the_cropped_part_is_no_input() {
    let crop = Some(Crop { x: 1, y: 0, width: 8, height: 8 });
    let spec = ImageSpec { crop, ..pixels(vec![Resize::to(4, 4)]) };
    row(&spec, &rgb(&[0; 3 * 64], 8, 8));
}

#[derive(serde::Deserialize)]
struct Presets {
    cases: Vec<PresetCase>,
}

#[derive(Debug, serde::Deserialize)]
struct PresetCase {
    preset: String,
    content: String,
    width: usize,
    height: usize,
    shape: [usize; 3],
    crc32: u32,
}

/// Whole rows in the layout and the values of the preset, f32 or bytes.
#[test]
fn presets_are_what_the_projects_compute() {
    let golden: Presets =
        serde_json::from_str(include_str!("../../../../tests/golden/presets.json")).unwrap();
    assert!(golden.cases.len() >= 50);
    for case in &golden.cases {
        let text = format!(
            "rate_hz: 10\nstreams: {{s: {{type: sensor_msgs/Image, topic: /s, max_age_ms: 9, \
             image: {{preset: {}}}}}}}",
            case.preset
        );
        let config = robocache_core::config::parse(&text, "test.yaml").unwrap();
        let EncoderSpec::Image(spec) = &config.streams[0].encoder else { panic!("no image") };
        let dtype = config.streams[0].dtype;
        assert_eq!(spec.row_shape(), case.shape, "{case:?}");
        let data = match case.content.as_str() {
            "scene" => scene(case.width, case.height),
            _ => noise(3 * case.width * case.height),
        };
        let mut row = vec![0xA5; spec.row_len() * dtype.size()];
        ImageEncoder::new(spec, dtype).encode(&rgb(&data, case.width, case.height), &mut row);
        assert_eq!(crc32(&row), case.crc32, "{case:?}");
    }
}
