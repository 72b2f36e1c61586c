//! Rows on the device, and a tick in one launch: for outputs that are read on the device, and where
//! the configuration asks for `backend: cuda`.
//!
//! Images and clouds are uploaded once, on arrival, and encoded into rows in device memory. Every
//! ring has a stream of its own for that. Vectors are small and arrive often, so their rows stay in
//! pinned host memory: to write one costs no call of the driver, and the device reads the few that
//! a tick needs. For outputs on the device, images and clouds may also be encoded by a core: then their
//! rows are copied to the device. Where the host must read rows too, because of operators or because plans are cut, it
//! computes the steps from rows of its own, and the device reads those steps. A tick is one launch that writes
//! every changed step straight into the output: pinned memory, or memory of the device that the host never reads.
//!
//! Streams of encodes have the greatest priority: so an encode waits as little as it can for other
//! work of this process.
//!
//! Who waits for whom: a tick waits, on the device, for encodes of the rows that it reads. It
//! returns when it is done. The pipeline gives no slot to an encode that a tick may still read, so
//! that encodes need not wait for ticks.

mod on_core;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use self::on_core::OnCore;
use super::{
    Backend, BackendError, FloatRows, GpuUse, Processor, StepJob, encode_error, wrong_kind,
};
use crate::encoder::{CpuCode, CudaEncoder, EncoderSetup, VectorEncoder};
use crate::layout::{Layout, RingPlace, Segment};
use crate::sample::{PlacedSample, Sample};
use crate::spec::{Config, RingId, StreamSpec};
use robocache_ops::align::Slot;
use robocache_ops::align::Value;
use robocache_ops::device::{
    Device, DeviceOutput, Event, HostBuffer, MessagePool, Output, OutputMut, PinnedBuffer,
    RowDownloads, RowMemory, RowPlace, Stream,
};
use robocache_ops::dtype::DType;
use robocache_ops::operators::VectorSpec;
use robocache_ops::packing::Run;
use robocache_ops::resample::Lane;
use robocache_ops::resample::cuda::fuse::{Fuser, Rows, StepPlace};
use robocache_ops::sync::lock;
use robocache_ops::voxelize::PointDrops;

/// The backend's name in logs and errors.
const NAME: &str = "cuda";

/// Rows of a ring that those who keep rows may have at once, without a wait for the copy of the next one.
const ROWS_TAKEN: usize = 8;
/// Pinned memory for the rows of one ring of one backend on their way to the host, at most \[bytes\].
const MOST_PINNED: usize = 256 << 20;

/// Rows and tensors on one GPU.
pub struct CudaBackend {
    device: Arc<Device>,
    rings: Vec<RingMemory>,
    fuser: Mutex<Fuser>,
    leaves_on_device: bool,
}

/// Rows of one ring and how they are made. As on the CPU, what a panic left is not read: the caller
/// passes over a slot whose encode did not come to its end, and encodes into the ring no more.
struct RingMemory {
    place: RingPlace,
    segment: Segment,
    /// Places of the parts of a sparse row, in bytes.
    sparse: Option<[(Segment, Run); 2]>,
    rows: Rows,
    encoder: Encoder,
}

enum Encoder {
    Vector(Mutex<VectorEncoder>),
    /// Rows of the host. The ring's `rows` are steps: the host writes each before the launch.
    OnHost {
        encoder: Mutex<VectorEncoder>,
        host: Box<FloatRows>,
        scratch: Mutex<Vec<f32>>,
    },
    /// Images or clouds. Without `slots`, encodes are waited for. `reads` is the stream of rows on their way to the host.
    OnDevice {
        encoder: Mutex<Box<dyn CudaEncoder>>,
        stream: Stream,
        slots: Vec<SlotState>,
        reads: Stream,
        /// If every row is read on the host. `None` if there is no memory for that.
        downloads: OnceLock<Option<RowDownloads>>,
    },
    /// Images or clouds that a core encodes.
    OnCore {
        encoder: Mutex<OnCore>,
        stream: Stream,
        slots: Vec<SlotState>,
        reads: Stream,
    },
}

/// The last encode into a slot, which may still be under way.
struct SlotState {
    encoded: Event,
    pending: AtomicBool,
}

impl CudaBackend {
    /// Reserves the memory of all rings on a GPU. Outputs are on the host.
    ///
    /// # Errors
    /// [`BackendError::Failed`] where its memory does not suffice.
    pub fn new(
        device: &Arc<Device>,
        config: &Config,
        layout: &Layout,
    ) -> Result<Self, BackendError> {
        Self::with_encoders(device, Processor::Gpu, config, layout)
    }

    /// Reserves the memory of all rings on a GPU, for outputs on the GPU. Images and clouds are encoded by `processor`.
    ///
    /// # Errors
    /// As [`CudaBackend::new`].
    pub fn for_device(
        device: &Arc<Device>,
        processor: Processor,
        config: &Config,
        layout: &Layout,
    ) -> Result<Self, BackendError> {
        let backend = Self::with_encoders(device, processor, config, layout)?;
        Ok(CudaBackend { leaves_on_device: true, ..backend })
    }

    fn with_encoders(
        device: &Arc<Device>,
        processor: Processor,
        config: &Config,
        layout: &Layout,
    ) -> Result<Self, BackendError> {
        let memory = |place: &RingPlace| {
            let spec = config.stream(place.stream);
            RingMemory::new(device, processor, &spec.of_rows(), place.clone(), layout)
                .map_err(|error| error.reserving_for(spec))
        };
        let rings = layout.rings().iter().map(memory).collect::<Result<Vec<_>, _>>()?;
        // Every part of every step: what a tick writes at most.
        let places = rings
            .iter()
            .flat_map(|ring| (0..ring.segment.steps).flat_map(|step| ring.places_of(step)));
        let fuser = Mutex::new(Fuser::new(device, layout.byte_len(), places)?);
        Ok(CudaBackend { device: device.clone(), rings, fuser, leaves_on_device: false })
    }

    /// The GPU.
    pub fn device(&self) -> &Arc<Device> {
        &self.device
    }
}

impl RingMemory {
    fn new(
        device: &Arc<Device>,
        processor: Processor,
        spec: &StreamSpec,
        place: RingPlace,
        layout: &Layout,
    ) -> Result<Self, BackendError> {
        let segment = layout.segment(place.segment).clone();
        let coordinates = place.coordinates.map(|id| layout.segment(id).clone());
        let slots = spec.ring_slots();
        let sparse_row = spec.encoder.sparse_row(spec.dtype);
        let sparse = sparse_row.zip(coordinates).map(|(row, coordinates)| {
            let run = |row_at, len| Run { row_at, step_at: 0, len };
            let features = run(0, row.features());
            let at = row.coordinates_at();
            [(segment.clone(), features), (coordinates, run(at, row.coordinates()))]
        });
        // A sparse row is two segments of two element types: bytes to the tick.
        let (len, dtype) = match &sparse_row {
            Some(row) => (row.bytes(), DType::U8),
            None => (place.row_len, spec.dtype),
        };
        let on_device = || Rows::on_device(device, len, dtype, slots);
        let states = || (0..slots).map(|_| SlotState::new(device)).collect::<Result<_, _>>();
        let setup = EncoderSetup { dtype: spec.dtype, slots, bounds: spec.bounds };
        let streams =
            || Ok::<_, BackendError>((Stream::new(device, true)?, Stream::new(device, true)?));
        let twin = match processor {
            Processor::Gpu => spec.encoder.cuda(device, setup)?,
            Processor::Cpu => None,
        };
        let (encoder, rows) = match twin {
            Some(encoder) => {
                let slots = if encoder.waits() { Vec::new() } else { states()? };
                let encoder = Mutex::new(encoder);
                let (stream, reads) = streams()?;
                let downloads = OnceLock::new();
                (Encoder::OnDevice { encoder, stream, slots, reads, downloads }, on_device()?)
            }
            None => match spec.encoder.cpu(EncoderSetup { slots: 1, ..setup }) {
                CpuCode::Floats(vector) => of_vector(device, spec, vector, &place)?,
                CpuCode::Rows(encoder) => {
                    let encoder = OnCore::new(device, encoder, len * dtype.size())?;
                    let encoder = Mutex::new(encoder);
                    let (stream, reads) = streams()?;
                    (Encoder::OnCore { encoder, stream, slots: states()?, reads }, on_device()?)
                }
            },
        };
        Ok(RingMemory { place, segment, sparse, rows, encoder })
    }

    fn encode(&self, slot: Slot, placed: &PlacedSample<'_>) -> Result<PointDrops, BackendError> {
        let in_memory = || self.rows.device().map(|rows| RowPlace { rows, at: self.rows.at(slot) });
        match (&self.encoder, &placed.sample, in_memory()) {
            (Encoder::Vector(encoder), Sample::Vector(values), None) => {
                self.rows.store(slot, lock(encoder).encode(values)?);
                Ok(PointDrops::default())
            }
            (Encoder::OnHost { encoder, host, .. }, Sample::Vector(values), None) => {
                host.store(slot, lock(encoder).encode(values)?);
                Ok(PointDrops::default())
            }
            (Encoder::OnDevice { encoder, stream, slots, downloads, .. }, _, Some(row)) => {
                let mut encoder = lock(encoder);
                let encoded = encoder.encode(placed, slot, row, stream);
                let drops = encoded.map_err(encode_error(NAME))?;
                slots.get(slot.index()).map_or(Ok(()), |state| state.mark(stream))?;
                if let Some(Some(downloads)) = downloads.get() {
                    downloads.start(slot, row, stream)?;
                }
                encoder.messages().inspect(|messages| messages.supply());
                Ok(drops)
            }
            (Encoder::OnCore { encoder, stream, slots, .. }, _, Some(row)) => {
                let drops = lock(encoder).encode(placed, row, stream)?;
                slots[slot.index()].mark(stream)?;
                Ok(drops)
            }
            _ => Err(wrong_kind(NAME)),
        }
    }

    /// Reserves pinned memory for rows on their way to the host. Without it, who reads a row waits for its copy.
    fn keep_rows(&self, device: &Arc<Device>) {
        let Encoder::OnDevice { downloads, .. } = &self.encoder else { return };
        if downloads.get().is_some() {
            return;
        }
        let len = self.rows.bytes();
        let slots = self.rows.slots();
        let bytes = len.saturating_mul(slots + ROWS_TAKEN);
        let made = if bytes > MOST_PINNED {
            Err(format!("{bytes} bytes of pinned memory are more than {MOST_PINNED}"))
        } else {
            RowDownloads::new(device, len, slots, ROWS_TAKEN).map_err(|error| error.to_string())
        };
        if let Err(why) = &made {
            let name = &self.segment.name;
            tracing::warn!("stream `{name}`: each row waits for its copy from the GPU: {why}");
        }
        _ = downloads.set(made.ok());
    }

    /// The value of a job among `rows`. If the host has the rows, it writes the step there first.
    fn value_of(&self, job: &StepJob) -> Value<Slot> {
        match (&self.encoder, job.value) {
            (Encoder::OnHost { .. }, Value::Nothing) => Value::Nothing,
            (Encoder::OnHost { host, scratch, .. }, value) => {
                if !host.unwraps() {
                    let store = |row: &[f32]| self.rows.store(Slot::new(job.step), row);
                    host.serve(value, &mut lock(scratch), store);
                }
                Value::Row(Slot::new(job.step))
            }
            (_, value) => value,
        }
    }

    /// Writes all steps of a tick that depend on each other, for the launch to read. The
    /// first of `jobs` is one of them.
    fn write_window(&self, jobs: &[StepJob]) {
        let (Encoder::OnHost { host, scratch, .. }, Some(first)) = (&self.encoder, jobs.first())
        else {
            return;
        };
        let of_ring = jobs.iter().filter(|job| job.ring == first.ring);
        let of_ring = of_ring.map(|job| (job.step, job.value));
        host.window(of_ring, &mut lock(scratch), |step, row| {
            row.into_iter().for_each(|row| self.rows.store(Slot::new(step), row));
        });
    }

    /// True if each step depends on the others.
    fn unwraps(&self) -> bool {
        matches!(&self.encoder, Encoder::OnHost { host, .. } if host.unwraps())
    }

    /// Places of the ring's part in a step: one place, or one for each part of a sparse row.
    fn places_of(&self, step: usize) -> impl Iterator<Item = StepPlace<'_>> {
        let parts = self.sparse.as_ref();
        let whole = parts.is_none().then(|| {
            let at = self.segment.step_range(step).start;
            StepPlace { at, dtype: self.segment.dtype, runs: self.place.runs.as_slice() }
        });
        let parts = parts.into_iter().flatten().map(move |(segment, run)| {
            let at = segment.step_range(step).start;
            StepPlace { at, dtype: DType::U8, runs: std::slice::from_ref(run) }
        });
        whole.into_iter().chain(parts)
    }

    /// The rows of a value that may still be under way.
    fn pending(&self, value: Value<Slot>) -> impl Iterator<Item = &SlotState> {
        let slots: &[SlotState] = match &self.encoder {
            Encoder::OnDevice { slots, .. } | Encoder::OnCore { slots, .. } => slots,
            Encoder::Vector(_) | Encoder::OnHost { .. } => &[],
        };
        let read = match value {
            Value::Nothing => [None, None],
            Value::Row(slot) => [Some(slot), None],
            Value::Between { a, b, .. } => [Some(a), Some(b)],
        };
        let states = read.into_iter().flatten().filter_map(|slot| slots.get(slot.index()));
        states.filter(|state| state.pending.load(Ordering::Acquire))
    }
}

/// The rows of a group of a vector. As on the CPU, interpolated rows stay f32, and the others are rounded when they
/// are encoded.
fn of_vector(
    device: &Arc<Device>,
    spec: &StreamSpec,
    vector: &VectorSpec,
    place: &RingPlace,
) -> Result<(Encoder, Rows), BackendError> {
    let interpolates = spec.strategy().interpolates();
    let stages = vector.stages(place.group, spec.strategy());
    let output = stages.output.clone();
    let encoder = VectorEncoder::new(vector, place.group, spec.dtype);
    let encoder = Mutex::new(encoder.with(stages, spec.steps()));
    let lanes = vector.lanes(place.group);
    if (spec.plans && interpolates) || output.is_some() {
        let copied = vec![Lane::Linear; place.part_len];
        let rows = Rows::pinned(device, &copied, DType::F32, spec.steps())?;
        let host = FloatRows::new(spec, &lanes, output);
        let scratch = Mutex::new(vec![0.0; place.row_len]);
        let host = Box::new(host);
        return Ok((Encoder::OnHost { encoder, host, scratch }, rows));
    }
    let dtype = if interpolates { DType::F32 } else { spec.dtype };
    Ok((Encoder::Vector(encoder), Rows::pinned(device, &lanes, dtype, spec.ring_slots())?))
}

impl SlotState {
    fn new(device: &Arc<Device>) -> Result<Self, BackendError> {
        Ok(SlotState { encoded: Event::new(device, false)?, pending: AtomicBool::new(false) })
    }

    /// Notes that the row is complete when what is on the stream so far is done.
    fn mark(&self, stream: &Stream) -> Result<(), BackendError> {
        self.encoded.record(stream)?;
        self.pending.store(true, Ordering::Release);
        Ok(())
    }
}

impl Backend for CudaBackend {
    fn name(&self) -> &'static str {
        NAME
    }

    fn gpu(&self) -> GpuUse {
        GpuUse::InUse
    }

    fn output_memory(&self, len: usize) -> Result<Output, BackendError> {
        if self.leaves_on_device {
            return Ok(Output::Host(HostBuffer::new(len)));
        }
        Ok(Output::Pinned(PinnedBuffer::new(&self.device, len)?))
    }

    fn adopt_memory(&self, mut memory: HostBuffer) -> Output {
        if !self.leaves_on_device
            && let Err(error) = memory.register(&self.device)
        {
            tracing::debug!(
                "an output that the GPU does not reach, which makes ticks slower: {error}"
            );
        }
        Output::Host(memory)
    }

    fn data_on_device(&self, len: usize) -> Result<Option<DeviceOutput>, BackendError> {
        let reserve = || DeviceOutput::new(&self.device, len);
        Ok(self.leaves_on_device.then(reserve).transpose()?)
    }

    fn messages(&self, ring: RingId) -> Option<Arc<MessagePool>> {
        match &self.rings[ring.index()].encoder {
            Encoder::OnDevice { encoder, .. } => lock(encoder).messages().cloned(),
            _ => None,
        }
    }

    fn encode(
        &self,
        ring: RingId,
        slot: Slot,
        placed: &PlacedSample<'_>,
    ) -> Result<PointDrops, BackendError> {
        self.rings[ring.index()].encode(slot, placed)
    }

    fn blend(&self, ring: RingId, value: Value<Slot>, slot: Slot) -> Result<(), BackendError> {
        match &self.rings[ring.index()].encoder {
            Encoder::OnHost { host, .. } => {
                host.blend(value, slot);
                Ok(())
            }
            _ => Err(wrong_kind(NAME)),
        }
    }

    fn keep_rows(&self) {
        self.rings.iter().for_each(|ring| ring.keep_rows(&self.device));
    }

    fn read_row(&self, ring: RingId, slot: Slot, row: &mut RowMemory) -> Result<(), BackendError> {
        let memory = &self.rings[ring.index()];
        if let Encoder::OnDevice { downloads, .. } = &memory.encoder
            && let Some(Some(downloads)) = downloads.get()
            && let Some(slab) = downloads.take(slot)?
        {
            *row = RowMemory::Slab(slab);
            return Ok(());
        }
        let row = row.emptied();
        match &memory.encoder {
            Encoder::Vector(_) => memory.rows.read(slot, row),
            Encoder::OnHost { host, .. } => host.read(slot, row),
            // The copy waits for the encode of this row, and not for the one that has just begun.
            Encoder::OnDevice { reads, .. } | Encoder::OnCore { reads, .. } => {
                memory
                    .pending(Value::Row(slot))
                    .try_for_each(|state| reads.wait(&state.encoded))?;
                memory.rows.download(slot, row, reads)?;
            }
        }
        Ok(())
    }

    fn fuse(&self, jobs: &[StepJob], out: OutputMut<'_>) -> Result<(), BackendError> {
        let changed = || {
            let jobs = jobs.iter().filter(|job| !job.unchanged);
            jobs.map(|job| (job, &self.rings[job.ring.index()]))
        };
        let mut fuser = lock(&self.fuser);
        for (at, job) in jobs.iter().enumerate() {
            let ring = &self.rings[job.ring.index()];
            if ring.unwraps() && jobs[..at].iter().all(|before| before.ring != job.ring) {
                ring.write_window(&jobs[at..]);
            }
        }
        let mut tick = fuser.begin(out);
        for (job, ring) in changed() {
            for state in ring.pending(job.value) {
                tick.wait(&state.encoded)?;
            }
            let value = ring.value_of(job);
            ring.places_of(job.step).for_each(|place| tick.add(&ring.rows, value, place));
        }
        tick.run()?;
        // The tick has waited for them.
        for (job, ring) in changed() {
            ring.pending(job.value).for_each(|state| state.pending.store(false, Ordering::Release));
        }
        Ok(())
    }
}
