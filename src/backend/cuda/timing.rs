//! Times of kernels, for the benchmarks: launches are recorded into a graph, and the graph is
//! replayed between two events, so that what is timed is the device and not the host.

use std::ptr;
use std::sync::Arc;

use super::batch::{BatchFuser, DeviceBatch};
use super::driver::{Device, Event, Kernel, Stream};
use crate::backend::BackendError;

/// Replays that are not counted: they load code and fill caches.
const WARM_UP: usize = 5;

/// Times on one device.
pub struct Timer {
    stream: Stream,
    empty: Kernel,
    plain: Kernel,
}

impl Timer {
    /// For a device.
    pub fn new(device: &Arc<Device>) -> Result<Self, BackendError> {
        Ok(Timer {
            stream: Stream::new(device, false)?,
            empty: device.kernel("empty")?,
            plain: device.kernel("resample_plain_bf16")?,
        })
    }

    /// The stream that is timed.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Microseconds per launch, for each of `replays` replays of a graph of `launches`.
    fn time(
        &self,
        launches: usize,
        replays: usize,
        mut launch: impl FnMut(usize) -> Result<(), BackendError>,
    ) -> Result<Vec<f64>, BackendError> {
        let device = self.stream.device();
        let graph = self.stream.capture(|| (0..launches).try_for_each(&mut launch))?;
        let (start, end) = (Event::new(device, true)?, Event::new(device, true)?);
        let mut times = Vec::with_capacity(replays);
        for replay in 0..WARM_UP + replays {
            start.record(&self.stream)?;
            // SAFETY: the methods below borrow what they record until this function returns.
            unsafe { graph.launch(&self.stream)? };
            end.record(&self.stream)?;
            end.synchronize("time a graph")?;
            if replay >= WARM_UP {
                times.push(end.microseconds_since(&start)? / launches as f64);
            }
        }
        Ok(times)
    }

    /// A kernel that does nothing.
    pub fn empty(&self, launches: usize, replays: usize) -> Result<Vec<f64>, BackendError> {
        // SAFETY: the kernel takes no arguments.
        self.time(launches, replays, |_| unsafe { self.empty.launch(&self.stream, 1, 32, &mut []) })
    }

    /// A batch, going round `batches`.
    pub fn batch(
        &self,
        fuser: &BatchFuser,
        batches: &[DeviceBatch],
        launches: usize,
        replays: usize,
    ) -> Result<Vec<f64>, BackendError> {
        // SAFETY: the batches are borrowed until the last replay is done.
        self.time(launches, replays, |i| unsafe {
            fuser.launch(&batches[i % batches.len()], &self.stream)
        })
    }

    /// The same by one thread per element, bf16 and linear, the first stream only.
    pub fn plain_batch(
        &self,
        [episodes, len, steps, dim]: [usize; 4],
        batches: &[DeviceBatch],
        launches: usize,
        replays: usize,
    ) -> Result<Vec<f64>, BackendError> {
        let (mut len, mut dim, mut steps) = (len as u32, dim as u32, steps as u32);
        let mut elements = episodes as u64 * u64::from(steps) * u64::from(dim);
        self.time(launches, replays, |i| {
            let [mut rows, mut stamps, mut targets, mut out] =
                batches[i % batches.len()].addresses();
            let arguments = &mut [
                ptr::from_mut(&mut rows).cast(),
                ptr::from_mut(&mut stamps).cast(),
                ptr::from_mut(&mut targets).cast(),
                ptr::from_mut(&mut out).cast(),
                ptr::from_mut(&mut len).cast(),
                ptr::from_mut(&mut dim).cast(),
                ptr::from_mut(&mut steps).cast(),
                ptr::from_mut(&mut elements).cast(),
            ];
            let blocks = elements.div_ceil(256) as u32;
            // SAFETY: the arguments are those of the kernel; the batches are borrowed until the
            // last replay is done, and of the sizes given.
            unsafe { self.plain.launch(&self.stream, blocks, 256, arguments) }
        })
    }
}
