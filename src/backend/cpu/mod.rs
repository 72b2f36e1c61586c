//! The CPU backend: the fallback on machines without a GPU, and the oracle that every other
//! backend has to equal bit for bit.

pub mod batch;
pub mod image;
pub mod interpolate;
pub mod resize;
pub mod voxelize;

use std::sync::Mutex;

use self::image::ImageEncoder;
use self::interpolate::Interpolator;
use self::voxelize::Voxelizer;
use super::{Backend, BackendError, EncodeReport, Sample, Slot, StepJob, wrong_type};
use crate::align::Value;
use crate::config::{Config, Source, StreamSpec};
use crate::decode::DecodeError;
use crate::dtype::DType;
use crate::layout::{Layout, Segment};
use crate::sync::lock;

/// Rows in main memory, encoded and fused on the calling thread.
pub struct CpuBackend {
    streams: Vec<StreamMemory>,
    /// One interpolated row, before it is rounded into the output. Written before it is read, so
    /// that what a panic left does not matter.
    scratch: Mutex<Vec<f32>>,
}

/// Rows of one stream and how they are made. Every slot has its own lock, never contended: the
/// caller keeps writers and readers of a slot apart. It is what lets safe code share the memory.
/// What a panic left is not read: the caller passes over a slot whose encode did not come to its
/// end, and encodes the stream no more.
struct StreamMemory {
    segment: Segment,
    encoder: Mutex<Encoder>,
    rows: Rows,
}

enum Encoder {
    Vector,
    Image(ImageEncoder),
    Cloud(Voxelizer),
}

/// Rows that are interpolated stay `f32`; the others are rounded once, when they are encoded, and
/// a tick only copies them. The bits are the same, the ticks cheaper.
enum Rows {
    Floats { slots: Vec<Mutex<Vec<f32>>>, interpolator: Interpolator },
    Stored(Vec<Mutex<Vec<u8>>>),
}

impl CpuBackend {
    /// Reserves the memory of all rings.
    pub fn new(config: &Config, layout: &Layout) -> Result<Self, BackendError> {
        let streams: Vec<_> = config
            .streams
            .iter()
            .zip(layout.segments())
            .map(|(spec, segment)| StreamMemory::new(spec, segment.clone()))
            .collect();
        let longest = layout.segments().iter().map(|segment| segment.step_len).max().unwrap_or(0);
        Ok(CpuBackend { streams, scratch: Mutex::new(vec![0.0; longest]) })
    }
}

impl StreamMemory {
    fn new(spec: &StreamSpec, segment: Segment) -> Self {
        let slots = spec.ring_rows + 1;
        let len = segment.step_len;
        let encoder = match &spec.source {
            Source::Vector(_) => Encoder::Vector,
            Source::Image(image) => Encoder::Image(ImageEncoder::new(image, spec.dtype)),
            Source::Cloud(cloud) => Encoder::Cloud(Voxelizer::new(cloud, spec.dtype, slots)),
        };
        let rows = match &spec.source {
            Source::Vector(vector) if spec.strategy.interpolates() => Rows::Floats {
                slots: (0..slots).map(|_| Mutex::new(vec![0.0; len])).collect(),
                interpolator: Interpolator::new(&vector.lanes),
            },
            _ => {
                let bytes = len * spec.dtype.size();
                Rows::Stored((0..slots).map(|_| Mutex::new(vec![0; bytes])).collect())
            }
        };
        StreamMemory { segment, encoder: Mutex::new(encoder), rows }
    }

    fn encode(&self, slot: Slot, sample: Sample<'_>) -> Result<EncodeReport, DecodeError> {
        match (&self.rows, &mut *lock(&self.encoder), sample) {
            (Rows::Floats { slots, .. }, Encoder::Vector, Sample::Vector(row)) => {
                lock(&slots[slot]).copy_from_slice(row);
            }
            (Rows::Stored(slots), Encoder::Vector, Sample::Vector(row)) => {
                self.segment.dtype.store(row, &mut lock(&slots[slot]));
            }
            (Rows::Stored(slots), Encoder::Image(encoder), Sample::Image(view)) => {
                encoder.encode(&view, &mut lock(&slots[slot]));
            }
            (Rows::Stored(slots), Encoder::Cloud(voxelizer), Sample::Cloud(view)) => {
                return voxelizer.encode(&view, slot, &mut lock(&slots[slot]));
            }
            _ => return Err(wrong_type()),
        }
        Ok(EncodeReport::default())
    }

    fn serve(&self, value: Value<Slot>, scratch: &mut [f32], out: &mut [u8]) {
        let dtype: DType = self.segment.dtype;
        match (value, &self.rows) {
            (Value::Nothing, _) => out.fill(0),
            (Value::Row(slot), Rows::Stored(slots)) => out.copy_from_slice(&lock(&slots[slot])),
            (Value::Row(slot), Rows::Floats { slots, .. }) => dtype.store(&lock(&slots[slot]), out),
            (Value::Between { a, b, weight }, Rows::Floats { slots, interpolator }) => {
                let row = &mut scratch[..self.segment.step_len];
                interpolator.between(&lock(&slots[a]), &lock(&slots[b]), weight, row);
                dtype.store(row, out);
            }
            // `hold` and `nearest` never ask for this; the earlier row is what `hold` would give.
            (Value::Between { a, .. }, Rows::Stored(slots)) => {
                out.copy_from_slice(&lock(&slots[a]));
            }
        }
    }
}

impl Backend for CpuBackend {
    fn name(&self) -> &'static str {
        "cpu"
    }

    fn encode(
        &self,
        stream: usize,
        slot: Slot,
        sample: Sample<'_>,
    ) -> Result<EncodeReport, BackendError> {
        Ok(self.streams[stream].encode(slot, sample)?)
    }

    fn fuse(&self, jobs: &[StepJob], out: &mut [u8]) -> Result<(), BackendError> {
        let mut scratch = lock(&self.scratch);
        for job in jobs.iter().filter(|job| !job.unchanged) {
            let memory = &self.streams[job.stream];
            memory.serve(job.value, &mut scratch, &mut out[memory.segment.step_range(job.step)]);
        }
        Ok(())
    }
}
