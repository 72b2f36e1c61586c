//! Meaning of tensors: a `robocache_ros/msg/FusedTensorInfo`, its writer and its reader.

use super::read::text;
use super::{MessageError, SegmentInfo};
use crate::cdr::{Reader, Writer};
use crate::contract::Contract;
use crate::layout::Layout;
use crate::spec::Config;
use robocache_ops::time::Stamp;

/// Bytes that a middleware may put behind a message.
const MOST_PADDING: usize = 7;

/// Facts of a publication that a configuration does not say.
#[derive(Clone, Copy, Debug)]
pub struct Publication<'a> {
    /// When the message is published; [`Stamp::ZERO`] if the clock has not begun.
    pub stamp: Stamp,
    /// The topic of every input, by [`InputId`](crate::spec::InputId). If one is missing, the configuration's counts.
    pub topics: &'a [String],
    /// True if the tensors are sealed.
    pub digest: bool,
    /// Backend that computes the tensors, in a word:
    /// [`Pipeline::backend_name`](crate::pipeline::Pipeline::backend_name) of a live node.
    pub backend: &'a str,
}

/// Meaning of tensors: `msg/FusedTensorInfo.msg` explains each field.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct TensorInfo {
    pub stamp: Stamp,
    pub base_frame: String,
    pub version: String,
    pub backend: String,
    pub config_file: String,
    pub config: String,
    pub rate_hz: f64,
    pub period_ns: i64,
    pub digest: bool,
    /// In the order of the tensor.
    pub segments: Vec<SegmentInfo>,
    /// Empty in a message of a version that had none.
    pub contract: String,
}

impl TensorInfo {
    /// Meaning of a configuration's tensors. `layout` is the configuration's.
    pub fn new(config: &Config, layout: &Layout, publication: &Publication<'_>) -> Self {
        TensorInfo {
            stamp: publication.stamp,
            base_frame: config.base_frame.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            backend: publication.backend.to_owned(),
            config_file: config.source.file.clone(),
            config: config.source.text.clone(),
            rate_hz: config.rate_hz,
            period_ns: config.grid.period_ns(),
            digest: publication.digest,
            segments: SegmentInfo::all(config, layout, publication.topics),
            contract: Contract::of_node(config).to_string(),
        }
    }

    /// The serialized message.
    pub fn to_cdr(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        writer.header(self.stamp, &self.base_frame);
        writer.string(&self.version);
        writer.string(&self.backend);
        writer.string(&self.config_file);
        writer.string(&self.config);
        writer.f64(self.rate_hz);
        writer.i64(self.period_ns);
        writer.u8(u8::from(self.digest));
        writer.u32(self.segments.len() as u32);
        self.segments.iter().for_each(|segment| segment.write(&mut writer));
        writer.string(&self.contract);
        writer.finish()
    }

    /// Reads a serialized message.
    ///
    /// # Errors
    /// It is shorter than it says, or a text is not UTF-8, or a size is negative.
    pub fn read(message: &[u8]) -> Result<Self, MessageError> {
        let mut reader = Reader::new(message)?;
        let sec = reader.i32()?;
        let nanosec = reader.u32()?;
        let stamp = Stamp::from_sec_nanosec(sec, nanosec);
        Ok(TensorInfo {
            stamp: stamp.ok_or(MessageError::Nanoseconds { found: nanosec })?,
            base_frame: string(&mut reader)?,
            version: string(&mut reader)?,
            backend: string(&mut reader)?,
            config_file: string(&mut reader)?,
            config: string(&mut reader)?,
            rate_hz: reader.f64()?,
            period_ns: reader.i64()?,
            digest: reader.u8()? != 0,
            segments: list(&mut reader, SegmentInfo::read)?,
            contract: match reader.left() > MOST_PADDING {
                true => string(&mut reader)?,
                false => String::new(),
            },
        })
    }

    /// The segment of this name.
    pub fn segment(&self, name: &str) -> Option<&SegmentInfo> {
        self.segments.iter().find(|segment| segment.name == name)
    }
}

/// Reads a string.
pub(super) fn string(reader: &mut Reader<'_>) -> Result<String, MessageError> {
    text(reader).map(str::to_owned)
}

/// Reads a sequence. No more memory is reserved than the message has bytes.
pub(super) fn list<'a, T>(
    reader: &mut Reader<'a>,
    read: impl Fn(&mut Reader<'a>) -> Result<T, MessageError>,
) -> Result<Vec<T>, MessageError> {
    let count = reader.u32()?;
    (0..count).map(|_| read(reader)).collect()
}
