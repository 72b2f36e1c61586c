//! Image messages, good and bad, through their inputs.

use super::*;
use crate::cdr::Writer;
use crate::config;
use crate::ops::depth::DepthElement;

/// What an input gave: the frame, the size, and the bytes of the lines without padding.
#[derive(Debug, Default, PartialEq)]
struct Taken {
    kind: String,
    size: [usize; 2],
    bytes: Vec<u8>,
}

impl Sink for Taken {
    fn sample(&mut self, part: usize, header: &Header<'_>, sample: Sample<'_>) {
        assert_eq!((part, header.frame_id), (0, "camera"));
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
        *self = Taken { kind, size, bytes };
    }

    fn trajectory(&mut self, _: &Header<'_>, _: &Trajectory<'_>) {
        panic!("no plan");
    }

    fn incomplete(&mut self, part: usize) {
        panic!("part {part} is incomplete")
    }
}

/// The input of a stream with this type and these keys of `image`; the largest image is 8x8.
fn subject(ros_type: &str, image: &str) -> Box<dyn Input> {
    let image = format!("{{width: 4, height: 4, max_width_px: 8, max_height_px: 8, {image}}}");
    let keys = format!("type: {ros_type}, topic: /s, max_age_ms: 9, image: {image}");
    let yaml = format!("rate_hz: 10\nstreams: {{s: {{{keys}}}}}");
    let config = config::parse(&yaml, "test.yaml").unwrap_or_else(|e| panic!("{e}"));
    open(&config.inputs[0]).unwrap()
}

fn taken(input: &mut dyn Input, message: &[u8]) -> Result<Taken, Rejected> {
    let mut taken = Taken::default();
    input.read(message, &mut taken).map(|()| taken)
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
