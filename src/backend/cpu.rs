//! Rows in ordinary memory of the host, and ticks on the calling thread.
//!
//! Without a GPU this is the fallback, and the oracle that everything else equals bit for bit. With
//! a GPU, each image and each cloud is encoded by either processor, decided per message: the GPU's
//! row is copied to the host before [`CpuBackend::encode_on`] returns. So a tick never waits for a
//! GPU. Vectors are always encoded by a core: they are too small for anything else.

mod gpu;

use std::sync::Mutex;

use self::gpu::GpuEncoder;
use super::{Backend, BackendError, Processor, Slot, StepJob, VectorEncoder, wrong_kind};
use crate::align::Value;
use crate::device::{HostBuffer, OutputMut};
use crate::dtype::DType;
use crate::input::Sample;
use crate::layout::{Layout, RingPlace, Run, Segment};
use crate::ops::image::cpu::ImageEncoder;
use crate::ops::resample::cpu::Interpolator;
use crate::ops::voxelize::PointDrops;
use crate::ops::voxelize::cpu::Voxelizer;
use crate::spec::{Config, EncoderSpec, RingId, StreamSpec};
use crate::sync::lock;

/// The backend's name in logs and errors, without a GPU and with one.
const NAME: &str = "cpu";
const NAME_WITH_GPU: &str = "cpu+cuda";

/// Rows in main memory.
pub struct CpuBackend {
    rings: Vec<RingMemory>,
    /// Whether images and clouds can be encoded on a GPU.
    has_gpu: bool,
    scratch: Mutex<Scratch>,
}

/// Written before it is read, so that what a panic left does not matter.
struct Scratch {
    /// One interpolated row, before it is rounded.
    values: Vec<f32>,
    /// The row of a ring that has only a part of each step, before it goes to its places.
    part: Vec<u8>,
}

/// Rows of one ring and how they are made. Every slot has its own lock, never contended: the
/// caller keeps writers and readers of a slot apart. It is what lets safe code share the memory.
/// What a panic left is not read: the caller passes over a slot whose encode did not come to its
/// end, and encodes into the ring no more.
struct RingMemory {
    place: RingPlace,
    segment: Segment,
    encoder: Mutex<Encoder>,
    rows: Rows,
}

enum Encoder {
    Vector(VectorEncoder),
    Image { cpu: Box<ImageEncoder>, gpu: Option<GpuEncoder> },
    Voxels { cpu: Box<Voxelizer>, gpu: Option<GpuEncoder> },
}

/// Rows that are interpolated stay `f32`; the others are rounded once, when they are encoded, and
/// a tick only copies them. The bits are the same, the ticks cheaper.
enum Rows {
    Floats {
        slots: Vec<Mutex<Vec<f32>>>,
        interpolator: Interpolator,
    },
    Stored(Vec<Mutex<Vec<u8>>>),
    /// As `Stored`, in pages that a GPU may be told of.
    Pages(Vec<Mutex<HostBuffer>>),
}

impl CpuBackend {
    /// Reserves the memory of all rings. No GPU is used.
    pub fn new(config: &Config, layout: &Layout) -> Result<Self, BackendError> {
        let memory = |place: &RingPlace| {
            let spec = config.stream(place.stream);
            RingMemory::new(spec, place.clone(), layout.segment(place.segment).clone())
        };
        let rings: Vec<_> = layout.rings().iter().map(memory).collect();
        let longest = layout.rings().iter().map(|ring| ring.row_len).max().unwrap_or(0);
        let longest_part = rings.iter().map(RingMemory::part_bytes).max().unwrap_or(0);
        let scratch = Scratch { values: vec![0.0; longest], part: vec![0; longest_part] };
        Ok(CpuBackend { rings, has_gpu: false, scratch: Mutex::new(scratch) })
    }

    /// The same with a GPU that may encode images and clouds.
    ///
    /// # Errors
    /// [`BackendError::Failed`] where the GPU's memory does not suffice.
    #[cfg(feature = "cuda")]
    pub fn with_gpu(
        device: &std::sync::Arc<crate::device::Device>,
        config: &Config,
        layout: &Layout,
    ) -> Result<Self, BackendError> {
        let mut backend = CpuBackend::new(config, layout)?;
        for ring in &mut backend.rings {
            let spec = config.stream(ring.place.stream);
            ring.add_gpu(device, spec).map_err(|error| error.reserving_for(spec))?;
        }
        backend.has_gpu = true;
        Ok(backend)
    }

    /// Encodes a sample, as [`Backend::encode`] does, on a processor of the caller's choice.
    /// Vectors are encoded by a core whatever is chosen.
    ///
    /// # Errors
    /// Those of [`Backend::encode`]; [`BackendError::Unavailable`] where there is no GPU.
    pub fn encode_on(
        &self,
        processor: Processor,
        ring: RingId,
        slot: Slot,
        sample: Sample<'_>,
    ) -> Result<PointDrops, BackendError> {
        self.rings[ring.index()].encode(processor, slot, sample)
    }

    /// Which processor encodes a sample.
    fn choose(&self, sample: &Sample<'_>) -> Processor {
        match sample {
            Sample::Vector(_) => Processor::Cpu,
            Sample::Image(_) | Sample::Points(_) if self.has_gpu => Processor::Gpu,
            Sample::Image(_) | Sample::Points(_) => Processor::Cpu,
        }
    }
}

impl RingMemory {
    fn new(spec: &StreamSpec, place: RingPlace, segment: Segment) -> Self {
        let slots = spec.ring_rows + 1;
        let len = place.row_len;
        let bytes = len * spec.dtype.size();
        let pages =
            || Rows::Pages((0..slots).map(|_| Mutex::new(HostBuffer::new(bytes))).collect());
        let (encoder, rows) = match &spec.encoder {
            EncoderSpec::Vector(vector) => {
                let encoder = VectorEncoder::new(vector, place.group, spec.dtype);
                let rows = match spec.strategy().interpolates() {
                    true => Rows::Floats {
                        slots: (0..slots).map(|_| Mutex::new(vec![0.0; len])).collect(),
                        interpolator: Interpolator::new(&vector.lanes(place.group)),
                    },
                    false => Rows::Stored((0..slots).map(|_| Mutex::new(vec![0; bytes])).collect()),
                };
                (Encoder::Vector(encoder), rows)
            }
            EncoderSpec::Image(image) => {
                let cpu = Box::new(ImageEncoder::new(image, spec.dtype));
                (Encoder::Image { cpu, gpu: None }, pages())
            }
            EncoderSpec::Voxels(voxels) => {
                let mut cpu = Box::new(Voxelizer::new(voxels, spec.dtype, slots));
                cpu.reserve(spec.bounds.max_points);
                (Encoder::Voxels { cpu, gpu: None }, pages())
            }
        };
        RingMemory { place, segment, encoder: Mutex::new(encoder), rows }
    }

    /// Gives the ring an encoder on the GPU, and tells the GPU of the rows.
    #[cfg(feature = "cuda")]
    fn add_gpu(
        &mut self,
        device: &std::sync::Arc<crate::device::Device>,
        spec: &StreamSpec,
    ) -> Result<(), BackendError> {
        let encoder = self.encoder.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner());
        let (Encoder::Image { gpu, .. } | Encoder::Voxels { gpu, .. }) = encoder else {
            return Ok(());
        };
        *gpu = Some(GpuEncoder::new(device, spec)?);
        let Rows::Pages(slots) = &mut self.rows else { return Ok(()) };
        for slot in slots {
            let row = slot.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner());
            if let Err(error) = row.register(device) {
                let name = &self.segment.name;
                tracing::warn!("rows of '{name}' take longer from the GPU to the host: {error}");
                break;
            }
        }
        Ok(())
    }

    /// Bytes of a row that is only a part of a step; 0 for a whole one.
    fn part_bytes(&self) -> usize {
        match self.place.runs.as_slice() {
            [_] if self.place.row_len == self.segment.step_len => 0,
            _ => self.place.row_len * self.segment.dtype.size(),
        }
    }

    fn encode(
        &self,
        processor: Processor,
        slot: Slot,
        sample: Sample<'_>,
    ) -> Result<PointDrops, BackendError> {
        match (&self.rows, &mut *lock(&self.encoder), sample) {
            (Rows::Floats { slots, .. }, Encoder::Vector(encoder), Sample::Vector(values)) => {
                lock(&slots[slot]).copy_from_slice(encoder.encode(values)?);
            }
            (Rows::Stored(slots), Encoder::Vector(encoder), Sample::Vector(values)) => {
                self.segment.dtype.store(encoder.encode(values)?, &mut lock(&slots[slot]));
            }
            (Rows::Pages(slots), Encoder::Image { cpu, gpu }, Sample::Image(view)) => {
                let row = &mut lock(&slots[slot]);
                match processor {
                    Processor::Cpu => cpu.encode(&view, row),
                    Processor::Gpu => GpuEncoder::of(gpu)?.image(&view, row)?,
                }
            }
            (Rows::Pages(slots), Encoder::Voxels { cpu, gpu }, Sample::Points(view)) => {
                let row = &mut lock(&slots[slot]);
                return match processor {
                    Processor::Cpu => Ok(cpu.encode(&view, slot, row)?),
                    Processor::Gpu => {
                        let gpu = GpuEncoder::of(gpu)?;
                        // Whatever comes of it, the row is not what the CPU's voxelizer left.
                        cpu.forget(slot);
                        gpu.points(&view, row)
                    }
                };
            }
            _ => return Err(wrong_kind(NAME)),
        }
        Ok(PointDrops::default())
    }

    /// Writes the ring's part of a step.
    fn serve(&self, value: Value<Slot>, scratch: &mut Scratch, step: &mut [u8]) {
        let values = &mut scratch.values[..self.place.row_len];
        match self.part_bytes() {
            0 => self.row(value, values, step),
            bytes => {
                let part = &mut scratch.part[..bytes];
                self.row(value, values, part);
                let size = self.segment.dtype.size();
                for Run { row_at, step_at, len } in &self.place.runs {
                    let from = &part[row_at * size..(row_at + len) * size];
                    step[step_at * size..(step_at + len) * size].copy_from_slice(from);
                }
            }
        }
    }

    /// Writes a row's value into `out`, which has its size.
    fn row(&self, value: Value<Slot>, values: &mut [f32], out: &mut [u8]) {
        let dtype: DType = self.segment.dtype;
        match (value, &self.rows) {
            (Value::Nothing, _) => out.fill(0),
            (Value::Row(slot), Rows::Floats { slots, .. }) => dtype.store(&lock(&slots[slot]), out),
            (Value::Between { a, b, weight }, Rows::Floats { slots, interpolator }) => {
                interpolator.between(&lock(&slots[a]), &lock(&slots[b]), weight, values);
                dtype.store(values, out);
            }
            // `hold` and `nearest` never ask for `Between`; the earlier row is what `hold` would
            // give.
            (Value::Row(slot) | Value::Between { a: slot, .. }, Rows::Stored(slots)) => {
                out.copy_from_slice(&lock(&slots[slot]));
            }
            (Value::Row(slot) | Value::Between { a: slot, .. }, Rows::Pages(slots)) => {
                out.copy_from_slice(&lock(&slots[slot]));
            }
        }
    }
}

impl Backend for CpuBackend {
    fn name(&self) -> &'static str {
        if self.has_gpu { NAME_WITH_GPU } else { NAME }
    }

    fn encode(
        &self,
        ring: RingId,
        slot: Slot,
        sample: Sample<'_>,
    ) -> Result<PointDrops, BackendError> {
        self.encode_on(self.choose(&sample), ring, slot, sample)
    }

    fn fuse(&self, jobs: &[StepJob], mut out: OutputMut<'_>) -> Result<(), BackendError> {
        let mut scratch = lock(&self.scratch);
        for job in jobs.iter().filter(|job| !job.unchanged) {
            let memory = &self.rings[job.ring.index()];
            let step = &mut out[memory.segment.step_range(job.step)];
            memory.serve(job.value, &mut scratch, step);
        }
        Ok(())
    }
}
