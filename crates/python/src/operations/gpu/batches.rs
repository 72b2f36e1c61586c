//! Resampling, fusing and the gradient.

use std::sync::Arc;

use pyo3::prelude::*;
use robocache_ops::device::{DeviceError, Inputs};
use robocache_ops::dtype::DType;
use robocache_ops::resample::cuda::{BatchPointers, Gradient, GradientPointers, Resampler};
use robocache_ops::resample::{BatchSpec, Division, Times};

use super::devices::{Gpu, locked, stream_of};
use crate::errors::{failed, wrong};
use crate::operations::Place;
use crate::operations::resample::Batch;

/// Key of a resampler: the batches that it is for.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Key {
    dtype: DType,
    times: Times,
    episodes: usize,
    steps: Division,
    /// The number of the rule, the rows and their type.
    streams: Vec<(u64, Division, DType)>,
}

/// Launches batches of one specification on streams of one GPU.
#[derive(Clone)]
pub(crate) struct Ready {
    gpu: Arc<Gpu>,
    resampler: Arc<Resampler>,
}

impl Ready {
    /// For batches of `spec` with `times`, whose rules have these numbers.
    fn new(
        number: i32,
        spec: &BatchSpec,
        times: Times,
        rules: &[u64],
    ) -> Result<Self, DeviceError> {
        let gpu = Gpu::of(number)?;
        let streams = spec.streams.iter().zip(rules);
        let key = Key {
            dtype: spec.dtype,
            times,
            episodes: spec.episodes,
            steps: spec.steps,
            streams: streams.map(|(s, rule)| (*rule, s.rows, s.dtype)).collect(),
        };
        let known = locked(&gpu.resamplers).get(&key);
        if let Some(resampler) = known {
            return Ok(Ready { gpu, resampler });
        }
        let lanes =
            spec.streams.iter().map(|stream| gpu.lanes(stream)).collect::<Result<_, _>>()?;
        let resampler = Arc::new(Resampler::with_lanes(&gpu.device, spec, times, lanes)?);
        locked(&gpu.resamplers).insert(key, resampler.clone());
        Ok(Ready { gpu, resampler })
    }

    /// True if the GPU is the current one of the thread.
    pub(crate) fn is_current(&self) -> bool {
        self.gpu.device.is_current()
    }

    fn launch(
        &self,
        place: Place,
        batch: &Batch<'_>,
        out: (usize, usize, usize),
    ) -> Result<(), DeviceError> {
        let addresses = |all: &[usize]| all.iter().map(|at| *at as u64).collect::<Vec<_>>();
        let (stamps, offsets): (Vec<_>, Vec<_>) =
            batch.stamps.iter().map(|stamps| (stamps.0 as u64, stamps.2 as u64)).unzip();
        let pointers = BatchPointers {
            rows: &addresses(&batch.rows),
            stamps: &stamps,
            row_offsets: &offsets,
            targets: batch.targets.0 as u64,
            target_offsets: batch.targets.2 as u64,
            data: out.0 as u64,
            report: Some([out.1 as u64, out.2 as u64]),
        };
        let stream = stream_of(&self.gpu.device, place);
        // SAFETY: the shapes were checked. The caller's stream orders this launch with the use and the release of
        // the arrays, as for any kernel of the array library. No launch there overlaps with the one before it.
        unsafe { self.resampler.launch(&pointers, Inputs::Ready, &stream) }
    }
}

/// Launcher of batches of a specification on streams of a GPU.
pub(crate) fn ready(
    py: Python<'_>,
    number: i32,
    spec: &BatchSpec,
    times: Times,
    rules: &[u64],
) -> PyResult<Ready> {
    py.detach(|| Ready::new(number, spec, times, rules)).map_err(failed)
}

/// Puts a batch on the caller's stream. Rows and values are at multiples of 16 bytes.
pub(crate) fn launch(
    py: Python<'_>,
    ready: &Ready,
    place: Place,
    batch: &Batch<'_>,
    out: (usize, usize, usize),
) -> PyResult<()> {
    py.detach(|| ready.launch(place, batch, out)).map_err(failed)
}

/// Prepares and puts a batch on the caller's stream.
pub(crate) fn fuse(
    py: Python<'_>,
    place: Place,
    batch: &Batch<'_>,
    out: (usize, usize, usize),
    rules: &[u64],
) -> PyResult<()> {
    if batch.rows.iter().chain([&out.0]).any(|address| !address.is_multiple_of(16)) {
        return Err(wrong("rows and out: expected addresses that are multiples of 16"));
    }
    if batch.spec.targets() == 0 {
        return Ok(());
    }
    py.detach(|| Ready::new(place.0, batch.spec, batch.times, rules)?.launch(place, batch, out))
        .map_err(failed)
}

/// Puts the gradients of all streams on the caller's stream.
pub(crate) fn gradient(
    py: Python<'_>,
    place: Place,
    batch: &Batch<'_>,
    of_values: usize,
) -> PyResult<()> {
    py.detach(|| {
        let gpu = Gpu::of(place.0)?;
        let stream = stream_of(&gpu.device, place);
        let gradient = Gradient::new(&gpu.device, batch.spec.dtype, batch.times)?;
        for (at, (of_rows, stamps)) in batch.rows.iter().zip(&batch.stamps).enumerate() {
            let pointers = GradientPointers {
                of_output: of_values as u64,
                of_rows: *of_rows as u64,
                stamps: stamps.0 as u64,
                row_offsets: stamps.2 as u64,
                targets: batch.targets.0 as u64,
                target_offsets: batch.targets.2 as u64,
            };
            // SAFETY: as in `launch`.
            unsafe { gradient.launch(batch.spec, at, &pointers, &stream)? };
        }
        Ok::<_, DeviceError>(())
    })
    .map_err(failed)
}
