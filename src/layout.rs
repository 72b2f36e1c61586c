//! Where each segment stands in the packed tensor. This is the only place that computes offsets.

use crate::config::Config;
use crate::dtype::DType;

/// Segments start at multiples of this many bytes: a cache line, and what DLPack asks of data.
pub const ALIGNMENT: usize = 64;

/// The packed tensor of one tick: one segment per stream, in the order of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    segments: Vec<Segment>,
    byte_len: usize,
}

/// One stream's part of the packed tensor, row-major.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Name of the stream.
    pub name: String,
    /// Element type.
    pub dtype: DType,
    /// `[steps, row...]`: the history steps, oldest first, then the shape of one row.
    pub shape: Vec<usize>,
    /// Bytes from the start of the tensor; a multiple of [`ALIGNMENT`].
    pub byte_offset: usize,
    /// Bytes of the segment, without the padding behind it.
    pub byte_len: usize,
    /// Elements of one step.
    pub step_len: usize,
    /// Number of history steps.
    pub steps: usize,
}

impl Segment {
    /// Bytes of one step.
    pub fn step_byte_len(&self) -> usize {
        self.step_len * self.dtype.size()
    }

    /// Where history step `step` stands in the packed tensor \[bytes\].
    pub fn step_range(&self, step: usize) -> std::ops::Range<usize> {
        let start = self.byte_offset + step * self.step_byte_len();
        start..start + self.step_byte_len()
    }
}

impl Layout {
    /// The layout of a validated configuration, whose sizes cannot overflow.
    pub fn new(config: &Config) -> Layout {
        let mut end = 0;
        let mut segments = Vec::with_capacity(config.streams.len());
        for spec in &config.streams {
            let step_len = spec.source.row_len();
            let steps = spec.history_steps;
            let mut shape = vec![steps];
            shape.extend(spec.source.row_shape());
            let byte_len = steps * step_len * spec.dtype.size();
            let (name, dtype, byte_offset) = (spec.name.clone(), spec.dtype, end);
            segments.push(Segment { name, dtype, shape, byte_offset, byte_len, step_len, steps });
            end = (byte_offset + byte_len).next_multiple_of(ALIGNMENT);
        }
        Layout { segments, byte_len: end }
    }

    /// The segments, in the order of the configuration's streams.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Bytes of the whole tensor, a multiple of [`ALIGNMENT`].
    pub fn byte_len(&self) -> usize {
        self.byte_len
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;

    const CONFIG: &str = "
rate_hz: 100
output: {dtype: f16}
streams:
  joints:
    type: sensor_msgs/JointState
    topic: /joint_states
    joints: [a, b, c]
    fields: [position, velocity]
    history: {steps: 3, step_ms: 10}
    max_age_ms: 50
    dtype: f32
  camera:
    type: sensor_msgs/Image
    topic: /image
    max_age_ms: 100
    image: {width: 5, height: 4}
  lidar:
    type: sensor_msgs/PointCloud2
    topic: /points
    max_age_ms: 100
    cloud:
      {origin_m: [0, 0, 0], size_m: 1, shape: [2, 3, 4], channels: [{reduce: count}]}
";

    #[test]
    fn segments_are_aligned_and_do_not_overlap() {
        let layout = Layout::new(&config::parse(CONFIG, "test.yaml").unwrap());
        let [joints, camera, lidar] = layout.segments() else { panic!("three segments") };
        assert_eq!((joints.shape.as_slice(), joints.dtype), ([3, 6].as_slice(), DType::F32));
        assert_eq!((joints.byte_offset, joints.byte_len), (0, 72));
        assert_eq!((joints.step_len, joints.steps, joints.step_byte_len()), (6, 3, 24));
        assert_eq!((camera.shape.as_slice(), camera.dtype), ([1, 3, 4, 5].as_slice(), DType::F16));
        assert_eq!((camera.byte_offset, camera.byte_len), (128, 120));
        // One channel of z by y by x.
        assert_eq!((lidar.shape.as_slice(), lidar.steps), ([1, 1, 4, 3, 2].as_slice(), 1));
        assert_eq!((lidar.byte_offset, lidar.byte_len), (256, 48));
        assert_eq!(layout.byte_len(), 320);
    }
}
