//! A GPU makes libjpeg's pixels of JPEG files, and refuses all files that are damaged.

use std::path::{Path, PathBuf};

use robocache_core::cdr::Writer;
use robocache_core::codec::{self, ScanReader};
use robocache_core::pipeline::{Arrival, NotTaken, Pipeline};
use robocache_core::spec::{InputId, SegmentId};
use robocache_ops::image::{Encoding, ImageView};
use robocache_ops::time::{Epoch, Stamp};

use crate::backends::random::Random;
use crate::common;
use crate::common::jpeg::{Content, JpegFile};
use crate::common::jpeg_twin::pixels;

const LARGEST: [usize; 2] = [400, 400];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/compressed")
}

#[test]
fn files_of_any_size_quality_sampling_and_restarts_give_the_pixels_of_libjpeg() {
    let mut reader = ScanReader::default();
    let mut decoded = Vec::new();
    for number in 0..600 {
        let mut random = Random::new(100_000 + number);
        let written = JpegFile::random(&mut random, 120);
        let file = written.write(&mut random);
        let expected = codec::decode(&file, LARGEST, &mut decoded).unwrap().data;
        let found = reader.read(&file, LARGEST).unwrap_or_else(|| panic!("{written:?}: refused"));
        assert_eq!([found.width, found.height], written.size);
        let found = pixels(found).unwrap_or_else(|| panic!("{written:?}: refused"));
        assert!(found == expected, "{number}: {written:?}: other pixels");
    }
}

#[test]
fn files_of_other_kinds_are_left_to_libjpeg() {
    let mut reader = ScanReader::default();
    let mut read: Vec<String> = Vec::new();
    for entry in std::fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if path.extension().is_some_and(|extension| extension == "jpg")
            && let Some(found) = reader.read(&std::fs::read(&path).unwrap(), LARGEST)
        {
            let expected = std::fs::read(path.with_file_name(name.replace('.', "_") + ".pixels"));
            assert!(pixels(found) == expected.ok(), "{name}");
            read.push(name);
        }
    }
    read.sort();
    // Not 4:1:1, four channels, RGB, progressive.
    assert_eq!(
        read,
        [
            "420.jpg",
            "422.jpg",
            "440.jpg",
            "444.jpg",
            "coarse.jpg",
            "exif.jpg",
            "gray.jpg",
            "optimized.jpg",
            "restarts.jpg",
        ]
    );
    let mut random = Random::new(1);
    let file = JpegFile { size: [20, 30], ..JpegFile::random(&mut random, 20) }.write(&mut random);
    assert!(reader.read(&file, [20, 30]).is_some());
    assert!(reader.read(&file, [19, 30]).is_none() && reader.read(&file, [20, 29]).is_none());
}

#[test]
fn no_damaged_file_is_read_that_libjpeg_refuses_or_reads_otherwise() {
    let mut reader = ScanReader::default();
    let mut decoded = Vec::new();
    let mut read = 0;
    let mut left = 0;
    for number in 0..6000 {
        let mut random = Random::new(200_000 + number);
        let file = JpegFile::random(&mut random, 40).write(&mut random);
        let mut damaged = file.clone();
        // The headers are about 600 bytes.
        let within = if random.one_in(2) { file.len().min(620) } else { file.len() };
        for _ in 0..random.range(1, 4) {
            let at = random.range(0, within - 1);
            damaged[at] = random.bits() as u8;
        }
        if random.one_in(8) {
            damaged.truncate(random.range(0, file.len()));
        }
        let Some((found, pixels)) =
            reader.read(&damaged, LARGEST).and_then(|scan| Some((scan, pixels(scan)?)))
        else {
            left += 1;
            continue;
        };
        let view = codec::decode(&damaged, LARGEST, &mut decoded);
        let view = view.unwrap_or_else(|error| panic!("{number}: libjpeg refuses it: {error:?}"));
        assert_eq!([view.width, view.height], [found.width, found.height]);
        assert!(pixels == view.data, "{number}: other pixels");
        read += 1;
    }
    // Most damages within compressed data give another image that nothing shows to be wrong.
    assert!(read > 500 && left > 500, "{read} read, {left} left");
}

/// Ranges of the segments with codes in a file.
fn codes(file: &[u8]) -> Vec<std::ops::Range<usize>> {
    let mut at = 2;
    let mut codes = Vec::new();
    // Up to the scan.
    while file[at + 1] != 0xDA {
        let end = at + 2 + usize::from(u16::from_be_bytes([file[at + 2], file[at + 3]]));
        if file[at + 1] == 0xC4 {
            codes.push(at..end);
        }
        at = end;
    }
    codes
}

#[test]
fn codes_are_those_of_the_file() {
    let mut reader = ScanReader::default();
    let mut random = Random::new(7);
    let mut file = |optimized| {
        let content = Content::Waves;
        let like = JpegFile::random(&mut random, 60);
        let file =
            JpegFile { size: [60, 50], optimized, quality: 75, content, gray: false, ..like };
        file.write(&mut random)
    };
    let [optimized, usual] = [file(true), file(false)];
    let mut check = |file: &[u8], is_read: bool, what: &str| {
        let found = reader.read(file, LARGEST);
        assert_eq!(found.is_some(), is_read, "{what}");
        let mut decoded = Vec::new();
        if let Some(found) = found {
            let expected = codec::decode(file, LARGEST, &mut decoded).unwrap();
            assert!(pixels(found).as_deref() == Some(expected.data), "{what}: other pixels");
        }
    };
    check(&optimized, true, "its own codes");
    let mut without = optimized.clone();
    codes(&optimized).into_iter().rev().for_each(|code| drop(without.drain(code)));
    // libjpeg decodes it with the usual codes.
    check(&without, false, "no codes");
    check(&usual, true, "the usual codes");
    let first = codes(&usual)[0].clone();
    let of_other = optimized[codes(&optimized)[0].clone()].to_vec();
    let mut twice = usual.clone();
    twice.splice(first.start..first.start, of_other.iter().copied());
    check(&twice, true, "the last code of a place counts");
    check(&optimized, true, "its own codes again");
    let mut wrong = usual.clone();
    // As many codes of one bit as there cannot be.
    wrong[first.start + 5] = 3;
    check(&wrong, false, "no code");
    check(&usual, true, "the usual codes after a wrong one");
    // Two lengths with 255 symbols each, at a place that no component uses.
    let mut many = vec![0xFF, 0xC4, 0, 0, 0x13];
    many.extend([0; 14]);
    many.extend([255, 255]);
    many.extend([0; 510]);
    let length = (many.len() - 2) as u16;
    many[2..4].copy_from_slice(&length.to_be_bytes());
    let mut beyond = usual.clone();
    beyond.splice(first.start..first.start, many);
    assert!(codec::decode(&beyond, LARGEST, &mut Vec::new()).is_err(), "libjpeg refuses it");
    check(&beyond, false, "more symbols than bytes have values");
}

#[test]
fn a_compressed_message_gives_the_row_of_its_pixels_or_says_what_is_wrong() {
    const KEYS: &str = "
rate_hz: 100
streams:
  camera:
    topic: /camera
    max_age_ms: 5
    image: {resize: {width: 40, height: 30}, max_width_px: 100, max_height_px: 90}
";
    let pipeline = |ros_type: &str| common::pipeline(&format!("{KEYS}    type: {ros_type}\n"));
    let compressed = pipeline("sensor_msgs/CompressedImage");
    let raw = pipeline("sensor_msgs/Image");
    let golden = |name: &str| std::fs::read(folder().join(name)).unwrap();
    let mut random = Random::new(300_000);
    let large = JpegFile { size: [101, 20], ..JpegFile::random(&mut random, 20) };
    let whole = golden("420.jpg");
    // The files, and how the errors of those begin that are no pictures.
    let cases = [
        (whole.clone(), None),
        (golden("gray.jpg"), None),
        (golden("restarts.jpg"), None),
        (golden("progressive.jpg"), None),
        (golden("rgb.png"), None),
        (golden("cmyk.jpg"), Some("Unsupported: JPEG: expected gray or colours")),
        (whole[..whole.len() / 2].to_vec(), Some("Malformed: JPEG: expected")),
        (large.write(&mut random), Some("TooLarge: image: expected at most 100 px wide")),
        (b"\xFF\xD8\xFF".to_vec(), Some("Malformed: image: expected a width and a height")),
        (b"GIF89a".to_vec(), Some("Unsupported: data: expected a JPEG or PNG file")),
    ];
    let formats = ["jpeg", "rgb8; jpeg compressed bgr8", "rgb8; jpeg compressed rgb8"];
    let mut tick = 0;
    for (file, wrong) in &cases {
        for (format, colours) in formats.iter().zip(["rgb8", "rgb8", "bgr8"]) {
            tick += 1;
            let found = push(&compressed, tick, |writer| {
                writer.string(format);
                writer.bytes(file);
            });
            if let Some(wrong) = wrong {
                let found = found.unwrap_err();
                assert!(found.starts_with(wrong), "{found}");
                continue;
            }
            let mut pixels = Vec::new();
            let ImageView { encoding, width, height, step, data, .. } =
                codec::decode(file, LARGEST, &mut pixels).unwrap();
            let expected = push(&raw, tick, |writer| {
                writer.u32(height as u32);
                writer.u32(width as u32);
                writer.string(if encoding == Encoding::Mono8 { "mono8" } else { colours });
                writer.u8(0);
                writer.u32(step as u32);
                writer.bytes(data);
            });
            assert!(found.is_ok() && found == expected, "tick {tick}");
        }
    }
}

/// Pushes a file, and returns the row, or why there is none.
fn push(
    pipeline: &Pipeline,
    tick: i64,
    write: impl FnOnce(&mut Writer),
) -> Result<Vec<f32>, String> {
    let stamp = Stamp::from_nanos(tick * 10_000_000);
    let mut writer = Writer::new();
    writer.header(stamp, "camera");
    write(&mut writer);
    match pipeline.push(InputId::new(0), &writer.finish(), Arrival::default()) {
        Ok(_) => {}
        Err(NotTaken::Dropped(why)) => return Err(format!("{:?}: {}", why.reason, why.detail)),
        Err(other) => panic!("{other}"),
    }
    let mut message = pipeline.new_message();
    pipeline.tick(tick, Epoch::default(), &mut message).unwrap();
    Ok(common::values(pipeline, &message, SegmentId::new(0)))
}
