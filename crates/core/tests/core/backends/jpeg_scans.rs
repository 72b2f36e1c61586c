//! JPEG files as the kernels read them: rows are of the pixels that their twin makes. What it refuses, the kernels refuse.

use robocache_core::codec::ScanReader;
use robocache_ops::device::{DeviceBuffer, RowPlace, Stream};
use robocache_ops::dtype::DType;
use robocache_ops::image::cpu::ImageEncoder;
use robocache_ops::image::jpeg::Scan;
use robocache_ops::image::{Color, Encoding, Fit, ImageLayout, ImageSpec, ImageView, Resize, cuda};

use crate::backends::random::Random;
use crate::backends::subject::Kind;
use crate::common::jpeg::JpegFile;
use crate::common::jpeg_twin;

/// The memory is for images of this size. No file has more entries than there is room for.
const LARGEST: [usize; 2] = [300, 300];
const MOST_SIDE: usize = 200;

pub(super) fn check(kind: &Kind, cases: usize) {
    let device = kind.device().expect("a GPU");
    let spec = spec();
    let encoder = cuda::ImageEncoder::new(device, &spec, DType::U8, LARGEST).unwrap();
    let mut encoder = encoder.with_jpeg(device, LARGEST).unwrap();
    let row = DeviceBuffer::new(device, encoder.row_bytes()).unwrap();
    let stream = Stream::new(device, true).unwrap();
    let mut reader = ScanReader::default();
    let [mut taken, mut refused, mut left] = [0; 3];
    for number in 0..cases.div_ceil(2) {
        let mut random = Random::new(400_000 + number as u64);
        let written = JpegFile::random(&mut random, MOST_SIDE);
        let mut file = written.write(&mut random);
        let damage = damage(&mut random, &mut file);
        let Some(scan) = reader.read(&file, LARGEST) else { continue };
        let case = format!("{number}: {written:?}, {damage}");
        encoder.wait().unwrap();
        if !encoder.restage_jpeg(scan, Encoding::Rgb8, None).unwrap() {
            assert!(damage > 0, "{case}: too large");
            continue;
        }
        encoder.start(RowPlace { rows: &row, at: 0 }, &stream).unwrap();
        stream.synchronize("encode an image").unwrap();
        encoder.settled();
        let pixels = jpeg_twin::pixels(scan);
        if encoder.refused() {
            // If the codes of luma and chroma are alike, kernels leave a file to a core, also a whole one.
            left += u32::from(pixels.is_some());
            refused += 1;
            continue;
        }
        let pixels = pixels.unwrap_or_else(|| panic!("{case}: damaged, and taken"));
        let mut found = vec![0; encoder.row_bytes()];
        row.read(&mut found).unwrap();
        assert!(found == row_of(&spec, scan, &pixels), "{case}: another row");
        taken += 1;
    }
    assert!(taken > 0 && (refused > 0 || cases < 100), "{taken} taken, {refused} refused");
    assert!(500 * left <= taken, "{left} files are left to a core, {taken} taken");
}

fn spec() -> ImageSpec {
    ImageSpec {
        undistort: false,
        crop: None,
        resizes: vec![Resize { fit: Fit::Stretch, ..Resize::to(33, 21) }],
        layout: ImageLayout::Chw,
        color: Color::Rgb,
        mean: [0.0; 3],
        std: [1.0; 3],
        pad_value: 0,
    }
}

/// The row that a core makes of the pixels.
fn row_of(spec: &ImageSpec, scan: &Scan, pixels: &[u8]) -> Vec<u8> {
    let encoding = if scan.components == 1 { Encoding::Mono8 } else { Encoding::Rgb8 };
    let width = scan.width;
    let height = scan.height;
    let step = width * encoding.bytes_per_pixel();
    let mut row = vec![0; spec.row_len()];
    let view = ImageView { encoding, width, height, step, data: pixels, remap: None };
    ImageEncoder::new(spec, DType::U8).encode(&view, &mut row);
    row
}

/// Damages half of the files in one of several ways; returns in how many bytes.
fn damage(random: &mut Random, file: &mut [u8]) -> usize {
    if random.one_in(2) {
        return 0;
    }
    if random.one_in(6) {
        // Steps that make coefficients too large for libjpeg's vector code.
        let quantiser = file.windows(2).position(|pair| pair == [0xFF, 0xDB]).unwrap() + 5;
        file[quantiser..quantiser + 64].fill(255);
        return 64;
    }
    if random.one_in(6) {
        // Mostly sizes and codes.
        let at = random.range(2, file.len().min(620) - 1);
        file[at] = random.bits() as u8;
        return 1;
    }
    // Behind the headers, and no marker begins or ends.
    let scan = file.windows(2).position(|pair| pair == [0xFF, 0xDA]).unwrap() + 14;
    if scan + 4 > file.len() {
        return 0;
    }
    let count = random.choose(&[1, 1, 2, 10]);
    (0..count)
        .filter(|_| {
            let at = random.range(scan, file.len() - 3);
            let other = file[at] ^ 1 << random.range(0, 7);
            let is_plain = [file[at - 1], file[at], other].iter().all(|byte| *byte != 0xFF);
            if is_plain {
                file[at] = other;
            }
            is_plain
        })
        .count()
}
