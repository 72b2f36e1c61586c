//! Depth images in `sensor_msgs/msg/Image`: `16UC1`, `mono16` and `32FC1`.

use super::image::{Fields, fields, unsupported};
use super::{Input, Sink, header};
use crate::cdr::Reader;
use crate::codec::{RawImage, check_size, depth};
use crate::rejected::Rejected;
use crate::sample::Sample;
use robocache_ops::depth::DepthView;

/// Reads depth images of at most this width and height \[px\].
pub(super) struct DepthInput {
    pub largest_px: [usize; 2],
}

impl Input for DepthInput {
    fn read(&mut self, message: &[u8], sink: &mut dyn Sink) -> Result<(), Rejected> {
        let mut reader = Reader::new(message)?;
        let Some(sink) = sink.admit(&header(&mut reader)?) else { return Ok(()) };
        sink.sample(0, Sample::Depth(view(&fields(&mut reader)?, self.largest_px)?));
        Ok(())
    }
}

/// The depth image of the fields of a message.
pub(crate) fn view<'a>(
    fields: &Fields<'a>,
    largest: [usize; 2],
) -> Result<DepthView<'a>, Rejected> {
    let hint = "image.depth takes no other";
    let name = fields.encoding;
    let (name, element) = depth::element_of(name)
        .ok_or_else(|| unsupported(&depth::ENCODINGS.map(|known| known.0), name, hint))?;
    let RawImage { size: [width, height], big_endian, step, data } = fields.image;
    check_size([width, height], largest)?;
    fields.image.check_lines(name, element.size())?;
    Ok(DepthView { element, big_endian, width, height, step, data })
}
