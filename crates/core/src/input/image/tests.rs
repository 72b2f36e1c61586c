//! Image messages, good and bad, through their inputs.

use super::super::*;
use crate::cdr::Writer;
use crate::codec;
use crate::config;
use robocache_ops::depth::DepthElement;
use robocache_ops::time::Stamp;

/// Image that an input gave: the frame, the size, and the bytes of the lines without padding.
#[derive(Debug, Default, PartialEq)]
struct Taken {
    kind: String,
    size: [usize; 2],
    bytes: Vec<u8>,
    /// Why a compressed image has no pixels.
    wrong: Option<Rejected>,
}

impl Sink for Taken {
    fn admit(&mut self, header: &Header<'_>) -> Option<&mut dyn SampleSink> {
        assert_eq!(header.frame_id, "camera");
        Some(self)
    }
}

impl SampleSink for Taken {
    fn sample(&mut self, part: usize, sample: Sample<'_>) {
        assert_eq!(part, 0);
        let mut pixels = Vec::new();
        let sample = match sample {
            Sample::Compressed(image) => match codec::decode_compressed(&image, &mut pixels) {
                Ok(view) => Sample::Image(view),
                Err(wrong) => return self.wrong = Some(wrong),
            },
            sample => sample,
        };
        let (kind, size, step, line, data) = match sample {
            Sample::Depth(view) => {
                let order = if view.big_endian { "big" } else { "little" };
                let line = view.width * view.element.size();
                let kind = format!("{:?} {order}", view.element);
                (kind, [view.width, view.height], view.step, line, view.data)
            }
            Sample::Image(view) => {
                let line = view.width * view.encoding.bytes_per_pixel();
                let kind = view.encoding.name().to_owned();
                (kind, [view.width, view.height], view.step, line, view.data)
            }
            other => panic!("{other:?}"),
        };
        let bytes = data.chunks(step).take(size[1]).flat_map(|of| &of[..line]).copied().collect();
        *self = Taken { kind, size, bytes, wrong: None };
    }

    fn trajectory(&mut self, _: &Trajectory<'_>) {
        panic!("no plan");
    }

    fn incomplete(&mut self, part: usize, _: &str) {
        panic!("part {part} is incomplete")
    }
}

/// The input of a stream with this type and these keys of `image`; the largest image is 8x8.
fn subject(ros_type: &str, image: &str) -> Box<dyn Input> {
    let image =
        format!("{{resize: {{width: 4, height: 4}}, max_width_px: 8, max_height_px: 8, {image}}}");
    let keys = format!("type: {ros_type}, topic: /s, max_age_ms: 9, image: {image}");
    let yaml = format!("rate_hz: 10\nstreams: {{s: {{{keys}}}}}");
    let config = config::parse(&yaml, "test.yaml").unwrap_or_else(|e| panic!("{e}"));
    open(&config.inputs[0]).unwrap()
}

fn taken(input: &mut dyn Input, message: &[u8]) -> Result<Taken, Rejected> {
    let mut taken = Taken::default();
    input.read(message, &mut taken)?;
    taken.wrong.take().map_or(Ok(taken), Err)
}

/// `sensor_msgs/msg/Image`: size and step, byte order, data.
fn message(encoding: &str, size: [u32; 3], big_endian: u8, data: &[u8]) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.header(Stamp::from_nanos(7), "camera");
    writer.u32(size[1]);
    writer.u32(size[0]);
    writer.string(encoding);
    writer.u8(big_endian);
    writer.u32(size[2]);
    writer.bytes(data);
    writer.finish()
}

#[test]
fn depth_is_taken_in_both_byte_orders_with_any_step() {
    let mut depth = subject("sensor_msgs/Image", "depth: {}");
    for (encoding, element) in
        [("16UC1", DepthElement::U16), ("mono16", DepthElement::U16), ("32FC1", DepthElement::F32)]
    {
        let line = 3 * element.size();
        for step in [line, line + 1, line + 40] {
            let data: Vec<u8> = (0..2 * step as u8).collect();
            for (order, flag) in [("little", 0), ("big", 1)] {
                let message = message(encoding, [3, 2, step as u32], flag, &data);
                let expected = Taken {
                    kind: format!("{element:?} {order}"),
                    size: [3, 2],
                    bytes: [&data[..line], &data[step..step + line]].concat(),
                    wrong: None,
                };
                assert_eq!(taken(&mut *depth, &message), Ok(expected));
                for len in 0..message.len() {
                    let reason = taken(&mut *depth, &message[..len]).unwrap_err().reason;
                    assert_eq!(reason, DropReason::Malformed, "{encoding} {len}");
                }
            }
        }
    }
}

#[test]
fn depth_that_lies_about_its_size_is_dropped() {
    let mut depth = subject("sensor_msgs/Image", "depth: {}");
    let data = [0; 64];
    let max = u32::MAX;
    for (size, len, reason) in [
        ([3, 2, 6], 12, None),
        ([3, 2, 6], 11, Some(DropReason::Malformed)),
        ([3, 2, 5], 64, Some(DropReason::Malformed)),
        ([0, 2, 6], 12, Some(DropReason::Malformed)),
        ([3, 0, 6], 12, Some(DropReason::Malformed)),
        ([8, 2, max], 64, Some(DropReason::Malformed)),
        ([9, 2, 18], 64, Some(DropReason::TooLarge)),
        ([2, 9, 4], 64, Some(DropReason::TooLarge)),
        ([max, max, max], 64, Some(DropReason::TooLarge)),
    ] {
        let message = message("16UC1", size, 0, &data[..len]);
        let found = taken(&mut *depth, &message).err().map(|rejected| rejected.reason);
        assert_eq!(found, reason, "{size:?} {len}");
    }
}

#[test]
fn an_encoding_of_the_other_kind_is_dropped_with_the_key_that_takes_it() {
    let mut depth = subject("sensor_msgs/Image", "depth: {}");
    let mut light = subject("sensor_msgs/Image", "");
    let of = |encoding| message(encoding, [1, 1, 4], 0, &[0; 4]);
    let refused = taken(&mut *depth, &of("rgb8")).unwrap_err();
    assert_eq!(refused.reason, DropReason::Unsupported);
    assert_eq!(
        refused.detail,
        "encoding: expected one of 16UC1, mono16, 32FC1, found \"rgb8\" (image.depth takes no other)"
    );
    let refused = taken(&mut *light, &of("32FC1")).unwrap_err();
    assert_eq!(refused.reason, DropReason::Unsupported);
    assert!(
        refused.detail.ends_with("found \"32FC1\" (image.depth takes it)"),
        "{}",
        refused.detail
    );
}

/// `sensor_msgs/msg/CompressedImage`
fn compressed(format: &str, data: &[u8]) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.header(Stamp::from_nanos(7), "camera");
    writer.string(format);
    writer.bytes(data);
    writer.finish()
}

fn reason(input: &mut dyn Input, message: &[u8]) -> DropReason {
    taken(input, message).unwrap_err().reason
}

#[test]
fn the_configuration_says_what_8uc_means() {
    let data: Vec<u8> = (0..36).collect();
    for (encoding, name) in [
        ("mono8", "8UC1"),
        ("bayer_grbg8", "8UC1"),
        ("rgb8", "8UC3"),
        ("bgr8", "8UC3"),
        ("bgra8", "8UC4"),
    ] {
        let mut named = subject("sensor_msgs/Image", &format!("encoding_8uc: {encoding}"));
        let expected = taken(&mut *named, &message(encoding, [3, 3, 12], 0, &data)).unwrap();
        assert_eq!(taken(&mut *named, &message(name, [3, 3, 12], 0, &data)), Ok(expected));
        for other in ["8UC1", "8UC2", "8UC3", "8UC4"] {
            let message = message(other, [3, 3, 12], 0, &data);
            let dropped = taken(&mut *named, &message).err().map(|refused| refused.reason);
            let expected = (other != name).then_some(DropReason::Unsupported);
            assert_eq!(dropped, expected, "{encoding} {other}");
        }
        let mut unnamed = subject("sensor_msgs/Image", "");
        let dropped = reason(&mut *unnamed, &message(name, [3, 3, 12], 0, &data));
        assert_eq!(dropped, DropReason::Unsupported);
    }
}

#[test]
fn gray_of_16_bits_becomes_8_bits() {
    let mut light = subject("sensor_msgs/Image", "");
    let data = [0x00, 0x80, 0xFF, 0xFF, 7, 7, 0x81, 0x00, 0x80, 0x00, 7, 7];
    let little = taken(&mut *light, &message("mono16", [2, 2, 6], 0, &data)).unwrap();
    assert_eq!((&*little.kind, little.bytes), ("mono8", vec![128, 255, 1, 0]));
    let big = taken(&mut *light, &message("mono16", [2, 2, 6], 1, &data)).unwrap();
    assert_eq!(big.bytes, [0, 255, 128, 128], "128 and 33024 are just under half a level");
}

#[test]
fn truncated_pictures_of_every_encoding_are_malformed() {
    let mut light = subject("sensor_msgs/Image", "encoding_8uc: mono8");
    let data = [9; 6 * 4 * 4];
    for (encoding, step, lines) in [
        ("rgb8", 12, 4),
        ("mono8", 4, 4),
        ("mono16", 9, 4),
        ("8UC1", 5, 4),
        ("yuv422", 8, 4),
        ("nv12", 4, 6),
        ("bayer_bggr8", 6, 4),
        ("bayer_gbrg16", 9, 4),
    ] {
        let len = step as usize * lines;
        let whole = message(encoding, [4, 4, step], 0, &data[..len]);
        assert_eq!(taken(&mut *light, &whole).unwrap().size, [4, 4], "{encoding}");
        for len in 0..whole.len() {
            assert_eq!(
                reason(&mut *light, &whole[..len]),
                DropReason::Malformed,
                "{encoding} {len}"
            );
        }
        let short = message(encoding, [4, 4, step], 0, &data[..len - 1]);
        assert_eq!(reason(&mut *light, &short), DropReason::Malformed, "{encoding}");
        for size in [[9, 4, 99], [4, 10, step], [u32::MAX; 3]] {
            let large = message(encoding, size, 0, &data[..len]);
            assert_eq!(reason(&mut *light, &large), DropReason::TooLarge, "{encoding} {size:?}");
        }
    }
}

#[test]
fn colours_of_16_bits_are_pictures_as_png() {
    let wide = || {
        let yaml = "rate_hz: 10\nstreams: {s: {type: sensor_msgs/CompressedImage, topic: /s, max_age_ms: 9, \
                    image: {resize: {width: 4, height: 4}}}}";
        open(&config::parse(yaml, "test.yaml").unwrap().inputs[0]).unwrap()
    };
    let deep = std::fs::read("../../tests/golden/compressed/deep_rgb.png").unwrap();
    let pixels = std::fs::read("../../tests/golden/compressed/deep_rgb_png.pixels").unwrap();
    let jpeg = std::fs::read("../../tests/golden/compressed/444.jpg").unwrap();
    for pixel in ["rgb16", "bgr16", "rgba16", "bgra16"] {
        // OpenCV writes RGB into the file if it is given BGR, and else the reverse.
        for (given, kind) in [("bgr16", "rgb8"), ("rgb16", "bgr8")] {
            let format = format!("{pixel}; png compressed {given}");
            let found = taken(&mut *wide(), &compressed(&format, &deep)).unwrap();
            assert_eq!((&*found.kind, &found.bytes), (kind, &pixels), "{format}");
        }
        let clipped = compressed(&format!("{pixel}; jpeg compressed bgr8"), &jpeg);
        assert_eq!(reason(&mut *wide(), &clipped), DropReason::Unsupported);
        let cut = compressed(&format!("{pixel}; png compressed bgr16"), &deep[..deep.len() / 2]);
        assert_eq!(reason(&mut *wide(), &cut), DropReason::Malformed);
    }
    let unknown = compressed("rgb32; png compressed bgr16", &deep);
    assert_eq!(reason(&mut *wide(), &unknown), DropReason::Unsupported);
}

#[test]
fn depth_and_light_take_their_own_compressed_images() {
    let mut depth = subject("sensor_msgs/CompressedImage", "depth: {}");
    let mut light = subject("sensor_msgs/CompressedImage", "");
    // 2x1 pixels: a run of one zero, and a run of one pixel of 5, whose code is 10: nibbles 2 and 1.
    let rvl = [&[0; 12][..], &[2, 0, 0, 0, 1, 0, 0, 0], &0x11A1_0000u32.to_le_bytes()].concat();
    let packed = compressed("16UC1; compressedDepth rvl", &rvl);
    let found = taken(&mut *depth, &packed);
    let dropped = reason(&mut *light, &packed);
    assert_eq!(dropped, DropReason::Unsupported);
    for len in 0..packed.len() {
        assert_eq!(reason(&mut *depth, &packed[..len]), DropReason::Malformed);
    }
    let expected =
        Taken { kind: "U16 big".into(), size: [2, 1], bytes: vec![0, 0, 0, 5], wrong: None };
    assert_eq!(found, Ok(expected));
    // Gray of 16 bits in a PNG file is light or depth, as the stream says.
    let file = std::fs::read("../../tests/golden/compressed/deep.png").unwrap();
    let wide = |keys: &str| {
        let yaml = format!(
            "rate_hz: 10\nstreams: {{s: {{type: sensor_msgs/CompressedImage, topic: /s, \
             max_age_ms: 9, image: {{resize: {{width: 4, height: 4}}, {keys}}}}}}}"
        );
        open(&config::parse(&yaml, "test.yaml").unwrap().inputs[0]).unwrap()
    };
    let gray = compressed("mono16; png compressed ", &file);
    let light = taken(&mut *wide(""), &gray).unwrap();
    assert_eq!((&*light.kind, light.size), ("mono8", [45, 31]));
    let numbers: Vec<u32> = (0..45 * 31).map(|at| at * 40).collect();
    let scaled: Vec<u8> = numbers.iter().map(|raw| ((raw + 128) / 257) as u8).collect();
    assert_eq!(light.bytes, scaled);
    let depth = taken(&mut *wide("depth: {}"), &gray).unwrap();
    let raw: Vec<u8> = numbers.iter().flat_map(|raw| (*raw as u16).to_be_bytes()).collect();
    assert_eq!((&*depth.kind, depth.bytes), ("U16 big", raw));
    let unnamed = compressed("png", &file);
    assert_eq!(reason(&mut *wide(""), &unnamed), DropReason::Unsupported);
    for pattern in ["bayer_rggb8", "bayer_rggb16"] {
        let mosaic = compressed(&format!("{pattern}; png compressed "), &file);
        assert_eq!(reason(&mut *wide(""), &mosaic), DropReason::Unsupported);
    }
}
