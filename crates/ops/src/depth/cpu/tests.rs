use super::*;
use crate::image::Fit;

fn spec(width: usize, height: usize, fit: Fit) -> DepthSpec {
    DepthSpec { width, height, fit, unit_m: 0.001, min_m: 0.3, max_m: 9.0, fill_m: -1.0 }
}

fn row(spec: &DepthSpec, view: &DepthView<'_>) -> Vec<f32> {
    let mut row = vec![0xA5; 4 * spec.width * spec.height];
    DepthEncoder::new(spec, DType::F32).encode(view, &mut row);
    row.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

#[test]
fn what_was_not_measured_is_filled() {
    let raw: [u16; 8] = [0, 299, 300, 301, 8999, 9000, 9001, 65_535];
    let expected = [-1.0, -1.0, 0.3, 0.301, 8.999, 9.0, -1.0, -1.0];
    for big_endian in [false, true] {
        let order = if big_endian { u16::to_be_bytes } else { u16::to_le_bytes };
        let data: Vec<u8> = raw.into_iter().flat_map(order).collect();
        let element = DepthElement::U16;
        let view = DepthView { element, big_endian, width: 8, height: 1, step: 16, data: &data };
        assert_eq!(row(&spec(8, 1, Fit::Stretch), &view), expected);
    }
    let below = 0.3f32.next_down();
    let raw = [f32::NAN, f32::INFINITY, -1.0, 0.0, below, 0.3, 9.0, 9.0f32.next_up()];
    let expected = [-1.0, -1.0, -1.0, -1.0, -1.0, 0.3, 9.0, -1.0];
    for big_endian in [false, true] {
        let order = if big_endian { f32::to_be_bytes } else { f32::to_le_bytes };
        let data: Vec<u8> = raw.into_iter().flat_map(order).collect();
        let element = DepthElement::F32;
        let view = DepthView { element, big_endian, width: 8, height: 1, step: 32, data: &data };
        assert_eq!(row(&spec(8, 1, Fit::Stretch), &view), expected);
    }
}

#[test]
fn without_limits_zero_and_negative_distances_are_still_invalid() {
    let data: Vec<u8> =
        [0.0, -0.0, -2.0, 1e-40f32, f32::MAX].into_iter().flat_map(f32::to_le_bytes).collect();
    let element = DepthElement::F32;
    let big_endian = false;
    let view = DepthView { element, big_endian, width: 5, height: 1, step: 20, data: &data };
    let spec = DepthSpec { min_m: 0.0, max_m: f32::MAX, fill_m: 7.0, ..spec(5, 1, Fit::Stretch) };
    assert_eq!(row(&spec, &view), [7.0, 7.0, 7.0, 1e-40, f32::MAX]);
}

#[test]
fn padding_is_filled_and_no_value_is_between_two_pixels() {
    // Two surfaces, at 1 m and at 8 m, and lines with padding.
    let raw: Vec<u8> = (0..6usize)
        .flat_map(|y| (0..13usize).map(move |x| if (x + y) % 2 == 0 { 1000u16 } else { 8000 }))
        .flat_map(u16::to_le_bytes)
        .collect();
    let element = DepthElement::U16;
    let big_endian = false;
    let view = DepthView { element, big_endian, width: 12, height: 6, step: 26, data: &raw[..154] };
    let padded = row(&spec(5, 5, Fit::PadCenter), &view);
    assert_eq!(padded.iter().filter(|value| **value == -1.0).count(), 15);
    assert!(padded[5..15].iter().all(|value| [1.0, 8.0].contains(value)), "{padded:?}");
    let cropped = row(&spec(7, 7, Fit::CropCenter), &view);
    assert!(cropped.iter().all(|value| [1.0, 8.0].contains(value)), "{cropped:?}");
}
