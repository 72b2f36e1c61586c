//! Windows on the GPU: `kernels/windows/windows.cu`, the twin of [`super::cpu`].

mod sample;
mod tables;

pub use sample::{Sample, SampleOrder};

use std::any::Any;
use std::sync::Arc;

use tables::Tables;

use super::spec::{Items, WindowError, WindowPlan, WindowStream};
use super::{RingRows, cpu};
use crate::device::shared::common::WARP;
use crate::device::shared::windows::{
    FEW_WORDS, THREADS, WORDS, Windows as Job, WithFewWords, WithWords,
};
use crate::device::{Device, DeviceError, Kernel, Launch, PinnedTurns, Stream};

/// The columns of a ring on the device, each as in [`super::RingRows`]. 0 for what a ring does not have.
#[derive(Clone, Copy, Debug, Default)]
pub struct RingPointers {
    /// In device memory, or in pinned memory of the host; aligned to 16 bytes.
    pub rows: u64,
    /// In device memory, or in pinned memory of the host; aligned to 16 bytes.
    pub coordinates: u64,
    /// `u32` per row.
    pub count: u64,
    /// `i64` per row.
    pub stamp_ns: u64,
    /// `i64` per row.
    pub received_ns: u64,
    /// `i64` per row.
    pub left_ns: u64,
    /// `i64` per row.
    pub received_from: u64,
    /// `i64` per row.
    pub left_until: u64,
    /// `i64` per row and input.
    pub until_ns: u64,
    /// A byte per row.
    pub replaced: u64,
    /// A byte per row.
    pub until_next: u64,
    /// [`super::SpanRows`] per span, each of fewer than 2^32 rows.
    pub spans: u64,
}

/// Addresses on the device that tell the span of an episode at an instant.
#[derive(Clone, Copy, Debug, Default)]
pub struct SpanPointers {
    /// `u32` per episode and one more: the number of its first span.
    pub first: u64,
    /// `i64` per span: its epoch.
    pub epoch: u64,
    /// `i64` per span: when its first row came.
    pub begin_ns: u64,
    /// `i64` per span: when its last row came.
    pub end_ns: u64,
    /// Episodes.
    pub episodes: usize,
}

/// The items of a launch, one per window.
#[derive(Clone, Copy, Debug)]
pub enum DeviceItems<'a> {
    /// On the host: the numbers of known spans, and the instants \[ns\].
    Host {
        /// Spans.
        spans: &'a [u32],
        /// Instants.
        instants: &'a [i64],
    },
    /// On the device, `i64` each. Every step of an unknown episode or epoch is invalid.
    Device {
        /// How many.
        windows: usize,
        /// The numbers of the episodes.
        episodes: u64,
        /// Instants \[ns\].
        instants: u64,
        /// Numbers of the clock's epochs; 0 for the latest that had begun.
        epochs: u64,
    },
}

impl DeviceItems<'_> {
    /// How many windows there are.
    pub fn windows(&self) -> usize {
        match self {
            DeviceItems::Host { instants, .. } => instants.len(),
            DeviceItems::Device { windows, .. } => *windows,
        }
    }
}

/// Launches with many items that may be under way before a call waits for one of them.
const TURNS: usize = 8;
/// Batches of host-made streams that may be under way before a call waits for one of them.
const HOST_TURNS: usize = 3;

/// A plan on a device: its tables there, and which of its streams the host makes.
pub struct DeviceWindowPlan {
    plan: WindowPlan,
    device: Arc<Device>,
    kernel: Kernel,
    /// Kernel for few numbers: a launch is sooner put on a stream if its parameter is small.
    kernel_of_few: Kernel,
    tables: Tables,
    spans: SpanPointers,
    /// For the numbers of many items.
    turns: PinnedTurns,
    /// The streams that the host makes: numbers in the plan, and a plan of each alone.
    of_host: Vec<(usize, WindowPlan)>,
    host_turns: PinnedTurns,
    /// Owner of the memory that the pointers point to.
    _rows: Arc<dyn Any + Send + Sync>,
}

impl DeviceWindowPlan {
    /// Prepares windows. `rings` has the pointers of each stream of the plan; `None` for a stream that the host
    /// makes. `rows` owns what they point to, and is kept as long as this.
    ///
    /// # Errors
    /// The device has no memory left, or the kernel is missing.
    pub fn new(
        device: &Arc<Device>,
        plan: &WindowPlan,
        rings: &[Option<&[RingPointers]>],
        spans: SpanPointers,
        rows: Arc<dyn Any + Send + Sync>,
    ) -> Result<Self, DeviceError> {
        let alone = |(at, stream): (usize, &WindowStream)| {
            rings[at].is_none().then(|| (at, WindowPlan { streams: vec![stream.clone()] }))
        };
        Ok(DeviceWindowPlan {
            plan: plan.clone(),
            device: device.clone(),
            kernel: device.kernel("write_windows")?,
            kernel_of_few: device.kernel("write_few_windows")?,
            tables: Tables::new(device, plan, rings)?,
            spans,
            turns: PinnedTurns::new(device, TURNS),
            of_host: plan.streams().iter().enumerate().filter_map(alone).collect(),
            host_turns: PinnedTurns::new(device, HOST_TURNS),
            _rows: rows,
        })
    }

    /// The plan.
    pub fn plan(&self) -> &WindowPlan {
        &self.plan
    }

    /// The device.
    pub fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// The streams that the host makes.
    pub fn of_host(&self) -> impl Iterator<Item = &WindowStream> {
        self.of_host.iter().map(|(at, _)| &self.plan.streams()[*at])
    }

    /// Makes the windows of the streams of the host, on `threads` threads, and puts their copies to `out` on a
    /// stream. `rows` gives the rings of a stream. Nothing of the arguments is used after the call.
    ///
    /// # Errors
    /// That of `rows`; sizes contradict each other, or the device fails.
    ///
    /// # Safety
    /// As for [`DeviceWindowPlan::launch`].
    pub unsafe fn write_of_host<'r, E: From<DeviceError> + From<WindowError>>(
        &self,
        rows: impl Fn(&WindowStream) -> Result<Vec<RingRows<'r>>, E>,
        items: Items<'_>,
        out: u64,
        stream: &Stream,
        threads: usize,
    ) -> Result<(), E> {
        let count = items.instants.len();
        let streams = self.plan.streams().len();
        let latencies = items.latency_ns.len();
        if ![0, streams * count].contains(&latencies) {
            return Err(WindowError::of("latencies", streams * count, latencies).into());
        }
        let layout = self.plan.layout(count)?;
        for (at, plan) in &self.of_host {
            let begin = layout.parts.iter().find(|part| part.stream == *at);
            let begin = begin.map_or(0, |part| part.byte_offset) as u64;
            let late = items.latency_ns.get(at * count..(at + 1) * count).unwrap_or_default();
            let items = Items { latency_ns: late, ..items };
            let rows = rows(&plan.streams()[0])?;
            let len = plan.layout(count)?.byte_len;
            self.host_turns.with::<E>(len, stream, |memory| {
                cpu::windows(plan, &[rows], items, &mut memory[..len], threads)?;
                // SAFETY: `out` has the layout of all streams, and the memory is not written before its turn comes
                // again.
                unsafe { memory.send(len, out + begin, stream)? };
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Puts one launch on a stream, which writes the windows of the other streams to `out`, in the layout of the plan. `latency_ns` is
    /// `[streams, windows]`, or empty. Neither it nor the items are used after the call.
    ///
    /// # Errors
    /// Sizes contradict each other, there are too many windows, or the device fails.
    ///
    /// # Safety
    /// Until the launch is done, `out` is memory of the device of the size of the layout, aligned to 64 bytes, that
    /// nothing else uses; what is on the device stays, and no kernel that may still run writes it; and so do the rows.
    pub unsafe fn launch(
        &self,
        items: DeviceItems<'_>,
        latency_ns: &[i64],
        out: u64,
        stream: &Stream,
    ) -> Result<(), DeviceError> {
        let windows = items.windows();
        let failed = |detail: String| DeviceError::Failed { operation: "write windows", detail };
        let streams = self.plan.streams().len();
        if ![0, streams * windows].contains(&latency_ns.len()) {
            let expected = streams * windows;
            let found = latency_ns.len();
            return Err(failed(format!("expected {expected} latencies, found {found}")));
        }
        let tasks = windows as u64 * u64::from(self.tables.tasks);
        if tasks > i32::MAX as u64 {
            return Err(failed(format!("expected fewer than {windows} windows at once")));
        }
        if tasks == 0 {
            return Ok(());
        }
        let mut job = Job {
            streams: self.tables.streams(),
            out,
            numbers: 0,
            instants: 0,
            episodes: 0,
            epochs: 0,
            first_span: self.spans.first,
            span_epoch: self.spans.epoch,
            span_begin: self.spans.begin_ns,
            span_end: self.spans.end_ns,
            stream_count: streams as u32,
            windows: windows as u32,
            tasks: self.tables.tasks,
            has_latency: u32::from(!latency_ns.is_empty()),
            episode_count: self.spans.episodes as u32,
            reserved: 0,
        };
        let (instants, spans): (&[i64], &[u32]) = match items {
            DeviceItems::Host { instants, spans } => {
                if spans.len() != windows {
                    return Err(failed(format!("expected {windows} spans, found {}", spans.len())));
                }
                (instants, spans)
            }
            DeviceItems::Device { episodes, instants, epochs, .. } => {
                (job.instants, job.episodes, job.epochs) = (instants, episodes, epochs);
                (&[], &[])
            }
        };
        let fill = |numbers: &mut [i64]| {
            let (first, rest) = numbers.split_at_mut(instants.len());
            let (second, third) = rest.split_at_mut(spans.len());
            first.copy_from_slice(instants);
            for (number, span) in second.iter_mut().zip(spans) {
                *number = i64::from(*span);
            }
            third.copy_from_slice(latency_ns);
        };
        let count = instants.len() + spans.len() + latency_ns.len();
        let launch =
            Launch { blocks: (tasks as u32).div_ceil(THREADS / WARP), threads: THREADS, shared: 0 };
        // SAFETY of both launches here: the parameter is that of the kernel. It names what the caller answers for, and
        // tables and rows of this plan, which wait for the device before they go.
        if count <= FEW_WORDS as usize {
            let mut all = WithFewWords { job, words: [0; FEW_WORDS as usize] };
            fill(&mut all.words[..count]);
            // SAFETY: see above.
            return unsafe { self.kernel_of_few.launch_job(stream, launch, &all) };
        }
        if count <= WORDS as usize {
            let mut all = WithWords { job, words: [0; WORDS as usize] };
            fill(&mut all.words[..count]);
            // SAFETY: see above.
            return unsafe { self.kernel.launch_job(stream, launch, &all) };
        }
        let bytes = count * size_of::<i64>();
        self.turns.with(bytes, stream, |memory| {
            fill(bytemuck::cast_slice_mut(&mut memory[..bytes]));
            let job = Job { numbers: memory.address(), ..job };
            let all = WithFewWords { job, words: [0; FEW_WORDS as usize] };
            // SAFETY: as above; no thread writes the numbers again before the launch is done.
            unsafe { self.kernel_of_few.launch_job(stream, launch, &all) }
        })
    }
}
