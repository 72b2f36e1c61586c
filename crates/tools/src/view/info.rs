//! Reads a serialized `FusedTensorInfo`.

use robocache_core::cdr::{CdrError, Reader};

/// What tensors mean.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Info {
    /// The base frame.
    pub base_frame: String,
    /// The version of robocache that made them.
    pub version: String,
    /// The file of the configuration, and its text.
    pub config_file: String,
    /// See `config_file`.
    pub config: String,
    /// Rate of the ticks \[Hz\].
    pub rate_hz: f64,
    /// From one tick to the next \[ns\].
    pub period_ns: i64,
    /// In the order of the tensor.
    pub segments: Vec<SegmentInfo>,
}

/// What a segment means. The fields are those of `robocache_ros/msg/SegmentInfo`.
#[derive(Clone, Debug, Default, PartialEq, serde::Deserialize)]
#[serde(default)]
#[allow(missing_docs)] // msg/SegmentInfo.msg
pub struct SegmentInfo {
    pub name: String,
    pub encoder: String,
    pub dtype: String,
    pub shape: Vec<i64>,
    pub channels: Vec<String>,
    pub topics: Vec<String>,
    pub ros_types: Vec<String>,
    pub lag_ns: i64,
    pub target_offsets_ns: Vec<i64>,
    pub strategy: String,
    pub max_age_ns: i64,
    pub max_gap_ns: i64,
    pub fill: String,
    pub mean: Vec<f32>,
    pub std: Vec<f32>,
    pub origin_m: Vec<f64>,
    pub size_m: f32,
    pub units: Vec<String>,
    pub layout: String,
}

impl Info {
    /// Reads the bytes of a `robocache_ros/msg/FusedTensorInfo`.
    ///
    /// # Errors
    /// The message is shorter than it says.
    pub fn read(message: &[u8]) -> Result<Self, CdrError> {
        let mut reader = Reader::new(message)?;
        reader.skip(4, 8)?; // the header's stamp
        let base_frame = text(&mut reader)?;
        let version = text(&mut reader)?;
        text(&mut reader)?; // backend
        let (config_file, config) = (text(&mut reader)?, text(&mut reader)?);
        let (rate_hz, period_ns) = (reader.f64()?, reader.i64()?);
        reader.u8()?; // digest
        let segments = list(&mut reader, SegmentInfo::read)?;
        Ok(Info { base_frame, version, config_file, config, rate_hz, period_ns, segments })
    }

    /// The segment of this name.
    pub fn segment(&self, name: &str) -> Option<&SegmentInfo> {
        self.segments.iter().find(|segment| segment.name == name)
    }
}

impl SegmentInfo {
    fn read(reader: &mut Reader<'_>) -> Result<Self, CdrError> {
        let mut segment = SegmentInfo {
            name: text(reader)?,
            encoder: text(reader)?,
            dtype: text(reader)?,
            shape: list(reader, Reader::i64)?,
            channels: list(reader, text)?,
            topics: list(reader, text)?,
            ros_types: list(reader, text)?,
            ..SegmentInfo::default()
        };
        list(reader, text)?; // timelines
        segment.lag_ns = reader.i64()?;
        reader.i64()?; // history_step_ns, which target_offsets_ns has too
        segment.target_offsets_ns = list(reader, Reader::i64)?;
        segment.strategy = text(reader)?;
        segment.max_age_ns = reader.i64()?;
        segment.max_gap_ns = reader.i64()?;
        segment.fill = text(reader)?;
        segment.mean = list(reader, Reader::f32)?;
        segment.std = list(reader, Reader::f32)?;
        segment.origin_m = list(reader, Reader::f64)?;
        segment.size_m = reader.f32()?;
        segment.units = list(reader, text)?;
        list(reader, text)?; // operators
        segment.layout = text(reader)?;
        list(reader, text)?; // filters
        Ok(segment)
    }

    /// The step whose target is the lag before the tick: those after it are the horizon.
    pub fn present_step(&self) -> Option<usize> {
        self.target_offsets_ns.iter().position(|offset| *offset == -self.lag_ns)
    }

    /// The unit of a channel; `""` if it is not known.
    pub fn unit(&self, channel: usize) -> &str {
        self.units.get(channel).map_or("", String::as_str)
    }
}

fn text(reader: &mut Reader<'_>) -> Result<String, CdrError> {
    Ok(String::from_utf8_lossy(reader.string_bytes()?).into_owned())
}

/// Reads a sequence. No more memory is reserved than the message has bytes.
fn list<'a, T>(
    reader: &mut Reader<'a>,
    read: impl Fn(&mut Reader<'a>) -> Result<T, CdrError>,
) -> Result<Vec<T>, CdrError> {
    let count = reader.u32()?;
    (0..count).map(|_| read(reader)).collect()
}
