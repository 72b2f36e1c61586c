//! Depth images in `sensor_msgs/msg/Image`: `16UC1`, `mono16` and `32FC1`.

use super::image::{Fields, fields, unsupported};
use super::{Input, Sink};
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
        let (header, fields) = fields(message)?;
        let view = view(&fields, self.largest_px)?;
        sink.sample(0, &header, Sample::Depth(view));
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
