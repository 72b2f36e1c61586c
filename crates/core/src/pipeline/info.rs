//! What the tensors of a pipeline mean, as the bytes of a `robocache_ros/msg/FusedTensorInfo`.

use super::Pipeline;
use crate::cdr::Writer;
use crate::layout::{Holds, Segment};
use crate::spec::InputId;
use robocache_ops::time::Stamp;

/// What a pipeline does not know of its publication.
#[derive(Clone, Copy, Debug)]
pub struct Publication<'a> {
    /// When the message is published; [`Stamp::ZERO`] if the clock has not begun.
    pub stamp: Stamp,
    /// The topic of every input, by [`InputId`]. If one is missing, the configuration's counts.
    pub topics: &'a [String],
    /// Whether the tensors are sealed.
    pub digest: bool,
    /// Where tensors are computed, in a word: [`Pipeline::backend_name`] of a live node.
    pub backend: &'a str,
}

impl Pipeline {
    /// The serialized `FusedTensorInfo` of this pipeline's tensors.
    pub fn info(&self, publication: &Publication<'_>) -> Vec<u8> {
        let config = self.config();
        let mut writer = Writer::new();
        writer.header(publication.stamp, &config.base_frame);
        writer.string(env!("CARGO_PKG_VERSION"));
        writer.string(publication.backend);
        writer.string(&config.source.file);
        writer.string(&config.source.text);
        writer.f64(config.rate_hz);
        writer.i64(config.grid.period_ns());
        writer.u8(u8::from(publication.digest));
        let segments = self.segment_infos(publication.topics);
        writer.u32(segments.len() as u32);
        segments.iter().for_each(|segment| segment.write(&mut writer));
        writer.finish()
    }

    /// What the segments mean, in their order. `topics` is as in [`Publication`].
    pub fn segment_infos(&self, topics: &[String]) -> Vec<SegmentInfo> {
        let segments = self.layout().segments().iter();
        segments.map(|segment| self.segment_info(segment, topics)).collect()
    }

    fn segment_info(&self, segment: &Segment, topics: &[String]) -> SegmentInfo {
        let config = self.config();
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
                Holds::Features => "sparse_voxels",
                Holds::Coordinates => "voxel_coordinates",
            },
            dtype: segment.dtype.name(),
            shape: segment.shape.clone(),
            channels: match segment.holds {
                Holds::Coordinates => ["z", "y", "x"].map(str::to_owned).to_vec(),
                Holds::Rows | Holds::Features => spec.encoder.channels(),
            },
            topics: inputs.iter().map(topic).collect(),
            ros_types: inputs.iter().map(|id| config.input(*id).ros_type.clone()).collect(),
            timelines: inputs.iter().map(|id| config.input(*id).timeline.name()).collect(),
            lag_ns: spec.lag_ns,
            history_step_ns: spec.history_step_ns,
            target_offsets_ns: (0..spec.steps()).map(|step| spec.target_offset_ns(step)).collect(),
            strategy: spec.strategy().name(),
            max_age_ns: spec.rule.max_age_ns,
            max_gap_ns: if interpolates { spec.rule.max_gap_ns } else { 0 },
            fill: spec.rule.fill.name(),
            mean: meaning.mean,
            std: meaning.std,
            origin_m: meaning.origin_m,
            size_m: meaning.size_m,
            units: meaning.units,
            operators: meaning.operators,
            layout: meaning.layout,
            filters: meaning.filters,
        }
    }
}

/// What a segment means: `msg/SegmentInfo.msg` explains each field.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[allow(missing_docs)]
pub struct SegmentInfo {
    pub name: String,
    pub encoder: &'static str,
    pub dtype: &'static str,
    pub shape: Vec<usize>,
    pub channels: Vec<String>,
    pub topics: Vec<String>,
    pub ros_types: Vec<String>,
    pub timelines: Vec<&'static str>,
    pub lag_ns: i64,
    pub history_step_ns: i64,
    pub target_offsets_ns: Vec<i64>,
    pub strategy: &'static str,
    pub max_age_ns: i64,
    pub max_gap_ns: i64,
    pub fill: &'static str,
    pub mean: Vec<f32>,
    pub std: Vec<f32>,
    pub origin_m: Vec<f64>,
    pub size_m: f32,
    pub units: Vec<String>,
    pub operators: Vec<String>,
    pub layout: &'static str,
    pub filters: Vec<&'static str>,
}

impl SegmentInfo {
    /// Writes a `SegmentInfo`.
    fn write(&self, writer: &mut Writer) {
        let strings = |writer: &mut Writer, values: &[String]| {
            writer.string_sequence(values.iter().map(String::as_str));
        };
        writer.string(&self.name);
        writer.string(self.encoder);
        writer.string(self.dtype);
        writer.i64_sequence(self.shape.iter().map(|dim| *dim as i64));
        strings(writer, &self.channels);
        strings(writer, &self.topics);
        strings(writer, &self.ros_types);
        writer.string_sequence(self.timelines.iter().copied());
        writer.i64(self.lag_ns);
        writer.i64(self.history_step_ns);
        writer.i64_sequence(self.target_offsets_ns.iter().copied());
        writer.string(self.strategy);
        writer.i64(self.max_age_ns);
        writer.i64(self.max_gap_ns);
        writer.string(self.fill);
        writer.f32_sequence(self.mean.iter().copied());
        writer.f32_sequence(self.std.iter().copied());
        writer.f64_sequence(&self.origin_m);
        writer.f32(self.size_m);
        strings(writer, &self.units);
        strings(writer, &self.operators);
        writer.string(self.layout);
        writer.string_sequence(self.filters.iter().copied());
    }
}
