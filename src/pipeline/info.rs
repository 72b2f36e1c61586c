//! What the tensors of a pipeline mean, as the bytes of a `robocache_ros/msg/FusedTensorInfo`.

use super::Pipeline;
use crate::cdr::Writer;
use crate::dtype::DType;
use crate::layout::{Holds, Segment};
use crate::ops::image::ImageSpec;
use crate::ops::operators::OutputChannel;
use crate::ops::voxelize::Reduction;
use crate::spec::{EncoderSpec, InputId};
use crate::time::Stamp;

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
        let segments = self.layout().segments();
        writer.u32(segments.len() as u32);
        segments.iter().for_each(|segment| self.write_segment(&mut writer, segment, publication));
        writer.finish()
    }

    /// Writes a `SegmentInfo`.
    fn write_segment(&self, writer: &mut Writer, segment: &Segment, publication: &Publication<'_>) {
        let config = self.config();
        let spec = config.stream(segment.stream);
        writer.string(&segment.name);
        writer.string(match segment.holds {
            Holds::Rows => spec.encoder.kind(),
            Holds::Features => "sparse_voxels",
            Holds::Coordinates => "voxel_coordinates",
        });
        writer.string(segment.dtype.name());
        writer.i64_sequence(segment.shape.iter().map(|dim| *dim as i64));
        let channels = match segment.holds {
            Holds::Coordinates => ["z", "y", "x"].map(str::to_owned).to_vec(),
            Holds::Rows | Holds::Features => channels(&spec.encoder),
        };
        writer.string_sequence(channels.iter().map(String::as_str));

        let inputs: Vec<InputId> = config.inputs_of(segment.stream).collect();
        let topic = |id: &InputId| match publication.topics.get(id.index()) {
            Some(topic) => topic.as_str(),
            None => config.input(*id).topic.as_str(),
        };
        writer.string_sequence(inputs.iter().map(topic));
        writer.string_sequence(inputs.iter().map(|id| config.input(*id).ros_type.as_str()));
        writer.string_sequence(inputs.iter().map(|id| config.input(*id).timeline.name()));

        writer.i64(spec.lag_ns);
        writer.i64(spec.history_step_ns);
        let offsets: Vec<i64> = (0..spec.steps()).map(|step| spec.target_offset_ns(step)).collect();
        writer.i64_sequence(offsets.into_iter());
        writer.string(spec.strategy().name());
        writer.i64(spec.rule.max_age_ns);
        let interpolates = spec.strategy().interpolates();
        writer.i64(if interpolates { spec.rule.max_gap_ns } else { 0 });
        writer.string(spec.rule.fill.name());

        let [mean, std] = match &spec.encoder {
            EncoderSpec::Image(image) => normalisation(image, segment),
            EncoderSpec::Vector(_) | EncoderSpec::Depth(_) | EncoderSpec::Voxels(_) => [&[][..]; 2],
        };
        writer.f32_sequence(mean.iter().copied());
        writer.f32_sequence(std.iter().copied());
        let (origin_m, size_m) = match &spec.encoder {
            EncoderSpec::Voxels(voxels) => (&voxels.grid.origin_m[..], voxels.grid.size_m),
            EncoderSpec::Vector(_) | EncoderSpec::Image(_) | EncoderSpec::Depth(_) => {
                (&[][..], 0.0)
            }
        };
        writer.f64_sequence(origin_m);
        writer.f32(size_m);
        let outputs: &[OutputChannel] = match &spec.encoder {
            EncoderSpec::Vector(vector) => &vector.outputs,
            _ => &[],
        };
        writer.string_sequence(outputs.iter().map(|output| output.unit));
        let operators: Vec<String> = outputs.iter().map(operators).collect();
        writer.string_sequence(operators.iter().map(String::as_str));
        let (layout, filters) = match &spec.encoder {
            EncoderSpec::Image(image) => (image.layout.name(), image.resizes.as_slice()),
            EncoderSpec::Vector(_) | EncoderSpec::Depth(_) | EncoderSpec::Voxels(_) => {
                ("", &[][..])
            }
        };
        writer.string(layout);
        writer.string_sequence(filters.iter().map(|resize| resize.filter.name()));
    }
}

/// The operators of a channel as JSON.
fn operators(output: &OutputChannel) -> String {
    serde_json::to_string(&output.operators).unwrap_or_default()
}

/// The name of each entry along the first dimension of a row.
fn channels(encoder: &EncoderSpec) -> Vec<String> {
    match encoder {
        EncoderSpec::Vector(vector) => vector.names().into_iter().map(str::to_owned).collect(),
        EncoderSpec::Image(image) => {
            image.color.names().iter().copied().map(str::to_owned).collect()
        }
        EncoderSpec::Depth(_) => vec!["depth".to_owned()],
        EncoderSpec::Voxels(voxels) => voxels.channels.iter().map(Reduction::label).collect(),
    }
}

/// Mean and standard deviation of each channel; empty if the rows hold bytes.
fn normalisation<'a>(image: &'a ImageSpec, segment: &Segment) -> [&'a [f32]; 2] {
    let channels = match segment.dtype {
        DType::U8 => 0,
        _ => image.color.channels(),
    };
    [&image.mean[..channels], &image.std[..channels]]
}
