//! A core or the GPU for each message of one ring: [`super::choice`] says which, and this does it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::choice::{self, CALL_LIMIT_NS, Chooser, Decision};
use super::gpu_thread::{Doing, Done, Gpu, GpuEncoder, GpuThread, Unused};
use crate::backend::{BackendError, Encodes, Processor};
use crate::codec::FileReader;
use crate::sample::{PlacedSample, Sample};
use robocache_ops::device::{HostBuffer, MessagePool};
use robocache_ops::sync::lock;
use robocache_ops::voxelize::PointDrops;

/// Destination of a sample.
pub(super) trait Target {
    /// Encodes a sample into the slot on the calling thread. `None` if `overtaken` became true
    /// before it was done.
    fn encode(
        &self,
        placed: &PlacedSample<'_>,
        overtaken: Option<&AtomicBool>,
    ) -> Result<Option<PointDrops>, BackendError>;

    /// Exchanges the slot's memory for that of a row.
    fn take(&self, row: &mut HostBuffer);
}

/// Both processors of a ring.
pub(super) struct HybridEncoder {
    gpu: Arc<Gpu>,
    pub(super) thread: GpuThread,
    messages: Option<Arc<MessagePool>>,
    chooser: Mutex<Chooser>,
    /// Reads compressed images for both processors. What a panic left is not read.
    files: Mutex<FileReader>,
    start: Instant,
    by_cpu: AtomicU64,
    by_gpu: AtomicU64,
    takeovers: AtomicU64,
}

impl HybridEncoder {
    /// Starts the ring's thread.
    ///
    /// # Errors
    /// Those of [`GpuThread::start`].
    pub(super) fn new(gpu: &Arc<Gpu>, encoder: Box<dyn GpuEncoder>) -> Result<Self, BackendError> {
        Ok(HybridEncoder {
            gpu: Arc::clone(gpu),
            messages: encoder.messages(),
            thread: GpuThread::start(gpu, encoder)?,
            chooser: Mutex::default(),
            files: Mutex::default(),
            start: gpu.now(),
            by_cpu: AtomicU64::new(0),
            by_gpu: AtomicU64::new(0),
            takeovers: AtomicU64::new(0),
        })
    }

    /// Memory for messages that the GPU reads where they are.
    pub(super) fn messages(&self) -> Option<Arc<MessagePool>> {
        self.messages.clone()
    }

    /// Asks the thread to end, without waiting for it.
    pub(super) fn close(&self) {
        self.thread.close();
    }

    /// Encodes a sample on the processor that has lately finished sooner.
    ///
    /// # Errors
    /// Those of [`Target::encode`]. A failure of the GPU is no error.
    pub(super) fn encode(
        &self,
        placed: &PlacedSample<'_>,
        target: &impl Target,
    ) -> Result<PointDrops, BackendError> {
        let now = self.gpu.now();
        match self.plan(now) {
            Decision::Core => self.core(placed, Duration::ZERO, target),
            Decision::Both => self.read(placed, |placed, decoding| {
                // If the thread did not take the sample, a row of it is that of an earlier sample.
                match self.thread.hand_over(placed, now) {
                    true => self.core_or_shadow(placed, decoding, target),
                    false => self.core(placed, decoding, target),
                }
            }),
            Decision::Gpu { patience_ns } => {
                self.on_gpu(placed, now, Duration::from_nanos(patience_ns), target)
            }
            Decision::Leave => {
                let seconds = CALL_LIMIT_NS / 1_000_000_000;
                self.gpu.leave(|| format!("it did not encode a message within {seconds} s"));
                self.core(placed, Duration::ZERO, target)
            }
        }
    }

    /// Reads a compressed image once for both processors, and encodes it by `encode`. That is given the time for which a
    /// core has decoded the image. To read headers is the work of the GPU's way alone.
    fn read(
        &self,
        placed: &PlacedSample<'_>,
        encode: impl FnOnce(&PlacedSample<'_>, Duration) -> Result<PointDrops, BackendError>,
    ) -> Result<PointDrops, BackendError> {
        let Sample::Compressed(image) = &placed.sample else {
            return encode(placed, Duration::ZERO);
        };
        let began = self.gpu.now();
        let mut files = lock(&self.files);
        let sample = files.read(image)?;
        let decoding = match sample {
            Sample::Compressed(_) => Duration::ZERO,
            _ => self.gpu.since(began),
        };
        encode(&PlacedSample { sample, placement: placed.placement }, decoding)
    }

    /// Encodes a sample on a processor of the caller's choice. If that is the GPU and it cannot take
    /// the sample or fails, a core encodes.
    ///
    /// # Errors
    /// As for [`HybridEncoder::encode`].
    pub(super) fn encode_on(
        &self,
        processor: Processor,
        placed: &PlacedSample<'_>,
        target: &impl Target,
    ) -> Result<PointDrops, BackendError> {
        let now = self.gpu.now();
        if processor == Processor::Cpu {
            return self.core(placed, Duration::ZERO, target);
        }
        let until = now + Duration::from_nanos(CALL_LIMIT_NS);
        // What [`HybridEncoder::encode`] left to the thread.
        if let Some(earlier) = self.thread.wait(until) {
            self.thread.give_back(earlier.encoder);
        }
        self.on_gpu(placed, now, Duration::from_nanos(CALL_LIMIT_NS), target)
    }

    /// How the ring's samples were encoded.
    pub(super) fn encodes(&self) -> Encodes {
        let chooser = lock(&self.chooser);
        let in_use = if self.gpu.left().is_some() { Processor::Cpu } else { chooser.in_use() };
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Encodes {
            in_use,
            cpu_ns: chooser.latency_ns(Processor::Cpu),
            gpu_ns: chooser.latency_ns(Processor::Gpu),
            by_cpu: read(&self.by_cpu),
            by_gpu: read(&self.by_gpu),
            takeovers: read(&self.takeovers),
        }
    }

    /// Makes the GPU the processor in use, as if a core took this long. For tests.
    #[cfg(test)]
    pub(super) fn prefer_gpu_to(&self, core: Duration) {
        let mut chooser = lock(&self.chooser);
        let core_ns = core.as_nanos() as u64;
        for (processor, took_ns) in [(Processor::Cpu, core_ns), (Processor::Gpu, 1_000)] {
            (0..5).for_each(|_| chooser.took(processor, took_ns, 0));
        }
    }

    /// Says who encodes a message that came at `now`, and notes what the thread has done since the last one.
    pub(super) fn plan(&self, now: Instant) -> Decision {
        if self.gpu.left().is_some() {
            return Decision::Core;
        }
        let (unused, doing) = self.thread.poll();
        if let Some(Unused { took, left_to_core }) = unused {
            // A core then encodes after the GPU, as in `instead`.
            let core_ns = match left_to_core {
                true => lock(&self.chooser).latency_ns(Processor::Cpu).unwrap_or(0),
                false => 0,
            };
            self.took(Processor::Gpu, took + Duration::from_nanos(core_ns));
        }
        let gpu = match doing {
            Doing::Nothing => choice::Gpu::Idle,
            Doing::Encoding(since) => choice::Gpu::Busy { since_ns: self.ns(since) },
            Doing::Gone => return Decision::Core,
        };
        lock(&self.chooser).plan(self.ns(now), gpu)
    }

    /// Hands a sample to the GPU; a core takes it over if the row is not ready after `patience`. That time begins after
    /// the copy to the GPU's staging memory, which this thread makes if there is one.
    fn on_gpu(
        &self,
        placed: &PlacedSample<'_>,
        since: Instant,
        patience: Duration,
        target: &impl Target,
    ) -> Result<PointDrops, BackendError> {
        self.read(placed, |placed, decoding| {
            if !self.thread.hand_over(placed, since) {
                return self.core(placed, decoding, target);
            }
            if let Some(done) = self.thread.wait(self.gpu.now() + patience) {
                return self.accept(done, placed, target);
            }
            self.takeovers.fetch_add(1, Ordering::Relaxed);
            self.core_or_shadow(placed, decoding, target)
        })
    }

    /// A core encodes alone. It has decoded the sample for `decoding`.
    fn core(
        &self,
        placed: &PlacedSample<'_>,
        decoding: Duration,
        target: &impl Target,
    ) -> Result<PointDrops, BackendError> {
        let began = self.gpu.now();
        let drops = target.encode(placed, None)?.unwrap_or_default();
        self.encoded_by_core(began, decoding);
        Ok(drops)
    }

    /// A core encodes, unless the thread has the row first. A row that is not used is discarded with the next sample:
    /// no thread waits for it.
    fn core_or_shadow(
        &self,
        placed: &PlacedSample<'_>,
        decoding: Duration,
        target: &impl Target,
    ) -> Result<PointDrops, BackendError> {
        let began = self.gpu.now();
        if let Some(drops) = target.encode(placed, Some(self.thread.ready()))? {
            self.encoded_by_core(began, decoding);
            return Ok(drops);
        }
        match self.thread.wait(self.gpu.now()) {
            Some(done) => self.accept(done, placed, target),
            None => self.core(placed, decoding, target),
        }
    }

    /// Takes the row of the GPU.
    fn accept(
        &self,
        done: Done,
        placed: &PlacedSample<'_>,
        target: &impl Target,
    ) -> Result<PointDrops, BackendError> {
        let Done { mut encoder, drops, took } = done;
        if matches!(drops, Err(BackendError::ForCore)) {
            self.thread.give_back(encoder);
            return self.instead(took, placed, target);
        }
        self.took(Processor::Gpu, took);
        if drops.is_ok() {
            let Some(row) = encoder.row() else {
                self.gpu.leave(|| "it may still write a row that it says is done".to_owned());
                // Its memory stays, as after any failure.
                std::mem::forget(encoder);
                return self.core(placed, Duration::ZERO, target);
            };
            target.take(row);
            self.by_gpu.fetch_add(1, Ordering::Relaxed);
        }
        self.thread.give_back(encoder);
        drops
    }

    /// A core encodes what the GPU has left to it after this time, so that the GPU's way takes longer than a core alone.
    fn instead(
        &self,
        took: Duration,
        placed: &PlacedSample<'_>,
        target: &impl Target,
    ) -> Result<PointDrops, BackendError> {
        let began = self.gpu.now();
        let drops = self.core(placed, Duration::ZERO, target)?;
        self.took(Processor::Gpu, took + self.gpu.since(began));
        Ok(drops)
    }

    fn encoded_by_core(&self, began: Instant, decoding: Duration) {
        self.took(Processor::Cpu, decoding + self.gpu.since(began));
        self.by_cpu.fetch_add(1, Ordering::Relaxed);
    }

    fn took(&self, processor: Processor, took: Duration) {
        let took_ns = took.as_nanos() as u64;
        let now_ns = self.ns(self.gpu.now());
        lock(&self.chooser).took(processor, took_ns, now_ns);
    }

    fn ns(&self, at: Instant) -> u64 {
        at.saturating_duration_since(self.start).as_nanos() as u64
    }
}
