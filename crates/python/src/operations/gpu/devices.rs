//! The GPUs that calls have used, and what they have made there.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use pyo3::prelude::*;
use robocache_ops::device::{Device, DeviceBuffer, DeviceError, Stream};
use robocache_ops::resample::cuda::{Resampler, lanes_of};
use robocache_ops::resample::{BatchStream, Lane};
use robocache_ops::voxelize::cuda::Scatter;

use super::batches::Key;
use super::encoders::{Images, MOST, Voxelizers};
use crate::dlpack::Memory;
use crate::errors::failed;
use crate::freeing::Elsewhere;
use crate::operations::Place;
use crate::operations::kept::Kept;

/// Resamplers that are kept for each GPU. They have no memory of their own there.
const MOST_RESAMPLERS: usize = 256;

/// A GPU, and what calls have made for it. No lock is held while a call waits for the GPU.
pub(super) struct Gpu {
    pub(super) device: Arc<Device>,
    pub(super) resamplers: Mutex<Kept<Key, Arc<Resampler>>>,
    pub(super) voxelizers: Voxelizers,
    pub(super) images: Images,
    /// Made at its first use.
    scatter: OnceLock<Scatter>,
    /// Never freed: a captured graph may read them at any time. There are as many as kinds of rows with angles.
    lanes: Mutex<HashMap<Vec<Lane>, Option<Arc<DeviceBuffer>>>>,
}

static GPUS: Mutex<Option<HashMap<i32, Arc<Gpu>>>> = Mutex::new(None);

pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Gpu {
    /// The GPU of this number, which is opened at its first use.
    pub(super) fn of(number: i32) -> Result<Arc<Self>, DeviceError> {
        let mut gpus = locked(&GPUS);
        let gpus = gpus.get_or_insert_default();
        if let Some(gpu) = gpus.get(&number) {
            return Ok(gpu.clone());
        }
        let gpu = Arc::new(Gpu {
            device: Device::open(usize::try_from(number).unwrap_or(usize::MAX))?,
            resamplers: Mutex::new(Kept::new(MOST_RESAMPLERS)),
            voxelizers: Voxelizers::new(MOST),
            images: Images::new(MOST),
            scatter: OnceLock::new(),
            lanes: Mutex::default(),
        });
        gpus.insert(number, gpu.clone());
        Ok(gpu)
    }

    /// Kernel that writes counts of clouds straight to arrays of the caller.
    pub(super) fn scatter(&self) -> Result<&Scatter, DeviceError> {
        if let Some(known) = self.scatter.get() {
            return Ok(known);
        }
        let made = Scatter::new(&self.device)?;
        Ok(self.scatter.get_or_init(|| made))
    }

    /// Lanes of a stream, in memory that the kernels read; `None` if its rows are not interpolated.
    pub(super) fn lanes(
        &self,
        stream: &BatchStream,
    ) -> Result<Option<Arc<DeviceBuffer>>, DeviceError> {
        if !stream.rule.strategy.interpolates() {
            return Ok(None);
        }
        let mut lanes = locked(&self.lanes);
        if let Some(known) = lanes.get(&stream.lanes) {
            return Ok(known.clone());
        }
        let made = lanes_of(&self.device, stream)?;
        if made.is_some() {
            lanes.insert(stream.lanes.clone(), made.clone());
        }
        Ok(made)
    }
}

/// A GPU, which is opened at its first use.
pub(crate) fn device(number: i32) -> Result<Arc<Device>, DeviceError> {
    Ok(Gpu::of(number)?.device.clone())
}

/// The stream of the caller.
pub(crate) fn stream_of(device: &Arc<Device>, place: Place) -> Stream {
    let (_, handle) = place;
    // SAFETY: the handle is that of the array library's current stream, which lives longer than the call.
    unsafe { Stream::of_caller(device, handle) }
}

struct OnDevice(Elsewhere<DeviceBuffer>);

impl Memory for OnDevice {
    fn address(&self) -> usize {
        self.0.address() as usize
    }
}

/// Memory of a GPU.
pub(crate) fn memory(device: i32, bytes: usize) -> PyResult<Arc<dyn Memory>> {
    let buffer = Gpu::of(device).and_then(|gpu| DeviceBuffer::new(&gpu.device, bytes.max(1)));
    Ok(Arc::new(OnDevice(Elsewhere::new(buffer.map_err(failed)?))))
}

/// Waits for all of a GPU.
pub(crate) fn synchronize(device: i32) -> PyResult<()> {
    Gpu::of(device).and_then(|gpu| gpu.device.synchronize()).map_err(failed)
}
