//! Files that Pillow wrote, and damaged ones.

mod raw;

use super::yuv::{Yuv, YuvImage};
use super::*;
use robocache_ops::random::Random;
use std::path::{Path, PathBuf};

const LARGEST: [usize; 2] = [64, 64];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/compressed")
}

fn file(name: &str) -> Vec<u8> {
    std::fs::read(folder().join(name)).unwrap()
}

/// The size, the encoding and the pixels of a file, or the error.
fn decoded(file: &[u8], largest: [usize; 2]) -> Result<([usize; 2], Encoding, Vec<u8>), Rejected> {
    let mut pixels = vec![9; 10];
    let view = decode(file, largest, &mut pixels)?;
    assert_eq!(view.step, view.width * view.encoding.bytes_per_pixel());
    let size = [view.width, view.height];
    let encoding = view.encoding;
    Ok((size, encoding, view.data.to_vec()))
}

fn reason(file: &[u8], largest: [usize; 2]) -> (DropReason, String) {
    let Rejected { reason, detail, .. } = decoded(file, largest).unwrap_err();
    (reason, detail)
}

#[test]
fn pixels_are_those_of_pillow() {
    let mut compared = 0;
    for entry in std::fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if name.ends_with(".pixels")
            || ["cmyk.jpg", "ycck.jpg", "gray_alpha.png", "deep.png"].contains(&&*name)
        {
            continue;
        }
        let expected = file(&format!("{}.pixels", name.replace('.', "_")));
        let (size, encoding, found) = decoded(&file(&name), LARGEST).unwrap();
        assert_eq!(size, [45, 31], "{name}");
        assert_eq!(expected.len(), 45 * 31 * encoding.bytes_per_pixel(), "{name}");
        let differ = found.iter().zip(&expected).filter(|(a, b)| a != b).count();
        assert_eq!(differ, 0, "{name}: bytes that differ");
        compared += 1;
    }
    assert!(compared >= 20, "{compared}");
}

#[test]
fn what_no_row_can_be_made_of_is_unsupported() {
    for (name, words) in [
        ("cmyk.jpg", "four channels"),
        ("ycck.jpg", "four channels"),
        ("gray_alpha.png", "8 bits of GrayscaleAlpha"),
        ("deep.png", "16 bits of Grayscale"),
    ] {
        let (reason, detail) = reason(&file(name), LARGEST);
        assert_eq!(reason, DropReason::Unsupported, "{name}");
        assert!(detail.contains(words), "{detail}");
    }
    let (reason, detail) = reason(b"GIF89a", LARGEST);
    assert_eq!(reason, DropReason::Unsupported);
    assert!(detail.starts_with("data: expected a JPEG or PNG file, found the bytes [47, 49"));
}

#[test]
fn an_image_larger_than_allowed_is_not_decoded() {
    for name in ["420.jpg", "rgb.png"] {
        assert!(decoded(&file(name), [45, 31]).is_ok());
        let (found, detail) = reason(&file(name), [44, 64]);
        assert_eq!(found, DropReason::TooLarge);
        assert_eq!(detail, "image: expected at most 44 px wide (image.max_width_px), found 45");
        assert_eq!(reason(&file(name), [64, 30]).0, DropReason::TooLarge);
    }
}

/// Writes a size into a file's header.
fn declare(file: &mut [u8], [width, height]: [u32; 2]) {
    if file.starts_with(&PNG) {
        file[16..20].copy_from_slice(&width.to_be_bytes());
        file[20..24].copy_from_slice(&height.to_be_bytes());
        return;
    }
    let frame = file.windows(2).position(|pair| pair == [0xFF, 0xC0]).unwrap();
    file[frame + 5..frame + 7].copy_from_slice(&(height as u16).to_be_bytes());
    file[frame + 7..frame + 9].copy_from_slice(&(width as u16).to_be_bytes());
}

#[test]
fn a_header_that_declares_a_gigabyte_costs_nothing() {
    for name in ["420.jpg", "rgb.png"] {
        for size in [[60_000, 60_000], [60_000, 1], [1, 60_000], [0, 5], [5, 0]] {
            let mut bomb = file(name);
            declare(&mut bomb, size);
            let mut pixels = Vec::new();
            let refused = decode(&bomb, LARGEST, &mut pixels).unwrap_err();
            assert!(
                matches!(refused.reason, DropReason::TooLarge | DropReason::Malformed),
                "{refused:?}"
            );
            assert_eq!(pixels.capacity(), 0, "{name} {size:?}");
        }
    }
    // A hundred thousand scans: each would take as long as the image.
    let mut scans = file("progressive.jpg");
    let at = scans.windows(2).position(|pair| pair == SCAN).unwrap();
    let scan = scans[at..at + 12].to_vec();
    let all: Vec<u8> = std::iter::repeat_n(scan, 100_000).flatten().collect();
    scans.splice(at..at, all);
    let (found, detail) = reason(&scans, LARGEST);
    assert_eq!(found, DropReason::Malformed);
    assert!(detail.contains("128 scans"), "{detail}");
}

const SCAN: [u8; 2] = [0xFF, 0xDA];

#[test]
fn a_file_that_was_cut_is_no_image() {
    for name in ["420.jpg", "progressive.jpg", "gray.jpg", "restarts.jpg", "rgb.png", "palette.png"]
    {
        let whole = file(name);
        // Without its end marker a JPEG still has all of its pixels.
        let least = if name.ends_with("png") { 1 } else { 3 };
        for len in 0..=whole.len() - least {
            let (found, detail) = reason(&whole[..len], LARGEST);
            let start = len < 8;
            let right = found == DropReason::Malformed || start && found == DropReason::Unsupported;
            assert!(right, "{name}, {len} of {} bytes: {found:?} {detail}", whole.len());
        }
    }
}

#[test]
fn a_jpeg_without_one_of_its_parts_is_no_image() {
    let whole = file("progressive.jpg");
    let scans: Vec<usize> =
        (0..whole.len() - 1).filter(|at| whole[*at..].starts_with(&SCAN)).collect();
    assert!(scans.len() > 5);
    for at in scans {
        // The part as a comment, and a file that ends in front of it.
        let mut hidden = whole.clone();
        hidden[at + 1] = 0xFE;
        let ended = [&whole[..at], &[0xFF, 0xD9]].concat();
        for lacking in [hidden, ended] {
            let (found, detail) = reason(&lacking, LARGEST);
            assert_eq!(found, DropReason::Malformed, "{at}: {detail}");
        }
    }
    // A baseline file whose only scan has luma alone: three components become one.
    let mut gray = file("444.jpg");
    let at = gray.windows(2).position(|pair| pair == SCAN).unwrap();
    assert_eq!(gray[at + 2..at + 5], [0, 12, 3]);
    gray.splice(at + 2..at + 5, [0, 8, 1]);
    gray.drain(at + 7..at + 11);
    let (found, detail) = reason(&gray, LARGEST);
    assert_eq!(found, DropReason::Malformed);
    assert!(detail.contains("expected all parts of the image"), "{detail}");
}

/// CRC-32 of IEEE 802.3, which ends each part of a PNG file.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ (0xEDB8_8320 & (crc & 1).wrapping_neg())
        })
    })
}

#[test]
fn a_palette_with_a_part_of_a_colour_is_malformed() {
    for name in ["palette.png", "palette_alpha.png"] {
        let whole = file(name);
        let at = whole.windows(4).position(|four| four == b"PLTE").unwrap();
        let len = u32::from_be_bytes(*whole[at - 4..].first_chunk().unwrap()) as usize;
        for lacking in 0..=3 {
            let part = &whole[at..at + 4 + len - lacking];
            let found = reason_of(&[
                &whole[..at - 4],
                &((len - lacking) as u32).to_be_bytes(),
                part,
                &crc32(part).to_be_bytes(),
                &whole[at + 4 + len + 4..],
            ]);
            let expected = (lacking % 3 != 0).then_some(DropReason::Malformed);
            assert_eq!(found, expected, "{name} without {lacking} bytes");
        }
    }
}

/// Why there are no pixels in a file of these parts; `None` if there are.
fn reason_of(parts: &[&[u8]]) -> Option<DropReason> {
    decoded(&parts.concat(), LARGEST).err().map(|rejected| rejected.reason)
}

#[test]
fn damaged_files_never_panic_and_memory_stays_bounded() {
    let mut random = Random::new(11);
    let names = ["420.jpg", "progressive.jpg", "restarts.jpg", "rgb.png", "palette.png"];
    let mut pixels = Vec::new();
    let mut refused = 0;
    for round in 0..3000 {
        let mut damaged = file(names[round % names.len()]);
        for _ in 0..=random.below(4) {
            let at = random.below(damaged.len() as u64) as usize;
            damaged[at] = random.bits() as u8;
        }
        refused += usize::from(decode(&damaged, LARGEST, &mut pixels).is_err());
        assert!(pixels.capacity() <= 4 * 64 * 64);
    }
    // A byte inside of compressed data may give another picture that nothing shows to be wrong.
    assert!(refused > 1500, "{refused}");
}

#[test]
fn extra_bytes_of_cheap_cameras_are_no_damage() {
    let mut padded = file("420.jpg");
    let end = padded.len() - 2;
    padded.splice(end..end, [0, 0, 0]);
    let (_, _, found) = decoded(&padded, LARGEST).unwrap();
    assert_eq!(found, file("420_jpg.pixels"));
    let mut followed = file("420.jpg");
    followed.extend([0; 100]);
    assert_eq!(decoded(&followed, LARGEST).unwrap().2, file("420_jpg.pixels"));
}

fn bytes_of(hex: &serde_json::Value) -> Vec<u8> {
    let text = hex.as_str().unwrap().as_bytes();
    let digit = |byte: u8| (byte as char).to_digit(16).unwrap() as u8;
    text.chunks(2).map(|pair| 16 * digit(pair[0]) + digit(pair[1])).collect()
}

/// An image as OpenCV converts it: layout, bytes, pixels.
type Converted = (Yuv, Vec<u8>, Vec<u8>);

/// Their size, and the golden images.
fn golden() -> ([usize; 2], Vec<Converted>) {
    let text = include_str!("../../../../tests/golden/yuv.json");
    let golden: serde_json::Value = serde_json::from_str(text).unwrap();
    let side = |name: &str| golden[name].as_u64().unwrap() as usize;
    let cases = golden["cases"].as_array().unwrap().iter().map(|case| {
        let layout = Yuv::ALL.into_iter().find(|yuv| case["encoding"] == yuv.name()).unwrap();
        (layout, bytes_of(&case["data"]), bytes_of(&case["rgb"]))
    });
    ([side("width"), side("height")], cases.collect())
}

#[test]
fn yuv_becomes_the_rgb_of_opencv() {
    let (size, cases) = golden();
    assert_eq!(cases.len(), 4);
    for (layout, data, rgb) in cases {
        let line =
            data.len() / if layout.name().starts_with("nv") { size[1] * 3 / 2 } else { size[1] };
        // Also with padding at the end of each line.
        for pad in [0, 5] {
            let padded: Vec<u8> =
                data.chunks(line).flat_map(|line| [line, &[99; 5][..pad]].concat()).collect();
            let image = YuvImage { layout, size, step: line + pad, data: &padded };
            let mut pixels = Vec::new();
            let view = yuv::to_rgb(&image, size, &mut pixels).unwrap();
            assert_eq!(
                (view.encoding, view.width, view.height),
                (Encoding::Rgb8, size[0], size[1])
            );
            assert_eq!(view.data, rgb, "{}", layout.name());
            for len in 0..padded.len() {
                let cut = YuvImage { data: &padded[..len], ..image };
                let refused = yuv::to_rgb(&cut, size, &mut Vec::new()).unwrap_err();
                assert_eq!(refused.reason, DropReason::Malformed);
            }
            let narrow = yuv::to_rgb(&image, [size[0] - 1, size[1]], &mut Vec::new()).unwrap_err();
            assert_eq!(narrow.reason, DropReason::TooLarge);
            let thin = YuvImage { step: line - 1, ..image };
            let refused = yuv::to_rgb(&thin, size, &mut Vec::new()).unwrap_err();
            assert!(refused.detail.starts_with("step: expected at least"), "{}", refused.detail);
        }
        let odd = YuvImage { layout, size: [size[0] - 1, size[1]], step: line, data: &data };
        let refused = yuv::to_rgb(&odd, size, &mut Vec::new()).unwrap_err();
        assert!(refused.detail.contains("expected even sides"), "{}", refused.detail);
    }
}
