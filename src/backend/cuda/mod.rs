//! The CUDA backend: the same bits as the CPU backend, from kernels in `kernels/`.
//!
//! Images and clouds are uploaded once, on arrival, and encoded into rows in device memory; every
//! stream has a CUDA stream of its own for that. Vectors are small and arrive often, so that their
//! rows stay in pinned host memory, where writing one costs no call of the driver and the device
//! reads the few that a tick needs. A tick is one launch that writes every changed step straight
//! into the pinned memory that the publisher reads.
//!
//! Who waits for whom: a tick waits, on the device, for encodes of the rows that it reads. It
//! returns when it is done, and a slot is spare only while no tick may read it, so that encodes
//! need not wait for ticks.

pub mod batch;
pub mod driver;
mod fuse;
mod image;
mod memory;
pub mod timing;
mod voxelize;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

pub use driver::{Device, Limits};

use self::driver::{Event, Stream};
use self::fuse::{Fuser, RowSource};
use self::image::ImageEncoder;
use self::memory::{DeviceBuffer, Outputs, PinnedBuffer};
use self::voxelize::Voxelizer;
use super::{Backend, BackendError, EncodeReport, HostBytes, Sample, Slot, StepJob, wrong_type};
use crate::config::{Config, Lane, Source, StreamSpec};
use crate::dtype::DType;
use crate::layout::{Layout, Segment};
use crate::sync::lock;

/// The backend's name in logs and errors.
const NAME: &str = "cuda";

/// Rows start at multiples of this many bytes: whole lines of the device's caches.
const ROW_ALIGNMENT: usize = 128;

/// Rows and tensors on one GPU.
pub struct CudaBackend {
    device: Arc<Device>,
    streams: Vec<StreamMemory>,
    /// Every tick starts with empty lists, so that what a panic left does not matter.
    fuser: Mutex<Fuser>,
    outputs: Arc<Outputs>,
}

/// Rows of one stream and how they are made. As on the CPU, what a panic left is not read: the
/// caller passes over a slot whose encode did not come to its end, and encodes the stream no more.
struct StreamMemory {
    segment: Segment,
    /// What a tick needs to know of the rows.
    source: RowSource,
    encoder: Encoder,
}

enum Encoder {
    /// Rows in pinned memory, of this element type.
    Vector { rows: Mutex<PinnedBuffer>, dtype: DType },
    /// The rows come first, and so are dropped first: that waits for what is on their stream, which
    /// uses the memory of the encoder as well.
    Image { rows: DeviceRows, encoder: Box<Mutex<ImageEncoder>> },
    /// As above.
    Cloud { rows: DeviceRows, encoder: Box<Mutex<Voxelizer>> },
}

/// Rows in device memory.
struct DeviceRows {
    buffer: DeviceBuffer,
    stream: Stream,
    slots: Vec<SlotState>,
}

/// Whether the last encode into a slot may still be under way.
struct SlotState {
    encoded: Event,
    pending: AtomicBool,
}

impl CudaBackend {
    /// Opens GPU number `ordinal` and reserves the memory of all rings on it.
    ///
    /// # Errors
    /// [`BackendError::Unavailable`] where the GPU cannot be used, [`BackendError::Failed`] where
    /// its memory does not suffice.
    pub fn new(ordinal: usize, config: &Config, layout: &Layout) -> Result<Self, BackendError> {
        let backend = Self::on(&Device::open(ordinal)?, config, layout)?;
        tracing::info!("computing on {} (device {ordinal})", backend.device.name());
        Ok(backend)
    }

    /// The same on a GPU that is open already.
    ///
    /// # Errors
    /// [`BackendError::Failed`] where its memory does not suffice.
    pub fn on(
        device: &Arc<Device>,
        config: &Config,
        layout: &Layout,
    ) -> Result<Self, BackendError> {
        let streams = config
            .streams
            .iter()
            .zip(layout.segments())
            .map(|(spec, segment)| StreamMemory::new(device, spec, segment.clone()))
            .collect::<Result<Vec<_>, _>>()?;
        let fuser = Mutex::new(Fuser::new(device, layout)?);
        Ok(CudaBackend { device: device.clone(), streams, fuser, outputs: Arc::default() })
    }

    /// The GPU.
    pub fn device(&self) -> &Arc<Device> {
        &self.device
    }
}

impl StreamMemory {
    fn new(
        device: &Arc<Device>,
        spec: &StreamSpec,
        segment: Segment,
    ) -> Result<Self, BackendError> {
        let slots = spec.ring_rows + 1;
        // As on the CPU: interpolated rows stay f32, the others are rounded when they are encoded.
        let interpolates = spec.strategy.interpolates();
        let dtype = if interpolates { DType::F32 } else { spec.dtype };
        let pitch = (segment.step_len * dtype.size()).next_multiple_of(ROW_ALIGNMENT);
        let device_rows = || DeviceRows::new(device, pitch, slots);
        let (encoder, base, lanes) = match &spec.source {
            Source::Vector(vector) => {
                let rows = PinnedBuffer::new(device, pitch * slots)?;
                let base = rows.address();
                let lanes = if interpolates { lane_codes(device, &vector.lanes)? } else { None };
                (Encoder::Vector { rows: Mutex::new(rows), dtype }, base, lanes)
            }
            Source::Image(image) => {
                let (rows, encoder) = (device_rows()?, ImageEncoder::new(device, image, dtype)?);
                let base = rows.buffer.address();
                let encoder = Box::new(Mutex::new(encoder));
                (Encoder::Image { rows, encoder }, base, None)
            }
            Source::Cloud(cloud) => {
                let rows = device_rows()?;
                let encoder = Voxelizer::new(device, cloud, dtype, slots)?;
                let base = rows.buffer.address();
                let encoder = Box::new(Mutex::new(encoder));
                (Encoder::Cloud { rows, encoder }, base, None)
            }
        };
        let source = RowSource { base, pitch, dtype, lanes };
        Ok(StreamMemory { segment, source, encoder })
    }

    fn device_rows(&self) -> Option<&DeviceRows> {
        match &self.encoder {
            Encoder::Vector { .. } => None,
            Encoder::Image { rows, .. } | Encoder::Cloud { rows, .. } => Some(rows),
        }
    }

    fn encode(&self, slot: Slot, sample: Sample<'_>) -> Result<EncodeReport, BackendError> {
        let row = self.source.address(slot);
        match (&self.encoder, sample) {
            (Encoder::Vector { rows, dtype }, Sample::Vector(values)) => {
                let start = slot * self.source.pitch;
                let end = start + values.len() * dtype.size();
                dtype.store(values, &mut lock(rows)[start..end]);
                Ok(EncodeReport::default())
            }
            (Encoder::Image { rows, encoder }, Sample::Image(view)) => {
                lock(encoder).encode(&view, row, &rows.stream)?;
                rows.mark(slot)?;
                Ok(EncodeReport::default())
            }
            (Encoder::Cloud { rows, encoder }, Sample::Cloud(view)) => {
                lock(encoder).encode(&view, slot, row, &rows.stream)
            }
            _ => Err(wrong_type().into()),
        }
    }
}

impl DeviceRows {
    fn new(device: &Arc<Device>, pitch: usize, slots: usize) -> Result<Self, BackendError> {
        let state = || {
            let encoded = Event::new(device, false)?;
            Ok(SlotState { encoded, pending: AtomicBool::new(false) })
        };
        Ok(DeviceRows {
            buffer: DeviceBuffer::new(device, pitch * slots)?,
            stream: Stream::new(device, false)?,
            slots: (0..slots).map(|_| state()).collect::<Result<_, BackendError>>()?,
        })
    }

    /// Notes that the row in `slot` is complete when what is on the stream so far is done.
    fn mark(&self, slot: Slot) -> Result<(), BackendError> {
        self.slots[slot].encoded.record(&self.stream)?;
        self.slots[slot].pending.store(true, Ordering::Release);
        Ok(())
    }
}

impl Drop for DeviceRows {
    fn drop(&mut self) {
        // An upload or an encode may be under way, into these rows and through the memory of their
        // encoder. After a failure nothing runs any more.
        let _ = self.stream.synchronize("finish the last messages");
    }
}

/// The lanes of a row as the kernels name them; `None` where all are linear.
fn lane_codes(device: &Arc<Device>, lanes: &[Lane]) -> Result<Option<DeviceBuffer>, BackendError> {
    if lanes.iter().all(|lane| *lane == Lane::Linear) {
        return Ok(None);
    }
    let mut component = 0;
    let codes: Vec<u8> = lanes
        .iter()
        .map(|lane| match lane {
            Lane::Linear => 0,
            Lane::Angular => 1,
            Lane::Quaternion => {
                component += 1;
                2 + (component - 1) % 4
            }
        })
        .collect();
    DeviceBuffer::from_bytes(device, &codes).map(Some)
}

impl Backend for CudaBackend {
    fn name(&self) -> &'static str {
        NAME
    }

    fn output_memory(&self, len: usize) -> Result<Box<dyn HostBytes>, BackendError> {
        self.outputs.reserve(&self.device, len)
    }

    fn encode(
        &self,
        stream: usize,
        slot: Slot,
        sample: Sample<'_>,
    ) -> Result<EncodeReport, BackendError> {
        self.streams[stream].encode(slot, sample)
    }

    fn fuse(&self, jobs: &[StepJob], out: &mut [u8]) -> Result<(), BackendError> {
        let direct = self.outputs.holds(out);
        lock(&self.fuser).fuse(&self.streams, jobs, out, direct)
    }
}
