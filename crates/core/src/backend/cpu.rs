//! Rows in ordinary memory of the host, and ticks on the calling thread.
//!
//! Without a GPU this is the fallback, and the oracle that everything else equals bit for bit. With
//! a GPU, each image and each cloud is encoded by the processor that has lately finished sooner
//! (`choice`). A tick never waits for a GPU, and neither does an encode worker for longer than a
//! core would take. Vectors are always encoded by a core: they are too small for anything else.
//!
//! The GPU writes each row into memory of its own. If the row is accepted, that memory changes places
//! with the slot's. So a copy that ends late cannot reach a slot that was given away.

mod choice;
#[cfg(feature = "cuda")]
mod gpu;
mod gpu_thread;
mod hybrid;
#[cfg(test)]
mod tests;

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

pub use self::gpu_thread::{Gpu, GpuEncoder};
use self::hybrid::{HybridEncoder, Target};
use super::{
    Backend, BackendError, Encodes, FloatRows, GpuUse, Processor, StepJob, encode_error, wrong_kind,
};
use crate::encoder::{CpuCode, CpuEncoder, EncoderSetup, VectorEncoder};
use crate::layout::{Layout, RingPlace, Segment};
use crate::sample::{PlacedSample, Sample};
use crate::spec::{Config, RingId, StreamSpec};
use robocache_ops::align::Slot;
use robocache_ops::align::Value;
use robocache_ops::device::{HostBuffer, MessagePool, OutputMut, RowMemory};
use robocache_ops::dtype::DType;
use robocache_ops::packing::Run;
use robocache_ops::sync::lock;
use robocache_ops::voxelize::{PointDrops, SparseRow};

/// The backend's name in logs and errors, without a GPU and with one.
const NAME: &str = "cpu";
const NAME_WITH_GPU: &str = "cpu+cuda";

/// Rows in main memory.
pub struct CpuBackend {
    rings: Vec<RingMemory>,
    /// The GPU that may encode images and clouds.
    gpu: Option<Arc<Gpu>>,
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
    /// The segment of the coordinates, and where these are in a row, if the rows are sparse.
    coordinates: Option<(Segment, SparseRow)>,
    encoder: Mutex<Encoder>,
    rows: Rows,
    /// The GPU's part, for images and clouds.
    hybrid: Option<HybridEncoder>,
}

/// Encodes on the calling thread.
enum Encoder {
    Vector(VectorEncoder),
    Rows(Box<dyn CpuEncoder>),
}

/// Rows that are interpolated stay `f32`; the others are rounded once, when they are encoded, and
/// a tick only copies them. The bits are the same, the ticks cheaper.
enum Rows {
    Floats(FloatRows),
    Stored(Vec<Mutex<Vec<u8>>>),
    /// As `Stored`, in pages that may be registered with a GPU.
    Pages(Vec<Mutex<HostBuffer>>),
}

impl CpuBackend {
    /// Reserves the memory of all rings. No GPU is used.
    pub fn new(config: &Config, layout: &Layout) -> Result<Self, BackendError> {
        let memory = |place: &RingPlace| {
            let spec = config.stream(place.stream);
            RingMemory::new(&spec.of_rows(), place.clone(), layout)
        };
        let rings: Vec<_> = layout.rings().iter().map(memory).collect();
        let longest = layout.rings().iter().map(|ring| ring.row_len).max().unwrap_or(0);
        let longest_part = rings.iter().map(RingMemory::part_bytes).max().unwrap_or(0);
        let scratch = Scratch { values: vec![0.0; longest], part: vec![0; longest_part] };
        Ok(CpuBackend { rings, gpu: None, scratch: Mutex::new(scratch) })
    }

    /// Reserves the memory of all rings, with a GPU that may encode images and clouds.
    ///
    /// # Errors
    /// [`BackendError::Failed`] where the GPU's memory does not suffice.
    #[cfg(feature = "cuda")]
    pub fn with_gpu(
        device: &Arc<robocache_ops::device::Device>,
        config: &Config,
        layout: &Layout,
    ) -> Result<Self, BackendError> {
        let left = Arc::clone(device);
        let encoder = |spec: &StreamSpec| {
            let encoder = gpu::encoder(device, &spec.of_rows());
            encoder.map_err(|error| error.reserving_for(spec))
        };
        let mut backend =
            CpuBackend::with_encoders(config, layout, Gpu::new(move || left.leave()), encoder)?;
        for ring in &mut backend.rings {
            ring.register(device);
        }
        Ok(backend)
    }

    /// Reserves the memory of all rings, with encoders that `encoder` makes for the streams of images and clouds: those
    /// of a GPU or of its substitute in a test. If it makes none, cores encode.
    ///
    /// # Errors
    /// Those of `encoder`; [`BackendError::Failed`] if the system starts no thread.
    pub fn with_encoders(
        config: &Config,
        layout: &Layout,
        gpu: Gpu,
        encoder: impl Fn(&StreamSpec) -> Result<Option<Box<dyn GpuEncoder>>, BackendError>,
    ) -> Result<Self, BackendError> {
        let mut backend = CpuBackend::new(config, layout)?;
        let gpu = Arc::new(gpu);
        for ring in &mut backend.rings {
            let spec = config.stream(ring.place.stream);
            if let Rows::Pages(_) = ring.rows
                && let Some(encoder) = encoder(spec)?
            {
                ring.hybrid = Some(HybridEncoder::new(&gpu, encoder)?);
            }
        }
        backend.gpu = Some(gpu);
        Ok(backend)
    }

    /// Encodes a sample, as [`Backend::encode`] does, on a processor of the caller's choice.
    /// Vectors are encoded by a core whatever is chosen, and so is what the GPU does not take.
    ///
    /// # Errors
    /// Those of [`Backend::encode`]; [`BackendError::Unavailable`] where there is no GPU.
    pub fn encode_on(
        &self,
        processor: Processor,
        ring: RingId,
        slot: Slot,
        placed: &PlacedSample<'_>,
    ) -> Result<PointDrops, BackendError> {
        let memory = &self.rings[ring.index()];
        match (&memory.hybrid, processor) {
            (Some(hybrid), _) => hybrid.encode_on(processor, placed, &SlotTarget { memory, slot }),
            (None, Processor::Gpu) if self.gpu.is_none() => {
                let detail = "this backend was made without a GPU".into();
                Err(BackendError::Unavailable { backend: NAME, detail })
            }
            (None, _) => memory.encode(slot, placed, None).map(Option::unwrap_or_default),
        }
    }
}

/// Ends the GPU's threads, all side by side, before the memory of the rows goes: to unregister that
/// would wait for a GPU that hangs.
impl Drop for CpuBackend {
    fn drop(&mut self) {
        self.rings.iter().filter_map(|ring| ring.hybrid.as_ref()).for_each(HybridEncoder::close);
        self.rings.iter_mut().for_each(|ring| ring.hybrid = None);
    }
}

/// The slot that a sample goes to.
struct SlotTarget<'a> {
    memory: &'a RingMemory,
    slot: Slot,
}

impl Target for SlotTarget<'_> {
    fn encode(
        &self,
        placed: &PlacedSample<'_>,
        overtaken: Option<&AtomicBool>,
    ) -> Result<Option<PointDrops>, BackendError> {
        self.memory.encode(self.slot, placed, overtaken)
    }

    fn take(&self, row: &mut HostBuffer) {
        let Rows::Pages(slots) = &self.memory.rows else { return };
        if let Encoder::Rows(cpu) = &mut *lock(&self.memory.encoder) {
            cpu.forget(self.slot);
        }
        std::mem::swap(&mut *lock(&slots[self.slot.index()]), row);
    }
}

impl RingMemory {
    fn new(spec: &StreamSpec, place: RingPlace, layout: &Layout) -> Self {
        let segment = layout.segment(place.segment).clone();
        let coordinates = place.coordinates.map(|id| layout.segment(id).clone());
        let StreamSpec { dtype, bounds, .. } = *spec;
        let slots = spec.ring_slots();
        let (encoder, rows) = match spec.encoder.cpu(EncoderSetup { dtype, slots, bounds }) {
            CpuCode::Floats(vector) => {
                let stages = vector.stages(place.group, spec.strategy());
                let floats = vector.keeps_f32(place.group, spec.strategy());
                let output = stages.output.clone();
                let encoder = VectorEncoder::new(vector, place.group, dtype);
                let encoder = encoder.with(stages, spec.steps());
                let stored = || Mutex::new(vec![0; place.row_len * dtype.size()]);
                let rows = match floats {
                    true => Rows::Floats(FloatRows::new(spec, &vector.lanes(place.group), output)),
                    false => Rows::Stored((0..slots).map(|_| stored()).collect()),
                };
                (Encoder::Vector(encoder), rows)
            }
            CpuCode::Rows(encoder) => {
                let bytes = spec.encoder.row_bytes(dtype);
                let page = || Mutex::new(HostBuffer::new(bytes));
                (Encoder::Rows(encoder), Rows::Pages((0..slots).map(|_| page()).collect()))
            }
        };
        RingMemory {
            place,
            segment,
            coordinates: coordinates.zip(spec.encoder.sparse_row(dtype)),
            encoder: Mutex::new(encoder),
            rows,
            hybrid: None,
        }
    }

    /// Tells the GPU of the rows, which change places with its own memory.
    #[cfg(feature = "cuda")]
    fn register(&mut self, device: &Arc<robocache_ops::device::Device>) {
        let Rows::Pages(slots) = &mut self.rows else { return };
        for slot in slots {
            let row = slot.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner());
            if let Err(error) = row.register(device) {
                let name = &self.segment.name;
                tracing::warn!("rows of '{name}' take longer from the GPU to the host: {error}");
                break;
            }
        }
    }

    /// Bytes of a row that is only a part of a step; 0 for a whole one.
    fn part_bytes(&self) -> usize {
        match self.place.runs.as_slice() {
            [_] if self.place.part_len == self.segment.step_len => 0,
            _ => self.place.part_len * self.segment.dtype.size(),
        }
    }

    /// Encodes on the calling thread. `None` if `overtaken` became true before it was done.
    fn encode(
        &self,
        slot: Slot,
        placed: &PlacedSample<'_>,
        overtaken: Option<&AtomicBool>,
    ) -> Result<Option<PointDrops>, BackendError> {
        match (&self.rows, &mut *lock(&self.encoder), &placed.sample) {
            (Rows::Floats(rows), Encoder::Vector(encoder), Sample::Vector(values)) => {
                rows.store(slot, encoder.encode(values)?);
            }
            (Rows::Stored(slots), Encoder::Vector(encoder), Sample::Vector(values)) => {
                self.segment.dtype.store(encoder.encode(values)?, &mut lock(&slots[slot.index()]));
            }
            (Rows::Pages(slots), Encoder::Rows(encoder), _) => {
                let encoded =
                    encoder.encode(placed, slot, &mut lock(&slots[slot.index()]), overtaken);
                return encoded.map_err(encode_error(NAME));
            }
            _ => return Err(wrong_kind(NAME)),
        }
        Ok(Some(PointDrops::default()))
    }

    /// Writes a step of a sparse ring into both of its segments; false if the ring is not sparse.
    fn serve_sparse(&self, job: &StepJob, out: &mut [u8]) -> bool {
        let (Some((coordinates, place)), Rows::Pages(slots)) = (&self.coordinates, &self.rows)
        else {
            return false;
        };
        let parts = [
            (self.segment.step_range(job.step), 0),
            (coordinates.step_range(job.step), place.coordinates_at()),
        ];
        for (range, row_at) in parts {
            let part = &mut out[range];
            match job.value {
                Value::Nothing => part.fill(0),
                Value::Row(slot) | Value::Between { a: slot, .. } => {
                    part.copy_from_slice(&lock(&slots[slot.index()])[row_at..][..part.len()]);
                }
            }
        }
        true
    }

    /// Writes the ring's part of a step.
    fn serve(&self, value: Value<Slot>, scratch: &mut Scratch, step: &mut [u8]) {
        let values = &mut scratch.values[..self.place.row_len];
        match self.part_bytes() {
            0 => self.row(value, values, step),
            bytes => {
                let part = &mut scratch.part[..bytes];
                self.row(value, values, part);
                self.spread(part, step);
            }
        }
    }

    /// Copies the ring's part of a step to its places.
    fn spread(&self, part: &[u8], step: &mut [u8]) {
        let size = self.segment.dtype.size();
        for Run { row_at, step_at, len } in &self.place.runs {
            let from = &part[row_at * size..(row_at + len) * size];
            step[step_at * size..(step_at + len) * size].copy_from_slice(from);
        }
    }

    /// The rows, if a step depends on the other steps.
    fn window(&self) -> Option<&FloatRows> {
        match &self.rows {
            Rows::Floats(rows) if rows.unwraps() => Some(rows),
            _ => None,
        }
    }

    /// Writes the ring's part of all steps of a tick.
    fn serve_window(
        &self,
        rows: &FloatRows,
        jobs: &[StepJob],
        scratch: &mut Scratch,
        out: &mut [u8],
    ) {
        let Some(ring) = jobs.first().map(|job| job.ring) else { return };
        let of_ring = jobs.iter().filter(|job| job.ring == ring).map(|job| (job.step, job.value));
        let Scratch { values, part } = scratch;
        let dtype = self.segment.dtype;
        let bytes = self.part_bytes();
        rows.window(of_ring, &mut values[..self.place.row_len], |at, row| {
            let step = &mut out[self.segment.step_range(at)];
            let write = |out: &mut [u8]| match row {
                Some(row) => dtype.store(row, out),
                None => out.fill(0),
            };
            match bytes {
                0 => write(step),
                bytes => {
                    write(&mut part[..bytes]);
                    self.spread(&part[..bytes], step);
                }
            }
        });
    }

    /// Writes a row's value into `out`, which has its size.
    fn row(&self, value: Value<Slot>, values: &mut [f32], out: &mut [u8]) {
        let dtype: DType = self.segment.dtype;
        match (value, &self.rows) {
            (Value::Nothing, _) => out.fill(0),
            (value, Rows::Floats(rows)) => rows.serve(value, values, |row| dtype.store(row, out)),
            // `hold` and `nearest` never ask for `Between`; the earlier row is what `hold` would
            // give.
            (Value::Row(slot) | Value::Between { a: slot, .. }, Rows::Stored(slots)) => {
                out.copy_from_slice(&lock(&slots[slot.index()]));
            }
            (Value::Row(slot) | Value::Between { a: slot, .. }, Rows::Pages(slots)) => {
                out.copy_from_slice(&lock(&slots[slot.index()]));
            }
        }
    }
}

impl Backend for CpuBackend {
    fn name(&self) -> &'static str {
        if self.gpu.is_some() { NAME_WITH_GPU } else { NAME }
    }

    fn gpu(&self) -> GpuUse {
        match self.gpu.as_ref().map(|gpu| gpu.left()) {
            None => GpuUse::None,
            Some(None) => GpuUse::InUse,
            Some(Some(reason)) => GpuUse::Left { reason: reason.to_owned() },
        }
    }

    fn encodes(&self, ring: RingId) -> Option<Encodes> {
        self.rings[ring.index()].hybrid.as_ref().map(HybridEncoder::encodes)
    }

    fn messages(&self, ring: RingId) -> Option<Arc<MessagePool>> {
        self.rings[ring.index()].hybrid.as_ref()?.messages()
    }

    fn encode(
        &self,
        ring: RingId,
        slot: Slot,
        placed: &PlacedSample<'_>,
    ) -> Result<PointDrops, BackendError> {
        let memory = &self.rings[ring.index()];
        match &memory.hybrid {
            Some(hybrid) => hybrid.encode(placed, &SlotTarget { memory, slot }),
            None => memory.encode(slot, placed, None).map(Option::unwrap_or_default),
        }
    }

    fn blend(&self, ring: RingId, value: Value<Slot>, slot: Slot) -> Result<(), BackendError> {
        match &self.rings[ring.index()].rows {
            Rows::Floats(rows) => {
                rows.blend(value, slot);
                Ok(())
            }
            Rows::Stored(_) | Rows::Pages(_) => Err(wrong_kind(NAME)),
        }
    }

    fn read_row(&self, ring: RingId, slot: Slot, row: &mut RowMemory) -> Result<(), BackendError> {
        let row = row.emptied();
        match &self.rings[ring.index()].rows {
            Rows::Floats(rows) => rows.read(slot, row),
            Rows::Stored(slots) => row.extend_from_slice(&lock(&slots[slot.index()])),
            Rows::Pages(slots) => row.extend_from_slice(&lock(&slots[slot.index()])),
        }
        Ok(())
    }

    fn fuse(&self, jobs: &[StepJob], mut out: OutputMut<'_>) -> Result<(), BackendError> {
        let out = out.on_host().ok_or_else(|| BackendError::Failed {
            backend: self.name(),
            operation: "fuse",
            detail: "expected an output on the host, found one on a device".into(),
        })?;
        let mut scratch = lock(&self.scratch);
        for (at, job) in jobs.iter().enumerate().filter(|(_, job)| !job.unchanged) {
            let memory = &self.rings[job.ring.index()];
            if let Some(rows) = memory.window() {
                if jobs[..at].iter().all(|before| before.ring != job.ring) {
                    memory.serve_window(rows, &jobs[at..], &mut scratch, out);
                }
                continue;
            }
            if memory.serve_sparse(job, out) {
                continue;
            }
            let step = &mut out[memory.segment.step_range(job.step)];
            memory.serve(job.value, &mut scratch, step);
        }
        Ok(())
    }
}
