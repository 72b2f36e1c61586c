//! Arrays that a topic has in place of messages: an episode of a dataset has numbers and pixels, and no message of ROS.

use std::sync::Arc;

use bytes::Bytes;
use robocache_core::cdr::messages::{CompressedImage, Image, JointState};
use robocache_core::codec::is_png;
use robocache_core::pipeline::ArraySample;
use robocache_core::sample::{Header, StampError};
use robocache_ops::time::Stamp;
use robocache_runtime::RecordedArray;

/// The meaning of the bytes that a topic has in place of messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TopicArray {
    /// A position for each of these joints: `f64`, little-endian.
    Joints(Vec<String>),
    /// The pixels of an image of this width and height: three bytes each, red first.
    Pixels([usize; 2]),
    /// The file of a picture: PNG or JPEG.
    Picture,
}

/// The encoding of [`TopicArray::Pixels`].
const RGB8: &str = "rgb8";

/// The format of a picture's file, as `sensor_msgs/CompressedImage` names it.
fn format_of(file: &[u8]) -> &'static str {
    if is_png(file) { "png" } else { "jpeg" }
}

impl TopicArray {
    /// Bytes of each array; `None` for a file, which has any size.
    pub fn byte_len(&self) -> Option<usize> {
        match self {
            TopicArray::Joints(names) => Some(size_of::<f64>() * names.len()),
            TopicArray::Pixels([width, height]) => Some(3 * width * height),
            TopicArray::Picture => None,
        }
    }

    fn sample<'a>(&'a self, data: &'a [u8]) -> ArraySample<'a> {
        match self {
            TopicArray::Joints(names) => ArraySample::Joints { names, positions: data },
            TopicArray::Pixels(size) => ArraySample::Image { size: *size, encoding: RGB8, data },
            TopicArray::Picture => ArraySample::File { format: format_of(data), data },
        }
    }

    /// The message with these values: an input that selects fields of a message reads it.
    fn message(&self, stamp: Stamp, data: &[u8]) -> Vec<u8> {
        let buffer = Vec::new();
        let frame_id = "";
        match self {
            TopicArray::Joints(names) => {
                let name: Vec<&str> = names.iter().map(String::as_str).collect();
                let (positions, _) = data.as_chunks::<8>();
                let position: Vec<f64> =
                    positions.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect();
                let name = &name[..];
                let position = &position[..];
                let velocity = &[][..];
                let effort = &[][..];
                JointState { stamp, frame_id, name, position, velocity, effort }.to_cdr(buffer)
            }
            TopicArray::Pixels([width, height]) => {
                let [width, height] = [*width as u32, *height as u32];
                let encoding = RGB8;
                let step = 3 * width;
                let image = Image { stamp, frame_id, height, width, encoding, step };
                image.to_cdr(buffer, |lines| lines.extend_from_slice(data))
            }
            TopicArray::Picture => {
                let image = CompressedImage { stamp, frame_id, format: format_of(data) };
                image.to_cdr(buffer, |file| file.extend_from_slice(data))
            }
        }
    }
}

/// An array of a topic, measured when it was received.
#[derive(Clone, Debug)]
pub(crate) struct ReceivedArray {
    pub(crate) array: Arc<TopicArray>,
    pub(crate) received: Stamp,
    pub(crate) bytes: Bytes,
}

impl ReceivedArray {
    /// The array as a message.
    pub(crate) fn message(&self) -> Vec<u8> {
        self.array.message(self.received, &self.bytes)
    }
}

impl RecordedArray for ReceivedArray {
    fn read(&self) -> (Header<'_>, ArraySample<'_>) {
        let (sec, nanosec) = self.received.to_sec_nanosec();
        let stamp = StampError::check(sec, nanosec);
        let header = Header { stamp, frame_id: "", child_frame_id: "" };
        (header, self.array.sample(&self.bytes))
    }
}

#[cfg(test)]
mod tests;
