//! Places of the segments in the packed tensor, and of each ring's row in its segment.
//!
//! Only this module computes offsets.

use std::ops::Range;

use crate::spec::{Config, RingId, SegmentId, StreamId, StreamSpec};
use robocache_ops::dtype::DType;
use robocache_ops::packing::{ALIGNMENT, Run};

/// The packed tensor of one tick: the segments of all streams, in the order of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    segments: Vec<Segment>,
    rings: Vec<RingPlace>,
    /// Per stream: its segments, and its rings.
    streams: Vec<[Range<usize>; 2]>,
    byte_len: usize,
}

/// A part of the packed tensor, row-major.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The stream whose values it holds.
    pub stream: StreamId,
    /// Its name: that of the stream; `<stream>.coordinates` for the coordinates of a sparse one.
    pub name: String,
    /// Element type.
    pub dtype: DType,
    /// `[steps, row...]`: the steps, oldest first, then the shape of one row.
    pub shape: Vec<usize>,
    /// Bytes from the start of the tensor; a multiple of [`ALIGNMENT`].
    pub byte_offset: usize,
    /// Bytes of the segment, without the padding behind it.
    pub byte_len: usize,
    /// Elements of one step.
    pub step_len: usize,
    /// Number of steps: history and horizon.
    pub steps: usize,
    /// Content of its steps.
    pub holds: Holds,
}

/// Content of a segment's steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    /// Whole rows.
    Rows,
    /// Voxels, up to the number in use: what each channel has of them.
    Features,
    /// Indices of these voxels: z, y, x.
    Coordinates,
}

/// Place of a ring's rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RingPlace {
    /// The ring's stream.
    pub stream: StreamId,
    /// The ring's number in its stream: the group of a vector, otherwise 0.
    pub group: usize,
    /// The segment that its rows are part of.
    pub segment: SegmentId,
    /// The segment of the coordinates, if the rows are sparse.
    pub coordinates: Option<SegmentId>,
    /// Elements of one of its rows.
    pub row_len: usize,
    /// Elements of a step that are made of its rows: as many as a row has, unless operators change
    /// that.
    pub part_len: usize,
    /// Places of these elements in a step of the segment. Together the runs are the whole part.
    pub runs: Vec<Run>,
}

impl Segment {
    /// The segment of a stream, `byte_offset` bytes from the start of the tensor.
    fn new(stream: StreamId, spec: &StreamSpec, byte_offset: usize) -> Self {
        let sparse = spec.encoder.coordinates_shape().is_some();
        let holds = if sparse { Holds::Features } else { Holds::Rows };
        let shape = [vec![spec.steps()], spec.encoder.row_shape()].concat();
        Segment::of(stream, spec.name.clone(), spec.dtype, holds, shape, byte_offset)
    }

    /// The segment of the coordinates of a sparse stream.
    fn of_coordinates(stream: StreamId, spec: &StreamSpec, byte_offset: usize) -> Option<Self> {
        let shape = [vec![spec.steps()], spec.encoder.coordinates_shape()?].concat();
        let name = format!("{}.coordinates", spec.name);
        let holds = Holds::Coordinates;
        Some(Segment::of(stream, name, DType::I32, holds, shape, byte_offset))
    }

    fn of(
        stream: StreamId,
        name: String,
        dtype: DType,
        holds: Holds,
        shape: Vec<usize>,
        byte_offset: usize,
    ) -> Self {
        let steps = shape[0];
        let step_len = shape[1..].iter().product();
        let byte_len = steps * step_len * dtype.size();
        Segment { stream, name, dtype, shape, byte_offset, byte_len, step_len, steps, holds }
    }

    /// Entries of a step along the second dimension, the first one of a row.
    pub fn entries(&self) -> usize {
        self.shape.get(1).copied().unwrap_or(1)
    }

    /// Bytes of one step.
    pub fn step_byte_len(&self) -> usize {
        self.step_len * self.dtype.size()
    }

    /// Range of step `step` in the packed tensor \[bytes\].
    pub fn step_range(&self, step: usize) -> Range<usize> {
        let start = self.byte_offset + step * self.step_byte_len();
        start..start + self.step_byte_len()
    }
}

impl Layout {
    /// The layout of a validated configuration, whose sizes cannot overflow.
    pub fn new(config: &Config) -> Layout {
        let mut end = 0;
        let mut segments = Vec::with_capacity(config.streams.len());
        let mut rings = Vec::new();
        let mut streams = Vec::with_capacity(config.streams.len());
        for stream in config.stream_ids() {
            let spec = config.stream(stream);
            let segment = Segment::new(stream, spec, end);
            end = (segment.byte_offset + segment.byte_len).next_multiple_of(ALIGNMENT);
            let first_ring = rings.len();
            let first_segment = segments.len();
            let coordinates = Segment::of_coordinates(stream, spec, end);
            if let Some(coordinates) = &coordinates {
                end = (coordinates.byte_offset + coordinates.byte_len).next_multiple_of(ALIGNMENT);
            }
            for group in 0..spec.encoder.rings() {
                let runs = spec.encoder.runs(group);
                let part_len = runs.iter().map(|run| run.len).sum();
                let row_len = spec.encoder.ring_row_len(group);
                let segment = SegmentId::new(segments.len());
                let coordinates = coordinates.is_some().then(|| SegmentId::new(first_segment + 1));
                rings.push(RingPlace {
                    stream,
                    group,
                    segment,
                    coordinates,
                    row_len,
                    part_len,
                    runs,
                });
            }
            segments.push(segment);
            segments.extend(coordinates);
            streams.push([first_segment..segments.len(), first_ring..rings.len()]);
        }
        Layout { segments, rings, streams, byte_len: end }
    }

    /// The segments, in the order of the configuration's streams.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// A segment.
    ///
    /// # Panics
    /// If the id is of another layout. The other look-ups panic, too.
    pub fn segment(&self, id: SegmentId) -> &Segment {
        &self.segments[id.index()]
    }

    /// The rings: those of the first stream first.
    pub fn rings(&self) -> &[RingPlace] {
        &self.rings
    }

    /// A ring.
    pub fn ring(&self, id: RingId) -> &RingPlace {
        &self.rings[id.index()]
    }

    /// The segments of a stream.
    pub fn segments_of(&self, stream: StreamId) -> impl Iterator<Item = SegmentId> + use<> {
        self.streams[stream.index()][0].clone().map(SegmentId::new)
    }

    /// The rings of a stream.
    pub fn rings_of(&self, stream: StreamId) -> impl Iterator<Item = RingId> + use<> {
        self.streams[stream.index()][1].clone().map(RingId::new)
    }

    /// Bytes of the whole tensor, a multiple of [`ALIGNMENT`].
    pub fn byte_len(&self) -> usize {
        self.byte_len
    }
}

#[cfg(test)]
mod tests;
