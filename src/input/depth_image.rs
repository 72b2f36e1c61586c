//! Depth images in `sensor_msgs/msg/Image`: `16UC1`, `mono16` and `32FC1`.

use super::image::{Fields, check_lines, fields, unsupported};
use super::{Input, Sample, Sink};
use crate::codec::check_size;
use crate::ops::depth::{DepthElement, DepthView};
use crate::pipeline::Rejected;

/// The encodings of depth: name in messages, and what a pixel is. REP 118 has the first and the last;
/// some drivers call the same numbers `mono16`.
const ENCODINGS: [(&str, DepthElement); 3] =
    [("16UC1", DepthElement::U16), ("mono16", DepthElement::U16), ("32FC1", DepthElement::F32)];

/// Reads depth images of at most this width and height \[px\].
pub(super) struct DepthInput {
    pub largest_px: [usize; 2],
}

impl Input for DepthInput {
    fn read(&mut self, message: &[u8], sink: &mut dyn Sink) -> Result<(), Rejected> {
        let (header, fields) = fields(message)?;
        let view = view(&fields, self.largest_px)?;
        sink.sample(0, &header, Sample::Depth(view));
        Ok(())
    }
}

/// What a pixel of an encoding of depth is; `None` if it is no such encoding.
pub(super) fn element_of(encoding: &[u8]) -> Option<DepthElement> {
    ENCODINGS.iter().find(|known| known.0.as_bytes() == encoding).map(|known| known.1)
}

/// The names of all encodings of depth.
pub(super) fn names() -> [&'static str; 3] {
    ENCODINGS.map(|known| known.0)
}

fn view<'a>(fields: &Fields<'a>, largest: [usize; 2]) -> Result<DepthView<'a>, Rejected> {
    let element = element_of(fields.encoding)
        .ok_or_else(|| unsupported(&names(), fields.encoding, "image.depth takes no other"))?;
    check_size(fields.size, largest)?;
    check_lines(fields, element.size())?;
    let Fields { size: [width, height], big_endian, step, data, .. } = *fields;
    Ok(DepthView { element, big_endian, width, height, step, data })
}
