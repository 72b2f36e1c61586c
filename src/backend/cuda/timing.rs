//! Times of kernels, for the benchmarks: launches are recorded into a graph, and the graph is
//! replayed between two events, so that what is timed is the device and not the host.

use std::cell::{Cell, RefCell};
use std::ptr;
use std::sync::Arc;
use std::time::Instant;

use cudarc::driver::sys;

use super::batch::{BatchFuser, DeviceBatch};
use super::driver::{Device, Event, Kernel, Stream};
use super::image::ImageEncoder;
use super::memory::DeviceBuffer;
use super::voxelize::{Voxelizer, upload_of};
use crate::backend::BackendError;
use crate::backend::batch::{BatchInput, BatchOutput};
use crate::config::{CloudSpec, ImageSpec};
use crate::decode::cloud::CloudView;
use crate::decode::image::ImageView;
use crate::dtype::DType;

/// Replays that are not counted: they load code and fill caches.
const WARM_UP: usize = 5;

/// Times of one case \[us\].
pub struct Times {
    /// Per call, of calls that follow each other: one replay each.
    pub each: Vec<f64>,
    /// The same where no call starts before the last one has ended.
    pub alone: Vec<f64>,
}

/// Times on one device.
pub struct Timer {
    stream: Stream,
    /// On which kernels do not overlap.
    alone: Stream,
    empty: Kernel,
    plain: Kernel,
}

impl Timer {
    /// For a device.
    pub fn new(device: &Arc<Device>) -> Result<Self, BackendError> {
        Ok(Timer {
            stream: Stream::new(device, false)?,
            alone: Stream::new(device, false)?.without_overlap(),
            empty: device.kernel("empty")?,
            plain: device.kernel("resample_plain_bf16")?,
        })
    }

    /// The stream that is timed.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Times `launches` calls, recorded as a graph, over `replays` replays: first without overlap,
    /// and then with it. `start_over` runs before the latter, so that what the calls leave behind
    /// is the work of those that overlapped.
    fn time(
        &self,
        launches: usize,
        replays: usize,
        mut launch: impl FnMut(usize, &Stream) -> Result<(), BackendError>,
        start_over: impl FnOnce() -> Result<(), BackendError>,
    ) -> Result<Times, BackendError> {
        let alone = time_on(&self.alone, launches, replays, &mut launch)?;
        start_over()?;
        Ok(Times { each: time_on(&self.stream, launches, replays, &mut launch)?, alone })
    }

    /// A kernel that does nothing.
    pub fn empty(&self, launches: usize, replays: usize) -> Result<Times, BackendError> {
        // SAFETY: the kernel takes no arguments.
        let launch = |_, on: &Stream| unsafe { self.empty.launch(on, 1, 32, &mut []) };
        self.time(launches, replays, launch, || Ok(()))
    }

    /// A batch, going round the `first` ones without overlap and then round the `second` ones,
    /// whose outputs so come from launches that overlapped alone.
    pub fn batch(
        &self,
        fuser: &BatchFuser,
        [first, second]: [&[DeviceBatch]; 2],
        launches: usize,
        replays: usize,
    ) -> Result<Times, BackendError> {
        let batches = Cell::new(first);
        let start_over = || {
            batches.set(second);
            second.iter().try_for_each(|batch| poison(fuser, batch, &self.stream))
        };
        let launch = |i: usize, on: &Stream| {
            let batches = batches.get();
            // SAFETY: the batches are borrowed until the last replay is done.
            unsafe { fuser.launch(&batches[i % batches.len()], on) }
        };
        self.time(launches, replays, launch, start_over)
    }

    /// The same by one thread per element, bf16 and linear, the first stream only.
    pub fn plain_batch(
        &self,
        fuser: &BatchFuser,
        [episodes, len, steps, dim]: [usize; 4],
        batches: &[DeviceBatch],
        launches: usize,
        replays: usize,
    ) -> Result<Times, BackendError> {
        let (mut len, mut dim, mut steps) = (len as u32, dim as u32, steps as u32);
        let mut elements = episodes as u64 * u64::from(steps) * u64::from(dim);
        let launch = |i: usize, on: &Stream| {
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
            unsafe { self.plain.launch(on, blocks, 256, arguments) }
        };
        let start_over = || batches.iter().try_for_each(|batch| poison(fuser, batch, &self.stream));
        self.time(launches, replays, launch, start_over)
    }

    /// Microseconds of a copy of `bytes` bytes from device memory to device memory. Not in a graph,
    /// where the driver copies more slowly.
    pub fn copy(&self, bytes: usize, repeats: usize) -> Result<Vec<f64>, BackendError> {
        let device = self.stream.device();
        let (from, to) = (DeviceBuffer::new(device, bytes)?, DeviceBuffer::new(device, bytes)?);
        let (start, end) = (Event::new(device, true)?, Event::new(device, true)?);
        let mut times = Vec::with_capacity(repeats);
        for repeat in 0..WARM_UP + repeats {
            start.record(&self.stream)?;
            // SAFETY: both live until the last copy is done, and nothing else uses them.
            unsafe { to.copy_on(&from, &self.stream)? };
            end.record(&self.stream)?;
            end.synchronize("time a copy")?;
            if repeat >= WARM_UP {
                times.push(end.microseconds_since(&start)?);
            }
        }
        Ok(times)
    }

    /// Clouds to rows, without their upload, going round `views` and [`CLOUD_SLOTS`] rows. With
    /// `scatter_only`, the points are added to the counts and no more. Returns the times
    /// and what the last row holds, or the counts.
    pub fn clouds(
        &self,
        spec: &CloudSpec,
        dtype: DType,
        views: &[CloudView<'_>],
        scatter_only: bool,
        replays: usize,
    ) -> Result<(Times, Vec<u8>), BackendError> {
        let device = self.stream.device();
        let new = || Voxelizer::new(device, spec, dtype, CLOUD_SLOTS);
        let voxelizer = RefCell::new(new()?);
        let volume: usize = spec.grid.shape.iter().product();
        let row_bytes = volume * spec.channels.len() * dtype.size();
        let pitch = row_bytes.next_multiple_of(super::ROW_ALIGNMENT);
        let rows = DeviceBuffer::new(device, pitch * CLOUD_SLOTS)?;
        let uploads = views.iter().map(|view| DeviceBuffer::from_bytes(device, &upload_of(view)));
        let uploads = uploads.collect::<Result<Vec<_>, _>>()?;
        let launch = |i: usize, on: &Stream| {
            let mut voxelizer = voxelizer.borrow_mut();
            let (at, slot) = (i % views.len(), i % CLOUD_SLOTS);
            let upload = uploads[at].address();
            if scatter_only {
                return voxelizer.launch_count(&views[at], upload, on);
            }
            let row = rows.address() + (slot * pitch) as u64;
            voxelizer.launch(&views[at], upload, (slot, row), true, on)
        };
        // A voxelizer knows which values its rows hold and clears no others, so that a row may not
        // be poisoned: it starts anew, and the rows as zeros, which is what a new one expects.
        let start_over = || {
            rows.clear()?;
            *voxelizer.borrow_mut() = new()?;
            Ok(())
        };
        let times = self.time(CLOUD_LAUNCHES, replays, launch, start_over)?;
        let last = (CLOUD_LAUNCHES - 1) % CLOUD_SLOTS;
        let mut all = vec![0; rows.len()];
        rows.read(&mut all)?;
        let row = all[last * pitch..][..row_bytes].to_vec();
        match scatter_only {
            false => Ok((times, row)),
            true => {
                let mut counts = vec![0; 4 * volume];
                voxelizer.borrow().counts().read(&mut counts)?;
                Ok((times, per_replay(&counts, (WARM_UP + replays) as u32)))
            }
        }
    }

    /// Upload and encoding of an image whose bytes are in pinned memory, on the host's clock.
    /// Returns the times and the row.
    pub fn image(
        &self,
        spec: &ImageSpec,
        dtype: DType,
        view: &ImageView<'_>,
        repeats: usize,
    ) -> Result<(Vec<f64>, Vec<u8>), BackendError> {
        let device = self.stream.device();
        let mut encoder = ImageEncoder::new(device, spec, dtype)?;
        let elements = spec.color.channels() * spec.width * spec.height;
        let row = DeviceBuffer::new(device, elements * dtype.size())?;
        encoder.encode(view, row.address(), &self.stream)?;
        self.stream.synchronize("encode an image")?;
        // What is compared is what the timed calls leave behind.
        row.clear()?;
        let times = on_the_clock(repeats, || {
            encoder.start(view, row.address(), &self.stream)?;
            self.stream.synchronize("encode an image")
        })?;
        let mut bytes = vec![0; row.len()];
        row.read(&mut bytes)?;
        Ok((times, bytes))
    }

    /// The same for a cloud.
    pub fn cloud(
        &self,
        spec: &CloudSpec,
        dtype: DType,
        view: &CloudView<'_>,
        repeats: usize,
    ) -> Result<(Vec<f64>, Vec<u8>), BackendError> {
        let device = self.stream.device();
        let mut voxelizer = Voxelizer::new(device, spec, dtype, 1)?;
        let elements = spec.channels.len() * spec.grid.shape.iter().product::<usize>();
        let row = DeviceBuffer::new(device, elements * dtype.size())?;
        voxelizer.encode(view, 0, row.address(), &self.stream)?;
        let start = || voxelizer.start(view, 0, row.address(), &self.stream).map(|_| ());
        let times = on_the_clock(repeats, start)?;
        let mut bytes = vec![0; row.len()];
        row.read(&mut bytes)?;
        Ok((times, bytes))
    }
}

/// Overwrites the data of a batch's output with bytes that no value has, so that what a launch does
/// not write shows. Validities and ages are left: fresh ones, invalid and of age 0, are no answer
/// either.
fn poison(fuser: &BatchFuser, batch: &DeviceBatch, stream: &Stream) -> Result<(), BackendError> {
    // A download is no longer than the memory that it is read from.
    let len = fuser.download(batch)?.data.len();
    let [.., data] = batch.addresses();
    stream.synchronize("finish earlier batches")?;
    stream.device().at_once("poison an output", |on| {
        // SAFETY: `len` bytes of the batch, which is borrowed; it is waited for.
        unsafe { sys::cuMemsetD8Async(data, 0xAB, len, on) }
    })
}

/// Resamples all of `turns` on one stream, with no wait between them, and returns their outputs:
/// whether overlapping launches get in each other's way, for the tests.
///
/// # Panics
/// When an input does not fit the spec of its fuser.
pub fn batches_in_a_row(
    device: &Arc<Device>,
    turns: &[(&BatchFuser, &BatchInput<'_>)],
) -> Result<Vec<BatchOutput>, BackendError> {
    let stream = Stream::new(device, false)?;
    let batches = turns.iter().map(|(fuser, input)| fuser.upload(input, true));
    let batches = batches.collect::<Result<Vec<_>, _>>()?;
    let all = || turns.iter().map(|(fuser, _)| *fuser).zip(&batches);
    // The first round loads the kernels, so that nothing holds up the launches that count.
    for _ in 0..2 {
        all().try_for_each(|(fuser, batch)| poison(fuser, batch, &stream))?;
        // SAFETY: each batch is of its fuser; they stay until the stream was waited for, below.
        let launched = all().try_for_each(|(fuser, batch)| unsafe { fuser.launch(batch, &stream) });
        stream.synchronize("resample")?;
        launched?;
    }
    all().map(|(fuser, batch)| fuser.download(batch)).collect()
}

/// Microseconds per launch, for each of `replays` replays of a graph of `launches`.
fn time_on(
    stream: &Stream,
    launches: usize,
    replays: usize,
    launch: &mut impl FnMut(usize, &Stream) -> Result<(), BackendError>,
) -> Result<Vec<f64>, BackendError> {
    let device = stream.device();
    let graph = stream.capture(|| (0..launches).try_for_each(|i| launch(i, stream)))?;
    let (start, end) = (Event::new(device, true)?, Event::new(device, true)?);
    let mut times = Vec::with_capacity(replays);
    for replay in 0..WARM_UP + replays {
        start.record(stream)?;
        // SAFETY: whoever calls this borrows what is recorded until it returns.
        unsafe { graph.launch(stream)? };
        end.record(stream)?;
        end.synchronize("time a graph")?;
        if replay >= WARM_UP {
            times.push(end.microseconds_since(&start)? / launches as f64);
        }
    }
    Ok(times)
}

/// Counts that grew with every replay, for one of them; one that did not becomes `u32::MAX`.
fn per_replay(counts: &[u8], replays: u32) -> Vec<u8> {
    let one = |bytes: &[u8; 4]| match u32::from_ne_bytes(*bytes) {
        count if count.is_multiple_of(replays) => count / replays,
        _ => u32::MAX,
    };
    counts.as_chunks::<4>().0.iter().flat_map(|bytes| one(bytes).to_ne_bytes()).collect()
}

/// Rows that clouds go round when they are timed.
pub const CLOUD_SLOTS: usize = 4;

/// Launches in a graph of clouds: a multiple of the number of rows, and an even one, as the marks of
/// bins take turns.
pub const CLOUD_LAUNCHES: usize = CLOUD_SLOTS * (CLOUD_SLOTS + 1);

/// Microseconds of each of `repeats` calls, after some that are not counted.
fn on_the_clock(
    repeats: usize,
    mut call: impl FnMut() -> Result<(), BackendError>,
) -> Result<Vec<f64>, BackendError> {
    let mut times = Vec::with_capacity(repeats);
    for repeat in 0..WARM_UP + repeats {
        let start = Instant::now();
        call()?;
        if repeat >= WARM_UP {
            times.push(start.elapsed().as_secs_f64() * 1e6);
        }
    }
    Ok(times)
}
