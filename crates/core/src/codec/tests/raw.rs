//! Bayer mosaics, gray of 16 bits and compressed depth, compared with what OpenCV, Pillow and an
//! independent writer made.

use super::super::*;
use robocache_ops::depth::cpu::DepthEncoder;
use robocache_ops::depth::{DepthElement, DepthSpec, DepthView};
use robocache_ops::dtype::DType;
use robocache_ops::image::Fit;
use robocache_ops::random::Random;
use serde_json::Value;

fn bytes_of(hex: &Value) -> Vec<u8> {
    let text = hex.as_str().unwrap().as_bytes();
    let digit = |byte: u8| (byte as char).to_digit(16).unwrap() as u8;
    text.chunks(2).map(|pair| 16 * digit(pair[0]) + digit(pair[1])).collect()
}

fn side(of: &Value, name: &str) -> usize {
    of[name].as_u64().unwrap() as usize
}

/// The lines of `data`, `line` bytes each, with `pad` bytes behind each of them.
fn padded(data: &[u8], line: usize, pad: usize) -> Vec<u8> {
    data.chunks(line).flat_map(|line| [line, &[99; 9][..pad]].concat()).collect()
}

fn raw() -> Value {
    serde_json::from_str(include_str!("../../../../../tests/golden/raw.json")).unwrap()
}

#[test]
fn mosaics_become_the_rgb_of_opencv() {
    let golden = raw();
    let cases = golden["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 48);
    for case in cases {
        let name = case["encoding"].as_str().unwrap();
        let size = [side(case, "width"), side(case, "height")];
        let data = bytes_of(&case["data"]);
        let format = PixelFormat::of(name.as_bytes()).unwrap();
        let expected = bytes_of(&case["rgb"]);
        let line = size[0] * if name.ends_with("16") { 2 } else { 1 };
        for (pad, big_endian) in [(0, false), (5, false), (0, true), (5, true)] {
            let mut data = data.clone();
            if big_endian && name.ends_with("16") {
                data.as_chunks_mut::<2>().0.iter_mut().for_each(|number| number.reverse());
            }
            let data = padded(&data, line, pad);
            let image = RawImage { size, big_endian, step: line + pad, data: &data };
            let mut pixels = vec![9; 7];
            let view = format.picture(&image, size, &mut pixels).unwrap();
            assert_eq!((view.encoding, [view.width, view.height]), (Encoding::Rgb8, size));
            assert_eq!(view.data, expected, "{name} {size:?}");
            let cut = RawImage { data: &data[..data.len() - 1], ..image };
            let refused = format.picture(&cut, size, &mut Vec::new()).unwrap_err();
            assert_eq!(refused.reason, DropReason::Malformed);
        }
    }
    for size in [[2, 9], [9, 2], [1, 1]] {
        let image = RawImage { size, big_endian: false, step: 18, data: &[0; 162] };
        let formats = [PixelFormat::Bayer, PixelFormat::Bayer16];
        for format in formats.into_iter().flat_map(|of| bayer::Bayer::ALL.map(of)) {
            let refused = format.picture(&image, [9, 9], &mut Vec::new()).unwrap_err();
            assert_eq!(refused.reason, DropReason::Malformed);
            assert!(refused.detail.contains("expected at least 3x3 px"), "{}", refused.detail);
        }
    }
}

#[test]
fn gray_of_16_bits_is_rounded_as_cv_bridge_does() {
    let golden = raw();
    let least: Vec<u64> =
        golden["mono16"].as_array().unwrap().iter().map(|at| at.as_u64().unwrap()).collect();
    let numbers: Vec<u16> = (0..=u16::MAX).collect();
    for big_endian in [false, true] {
        let order = if big_endian { u16::to_be_bytes } else { u16::to_le_bytes };
        let data: Vec<u8> = numbers.iter().copied().flat_map(order).collect();
        let image = RawImage { size: [256, 256], big_endian, step: 512, data: &data };
        let mut pixels = Vec::new();
        let view = PixelFormat::Mono16.picture(&image, [256; 2], &mut pixels).unwrap();
        assert_eq!(view.encoding, Encoding::Mono8);
        for (number, byte) in view.data.iter().enumerate() {
            let expected = least.partition_point(|at| *at <= number as u64) - 1;
            assert_eq!(usize::from(*byte), expected, "{number}");
        }
    }
}

fn golden_depth() -> Value {
    serde_json::from_str(include_str!("../../../../../tests/golden/depth.json")).unwrap()
}

fn depth_of(
    format: &str,
    data: &[u8],
    largest: [usize; 2],
) -> Result<(DepthElement, [usize; 2], Vec<u8>), Rejected> {
    let mut pixels = vec![9; 7];
    let view = depth::decode(format.as_bytes(), data, largest, &mut pixels)?;
    assert!(view.big_endian && view.step == view.width * view.element.size());
    Ok((view.element, [view.width, view.height], view.data.to_vec()))
}

#[test]
fn compressed_depth_is_what_the_writers_packed() {
    let golden = golden_depth();
    let size = [side(&golden, "width"), side(&golden, "height")];
    let cases = golden["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 10);
    for case in cases {
        let format = case["format"].as_str().unwrap();
        let data = bytes_of(&case["data"]);
        let (element, found_size, found) = depth_of(format, &data, size).unwrap();
        let float = format.starts_with("32FC1");
        let expected = if float { DepthElement::F32 } else { DepthElement::U16 };
        assert_eq!((element, found_size), (expected, size));
        // Not-a-numbers are equal, whatever their bits.
        let normal = |four: &[u8; 4]| match f32::from_be_bytes(*four) {
            metres if metres.is_nan() => None,
            metres => Some(metres.to_bits()),
        };
        let pixels = bytes_of(&case["pixels"]);
        match float {
            true => {
                let all = |of: &[u8]| of.as_chunks().0.iter().map(normal).collect::<Vec<_>>();
                assert_eq!(all(&found), all(&pixels), "{format}");
                assert!(all(&found).contains(&None));
            }
            false => assert_eq!(found, pixels, "{format}"),
        }
        // Cut anywhere, it is no image. The last word of RVL and the end of PNG belong to it.
        for len in 0..data.len() {
            let refused = depth_of(format, &data[..len], size).unwrap_err();
            assert_eq!(refused.reason, DropReason::Malformed, "{format} {len}: {}", refused.detail);
        }
        for largest in [[size[0] - 1, size[1]], [size[0], size[1] - 1]] {
            let refused = depth_of(format, &data, largest).unwrap_err();
            assert_eq!(refused.reason, DropReason::TooLarge);
        }
    }
}

#[test]
fn rows_of_depth_are_the_nearest_pixels_of_pillow() {
    let golden = golden_depth();
    let width = side(&golden, "width");
    let height = side(&golden, "height");
    let data = bytes_of(&golden["numbers"]);
    let element = DepthElement::U16;
    let big_endian = false;
    let step = 2 * width;
    let view = DepthView { element, big_endian, width, height, step, data: &data };
    for case in golden["nearest"].as_array().unwrap() {
        let spec = DepthSpec {
            width: side(case, "width"),
            height: side(case, "height"),
            fit: Fit::Stretch,
            unit_m: 0.001,
            min_m: 0.0,
            max_m: f32::MAX,
            fill_m: 0.0,
        };
        let mut row = vec![0; 4 * spec.width * spec.height];
        DepthEncoder::new(&spec, DType::F32).encode(&view, &mut row);
        assert_eq!(row, bytes_of(&case["metres"]), "{spec:?}");
    }
}

#[test]
fn formats_that_are_no_depth_are_unsupported() {
    let cases = golden_depth();
    let data = bytes_of(&cases["cases"][0]["data"]);
    for format in [
        "rgb8; compressedDepth",
        "16UC1; compressedDepth jpeg",
        "16UC1; compressedDepth png rvl",
        "32FC1; png compressed",
        "16UC1; jpeg compressed",
        "jpeg",
        "compressedDepth",
        "",
    ] {
        let refused = depth_of(format, &data, [64; 2]).unwrap_err();
        assert_eq!(refused.reason, DropReason::Unsupported, "{format}: {}", refused.detail);
    }
    // A picture of 8 bits is no depth.
    let gray = std::fs::read("../../tests/golden/compressed/gray.png").unwrap();
    let refused = depth_of("png", &gray, [64; 2]).unwrap_err();
    assert_eq!(refused.reason, DropReason::Unsupported);
    assert_eq!(refused.detail, "PNG: expected 16 bits of gray, found 8 bits of Grayscale");
    // Inverse depth needs its parameters.
    let inverse = bytes_of(&cases["cases"][9]["data"]);
    for (at, bad) in [
        (0, 1i32.to_le_bytes()),
        (4, f32::NAN.to_le_bytes()),
        (4, 0f32.to_le_bytes()),
        (8, f32::INFINITY.to_le_bytes()),
    ] {
        let mut data = inverse.clone();
        data[at..at + 4].copy_from_slice(&bad);
        let refused = depth_of("32FC1; compressedDepth rvl", &data, [64; 2]).unwrap_err();
        assert_eq!(refused.reason, DropReason::Malformed);
    }
}

/// The body of an RVL file of these nibbles, behind a header and sizes.
fn rvl_of([width, height]: [u32; 2], nibbles: &[u32]) -> Vec<u8> {
    let mut data = [&[0; 12][..], &width.to_le_bytes(), &height.to_le_bytes()].concat();
    for eight in nibbles.chunks(8) {
        let word = (0..8).fold(0, |word, at| word << 4 | eight.get(at).unwrap_or(&0));
        data.extend(word.to_le_bytes());
    }
    data
}

#[test]
fn hostile_rvl_is_malformed_and_reserves_nothing() {
    let rvl = "16UC1; compressedDepth rvl";
    let of = |size, nibbles: &[u32]| {
        let refused = depth_of(rvl, &rvl_of(size, nibbles), [64, 64]).unwrap_err();
        (refused.reason, refused.detail)
    };
    // Two zeros, then one pixel of 5, whose code is 10: the nibbles 2 and 1. No run follows.
    let whole = rvl_of([3, 1], &[2, 1, 8 | 2, 1]);
    let (_, _, pixels) = depth_of(rvl, &whole, [64, 64]).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(pixels, [0, 0, 0, 0, 0, 5]);
    let (reason, detail) = of([3, 1], &[4]);
    assert_eq!(
        (reason, &*detail),
        (DropReason::Malformed, "RVL: expected at most 3 more pixels, found 4")
    );
    let (reason, detail) = of([3, 1], &[1, 3]);
    assert_eq!(
        (reason, &*detail),
        (DropReason::Malformed, "RVL: expected at most 2 more pixels, found 3")
    );
    let (reason, detail) = of([3, 1], &[0, 3, 1]);
    assert_eq!(
        (reason, &*detail),
        (DropReason::Malformed, "RVL: expected pixels of 16 bits, found -1")
    );
    let (reason, detail) = of([3, 1], &[15; 40]);
    assert_eq!(
        (reason, &*detail),
        (DropReason::Malformed, "RVL: found a number of more than 32 bits")
    );
    // Runs of no pixels lead nowhere.
    let (reason, detail) = of([3, 1], &[0; 64]);
    assert_eq!(
        (reason, &*detail),
        (DropReason::Malformed, "RVL: expected all pixels, found the end")
    );
    for size in [[1 << 31, 1], [1, 1 << 31], [u32::MAX; 2], [65, 1], [0, 3], [3, 0]] {
        let mut pixels = Vec::new();
        let data = rvl_of(size, &[0; 8]);
        let refused = depth::decode(rvl.as_bytes(), &data, [64, 64], &mut pixels).unwrap_err();
        let expected = if size.contains(&0) { DropReason::Malformed } else { DropReason::TooLarge };
        assert_eq!((refused.reason, pixels.capacity()), (expected, 0), "{size:?}");
    }
}

#[test]
fn damaged_depth_never_panics_and_memory_stays_bounded() {
    let golden = golden_depth();
    let cases = golden["cases"].as_array().unwrap();
    let mut random = Random::new(12);
    let mut pixels = Vec::new();
    for round in 0..4000 {
        let case = &cases[round % cases.len()];
        let mut data = bytes_of(&case["data"]);
        for _ in 0..=random.below(4) {
            let at = random.below(data.len() as u64) as usize;
            data[at] = random.bits() as u8;
        }
        let format = case["format"].as_str().unwrap().as_bytes();
        let _ = depth::decode(format, &data, [64; 2], &mut pixels);
        assert!(pixels.capacity() <= 4 * 64 * 64);
    }
}
