//! Image messages to rows, compared with Pillow (golden values) and with a plain reference.
//! Messages that declare a wrong size are refused.

use crate::common::golden::{crc32, noise};
use proptest::prelude::*;
use robocache_core::cdr::Writer;
use robocache_core::input::image;
use robocache_core::rejected::{DropReason, Rejected};
use robocache_core::sample::Header;
use robocache_core::sample::StampError;
use robocache_ops::dtype::DType;
use robocache_ops::image::cpu::ImageEncoder;
use robocache_ops::image::{Color, Encoding, Filter, Fit, ImageSpec, ImageView, MAX_SIDE, Resize};
use robocache_ops::time::Stamp;

/// `sensor_msgs/msg/Image`.
fn message(encoding: &str, [width, height, step]: [u32; 3], data: &[u8]) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.header(Stamp::from_nanos(1_795_000_000_000_000_007), "camera");
    writer.u32(height);
    writer.u32(width);
    writer.string(encoding);
    writer.u8(1);
    writer.u32(step);
    writer.bytes(data);
    writer.finish()
}

/// The picture of a message that needs no conversion.
fn decode(message: &[u8]) -> Result<(Header<'_>, ImageView<'_>), Rejected> {
    image::decode(message, None, [MAX_SIDE; 2], Box::leak(Box::default()))
}

#[derive(serde::Deserialize)]
struct Golden {
    cases: Vec<Case>,
}

#[derive(Debug, serde::Deserialize)]
struct Case {
    encoding: String,
    width: u32,
    height: u32,
    step: u32,
    color: Color,
    fit: Fit,
    row_width: usize,
    row_height: usize,
    mean: [f32; 3],
    std: [f32; 3],
    pad_value: u8,
    dtype: DType,
    crc32: u32,
    row: Option<String>,
}

impl Case {
    fn spec(&self) -> ImageSpec {
        let resize = Resize { fit: self.fit, ..Resize::to(self.row_width, self.row_height) };
        ImageSpec {
            color: self.color,
            mean: self.mean,
            std: self.std,
            pad_value: self.pad_value,
            ..ImageSpec::new(vec![resize])
        }
    }
}

#[test]
fn rows_are_those_of_pillow() {
    let golden: Golden =
        serde_json::from_str(include_str!("../../../../tests/golden/image.json")).unwrap();
    assert!(golden.cases.len() > 300);
    for case in &golden.cases {
        let spec = case.spec();
        let data = noise(case.step as usize * case.height as usize);
        let message = message(&case.encoding, [case.width, case.height, case.step], &data);
        let (header, view) = decode(&message).unwrap();
        assert_eq!(header.stamp, Ok(Stamp::from_nanos(1_795_000_000_000_000_007)));
        assert_eq!(header.frame_id, "camera");
        let mut row = vec![0xA5; spec.row_len() * case.dtype.size()];
        ImageEncoder::new(&spec, case.dtype).encode(&view, &mut row);
        if let Some(expected) = &case.row {
            let hex: String = row.iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(&hex, expected, "{case:?}");
        }
        assert_eq!(crc32(&row), case.crc32, "{case:?}");
    }
}

/// One pass of the resize along `line`, in the plainest form: every input has a weight.
fn plain_pass(line: &[u8], part: std::ops::Range<usize>, outputs: usize) -> Vec<u8> {
    let scale = part.len() as f64 / outputs as f64;
    let support = scale.max(1.0);
    let output = |i: usize| {
        let centre = part.start as f64 + (i as f64 + 0.5) * scale;
        let weight =
            |x: usize| (1.0 - ((x as f64 - centre + 0.5) * (1.0 / support)).abs()).max(0.0);
        let sum: f64 = (0..line.len()).map(weight).sum();
        let total: i64 = (0..line.len())
            .map(|x| i64::from(line[x]) * (weight(x) / sum * 4_194_304.0 + 0.5) as i64)
            .sum();
        ((total + 2_097_152) >> 22).min(255) as u8
    };
    (0..outputs).map(output).collect()
}

/// Bytes of the plain resize of one channel of `width` columns.
fn plain_resize(channel: &[u8], width: usize, to: (usize, usize)) -> Vec<u8> {
    let rows: Vec<Vec<u8>> =
        channel.chunks(width).map(|line| plain_pass(line, 0..width, to.0)).collect();
    let columns: Vec<Vec<u8>> = (0..to.0)
        .map(|x| {
            let column: Vec<u8> = rows.iter().map(|row| row[x]).collect();
            plain_pass(&column, 0..column.len(), to.1)
        })
        .collect();
    (0..to.1).flat_map(|y| columns.iter().map(move |column| column[y])).collect()
}

/// Bytes of the plain resize with the columns first.
fn plain_resize_columns_first(channel: &[u8], width: usize, to: (usize, usize)) -> Vec<u8> {
    let turned = |bytes: &[u8], width: usize| -> Vec<u8> {
        (0..width).flat_map(|x| bytes[x..].iter().step_by(width).copied()).collect()
    };
    let height = channel.len() / width;
    turned(&plain_resize(&turned(channel, width), height, (to.1, to.0)), to.1)
}

/// A spec whose elements are the bytes divided by 255.
fn plain_spec(width: usize, height: usize, fit: Fit, color: Color) -> ImageSpec {
    let resize = Resize { fit, ..Resize::to(width, height) };
    ImageSpec { color, ..ImageSpec::new(vec![resize]) }
}

fn bytes_of_f32_row(row: &[u8]) -> Vec<u8> {
    let value = |bytes: &[u8]| f32::from_le_bytes(bytes.try_into().unwrap());
    row.chunks(4).map(|bytes| (value(bytes) * 255.0).round() as u8).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_size_is_that_of_the_plain_resize(
        size in (1usize..70, 1usize..70),
        to in (1usize..40, 1usize..40),
        encoding in prop::sample::select(&Encoding::ALL[..]),
        padding in 0usize..5,
        bgr in any::<bool>(),
        filter in prop::sample::select(&[Filter::PilBilinear, Filter::Pil13Bilinear][..]),
    ) {
        let (width, height) = size;
        let bpp = encoding.bytes_per_pixel();
        let step = width * bpp + padding;
        let data = noise(step * height);
        let view = ImageView { encoding, width, height, step, data: &data, remap: None };
        let color = if bgr { Color::Bgr } else { Color::Rgb };
        let mut row = vec![0; 3 * to.0 * to.1 * 4];
        let mut spec = plain_spec(to.0, to.1, Fit::Stretch, color);
        spec.resizes[0].filter = filter;
        ImageEncoder::new(&spec, DType::F32).encode(&view, &mut row);
        let shrinks = [width as i64 - to.0 as i64, height as i64 - to.1 as i64];
        let columns_first =
            filter == Filter::Pil13Bilinear && shrinks[1] > 0 && shrinks[1] > 2 * shrinks[0];
        let plain = if columns_first { plain_resize_columns_first } else { plain_resize };
        for (channel, plane) in row.chunks(to.0 * to.1 * 4).enumerate() {
            let lane = match encoding {
                Encoding::Mono8 => 0,
                Encoding::Rgb8 | Encoding::Rgba8 => if bgr { 2 - channel } else { channel },
                Encoding::Bgr8 | Encoding::Bgra8 => if bgr { channel } else { 2 - channel },
            };
            let pixels: Vec<u8> = (0..width * height)
                .map(|i| data[i / width * step + i % width * bpp + lane])
                .collect();
            prop_assert_eq!(bytes_of_f32_row(plane), plain(&pixels, width, to));
        }
    }

    #[test]
    fn an_encoder_keeps_nothing_of_earlier_images(
        sizes in prop::collection::vec((1usize..30, 1usize..30, 0usize..5), 2..6),
    ) {
        let data = noise(30 * 30 * 4);
        let spec = plain_spec(17, 11, Fit::PadCenter, Color::Rgb);
        let mut kept = ImageEncoder::new(&spec, DType::Bf16);
        let mut first = vec![1; 3 * 17 * 11 * 2];
        let mut second = vec![2; 3 * 17 * 11 * 2];
        for (width, height, encoding) in sizes {
            let encoding = Encoding::ALL[encoding];
            let step = width * encoding.bytes_per_pixel();
            let view = ImageView { encoding, width, height, step, data: &data, remap: None };
            kept.encode(&view, &mut first);
            ImageEncoder::new(&spec, DType::Bf16).encode(&view, &mut second);
            prop_assert_eq!(&first, &second);
        }
    }
}

#[test]
fn an_image_of_the_rows_size_is_kept_as_it_is() {
    let data = noise(640 * 3);
    let view = ImageView {
        encoding: Encoding::Rgb8,
        width: 32,
        height: 20,
        step: 96,
        data: &data,
        remap: None,
    };
    for fit in [Fit::Stretch, Fit::PadCenter, Fit::CropCenter] {
        let mut row = vec![0; 3 * 640 * 4];
        ImageEncoder::new(&plain_spec(32, 20, fit, Color::Rgb), DType::F32).encode(&view, &mut row);
        let green: Vec<u8> = data.chunks(3).map(|pixel| pixel[1]).collect();
        assert_eq!(bytes_of_f32_row(&row[640 * 4..2 * 640 * 4]), green);
    }
}

fn refused(message: &[u8]) -> (DropReason, String) {
    let error = decode(message).unwrap_err();
    (error.reason, error.detail)
}

#[test]
fn truncated_messages_are_malformed_at_every_length() {
    let message = message("rgb8", [3, 2, 10], &noise(20));
    assert!(decode(&message).is_ok());
    for len in 0..message.len() {
        assert_eq!(refused(&message[..len]).0, DropReason::Malformed, "{len} bytes");
    }
}

#[test]
fn images_that_lie_about_their_size_are_malformed() {
    let data = noise(20);
    let detail = |size, data: &[u8]| {
        let (reason, detail) = refused(&message("rgb8", size, data));
        assert_eq!(reason, DropReason::Malformed);
        detail
    };
    assert_eq!(
        detail([3, 2, 10], &data[..19]),
        "data: expected at least 20 bytes for 3x2 pixels of rgb8 with step 10, found 19"
    );
    assert_eq!(
        detail([3, 2, 8], &data),
        "step: expected at least 9 bytes for 3 pixels of rgb8, found 8"
    );
    assert_eq!(detail([0, 2, 8], &data), "image: expected at least 1x1 pixels, found 0x2");
    assert_eq!(detail([3, 0, 9], &[]), "image: expected at least 1x1 pixels, found 3x0");
    let max = u32::MAX;
    for (size, side) in [([max, max, max], "wide"), ([1, max, max], "high")] {
        let (reason, detail) = refused(&message("rgb8", size, &data));
        assert_eq!(reason, DropReason::TooLarge);
        assert!(
            detail.starts_with(&format!("image: expected at most 16384 px {side}")),
            "{detail}"
        );
    }
}

#[test]
fn other_encodings_are_unsupported_and_the_text_names_the_supported_ones() {
    let untyped = " (image.encoding_8uc can say what its channels are)";
    for (encoding, hint) in [
        ("8UC1", untyped),
        ("8UC3", untyped),
        ("16UC1", " (image.depth takes it)"),
        ("bayer_rggb12", ""),
        ("RGB8", ""),
        ("rgb8 ", ""),
        ("", ""),
    ] {
        let (reason, detail) = refused(&message(encoding, [1, 1, 8], &[0; 8]));
        assert_eq!(reason, DropReason::Unsupported);
        let expected = "encoding: expected one of rgb8, bgr8, rgba8, bgra8, mono8, mono16, yuv422, \
                        yuv422_yuy2, nv12, nv21, bayer_rggb8, bayer_bggr8, bayer_gbrg8, \
                        bayer_grbg8, bayer_rggb16, bayer_bggr16, bayer_gbrg16, bayer_grbg16, found ";
        assert_eq!(detail, format!("{expected}{encoding:?}{hint}"));
    }
}

#[test]
fn a_line_that_would_take_minutes_to_resize_is_refused() {
    let (reason, detail) = refused(&message("mono8", [1, 16_385, 1], &vec![0; 16_385]));
    assert_eq!(reason, DropReason::TooLarge);
    let expected = "image: expected at most 16384 px high (image.max_height_px), found 16385";
    assert_eq!(detail, expected);
}

#[test]
fn headers_without_a_usable_stamp_or_frame() {
    let good = message("mono8", [1, 1, 1], &[0]);
    let mut zero = good.clone();
    zero[4..12].fill(0);
    assert_eq!(decode(&zero).unwrap().0.stamp, Err(StampError::Zero));
    let mut bad_stamp = good.clone();
    bad_stamp[8..12].copy_from_slice(&1_000_000_000u32.to_le_bytes());
    let stamp = decode(&bad_stamp).unwrap().0.stamp;
    assert_eq!(stamp, Err(StampError::Nanosec(1_000_000_000)));
    let mut bad_frame = good;
    bad_frame[16] = 0xFF;
    assert_eq!(refused(&bad_frame).0, DropReason::Malformed);
}
