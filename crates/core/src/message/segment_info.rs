//! Meaning of a segment: a `robocache_ros/msg/SegmentInfo`, its writer and its reader.

use super::MessageError;
use super::info::{list, string};
use crate::cdr::{Reader, Writer};
use crate::encoder::kind;
use crate::layout::{Holds, Layout, Segment};
use crate::spec::{Config, InputId};

impl SegmentInfo {
    /// Meanings of a configuration's segments, in their order. `topics` is as in [`Publication`](super::Publication).
    pub fn all(config: &Config, layout: &Layout, topics: &[String]) -> Vec<Self> {
        let segments = layout.segments().iter();
        segments.map(|segment| SegmentInfo::new(config, segment, topics)).collect()
    }

    fn new(config: &Config, segment: &Segment, topics: &[String]) -> Self {
        let spec = config.stream(segment.stream);
        let inputs: Vec<InputId> = config.inputs_of(segment.stream).collect();
        let topic = |id: &InputId| match topics.get(id.index()) {
            Some(topic) => topic.clone(),
            None => config.input(*id).topic.clone(),
        };
        let interpolates = spec.strategy().interpolates();
        let meaning = spec.encoder.meaning(segment.dtype);
        SegmentInfo {
            name: segment.name.clone(),
            encoder: match segment.holds {
                Holds::Rows => spec.encoder.kind(),
                Holds::Features => kind::SPARSE_VOXELS,
                Holds::Coordinates => kind::VOXEL_COORDINATES,
            }
            .to_owned(),
            dtype: segment.dtype.name().to_owned(),
            shape: segment.shape.clone(),
            channels: match segment.holds {
                Holds::Coordinates => ["z", "y", "x"].map(str::to_owned).to_vec(),
                Holds::Rows | Holds::Features => spec.encoder.channels(),
            },
            topics: inputs.iter().map(topic).collect(),
            ros_types: inputs.iter().map(|id| config.input(*id).ros_type.clone()).collect(),
            timelines: inputs
                .iter()
                .map(|id| config.input(*id).timeline.name().to_owned())
                .collect(),
            lag_ns: spec.lag_ns,
            history_step_ns: spec.history_step_ns,
            target_offsets_ns: (0..spec.steps()).map(|step| spec.target_offset_ns(step)).collect(),
            strategy: spec.strategy().name().to_owned(),
            max_age_ns: spec.rule.max_age_ns,
            max_gap_ns: if interpolates { spec.rule.max_gap_ns } else { 0 },
            fill: spec.rule.fill.name().to_owned(),
            mean: meaning.mean,
            std: meaning.std,
            origin_m: meaning.origin_m,
            size_m: meaning.size_m,
            units: meaning.units,
            operators: meaning.operators,
            layout: meaning.layout.to_owned(),
            filters: meaning.filters.into_iter().map(str::to_owned).collect(),
        }
    }

    /// The step whose target is the lag before the tick: those after it are the horizon.
    pub fn present_step(&self) -> Option<usize> {
        self.target_offsets_ns.iter().position(|offset| *offset == -self.lag_ns)
    }

    /// The unit of a channel; `""` if unknown.
    pub fn unit(&self, channel: usize) -> &str {
        self.units.get(channel).map_or("", String::as_str)
    }
}

/// Meaning of a segment: `msg/SegmentInfo.msg` explains each field.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
#[allow(missing_docs)]
pub struct SegmentInfo {
    pub name: String,
    pub encoder: String,
    pub dtype: String,
    pub shape: Vec<usize>,
    pub channels: Vec<String>,
    pub topics: Vec<String>,
    pub ros_types: Vec<String>,
    pub timelines: Vec<String>,
    pub lag_ns: i64,
    pub history_step_ns: i64,
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
    pub operators: Vec<String>,
    pub layout: String,
    pub filters: Vec<String>,
}

impl SegmentInfo {
    /// Writes a `SegmentInfo`.
    pub(super) fn write(&self, writer: &mut Writer) {
        let strings = |writer: &mut Writer, values: &[String]| {
            writer.string_sequence(values.iter().map(String::as_str));
        };
        writer.string(&self.name);
        writer.string(&self.encoder);
        writer.string(&self.dtype);
        writer.i64_sequence(self.shape.iter().map(|dim| *dim as i64));
        strings(writer, &self.channels);
        strings(writer, &self.topics);
        strings(writer, &self.ros_types);
        strings(writer, &self.timelines);
        writer.i64(self.lag_ns);
        writer.i64(self.history_step_ns);
        writer.i64_sequence(self.target_offsets_ns.iter().copied());
        writer.string(&self.strategy);
        writer.i64(self.max_age_ns);
        writer.i64(self.max_gap_ns);
        writer.string(&self.fill);
        writer.f32_sequence(self.mean.iter().copied());
        writer.f32_sequence(self.std.iter().copied());
        writer.f64_sequence(&self.origin_m);
        writer.f32(self.size_m);
        strings(writer, &self.units);
        strings(writer, &self.operators);
        writer.string(&self.layout);
        strings(writer, &self.filters);
    }

    /// Reads a `SegmentInfo`.
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, MessageError> {
        let name = string(reader)?;
        let encoder = string(reader)?;
        let dtype = string(reader)?;
        let shape = reader.i64_sequence()?;
        let sizes = shape.iter().map(|dim| usize::try_from(*dim).ok());
        let Some(sizes) = sizes.collect() else {
            let expected = "a shape of sizes >= 0".to_owned();
            let found = format!("{shape:?}");
            return Err(MessageError::Segment { name, expected, found });
        };
        // Rust evaluates the fields in this order, which is that of the message.
        Ok(SegmentInfo {
            name,
            encoder,
            dtype,
            shape: sizes,
            channels: list(reader, string)?,
            topics: list(reader, string)?,
            ros_types: list(reader, string)?,
            timelines: list(reader, string)?,
            lag_ns: reader.i64()?,
            history_step_ns: reader.i64()?,
            target_offsets_ns: reader.i64_sequence()?,
            strategy: string(reader)?,
            max_age_ns: reader.i64()?,
            max_gap_ns: reader.i64()?,
            fill: string(reader)?,
            mean: reader.f32_sequence()?.iter().collect(),
            std: reader.f32_sequence()?.iter().collect(),
            origin_m: list(reader, |reader| Ok(reader.f64()?))?,
            size_m: reader.f32()?,
            units: list(reader, string)?,
            operators: list(reader, string)?,
            layout: string(reader)?,
            filters: list(reader, string)?,
        })
    }
}
